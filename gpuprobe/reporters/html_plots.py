"""The part of the page with the plots: headings, buttons, empty places, what is marked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gpuprobe.diagnosis import Role
from gpuprobe.report.contents import Report
from gpuprobe.reporters import report_words as words
from gpuprobe.reporters.html_page import shown

if TYPE_CHECKING:
    from gpuprobe.report.drawing import Payload
    from gpuprobe.report.panels import DevicePlots

_ROLES: Final = frozenset(role.value for role in Role)


def without_plots(report: Report, problem: str) -> str:
    """What stands in the place of plots that could not be made; nothing where none were asked."""
    if report.telemetry is None or not problem:
        return ""
    return (
        f'\n<section id="plots-section"><h2>{words.PLOTS}</h2>'
        f"<p>Not drawn: {shown(problem)}</p></section>\n"
    )


def plots_section(drawn: Payload) -> Iterator[str]:
    """Headings, buttons, empty places for the panels, and the list of what is marked."""
    yield f'\n<section id="plots-section"><h2>{words.PLOTS}</h2>'
    yield (
        "<noscript><p>The plots need JavaScript, which is off here. The .zip form of this report "
        "has them as pictures, and their figures as tables.</p></noscript>"
    )
    yield (
        '<p class="soft">Times are UTC. A line is the mean of a short stretch of time; the band '
        "round it goes from the smallest value there to the largest. Upright lines are the events "
        "listed below the plots. Point or tap for values; drag to move in time; Ctrl or Shift with "
        "the wheel zooms; a double click shows all of it.</p>"
    )
    for number, device in enumerate(drawn.devices):
        yield from _device(number, device)
    if drawn.left_out:
        yield (
            f"<p>Not drawn, to keep this page small: {shown(', '.join(drawn.left_out))}. The .zip "
            "form has them.</p>"
        )
    yield "</section>\n"


def _device(number: int, device: DevicePlots) -> Iterator[str]:
    title = f"{device.device}, {device.name}" if device.name else device.device
    opened = " open" if number == 0 else ""
    yield f'<details data-device="{number}"{opened}><summary>{shown(title)}</summary>'
    buttons = [("earlier", "Earlier"), ("later", "Later"), ("closer", "Zoom in"),
               ("wider", "Zoom out"), ("whole", "All of it")]  # fmt: skip
    if device.focus != device.whole:
        buttons.insert(0, ("focus", "The incident"))
    tools = "".join(f'<button type="button" data-do="{do}">{text}</button>' for do, text in buttons)
    yield f'<div class="tools">{tools}</div>'
    for panel in device.panels:
        yield (
            f"<figure><figcaption><h3>{shown(panel.title)}</h3></figcaption>"
            f'<div class="plot"></div></figure>'
        )
    if device.marks:
        yield '<ol class="events">'
        for one in device.marks:
            role = one.mark.role if one.mark.role in _ROLES else "context"
            yield (
                f'<li><b>{one.number}</b><span class="mark {role}"></span>'
                f"<time>{one.mark.at:%Y-%m-%d %H:%M:%S}</time>"
                f'<span class="what">{shown(one.label)} '
                f'<span class="soft">({role})</span></span></li>'
            )
        yield "</ol>"
    yield "</details>"
