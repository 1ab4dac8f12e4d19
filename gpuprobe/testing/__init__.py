"""Fakes for tests, ours and those of programs that embed gpuprobe. No GPU, no root.

- `FakeNvml`: a scripted `libnvidia-ml.so.1`, used through the real pynvml. Needs a C compiler.
- `FakeSysfs`: a /sys and /proc tree with GPUs below their bridges.
- `FilesOpened`: which files were opened meanwhile, to prove that a sleeping GPU was left alone.

`docs/testing.md` shows each at work.
"""

from gpuprobe.testing.nvml import FakeNvml, NoCompilerError, why_unavailable
from gpuprobe.testing.opened import FilesOpened
from gpuprobe.testing.sysfs import FakeSysfs

__all__ = ["FakeNvml", "FakeSysfs", "FilesOpened", "NoCompilerError", "why_unavailable"]
