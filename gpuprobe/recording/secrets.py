"""Taking secrets out of command lines and environments before they are stored anywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gpuprobe.lazy_regex import regex
from gpuprobe.secret_words import JWT, NAME_PARTS, TOKENS, Strength, strength

MASK: Final = "***"

_WORDS: Final = frozenset(
    [
        "accesskey",
        "apikey",
        "auth",
        "authorization",
        "bearer",
        "cookie",
        "credential",
        "credentials",
        "key",
        "passphrase",
        "passwd",
        "password",
        "pat",
        "pwd",
        "secret",
        "secrets",
        "signature",
        "token",
    ]
)
"""Parts of a name that speak of a secret; `tokens` and `tokenizer` do not. More than in a report:
what is stored once stays."""

_LAST_WORDS: Final = frozenset(["apikeys", "creds", "dsn", "keys", "pass", "pw", "sas", "sig"])
"""Those that do so only at its end: a `pass_config` is none."""

_NESTED: Final = 8
"""So many `NAME=` of one word are looked at."""

_NAMED = regex(r"^(?P<name>-{0,2}[A-Za-z_][\w.-]*)=(?P<value>.+)$", re.DOTALL)
_INSIDE = regex(
    r"""(?P<name>[A-Za-z_][\w.-]*)(?P<mark>["']?\s*[:=]\s*["']?)(?P<value>(?!//)[^\s"',;&})\]]+)"""
)
_OPTION = regex(
    r"""(?P<name>--[A-Za-z][\w.-]*)(?P<mark>\s+)(?P<value>'[^']*'|"[^"]*"|[^\s"'-]\S*)"""
)
_USER = regex(r"(?P<name>[^\s:/]+):(?P<value>(?!\d+$)[^/]+)")
"""`curl -u me:secret`; `docker run -u 1000:1000` is no secret."""
_URL = regex(r"(?P<scheme>[A-Za-z][\w+.-]*://)[^/\s@]+@")
_SHAPES = regex(
    rf"(?<![A-Za-z0-9])(?:{TOKENS}|{JWT})"
    r"|(?<=[Bb]earer )[\w.~+/=-]{6,}|(?<=[Bb]asic )[\w+/=]{8,}"
)
"""Secrets that tell by their shape what they are."""


def is_secret_name(name: str) -> bool:
    """Whether a variable or option of this name holds a secret, as far as its name says."""
    parts = [part.lower() for part in NAME_PARTS.findall(name)]
    if any(part in _WORDS for part in parts) or (bool(parts) and parts[-1] in _LAST_WORDS):
        return True
    return strength(name) >= Strength.STRONG


def mask_text(text: str) -> str:
    """A text without credentials in URLs, `name=secret` pairs, and tokens of known shapes.

    It may be a whole command line, as behind `sh -c`: values of secret options go, too.
    """
    text = _URL.sub(lambda found: f"{found['scheme']}{MASK}@", text)
    text = _SHAPES.sub(MASK, text)
    for shape in (_OPTION, _INSIDE):
        text = shape.sub(
            lambda found: (
                f"{found['name']}{found['mark']}{MASK}"
                if is_secret_name(found["name"])
                else found[0]
            ),
            text,
        )
    return text


def mask_argv(argv: Sequence[str]) -> list[str]:
    """A command line in which the values of secret options are masked."""
    found: list[str] = []
    hides, before = False, ""
    for word in argv:
        user = _USER.fullmatch(word) if before in ("-u", "--user") else None
        if hides and not word.startswith("-"):
            found.append(MASK)
        elif user is not None:
            found.append(f"{user['name']}:{MASK}")
        else:
            found.append(_mask_word(word))
        before = word
        # An option may take several values: vLLM's --api-key does.
        hides = _hides_next(word) or (hides and not word.startswith("-"))
    return found


def _mask_word(word: str) -> str:
    """One word; what `--env=NAME=VALUE` holds is looked at as a word of its own."""
    begin = ""
    for _ in range(_NESTED):
        pair = _NAMED.match(word)
        if pair is None:
            break
        begin, word = f"{begin}{pair['name']}=", pair["value"]
        if is_secret_name(pair["name"]):
            return begin + MASK
    return begin + mask_text(word)


def _hides_next(word: str) -> bool:
    return word.startswith("-") and len(word) > 2 and "=" not in word and is_secret_name(word)
