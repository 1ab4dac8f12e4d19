"""What NVML says of a card once: firmware, modes and limits, as facts of a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprobe.events import SystemDescribed
from gpuprobe.live.nvml.described import described
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from tests.live.nvml_bench import ONE, collect, probing
from tests.live_events import base


def told(**found: object) -> dict[str, str]:
    return {event.key: event.value for event in described(base(0), found)}


def test_firmware_modes_and_limits_in_words() -> None:
    """Each from its calls; the card's address is on every one of them."""
    found = told(
        vbios="96.00.A5.00.1A", gsp_firmware="580.159.04", persistence_mode=1, mig_mode=0,
        ecc_mode=1, default_limit_w=700.0, min_limit_w=200.0, max_limit_w=700.0,
    )  # fmt: skip

    assert found == {
        "vbios": "96.00.A5.00.1A",
        "gsp-firmware": "580.159.04",
        "gpu-modes": "persistence on, MIG off, ECC on",
        "power-limits": "700 W by default, 200 to 700 W can be set",
    }
    assert {event.device for event in described(base(0), {"vbios": "1"})} == {base(0)["device"]}


def test_what_a_card_does_not_answer_is_left_out() -> None:
    """GeForce has neither ECC nor MIG: no fact, not "off"."""
    absent = {"absent": 3}

    assert told(vbios=absent, ecc_mode=absent, mig_mode=absent, default_limit_w=absent) == {}


@pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
def test_the_probe_tells_them_when_a_device_is_opened(tmp_path: Path) -> None:
    """The text that pynvml leaves as bytes comes as text."""
    with probing(FakeNvml(tmp_path, [ONE])) as probe:
        events = collect(
            probe, lambda found: any(isinstance(one, SystemDescribed) for one in found)
        )

    facts = {one.key: one.value for one in events if isinstance(one, SystemDescribed)}
    assert facts["gsp-firmware"] == "580.65.06"
    assert facts["vbios"] == "95.02.18.80.5F"
