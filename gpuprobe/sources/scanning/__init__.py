"""The first pass over an input: which stretches and lines are worth reading slowly."""
