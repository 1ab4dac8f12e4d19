"""The page in a real browser: it draws, logs nothing, fetches nothing, and stays in its width."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuprobe.report.contents import Report
from gpuprobe.reporters.report_html import HtmlReporter
from tests.report.browser import PROGRAM, Browser, browser
from tests.report.made_telemetry import device, telemetry
from tests.report.reports import left_the_bus
from tests.report.test_html import HOSTILE, hostile

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="needs Chromium"),
]

INK = (
    "[...document.querySelectorAll('.plot canvas')].map((one) => {"
    "const data = one.getContext('2d').getImageData(0, 0, one.width, one.height).data;"
    "const seen = new Set(); for (let i = 0; i < data.length; i += 4)"
    " seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]); return seen.size; })"
)
"""How many colours each plot has."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    with browser() as opened:
        yield opened


def stored(report: Report, path: Path) -> Path:
    out = io.StringIO()
    HtmlReporter().render(report, out)
    path.write_text(out.getvalue(), "utf-8")
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    two = telemetry(device(), device("0000:05:00.0"))
    report = replace(left_the_bus(), telemetry=two)
    return stored(report, tmp_path_factory.mktemp("page") / "report.html")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_draws_and_asks_nobody(chromium: Browser, page: Path, width: int, dark: bool) -> None:
    """Every panel has its lines, the page is as wide as the screen, console and network silent."""
    chromium.open(page, width, dark=dark)

    colours = chromium.value(INK)
    assert len(colours) == 9
    assert min(colours) > 10
    assert chromium.value("document.documentElement.scrollWidth") <= width
    assert chromium.said == []
    assert chromium.requests == [page.as_uri()]


def test_a_change_of_theme_draws_anew(chromium: Browser, page: Path) -> None:
    """When the system turns dark, so do the plots."""
    chromium.open(page)
    first = (
        "[...document.querySelector('.plot canvas').getContext('2d').getImageData(1,1,1,1).data]"
    )
    assert chromium.value(first)[:3] == [255, 255, 255]

    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    chromium.ask("Emulation.setEmulatedMedia", features=features)
    chromium.wait("document.querySelector('[data-device]').dataset.drawn === 'dark'")

    assert chromium.value(first)[:3] == [13, 17, 23]
    assert chromium.said == []


def test_pointing_shows_values_and_the_wheel_zooms_all_panels(
    chromium: Browser, page: Path
) -> None:
    """A bucket says its values; with a key held the wheel zooms, and every panel follows."""
    chromium.open(page)
    box = chromium.value(
        "(() => { const plot = document.querySelectorAll('.plot')[0];"
        "scrollTo(0, plot.getBoundingClientRect().y + scrollY - 200);"
        "const {x, y, width, height} = plot.getBoundingClientRect();"
        "return [x + width / 2, y + height / 2]; })()"
    )
    last = "[...document.querySelectorAll('.plot canvas')][5].toDataURL()"
    before = chromium.value(last)

    for step in range(3):
        chromium.ask("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + step, y=box[1])
    chromium.wait("document.querySelector('#vg-tooltip-element.visible')")
    shown = chromium.value("document.querySelector('#vg-tooltip-element').innerText")
    chromium.ask(
        "Input.dispatchMouseEvent", type="mouseWheel", x=box[0], y=box[1], deltaX=0, deltaY=-300,
        modifiers=8,
    )  # fmt: skip
    chromium.wait(f"{last} !== {before!r}")

    assert "draw, max" in shown
    assert "2026-03-14 07:4" in shown
    assert chromium.said == []


def test_the_second_device_is_drawn_when_it_is_opened(chromium: Browser, page: Path) -> None:
    """A page of many GPUs draws only what somebody looks at."""
    chromium.open(page)
    assert chromium.value("document.querySelectorAll('.plot canvas').length") == 9

    chromium.value("document.querySelectorAll('[data-device]')[1].open = true")
    chromium.wait("document.querySelectorAll('[data-device]')[1].dataset.drawn")

    assert chromium.value("document.querySelectorAll('.plot canvas').length") == 18
    assert chromium.said == []


def test_hostile_lines_stay_inert(chromium: Browser, tmp_path: Path) -> None:
    """Nothing a log line says is run, loaded or logged, in words, in plots and in their values."""
    for number, text in enumerate(HOSTILE):
        chromium.open(stored(hostile(text), tmp_path / f"{number}.html"))

        assert chromium.said == [], text
        assert len(chromium.requests) == 1, text
        assert chromium.value("document.querySelectorAll('img, iframe, base, svg').length") == 0
        assert len(chromium.value(INK)) == 9
