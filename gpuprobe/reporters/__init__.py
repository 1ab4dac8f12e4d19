"""What was found, shown: each module renders values that others made, and judges nothing.

- A diagnosis: `terminal`, `json`, `markdown`; `engine` for the few lines at the end of a run.
- A report to attach: `report_markdown`, `report_html`, `report_json`, and `bundle` for the ZIP.
- A check, a history, a look at caches: `check_text`, `history`, `jitcache_text` and their `_json`.
- What goes on now: `live`, `once`, `event_lines`.
- Nothing hostile or private gets out: `plain` takes controls from what is shown of a log, `redact`
  puts pseudonyms for what identifies.

The `*.schema.json` are the contracts of the JSON forms.
"""
