"""Processes that a signal ended, and Python programs that an exception ended."""

from __future__ import annotations

import re

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import crash_exceptions, crash_shell
from gpuprobe.sources.wording.base import Family, Pattern, Reading
from gpuprobe.sources.wording.crash_signals import NUMBERS, WORDS, crashed

_ENGINE_UNIT = regex(
    r"(?i)vllm|sglang|ollama|llama|freetoken|comfy|text-?gen|tgi|triton|tensorrt|trtllm|kobold"
    r"|localai|lm-?studio|diffusion|whisper|tabby|lmdeploy|inference|llm|train|torch"
)


def _read_segfault(match: re.Match[str], window: Window) -> Reading:
    return crashed(window, "SIGSEGV", **match.groupdict())


def _read_trap(match: re.Match[str], window: Window) -> Reading:
    groups = match.groupdict()
    return crashed(window, WORDS[groups.pop("trap")], **groups)


def _read_words(match: re.Match[str], window: Window) -> Reading:
    return crashed(window, WORDS[match["words"].lower()])


def _read_status(match: re.Match[str], window: Window) -> Reading:
    number = int(match["number"] or match["docker"])
    signal = NUMBERS.get(number - 128 if number > 0 else -number)
    pid = re.search(r"\(pid: (\d+)\)", window.text)
    return None if signal is None else crashed(window, signal, pid=pid and pid[1])


def _read_name(match: re.Match[str], window: Window) -> Reading:
    pid = re.search(r"received by PID (\d+)", window.text)
    signal = match["signal"] or match["glog"]
    return crashed(window, f"SIG{signal}", pid=pid and pid[1])


def _read_signal(match: re.Match[str], window: Window) -> Reading:
    if words := match["words"] or match["shown"]:
        pid = re.search(r"\(pid (\d+)\)", window.text)
        return crashed(window, WORDS[words.lower()], pid=pid and pid[1])
    pid = re.search(r"\(pid (\d+)\)|Process (\d+) ", window.text)
    signal = NUMBERS[int(match["number"] or match["handled"])]
    return crashed(window, signal, pid=pid and (pid[1] or pid[2]))


def _read_rank(match: re.Match[str], window: Window) -> Reading:
    return crashed(window, NUMBERS[int(match["number"])], pid=match["pid"])


def _read_handler(match: re.Match[str], window: Window) -> Reading:
    if match["smashed"]:
        return crashed(window, "SIGABRT")
    if match["worker"]:
        return crashed(window, WORDS[match["worker"].replace("-", " ")])
    return crashed(window, f"SIG{match['signal']}" if match["signal"] else "SIGSEGV")


def _read_dump(match: re.Match[str], window: Window) -> Reading:
    if match["comm"]:
        signal = NUMBERS[int(match["number"])]
        return crashed(window, signal, process=match["comm"], pid=match["audited"])
    if match["faulting"]:
        return crashed(window, "SIGSEGV", process=match["faulting"])
    told = (*window.before(6), *window.after(6))
    if any(match["pid"] in r.message and "signal" in r.message for r in told):
        return None
    return crashed(window, "a fatal signal", process=match["process"], pid=match["pid"])


def _read_windows(match: re.Match[str], window: Window) -> Reading:
    # STATUS_ACCESS_VIOLATION is what a POSIX system calls SIGSEGV; 0xC0000409 is a fail-fast, which
    # JavaScript rounds to 18446744072635812000.
    return crashed(window, "SIGABRT" if match["fast"] else "SIGSEGV")


def _read_unit(match: re.Match[str], window: Window) -> Reading:
    signal = NUMBERS.get(int(match["number"]))
    if signal is None:
        return None
    if signal == "SIGKILL" and not _ENGINE_UNIT.search(match["process"]):
        # systemd kills what lingers at each shutdown.
        return None
    return crashed(window, signal, process=match["process"])


