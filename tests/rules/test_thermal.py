"""When heat was acted on."""

from __future__ import annotations

from _judging import findings, kinds

from gpuprobe.diagnosis import Certainty, Kind

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


def test_a_board_s_sensor_counts_where_it_is_a_gpu_s() -> None:
    """What it crossed is its own limit, not one that slows the GPU down."""
    row = " 7 | 03/03/2026 | 03:20:02 | Temperature GPU5 Temp | Upper Critical going high | Asserted | Reading 94 > Threshold 93 degrees C\n"
    (found,) = findings(KIND, row)

    assert found.certainty is Certainty.LIKELY
    assert "passed a critical limit of its temperature at 94 °C" in found.summary
    assert findings(KIND, row.replace("GPU5 Temp", "#0x71")) == []
