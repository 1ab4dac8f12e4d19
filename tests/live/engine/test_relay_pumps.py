"""How one stream of the engine's output is copied."""

from __future__ import annotations

import os
import threading
import time
import tty

from gpuprobe.live.engine import relay_frames
from gpuprobe.live.engine.relay_pumps import CHUNK, GATHER_S, PIECE, Mirror, Pump

LIMIT_S = 5.0


def frames(reader: relay_frames.FrameReader, probe: int) -> list[relay_frames.Frame]:
    """What lies in the pipe to the probe."""
    found = []
    while True:
        try:
            data = os.read(probe, 1 << 20)
        except BlockingIOError:
            return found
        found += reader.feed(data)


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


def test_output_after_silence_is_told_at_once_and_a_flood_in_few_frames() -> None:
    """The first piece does not wait; those behind it come together, in order, when due."""
    probe, mirrored = os.pipe2(os.O_NONBLOCK)
    calls: list[float] = []
    mirror = Mirror(mirrored, lambda: calls.append(time.monotonic()))
    reader = relay_frames.FrameReader()
    mirror.put_output(1, memoryview(b"first"))
    assert [frame.data for frame in frames(reader, probe)] == [b"first"]
    assert mirror.due_s is None

    pieces = [b"%d" % (number % 10) * PIECE for number in range(2 * CHUNK // PIECE + 3)]
    buffer = bytearray(PIECE)
    for piece in pieces:
        buffer[:] = piece
        mirror.put_output(1, memoryview(buffer))
    early = frames(reader, probe)
    assert mirror.due_s is not None
    assert len(calls) == 1  # whoever flushes is told once
    time.sleep(max(0.0, mirror.due_s - time.monotonic()))
    mirror.flush()

    told = early + frames(reader, probe)
    assert b"".join(frame.data for frame in told) == b"".join(pieces)
    assert len(told) < 8
    assert mirror.due_s is None
    os.close(probe)
    mirror.close()


def test_gathered_output_keeps_its_place_among_streams_and_other_frames() -> None:
    """What was written earlier is told earlier."""
    probe, mirrored = os.pipe2(os.O_NONBLOCK)
    mirror = Mirror(mirrored, lambda: None)
    for stream, data in ((1, b"a"), (1, b"b"), (2, b"c"), (2, b"d")):
        mirror.put_output(stream, memoryview(data))
    mirror.put(relay_frames.CLOSED, 2)

    told = frames(relay_frames.FrameReader(), probe)

    outputs = [(frame.stream, frame.data) for frame in told if frame.kind == relay_frames.OUTPUT]
    assert outputs == [(1, b"a"), (1, b"b"), (2, b"c"), (2, b"d")]
    assert told[-1].kind == relay_frames.CLOSED
    assert [frame.at_ns for frame in told] == sorted(frame.at_ns for frame in told)
    os.close(probe)
    mirror.close()


def test_a_probe_that_reads_late_gets_what_was_gathered_unharmed() -> None:
    """What could not be written is kept apart from the buffers, which are used again."""
    probe, mirrored = os.pipe2(os.O_NONBLOCK)
    mirror = Mirror(mirrored, lambda: None)
    pieces = [b"%03d" % number * (PIECE // 3) for number in range((1 << 20) // PIECE + 100)]
    for piece in pieces:
        buffer = bytearray(piece)
        mirror.put_output(1, memoryview(buffer))
        buffer[:] = b"!" * len(piece)
    mirror.put(relay_frames.CLOSED, 1)

    reader = relay_frames.FrameReader()
    told = frames(reader, probe)
    while mirror.waits:
        mirror.flush()
        told += frames(reader, probe)

    assert b"".join(frame.data for frame in told) == b"".join(pieces)
    assert not any(frame.dropped for frame in told)
    os.close(probe)
    mirror.close()


def test_a_terminal_is_copied_piece_by_piece() -> None:
    """A long write to a terminal sleeps for each page, while the engine's own stands still."""
    source, slave = os.openpty()
    tty.setraw(slave)
    os.set_blocking(source, False)
    reader, target = os.pipe2(os.O_DIRECT)  # a read gives one write
    probe, mirrored = os.pipe2(os.O_NONBLOCK)
    news = threading.Event()
    pump = Pump(source, [target], 0, Mirror(mirrored, lambda: None), news.set)
    text = bytes(range(256)) * 30
    assert os.write(slave, text) == len(text)
    time.sleep(GATHER_S)
    pump.start()

    pieces = []
    while sum(map(len, pieces)) < len(text):
        pieces.append(os.read(reader, 1 << 20))

    assert b"".join(pieces) == text
    assert max(map(len, pieces)) < PIECE
    os.close(slave)
    pump.join(LIMIT_S)
    assert pump.over
    for number in (reader, target, probe, mirrored):
        os.close(number)


def test_what_is_gathered_is_sent_by_the_pump_when_nothing_more_comes() -> None:
    """Nobody else looks after it: two lines, of which the second waits for a third."""
    source, engine = os.pipe()
    reader, target = os.pipe()
    probe, mirrored = os.pipe2(os.O_NONBLOCK)
    pump = Pump(source, [target], 1, Mirror(mirrored, lambda: None), lambda: None)
    pump.start()
    for line in (b"one\n", b"two\n"):
        os.write(engine, line)
        assert os.read(reader, 100) == line

    told: list[relay_frames.Frame] = []
    frame_reader, until = relay_frames.FrameReader(), time.monotonic() + LIMIT_S
    while b"".join(frame.data for frame in told) != b"one\ntwo\n":
        assert time.monotonic() < until, told
        told += frames(frame_reader, probe)
        time.sleep(0.005)

    os.close(engine)
    pump.join(LIMIT_S)
    for number in (reader, target, probe, mirrored):
        os.close(number)


def test_a_stopped_terminal_keeps_only_a_floods_next_pieces_from_the_probe() -> None:
    """What comes alone is told before anybody waits for the terminal."""
    source, slave = os.openpty()
    tty.setraw(slave)
    os.set_blocking(source, False)
    reader, target = os.pipe()
    os.set_blocking(target, False)
    while True:
        try:
            os.write(target, b"x" * 4096)
        except BlockingIOError:
            break
    os.set_blocking(target, True)
    probe, mirrored = os.pipe2(os.O_NONBLOCK)
    pump = Pump(source, [target], 0, Mirror(mirrored, lambda: None), lambda: None)
    pump.start()
    os.write(slave, b"last words\n")

    told: list[relay_frames.Frame] = []
    frame_reader, until = relay_frames.FrameReader(), time.monotonic() + LIMIT_S
    while [frame.data for frame in told] != [b"last words\n"]:
        assert time.monotonic() < until, told
        told += frames(frame_reader, probe)
        time.sleep(0.005)

    assert pump.is_alive()
    os.close(reader)  # the terminal goes, and with it the wait
    os.close(slave)
    pump.join(LIMIT_S)
    for number in (target, probe, mirrored):
        os.close(number)
