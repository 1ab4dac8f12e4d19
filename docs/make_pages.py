"""Write the pages that come from the code: one a verdict kind, and the catalogue.

Run by `make docs`. `tests/test_docs_pages.py` fails when a committed page is not what this gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprobe import catalog, pace
from gpuprobe.catalog.advice import Step, folklore_entries, steps, tag_meanings
from gpuprobe.catalog.causes import cause_rules, cause_texts
from gpuprobe.diagnosis import Kind
from gpuprobe.explanations import rule_page
from gpuprobe.live.nvml import calls as nvml

if TYPE_CHECKING:
    from gpuprobe.report.gathering import Gathered

DOCS = Path(__file__).parent
GENERATED = "<!-- Written by docs/make_pages.py; change the source, then run `make docs`. -->"


def pages() -> dict[str, str]:
    """Every generated page: its path below docs/ and its text."""
    found = {f"rules/{kind.value}.md": rule(kind) for kind in Kind}
    found["rules/README.md"] = rules_index()
    found["catalogue/xid.md"] = xid()
    found["catalogue/cuda.md"] = cuda()
    found["catalogue/aer.md"] = aer()
    found["catalogue/advice.md"] = advice()
    found["nvml-calls.md"] = nvml_calls()
    found["gallery.md"] = gallery()
    return found


GALLERY = (
    (
        "left-the-bus",
        "A GPU that left the bus",
        "An engine's log and the kernel's, nothing else: no samples, so the report says what was "
        "not seen. The incident is made up, in the form of real ones.",
        "",
    ),
    (
        "h200-assert.gpuprobe",
        "A program's own fault on an H200",
        "Recorded by `gpuprobe run` on the real card: 25 seconds of matrix products, then an index "
        "that is out of bounds. Host name, boot line, serial and UUID are taken out or replaced.",
        "gallery-h200-assert.png",
    ),
)
"""Inputs below examples/, their headings, what to know, and the picture of their plots."""


def gallery() -> str:
    """The reports of the incidents in examples/, as an issue would show them."""
    lines = ["# What a report looks like", ""]
    lines += ["Two reports as GitHub shows them, made from what lies in `examples/`.", ""]
    for name, heading, about, picture in GALLERY:
        command = f"gpuprobe report examples/{name} -o report"
        lines += [f"## {heading}", "", about, "", "```sh", f"{command}.md"]
        lines += [f"{command}.html   # one page with plots that zoom", "```", ""]
        body = _report_of(name).split("\n")[1:]
        lines += [_deeper(line) for line in body]
        if picture:
            lines += [f"![Power, temperature, clocks and what held them down]({picture})", ""]
    return _page(lines)


def _deeper(line: str) -> str:
    return f"#{line}" if line.startswith(("## ", "### ")) else line


def _gathered(name: str) -> Gathered:
    from gpuprobe.report.gathering import gather

    return gather([DOCS.resolve().parent / "examples" / name])


def _report_of(name: str) -> str:
    """One report as Markdown; the time at which it was made would change the page each time."""
    from io import StringIO

    from gpuprobe.reporters.report_markdown import ReportMarkdown
    from gpuprobe.reporters.report_redacted import redacted

    gathered = _gathered(name)
    report, _ = redacted(replace(gathered.report, made=""), (), gathered.folders)
    out = StringIO()
    ReportMarkdown().render(report, out)
    return out.getvalue()


SHOWN_PANELS = ("power", "temperature", "sm-clock", "clock-reasons")


def pictures() -> Iterator[tuple[str, bytes]]:
    """The plots that stand on the gallery's page; they need the extra `report`."""
    import json

    from gpuprobe.report import panels
    from gpuprobe.report.draw import png
    from gpuprobe.report.drawing import picture_spec

    for name, *_, picture in GALLERY:
        telemetry = _gathered(name).report.telemetry
        if picture and telemetry is not None:
            made = panels.plots(telemetry, telemetry.devices[0])
            few = tuple(panel for panel in made.panels if panel.name in SHOWN_PANELS)
            yield picture, png(json.dumps(picture_spec(replace(made, panels=few))), 1.0)


def rule(kind: Kind) -> str:
    """The page of a verdict kind: its meaning, its rule's own words, its Xids and next steps."""
    lines = [f"# {kind.value}", "", catalog.kind_meanings()[kind], ""]
    page = rule_page(kind)
    if page:
        lines += [*_sections(page), ""]
    codes = [xid for xid in catalog.xids() if xid.kind is kind and not xid.unused]
    if codes:
        lines += ["## Xids that support it", ""]
        lines += [f"- {one.code}: {one.name}{_limit(one)}" for one in codes]
        lines.append("")
    lines += ["## Next steps it can come with", ""]
    lines += [f"- {step.text}" for step in sorted(_steps_of(kind), key=lambda step: step.rank)]
    lines += ["", f"See [next steps](../catalogue/advice.md). Source: {_rule_file(kind)}."]
    return _page(lines)


