# ruff: noqa: E501, S311 - log lines as long as they are; sample data needs no secrets
"""Large logs for the benchmarks: a healthy machine's journal, and one that reports AER errors.

The lines are made up in the form of `journalctl -o short` or `-o json` and repeat with other
stamps, so a file of any size is written at the speed of the disk.

Run `python -m benchmarks.make_logs clean 100 clean.log` for one of 100 MiB to look at, and
`clean 100 clean.json` for one of JSON lines.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

BLOCK_LINES = 20_000
"""Lines made before they are repeated under later stamps."""

SECOND_LINES = 100
"""Lines that share a second: a busy machine's."""

_HOST = "render-03"
_BEGIN = datetime(2025, 5, 12, 6, 0, 0, tzinfo=UTC)

_CLEAN = (
    "kernel: audit: type=1400 audit(1747{n5}.{n3}:{n4}): apparmor=\"STATUS\" operation=\"profile_replace\" name=\"snap.lxd.{w}\" pid={n5}",
    "kernel: usb 3-{n1}: new high-speed USB device number {n2} using xhci_hcd",
    "kernel: usb 3-{n1}: New USB device found, idVendor=0b{n2}, idProduct=1{n3}, bcdDevice= 1.00",
    "kernel: docker0: port {n1}(veth{h7}) entered forwarding state",
    "kernel: eth0: renamed from veth{h7}",
    "kernel: IPv6: ADDRCONF(NETDEV_CHANGE): veth{h7}: link becomes ready",
    "kernel: EXT4-fs (nvme0n1p{n1}): mounted filesystem with ordered data mode. Quota mode: none.",
    "kernel: igb 0000:06:00.0 enp6s0: igb: enp6s0 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: RX",
    "kernel: [UFW BLOCK] IN=enp6s0 OUT= MAC=3c:7c:3f:{n2}:{n2}:{n2} SRC=192.0.2.{n2} DST=198.51.100.{n2} LEN=40 TOS=0x00 PREC=0x00 TTL=245 ID={n5} PROTO=TCP SPT={n5} DPT={n4} WINDOW=1024 RES=0x00 SYN URGP=0",
    "systemd[1]: Starting {w}.service - Rotate and compress {w} logs...",
    "systemd[1]: {w}.service: Deactivated successfully.",
    "systemd[1]: Finished {w}.service - Rotate and compress {w} logs.",
    "systemd[1]: {w}.service: Consumed {n1}.{n3}s CPU time.",
    "systemd[{n4}]: Reached target basic.target - Basic System.",
    "systemd-resolved[{n3}]: Using degraded feature set UDP instead of UDP+EDNS0 for DNS server 192.0.2.53.",
    "sshd[{n5}]: Accepted publickey for operator from 192.0.2.{n2} port {n5} ssh2: ED25519 SHA256:q{h7}{h7}{h7}{h7}",
    "sshd[{n5}]: pam_unix(sshd:session): session opened for user operator(uid=1000) by (uid=0)",
    "sshd[{n5}]: Connection closed by authenticating user root 203.0.113.{n2} port {n5} [preauth]",
    "CRON[{n5}]: (root) CMD (   cd / && run-parts --report /etc/cron.hourly)",
    "dockerd[{n4}]: time=\"2025-05-12T06:{n2}:{n2}.{n3}Z\" level=info msg=\"ignoring event\" container={h7}{h7}{h7}{h7}{h7} module=libcontainerd topic=/tasks/delete",
    "containerd[{n4}]: time=\"2025-05-12T06:{n2}:{n2}.{n3}Z\" level=info msg=\"shim disconnected\" id={h7}{h7}{h7}{h7}",
    "kubelet[{n4}]: I0512 06:{n2}:{n2}.{n3}{n3}    {n4} reconciler_common.go:245] \"operationExecutor.VerifyControllerAttachedVolume started for volume\" pod=\"serving/{w}-{h7}\"",
    "NetworkManager[{n4}]: <info>  [1747{n5}.{n4}] device (veth{h7}): carrier: link connected",
    "uvicorn[{n5}]: INFO:     192.0.2.{n2}:{n5} - \"POST /v1/chat/completions HTTP/1.1\" 200 OK",
    "uvicorn[{n5}]: INFO 05-12 06:{n2}:{n2} [loggers.py:116] Engine 000: Avg prompt throughput: {n4}.{n1} tokens/s, Avg generation throughput: {n3}.{n1} tokens/s, Running: {n2} reqs, Waiting: 0 reqs, KV cache usage: {n2}.{n1}%, Prefix cache hit rate: {n2}.{n1}%",
    "prometheus-node-exporter[{n4}]: ts=2025-05-12T06:{n2}:{n2}.{n3}Z caller=collector.go:169 level=debug msg=\"collector succeeded\" name={w} duration_seconds=0.000{n3}",
)  # fmt: skip

_AER = (
    "kernel: pcieport 0000:00:03.1: AER: Correctable error message received from 0000:09:00.0",
    "kernel: nvidia 0000:09:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)",
    "kernel: nvidia 0000:09:00.0:   device [10de:2684] error status/mask=00001000/0000a000",
    "kernel: nvidia 0000:09:00.0:    [12] Timeout               ",
)

