"""Pseudonyms for what identifies people, machines and secrets, the same all over one report.

Numbers are given per report (`host-1`, `user-1`), so two reports cannot be joined by them. What
the diagnosis rests on stays: PCI addresses, Xids, versions, times, figures.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
from collections import Counter
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, cast

from gpuprobe.diagnosis import Diagnosis
from gpuprobe.identity import PciAddress
from gpuprobe.reporters import identifying as find

Value = TypeVar("Value")

_STRUCTURE = frozenset({"format", "score", "type", "rule", "cause", "kind", "weight"})
"""Fields whose text is the program's own, from a closed list."""


class Redactor:
    """Replaces what identifies; one object for one report.

    Use `diagnosis` for a whole diagnosis or `text` for a single one. Equal things get equal
    pseudonyms for as long as the object lives.
    """

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._numbers: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._hosts: dict[str, str] = {}
        self._users: set[str] = set()

    # --- use ---

    def diagnosis(self, diagnosis: Diagnosis) -> Diagnosis:
        """Return `diagnosis` with every text redacted; hosts and users are looked for first."""
        for host in (diagnosis, *diagnosis.other_hosts):
            if host.host:
                self._add_host(host.host)
        _walk(diagnosis, self._learn)
        return self._without_names(_walk(diagnosis, self.text))

    def _without_names(self, diagnosis: Diagnosis) -> Diagnosis:
        """`Diagnosis.host` holds a name as a whole, which may be too common to find in text."""
        host = diagnosis.host
        if host and host in self._hosts:
            host = self._name("host", self._hosts[host])
        others = tuple(self._without_names(other) for other in diagnosis.other_hosts)
        return dataclasses.replace(diagnosis, host=host, other_hosts=others)

    def text(self, text: str) -> str:
        """Return `text` redacted."""
        self._learn(text)
        text = self._secrets(text)
        text = find.EMAIL.sub(self._email, text)
        text = find.LOGIN.sub(self._login, text)
        text = find.HOME.sub(lambda m: self._user(m[0]), text)
        text = find.USER.sub(self._in_group("user", self._user), text)
        text = find.UUID.sub(lambda m: self._name("uuid", m[0].lower()), text)
        text = find.ID128.sub(lambda m: self._name("uuid", m[0]), text)
        text = find.MAC.sub(lambda m: self._name("mac", m[0].lower()), text)
        text = find.DEVICE_SERIAL.sub(self._in_group("serial", self._serial), text)
        text = find.SERIAL.sub(self._in_group("serial", self._serial), text)
        text = find.IPV4.sub(self._address, text)
        text = find.IPV6.sub(self._address, text)
        text = find.SYSLOG_HOST.sub(self._in_group("host", self._host), text)
        text = find.HOST_FIELD.sub(self._in_group("host", self._host), text)
        return self._known_names(text)

    def replaced(self) -> dict[str, int]:
        """Pseudonym to how often it was put in, in the order of first use."""
        return dict(self._counts)

    def summary(self) -> str:
        """`2 hosts (14 times), 1 user (3 times)`, or "" when nothing was replaced."""
        things: Counter[str] = Counter()
        times: Counter[str] = Counter()
        for pseudonym, number in self._counts.items():
            kind = pseudonym.strip("[]").rsplit("-", 1)[0]
            things[kind] += 1
            times[kind] += number
        labels = {"ip": "IP address", "mac": "MAC address", "email": "e-mail", "uuid": "UUID"}
        parts = []
        for kind, number in things.items():
            label = labels.get(kind, kind)
            plural = "" if number == 1 else "es" if label.endswith("s") else "s"
            often = "once" if times[kind] == 1 else f"{times[kind]:,} times"
            parts.append(f"{number:,} {label}{plural} ({often})")
        return ", ".join(parts)

    def write_map(self, output: Path) -> Path:
        """Write what stands for what beside `output`, readable by its owner alone.

        Secrets are not written: nobody needs to look one up.

        Returns:
            The file's path: that of `output` with `.redaction.txt` behind it.
        """
        path = output.with_name(f"{output.name}.redaction.txt")
        lines = ["# What stands for what in the report beside this file. Do not pass it on.\n"]
        for (kind, original), pseudonym in self._names.items():
            shown = "(not kept)" if kind == "secret" else original
            lines.append(f"{pseudonym}\t{shown}\t{self._counts[pseudonym]}\n")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="replace") as out:
            os.fchmod(out.fileno(), 0o600)
            out.writelines(lines)
        return path

    # --- what is found before anything is replaced ---

    def _learn(self, text: str) -> str:
        for pattern in (find.SYSLOG_HOST, find.HOST_FIELD, find.LOGIN):
            for match in pattern.finditer(text):
                self._add_host(match["host"])
        for pattern in (find.USER, find.LOGIN):
            for match in pattern.finditer(text):
                self._add_user(match["user"])
        for match in find.HOME.finditer(text):
            self._add_user(match[0])
        return text

    def _add_host(self, host: str) -> None:
        host = host.rstrip(".")
        if host.lower() in find.NO_HOST or find.MARKED.fullmatch(host) or _is_address(host):
            return
        short = host.split(".")[0]
        first = self._hosts.get(short, host)
        self._hosts.setdefault(host, first)
        self._hosts.setdefault(short, first)

    def _add_user(self, user: str) -> None:
        if user.lower() not in find.NO_USER and not find.MARKED.fullmatch(user):
            self._users.add(user)

    # --- replacing ---

    def _name(self, kind: str, original: str) -> str:
        key = (kind, original)
        if key not in self._names:
            self._numbers[kind] += 1
            number = f"{kind}-{self._numbers[kind]}"
            self._names[key] = f"[{number}]" if kind == "secret" else number
        pseudonym = self._names[key]
        self._counts[pseudonym] += 1
        return pseudonym

    def _secrets(self, text: str) -> str:
        for pattern in find.SECRETS:
            text = pattern.sub(lambda match: self._secret(match, "secret"), text)
        return find.ASSIGNMENT.sub(self._assigned, text)

    def _assigned(self, match: re.Match[str]) -> str:
        if not find.SECRET_NAME.fullmatch(match["name"]):
            return match[0]
        group = next(name for name in ("double", "single", "bare") if match[name] is not None)
        return self._secret(match, group)

    def _secret(self, match: re.Match[str], group: str) -> str:
        value = match[group]
        number = find.NUMBER.fullmatch(value) and "pass" not in match[0].lower()
        if number or find.NOT_SECRET.fullmatch(value) or value.startswith("[secret-"):
            return match[0]
        return _put(match, group, self._name("secret", value))

    def _email(self, match: re.Match[str]) -> str:
        if match[1].lower() in find.UNIT_KINDS:
            return match[0]
        return self._name("email", match[0].lower())

    def _login(self, match: re.Match[str]) -> str:
        return f"{self._user(match['user'])}@{self._host(match['host'])}"

    def _user(self, user: str) -> str:
        if user.lower() in find.NO_USER or find.MARKED.fullmatch(user):
            return user
        return self._name("user", user)

    def _host(self, host: str) -> str:
        known = self._hosts.get(host.rstrip("."))
        return host if known is None else self._name("host", known)

    def _serial(self, serial: str) -> str:
        return serial if find.MARKED.fullmatch(serial) else self._name("serial", serial)

    def _address(self, match: re.Match[str]) -> str:
        text = match[0]
        before = match.string[max(0, match.start() - 16) : match.start()]
        if not _is_address(text) or find.VERSION_BEFORE.search(before):
            return text
        address = ipaddress.ip_address(text)
        if address.is_loopback or address.is_unspecified or text == "255.255.255.255":
            return text
        return self._name("ip", str(address))

    @staticmethod
    def _in_group(group: str, replace: Callable[[str], str]) -> Callable[[re.Match[str]], str]:
        return lambda match: _put(match, group, replace(match[group]))

    def _known_names(self, text: str) -> str:
        """Replace the names that were found anywhere, wherever else they stand as a word."""
        names = dict.fromkeys(self._hosts, "host") | dict.fromkeys(self._users, "user")
        names |= {name: kind for kind, name in self._names if kind == "serial"}
        names = {
            name: kind
            for name, kind in names.items()
            if len(name) > (6 if kind == "serial" else 2)
            and name.lower() not in find.TOO_COMMON
            and (kind == "serial" or not name.isdigit())
        }
        if not names:
            return text
        longest_first = sorted(names, key=len, reverse=True)
        alternatives = "|".join(map(re.escape, longest_first))
        pattern = rf"(?<![\w-])(?P<name>{alternatives})(?P<domain>{find.DOMAIN})?(?![\w]|-\w)"
        replace = {"host": self._host, "user": self._user, "serial": self._serial}

        def put(match: re.Match[str]) -> str:
            kind = names[match["name"]]
            rest = "" if kind == "host" else match["domain"] or ""
            return replace[kind](match["name"]) + rest

        return re.sub(pattern, put, text)


def _put(match: re.Match[str], group: str, text: str) -> str:
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return f"{match[0][:start]}{text}{match[0][end:]}"


def _is_address(text: str) -> bool:
    if ":" in text and text.count(":") < 7 and "::" not in text:
        return False
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    # `c10::` and `ad::be` are C++, not addresses.
    return address.version == 4 or text.count(":") >= 3


def _walk(value: Value, change: Callable[[str], str]) -> Value:
    """Return `value` with `change` applied to every text in it that is not structure."""
    result: Any = value
    if isinstance(value, str):
        result = value if isinstance(value, Enum) else change(value)
    elif isinstance(value, tuple | list):
        result = type(value)(_walk(item, change) for item in value)
    elif isinstance(value, dict):
        result = {key: _walk(item, change) for key, item in value.items()}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type | PciAddress):
        result = dataclasses.replace(
            value,
            **{
                field.name: _walk(getattr(value, field.name), change)
                for field in dataclasses.fields(value)
                if field.init and field.name not in _STRUCTURE
            },
        )
    return cast(Value, result)
