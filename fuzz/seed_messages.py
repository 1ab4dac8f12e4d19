"""What gpuprobe's own processes say to each other, for fuzzing to start from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpuprobe.live.engine.relay_frames import ASKED, CLOSED, ENDED, OUTPUT, REAPED, STARTED, header
from gpuprobe.live.nvml import wire
from gpuprobe.live.nvml.calls import Group
from gpuprobe.live.nvml.rows import FAST_NAMES

_TIMES = {"m": 5_000_000_000, "w": 1_796_000_000_000_000_000}

_DEEP = b"[" * 4000
"""JSON that Python's reader gives up, with an error of its own."""


def frames() -> Iterator[bytes]:
    """A whole run of an engine."""
    began = json.dumps({"pid": 1, "streams": ["stdout"]}).encode()
    asked = json.dumps({"signal": 15}).encode()
    yield (
        header(STARTED, 0, len(began), 0, 1)
        + began
        + header(OUTPUT, 1, 3, 7, 2)
        + b"abc"
        + header(CLOSED, 1, 0, 0, 3)
        + header(ASKED, 0, len(asked), 0, 4)
        + asked
        + header(ENDED, 0, 2, 0, 5)
        + b"{}"
        + header(REAPED, 0, 0, 0, 6)
    )
    yield asked
    yield _DEEP


def messages() -> Iterator[bytes]:
    """Each kind of message of the NVML child, and the commands that it takes."""
    failed = {"u": "failed", "c": 999}
    came = {"t": "came", "slot": 0, "pci": "0000:04:00.0", "uuid": "GPU-1", "name": "A",
            "index": 0, "mig": False}  # fmt: skip
    hello = {"t": "hello", "pid": 1, "driver": "580.1", "nvml": "13", "cuda": 13000, "count": 1}
    row = [5_000_000_000, *(index + 1 for index in range(len(FAST_NAMES)))]
    layout, packed = wire.pack_row(row)
    counted = {"pcie_replay": 3, "remap_pending": 0, "ecc_corrected_volatile": 1}
    once = {"serial": "165", "vbios": "96.0", "gsp_firmware": "580.1", "persistence_mode": 1,
            "pci_device_id": 0x233010DE, "default_limit_w": 700.0, "min_limit_w": 200.0,
            "max_limit_w": 700.0, "mig_mode": 0, "ecc_mode": failed}  # fmt: skip
    traffic = ({"pcie_rx_bytes": 9 * n, "pcie_tx_bytes": 9 * n, "limit_w": 350.0} for n in (1, 2))
    power = wire.to_text(wire.SAMPLE.pack(1_796_000_000_000_000, 210_500) * 2)
    yield _lines(
        hello,
        came,
        {"t": "absent", "slot": 0, "values": {"memory_temp_c": failed}},
        {"t": "samples", "slot": 0, "layout": layout, "rows": wire.to_text(packed * 2)},
        {"t": "rows", "slot": 0, "rows": [row, [5_100_000_000, 2.0, failed, *row[3:]]]},
        *({"t": "sample", "slot": 0, "group": "slow", "values": values} for values in traffic),
        {"t": "sample", "slot": 0, "group": str(Group.SELDOM), "values": counted},
        {"t": "sample", "slot": 0, "group": "rare", "values": {**counted, "remap_pending": 1}},
        {"t": "sample", "slot": 0, "group": "once", "values": once},
        {"t": "power", "slot": 0, "samples": power},
        {"t": "processes", "slot": 0, "pids": [1, 2]},
        {"t": "event", "slot": 0, "type": 8, "data": 31},
        {"t": "event", "slot": 0, "type": 0x4000, "data": 0},
    )
    yield _lines(
        came,
        {"t": "nvml", "slot": 0, "call": "nvmlDeviceGetName", "code": 999, "name": "UNKNOWN"},
        {"t": "nvml", "call": "nvmlDeviceGetCount", "code": 9, "name": "DRIVER_NOT_LOADED"},
        {"t": "lost", "slot": 0, "pci": "0000:04:00.0", "index": 0, "call": "x", "code": 15},
        {"t": "gone", "slot": 1, "pci": "0000:05:00.0", "why": "unavailable"},
        {"t": "closed", "code": 4, "name": "NO_PERMISSION"},
        {"t": "error", "text": "Traceback\nValueError: x"},
        {"t": "bye", "why": "firmware"},
        hello,
        came,
    )
    yield _lines({"do": "skip", "pci": "0000:04:00.0"}, {"do": "stop"}) + b'{"t":"bye"'
    yield _DEEP


def _lines(*found: dict[str, Any]) -> bytes:
    return b"\n".join(json.dumps({**one, **_TIMES}).encode() for one in found)
