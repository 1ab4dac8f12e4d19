"""Plots for the page and as pictures."""

from __future__ import annotations

import json
import re
import struct
import sys
from dataclasses import replace

import pytest

from gpuprobe.report.telemetry_types import Mark, Telemetry
from tests.report.made_telemetry import ADDRESS, LOST, device, samples, telemetry

HOSTILE = "</script><script>alert(1)</script><!-- ]]> \u2028 & <img src=x onerror=alert(2)>"


def hostile() -> Telemetry:
    """Marks, counters and names that would like to be more than text."""
    one = device(name=HOSTILE, frame=samples(200))
    counters = one.counters.assign(name=HOSTILE)
    return replace(
        telemetry(replace(one, counters=counters)),
        marks=(Mark(LOST, HOSTILE, "proof", ADDRESS),),
    )


@pytest.fixture(autouse=True)
def _extra() -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")


def test_data_holds_nothing_that_an_html_parser_acts_on() -> None:
    """The JSON has no `<`, `>`, `&` or separator, and reads back as it was."""
    from gpuprobe.report.drawing import payload

    made = payload(hostile(), 10**6)

    assert not re.search("[<>&\u2028\u2029]", made.text)
    assert made.text.isascii()
    marks = json.loads(made.text)["devices"][0]["tables"]["marks"]
    assert marks["columns"]["label"][0].startswith("1  </script><script>")


@pytest.mark.parametrize("room", [300_000, 120_000])
def test_many_devices_fit_the_room(room: int) -> None:
    """Four GPUs stay within the room; the first keeps most, and its spike."""
    from gpuprobe.report.drawing import payload

    frame = samples(800)
    frame.loc[777, "power_w_max"] = 611.5
    others = [device(f"0000:{number:02x}:00.0", frame) for number in range(5, 8)]
    made = payload(telemetry(device(frame=frame), *others), room)

    assert len(made.text) <= room
    assert len(made.devices) + len(made.left_out) == 4
    sizes = [len(one.tables["samples"]["at"]) for one in made.devices]
    assert sizes[0] == max(sizes)
    for one in made.devices:
        assert max(one.tables["samples"]["power_w_max"]) == 611.5


def test_no_room_is_no_plot_and_no_error() -> None:
    """With room for nothing all devices are named as left out."""
    from gpuprobe.report.drawing import payload

    made = payload(telemetry(), 10)

    assert made.devices == ()
    assert made.left_out == (ADDRESS,)


def test_a_picture_has_all_panels_of_a_device() -> None:
    """One PNG a device, wide enough to read and named without a colon."""
    from gpuprobe.report.drawing import pictures

    [(name, data)] = pictures(hostile())

    assert name == "plots-0000-04-00.0.png"
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width > 1300
    assert height > 1500


def test_a_picture_name_is_a_file_name() -> None:
    """A device whose address is made up cannot choose a folder."""
    from gpuprobe.report.drawing import picture_name

    assert picture_name("../../etc/x y") == "plots-..-..-etc-x-y.png"


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing and how to install it."""
    from gpuprobe.report.drawing import PlotsMissingError, library

    monkeypatch.setitem(sys.modules, "vl_convert", None)

    with pytest.raises(PlotsMissingError) as caught:
        library()
    assert "gpuprobe[report]" in caught.value.hint


def test_a_picture_is_the_same_when_it_is_packed() -> None:
    """Fewer bytes, the same pixels, and each part with its check."""
    import zlib

    from gpuprobe.report.draw import _chunk, _chunks, packed

    rows = b"".join(b"\0" + bytes([n % 7] * 300) for n in range(100))
    head = struct.pack(">IIBBBBB", 100, 100, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b"")]
    picture = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)

    done = packed(picture)

    assert len(done) < len(picture) / 10
    assert zlib.decompress(dict(_chunks(done))[b"IDAT"]) == rows
    assert packed(done) == done
