"""One reading of everything: for a person, and as `gpuprobe.watch/1` for a program."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, TextIO

from gpuprobe import __version__
from gpuprobe.live.once import Figure, OnceGpu, OnceReport
from gpuprobe.reading import Known, Unavailable, to_json
from gpuprobe.reporters import outline
from gpuprobe.reporters.json import to_dict
from gpuprobe.reporters.plain import COLUMNS, printable, wrap

SCHEMA: Final = "gpuprobe.watch/1"
NAME_COLUMNS: Final = 34


_UNITS: Final = {
    "C": "°C",
    "action": "",
    "count": "",
    "flag": "",
    "generation": "",
    "number": "",
    "percent": "%",
    "state": "",
    "text": "",
}
"""How a unit is written for a person; what says nothing is left out."""


class OnceTextReporter:
    """One line a value, and what is not there by its reason."""

    def render(self, report: OnceReport, out: TextIO) -> None:
        """Write `report` to `out`, ending with a newline."""
        out.writelines(f"{line}\n" for line in self._lines(report))

    def _lines(self, report: OnceReport) -> Iterator[str]:
        yield from wrap(f"[{report.answer}] {_headline(report)}", COLUMNS)
        for gpu in report.gpus:
            yield ""
            yield printable(_title(gpu))
            yield from self._figures(gpu.bus, "sysfs")
            yield from self._figures(gpu.nvml, "NVML")
        yield from self._section("Host", report.host)
        yield from self._section("Driver", report.system)
        yield ""
        yield "Sources"
        for state in report.states:
            if isinstance(state.access, Unavailable):
                text = f"not available: {state.access.detail or state.access.reason.value}"
            else:
                text = state.access.value
            yield from _item(state.name, printable(text))
            if isinstance(state.access, Unavailable) and state.access.hint:
                yield f"      -> {printable(state.access.hint)}"

    def _section(self, title: str, figures: Iterable[Figure]) -> Iterator[str]:
        lines = list(self._figures(figures, ""))
        if lines:
            yield ""
            yield title
            yield from lines

    def _figures(self, figures: Iterable[Figure], source: str) -> Iterator[str]:
        missing: dict[str, list[str]] = {}
        known = []
        for figure in figures:
            if isinstance(figure.reading, Known):
                known.append(figure)
            else:
                missing.setdefault(figure.reading.reason.value, []).append(figure.name)
        if source and (known or missing):
            yield f"  {source}"
        for figure in known:
            yield from _item(figure.name, _value(figure))
        for reason, names in missing.items():
            yield from _item(f"({reason})", ", ".join(names))


def _item(name: str, text: str) -> Iterator[str]:
    lead = f"    {printable(name):<{NAME_COLUMNS}} "
    for row in wrap(text, max(20, COLUMNS - len(lead))) or [""]:
        yield (lead + row).rstrip()
        lead = " " * len(lead)


def _value(figure: Figure) -> str:
    assert isinstance(figure.reading, Known)
    value = figure.reading.value
    if figure.unit == "mask" and isinstance(value, int):
        return f"{value:#x}"
    if figure.unit == "id" and isinstance(value, int):
        return f"{value & 0xFFFF:04x}:{value >> 16:04x}"
    if figure.unit == "bytes" and isinstance(value, int) and value >= 2**20:
        return f"{value} bytes ({value / 2**30:.2f} GiB)"
    shown = f"{value:.6g}" if isinstance(value, float) else printable(str(value))
    return f"{shown} {_UNITS.get(figure.unit, figure.unit)}".rstrip()


def _title(gpu: OnceGpu) -> str:
    index = f"  index {gpu.index}" if gpu.index is not None else ""
    why = f" ({gpu.why})" if gpu.why else ""
    return f"GPU {gpu.pci}{index}  {gpu.name or ''}  {gpu.state}{why}"


def _headline(report: OnceReport) -> str:
    first = report.diagnosis.verdicts[0]
    if report.answer != first.kind:
        return "No GPU could be looked at."
    if report.exit_code:
        return f"[{outline.tag(first)}] {printable(first.summary)}"
    count = len(report.gpus)
    return f"{count} GPU{'s' if count != 1 else ''} read; nothing failed meanwhile."


class OnceJsonReporter:
    """The same for programs; its schema is `watch.schema.json` beside this module."""

    def render(self, report: OnceReport, out: TextIO) -> None:
        """Write `report` to `out`, ending with a newline."""
        json.dump(self.document(report), out, indent=2, ensure_ascii=False)
        out.write("\n")

    def document(self, report: OnceReport) -> dict[str, Any]:
        """The document as plain values."""
        return {
            "schema": SCHEMA,
            "tool": {"name": "gpuprobe", "version": __version__},
            "answer": report.answer,
            "summary": _headline(report),
            "verdicts": to_dict(report.diagnosis)["verdicts"],
            "gpus": [
                {
                    "pci": str(gpu.pci),
                    "name": gpu.name,
                    "index": gpu.index,
                    "state": gpu.state,
                    "why": gpu.why,
                    "nvml": _readings(gpu.nvml),
                    "bus": _readings(gpu.bus),
                }
                for gpu in report.gpus
            ],
            "host": _readings(report.host),
            "driver": _readings(report.system),
            "sources": [
                {"name": state.name, **_access(to_json(state.access))} for state in report.states
            ],
        }


def _access(found: dict[str, Any]) -> dict[str, Any]:
    return {"available": "value" in found, **{k: v for k, v in found.items() if k != "value"}}


def _readings(figures: Iterable[Figure]) -> dict[str, Any]:
    return {
        figure.name: {**to_json(figure.reading), **({"unit": figure.unit} if figure.unit else {})}
        for figure in figures
    }
