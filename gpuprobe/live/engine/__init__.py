"""The engine of `gpuprobe run`: the processes round it, its output, its deaths, its next start.

- `front*` and `relay*`: standard library alone, so that nothing of the probe can end them.
- `process`, `gpus`, `deaths`, `notes`: the engine as its probe sees it; `watch` says when there is
  something to tell.
- `policy` decides on a start anew, `cache_check` heals a JIT cache before it, `loss_command` runs
  what a user asked for, `container_client` knows commands that only ask for a container.
"""
