"""The live half: what asks the machine while the engine runs, and never hangs or slows it.

- `session` polls `sources`, keeps a `window` and asks the rules.
- `nvml`: NVML in a process of its own, `nvml_child`.
- `engine`: the processes round an engine under `gpuprobe run`, and the engine as its probe sees it.
- `presence`: is a GPU still there, without its driver. `board`, `once`, `metrics`: for views.
"""
