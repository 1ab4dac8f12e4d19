"""The HTML form: order, safety, size, and what it does without plots."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from functools import lru_cache
from html.parser import HTMLParser

import pytest

from gpuprobe.diagnosis import Diagnosis, Evidence, Input, NotChecked, Role, RuledOut
from gpuprobe.report.contents import Fact, IncidentLine, Question, Report
from gpuprobe.report.telemetry_types import Mark
from gpuprobe.reporters.report_html import MOST_BYTES, HtmlReporter
from tests.report.made_telemetry import ADDRESS, LOST, device, samples, telemetry
from tests.report.reports import left_the_bus

HOSTILE = (
    "</script><script>alert(1)</script>",
    "</style><style>*{display:none}</style>",
    "<!-- <script>",
    "<img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "' autofocus onfocus='alert(1)",
    "\u2028\u2029]]> <![CDATA[",
    "\x1b[31m\x1b]8;;http://evil.example\x07",
    "&lt;script&gt; &amp; &#60;",
    "${alert(1)} {{7*7}} $policy $body",
    "<svg/onload=alert(1)>",
    "</title><base href=//evil.example>",
    "javascript:alert(1)",
    "\ud800 lone",
    "</pre></details></main>",
)


class Page(HTMLParser):
    """What a parser makes of a page: elements with their attributes, headings, text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.headings: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if tag == "h2":
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1:] == [tag], (tag, self.open)
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["h2"]:
            self.headings[-1] += data
        if not {"script", "style"} & set(self.open):
            self.text += data


def written(report: Report, *, plots: bool = True) -> str:
    out = io.StringIO()
    HtmlReporter(plots=plots).render(report, out)
    return out.getvalue()


def hostile(text: str) -> Report:
    """A report in which every text of a log, and of what is plotted, is `text`."""
    report = left_the_bus()
    first = report.diagnosis.verdicts[0]
    verdict = replace(
        first,
        summary=text,
        evidence=(Evidence(Role.PROOF, text, text, 1, says=text), Evidence(Role.CONTEXT, text, text, None, ref=text)),
        ruled_out=(RuledOut(text, text, {text: text}),),
        not_checked=(NotChecked(text, text, text),),
    )  # fmt: skip
    one = device(name=text, frame=samples(200))
    # A frame's own text may be unable to hold half a character.
    name = text.encode("utf-8", "replace").decode()
    shown = replace(one, counters=one.counters.assign(name=name))
    return replace(
        report,
        diagnosis=Diagnosis(
            (verdict, verdict), (Input(text, "text", 1, notes=(text,)),), host=text
        ),
        facts=(Fact(text, text, text),),
        incident=(IncidentLine(None, text, 1.0, "engine", text, text, 1),),
        questions=(Question(text, text),),
        maintainer=(text,),
        telemetry=replace(telemetry(shown), marks=(Mark(LOST, text, "proof", ADDRESS),)),
        replaced=text,
        made=text,
    )


@lru_cache(maxsize=1)
def plain_page() -> Page:
    return Page(written(hostile("plain")))


def test_parts_come_in_the_order_a_maintainer_reads() -> None:
    """The verdict first, then facts, the incident, proof, and what was ruled out or not seen."""
    page = Page(written(left_the_bus(), plots=False))

    names = ["Facts", "The last two minutes", "Proof", "Ruled out", "Not checked"]
    names += ["Why did it leave?", "Next steps", "Telemetry", "To fill in before posting", "Inputs"]
    assert [re.sub(r" \(.*", "", heading) for heading in page.headings] == names
    assert "left the bus" in page.text
    assert page.open == []


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No element, attribute or script comes from a log line, in words or in what is plotted."""
    pytest.importorskip("vl_convert")
    monkeypatch.setattr("gpuprobe.report.drawing.library", lambda: "0")
    plain = plain_page()
    page = Page(written(hostile(text)))

    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    for (_, attributes), (_, usual) in zip(page.elements, plain.elements, strict=True):
        assert attributes.keys() == usual.keys()
        assert not any(name.startswith("on") or name in ("src", "href") for name in attributes)
    assert page.open == []


def test_the_policy_allows_only_the_pages_own_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing by default; scripts and the style sheet by hash; no exception for inline or eval."""
    pytest.importorskip("vl_convert")
    monkeypatch.setattr("gpuprobe.report.drawing.library", lambda: "0")
    page = Page(written(left_the_bus()))

    [policy] = [a["content"] for tag, a in page.elements if a.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert policy.count("sha256-") == 3


def test_a_page_without_readings_has_no_script() -> None:
    """From logs alone there is nothing to draw, so nothing runs and nothing is said of plots."""
    text = written(replace(left_the_bus(), telemetry=None))

    assert "<script" not in text
    assert "script-src 'none'" in text
    assert "Plots" not in text
    assert len(text) < 100_000


def test_without_the_extra_the_page_says_how_to_get_plots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The report is whole but for its plots, and the reporter tells the command line."""
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    out = io.StringIO()
    reporter = HtmlReporter()

    reporter.render(left_the_bus(), out)

    assert "pip install &#x27;gpuprobe[report]&#x27;" in out.getvalue()
    assert "pip install 'gpuprobe[report]'" in reporter.problem
    assert "<script" not in out.getvalue()
    assert "Power draw" in out.getvalue()


@pytest.mark.slow
def test_the_page_stays_below_its_size() -> None:
    """Sixteen GPUs, 5,000 quotes and 400 lines: the lists are cut and say so, plots are left."""
    pytest.importorskip("vl_convert")
    report = left_the_bus()
    first = report.diagnosis.verdicts[0]
    quotes = tuple(Evidence(Role.PROOF, f"{n} " + "<" * 480, "k.log", n) for n in range(5000))
    diagnosis = replace(report.diagnosis, verdicts=(replace(first, evidence=quotes),) * 3)
    frame = samples()
    devices = [device(f"0000:{number:02x}:00.0", frame) for number in range(16)]
    big = replace(report, diagnosis=diagnosis, telemetry=telemetry(*devices))

    text = written(big)

    assert len(text.encode()) <= MOST_BYTES
    assert " more</i>" in text
    assert 'data-device="0"' in text
