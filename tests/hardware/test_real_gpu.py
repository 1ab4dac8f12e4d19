"""What a real NVIDIA GPU and its driver do: `pytest -m hardware tests/hardware`."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuprobe.diagnosis import Kind
from gpuprobe.events import Event, GpuSampled, XidReported, taken_apart
from gpuprobe.identity import PciAddress
from gpuprobe.live.session import Session, Update
from gpuprobe.live.sources import live_sources

KMSG = Path("/dev/kmsg")


def _has_gpu() -> bool:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return False
    found = subprocess.run([smi, "-L"], capture_output=True, text=True, check=False)
    return found.returncode == 0 and "GPU 0" in found.stdout


pytestmark = [
    pytest.mark.hardware,
    pytest.mark.skipif(not _has_gpu(), reason="no NVIDIA GPU, or no nvidia-smi"),
]
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
needs_kmsg = pytest.mark.skipif(
    not os.access(KMSG, os.R_OK | os.W_OK), reason="reading and marking the kernel log needs root"
)


def say(figures: dict[str, object]) -> None:
    """For whoever runs it with `-s`: what was met, as one line."""
    sys.stdout.write(json.dumps(figures) + "\n")


# --- faults of a program ---------------------------------------------------------------------

PROGRAM = """
#include <cassert>
#include <cstdio>
__global__ void fault(int *where) {{ {body} }}
int main() {{
    int *where = nullptr;
    if (cudaMalloc(&where, 64) != cudaSuccess) return 2;
    fault<<<1, 1>>>(where);
    cudaError_t error = cudaDeviceSynchronize();
    std::printf("%s\\n", cudaGetErrorName(error));
    return error == cudaSuccess ? 3 : 0;
}}
"""
FAULTS = {
    "trap": ('asm volatile("trap;");', "cudaErrorLaunchFailure"),
    "illegal": ("where[1ull << 38] = 1;", "cudaErrorIllegalAddress"),
    "assert": ("assert(where == nullptr);", "cudaErrorAssert"),
}
WITHIN_S = 0.1


def build(folder: Path, name: str) -> Path:
    """A program named `gp-NAME` whose only kernel fails that way."""
    source = folder / f"gp-{name}.cu"
    source.write_text(PROGRAM.format(body=FAULTS[name][0]))
    program = source.with_suffix("")
    command = ["nvcc", "-arch=native", "-o", str(program), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


def kernel_lines() -> list[tuple[float, str]]:
    """The kernel's own stamp and text of every record that its buffer holds."""
    found: list[tuple[float, str]] = []
    descriptor = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            try:
                record = os.read(descriptor, 8192).decode("utf-8", "replace")
            except BlockingIOError:
                return found
            except BrokenPipeError:  # overwritten while we read
                continue
            head, _, text = record.partition(";")
            found.append((int(head.split(",")[2]) / 1e6, text.splitlines()[0] if text else ""))
    finally:
        os.close(descriptor)


def kernel_ahead_s() -> float:
    """How far the log's clock is ahead of the monotonic one, told by a line of our own."""
    mark = f"gpuprobe test mark {time.monotonic_ns()}"
    before = time.monotonic()
    KMSG.write_text(f"{mark}\n")
    after = time.monotonic()
    (stamp,) = [at for at, text in kernel_lines() if mark in text]
    return stamp - (before + after) / 2


@dataclass
class Watching:
    """A session on this machine's real sources, and what it gave with the moment it did."""

    session: Session
    came: list[tuple[float, Event]] = field(default_factory=list)
    _updates: Iterator[Update] | None = None

    def until(self, enough: Callable[[], Any], timeout_s: float) -> bool:
        self._updates = self._updates or self.session.updates()
        end = time.monotonic() + timeout_s
        while not enough() and time.monotonic() < end:
            update = next(self._updates)
            at = time.monotonic()
            self.came.extend(
                (at, event) for event in (*taken_apart(update.samples), *update.events)
            )
        return bool(enough())

    def xids(self) -> list[tuple[float, XidReported]]:
        return [(at, event) for at, event in self.came if isinstance(event, XidReported)]


@pytest.fixture
def watching() -> Iterator[Watching]:
    """Started, with a GPU sampled, so that NVML's events are waited for as well."""
    wake = threading.Event()
    session = Session(live_sources(rate_hz=10, wake=wake), wake=wake)
    session.start()
    try:
        found = Watching(session)
        sampled = found.until(
            lambda: sum(isinstance(event, GpuSampled) for _, event in found.came) > 10, 30
        )
        assert sampled, session.states
        yield found
    finally:
        session.stop()


