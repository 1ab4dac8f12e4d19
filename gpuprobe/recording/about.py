"""What a maintainer asks first: the machine, the engine, their versions. Nothing secret.

Everything here reads files; nothing is imported, run or asked of a driver. What cannot be read is
left out.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from gpuprobe.recording import secrets
from gpuprobe.recording.rows import clean

TEXT_LIMIT: Final = 4096

PACKAGES: Final = frozenset(
    [
        "accelerate",
        "bitsandbytes",
        "cupy",
        "cupy-cuda12x",
        "cupy-cuda13x",
        "deep-gemm",
        "deepspeed",
        "exllamav2",
        "flash-attn",
        "flashinfer",
        "flashinfer-python",
        "gpuprobe",
        "jax",
        "jax-cuda12-plugin",
        "jaxlib",
        "llama-cpp-python",
        "lmdeploy",
        "megatron-core",
        "mlc-llm",
        "nccl",
        "numba",
        "numpy",
        "nvidia-cublas-cu12",
        "nvidia-cuda-runtime",
        "nvidia-cuda-runtime-cu12",
        "nvidia-cudnn-cu12",
        "nvidia-ml-py",
        "nvidia-nccl-cu12",
        "onnxruntime-gpu",
        "ray",
        "sglang",
        "sgl-kernel",
        "tensorflow",
        "tensorrt",
        "tensorrt-llm",
        "tilelang",
        "torch",
        "transformer-engine",
        "transformers",
        "triton",
        "vllm",
        "xformers",
    ]
)
"""Whose versions are told."""

ENV_NAMES: Final = frozenset(
    [
        "CUDA_CACHE_DISABLE",
        "CUDA_CACHE_PATH",
        "CUDA_COREDUMP_FILE",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA_DEVICE_ORDER",
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
        "CUDA_ENABLE_USER_TRIGGERED_COREDUMP",
        "CUDA_FORCE_PTX_JIT",
        "CUDA_HOME",
        "CUDA_INJECTION64_PATH",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_MODULE_LOADING",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        "CUDA_MPS_PIPE_DIRECTORY",
        "CUDA_VERSION",
        "CUDA_VISIBLE_DEVICES",
        "DG_JIT_CACHE_DIR",
        "HF_HOME",
        "HF_HUB_CACHE",
        "HF_HUB_OFFLINE",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LOCAL_RANK",
        "NVIDIA_TF32_OVERRIDE",
        "NVIDIA_VISIBLE_DEVICES",
        "OMP_NUM_THREADS",
        "RANK",
        "TRANSFORMERS_CACHE",
        "TRANSFORMERS_OFFLINE",
        "WORLD_SIZE",
        "XDG_CACHE_HOME",
    ]
)
ENV_PREFIXES: Final = (
    "CUBLAS_", "CUBLASLT_", "CUDNN_", "FLASHINFER_", "GGML_", "GLOO_", "JAX_", "LLAMA_", "NCCL_",
    "NVSHMEM_", "NVTE_", "OLLAMA_", "PYTORCH_", "SGLANG_", "SGL_", "TF_CPP_", "TF_CUDA",
    "TF_CUDNN_", "TF_DETERMINISTIC_", "TF_ENABLE_", "TF_FORCE_", "TF_GPU_", "TF_NUM_", "TF_XLA_",
    "TILELANG_", "TORCH", "TRITON_", "VLLM_", "XLA_",
)  # fmt: skip
"""Variables that are told; never one whose name speaks of a key or a token. TensorFlow shares
`TF_` with Terraform, whose `TF_VAR_…` hold passwords under any name. Of those that begin with
`CUDA_` and `NVIDIA_`, images set many that say nothing of a run (`NVIDIA_REQUIRE_CUDA`)."""

ENV_LENGTH: Final = 200
"""Characters of a variable's value that are told."""

_DMI: Final = {
    "machine": ("sys_vendor", "product_name"),
    "board": ("board_vendor", "board_name"),
    "bios": ("bios_vendor", "bios_version", "bios_date"),
}


def of_machine(root: Path = Path("/")) -> dict[str, str]:
    """Kernel, boot, processor, memory, board and driver, as far as they can be read.

    Keys: `hostname`, `boot-id`, `kernel`, `boot-line`, `os`, `cpu`, `cpus`, `memory-bytes`,
    `machine`, `board`, `bios`, `container`, `driver`.

    Args:
        root: Where /proc, /sys and /etc are looked for.
    """
    proc = root / "proc"
    found = {
        "hostname": _text(proc / "sys/kernel/hostname"),
        "boot-id": _text(proc / "sys/kernel/random/boot_id"),
        "kernel": _text(proc / "version"),
        "boot-line": boot_line(secrets.mask_text(_text(proc / "cmdline"))),
        "os": _value(root / "etc/os-release", "PRETTY_NAME", "=").strip('"'),
        "cpu": _value(proc / "cpuinfo", "model name", ":"),
        "cpus": _count(proc / "cpuinfo", "processor"),
        "memory-bytes": _kib(_value(proc / "meminfo", "MemTotal", ":")),
        "container": _container(root),
        "driver": _text(proc / "driver/nvidia/version").partition("\n")[0].strip(),
    }
    for key, names in _DMI.items():
        found[key] = " ".join(_text(root / "sys/class/dmi/id" / name) for name in names).strip()
    return {key: clean(value)[:TEXT_LIMIT] for key, value in found.items() if value}


