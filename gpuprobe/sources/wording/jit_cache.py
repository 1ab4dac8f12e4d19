"""Files of JIT caches that could not be read or used.

The line that decides (a parser's or loader's exception) says nothing about a cache; the frames
around it do. So each pattern is anchored on the exception and looks back for the frames, and a few
lines ahead, since people also quote the exception first and the place after it.
"""

from __future__ import annotations

import re

from gpuprobe.events import JitCacheFailed
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading
from gpuprobe.sources.wording.surroundings import TRACEBACK

_AHEAD = 3
_KEY = regex(r"(?<![A-Z2-7])(?P<key>[A-Z2-7]{52})(?![A-Z2-7])")
_PATH = regex(
    r"(?P<path>(?:(?<![\w~/.])~?/|\b[A-Z]:\\)[^\s'\":,;]{0,300}?[A-Z2-7]{52}(?:[/\\][^\s'\":,;)]*)?)"
)
_PLACE = regex(
    r"(?P<path>(?<![\w~/.])~?/[^\s'\":,;]{0,200}?(?:torchinductor_\w+|torch_compile_cache|torch_aot_compile|cached_ops|torch_extensions|\.?deep_gemm|\.tilelang)/[^\s'\":,;)]{1,300})"
)
# A file of a cache without keys, as a frame or a message names it.
_GET_GROUP = regex(
    r"triton[/\\]runtime[/\\]cache\.py\b.{0,40}?\bget_group\b|\bfn_cache_manager\.get_group\("
)
_METADATA = regex(r"triton[/\\]compiler[/\\]compiler\.py\b.{0,40}?\b__init__\b")
_AUTOTUNE = regex(r"triton[/\\]runtime[/\\]autotuner\.py\b")
_LOADING = regex(
    r"triton[/\\]compiler[/\\]compiler\.py|\b_init_handles\b|\bload_binary\b|triton[/\\]runtime[/\\]jit\.py"
)
# Which cache a path or a frame belongs to; Inductor and vLLM hold a Triton cache, so they are last.
_CACHES = tuple(
    (regex(text), name)
    for text, name in (
        (r"torch_extensions", "torch-extensions"),
        (r"deep_gemm", "deepgemm"),
        (r"\.?tilelang", "tilelang"),
        (r"flashinfer", "flashinfer"),
        (r"numba[/\\]core[/\\]caching\.py|\.nb[ic]\b", "numba"),
        (r"jax[/\\]_src[/\\](?:lru_cache|compil\w+)\.py|jax_compilation_cache", "jax"),
        (r"\.triton[/\\]cache|triton[/\\]runtime[/\\]cache\.py|__triton_launcher|[/\\]triton[/\\](?:\d+[/\\])?[A-Z2-7]{52}", "triton"),
        (r"vllm[/\\]compilation[/\\]|torch_compile_cache|torch_aot_compile", "vllm"),
        (r"torch[/\\]_inductor[/\\]|torchinductor_", "inductor"),
        (r"ComputeCache", "cuda"),
    )
)  # fmt: skip


def _around(window: Window) -> list[str]:
    """The window's text and the lines of the same traceback, nearest first."""
    lines = [window.text, window.record.message]
    for record in window.before(Window.REACH):
        lines.append(record.message)
        if TRACEBACK in record.message:
            break
    for record in window.after(_AHEAD):
        if TRACEBACK in record.message:
            break
        lines.append(record.message)
    return lines


def _cache_of(lines: list[str]) -> str | None:
    for line in lines:
        for text, name in _CACHES:
            if text.search(line):
                return name
    return None


def _named_file(lines: list[str]) -> str:
    for line in lines:
        place = _PLACE.search(line)
        if place is not None and "site-packages" not in place["path"]:
            return place["path"].rstrip(".")
    return ""


def _failed(
    window: Window, cache: str, why: str, *, fatal: bool = True, sure: bool = True, path: str = ""
) -> JitCacheFailed:
    """The event, with path and key as far as the lines around name them."""
    key = ""
    for line in [path, *_around(window)]:
        named = _KEY.search(line)
        if named is not None:
            key = named["key"]
            place = _PATH.search(line)
            path = path or (place["path"] if place else "")
            break
    if not path and cache != "triton":
        # Frames of generated code stand in the tracebacks of Triton's faults too.
        path = _named_file(_around(window))
    return JitCacheFailed(
        **window.base(), cache=cache, why=why, path=path, key=key, fatal=fatal, sure=sure
    )


