"""Text that was read off a picture or typed anew is told from a log, and its Xids are read."""

from __future__ import annotations

import pytest

from gpuprobe.api import diagnose_text
from gpuprobe.diagnosis import Certainty, Kind
from gpuprobe.sources.retyped import looks_retyped, repaired

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=9, name=llmserve, GPU has fallen off the bus."


@pytest.mark.parametrize(
    "line",
    [
        "[ 1721.4O8112] NVRM: GPU at PCI:0000:3b:00",
        "[ l721.408112] usb 1-2: new device",
        "NVRM: Xld (PCI:0000:3b:00): 79",
        "NVRM: Xid (PC1:0000:3b:00): 79",
        "NVRN: Xid (PCI:0000:3b:00): 79",
        "NVRM: Xid (PCI:0000:3b :00): 79",
        "GPU has fal1en off the bus.",
        "GPU has fallen off the 6us.",
        "GPU has fallen 0ff the bus.",
        "NVRM：Xid（PCI：0000：3b：00）：79",
    ],
)
def test_what_no_driver_writes_was_retyped(line: str) -> None:
    """A figure in a word, a letter in a stamp, a full-width sign in the driver's words."""
    assert looks_retyped(["", line])


@pytest.mark.parametrize(
    "line",
    [
        f"[ 1721.408112] {XID}",
        "NVRM: Xid (PCI:0002:b1:00 GPU-I:02 GPU-CI:00): 94, pid=9, name=llmserve",
        "loaded [7.0B] of [12.5B] parameters in [ 3.1S]",
        "[OK] fallen off the bus stop",
        "日志：Xid 79（掉卡）",
        "the latest driver falls off the bug list",
    ],
)
def test_a_log_as_it_was_written_was_not(line: str) -> None:
    """Sizes, marks and sentences of other languages are none of these."""
    assert not looks_retyped([line])


def test_an_xid_is_put_right() -> None:
    """Its head is what the driver wrote."""
    assert repaired("Xld(PC1:0000:3b :00) : 79").startswith("Xid (PCI:0000:3b:00): 79")
    full_width = "Xid（PCI：0000：3b：00）：79，pid=‘9’"
    assert repaired(full_width) == "Xid (PCI:0000:3b:00):79,pid='9'"


@pytest.mark.parametrize(
    "text",
    [
        f"[ 1721.408112] {XID.replace('Xid', 'Xld')}\n[ 1721.408113] eth0: up\n",
        f"[ 1721.408112] {XID}\n[ 1721.4O8113] eth0: up\n",
        f"[ 1721.408112] {XID.replace('fallen', 'fal1en')}\n[ 1721.408113] eth0: up\n",
        "大家好\nNVRM：Xid（PCI：0000：3b：00）：79，GPU has fallen off the bus。\n",
    ],
)
def test_a_loss_read_off_a_picture_is_likely_at_most(text: str) -> None:
    """Any figure in it may be another one, the address too."""
    verdict = diagnose_text(text).verdicts[0]

    assert (verdict.kind, verdict.certainty) == (Kind.DEVICE_LEFT_BUS, Certainty.LIKELY)


def test_the_same_log_as_it_was_written_confirms_it() -> None:
    """Without the damage nothing speaks against the copy."""
    verdict = diagnose_text(f"[ 1721.408112] {XID}\n[ 1721.408113] eth0: up\n").verdicts[0]

    assert verdict.certainty is Certainty.CONFIRMED
