"""A report without what identifies people, machines and secrets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from gpuprobe.report.contents import Audience, Report
from gpuprobe.report.telemetry_types import Telemetry
from gpuprobe.reporters.redact import Redactor
from gpuprobe.reporters.texts_within import every_text

KEPT: Final[dict[Audience, frozenset[str]]] = {
    "engine": frozenset(),
    "vendor": frozenset({"serials", "uuids"}),
    "internal": frozenset({"hostnames", "ips", "serials", "uuids"}),
}
"""What each audience needs: a vendor the card's numbers, colleagues the machine's name too."""

_STRUCTURE: Final = frozenset(
    {
        "setting", "what", "by", "severity", "layer", "agent", "bits", "outcome", "via", "topic",
        "config", "how", "from_state", "framework", "operation", "signal", "cache", "counters",
        "device", "port", "parent", "sender", "limited_by", "other", "key", "stream", "call",
    }
)  # fmt: skip
"""Fields of events whose texts are gpuprobe's or the driver's own words, from short lists."""

_SAMPLED: Final = frozenset({"CountersSampled", "GpuSampled", "HostSampled", "PowerSampled"})


def redacted(
    report: Report, keep: Iterable[str] = (), folders: Iterable[str] = ()
) -> tuple[Report, Redactor]:
    """The report with pseudonyms, and what knows what they stand for.

    Args:
        report: As it was gathered.
        keep: Names out of `gpuprobe.reporters.redact.KEEPABLE`, beside what its audience needs.
        folders: Where the inputs lie, each with a `/` at its end: left out of every path.

    Raises:
        UsageError: A name in `keep` is none of these.
    """
    redactor = Redactor({*keep, *KEPT[report.audience]})
    cache: dict[str, str] = {}
    leading = sorted(folders, key=len, reverse=True)

    def text(found: str) -> str:
        if found not in cache:
            cache[found] = redactor.text(found)
        return cache[found]

    if leading:
        report = _changed(report, lambda found: _without(found, leading), str)
        report = replace(
            report,
            diagnosis=every_text(report.diagnosis, lambda found: _without(found, leading)),
        )
    for host in _hosts(report):
        redactor.host(host)
    texts: list[str] = []

    def note(found: str) -> str:
        texts.append(found)
        return found

    every_text(report.diagnosis, note)
    _changed(report, note, str)
    redactor.learn(texts)
    for side in {line.side for line in report.incident}:
        rows = (line for line in report.incident if line.side == side)
        redactor.learn_broken(text for line in rows for text in (line.text, *line.folded))
    diagnosis = redactor.diagnosis(report.diagnosis)
    done = _changed(report, text, redactor.host)
    return replace(done, diagnosis=diagnosis, replaced=redactor.summary()), redactor


def _changed(report: Report, text: Callable[[str], str], host: Callable[[str], str]) -> Report:
    """The report with its texts changed, but for those of the diagnosis."""
    telemetry = report.telemetry
    return replace(
        report,
        facts=every_text(report.facts, text),
        incident=every_text(report.incident, text),
        incident_note=text(report.incident_note),
        questions=every_text(report.questions, text),
        maintainer=every_text(report.maintainer, text),
        telemetry=None if telemetry is None else _telemetry(telemetry, text),
        saved=_saved(report.saved, text, host),
    )


def _telemetry(telemetry: Telemetry, text: Callable[[str], str]) -> Telemetry:
    """Figures are no texts; names and the labels of marks are."""
    devices = []
    for device in telemetry.devices:
        counters = device.counters.assign(name=device.counters["name"].map(text))
        name = None if device.name is None else text(device.name)
        devices.append(replace(device, name=name, counters=counters))
    marks = tuple(replace(mark, label=text(mark.label)) for mark in telemetry.marks)
    return replace(telemetry, devices=tuple(devices), marks=marks)


def _without(text: str, folders: Iterable[str]) -> str:
    for folder in folders:
        if folder in text:
            text = text.replace(folder, "")
    return text


def _hosts(report: Report) -> Iterable[str]:
    for one in (report.diagnosis, *report.diagnosis.other_hosts):
        if one.host:
            yield one.host
    for item in report.saved.get("inputs", ()):
        for _, fields in item["events"]:
            if fields.get("host"):
                yield fields["host"]
        if item["about"].get("hostname"):
            yield item["about"]["hostname"]


def _saved(
    saved: dict[str, Any], text: Callable[[str], str], host: Callable[[str], str]
) -> dict[str, Any]:
    """What is kept for judging again, every text that may hold a name replaced."""
    if not saved:
        return {}
    return {
        "inputs": [_input(item, text, host) for item in saved["inputs"]],
        "unread": [
            {**item, "path": text(item["path"]), "notes": [text(note) for note in item["notes"]]}
            for item in saved["unread"]
        ],
    }


def _input(
    item: dict[str, Any], text: Callable[[str], str], host: Callable[[str], str]
) -> dict[str, Any]:
    about = {key: text(value) for key, value in item["about"].items() if key != "engine.argv"}
    if "hostname" in about:
        about["hostname"] = host(item["about"]["hostname"])
    if "engine.argv" in item["about"]:
        about["engine.argv"] = _argv(item["about"]["engine.argv"], text)
    return {
        **item,
        "path": text(item["path"]),
        "notes": [text(note) for note in item["notes"]],
        "recording": text(item["recording"]),
        "continues": text(item["continues"]),
        "about": about,
        "paired": [[one and host(one), stamps] for one, stamps in item["paired"]],
        "events": [[kind, _event(kind, fields, text, host)] for kind, fields in item["events"]],
    }


def _argv(value: str, text: Callable[[str], str]) -> str:
    try:
        words = json.loads(value)
    except (ValueError, RecursionError):
        return "[]"
    return json.dumps([text(str(word)) for word in words] if isinstance(words, list) else [])


def _event(
    kind: str, fields: dict[str, Any], text: Callable[[str], str], host: Callable[[str], str]
) -> dict[str, Any]:
    done: dict[str, Any] = {}
    for name, value in fields.items():
        if name in ("origin", "last"):
            path, line, words, ref, order = value
            # The words of a sample are made of its figures.
            words = words if kind in _SAMPLED else text(words)
            done[name] = [text(path), line, words, ref and text(ref), order]
        elif name == "host":
            done[name] = host(value)
        elif name == "stamp" or name in _STRUCTURE:
            done[name] = value
        else:
            done[name] = every_text(value, text)
    return done
