"""The report to attach to an issue: what it holds, as plain values that the reporters show.

- `gathering` reads and judges, and has the parts made: `facts`, `incident`, `telemetry`,
  `questions`, `comparing`; `contents` says what a report is, `saved` what judges it again.
- `drawing` makes plots: `panels` of `panel_specs`, from `plot_tables`.
- `writing` puts it into files, in the form that the suffix names (`forms`).
"""