def rules_index() -> str:
    """The list of verdict kinds."""
    rows = [(f"[{kind.value}]({kind.value}.md)", catalog.kind_meanings()[kind]) for kind in Kind]
    return _page(["# Verdict kinds", "", *_table(("kind", "meaning"), rows)])


def xid() -> str:
    """The table of Xids."""
    rows = [
        (
            str(one.code),
            one.name,
            "(unused on new GPUs)" if one.unused else " ".join((one.meaning, one.note)).strip(),
            one.verdict + (f", at most {one.max_certainty}" if one.max_certainty else ""),
            one.left_the_bus,
            one.nvidia_bucket,
        )
        for one in catalog.xids()
    ]
    head = ("Xid", "name", "meaning", "verdict", "left the bus", "NVIDIA's action")
    unused = next(one.meaning for one in catalog.xids() if one.unused)
    lines = [
        "# Xids",
        "",
        "What each code supports as the root of an incident. `context` supports no verdict.",
        f"Unused codes: {unused}",
        "",
        *_table(head, rows),
        "",
        "## Recovery actions (Xid 154, NVML field 230)",
        "",
        *_table(
            ("value", "words, 565 to 595", "words, 610 on", "meaning"),
            [
                (f"{one.value:#x}", one.old_text or "-", one.new_text or "-", one.meaning)
                for one in catalog.recovery_actions()
            ],
        ),
        "",
        *_sources(
            [
                *(one.source for one in catalog.xids()),
                *(one.source for one in catalog.recovery_actions()),
            ]
        ),
    ]
    return _page(lines)


def cuda() -> str:
    """The tables of CUDA errors, NVML's return codes and driver status numbers."""
    lines = [
        "# CUDA errors, NVML codes, driver status",
        "",
        "No CUDA error proves that a GPU left the bus. `maybe` means that a loss can cause it.",
        "",
        *_table(
            ("code", "name", "text", "loss", "hint", "meaning", "look at"),
            [
                (str(e.code), e.name, e.text, e.loss, e.verdict.value, e.meaning, e.next)
                for e in catalog.cuda_errors()
            ],
        ),
        "",
        "## NVML return codes",
        "",
        *_table(
            ("code", "name", "left the bus", "verdict", "meaning"),
            [(str(c.code), c.name, c.loss, c.verdict, c.meaning) for c in catalog.nvml_codes()],
        ),
        "",
        "## Driver status numbers (NV_ERR)",
        "",
        *_table(
            ("status", "name", "left the bus", "meaning"),
            [(f"{s.code:#04x}", s.name, s.loss, s.meaning) for s in catalog.rm_statuses()],
        ),
        "",
        *_sources(
            [
                *(one.source for one in catalog.cuda_errors()),
                *(one.source for one in catalog.nvml_codes()),
                *(one.source for one in catalog.rm_statuses()),
            ]
        ),
    ]
    return _page(lines)


def aer() -> str:
    """The two tables of AER bits."""
    lines = ["# PCIe error bits (AER)", ""]
    lines += ["The two registers number their bits apart: bit 12 means two things.", ""]
    for severity in ("correctable", "uncorrectable"):
        rows = [
            (str(bit.bit), bit.name, bit.old_name, bit.layer, bit.loss, bit.meaning)
            for bit in catalog.aer_bits(severity)
        ]
        lines += [f"## {severity.capitalize()}", ""]
        lines += _table(("bit", "name", "long name", "layer", "loss", "meaning"), rows)
        lines.append("")
    bits = (*catalog.aer_bits("correctable"), *catalog.aer_bits("uncorrectable"))
    return _page([*lines, *_sources(bit.source for bit in bits)])


def advice() -> str:
    """Next steps, what is never suggested, and the rules that rank the causes of a loss."""
    lines = ["# Next steps and causes", ""]
    lines += ["gpuprobe prints these and runs none of them. `{...}` is filled in.", ""]
    for kind in Kind:
        lines += [f"## {kind.value}", ""]
        for step in sorted(_steps_of(kind), key=lambda step: step.rank):
            lines += _step(step)
        lines.append("")
    lines += ["## Never suggested", ""]
    lines += [f"- `{one.setting}`: {one.why} ({one.source})" for one in folklore_entries()]
    lines += ["", "## Why did it leave the bus? The rules", ""]
    names = {cause.id: cause.name for cause in cause_texts().values()}
    rows = [
        (
            one.id,
            one.condition,
            ", ".join(f"{effect.weight} {names[effect.cause]}" for effect in one.effects) or "-",
            one.caveat or "-",
            one.source,
        )
        for one in cause_rules().values()
    ]
    lines += _table(("rule", "if", "then", "caveat", "source"), rows)
    lines += ["", "## Conditions", ""]
    lines += _table(("tag", "meaning"), list(tag_meanings().items()))
    return _page(lines)


