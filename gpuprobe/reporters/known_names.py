"""Names and secrets that one text gave away, to be found in all the others."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.reporters import identifying as find
from gpuprobe.reporters.secret_shapes import NOT_SECRET, looks_random

_FILE = (
    r"(?=[-_.][\w.-]{0,80}\.(?:log|txt|gz|xz|zst|json|zip|tar|tgz|gpuprobe|html|md|csv|journal))"
)
_HEX = re.compile(r"[0-9a-fA-F]{8,}")


class KnownNames:
    """Hosts, users, serials and secrets, and the one pattern that finds them all as words."""

    def __init__(self) -> None:
        self._hosts: dict[str, str] = {}
        self._users: dict[str, str] = {}
        self._secrets: dict[str, str] = {}
        self._everywhere: set[str] = set()
        self._serials: set[str] = set()
        self._pattern: tuple[int, re.Pattern[str] | None, dict[str, tuple[str, str]]] = (
            0,
            None,
            {},
        )

    def add_host(self, host: str, *, by_address: bool = False) -> None:
        """Learn a host; its short name is the same host.

        Args:
            host: Its name, short or full.
            by_address: It was named as a place to connect to: `api` of `api.example.org` is a word
                and not looked for, `gpu7` is.
        """
        host = host.rstrip(".-_").lower()
        short = host.split(".")[0]
        if not _is_host(host, short):
            return
        counted = any(letter.isdigit() for letter in short)
        if counted or not by_address:
            self._everywhere.update((host, short))
        elif "." in host:
            self._everywhere.add(host)
            short = host
        first = self._hosts.get(host) or self._hosts.get(short, host)
        self._hosts.setdefault(host, first)
        if not short.isdigit():
            self._hosts.setdefault(short, first)

    def add_user(self, user: str) -> None:
        """Learn a user."""
        plain = user.rstrip(".").lower()
        if plain not in find.NO_USER and not find.MARKED.fullmatch(plain) and not plain.isdigit():
            self._users.setdefault(plain, user.rstrip("."))

    def add_serial(self, serial: str) -> None:
        """Learn a serial number."""
        self._serials.add(serial.lower())

    def add_secret(self, secret: str) -> None:
        """Learn a secret, if it is one that no other word could be."""
        if NOT_SECRET.fullmatch(secret) or len(secret) > 4096:
            return
        if len(secret) >= 16 or (len(secret) >= 6 and looks_random(secret, 6)):
            for part in {secret, *secret.split(":")} if ":" in secret else {secret}:
                if part == secret or looks_random(part, 6):
                    self._secrets.setdefault(part.lower(), self.spelled(part))

    def spelled(self, secret: str) -> str:
        """The one form of a secret: hexadecimal is the same in capitals."""
        return secret.lower() if _HEX.fullmatch(secret) else secret

    def host(self, host: str) -> str | None:
        """The name that stands for a host's names, or None if it is no host's."""
        return self._hosts.get(host.rstrip(".-_").lower())

    def user(self, user: str) -> str | None:
        """The user's name as first seen, or None if it is no user's."""
        return self._users.get(user.rstrip(".").lower())

    def sub(self, text: str, put: Callable[[str, str, str], str]) -> str:
        """Return `text` with `put(kind, original, shown)` for every known name in it."""
        pattern, names = self._compiled()
        if pattern is None:
            return text

        def replace(match: re.Match[str]) -> str:
            found = match["name"]
            kind, original = names[found.lower()]
            shown = found if kind != "host" else match[0]
            rest = "" if kind == "host" else match["domain"] or ""
            return put(kind, original, shown) + rest

        return pattern.sub(replace, text)

    def _compiled(self) -> tuple[re.Pattern[str] | None, dict[str, tuple[str, str]]]:
        size = (
            len(self._hosts)
            + len(self._everywhere)
            + len(self._users)
            + len(self._serials)
            + len(self._secrets)
        )
        if size == self._pattern[0]:
            return self._pattern[1], self._pattern[2]
        names = {serial: ("serial", serial.upper()) for serial in self._serials if len(serial) > 6}
        names |= {name: ("user", user) for name, user in self._users.items() if _findable(name)}
        names |= {
            name: ("host", host)
            for name, host in self._hosts.items()
            if name in self._everywhere and _findable(name)
        }
        names |= {name: ("secret", secret) for name, secret in self._secrets.items()}
        pattern = None
        if names:
            loose = [name for name in names if _is_loose(name)]
            strict = [name for name in names if not _is_loose(name)]
            # A short name may be part of `max_tokens`; in the name of a file it is a name.
            words = [rf"(?<![^\W_]){_any(loose)}(?![^\W_])"] if loose else []
            words += [rf"(?<![\w-]){_any(strict)}(?:(?![\w-])|{_FILE})"] if strict else []
            # Two groups of one name are not allowed, so that one look covers both.
            pattern = re.compile(rf"(?i)(?P<name>{'|'.join(words)})(?P<domain>{find.DOMAIN})?")
        self._pattern = (size, pattern, names)
        return pattern, names


def _any(names: list[str]) -> str:
    return f"(?:{'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})"


def _is_host(host: str, short: str) -> bool:
    if host in find.NO_HOST or short in find.NO_HOST or find.MARKED.fullmatch(short):
        return False
    if find.PUBLIC.fullmatch(".".join(host.split(".")[-2:])) or find.address(host) is not None:
        return False
    return len(host) > 1 and not (host.isdigit() or re.fullmatch(r"v?[\d.]+|0x[0-9a-f]+", host))


def _findable(name: str) -> bool:
    return len(name) > 2 and name not in find.TOO_COMMON and not name.isdigit()


def _is_loose(name: str) -> bool:
    return len(name) > 4 or any(not letter.isalpha() for letter in name)
