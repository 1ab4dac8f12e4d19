"""The report to attach to an issue: what it holds, as plain values that the reporters show."""
