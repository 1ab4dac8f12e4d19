"""What gpuprobe's hook wrote into an engine's log."""

from __future__ import annotations

from gpuprobe.api import diagnose_text
from gpuprobe.diagnosis import Certainty, Kind, Role

TRACEBACK = """\
INFO 12-01 10:00:00 engine started
Traceback (most recent call last):
  File "/opt/engine/serve.py", line 40, in step
    out = model(x)
RuntimeError: CUDA error: unspecified launch failure

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/opt/engine/serve.py", line 60, in main
    step()
gpuprobe.errors.DeviceLostError: {}; CUDA error 719 is a consequence
"""


def test_the_hooks_word_is_a_likely_loss() -> None:
    """It tested the GPU beside the engine: a loss with its device, and never more than likely."""
    for words in (
        "GPU 0000:04:00.0 left the bus: its config space reads all ones",
        "the driver lost GPU 0000:04:00.0; its config space still answers",
    ):
        first = diagnose_text(TRACEBACK.format(words)).verdicts[0]
        device = first.device.pci if first.device else None
        assert (first.kind, first.certainty) == (Kind.DEVICE_LEFT_BUS, Certainty.LIKELY)
        assert str(device) == "0000:04:00.0"
        assert "gpuprobe asked it" in first.summary
        assert [e.line for e in first.evidence if e.role is Role.CONSEQUENCE] == [5]


def test_another_programs_error_of_that_name_is_none() -> None:
    """The name alone says nothing, nor does somebody's talk of it."""
    for line in (
        "mylib.DeviceLostError: GPU 0000:04:00.0 left the bus",
        "I got gpuprobe.errors.DeviceLostError once, after the GPU left the bus",
    ):
        assert diagnose_text(line + "\n").answer is not Kind.DEVICE_LEFT_BUS
