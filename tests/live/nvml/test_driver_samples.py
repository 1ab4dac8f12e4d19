"""The driver's power samples read like a tuple, and are stored exactly."""

from __future__ import annotations

import pytest

from gpuprobe.live.nvml.driver_samples import DriverSamples
from gpuprobe.live.nvml.wire import SAMPLE, to_text
from gpuprobe.recording.rows import pack, unpack

PAIRS = [(1_700_000_000_000_000 + 9_600 * number, 120_001 + number) for number in range(119)]


def driver(pairs: list[tuple[int, int]]) -> DriverSamples:
    return DriverSamples(to_text(b"".join(SAMPLE.pack(*pair) for pair in pairs)))


def test_seconds_and_watts() -> None:
    """Equal to the tuple, place by place, and as hashable."""
    samples = driver(PAIRS)
    expected = tuple((at / 1e6, power / 1e3) for at, power in PAIRS)

    assert tuple(samples) == expected
    assert samples == expected
    assert (len(samples), samples[0], samples[-1]) == (119, expected[0], expected[-1])
    assert hash(samples) == hash(expected)
    assert samples != driver(PAIRS[1:])
    assert samples.whole() == tuple(list(column) for column in zip(*PAIRS, strict=True))


def test_stored_as_the_tuple_is() -> None:
    """A recording gives them back exactly, whichever of the two it was given."""
    samples = driver(PAIRS)
    packed = pack(samples)

    assert packed is not None
    assert packed == pack(tuple(samples))
    assert unpack(packed) == tuple(samples)


def test_steps_backwards_are_not_packed() -> None:
    """A clock that was set back is left to the slower, general form."""
    assert pack(driver(PAIRS[::-1])) is None


@pytest.mark.parametrize("text", ["AAAA", "A"])
def test_damaged_text_is_refused(text: str) -> None:
    """What is cut short or no base64 is a ValueError, which a reader of messages expects."""
    with pytest.raises(ValueError, match=r"\w"):
        DriverSamples(text)