def _read_json(match: re.Match[str], window: Window) -> Reading:
    lines = _around(window)
    blank = "line 1 column 1 (char 0)" in match.string[match.start() :]
    state = "is empty or filled with zeros" if blank else "is cut short or damaged"
    for text, file in (
        (_GET_GROUP, "the group file (__grp__*.json)"),
        (_METADATA, "the kernel's metadata file (.json)"),
        (_AUTOTUNE, "the autotune file (.autotune.json)"),
    ):
        if any(text.search(line) for line in lines):
            return _failed(window, "triton", f"{file} {state}")
    cache = _cache_of(lines)
    if cache is None and "InductorError: JSON" in match.string:
        cache = "inductor"
    if cache is None or cache == "triton":
        # A frame of Triton alone is in most tracebacks of models; it must be the cache's.
        return None
    return _failed(window, cache, f"a JSON file of the cache {state}", sure=False)


def _read_unknown_key(match: re.Match[str], window: Window) -> Reading:
    return _failed(window, "triton", f"the .{match['child']} that the group file lists is missing")


def _read_invalid_image(match: re.Match[str], window: Window) -> Reading:
    lines = _around(window)
    cache = _cache_of(lines)
    loading = any(_LOADING.search(line) for line in lines)
    if match["triton"] or loading:
        cache = "triton"
    if cache not in {"triton", "deepgemm", "tilelang", "flashinfer"}:
        return None
    why = "the driver refuses the cached kernel: damaged, or built for another architecture"
    return _failed(window, cache, why, sure=loading or cache != "triton")


def _read_module(match: re.Match[str], window: Window) -> Reading:
    why = f"{match['module']} could not be loaded and is built again"
    return _failed(window, "triton", why, fatal=False)


def _read_pickle(match: re.Match[str], window: Window) -> Reading:
    # What Inductor raises in its own name it did not get over.
    raised = "InductorError: " in match.string
    cache = "inductor" if raised else _cache_of(_around(window))
    if cache not in {"inductor", "vllm", "numba", "jax"}:
        return None
    warned = not raised and any(
        "unable to load" in record.message for record in window.before(Window.REACH)
    )
    return _failed(window, cache, "a pickled entry is empty or cut short", fatal=not warned)


def _read_inductor(match: re.Match[str], window: Window) -> Reading:
    return _failed(window, "inductor", "a compiled graph could not be loaded", fatal=False)


def _read_vllm_hash(match: re.Match[str], window: Window) -> Reading:
    return _failed(window, "vllm", "the compiled graph's hash is missing from the cache")


def _read_vllm_aot(match: re.Match[str], window: Window) -> Reading:
    path = match["path"].rstrip(".,;:'\"") if match["path"] else ""
    why = "the ahead-of-time compiled model could not be loaded and is built again"
    return _failed(window, "vllm", why, fatal=False, path=path)


def _read_library(match: re.Match[str], window: Window) -> Reading:
    path = match["path"]
    cache = _cache_of([path])
    if cache is None:
        # A broken library outside a cache is a broken installation.
        return None
    return _failed(window, cache, f"shared library: {match['fault']}", path=path)


def _read_missing(match: re.Match[str], window: Window) -> Reading:
    path = match["path"] or match["library"]
    cache = _cache_of([path])
    if cache is None:
        return None
    why = "a file of the entry is missing"
    return _failed(window, cache, why, sure=False, path=path)


def _read_text(match: re.Match[str], window: Window) -> Reading:
    """Bytes that are no text where a cache's own file is read."""
    lines = _around(window)
    group = any(_GET_GROUP.search(line) for line in lines)
    loader = any(re.search(r"codecache\.py|compilation[/\\]compiler_interface", t) for t in lines)
    if not group and not loader:
        return None
    cache = "triton" if group else _cache_of(lines)
    if cache is None:
        return None
    return _failed(window, cache, "a cached file holds bytes that are no text", sure=group)


def _read_dll(match: re.Match[str], window: Window) -> Reading:
    return _failed(window, "triton", f"{match['module']} could not be loaded", sure=False)


def _read_jax(match: re.Match[str], window: Window) -> Reading:
    return JitCacheFailed(
        **window.base(),
        cache="jax",
        why="a compiled program could not be read",
        key=match["entry"] or "",
        fatal=False,
    )


