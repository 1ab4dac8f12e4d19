"""The life of inference engines and of what supervises them: start, death, restart."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.events import EngineChanged, Event
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern
from gpuprobe.sources.wording.engine_facts import FACT_PATTERNS

ENGINE_NAMES = (
    "vllm", "vLLM", "sglang", "SGLang", "ollama", "Ollama", "llama", "freetoken", "FreeToken",
    "comfy", "Comfy", "text-generation", "text-embeddings", "tgi", "triton", "Triton", "tensorrt",
    "trtllm", "kobold", "localai", "lmstudio", "lm-studio", "stable-diffusion", "invokeai",
    "whisper", "tabby", "aphrodite", "lmdeploy", "inference", "llm", "LLM",
)  # fmt: skip
"""Words by which a unit or container is taken for an engine."""
_NAME = "|".join(map(re.escape, ENGINE_NAMES))


def _changed(what: str) -> Callable[[re.Match[str], Window], Event]:
    """A reader that gives `what`, with the groups `who` and `code` of the match."""

    def read(match: re.Match[str], window: Window) -> Event:
        groups = match.groupdict()
        code = groups.get("code")
        who = groups.get("who") or window.record.source or ""
        return EngineChanged(
            **window.base(), what=what, who=who.strip(), code=int(code) if code else None
        )

    return read


_STARTED = (
    Pattern(
        id="engine-started",
        needles=("Starting vLLM API server", "Uvicorn running on http", "The server is fired up", "server is listening on http", "llama runner started in", "starting llama server", "Started GRPCInferenceService at", "Starting text generation", "To see the GUI go to: http", "Application startup complete"),
        regex=regex(
            r"Starting vLLM API server|Uvicorn running on http|The server is fired up|server is listening on http|llama runner started in|starting llama server|Started GRPCInferenceService at|Starting text generation|To see the GUI go to: http|Application startup complete"
        ),
        read=_changed("started"),
        examples=(
            "INFO 03-09 11:02:47 [api_server.py:1847] Starting vLLM API server 0 on http://0.0.0.0:8080",
            "[2026-02-02 10:00:00] The server is fired up and ready to roll!",
            "main: server is listening on http://127.0.0.1:8080 - starting the main loop",
        ),
        near=("INFO: Waiting for application startup.",),
        source="vLLM, SGLang, llama.cpp, Ollama, Triton server",
    ),
)  # fmt: skip

_DIED = (
    Pattern(
        id="engine-freetoken-worker",
        needles=("Backend supervisor: backend worker",),
        regex=regex(r"Backend supervisor: backend worker (?P<who>\S+) (?:exited|died)(?:[^\n]*?code[= ](?P<code>-?\d+))?"),
        read=_changed("worker-exited"),
        examples=("[2026-04-02|03:11:40|FrontendAPI] ERROR    Backend supervisor: backend worker freetoken-TP1-scheduler exited",),
        near=("Backend supervisor: backend workers are up",),
        source="FreeToken server/api_server.py",
    ),
    Pattern(
        id="engine-freetoken-stop",
        needles=("Backend worker is gone",),
        regex=regex(r"Backend worker is gone(?: and cannot be restarted)?"),
        read=_changed("stopping"),
        examples=("Backend worker is gone and cannot be restarted; stopping the API server",),
        source="FreeToken server/api_server.py",
    ),
    Pattern(
        id="engine-process-failed",
        needles=("Process freetoken-", "Process SpawnProcess-", "Process EngineCore", "Process ForkProcess-", "Process VllmWorker", "Process sglang"),
        regex=regex(r"Process (?P<who>(?:freetoken-|SpawnProcess-|ForkProcess-|EngineCore|VllmWorker|sglang)[\w.:-]*?):(?=\s|$)"),
        read=_changed("worker-exited"),
        examples=("Process freetoken-TP0-scheduler:", "Process EngineCore_0:", "(EngineCore_0 pid=71) Process EngineCore_0:"),
        near=("Process freetoken-TP0-scheduler is up",),
        source="Python multiprocessing/process.py",
    ),
    Pattern(
        id="engine-vllm-dead",
        needles=("EngineDeadError", "encountered a fatal error", "encountered an issue. See stack trace", "Background loop has errored already", "Engine loop has died", "MQLLMEngine is already dead", "Scheduler hit an exception"),
        regex=regex(
            r"EngineDeadError\b(?=:|$| )[^\n]*|(?P<who>EngineCore\w*|AsyncLLM|Engine core) encountered (?:an issue\. See stack trace|a fatal error)|Background loop has errored already|Engine loop has died|MQLLMEngine is already dead|Scheduler hit an exception"
        ),
        read=_changed("engine-dead"),
        examples=(
            "(EngineCore_0 pid=4410) ERROR 05-11 12:00:41 [core.py:710] EngineCore encountered a fatal error.",
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
            "[2026-02-02 10:22:33 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        ),
        near=("class EngineDeadErrors are rare", "The run encountered a fatal error in the report"),
        source="vLLM v1/engine, SGLang managers/scheduler.py",
    ),
    Pattern(
        id="engine-failed-to-start",
        needles=("failed to start", "core initialization failed", "Engine process failed", "timed out waiting for llama runner", "Failed core proc", "failed to load '"),
        regex=regex(
            r"(?P<who>EngineCore\w*|Shard \d+|Webserver|llama runner|WorkerProc) failed to start|Engine core initialization failed|Engine process failed to start|timed out waiting for llama runner|Failed core proc\(s\)|failed to load '[^'\n]{1,100}' version \d+: "
        ),
        read=_changed("failed-to-start"),
        examples=("ERROR text_generation_launcher: Shard 1 failed to start", "RuntimeError: Engine core initialization failed. See root cause above.", "EngineCore failed to start.", "E0202 02:02:02.100200 1 model_lifecycle.cc:654] failed to load 'llm' version 1: Internal: unexpected error"),
        near=("systemd-networkd-wait-online.service failed to start",),
        source="vLLM, TGI, Ollama",
    ),
    Pattern(
        id="engine-worker-exited",
        needles=("died unexpectedly", "sigquit from a child proc", "llama runner process has terminated", "llama runner terminated", "llama runner process no longer running", "process was signaled", "hard terminated", "actor died unexpectedly", "The model has crashed without additional", "Stub process is unhealthy", "WorkerProc hit an exception", "actor died because its node has died", "has been marked dead because"),
        regex=regex(
            r"(?:Worker proc |Engine core proc |[Ww]orker process )?(?P<who>(?<![\w./-])[\w./-]{1,80})? ?died unexpectedly|Received sigquit from a child proc|llama runner (?:process has terminated|terminated|process no longer running:?)(?:[^\n]{0,40}?(?:exit status|exit code) (?P<code>\d+))?|[Ss]hard process was signaled|[Ss]hard terminated|The model has crashed without additional|Stub process is unhealthy|WorkerProc hit an exception|actor died (?:unexpectedly|because its node has died)|node with node id: [^\n]{0,200} has been marked dead because"
        ),
        read=_changed("worker-exited"),
        examples=(
            "ERROR 05-11 12:00:41 [multiproc_executor.py:140] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.",
            "Engine core proc EngineCore_0 died unexpectedly, shutting down client.",
            "[2026-02-02 10:22:34] Received sigquit from a child process. It usually means the child failed.",
            "Error: 500 Internal Server Error: llama runner process has terminated: exit status 2",
            "WorkerProc hit an exception.",
            "ray.exceptions.ActorDiedError: The actor died because its node has died. Node Id: 4d3b",
            "(raylet) The node with node id: 4d3b and address: 10.0.0.12 and node name: 10.0.0.12 has been marked dead because the detector has missed too many heartbeats from it.",
        ),
        near=("the worker lived unexpectedly long",),
        source="vLLM, SGLang, Ollama, TGI, Ray",
    ),
    Pattern(
        id="engine-torchrun-root-cause",
        needles=("failed (exitcode: ", "exitcode  : "),
        regex=regex(r"failed \(exitcode: (?P<code>-?\d+)\)(?: local_rank: \d+ \(pid: \d+\))?(?: of binary: (?P<who>\S+))?|exitcode  : (?P<status>-?\d+)"),
        read=lambda match, window: EngineChanged(
            **window.base(), what="worker-exited", who=match["who"] or "", code=int(match["code"] or match["status"])
        ),
        examples=("E0302 11:00:00.1 77 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 2 (pid: 4410) of binary: /opt/env/bin/python", "  exitcode  : 1 (pid: 4410)"),
        source="torch distributed/elastic",
    ),
    Pattern(
        id="engine-request-aborted",
        needles=("Aborting request for user",),
        regex=regex(r"Aborting request for user (?P<who>\d+)"),
        read=_changed("request-aborted"),
        examples=("[2026-04-02|03:10:58|FrontendAPI] WARNING  Aborting request for user 7",),
        source="FreeToken server/api_server.py",
    ),
    Pattern(
        id="engine-cpu-fallback",
        needles=("failed to initialize CUDA: ", "failed to initialize ROCm: ", "no usable GPU found", "o compatible GPUs were discovered", "library=cpu", "ould not find a compatible CUDA device", "Failed to create CUDAExecutionProvider", "alling back to CPU"),
        regex=regex(
            r"ggml_(?:cuda|hip)_init: failed to initialize (?:CUDA|ROCm): |no usable GPU found|[Nn]o compatible GPUs were discovered|\bid=\S+ library=cpu\b|[Cc]ould not find a compatible CUDA device|Failed to create CUDAExecutionProvider|(?:CUDA|GPU|device)[^\n]{0,80}[Ff]alling back to CPU"
        ),
        read=_changed("cpu-fallback"),
        examples=(
            "ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected",
            'time=2026-04-02T10:00:00Z level=INFO source=gpu.go:377 msg="no compatible GPUs were discovered"',
            "CUDA initialisation failed, falling back to CPU",
        ),
        near=("falling back to CPU pinned buffers for the tokenizer",),
        source="llama.cpp, Ollama, text-embeddings-inference, ONNX Runtime",
    ),
)  # fmt: skip

_SUPERVISED = (
    Pattern(
        id="unit-killed-after-timeout",
        needles=("timed out. Killing.", "timed out. Terminating."),
        regex=regex(rf"(?<![\w@.:-])(?P<who>[\w@.:-]{{0,80}}(?:{_NAME})[\w@.:-]{{0,80}}\.(?:service|scope)): (?:State '[\w-]+'|Stopping|Start operation) timed out\. (?:Killing|Terminating)\."),
        read=_changed("killed-by-supervisor"),
        examples=("ollama.service: State 'stop-sigterm' timed out. Killing.",),
        near=("cups.service: State 'stop-sigterm' timed out. Killing.",),
        source="systemd core/service.c",
    ),
    Pattern(
        id="unit-restarted",
        needles=("Scheduled restart job",),
        regex=regex(rf"(?<![\w@.:-])(?P<who>[\w@.:-]{{0,80}}(?:{_NAME})[\w@.:-]{{0,80}}\.service): Scheduled restart job, restart counter is at (?P<code>\d+)"),
        read=lambda match, window: EngineChanged(**window.base(), what="restarted", who=match["who"]),
        examples=("vllm.service: Scheduled restart job, restart counter is at 4.",),
        near=("getty@tty1.service: Scheduled restart job, restart counter is at 1.",),
        source="systemd core/service.c",
    ),
    Pattern(
        id="unit-main-process-exited",
        needles=("process exited, code=exited",),
        regex=regex(rf"(?<![\w@.:-])(?P<who>[\w@.:-]{{0,80}}(?:{_NAME})[\w@.:-]{{0,80}}\.(?:service|scope)): (?:Main|Control) process exited, code=exited, status=(?P<code>[1-9]\d*)"),
        read=_changed("worker-exited"),
        examples=("sglang.service: Main process exited, code=exited, status=1/FAILURE",),
        near=("sglang.service: Main process exited, code=exited, status=0/SUCCESS", "fwupd.service: Main process exited, code=exited, status=1/FAILURE"),
        source="systemd core/service.c",
    ),
    Pattern(
        id="supervisord-exited",
        needles=("; not expected)", "entered FATAL state"),
        regex=regex(rf"(?:exited: |gave up: )(?P<who>[\w:.-]{{0,80}}(?:{_NAME})[\w:.-]{{0,80}})(?: \(exit status (?P<code>[1-9]\d*); not expected\)| entered FATAL state)"),
        read=_changed("worker-exited"),
        examples=("2026-09-08 02:11:43,220 WARN exited: vllm (exit status 1; not expected)", "2026-09-08 02:11:50,222 INFO gave up: vllm entered FATAL state, too many start retries too quickly"),
        near=("2026-09-08 02:11:43,220 WARN exited: cron (exit status 1; not expected)", "2026-09-08 02:11:43,220 INFO exited: vllm (exit status 0; expected)"),
        source="supervisord",
    ),
    Pattern(
        id="unit-stopping",
        needles=tuple(f"{word} {name}" for word in ("Stopping", "Stopped") for name in ENGINE_NAMES),
        regex=regex(rf"\b(?:Stopping|Stopped) (?P<who>(?:{_NAME})[\w@.:-]*)(?=\s|\.|$)"),
        read=lambda match, window: EngineChanged(
            **window.base(), what="stopped", who=match["who"].rstrip(".")
        ),
        examples=("Stopping vllm.service - vLLM inference server...", "Stopped ollama.service - Ollama Service."),
        near=("Stopping cups.service - CUPS Scheduler...",),
        source="systemd core/unit.c",
    ),
    Pattern(
        id="container-restarted",
        needles=("CrashLoopBackOff", "Back-off restarting failed container"),
        regex=regex(r"CrashLoopBackOff|Back-off restarting failed container(?:[ =](?P<who>[\w-]+))?"),
        read=_changed("restarted"),
        examples=("Warning  BackOff  3m (x12 over 8m)  kubelet  Back-off restarting failed container vllm in pod vllm-7d9f_default(0a)", "      Reason:       CrashLoopBackOff"),
        source="Kubernetes kubelet",
    ),
)  # fmt: skip

FAMILY = Family("engines", (*_STARTED, *_DIED, *_SUPERVISED, *FACT_PATTERNS))
"""Engines' starts and ends, and what a log says of their version and command line."""
