"""Fuzzing: what reads strangers' bytes, each part with its own target."""
