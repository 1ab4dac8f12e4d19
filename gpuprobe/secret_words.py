"""What a secret looks like: names that speak of one, and tokens that tell by their own shape.

One list for both who need it: a recording, which never stores a secret, and a report, which never
shows one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from gpuprobe.lazy_regex import regex

TOKENS: Final = (
    r"hf_[A-Za-z0-9]{8,}|api_org_[A-Za-z]{16,}|sk-[\w-]{12,}|[rspw]k_(?:live|test)_\w{10,}"
    r"|gh[pousr]_\w{16,}|github_pat_\w{16,}|gl(?:pat|ptt|dt|rt|cbt|soat|agent)-[\w.-]{12,}|nvapi-[\w-]{12,}"
    r"|xox[abeprs]-[\w-]{8,}|xapp-[\w-]{10,}|A(?:KIA|SIA|BIA|CCA|ROA|IDA|GPA|NPA)[0-9A-Z]{16}"
    r"|AIza[\w-]{30,}|ya29\.[\w-]{10,}|GOCSPX-[\w-]{10,}|pypi-[\w-]{16,}|npm_[A-Za-z0-9]{20,}|dckr_pat_[\w-]{8,}"
    r"|dop_v1_\w{16,}|hv[sbr]\.[\w-]{16,}|s\.[A-Za-z0-9]{24}\b|gsk_\w{16,}|r8_\w{16,}|pplx-\w{16,}|xai-[\w-]{20,}"
    r"|tgp_v1_[\w-]{16,}|rpa_\w{20,}|co_\w{36,}|fw_\w{20,}|lsv2_\w{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|key-[0-9a-f]{32}"
    r"|SK[0-9a-f]{32}|AC[0-9a-f]{32}|shp(?:at|ca|pa|ss)_\w{16,}|tskey-[\w-]{10,}|glsa_\w{16,}|eyJrIjoi[\w-]{16,}"
    r"|dapi[0-9a-f]{32}|sq0\w{3}-[\w-]{16,}|PMAK-[\w-]{20,}|dp\.pt\.\w{16,}|atlasv1\.\w{16,}|\w{14}\.atlasv1\.[\w-]{16,}"
    r"|NRAK-\w{16,}|ops_eyJ\w{16,}|AGE-SECRET-KEY-1\w{20,}|ATATT\w{16,}|CCIPAT_\w{16,}|cfut_\w{20,}|nvidia-api-\w{12,}"
    r"|[\w~-]{3}8Q~[\w~.-]{20,}"
)
"""Tokens by the mark of who gives them out, as alternatives of one pattern."""

JWT: Final = r"eyJ[\w-]{8,}(?:\.[\w-]*)+"
"""A JSON web token."""

NAME_PARTS = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
"""The words of a name: `hf`, `Token` and `v`, `2` of `hf_Token-v2`."""


class Strength(IntEnum):
    """How much a name says about the value behind it."""

    NONE = 0
    WEAK = 1  # a secret if it looks random
    STRONG = 2  # a secret whatever it is
    PASSWORD = 3  # even if it is a number


_PASSWORD: Final = regex(r"pass(?:word|wd|phrase|code)|^pwd$|pwd$|psk$|pincode|dbpass|userpass")
_STRONG: Final = regex(
    r"secret|(?:api|access|private|account|auth|signing|encryption|shared|master|session|ssh|storage"
    r"|license|licence|admin|service|deploy|webhook|subscription|client|wep|privy?|hmac|aes)keys?$"
    r"|(?:api|access|auth|bearer|refresh|id|hf|hub|huggingface|session|security|csrf|xsrf|bot|oauth"
    r"|user|app|admin|github|gitlab|slack|wandb|vault|deploy|registry|push|device|jwt|join|bootstrap"
    r"|upload|login|personal)tokens?$"
    r"|apikey|accesskey|privatekey|credential|authorization|connection(?:string|str)|^dsn$|sentrydsn"
    r"|cookie|mnemonic|totp|^otp$|authtoken|sharedaccesssignature|sastoken|xauthtoken|jsessionid"
    r"|phpsessid|sessionid$|connsid$|clientsecret|keyfiledata|kubeconfigdata|clientkeydata"
)
_INNOCENT: Final = frozenset(
    "added bos cache cached cls count decode dtype eos evict file filename foreign generation group head"
    " heads id ids image index kv length limit map mask max min name new num pad partition path prefill"
    " prefix primary proj public reserved sep size sort special stop think tokenizer type unk usage"
    " value values per sec rate dim len".split()
)
"""Parts of a name beside `key` or `token` that speak of something else."""

_WEAK: Final = frozenset(
    "auth authtok key keys pass pat sas session sid sig signature token".split()
)


def strength(name: str, before: str = "") -> Strength:
    """How far a variable, option or field of this name holds a secret.

    Args:
        name: As it stands, `--api-key`, `HF_TOKEN` or `clientSecret`.
        before: The character before it; behind `?` or `&` it is a parameter of a URL.
    """
    parts = [part.lower() for part in NAME_PARTS.findall(name)]
    joined = "".join(parts)
    if joined in ("pwd", "oldpwd"):
        return Strength.NONE if name.isupper() else Strength.PASSWORD
    if _PASSWORD.search(joined):
        return Strength.PASSWORD
    if _STRONG.search(joined) and not joined.endswith(
        ("name", "file", "path", "id", "ids", "type")
    ):
        return Strength.STRONG
    if joined in ("sessionid", "jsessionid", "phpsessid"):
        return Strength.STRONG
    if not _WEAK.intersection(parts) or _INNOCENT.intersection(parts):
        return Strength.NONE
    if before in ("?", "&") or (name.startswith("--") and parts[-1] in _WEAK - {"session"}):
        return Strength.STRONG
    if name.isupper() and parts[-1] in ("key", "token", "pass", "pat", "auth"):
        return Strength.STRONG
    return Strength.WEAK
