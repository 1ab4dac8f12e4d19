"""One JSON object a line: the journal's, Docker's json-file, programs' own, log stores' answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from gpuprobe.clock import Stamp
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.framing.base import Framing, Peeled
from gpuprobe.sources.framing.times import epoch_stamp, iso_stamp

_MESSAGE_KEYS = ("msg", "message", "log", "text", "event", "MESSAGE", "Message", "fields")
_TIME_KEYS = (
    "time", "timestamp", "ts", "@timestamp", "asctime", "datetime", "t", "date", "Time",
    "Created", "EventTimestamp",
)  # fmt: skip
"""The last two are Redfish's."""
_ERROR_KEYS = ("error", "err", "reason", "cause", "exception", "exc_info", "stacktrace", "details")
"""Where structured loggers (zap, zerolog, slog, pino, structlog) put what went wrong."""
_RAW_KEYS = ("message", "raw", "raw_message", "raw_line", "line", "entry", "kmsg", "original")
"""Where agents keep the line that they tell of, beside their own message."""
_ASKED = regex(r"\b(?:requests?|prompts?|chat|completions?|query|question)\b", re.IGNORECASE)
"""What stands beside such a message may be what somebody asked a model."""
_STORED_KEYS = ("message", "textPayload", "log", "line", "event.original")
"""Where log stores put the line in an entry of theirs."""
_AUTHOR_KEYS = frozenset({"title", "author", "user", "html_url", "number"})
"""What stands beside the `body` of an issue or a comment."""
_EVENT_KEYS = ("event", "events", "healthEvent", "healthEvents", "health_event")
"""Where NVSentinel's parts put what another of them reported."""
_LEVEL_KEYS = ("level", "severity", "levelname", "lvl", "log.level", "priority", "Severity")


def _text(value: object) -> str | None:
    """A journal field's text: a string, a byte array, or several of them."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        if all(isinstance(item, int) and 0 <= item < 256 for item in value):
            return bytes(value).decode("utf-8", errors="replace")
        return "\n".join(text for item in value if (text := _text(item)) is not None)
    return None


def _number(value: object) -> int | None:
    text = value if isinstance(value, str) else _text(value)
    return int(text) if text and text.isdecimal() and len(text) < 20 else None


def journal_record(fields: Mapping[str, object], name: str) -> Peeled | None:
    """Read a journal entry's fields.

    Args:
        fields: By their journal names; values as `journalctl -o json` writes them.
        name: The framing's name.
    """
    message = _text(fields.get("MESSAGE"))
    if message is None:
        return None
    real = _number(fields.get("__REALTIME_TIMESTAMP"))
    if real is None:
        real = _number(fields.get("_SOURCE_REALTIME_TIMESTAMP"))
    mono = _number(fields.get("_SOURCE_MONOTONIC_TIMESTAMP"))
    if mono is None:
        mono = _number(fields.get("__MONOTONIC_TIMESTAMP"))
    stamp: Stamp | None = None
    if real is not None and (wall := epoch_stamp(str(real), real / 1e6)) is not None:
        monotonic_s = None if mono is None else mono / 1e6
        stamp = Stamp(str(real), monotonic_s, wall.wall, resolution_s=1e-6)
    source = _text(fields.get("SYSLOG_IDENTIFIER")) or _text(fields.get("_COMM"))
    kernel = fields.get("_TRANSPORT") == "kernel" or source == "kernel"
    pid = _number(fields.get("_PID"))
    return Peeled(
        message,
        name,
        stamp,
        host=_text(fields.get("_HOSTNAME")) or None,
        machine_id=_text(fields.get("_MACHINE_ID")) or None,
        boot_id=_text(fields.get("_BOOT_ID")) or None,
        source=source or ("kernel" if kernel else None),
        pid=pid if pid is not None else _number(fields.get("SYSLOG_PID")),
        kernel=kernel,
        ref=_text(fields.get("__CURSOR")),
        lineless=isinstance(fields.get("MESSAGE"), list),
    )


def _docker(fields: Mapping[str, object]) -> Peeled | None:
    message, time = fields.get("log"), fields.get("time")
    if not isinstance(message, str) or not isinstance(time, str) or "stream" not in fields:
        return None
    return Peeled(message.rstrip("\r\n"), "docker-json", iso_stamp(time, raw=time))


def _when(fields: Mapping[str, object]) -> tuple[bool, Stamp | None]:
    for key in _TIME_KEYS:
        value = fields.get(key)
        if isinstance(value, str):
            return True, iso_stamp(value, raw=value[:80])
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            # Nothing later is a time: 1e999 is infinite, and a thousandth of it as well.
            seconds = float(value) if value < 1e24 else 0.0
            while seconds > 1e11:  # milli-, micro- or nanoseconds
                seconds /= 1000.0
            stamp = epoch_stamp(str(value), seconds, "000") if seconds > 1e8 else None
            return True, stamp
    return False, None


def _program(fields: Mapping[str, object]) -> Peeled | None:
    dated, stamp = _when(fields)
    if not dated and not any(key in fields for key in _LEVEL_KEYS):
        # Data that happens to be JSON, such as a chat: not a log.
        return None
    for key in (*_MESSAGE_KEYS, *_RAW_KEYS):
        value = fields.get(key)
        if isinstance(value, dict) and key == "fields":
            value = value.get("message")  # Rust's tracing
        if isinstance(value, str) and value:
            return Peeled(_with_error(value.rstrip("\r\n"), fields), "json-lines", stamp)
    return Peeled("", "json-lines", stamp)


def _stored(fields: Mapping[str, object]) -> Peeled | None:
    """The lines in a log store's answer: Loki's streams, CloudWatch's events, Elasticsearch's hits."""
    data = fields.get("data")
    streams = data.get("result") if isinstance(data, Mapping) else fields.get("streams")
    told: list[tuple[object, object]] = []
    for stream in streams if isinstance(streams, list) else ():
        values = stream.get("values") if isinstance(stream, Mapping) else None
        told += [
            (pair[0], pair[1])
            for pair in (values if isinstance(values, list) else ())
            if isinstance(pair, list) and len(pair) >= 2
        ]
    hits = fields.get("hits")
    for entries in (fields.get("events"), hits.get("hits") if isinstance(hits, Mapping) else None):
        told += _entries(entries)
    return _behind_times(told)


def _entries(entries: object) -> list[tuple[object, object]]:
    """Time and line of each entry in a list: CloudWatch's, Elasticsearch's, Google Cloud's."""
    told: list[tuple[object, object]] = []
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, Mapping):
            return []
        fields = entry.get("_source", entry)
        fields = fields if isinstance(fields, Mapping) else entry
        when = next((fields[key] for key in _TIME_KEYS if key in fields), None)
        line = next((fields[key] for key in _STORED_KEYS if key in fields), None)
        if when is not None:
            told.append((when, line))
    return told


