"""Recordings: what was observed, in one SQLite file that survives a crash and a power cut."""