FAMILY = Family(
    "jit_cache",
    (
        Pattern(
            id="jit-json",
            needles=("JSONDecodeError: ",),
            regex=regex(r"JSONDecodeError: (?P<said>[^\n]*)"),
            read=_read_json,
            examples=(
                "  File \"/opt/env/lib/python3.11/site-packages/triton/runtime/cache.py\", line 81, in get_group\n    grp_data = json.load(f)\njson.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
                "json.decoder.JSONDecodeError: Unterminated string starting at: line 1 column 90 (char 89)\n... in triton/runtime/cache.py, get_group",
                "  File \"/opt/env/lib/python3.12/site-packages/triton/compiler/compiler.py\", line 411, in __init__\n    metadata = json.loads(metadata_path.read_text())\njson.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            ),
            near=(
                "  File \"/srv/app/client.py\", line 12, in fetch\n    return json.loads(body)\njson.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            ),
            source="triton 3.6 runtime/cache.py, compiler/compiler.py, tried on damaged entries",
        ),
        Pattern(
            id="jit-missing-child",
            needles=("Unknown key: '",),
            regex=regex(r"Unknown key: '(?P<child>cubin|hsaco|ptx|amdgcn|ttir|ttgir|llir)'"),
            read=_read_unknown_key,
            examples=("KeyError: \"Unknown key: 'cubin'\"",),
            near=("raise KeyError(\"Unknown key: '%s'\" % key)", "Unknown key: 'rope_scaling'"),
            source="triton 3.6 compiler/compiler.py",
        ),
        Pattern(
            id="jit-invalid-image",
            needles=("device kernel image is invalid", "CUDA_ERROR_INVALID_IMAGE", "Triton Error [CUDA]: a PTX JIT compilation failed"),
            regex=regex(
                r"(?P<triton>Triton Error \[CUDA\]: )?(?:device kernel image is invalid|CUDA_ERROR_INVALID_IMAGE)|(?:Triton Error \[CUDA\]: a PTX JIT compilation failed)"
            ),
            read=_read_invalid_image,
            examples=("RuntimeError: Triton Error [CUDA]: device kernel image is invalid",),
            near=("RuntimeError: CUDA error: device kernel image is invalid",),
            source="triton 3.6, tried on damaged entries",
        ),
        Pattern(
            id="jit-triton-module",
            needles=("Triton cache error: compiled module",),
            regex=regex(r"Triton cache error: compiled module (?P<module>\S+) could not be loaded"),
            read=_read_module,
            examples=("Triton cache error: compiled module cuda_utils.so could not be loaded",),
            source="triton 3.6 runtime/build.py",
        ),
        Pattern(
            id="jit-pickle",
            needles=("EOFError", "pickle data was truncated", "UnpicklingError: invalid load key", "failed finding central directory"),
            regex=regex(
                r"\bEOFError(?:: Ran out of input)?|pickle data was truncated|UnpicklingError: invalid load key|failed finding central directory"
            ),
            read=_read_pickle,
            examples=(
                "  File \"/opt/env/lib/python3.11/site-packages/numba/core/caching.py\", line 487, in _load_index\n    version = pickle.load(f)\nEOFError: Ran out of input",
                "[rank0]: torch._inductor.exc.InductorError: EOFError: Ran out of input",
                "  File \"/opt/env/lib/python3.12/site-packages/torch/_inductor/codecache.py\", line 1055, in iterate_over_candidates\n    return pickle.loads(content)\n_pickle.UnpicklingError: pickle data was truncated",
            ),
            near=(
                "EOFError: EOF when reading a line",
                '  File "/opt/env/lib/python3.11/site-packages/torch/serialization.py", line 1040, in _legacy_load\n    magic_number = pickle_module.load(f)\n_pickle.UnpicklingError: invalid load key, \'v\'.',
            ),
            source="torch _inductor/codecache.py, numba core/caching.py",
        ),
        Pattern(
            id="jit-inductor-graph",
            needles=("fx graph cache unable to load",),
            regex=regex(r"fx graph cache unable to load"),
            read=_read_inductor,
            examples=("W0611 10:00:00.1 77 torch/_inductor/codecache.py:1059] fx graph cache unable to load compiled graph",),
            source="torch _inductor/codecache.py",
        ),
        Pattern(
            id="jit-vllm-hash",
            needles=("to get the hash of the compiled graph",),
            regex=regex(r"[Ff]ailed to get the hash of the compiled graph"),
            read=_read_vllm_hash,
            examples=("AssertionError: failed to get the hash of the compiled graph",),
            source="vLLM compilation/compiler_interface.py",
        ),
        Pattern(
            id="jit-vllm-aot",
            needles=("annot load aot compilation",),
            regex=regex(r"[Cc]annot load aot compilation(?: from path (?P<path>\S+))?"),
            read=_read_vllm_aot,
            examples=("WARNING 03-08 12:01:02 [decorators.py:401] Cannot load aot compilation from path /home/svc/.cache/vllm/torch_compile_cache/torch_aot_compile/0aa1/rank_0_0/model, error: Ran out of input",),
            source="vLLM compilation/decorators.py",
        ),
        Pattern(
            id="jit-library",
            needles=(": file too short", ": invalid ELF header", ": cannot read file data"),
            regex=regex(
                r"(?P<path>(?<![\w~/.])~?/[^\s'\":]{1,400}\.so(?:\.\d+)*): (?P<fault>file too short|invalid ELF header|cannot read file data)"
            ),
            read=_read_library,
            examples=(
                "ImportError: /home/svc/.cache/torch_extensions/py311_cu124/fused_adam/fused_adam.so: file too short",
                "OSError: /home/svc/.cache/flashinfer/0.2.5/90a/cached_ops/silu_and_mul/silu_and_mul.so: invalid ELF header",
            ),
            near=("ImportError: /usr/lib/libfoo.so: file too short",),
            source="glibc dlopen, tried on cut libraries",
        ),
        Pattern(
            id="jit-missing-file",
            needles=("FileNotFoundError: ", "cannot open shared object file"),
            regex=regex(
                r"FileNotFoundError: \[Errno 2\] No such file or directory: ['\"](?P<path>[^'\"\n]{1,400}\.(?:json|cubin|so|ptx|py|ttir|ttgir|llir|hsaco)[\w.]*)['\"]"
                r"|ImportError: (?P<library>(?<![\w~/.])~?/[^\s'\":]{1,400}\.so): cannot open shared object file: No such"
            ),
            read=_read_missing,
            examples=(
                "FileNotFoundError: [Errno 2] No such file or directory: '/home/svc/.triton/cache/Q2XTN7/_attn_fwd.json'",
                "ImportError: /home/svc/.cache/torch_extensions/py311_cu124/fused_adam/fused_adam.so: cannot open shared object file: No such file or directory",
            ),
            near=("FileNotFoundError: [Errno 2] No such file or directory: '/srv/data/train.json'",),
            source="CPython, glibc dlopen",
        ),
        Pattern(
            id="jit-not-text",
            needles=("cannot contain null bytes", "UnicodeDecodeError: "),
            regex=regex(
                r"(?:ValueError|SyntaxError): source code string cannot contain null bytes|UnicodeDecodeError: 'utf-?8' codec can't decode"
            ),
            read=_read_text,
            examples=(
                '  File "/opt/env/lib/python3.11/site-packages/triton/runtime/cache.py", line 88, in get_group\n    grp_data = json.load(f)\nUnicodeDecodeError: \'utf-8\' codec can\'t decode byte 0x9c in position 3: invalid start byte',
            ),
            near=(
                '  File "/srv/app/read.py", line 3, in load\n    text = f.read()\nUnicodeDecodeError: \'utf-8\' codec can\'t decode byte 0x9c in position 3: invalid start byte',
            ),
            source="CPython, torch _inductor/codecache.py",
        ),
        Pattern(
            id="jit-dll",
            needles=("DLL load failed while importing ",),
            regex=regex(
                r"DLL load failed while importing (?P<module>cuda_utils|__triton_launcher|launcher)\b"
            ),
            read=_read_dll,
            examples=("ImportError: DLL load failed while importing cuda_utils: The specified module could not be found.",),
            near=("ImportError: DLL load failed while importing _ssl: The specified module could not be found.",),
            source="CPython on Windows, triton-windows",
        ),
        Pattern(
            id="jit-jax-entry",
            needles=("Error reading persistent compilation cache entry",),
            regex=regex(
                r"Error reading persistent compilation cache entry(?: for '?(?P<entry>[^\s':]+)'?)?"
            ),
            read=_read_jax,
            examples=("UserWarning: Error reading persistent compilation cache entry for 'jit_train_step': ZstdError: Zstd decompress error",),
            source="jax _src/compiler.py",
        ),
    ),
)  # fmt: skip
"""Damaged entries of JIT caches."""
