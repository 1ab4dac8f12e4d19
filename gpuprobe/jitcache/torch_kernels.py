"""PyTorch's own run-time compiled kernels (JITerator): a file a kernel, cubin or PTX."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuprobe.jitcache import content, elf
from gpuprobe.jitcache.base import FileKind, Harm, Place, Problem, Where, chosen
from gpuprobe.jitcache.tree import Folder


class TorchKernels(FileKind):
    """PyTorch's JITerator cache."""

    cache = "torch-kernels"

    def places(self, where: Where) -> Iterable[Place]:
        """See `Kind.places`."""
        return chosen(where, self.cache, "PYTORCH_KERNEL_CACHE_PATH", ".cache/torch/kernels")

    def files(self, folder: Folder) -> Iterable[str]:
        """See `Kind.files`."""
        marked = [name for name in folder.items if "_arch" in name and "_nvrtc" in name]
        return [name for name in marked if name.endswith(("_ptx", "_sass")) or "_ptx_" in name
                or "_sass_" in name]  # fmt: skip

    def check(self, folder: Folder, name: str = "") -> Iterator[Problem]:
        """See `Kind.check`."""
        with folder.open(name) as file:
            if file.at(0, 4) == b"\x7fELF":
                fault = elf.check(file, elf.CUDA)
                why = fault.why if fault else None
                expected = fault.expected if fault else None
            else:
                why, expected = content.text(file), None
                tail = file.at(max(0, file.size - 64), 64).rstrip(b" \r\n\t\0")
                if why is None and file.at(0, 2) in (b"//", b".v") and not tail.endswith(b"}"):
                    why = f"is cut short after {file.size} bytes"
        if why is not None:
            kernel = name.partition("_arch")[0]
            yield Problem(name, why, Harm.FATAL, kernel=kernel, expected=expected)