@needs_nvcc
@needs_kmsg
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_program(
    name: str, watching: Watching, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Its Xid within 100 ms of the kernel's stamp, and an application-fault that blames no GPU."""
    program = build(tmp_path, name)
    ahead_s = kernel_ahead_s()
    began_s = time.monotonic() + ahead_s
    running = subprocess.Popen([program], stdout=subprocess.PIPE, text=True)

    told = watching.until(watching.xids, 20)
    output = running.communicate(timeout=60)[0]
    judged = watching.until(
        lambda: (
            watching.session.diagnosis is not None
            and watching.session.diagnosis.answer is Kind.APPLICATION_FAULT
        ),
        5,
    )
    end = time.monotonic() + 1.5  # for the sources that come second
    watching.until(lambda: time.monotonic() > end, 3)

    assert FAULTS[name][1] in output
    lines = [(at, text) for at, text in kernel_lines() if at >= began_s and "Xid (PCI:" in text]
    assert lines, "the kernel logged no Xid"
    assert told
    seen_at, first = watching.xids()[0]
    late_s = seen_at + ahead_s - lines[0][0]
    by: dict[str, set[int]] = {}
    for _, event in watching.xids():
        by.setdefault(event.origin.input, set()).add(event.code)
    logged = sorted({int(code) for _, text in lines for code in re.findall(r"\): (\d+),", text)})
    summary: dict[str, object] = {
        "fault": name,
        "first": first.origin.input,
        "late_ms": round(late_s * 1000, 2),
        "kernel_logged": logged,
        "delivered": {source: sorted(codes) for source, codes in by.items()},
    }
    record_property("xid", json.dumps(summary))
    say(summary)
    assert first.code in {13, 31, 43}
    assert 0 <= late_s + 0.002 <= WITHIN_S + 0.002
    assert judged, watching.session.diagnosis


# --- values against nvidia-smi ---------------------------------------------------------------

FIELDS = {
    "driver": "driver_version",
    "name": "name",
    "uuid": "uuid",
    "bus_id": "pci.bus_id",
    "link_gen_max": "pcie.link.gen.max",
    "link_width_max": "pcie.link.width.max",
    "limit_w": "enforced.power.limit",
    "ecc_corrected_volatile": "ecc.errors.corrected.volatile.total",
    "ecc_uncorrected_volatile": "ecc.errors.uncorrected.volatile.total",
    "ecc_corrected_aggregate": "ecc.errors.corrected.aggregate.total",
    "ecc_uncorrected_aggregate": "ecc.errors.uncorrected.aggregate.total",
    "temp_c": "temperature.gpu",
    "memory_temp_c": "temperature.memory",
}
NEAR = {"temp_c": 3.0, "memory_temp_c": 3.0, "limit_w": 0.01}
"""How far a value may be from nvidia-smi's; the others are equal."""


def said_by_smi() -> dict[PciAddress, dict[str, str]]:
    """What `nvidia-smi -q` shows, in its form for programs: one row a GPU."""
    query = f"--query-gpu={','.join(FIELDS.values())}"
    done = subprocess.run(
        ["nvidia-smi", query, "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = csv.reader(done.stdout.splitlines(), skipinitialspace=True)
    gpus = [dict(zip(FIELDS, row, strict=True)) for row in rows]
    return {PciAddress.parse(gpu["bus_id"]): gpu for gpu in gpus}


def said_by_check() -> dict[PciAddress, dict[str, object]]:
    """The same of `gpuprobe check --format json`."""
    command = [sys.executable, "-m", "gpuprobe", "check", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    document = json.loads(done.stdout)
    found: dict[PciAddress, dict[str, object]] = {}
    for gpu in document["gpus"]:
        values: dict[str, object] = {"name": gpu["name"], "uuid": gpu["uuid"]}
        for finding in document["findings"]:
            figures = finding["figures"]
            if finding["what"] == "driver versions":
                values["driver"] = figures.get("loaded")
            elif finding["subject"] == gpu["pci"]:
                renamed = {"best_gen": "link_gen_max", "best_width": "link_width_max"}
                own = {renamed.get(name, name): value for name, value in figures.items()}
                values |= {name: value for name, value in own.items() if name in FIELDS}
        found[PciAddress.parse(gpu["pci"])] = values | {"bus_id": gpu["pci"]}
    return found


def agree(name: str, ours: object, theirs: str) -> bool:
    """Whether the two mean the same; what nvidia-smi does not have we must not have either."""
    if re.fullmatch(r"\[?(N/A|Not Supported|Unknown Error)\]?", theirs):
        return ours is None
    if ours is None:
        return False
    if name == "bus_id":
        return PciAddress.parse(str(ours)) == PciAddress.parse(theirs)
    if name in ("driver", "name", "uuid"):
        return str(ours) == theirs
    return abs(float(str(ours)) - float(theirs)) <= NEAR.get(name, 0.0)


def test_check_says_what_nvidia_smi_says() -> None:
    """Field by field the same for every GPU; a temperature within 3 degrees."""
    theirs, ours = said_by_smi(), said_by_check()

    assert set(theirs) <= set(ours)
    differ = [
        f"{pci} {name}: check {ours[pci].get(name)!r}, nvidia-smi {value!r}"
        for pci, gpu in theirs.items()
        for name, value in gpu.items()
        if not agree(name, ours[pci].get(name), value)
    ]
    say({"compared": len(FIELDS) * len(theirs), "differ": differ})
    assert differ == []


def test_watch_once_gives_a_sample() -> None:
    """Every GPU of nvidia-smi sampled, with true identity, power and temperature; code 0."""
    command = [sys.executable, "-m", "gpuprobe", "watch", "--once", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    document = json.loads(done.stdout)
    sampled = {PciAddress.parse(gpu["pci"]): gpu for gpu in document["gpus"]}

    assert done.returncode == 0, done.stdout + done.stderr
    for pci, theirs in said_by_smi().items():
        gpu = sampled[pci]
        assert gpu["state"] == "sampled"
        assert gpu["nvml"]["uuid"]["value"] == theirs["uuid"]
        assert gpu["nvml"]["name"]["value"] == theirs["name"]
        assert 5 < gpu["nvml"]["power_w"]["value"] <= 1.2 * float(theirs["limit_w"])
        assert abs(gpu["nvml"]["temp_c"]["value"] - float(theirs["temp_c"])) <= 3
