"""Where events come from: inputs, their framing and their wording.

- Saved: `files` opens paths, `lines` cuts, `framing` takes prefixes off, `wording` reads messages,
  `setting` says what the words around prove; `ingest` puts it together, `scanning` makes it fast.
- Live: `kernel_log`, `pci`, `host`, and `following` for programs that run already; each is a
  `base.Source`. `output` and `line_reader` read what a program writes as a saved log is read.
"""
