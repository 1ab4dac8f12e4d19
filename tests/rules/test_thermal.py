"""When heat was acted on."""

from __future__ import annotations

from _judging import findings, kinds

from gpuprobe.diagnosis import Kind

KIND = Kind.THERMAL


def smi(temp: int) -> str:
    return (
        "==============NVSMI LOG==============\n\n"
        "GPU 00000000:1A:00.0\n"
        "    Temperature\n"
        f"        GPU Current Temp                  : {temp} C\n"
        "        GPU Shutdown Temp                 : 98 C\n"
        "        GPU Slowdown Temp                 : 95 C\n"
    )


def test_a_reading_at_its_limit_is_a_finding() -> None:
    """The tool prints the limit beside the reading."""
    (found,) = findings(KIND, smi(96))

    assert str(found.device) == "0000:1a:00.0"
    assert "96 °C" in found.summary


def test_a_reading_below_its_limit_is_quiet() -> None:
    """60 degrees of 95 are healthy."""
    assert findings(KIND, smi(60)) == []
    assert kinds(smi(60)) == [Kind.NO_FAULT]


def test_the_host_s_heat_is_not_the_gpu_s() -> None:
    """A throttled CPU is no thermal verdict."""
    text = "[  100.000000] CPU3: Package temperature above threshold, cpu clock throttled (total events = 7)\n"

    assert findings(KIND, text) == []
