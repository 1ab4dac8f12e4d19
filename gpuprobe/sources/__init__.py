"""Where events come from: inputs, their framing and their wording.

- Saved: `inputs` opens paths, `lines` cuts, `framing` takes prefixes off, `wording` reads messages,
  `setting` says what the words around prove; `ingest` puts it together, `scan` makes it fast.
- Live: `kernel_log`, `sysfs`, `udev`, `host`, and `follow_*` for programs that run already; each is
  a `base.Source`. `output` and `line_reader` read what a program writes as a saved log is read.
"""
