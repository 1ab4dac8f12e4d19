"""NVML in a process of its own, `gpuprobe.live.nvml_child`: nothing else imports pynvml.

- Its parent: `probe` is the source, `process` starts and lets go, `messages` and `rows` make events
  of what comes (`driver_samples` later than that), `stall` sees a call that hangs; `snapshot`
  reads everything once.
- The child: `device` and `wait` are its threads; `plan`, `block` and `quick` make the calls.
- Both: `calls` is the list of calls, `wire` what the two say. `ask` is a script of its own.
"""
