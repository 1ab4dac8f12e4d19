"""Events as JSON, one line each, for log shippers.

```json
{"schema": "gpuprobe.event/1", "kind": "xid-reported", "at": "…", "device": "0000:04:00.0",
 "input": "/dev/kmsg", "line": null, "ref": "812", "text": "NVRM: Xid …", "count": 1,
 "setting": "log", "fields": {"code": 79}}
```

`kind` is the event's name in the library; `fields` holds what events of that kind have beyond the
rest, without what is unknown. A diagnosis that changed is a line of kind `diagnosed`, with the
whole document under `diagnosis`. Everything beyond ASCII is escaped, so a line stays a line.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final

from gpuprobe.diagnosis import Diagnosis
from gpuprobe.identity import PciAddress
from gpuprobe.reporters.json import to_dict

SCHEMA: Final = "gpuprobe.event/1"

_COMMON: Final = frozenset(
    {"origin", "stamp", "host", "machine_id", "boot", "setting", "device", "source", "count"}
    | {"last"}
)
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def event_line(event: Any) -> str:
    """An event of `gpuprobe.events` as one line without its end."""
    stamp, origin = event.stamp, event.origin
    wall = stamp.wall if stamp is not None and stamp.is_absolute else None
    own = {
        item.name: _plain(getattr(event, item.name))
        for item in fields(event)
        if item.name not in _COMMON and getattr(event, item.name) not in (None, "", ())
    }
    return _dump(
        {
            "schema": SCHEMA,
            "kind": _WORDS.sub("-", type(event).__name__).lower(),
            "at": None if wall is None else wall.isoformat(),
            "device": _plain(event.device),
            "source": event.source,
            "input": origin.input,
            "line": origin.line,
            "ref": origin.ref,
            "text": origin.text,
            "count": event.count,
            "setting": str(event.setting),
            "fields": own,
        }
    )


def diagnosis_line(found: Diagnosis, at: datetime) -> str:
    """A diagnosis that changed, as one line without its end."""
    return _dump(
        {
            "schema": SCHEMA,
            "kind": "diagnosed",
            "at": at.isoformat(),
            "diagnosis": to_dict(found),
        }
    )


def _dump(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=True, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, PciAddress):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, tuple | list | frozenset | set):
        return [_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    return value if isinstance(value, str | int | float | bool | None) else str(value)
