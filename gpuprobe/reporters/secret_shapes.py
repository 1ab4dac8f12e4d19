"""Where secrets stand in a text and what they look like. `redact` puts pseudonyms in their place.

A secret is found by the name before it (`--api-key X`, `"password": "X"`), by the way it is handed
over (`Authorization`, a URL, an option of a known tool), or by its own shape (`hf_...`). Every
pattern is linear: what repeats is bounded, or nothing that could fail comes after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from gpuprobe.lazy_regex import regex
from gpuprobe.secret_words import JWT, TOKENS, Strength, strength

Put = Callable[[str], str]
"""Takes a secret and returns what stands for it."""


NOT_SECRET = regex(
    r"bearer|basic|digest|negotiate|aws4-hmac-sha256|none|null|nil|true|false|yes|no|unset|auto|default|empty|\"\"|''|\\+|\*+|x{3,}|\.{2,}|\[?redacted\]?"
    r"|<[^>]*>|\$\{?\w+\}?|\{\{[^}]*\}\}|%\w|%\(\w+\)s|\{\w*\}|SecretStr\('?\**'?\)?|os\.(?:environ|getenv)\S*"
    r"|(?:self|args|config|cfg)\.[a-z_.]+|(?:str|int|bool|bytes|optional)(?:\W.*)?|\[secret-\d+\].*",
    re.IGNORECASE,
)
"""Values that are no secret whatever the name before them says; matched whole."""

NUMBER = regex(r"-?(?:0x[0-9a-fA-F]{1,16}|[\d.]{1,12})[a-zA-Z%]{0,2}")
"""Likewise, except behind a word for a password: counts of tokens are everywhere in an engine."""


def looks_random(value: str, at_least: int) -> bool:
    """Whether `value` looks made by a machine: long enough, letters and digits, no path or word."""
    if len(value) < at_least or not any(letter.isdigit() for letter in value):
        return False
    if not any(letter.isalpha() for letter in value):
        return len(value) >= 32
    return len(value) > 200 or not _NO_RANDOM.fullmatch(value)


_NO_RANDOM = regex(
    r"0x[0-9a-fA-F]{1,16}|[\w.-]*/[\w./-]*[a-z]{3}[\w./-]*|[a-zA-Z]+(?:[_. -][a-zA-Z]+)*[_.-]?\d{1,4}"
    r"|v?\d+(?:\.\d+)+\S*|[\d:.TZ+-]+|[a-z]+(?:[-_.][a-z0-9]{1,7})+|[A-Za-z_]\w*(?:\.\w+)+"
    r"|[A-Za-z_]\w{0,40}[(\[].*|\w+::.*"
)
"""Addresses, paths, `word_word_12`, versions, times, `torch.float16`, calls."""

# --- `name = value` --------------------------------------------------------------------------

_NAME = regex(
    r"(?<![\w-])(?P<name>[\w-]{2,80})(?P<close>['\"`]?[\])]?)"
    r"(?P<mark>[ \t]{0,8}(?::=|=>|==?|:(?!/[/\w])(?!:))|,(?=\s{0,4}[bru]?(?:\"[^\"\n]{1,4000}\"|'[^'\n]{1,4000}')\s{0,4}[)\]])|>(?=[^<>\s]{1,500}</)"
    r"|(?<=['\"])\s{1,8}(?=['\"]))"
)
_OPTION = regex(
    r"(?<![\w-])(?P<name>--[A-Za-z][\w-]{1,60})(?:['\"]?,?\s{1,8}[bru]?(?=['\"])|[ \t]*\\?\s{1,12})"
)
_VALUE = regex(
    r"\s{0,40}[bruBRU]{0,2}\"(?P<double>(?:[^\"\\\n]|\\.|\n(?!\s*\S+[\"']?\s?[:=]))+)"
    r"|\s{0,40}[bruBRU]{0,2}'(?P<single>(?:[^'\\\n]|\\.)+)"
    r"|\s{0,40}[\[(]\s{0,40}(?P<list>[bru]?[\"'][^\])\n]{1,4000})"
    r"|[ \t]{0,8}(?P<block>[|>][+-]?\n(?:[ \t]+[^\n]*(?:\n|$))+)"
    r"|[ \t]{0,8}(?P<bare>(?:[^\s\"'`,;&)}\]<>|\\]|\\(?![\"'nrt])"
    r"|[,;&)}\]<>|](?![\s\"'`,;)}\]<]|$|[\w .-]{1,40}[=:]|\\))+)"
)
_UPPER_VALUE = regex(r"(?P<bare>(?:[^\s\"'`\\\0]|\\(?![\"'nrt]))+)")
"""In an environment nothing but a blank ends a value."""

_REST_OF_LINE = regex(r"(?P<bare>[^\s\"'#\[{|>][^\n\"']*)")
_ITEM = regex(r"\"([^\"]+)|'([^']+)")
_ALONE = regex(r"[ \t-]*(?:[\w.]+[ \t]*)?$")
_FURTHER = regex(r"[ \t]+(?P<bare>[^\s\"'-][^\s\"']*)")


def _named(text: str, pattern: re.Pattern[str], put: Put) -> str:
    """Replace the value behind every name that speaks of a secret."""
    out: list[str] = []
    done = at = 0
    while match := pattern.search(text, at):
        at = match.end()
        start = match.start()
        name = match["name"]
        strong = strength(name, text[start - 1 : start])
        if strong is Strength.NONE:
            # `\nHF_TOKEN=x` in a quoted text: the letter belongs to the escape.
            inner = name[1:] if text[start - 1 : start] == "\\" and name[0] in "nrt" else ""
            strong = strength(inner) if inner else Strength.NONE
        value = _value(text, at, name, strong, start) if strong else None
        if value is None:
            continue
        begin, end, shown = value
        replaced = _put_value(shown, strong, put, is_list=value[2][:1] in ("'", '"'))
        out += (text[done:begin], replaced)
        done = at = end
        if pattern is _OPTION:
            # An option may take several values.
            while (more := _FURTHER.match(text, at)) and looks_random(more["bare"], 8):
                out.append(text[done : more.start("bare")] + put(more["bare"]))
                done = at = more.end()
    return "".join([*out, text[done:]])


def _value(
    text: str, at: int, name: str, strong: Strength, start: int
) -> tuple[int, int, str] | None:
    """Where the value behind a name begins and ends, and the value."""
    value = _VALUE.match(text, at)
    mark = text[at - 1 : at]
    if value is None:
        return None
    if value["bare"] is not None and mark == "=" and name.isupper():
        if value.start("bare") > at and text[at - 2] not in " \t":
            return None  # NAME= is an empty variable
        value = _UPPER_VALUE.match(text, value.start("bare")) or value
    elif value["bare"] is not None and mark == ":" and strong is Strength.PASSWORD:
        line = text.rfind("\n", max(0, start - 80), start) + 1
        if start - line < 80 and _ALONE.fullmatch(text, line, start):
            value = _REST_OF_LINE.match(text, value.start("bare")) or value
    group = value.lastgroup or "bare"
    return value.start(group), value.end(group), value[group]


def _put_value(value: str, strong: Strength, put: Put, *, is_list: bool = False) -> str:
    if is_list:
        return _ITEM.sub(lambda m: m[0][0] + _put_value(m[1] or m[2], strong, put), value)
    if NOT_SECRET.fullmatch(value):
        return value
    if strong is not Strength.PASSWORD and NUMBER.fullmatch(value):
        return value
    if strong is Strength.WEAK and not looks_random(value, 12):
        return value
    return put(value)


def is_secret(name: str, value: str) -> bool:
    """Whether `value` is a secret where it stands behind `name`, an option or a variable."""
    strong = strength(name)
    return bool(value and strong) and _put_value(value, strong, lambda _: "") != value


# --- how secrets are handed over -------------------------------------------------------------

_Q = r"(?:\\{0,3}['\"])?"
_MARK = rf"{_Q}\s{{0,4}}[:=,]\s{{0,8}}(?:[bru](?=['\"]))?{_Q}"
_WRAPPED = r"(?:\r?\n[ \t]{0,8}(?=[\w+/=.-]{0,200}\d)[\w+/=.-]{4,200}(?=[\"']?[ \t]*(?:\n|$)))?"
"""The rest of a token that a terminal broke at its edge: alone on the next line."""

HANDED: Final = (
    regex(
        rf"(?i)\b(?:proxy-)?authorization{_MARK}(?:bearer|basic|token|apikey|bot|negotiate|ntlm)\\?\s{{1,8}}"
        rf"(?P<secret>[^\s'\"\\]+{_WRAPPED})"
    ),
    regex(
        rf"(?i)\b(?:proxy-)?authorization{_MARK}(?!\s*(?:bearer|basic|token|apikey|bot|negotiate|ntlm)\s)"
        r"(?P<secret>[^\s'\"\\\[][^\n'\"\\]*)"
    ),
    regex(rf"(?i)(?<![\w-])(?:set-)?cookie2?{_MARK}(?P<secret>[^\s'\"\\\[][^\n'\"\\]*)"),
    regex(r"(?i)(?<![\w-])[a-z][a-z0-9+.-]{0,20}://(?P<secret>[^/\s'\"<>@]{0,400}(?:@[^/\s'\"<>@]{1,200}){0,3})(?=@[\w\[.-])"),
    regex(
        r"(?i)(?<![\w-])[a-z][a-z0-9+.-]{0,20}://(?P<secret>[^/\s@:'\"]{0,100}:(?!\d{1,5}(?:/|$))[^\s@'\"]{1,200})"
        r"(?=@[\w\[.-])"
    ),
    regex(r"(?i)(?<![\w-])oracle:thin:(?P<secret>[^\s@/]{1,60}/[^\s@]{1,100})(?=@)"),
    regex(
        r"(?<![\w-])(?:-u|--user|--proxy-user)(?:=|['\"]?,?\s{1,8})['\"]?(?!\d+:\d+\b)"
        r"(?P<secret>[^\s:'\"]{1,100}:[^\s'\"]+)"
    ),
    regex(r"(?<![\w-])-U\s?['\"]?(?P<secret>[^\s%'\"]{1,60}%[^\s'\"]+)"),
    regex(
        r"\b(?:sshpass|mysql\w{0,10}|mariadb[\w-]{0,10}|mongo\w{0,8}|(?:docker|podman|helm registry|oc|az|cf) login"
        r"|psql|7z[arz]?|clickhouse-client|rabbitmqadmin|nmcli)\b[^\n|]{0,160}?\s-p['\"]?,?\s?['\"]?"
        r"(?P<secret>[^\s'\"]+)"
    ),
    regex(r"\b(?:redis-cli|valkey-cli|keydb-cli)\b[^\n|]{0,160}?\s-a\s?['\"]?(?P<secret>[^\s'\"]+)"),
    regex(r"\b(?:ldap(?:search|modify|add|delete|whoami))\b[^\n|]{0,160}?\s-w\s?['\"]?(?P<secret>[^\s'\"]+)"),
    regex(
        r"\b(?:ipmitool|ipmipower|unzip|zip|sqlcmd|bcp|isql|tsql|racadm)\b[^\n|]{0,160}?\s-[Pp]\s?['\"]?"
        r"(?P<secret>[^\s'\"]+)"
    ),
    regex(r"\bsnmp\w{2,12}\b[^\n|]{0,160}?\s-[cAX]\s?['\"]?(?P<secret>[^\s'\"]+)"),
    regex(r"\b(?:auth=|Http\w{0,10}Auth|HTTP\w{0,10}Auth)\(\s?['\"][^'\"\n]{0,100}['\"],\s?['\"](?P<secret>[^'\"\n]+)"),
    regex(r"(?<![\w/@.-])[\w.-]{1,60}:(?P<secret>[^\s:@/'\"]{3,200})(?=@[\w-]{1,60}\.[\w-])"),
    regex(r"(?<![\w:])pass:(?P<secret>[^\s'\"]+)"),
    regex(r"\b(?:wandb|vault|huggingface-cli|hf auth|hf|ngc|gh auth|comet)\s+login\s+(?!-)['\"]?(?P<secret>[^\s'\"]{8,})"),
    regex(r"\blogin\s+\S{1,100}\s+password\s+(?P<secret>\S+)"),
    regex(r"\bIDENTIFIED\s+BY\s+['\"](?P<secret>[^'\"]+)"),
    regex(r"(?i)\b(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks|[\w.]{1,60}webhook\.office\.com/webhookb2)/(?P<secret>[\w/@-]{8,})"),
    regex(r"(?i)\bapi\.telegram\.org/bot(?P<secret>\d{6,}:[\w-]{20,})"),
)  # fmt: skip
"""The group `secret` is replaced, what stands before it stays."""

_PAIR = regex(
    r"(?i)\b(?:name|key)['\"]?\s{0,8}[:=]\s{0,8}['\"]?(?P<name>[\w.-]{2,80})['\"]?\s{0,4},?\s{0,40}['\"]?value['\"]?"
    r"\s{0,8}[:=]\s{0,8}(?:\"(?P<double>[^\"\n]+)|'(?P<single>[^'\n]+)|(?P<bare>[^\s'\",}]+))"
)
"""How Kubernetes writes a variable: `- name: HF_TOKEN`, `value: x`."""

PROSE: Final = regex(
    r"(?i)\b(?:password|passphrase|passcode|pin|(?:api|access|secret|private|license|account|signing|auth)[ _-]?(?:key|token)"
    r"|(?:hf|auth|bearer|session|refresh|personal access) token|client secret|bearer|token|secret|credentials?)"
    r"(?:\s+(?:is|was|provided|given|used|value|set to|of|for\s+\w{1,30}|with))?\s{0,3}[:=]?\s{1,3}['\"`(]?"
    r"(?P<secret>[^\s'\"`,;()]{6,})"
)
"""`Incorrect API key provided: abc123def`; only what looks random."""

SHAPES: Final = (
    regex(
        r"-----BEGIN [A-Z0-9 ]{1,60}-----(?P<secret>(?:[^-]|-(?!----)){1,40000})",
    ),
    regex(r"---- BEGIN SSH2 [A-Z ]{1,40} ----(?P<secret>(?:[^-]|-(?!---)){1,40000})"),
    regex(
        r"(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp\d{3}|sk-[a-z0-9-]{1,30}@openssh\.com)\s{1,4}"
        r"(?P<secret>AAAA[A-Za-z0-9+/]{16,}={0,2}(?:[ \t]+[\w.+-]{1,64}@[\w.-]{1,100})?)"
    ),
    regex(r"\bSHA256:(?P<secret>[A-Za-z0-9+/]{43})(?![A-Za-z0-9+/])"),
    regex(
        rf"(?<![A-Za-z0-9])(?P<secret>(?:{TOKENS}){_WRAPPED})"
    ),
    regex(
        r"(?<![A-Za-z0-9])(?P<secret>(?:hf_|sk-|gh[pousr]_|github_pat_|gl(?:pat|ptt)-|A[KS]IA|AIza|nvapi-|xox[abps]-|npm_|pypi-"
        r"|eyJ)[\w.-]{0,200}\r?\n[ \t]{0,8}(?=[\w+/=.-]{0,200}\d)[\w+/=.-]{4,200}(?=[\"']?[ \t]*(?:\n|$)))"
    ),
    regex(rf"(?<![\w-])(?P<secret>{JWT}{_WRAPPED})"),
)  # fmt: skip

_BASE64_LINE = regex(r"(?<![\w+/=.-])(?P<secret>[A-Za-z0-9+/]{40,}={0,2})(?![\w+/=-])")
"""A line of a key whose first line may not have been quoted; only with all kinds of letters."""


def replace(text: str, put: Put) -> str:
    """Return `text` with `put` applied to every secret in it."""

    def whole(match: re.Match[str]) -> str:
        secret = match["secret"]
        if not secret or NOT_SECRET.fullmatch(secret):
            return match[0]
        return _in_place(match, put(secret))

    def random(match: re.Match[str]) -> str:
        secret = match["secret"]
        if NOT_SECRET.fullmatch(secret) or not looks_random(secret, 10):
            return match[0]
        return _in_place(match, put(secret))

    def pair(match: re.Match[str]) -> str:
        strong = strength(match["name"])
        group = match.lastgroup
        if not strong or group is None:
            return match[0]
        return match[0][: match.start(group) - match.end()] + _put_value(match[group], strong, put)

    for pattern in SHAPES[:2]:
        text = pattern.sub(whole, text)
    for pattern in HANDED:
        text = pattern.sub(whole, text)
    text = _PAIR.sub(pair, text)
    text = _named(text, _OPTION, put)
    text = _named(text, _NAME, put)
    for pattern in SHAPES[2:]:
        text = pattern.sub(whole, text)
    text = PROSE.sub(random, text)
    return _BASE64_LINE.sub(lambda m: _in_place(m, put(m[1])) if _mixed(m[1]) else m[0], text)


def _in_place(match: re.Match[str], secret: str) -> str:
    start, end = match.start("secret") - match.start(), match.end("secret") - match.start()
    return f"{match[0][:start]}{secret}{match[0][end:]}"


def _mixed(text: str) -> bool:
    """Base64 of something random: no path of words, no hexadecimal digest."""
    digits = sum(letter.isdigit() for letter in text)
    capitals = sum(letter.isupper() for letter in text)
    return 3 <= digits < len(text) - 6 and 6 <= capitals < len(text) - digits - 5