def _conversation(entries: Iterable[object]) -> Peeled | None:
    """What people wrote in an issue, a comment or a list of them, as a tracker's API gives it."""
    bodies: list[str] = []
    for entry in entries:
        if not isinstance(entry, Mapping) or not _AUTHOR_KEYS & entry.keys():
            return None
        if isinstance(body := entry.get("body"), str):
            bodies.append(body)
        comments = entry.get("comments")
        for comment in comments if isinstance(comments, list) else ():
            if isinstance(comment, Mapping) and isinstance(body := comment.get("body"), str):
                bodies.append(body)
    text = "\n\n".join(bodies)
    return Peeled(text, quoted=True) if "\n" in text else None


def _behind_times(told: Iterable[tuple[object, object]]) -> Peeled | None:
    """The lines, each behind its time as an ISO time, the oldest first."""
    dated = [(_iso(when), line) for when, line in told if isinstance(line, str)]
    if dated and dated[0][0] > dated[-1][0]:
        dated.reverse()
    lines = [f"{when} {line}" for when, line in dated]
    return Peeled("\n".join(lines), "json-lines") if lines else None


def _iso(when: object) -> str:
    """A count of milli- or nanoseconds as an ISO time, other times as they stand."""
    text = str(when)
    if not text.isdecimal() or len(text) > 20:
        return text
    seconds = int(text)
    digits = max(len(text) - 10, 0)
    whole = datetime.fromtimestamp(seconds // 10**digits, UTC)
    part = f".{seconds % 10**digits:0{digits}d}" if digits else ""
    return f"{whole:%Y-%m-%dT%H:%M:%S}{part[:10]}Z"


def _with_error(message: str, fields: Mapping[str, object]) -> str:
    """The message and, behind a colon, the error or the line that was logged beside it."""
    said = [message]
    raw = () if _ASKED.search(message) else _RAW_KEYS
    for key in (*_ERROR_KEYS, *raw):
        value = fields.get(key)
        if isinstance(value, Mapping) and key in _ERROR_KEYS:
            value = value.get("message") or value.get("msg")
        if isinstance(value, str) and value and not any(value in part for part in said):
            said.append(value.rstrip("\r\n"))
    for key in _EVENT_KEYS:
        if isinstance(fields.get(key), (Mapping, list)):
            import json

            said.append(json.dumps(fields[key], ensure_ascii=False))
    return ": ".join(said)


def load_object(text: str) -> dict[str, object] | None:
    """The JSON object that the text is, or None."""
    stripped = text.strip()
    if not stripped.endswith("}"):
        return None
    import json  # slow to import, for logs that hold none

    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _peel(text: str) -> Peeled | None:
    fields = load_object(text)
    if not fields:
        return None
    if "MESSAGE" in fields and (
        "__REALTIME_TIMESTAMP" in fields or "_BOOT_ID" in fields or "PRIORITY" in fields
    ):
        return journal_record(fields, "journal-json")
    peeled = _docker(fields) or _stored(fields) or _conversation([fields]) or _program(fields)
    if peeled is not None and not peeled.rest:
        if peeled.format == "docker-json":
            return peeled
        return Peeled(text, peeled.format, peeled.stamp, final=True)
    return peeled


def _peel_list(text: str) -> Peeled | None:
    """A list of a log store's entries that stands in one line."""
    stripped = text.strip()
    if not (stripped.startswith("[{") and stripped.endswith("}]")):
        return None
    import json

    try:
        entries = json.loads(stripped)
        return _behind_times(_entries(entries)) or _conversation(entries)
    except (ValueError, RecursionError):
        return None


FRAMINGS = (Framing("json", "{", _peel), Framing("json-list", "[", _peel_list, outermost=True))
