"""The live half: what asks the machine while the engine runs, and never hangs or slows it.

- `session` polls `sources`, keeps a `window` and asks the rules.
- `nvml*`: NVML in a process of its own. `nvml` is the source; `nvml_child`, `nvml_device` and
  `nvml_wait` run in the child; `nvml_calls` is the list of calls; `wire` is what the two say, and
  `nvml_messages` makes events of it.
- `front*` and `relay*`: the processes round an engine under `gpuprobe run`; `engine_*` is the
  engine as its probe sees it, `policy` decides on a start anew.
- `presence`: is a GPU still there, without its driver. `board`, `once`, `metrics`: for views.
"""
