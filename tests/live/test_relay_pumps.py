"""How one stream of the engine's output is copied."""

from __future__ import annotations

import os
import threading

from gpuprobe.live.relay_pumps import Mirror, Pump

LIMIT_S = 5.0


def test_an_end_that_is_told_together_with_the_last_output_is_noticed() -> None:
    """Output and the engine's end found by one look: handed on, though the pipe stays open."""
    source, daemon = os.pipe()
    reader, target = os.pipe()
    probe, mirrored = os.pipe2(os.O_NONBLOCK)
    news = threading.Event()
    pump = Pump(source, [target], 1, Mirror(mirrored, lambda: None), news.set)
    os.write(daemon, b"last words\n")
    pump.drain()

    pump.start()

    assert news.wait(LIMIT_S)
    assert (pump.drained, pump.over) == (True, False)
    assert os.read(reader, 100) == b"last words\n"
    os.close(daemon)
    pump.join(LIMIT_S)
    assert pump.over
    for number in (reader, target, probe, mirrored):
        os.close(number)