def _step(step: Step) -> Iterator[str]:
    conditions = []
    if step.requires:
        conditions.append(f"needs {', '.join(sorted(step.requires))}")
    if step.applies:
        conditions.append(f"with {' or '.join(sorted(step.applies))}")
    if step.not_when:
        conditions.append(f"not with {', '.join(sorted(step.not_when))}")
    yield f"- **{step.type}**: {step.text}"
    yield f"  - when: {step.when}; cost: {step.cost}"
    if step.commands:
        yield f"  - command: `` {step.commands[0]} ``"
    if step.undo or step.undo_otherwise:
        yield f"  - undo: `` {step.undo[0]} ``" if step.undo else f"  - undo: {step.undo_otherwise}"
    if step.helped:
        yield f"  - helped in {step.helped}"
    if conditions:
        yield f"  - chosen {'; '.join(conditions)}"
    yield f"  - source: {step.source}"


def _steps_of(kind: Kind) -> list[Step]:
    return [step for step in steps() if kind in step.kinds]


def _rule_file(kind: Kind) -> str:
    name = kind.value.replace("-", "_")
    path = DOCS.parent / "gpuprobe" / "rules" / f"{name}.py"
    return f"[gpuprobe/rules/{name}.py](../../gpuprobe/rules/{name}.py)" if path.exists() else "-"


def _limit(one: catalog.Xid) -> str:
    return f" (at most {one.max_certainty} alone)" if one.max_certainty else ""


def _sections(page: str) -> Iterator[str]:
    """A docstring with `Heading:` and indented text, as Markdown."""
    for line in page.splitlines():
        if line and not line[0].isspace() and line.endswith(":"):
            yield f"## {line[:-1]}"
            yield ""
        else:
            yield line.strip()


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _sources(texts: Iterable[str]) -> Iterator[str]:
    yield "## Sources"
    yield ""
    yield from (f"- {one}" for one in dict.fromkeys(part for t in texts for part in t.split("; ")))


def nvml_calls() -> str:
    """The list of NVML calls in use."""
    lines = ["# The NVML calls that gpuprobe makes", "", *NVML_INTRODUCTION.splitlines(), ""]
    for group, words in NVML_GROUPS.items():
        lines += [f"## {words}", "", f"Deadline: {nvml.DEADLINES_S[group]:g} s a call.", ""]
        calls = [call for call in nvml.CALLS if call.group is group]
        head = ("call", "values", "cost, µs", "note")
        lines += [*_table(head, [_nvml_row(call) for call in calls]), ""]
    lines += ["## Never made", ""]
    lines += [f"- `{name}`: {why}." for name, why in nvml.NEVER.items()]
    return _page(lines)


def _nvml_row(call: nvml.Call) -> tuple[str, ...]:
    """One call as a row."""
    arguments = f"({', '.join(map(hex, call.args))})" if call.args else ""
    gives = [
        f"`{value.name}` ({value.unit}{f', field {value.field}' if value.field else ''})"
        for value in call.gives
    ]
    cost = "" if call.cost_us is None else f"{call.cost_us:g}"
    return (f"`{call.function}`{arguments}", ", ".join(gives), cost, call.note)


NVML_INTRODUCTION = """\
All of them; no other is made. They run in a process of their own, `gpuprobe.live.nvml_child`, with
one thread a GPU, so that a call that never returns costs nobody else anything. Numbers behind a
name are its fixed arguments. Where two calls give one value, the first that the device answers is
used and the other is never made again; a call that is not supported is made once.

After GPU_IS_LOST no further call goes to that device. After an Xid that means a firmware hang none
is made at all. A GPU that is runtime-suspended is not opened. `--no-nvml` makes none of them.

Costs are medians of 200 calls on an H200 with driver 580.159.04."""

NVML_GROUPS = {
    nvml.Group.FAST: "At the sampling rate",
    nvml.Group.CALM: f"At the sampling rate, every {pace.CALM_S:g} s at most",
    nvml.Group.SLOW: f"Every {pace.SLOW_S:g} s",
    nvml.Group.USERS: (
        f"Every {pace.SLOW_S:g} s while memory in use changes, else every {pace.USERS_S:g} s"
    ),
    nvml.Group.RARE: f"Every {pace.RARE_S:g} s",
    nvml.Group.SELDOM: f"Every {pace.SELDOM_S:g} s",
    nvml.Group.ONCE: "When a device is opened",
    nvml.Group.LIBRARY: "About the library",
    nvml.Group.EVENT: "For NVML's own events",
}


def _page(lines: Sequence[str]) -> str:
    return "\n".join([GENERATED, "", *lines]).rstrip() + "\n"


def main() -> None:
    """Write all pages."""
    for name, text in pages().items():
        path = DOCS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name, picture in pictures():
        (DOCS / name).write_bytes(picture)


if __name__ == "__main__":
    main()
