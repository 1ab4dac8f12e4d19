"""The table of facts, from what a recording says of itself and from the example's."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprobe.report.contents import Report
from gpuprobe.report.facts import driver_text
from gpuprobe.reporters.redact import Redactor
from tests.report.report_bench import ROOT, recorded, report_of

ASSERT = ROOT / "examples" / "h200-assert.gpuprobe"


def rows(report: Report) -> dict[str, str]:
    return {fact.label: fact.value for fact in report.facts}


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build",
            "580.159.04 (open kernel module)",
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39",
            "535.54.03 (proprietary kernel module)",
        ),
        ("595.91.07", "595.91.07"),
    ],
)
def test_the_driver_is_its_version_and_module(raw: str, shown: str) -> None:
    """What stands in /proc/driver/nvidia/version, in words; anything else as it is."""
    assert driver_text(raw) == shown


def test_a_recorded_fault_of_a_program_is_told_in_full() -> None:
    """The real recording: card, driver, power limit, how long it ran, what it ran in."""
    found = rows(report_of(ASSERT))

    assert found["GPU"] == "NVIDIA H200"
    assert found["Driver"] == "580.159.04 (open kernel module)"
    assert found["Power limit"] == "700 W"
    assert found["Link"] == "32 GT/s x16 (best 32 GT/s x16)"
    assert found["Ran for"] == "28.6 s, ended with code 1"
    assert found["Framework"] == "torch 2.11.0"
    assert "NVIDIA_REQUIRE_CUDA" not in found["Environment"]


def test_the_maintainer_reads_the_assertion_and_the_frame() -> None:
    """The program's own words stand beside the verdict."""
    said = " ".join(report_of(ASSERT).maintainer)

    assert '"index out of bounds" at /pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:111' in said
    assert "_tensor_str.py:155 in __init__" in said


def test_time_in_reasons_and_no_pause() -> None:
    """The load was held at its power limit most of the time, and sampled all along."""
    telemetry = report_of(ASSERT).telemetry

    assert telemetry is not None
    assert telemetry.interval_s == pytest.approx(0.1)
    assert telemetry.pauses == ()
    assert telemetry.devices[0].reasons["power cap"] == pytest.approx(253 / 287)
    assert telemetry.devices[0].reasons["power brake"] == 0
    assert set(telemetry.devices[0].counters["name"]) == set()


def test_values_of_an_older_recording_are_filtered_as_well(tmp_path: Path) -> None:
    """Names that say nothing of a run were once recorded; a report leaves them out."""
    import sqlite3

    path = recorded(tmp_path / "r.gpuprobe", env={"NCCL_DEBUG": "INFO"}, seconds=20)
    with sqlite3.connect(path) as database:
        values = ("engine.env.NVIDIA_REQUIRE_CUDA", "brand=unknown")
        database.execute("INSERT INTO meta VALUES (?, ?)", values)

    assert rows(report_of(path))["Environment"] == "NCCL_DEBUG=INFO"


def test_a_mitigation_is_no_host() -> None:
    """`no_guest_guest` behind `no_guest_host,` is the kernel's word."""
    line = "mitigations=auto,no_guest_host,no_guest_guest quiet"

    assert Redactor().text(line) == line