_SIGNALS = (
    Pattern(
        id="crash-kernel-segfault",
        needles=("segfault at ",),
        regex=regex(
            r"(?:(?P<process>[^\s\[\]:][^\[\]\n:]{0,30})\[(?P<pid>\d+)\]:? )?segfault at [0-9a-f]+ ip [0-9a-f]+ sp [0-9a-f]+ error [0-9a-f]+(?: in (?P<library>[^\s\[]+))?"
        ),
        read=_read_segfault,
        examples=(
            "python3[4021]: segfault at 7f2a1c000010 ip 00007f2a8b3d11aa sp 00007ffd0a3c error 4 in libcuda.so.570.124.06[7f2a8b000000+1a00000]",
        ),
        near=("segfault at 3 pm, said the operator",),
        source="linux arch/x86/mm/fault.c",
    ),
    Pattern(
        id="crash-kernel-trap",
        needles=("traps: ",),
        regex=regex(
            r"traps: (?P<process>[^\[\n]{1,32})\[(?P<pid>\d+)\]:? (?:trap )?(?P<trap>general protection|invalid opcode|divide error)[^\n]*?(?: in (?P<library>[^\s\[]+)|$)"
        ),
        read=_read_trap,
        examples=(
            "traps: llama-server[771] trap invalid opcode ip:55d0c2 sp:7ffe12 error:0 in llama-server[55d000+9000]",
        ),
        source="linux arch/x86/kernel/traps.c",
    ),
    Pattern(
        id="crash-host-memory",
        needles=("hardware memory corruption",),
        regex=regex(
            r"Memory failure: 0x[0-9a-f]+: (?:Sending SIGBUS to|Killing) (?P<process>[^\n:]{1,32}):(?P<pid>\d+)(?: .{0,40})? due to hardware memory corruption"
        ),
        read=lambda match, window: crashed(window, "SIGBUS", **match.groupdict()),
        examples=(
            "Memory failure: 0x1c07e21: Sending SIGBUS to python3:8812 due to hardware memory corruption",
        ),
        near=("Memory failure: 0x1c07e21: recovery action for dirty LRU page: Recovered",),
        source="linux mm/memory-failure.c",
    ),
    Pattern(
        id="crash-faulthandler",
        needles=("Fatal Python error: ",),
        regex=regex(
            r"Fatal Python error: (?P<words>Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception)"
        ),
        read=_read_words,
        examples=("Fatal Python error: Segmentation fault", "Fatal Python error: Bus error"),
        near=("Fatal Python error: init_import_site: Failed to import the site module",),
        source="Python faulthandler",
    ),
    Pattern(
        id="crash-systemd-unit",
        needles=("process exited, code=killed", "process exited, code=dumped"),
        regex=regex(
            r"(?<![\w@.:\\-])(?P<process>[\w@.:\\-]{1,200}\.(?:service|scope)): (?:Main|Control) process exited, code=(?:killed|dumped), status=(?P<number>\d+)/\w+"
        ),
        read=_read_unit,
        examples=(
            "sglang.service: Main process exited, code=dumped, status=11/SEGV",
            "vllm.service: Main process exited, code=killed, status=9/KILL",
        ),
        near=(
            "user@1000.service: Main process exited, code=killed, status=9/KILL",
            "vllm.service: Main process exited, code=killed, status=15/TERM",
        ),
        source="systemd core/service.c",
    ),
    Pattern(
        id="crash-mpi-rank",
        needles=(" exited on signal ", "KILLED BY SIGNAL: ", "EXIT STRING: "),
        regex=regex(
            r"(?:(?:noticed that process rank \d+ with PID (?P<pid>\d+) )?[^\n]{0,60}?\bexited on signal |KILLED BY SIGNAL: |EXIT STRING: [^(\n]{1,60}\(signal )(?P<number>11|9|8|7|6|4)\b"
        ),
        read=_read_rank,
        examples=(
            "prterun noticed that process rank 2 with PID 9014 on node gpu4 exited on signal 11 (Segmentation fault).",
            "=   KILLED BY SIGNAL: 9 (Killed)",
            "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)",
        ),
        near=("the daemon exited on signal 15", "=   KILLED BY SIGNAL: 15 (Terminated)"),
        source="Open MPI orterun, PRRTE, MPICH and Intel MPI hydra",
    ),
    Pattern(
        id="crash-exit-status",
        needles=(
            "exit code",
            "exit status",
            "exitcode",
            "exitCode",
            "exited with code",
            "ExitCode",
            "Exited (1",
            "Exit Code",
            "return code = -",
        ),
        regex=regex(
            r"(?:[Ee]xit(?:ed)?(?: with)?[ _]?(?:code|status)|exitCode|ExitCode|Exit Code|exitcode|exits with return code)[\"']?\s*[:=]?\s*[\"']?(?P<number>13[2-79]|-(?:4|6|7|8|9|11))\b|Exited \((?P<docker>13[2-79])\)"
        ),
        read=_read_status,
        examples=(
            "worker exited with code 139",
            "torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -9) local_rank: 1 (pid: 3302) of binary: /opt/env/bin/python",
            "  exitcode  : -11 (pid: 712)",
            '{"terminated":{"exitCode":137,"finishedAt":"2025-03-02T00:00:00Z"}}',
            "a1b2c3   vllm/vllm-openai   Exited (139) 2 minutes ago",
            "subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 134.",
            "[2026-02-02 08:00:01,1] [ERROR] [launch.py:325:sigkill_handler] ['python', 'train.py'] exits with return code = -11",
        ),
        near=("worker exited with code 1", "exit code 1390"),
        source="POSIX shell, Docker, Kubernetes, torchrun",
    ),
    Pattern(
        id="crash-signal-name",
        needles=("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE", "SIGKILL"),
        regex=regex(
            r"(?:died with <Signals\.|(?:terminated|killed|crashed|exited)\s(?:by|with|due to|on)\s(?:signal )?(?:\d+ )?\(?|Signal \d+ \(|[Cc]aught signal \d+ \(|[Rr]eceived signal \d+ \(?|\*\*\* (?:Aborted|Process received signal)[^\n]*)SIG(?P<signal>SEGV|BUS|ABRT|ILL|FPE|KILL)\b|\bSIG(?P<glog>SEGV|BUS|ABRT|ILL|FPE)(?:: segmentation violation| \(@0x)"
        ),
        read=_read_name,
        examples=(
            "traceback : Signal 9 (SIGKILL) received by PID 4120",
            "Command '['python', 'train.py']' died with <Signals.SIGSEGV: 11>.",
            "SIGSEGV: segmentation violation code=0x1 addr=0x0",
            "Process 12 terminated by signal 11 (SIGSEGV)",
        ),
        near=("installing a handler for SIGSEGV", "Sending SIGKILL to remaining processes..."),
        source="Python subprocess, Go runtime, torchrun",
    ),
    Pattern(
        id="crash-signal-number",
        needles=(
            "signal 11",
            "signal 9",
            "signal 6",
            "signal 7",
            "signal: 11",
            "signal: 9",
            "signal: 6",
            "signal: 7",
            "signal: killed",
            "signal: aborted",
            "killed by signal: ",
            "Signal (",
        ),
        regex=regex(
            r"\b(?:(?:killed by|terminated (?:abnormally )?(?:with|by)|[Cc]aught|[Rr]eceived|on|due to|shutdown with|called for pid \d+,) signal:? |signal: )(?P<number>11|9|6|7)\b|\bsignal: (?P<words>killed|aborted)|killed by signal: (?P<shown>Bus error|Segmentation fault|Killed|Aborted)"
            r"|\bSignal \((?P<handled>11|6|7|8)\) received"
        ),
        read=_read_signal,
        examples=(
            "RuntimeError: DataLoader worker (pid 551) is killed by signal: 9",
            "Shard process was signaled to shutdown with signal 9",
            "ERROR: apport (pid 8812) Tue Mar  4 09:00:00 2025: called for pid 7711, signal 11, core limit 0, dump mode 1",
            "RuntimeError: DataLoader worker (pid 7211) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
            "Process 7711 (python3) of user 0 terminated abnormally with signal 11/SEGV, processing...",
            "Signal (11) received.",
        ),
        near=("signal 9 dBm", "Signal (15) received."),
        source="PyTorch DataLoader, TGI, systemd-coredump, Triton's server",
    ),
    Pattern(
        id="crash-windows-status",
        needles=(
            "-1073741819",
            "-1073740791",
            "0xC0000005",
            "0xc0000005",
            "18446744072635812000",
            "EXCEPTION_ACCESS_VIOLATION",
        ),
        regex=regex(
            r"[Ee]xit(?:ed)?(?: with)? [Cc]ode:? (?:-1073741819|0x[Cc]0000005|(?P<fast>-1073740791|18446744072635812000))"
            r"|\bEXCEPTION_ACCESS_VIOLATION (?:\(0x[Cc]0000005\) at pc|reading address|writing address)"
        ),
        read=_read_windows,
        examples=(
            "Process finished with exit code -1073741819 (0xC0000005)",
            "#  EXCEPTION_ACCESS_VIOLATION (0xc0000005) at pc=0x00007ffb1a2c1f10, pid=9912, tid=10440",
            "Unhandled Exception: EXCEPTION_ACCESS_VIOLATION reading address 0x0000000000000110",
        ),
        near=(
            "code 0xC0000005 means access violation",
            "#define EXCEPTION_ACCESS_VIOLATION STATUS_ACCESS_VIOLATION",
        ),
        source="Windows NTSTATUS values",
    ),
    Pattern(
        id="crash-handler",
        needles=(
            "*** SIG",
            ") at pc=",
            "*** stack smashing",
            "Windows fatal exception: ",
            "encountered in worker",
            "double free or corruption",
            "malloc(): ",
            "free(): ",
            "munmap_chunk(): ",
            "corrupted size vs",
            "corrupted double-linked list",
        ),
        regex=regex(
            r"(?:\*\*\* |#\s+)SIG(?P<signal>SEGV|BUS|ABRT|ILL|FPE) (?:received |\(0x[0-9a-f]+\) at pc=)|(?P<smashed>\*\*\* stack smashing detected|\b(?:double free or corruption|malloc\(\): (?:corrupted|invalid|unaligned|memory corruption)|free\(\): (?:invalid|double free)|munmap_chunk\(\): invalid|corrupted (?:size vs|double-linked list)))|(?P<windows>Windows fatal exception: (?:access violation|stack overflow))|Unexpected (?P<worker>bus error|segmentation fault|floating-point exception) encountered in worker"
        ),
        read=_read_handler,
        examples=(
            "*** SIGSEGV received at time=1741000000 on cpu 3 ***",
            "#  SIGSEGV (0xb) at pc=0x00007f2a8b3d11aa, pid=4021, tid=4044",
            "*** stack smashing detected ***: terminated",
            "double free or corruption (!prev)",
            "malloc(): unaligned tcache chunk detected",
            "Windows fatal exception: access violation",
            "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        ),
        near=("Windows fatal exception: code 0x8001010d", "malloc(): 12 calls"),
        source="Abseil failure_signal_handler, glibc, Python faulthandler",
    ),
    Pattern(
        id="crash-dumped-core",
        needles=(" dumped core", "Faulting application name: ", "ANOM_ABEND "),
        regex=regex(
            r"ANOM_ABEND [^\n]{0,200}?\bpid=(?P<audited>\d+) comm=\"(?P<comm>[^\"\n]{1,64})\"[^\n]{0,300}?\bsig=(?P<number>11|9|8|7|6|4)\b|Process (?P<pid>\d+) \((?P<process>[^)\n]{1,64})\) of user \d+ dumped core|Faulting application name: (?P<faulting>[^,\n]{1,80})"
        ),
        read=_read_dump,
        examples=(
            "Process 7711 (llama-server) of user 1000 dumped core.",
            'ANOM_ABEND auid=1000 uid=1000 gid=1000 ses=2 subj=unconfined pid=7711 comm="python3" exe="/usr/bin/python3.11" sig=11 res=1',
            "Faulting application name: python.exe, version: 3.11.9, time stamp: 0x660c1f2e",
        ),
        near=("nobody dumped core",),
        source="systemd-coredump, Linux audit, Windows Application Error 1000",
    ),
)

FAMILY = Family("crash", (*_SIGNALS, *crash_shell.PATTERNS, *crash_exceptions.PATTERNS))
"""Crashes, and exceptions that no other family knows."""
