"""Recordings: what was observed, in one SQLite file that survives a crash and a power cut.

- Written by `writer`, a thread: `rows` makes rows, `pending` keeps them, `due` says when, `store`
  writes; `schema` has the tables, `codec` the events, `secrets` masks what must not be stored.
- Read by `opening` and `tables`; `evidence` is what rules see of it, `frames` and `reader` are for
  pandas, `replay` plays it as a live source.
- `places` says where recordings lie, `own` which of them bear on an incident.
"""
