"""Which events belong to which machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpuprobe.events import Event, is_evidence
from gpuprobe.lazy_regex import regex

_POD = regex(r"^(?:[0-9a-f]{12}|[0-9a-f]{64}|.+-[0-9a-f]{8,10}-[a-z0-9]{5}|.+-\d{1,3})$")
"""Names that an orchestrator makes: container ids, pods of a deployment or a stateful set."""

_PLACEHOLDERS = frozenset({"localhost", "localhost.localdomain", "(none)", "unknown", "-"})


@dataclass(slots=True)
class HostGroup:
    """Events of one machine.

    Attributes:
        name: The host's name, or None where no input names one.
        events: Its events, in order of input and line.
        paths: The inputs they came from.
    """

    name: str | None
    events: list[Event] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


class _Names:
    """Names of machines, joined where two of them share a machine id or a boot id."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def add(self, name: str) -> str:
        self._parent.setdefault(name, name)
        while self._parent[name] != name:
            name = self._parent[name]
        return name

    def join(self, first: str, second: str) -> None:
        a, b = self.add(first), self.add(second)
        if a != b:
            self._parent[b] = a

    def find(self, name: str) -> str | None:
        return self.add(name) if name in self._parent else None

    def groups(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for name in self._parent:
            found[self.add(name)].append(name)
        return found


def group_by_host(
    events: Iterable[Event], paths: Sequence[str], *, host: str | None = None
) -> list[HostGroup]:
    """Events by machine; those of inputs that name none join the only machine there is.

    Args:
        events: All events of all inputs.
        paths: All inputs' paths, so that an input without events is in a group too.
        host: The user's `--host`: what inputs that name no machine belong to.

    Returns:
        At least one group. With two machines or more, the events of unnamed inputs are a group
        of their own, whose name is None.
    """
    events = list(events)
    names = _Names()
    for event in events:
        key = _known_host(event)
        if key is None:
            continue
        names.add(key)
        for other in (event.machine_id, event.boot if _is_id(event.boot) else None):
            if other:
                names.join(key, f"id:{other}")
    by_path = _hosts_of_paths(events, names)
    machines = _machines(names)
    if host is not None:
        machines.setdefault(host, host)
    groups: dict[str | None, HostGroup] = {}
    default = host if host is not None else _only(machines)
    for event in events:
        root = _root_of(event, names)
        if root is None:
            owners = by_path.get(event.origin.input, set())
            root = next(iter(owners)) if len(owners) == 1 else default
            root = root if _foreign(event, machines) is None else _foreign(event, machines)
        group = groups.setdefault(root, HostGroup(machines.get(root) if root else None))
        group.events.append(event)
        if event.origin.input not in group.paths:
            group.paths.append(event.origin.input)
    if not groups:
        groups[default] = HostGroup(machines.get(default) if default else None)
    listed = {path for group in groups.values() for path in group.paths}
    home = groups.get(default) or next(iter(groups.values()))
    home.paths.extend(path for path in paths if path not in listed)
    return list(groups.values())


def _known_host(event: Event) -> str | None:
    """A machine's name, from where a name can be trusted: the kernel's lines and the journal."""
    if not is_evidence(event):
        return None
    name = _usable(event.host)
    if event.machine_id or _is_id(event.boot):
        return name or f"id:{event.machine_id or event.boot}"
    return name if event.source == "kernel" else None


def _is_id(boot: str | None) -> bool:
    return boot is not None and len(boot) == 32


def _usable(name: str | None) -> str | None:
    return None if name is None or name.lower() in _PLACEHOLDERS else name


def _root_of(event: Event, names: _Names) -> str | None:
    for key in (_usable(event.host), f"id:{event.machine_id}", f"id:{event.boot}"):
        if key and (root := names.find(key)):
            return root
    return None


def _hosts_of_paths(events: Iterable[Event], names: _Names) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if root := _root_of(event, names):
            found[event.origin.input].add(root)
    return found


def _machines(names: _Names) -> dict[str, str]:
    """Each machine's key and the name it is shown by: a host name rather than an id."""
    shown = {}
    for root, members in names.groups().items():
        plain = [member for member in members if not member.startswith("id:")]
        shown[root] = plain[0] if plain else members[0][3:]
    return shown


def _only(machines: dict[str, str]) -> str | None:
    return next(iter(machines)) if len(machines) == 1 else None


def _foreign(event: Event, machines: dict[str, str]) -> str | None:
    """A syslog name that is neither a known machine nor made by an orchestrator: another one."""
    name = _usable(event.host)
    if name is None or not machines or name in machines or _POD.match(name):
        return None
    return f"other:{name}"