_FAULTS = (
    "kernel: NVRM: Xid (PCI:0000:0{n1}:00): 13, pid={n5}, name=python3, Graphics SM Warp Exception on (GPC {n1}, TPC {n1}, SM {n1}): Out Of Range Address",
    "kernel: NVRM: Xid (PCI:0000:0{n1}:00): 31, pid={n5}, name=python3, Ch {h7}, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_{n1} faulted @ 0x7f{n4}_{h7}. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
    "kernel: NVRM: Xid (PCI:0000:0{n1}:00): 43, pid={n5}, name=python3, Ch {h7}",
    "kernel: NVRM: Xid (PCI:0000:0{n1}:00): 119, pid={n5}, name=python3, Timeout after 6s of waiting for RPC response from GPU{n1} GSP! Expected function {n2} (GSP_RM_CONTROL) (0x{h7} 0x{n3}).",
    "kernel: pcieport 0000:00:0{n1}.1: AER: Uncorrectable (Fatal) error message received from 0000:0{n1}:00.0",
    "kernel: Out of memory: Killed process {n5} (python3) total-vm:{n5}kB, anon-rss:{n5}kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:{n4}kB oom_score_adj:0",
    "vllm[{n5}]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered (request {h7})",
    "vllm[{n5}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n3}.00 MiB. GPU {n1} has a total capacity of 79.10 GiB of which {n2}.00 MiB is free.",
)  # fmt: skip

_WORDS = ("logrotate", "man-db", "fstrim", "apt-daily", "snapd", "thermald", "packagekit", "motd")
_NUMBERS = {
    "n1": (1, 9),
    "n2": (10, 59),
    "n3": (100, 999),
    "n4": (1000, 9999),
    "n5": (10000, 99999),
}


def clean_block(rng: random.Random) -> list[str]:
    """Messages of a machine on which nothing fails."""
    return [_fill(rng.choice(_CLEAN), rng) for _ in range(BLOCK_LINES)]


def half_aer_block(rng: random.Random) -> list[str]:
    """The same, with a four-line AER report after every four messages."""
    lines: list[str] = []
    while len(lines) < BLOCK_LINES:
        lines.extend(_fill(rng.choice(_CLEAN), rng) for _ in range(4))
        lines.extend(_AER)
    return lines


def faults_block(rng: random.Random) -> list[str]:
    """Nothing but faults, each with figures of its own: no line repeats another."""
    return [_fill(rng.choice(_FAULTS), rng) for _ in range(BLOCK_LINES)]


KINDS: dict[str, Callable[[random.Random], list[str]]] = {
    "clean": clean_block,
    "half-aer": half_aer_block,
    "faults": faults_block,
}


def make_log(path: Path, kind: str, size: int, seed: int = 7) -> None:
    """Write a log of at least `size` bytes.

    Args:
        path: The file to write; JSON lines if its name ends with `.json`.
        kind: A key of `KINDS`.
        size: Bytes.
        seed: Of the random parts: the same seed gives the same file.
    """
    messages = KINDS[kind](random.Random(seed))
    if path.suffix == ".json":
        messages = [_as_json(message) for message in messages]
    parts = [messages[at : at + SECOND_LINES] for at in range(0, len(messages), SECOND_LINES)]
    clock = _BEGIN
    written = 0
    with path.open("wb") as out:
        while written < size:
            for part in parts:
                if path.suffix == ".json":
                    prefix = f'{{"__REALTIME_TIMESTAMP":"{clock.timestamp():.0f}000000",'
                else:
                    prefix = f"{clock:%b %d %H:%M:%S} {_HOST} "
                text = prefix + f"\n{prefix}".join(part) + "\n"
                written += out.write(text.encode("ascii"))
                clock += timedelta(seconds=1)


def _as_json(message: str) -> str:
    """The fields behind the stamp, as `journalctl -o json` writes them."""
    name, _, text = message.partition(": ")
    identifier, _, pid = name.rstrip("]").partition("[")
    fields = {
        "__MONOTONIC_TIMESTAMP": "8812345678",
        "_BOOT_ID": "5f0c1d6f0a3b4b7e9a0f3c2d1e4b5a69",
        "_TRANSPORT": "kernel" if identifier == "kernel" else "journal",
        "PRIORITY": "6",
        "_HOSTNAME": _HOST,
        "SYSLOG_IDENTIFIER": identifier,
        **({"_PID": pid} if pid else {}),
        "MESSAGE": text,
    }
    return json.dumps(fields, separators=(",", ":"))[1:]


def _fill(message: str, rng: random.Random) -> str:
    values: dict[str, object] = {
        name: rng.randint(low, high) for name, (low, high) in _NUMBERS.items()
    }
    return message.format(w=rng.choice(_WORDS), h7=f"{rng.getrandbits(28):07x}", **values)


def main() -> None:
    """Write one file: `KIND SIZE PATH`, the size in MiB."""
    kind, size_mib, path = sys.argv[1:]
    make_log(Path(path), kind, int(size_mib) << 20)


if __name__ == "__main__":
    main()
