"""What a log says of the software that ran: engine, command line, versions, profilers."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.events import Event, ProfilerSeen, SystemDescribed
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import EVIDENCE_LIMIT, Window
from gpuprobe.sources.wording.base import Pattern, Reading


def _described(key: str) -> Callable[[re.Match[str], Window], Event]:
    def read(match: re.Match[str], window: Window) -> Event:
        return SystemDescribed(
            **window.base(), key=key, value=match["value"][:EVIDENCE_LIMIT].strip()
        )

    return read


def _read_engine_version(match: re.Match[str], window: Window) -> Reading:
    return SystemDescribed(
        **window.base(), key="engine", value=f"{match['engine']} {match['version']}"
    )


def _read_framework(match: re.Match[str], window: Window) -> Reading:
    return SystemDescribed(
        **window.base(), key="framework", value=f"{match['name'].lower()} {match['version']}"
    )


def _read_profiler(match: re.Match[str], window: Window) -> Reading:
    names = {"nsys": "nsys", "ncu": "ncu", "cupti": "cupti", "torch": "torch-profiler",
             "nvprof": "nvprof", "sanitizer": "compute-sanitizer"}  # fmt: skip
    for group, name in names.items():
        if match[group]:
            return ProfilerSeen(**window.base(), name=name)
    return None


FACT_PATTERNS = (
    Pattern(
        id="engine-server-args",
        needles=("ServerArgs(", "non-default args: ", "LLM engine (v"),
        regex=regex(
            r"(?P<value>ServerArgs\((?=\w+=)[^\n]+|non-default args: \{[^\n]+|LLM engine \(v[^\n]+ with config: [^\n]+)"
        ),
        read=_described("engine-argv"),
        examples=(
            "ServerArgs(model_path='/models/m', tp_size=2, dtype='auto')",
            "INFO 03-09 11:02:47 [utils.py:233] non-default args: {'model': 'org/m', 'max_model_len': 8192}",
        ),
        near=("class ServerArgs():",),
        source="FreeToken, SGLang, vLLM start lines",
    ),
    Pattern(
        id="engine-command-line",
        needles=("llama-server -", "vllm serve ", "sglang.launch_server", "text-generation-launcher --", "tritonserver --", "trtllm-serve ", "vllm.entrypoints.", "ollama_llama_server --", "ollama runner --"),
        regex=regex(
            r"(?P<value>(?<![\w./-])[\w./-]{0,120}(?:llama-server(?= -)|vllm(?= serve \S)|sglang\.launch_server(?= -)|text-generation-launcher(?= --)|tritonserver(?= --)|trtllm-serve(?= \S)|vllm\.entrypoints\.\S+(?= --)|ollama_llama_server(?= --)|ollama(?= runner --))[^\n]*)"
        ),
        read=_described("engine-argv"),
        examples=("/usr/bin/llama-server --model /models/m.gguf -ngl 99", "+ vllm serve org/m --tensor-parallel-size 2", "python -m sglang.launch_server --model-path org/m"),
        near=("the trtllm-serve",),
        source="the engines' command lines",
    ),
    Pattern(
        id="engine-version",
        needles=("vLLM API server version", "vLLM Version", "ollama version", "Ollama version", "FreeToken v", "sglang version", "SGLang version", "TensorRT-LLM version"),
        regex=regex(
            r"(?P<engine>vLLM(?= API server version| Version)|[Oo]llama(?= version)|FreeToken(?= v)|(?:SGLang|sglang|TensorRT-LLM)(?= version))(?: API server)?(?: [Vv]ersion)?(?: is|:)? v?(?P<version>\d+\.\d+[\w.+-]*)"
        ),
        read=_read_engine_version,
        examples=("INFO 03-09 [api_server.py:1764] vLLM API server version 0.10.1", "- FreeToken v0.1.2 (pip), daemon + engine", "ollama version is 0.5.7"),
        near=("ollama version could not be read",),
        source="the engines' start lines",
    ),
    Pattern(
        id="framework-version",
        needles=("PyTorch version: ", "TensorFlow version: ", "pytorch version: ", "JAX version: "),
        regex=regex(r"(?P<name>PyTorch|pytorch|TensorFlow|JAX) version: (?P<version>\d+\.[\w.+-]+)"),
        read=_read_framework,
        examples=("PyTorch version: 2.6.0+cu124", "pytorch version: 2.9.0+cu128"),
        near=("PyTorch version: N/A",),
        source="torch.utils.collect_env, ComfyUI",
    ),
    Pattern(
        id="cuda-version",
        needles=("CUDA used to build PyTorch: ", "CUDA runtime version: "),
        regex=regex(r"CUDA (?:used to build PyTorch|runtime version): (?P<value>\d+\.[\d.]+)"),
        read=_described("cuda"),
        examples=("CUDA used to build PyTorch: 12.4", "CUDA runtime version: 12.4.131"),
        near=("CUDA runtime version: Could not collect",),
        source="torch.utils.collect_env",
    ),
    Pattern(
        id="driver-version",
        needles=("Nvidia driver version: ",),
        regex=regex(r"Nvidia driver version: (?P<value>\d+\.[\d.]+)"),
        read=_described("driver"),
        examples=("Nvidia driver version: 570.124.06",),
        near=("Nvidia driver version: Could not collect",),
        source="torch.utils.collect_env",
    ),
    Pattern(
        id="profiler-seen",
        needles=("nsys profile ", "nsys launch ", "nsys-report-", "ncu --", "ncu -o ", "==PROF== ", "CUPTI_ERROR_", "ActivityProfilerController", "NVPROF is profiling", "COMPUTE-SANITIZER", "libToolsInjection", "torch.profiler.profile("),
        regex=regex(
            r"(?<![\w`-])(?:(?P<nsys>nsys (?:profile|launch) -{0,2}\S|nsys-report-\w+)|(?P<ncu>ncu --[a-z]|ncu -o \S|==PROF== (?:Connected|Profiling))|(?P<cupti>CUPTI_ERROR_[A-Z]|libToolsInjection\w*\.so)|(?P<torch>(?:torch/csrc/\S*)?ActivityProfilerController\.cpp|torch\.profiler\.profile\()|(?P<nvprof>NVPROF is profiling)|(?P<sanitizer>COMPUTE-SANITIZER))"
        ),
        read=_read_profiler,
        examples=(
            "+ nsys profile -o /tmp/trace python serve.py",
            "==PROF== Connected to process 8123 (/usr/bin/python3.12)",
            "STAGE:2026-03-01 10:00:00 8123:8123 ActivityProfilerController.cpp:312] Completed Stage: Warm Up",
        ),
        near=("nsys is not installed", "CUPTI is available", "avoid `nsys profile` in production"),
        source="Nsight Systems and Nsight Compute user guides, kineto",
    ),
)  # fmt: skip
"""Patterns of facts, tried after those of an engine's life."""
