"""Pseudonyms for what identifies people, machines and secrets, the same all over one report.

Numbers are given per report (`host-1`, `user-1`), so two reports cannot be joined by them. What
the diagnosis rests on stays: PCI addresses, Xids, versions, times, figures.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from gpuprobe.diagnosis import Diagnosis
from gpuprobe.errors import UsageError
from gpuprobe.reporters import broken_secrets, known_names, secret_shapes, spelled
from gpuprobe.reporters import identifying as find
from gpuprobe.reporters.texts_within import every_text

KEEPABLE: Final = {
    "hostnames": "host",
    "users": "user",
    "ips": "ip",
    "macs": "mac",
    "emails": "email",
    "serials": "serial",
    "uuids": "uuid",
    "ssids": "ssid",
}
"""What may be left as it is, by the name that asks for it. Secrets may not."""

_HOSTS = (find.SYSLOG_HOST, find.UNAME, find.HOST_FIELD, find.CLOUD_HOST, find.POD, find.URL_HOST,
          find.FQDN, find.NCCL_HOST, find.PEER, find.UNC)  # fmt: skip
_ADDRESSES = (find.URL_HOST, find.FQDN)
_PART = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w+/=.~-]{6,}", re.ASCII)
"""Part of a token that stands in a line of its own; a word or a date is none."""

_WRAPPED: Final = 500
"""Characters of each line that are looked at for a secret that goes on in the next."""

_KEPT = re.compile("\ue000(\\d+)\ue001")


def parse_keep(text: str) -> frozenset[str]:
    """Return the names in a list such as `hostnames,uuids`.

    Raises:
        UsageError: One of them is not in `KEEPABLE`.
    """
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in KEEPABLE:
            raise UsageError(
                f"{name!r} cannot be kept",
                hint=f"Choose from {', '.join(KEEPABLE)}; secrets are always replaced.",
            )
    return frozenset(names)


class Redactor:
    """Replaces what identifies; one object for one report.

    Use `diagnosis` for a whole diagnosis or `text` for a single one. Equal things get equal
    pseudonyms for as long as the object lives.

    Args:
        keep: Names out of `KEEPABLE` of what is left as it is.
    """

    def __init__(self, keep: Iterable[str] = ()) -> None:
        self._keep = {KEEPABLE[name] for name in parse_keep(",".join(keep))}
        self._names: dict[tuple[str, str], str] = {}
        self._numbers: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._kept: list[str] = []
        self._learned: set[int] = set()
        self._only_learning = False
        self._parts: dict[str, tuple[int, int]] = {}
        self._known = known_names.KnownNames()

    # --- use ---

    def diagnosis(self, diagnosis: Diagnosis) -> Diagnosis:
        """Return `diagnosis` with every text redacted; names are looked for everywhere first."""
        for one in (diagnosis, *diagnosis.other_hosts):
            if one.host:
                self._known.add_host(one.host)
        texts: list[str] = []

        def gather(text: str) -> str:
            texts.append(text)
            return text

        every_text(diagnosis, gather)
        self.learn(texts)
        done: dict[str, tuple[str, Counter[str]]] = {}

        def once(text: str) -> str:
            """Redact equal texts one time, and count them each time."""
            if text in done:
                self._counts.update(done[text][1])
                return done[text][0]
            before = self._counts.copy()
            redacted = self.text(text)
            done[text] = (redacted, self._counts - before)
            return redacted

        return self._without_names(every_text(diagnosis, once))

    def _without_names(self, diagnosis: Diagnosis) -> Diagnosis:
        """`Diagnosis.host` holds a name as a whole, which may be too common to find in text."""
        host = diagnosis.host
        if host and self._known.host(host):
            host = self._restored(self._host(host))
        others = tuple(self._without_names(other) for other in diagnosis.other_hosts)
        return dataclasses.replace(diagnosis, host=host, other_hosts=others)

    def host(self, name: str) -> str:
        """Return a host's whole name redacted, however common a word it is."""
        self._known.add_host(name)
        return self._restored(self._host(name)) if self._known.host(name) else name

    def learn(self, texts: Iterable[str]) -> None:
        """Look through texts that will be shown, so that what one names is found in the others."""
        counts = self._counts.copy()
        self._only_learning = True
        for text in dict.fromkeys(texts):
            self.text(text)
        self._only_learning = False
        self._counts = counts

    def learn_broken(self, lines: Iterable[str]) -> None:
        """Look at lines that followed each other, where a secret may be broken over two of them.

        Each part is then found by itself: the rest of a token that a narrow terminal wrapped, or
        the key in the line below a `--api-key` that a shell goes on with.
        """

        def found(secret: str) -> str:
            for part in secret.split("\n"):
                if _PART.fullmatch(part.strip()):
                    self._known.add_secret(part.strip())
            return secret

        plain = [spelled.without_colours(line) for line in lines]
        for above, below in itertools.pairwise(plain):
            secret_shapes.replace(f"{above[-_WRAPPED:]}\n{below[:_WRAPPED]}", found)
        for line, begin, end in broken_secrets.parts(plain):
            # It may be a word that stands elsewhere, too: it is a secret in this line alone.
            self._parts[line] = (begin, end)

    def text(self, text: str) -> str:
        """Return `text` redacted, also where it is percent-encoded or escaped."""
        text = spelled.without_colours(text)
        if text in self._parts:
            begin, end = self._parts[text]
            text = f"{text[:begin]}{self._secret(text[begin:end])}{text[end:]}"
        result = self._replace(text)
        out, done = [], 0
        for match in spelled.encoded(result):
            plain = spelled.percent_decoded(match[0])
            out += [result[done : match.start()], self._if_found(match[0], plain)]
            done = match.end()
        result = "".join([*out, result[done:]])
        plain = result
        for _level in range(3):
            plain, before = spelled.unescaped(plain), plain
            if plain == before:
                break
            result = self._if_found(result, plain)
        return self._restored(result)

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
        labels = {
            "ip": "IP address",
            "mac": "MAC address",
            "email": "e-mail",
            "uuid": "UUID",
            "ssid": "Wi-Fi name",
        }
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

        Raises:
            UsageError: It cannot be written there.
        """
        path = output.with_name(f"{output.name}.redaction.txt")
        lines = ["# What stands for what in the report beside this file. Do not pass it on.\n"]
        for (kind, original), pseudonym in self._names.items():
            if self._counts[pseudonym]:
                shown = "(not kept)" if kind == "secret" else " ".join(original.split())
                lines.append(f"{pseudonym}\t{shown}\t{self._counts[pseudonym]}\n")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        try:
            with os.fdopen(
                os.open(path, flags, 0o600), "w", encoding="utf-8", errors="replace"
            ) as out:
                os.fchmod(out.fileno(), 0o600)
                out.writelines(lines)
        except OSError as error:
            raise UsageError(
                f"{path}, which says what stands for what, cannot be written: {error.strerror}",
                hint="Move what is there away, or choose another place for the report.",
            ) from error
        return path

    # --- a text ---

    def _replace(self, text: str) -> str:
        """Learn the names in `text`, then replace what is found, secrets first."""
        self._learn(text)
        text = secret_shapes.replace(text, self._secret)
        if "@" in text or "[at]" in text:
            text = find.EMAIL.sub(self._email, text)
            text = find.LOGIN.sub(self._login, text)
        text = find.HOME.sub(self._home, text)
        text = find.USER.sub(self._in_group(self._user, "user"), text)
        text = find.DOMAIN_USER.sub(self._in_group(self._user, "user"), text)
        for pattern in (find.GUID, find.DEVICE_SERIAL, find.SERIAL, find.DISK):
            text = pattern.sub(self._in_group(self._serial, "serial"), text)
        text = find.UUID.sub(self._uuid, text)
        text = find.ID128.sub(self._uuid, text)
        text = find.MAC.sub(self._mac, text)
        text = find.INTERFACE.sub(self._in_group(lambda mac: self._name("mac", mac), "mac"), text)
        text = find.SSID.sub(self._ssid, text)
        for pattern in _HOSTS:
            text = pattern.sub(self._in_group(self._host, "host"), text)
        text = find.IPV4.sub(self._address, text)
        text = find.IPV6.sub(self._address, text)
        # The pattern of all names is made anew for each name that is learned.
        return text if self._only_learning else self._known.sub(text, self._name)

    def _learn(self, text: str) -> None:
        if hash(text) in self._learned:
            return
        self._learned.add(hash(text))
        for pattern in (*_HOSTS, find.LOGIN):
            by_address = pattern in _ADDRESSES
            for match in pattern.finditer(text):
                self._known.add_host(match["host"], by_address=by_address)
        for pattern in (find.USER, find.LOGIN, find.DOMAIN_USER):
            for match in pattern.finditer(text):
                self._known.add_user(match["user"])
        for match in find.HOME.finditer(text):
            self._known.add_user(match[find.group(match, *_HOME_GROUPS) or 0])

    def _if_found(self, text: str, plain: str) -> str:
        """`plain` redacted if there is something to redact in it, else `text`."""
        if plain == text:
            return text
        redacted = self._replace(plain)
        return text if redacted == plain else redacted

    # --- replacing ---

    def _name(self, kind: str, original: str, shown: str = "") -> str:
        if kind in self._keep:
            # A mark that no pattern finds, until all of them have passed.
            self._kept.append(shown or original)
            return f"\ue000{len(self._kept) - 1}\ue001"
        key = (kind, original)
        if key not in self._names:
            self._numbers[kind] += 1
            number = f"{kind}-{self._numbers[kind]}"
            self._names[key] = f"[{number}]" if kind == "secret" else number
        pseudonym = self._names[key]
        self._counts[pseudonym] += 1
        return pseudonym

    def _restored(self, text: str) -> str:
        if "\ue000" not in text:
            return text
        kept = self._kept
        text = _KEPT.sub(lambda m: kept[int(m[1])] if int(m[1]) < len(kept) else m[0], text)
        self._kept = []
        return text

    def _secret(self, secret: str) -> str:
        secret = secret.strip()
        self._known.add_secret(secret)
        return self._name("secret", self._known.spelled(secret))

    def _email(self, match: re.Match[str]) -> str:
        if match[1].lower() in find.UNIT_KINDS:
            return match[0]
        return self._name("email", match[0].lower(), match[0])

    def _login(self, match: re.Match[str]) -> str:
        return f"{self._user(match['user'])}@{self._host(match['host'])}"

    def _home(self, match: re.Match[str]) -> str:
        group = find.group(match, *_HOME_GROUPS)
        assert group is not None
        text = _put(match, group, self._user(match[group]))
        return text[2:] if match["initial"] else text

    def _user(self, user: str) -> str:
        known = self._known.user(user)
        return user if known is None else self._name("user", known, user)

    def _host(self, host: str) -> str:
        known = self._known.host(host)
        return host if known is None else self._name("host", known, host)

    def _serial(self, serial: str) -> str:
        if find.MARKED.fullmatch(serial) or secret_shapes.NOT_SECRET.fullmatch(serial):
            return serial
        self._known.add_serial(serial)
        return self._name("serial", serial.upper(), serial)

    def _uuid(self, match: re.Match[str]) -> str:
        plain = re.sub("[-_]", "", match[0].lower())
        return match[0] if plain.isdigit() and len(set(plain)) == 1 else self._uuid_of(plain, match)

    def _uuid_of(self, plain: str, match: re.Match[str]) -> str:
        dashed = "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))
        return self._name("uuid", dashed, match[0])

    def _mac(self, match: re.Match[str]) -> str:
        plain = re.sub("[:.-]", "", match[0].lower())
        if len(set(plain)) == 1:
            return match[0]
        return self._name("mac", plain, match[0])

    def _ssid(self, match: re.Match[str]) -> str:
        group = find.group(match, "quoted", "bare", "spaced")
        if group is None or find.MARKED.fullmatch(match[group]) or find.MAC.fullmatch(match[group]):
            return match[0]
        return _put(match, group, self._name("ssid", match[group]))

    def _address(self, match: re.Match[str]) -> str:
        text = match[0]
        before = match.string[max(0, match.start() - 64) : match.start()]
        address = find.address(text)
        if address is None or find.VERSION_BEFORE.search(before):
            return text
        if address.is_loopback or address.is_unspecified or text.startswith("255.255."):
            return text
        return self._name("ip", str(address), text)

    @staticmethod
    def _in_group(replace: Callable[[str], str], group: str) -> Callable[[re.Match[str]], str]:
        return lambda match: _put(match, group, replace(match[group]))


_HOME_GROUPS = ("user", "windows", "tilde", "dashed")


def _put(match: re.Match[str], group: str, text: str) -> str:
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return f"{match[0][:start]}{text}{match[0][end:]}"