def of_engine(
    argv: Sequence[str], env: Mapping[str, str], pid: int | None = None, *, here: bool = True
) -> dict[str, str]:
    """The engine's command line, without secrets, what matters of its environment, versions.

    Keys: `engine.argv` (JSON), `engine.command`, `engine.pid`, `engine.cwd`, `engine.python`,
    `engine.python-version`, `engine.env.NAME`, `engine.version.PACKAGE`.

    Args:
        argv: Its command line.
        env: Its environment; names that are not on a list are left out.
        pid: Its process, where it runs.
        here: It runs in this process's file system. In another one the same names lead elsewhere:
            its folder and its packages are left out.
    """
    shown = secrets.mask_argv(argv)
    found = {"engine.argv": json.dumps(shown), "engine.command": shlex.join(shown)}
    cwd = ""
    if here:
        with contextlib.suppress(OSError):
            cwd = str(Path(f"/proc/{pid}/cwd").readlink() if pid is not None else Path.cwd())
    if pid is not None:
        found["engine.pid"] = str(pid)
    found["engine.cwd"] = cwd
    for name, value in sorted(env.items()):
        if is_told(name):
            found[f"engine.env.{name}"] = shortened(secrets.mask_text(value))
    folders, python = _site_packages(argv, env, cwd, pid) if here else ([], "")
    if python:
        found["engine.python"] = python
    for folder in folders:
        if folder.parent.name.startswith("python3."):
            found.setdefault("engine.python-version", folder.parent.name.removeprefix("python"))
    for name, version in sorted(_versions(folders)):
        found.setdefault(f"engine.version.{name}", version)
    return {key: clean(value)[:TEXT_LIMIT] for key, value in found.items() if value}


def is_told(name: str) -> bool:
    """Whether a variable of this name is told of an engine."""
    wanted = name in ENV_NAMES or name.startswith(ENV_PREFIXES)
    return wanted and not secrets.is_secret_name(name)


def shortened(value: str) -> str:
    """A variable's value, cut where it is long."""
    return value if len(value) <= ENV_LENGTH else value[: ENV_LENGTH - 1] + "…"


def boot_line(text: str) -> str:
    """The kernel's own parameters: what stands behind ` -- ` goes to init and is not shown."""
    return f"{text} ".partition(" -- ")[0].strip()


# --- the machine -----------------------------------------------------------------------------


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(64 << 10).decode("utf-8", "replace").replace("\0", "").strip()
    except OSError:
        return ""


def _value(path: Path, name: str, mark: str) -> str:
    for line in _text(path).splitlines():
        key, found, value = line.partition(mark)
        if found and key.strip() == name:
            return value.strip()
    return ""


def _count(path: Path, name: str) -> str:
    try:
        with path.open("rb") as file:
            number = sum(line.startswith(name.encode()) for line in file)
    except OSError:
        return ""
    return str(number or "")


def _kib(text: str) -> str:
    words = text.split()
    return str(int(words[0]) * 1024) if words and words[0].isdecimal() else ""


def _container(root: Path) -> str:
    for path, name in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        if (root / path).exists():
            return name
    named = _text(root / "run/systemd/container")
    groups = _text(root / "proc/1/cgroup") if not named else ""
    return named or ("kubernetes" if "kubepods" in groups else "")


# --- the engine ------------------------------------------------------------------------------


def _site_packages(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, pid: int | None
) -> tuple[list[Path], str]:
    """Where the engine's Python keeps its packages, and that Python."""
    # A program that starts the engine may stand before it: env, numactl, nsys.
    for word in argv[:12]:
        program = _which(word, env, cwd)
        python = program and _python_of(program, env, cwd)
        folders = _folders(Path(python)) if python else []
        if folders:
            return folders, str(python)
    with contextlib.suppress(OSError):
        running = str(Path(f"/proc/{pid}/exe").readlink()) if pid is not None else ""
        if "python" in Path(running).name:
            return _folders(Path(running)), running
    return [], ""


def _which(word: str, env: Mapping[str, str], cwd: str) -> Path | None:
    if not word or word.startswith("-") or "\0" in word:
        return None
    places = [Path(cwd)] if "/" in word else map(Path, env.get("PATH", "").split(os.pathsep))
    for place in places:
        path = place / word
        with contextlib.suppress(OSError):
            if path.is_file() and os.access(path, os.X_OK):
                return path
    return None


def _python_of(program: Path, env: Mapping[str, str], cwd: str) -> Path | None:
    """A Python by its name, or the one that the first line of a script names."""
    if program.name.startswith("python"):
        return program
    try:
        with program.open("rb") as file:
            line = file.readline(300)
    except OSError:
        return None
    words = line[2:].decode("utf-8", "replace").split() if line.startswith(b"#!") else []
    for word in words:
        if Path(word).name.startswith("python"):
            return Path(word) if word.startswith("/") else _which(word, env, cwd)
    return None


def _folders(python: Path) -> list[Path]:
    """Of a virtual environment its own packages; else of the installation it belongs to."""
    found: list[Path] = []
    real = python.resolve()
    for prefix in dict.fromkeys((python.parent.parent, real.parent.parent)):
        for pattern in ("lib*/python3*/site-packages", "lib*/python3*/dist-packages"):
            found.extend(sorted(prefix.glob(pattern)))
        if prefix == Path("/usr"):
            found.extend(sorted(Path("/usr/local/lib").glob("python3*/dist-packages")))
        if (prefix / "pyvenv.cfg").is_file():
            break
    return found


def _versions(folders: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Packages and versions, by the names of their `.dist-info` folders."""
    for folder in folders:
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder):
                stem, found, _ = entry.name.partition(".dist-info")
                name, _, version = stem.partition("-")
                name = name.lower().replace("_", "-")
                if found and version and name in PACKAGES:
                    yield name, version
