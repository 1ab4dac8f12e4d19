"""The shapes of what identifies people and machines, and of secrets. `redact` replaces them."""

from __future__ import annotations

import re

MARKED = re.compile(r"(?:host|user|ip|mac|email|serial|uuid)-\d+|\[secret-\d+\]")
"""A pseudonym that is already there."""

# --- secrets: the named group is replaced, what stands before it stays ---

NOT_SECRET = re.compile(
    r"none|null|nil|true|false|yes|no|unset|auto|default|\*+|<[^>]*>|\$\{?\w+\}?", re.IGNORECASE
)
"""Values that are no secret whatever the name before them says."""

NUMBER = re.compile(r"0x[0-9a-fA-F]+|[\d.]+")
"""Likewise, except behind a word for a password: counts of tokens are everywhere in an engine."""

_VALUE = (
    r"(?:[ \t]{0,3}(?:\"(?P<double>[^\"]+)\"|'(?P<single>[^']+)')"
    r"|(?P<spaced>(?<=:)[ \t]{1,3})?(?P<bare>[^\s,;'\"&})]+))"
)

SECRETS = (
    re.compile(
        r"(?i)\bauthorization['\"]?\s*[:=]\s*['\"]?(?:basic|digest|token)\s+(?P<secret>[^\s'\"]+)"
    ),
    re.compile(r"(?i)\bbearer\s+(?P<secret>[\w.~+/=-]{6,})"),
    re.compile(r"(?i)\b[a-z][a-z0-9+.-]{0,20}://(?P<secret>[^/\s@'\"]+)@"),
    re.compile(
        r"\b(?P<secret>hf_[A-Za-z0-9]{8,}|sk-[\w-]{12,}|gh[pousr]_\w{16,}|github_pat_\w{16,}"
        r"|glpat-[\w-]{12,}|nvapi-[\w-]{12,}|xox[abprs]-[\w-]{8,}|A[KS]IA[0-9A-Z]{16}"
        r"|AIza[\w-]{30,}|pypi-[\w-]{16,}|dckr_pat_[\w-]{8,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*)"
    ),
    re.compile(r"(?i)[?&](?:token|key|sig|signature|auth)=(?P<secret>[^\s&'\"]+)"),
    # --api-key VALUE, --hf-token=VALUE; counts of tokens end with an s.
    re.compile(
        r"(?i)(?<![\w-])--[\w-]*(?:key|token|secret|password|passwd)(?:=|\s+)['\"]?"
        r"(?P<secret>(?!--)[^\s'\"]+)"
    ),
)

ASSIGNMENT = re.compile(r"(?<![\w-])(?P<name>[\w-]{2,64})['\"]?[ \t]{0,3}[=:]" + _VALUE)
"""`NAME=VALUE`, `api_key='...'`, `"password": "..."`; a secret if the name says so."""

SECRET_NAME = re.compile(
    r"(?:[A-Z0-9]+_)*(?:[A-Z0-9]*TOKEN|[A-Z0-9]*KEY|SECRET|[A-Z0-9]*PASSWORD|PASSWD|PASSPHRASE"
    r"|CREDENTIALS?)(?:_[A-Z0-9]+)*"
    r"|(?i:(?:[\w-]*[_-])?(?:api[_-]?key|access[_-]?key|private[_-]?key"
    r"|(?:access|auth|bearer|refresh|api|hf|secret)[_-]?token|secret(?:[_-]?key)?"
    r"|password|passwd|passphrase|pwd))"
)
"""Names of an environment in capitals, and what programs call such a value; matched whole."""

# --- names and numbers ---

EMAIL = re.compile(r"(?<![\w.+-])[A-Za-z0-9_.+-]+@(?:[A-Za-z0-9-]+\.)+([A-Za-z]{2,})\b")
UNIT_KINDS = frozenset({"service", "socket", "slice", "scope", "target", "timer", "mount", "path"})
"""What stands behind the dot in `user@1000.service`, which is no address."""

LOGIN = re.compile(
    r"(?<![\w.@+-])(?P<user>[a-z_][\w-]{0,31})@(?P<host>[A-Za-z][\w-]*(?:\.[\w-]+)*)"
    r"(?=:[~/\s]|[ :][~/][^\s\]]*\]?[$#])"
)
"""`anna@box:~$`, `[anna@box ~]$`, `anna@box:/srv`."""

UUID = re.compile(r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
ID128 = re.compile(r"\b[0-9a-f]{32}\b")
MAC = re.compile(
    r"(?i)(?<![0-9a-f:-])[0-9a-f]{2}(?:(?::[0-9a-f]{2}){5}|(?:-[0-9a-f]{2}){5})(?![0-9a-f:-])"
)
IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)")
IPV6 = re.compile(r"(?i)(?<![\w:.])(?=[0-9a-f:]*:[0-9a-f:]*:)[0-9a-f:]{4,39}(?![\w:])")
VERSION_BEFORE = re.compile(
    r"(?i)(?:version|driver|release|firmware|vbios|bios|cuda|cudnn|nccl|gsp|\bv)[\s:=-]*$"
)
"""Before four numbers that are a version and no address."""

SERIAL = re.compile(
    r"(?i)\b(?:serial(?:[ _-]?(?:number|num|no\.?))?|service tag|asset tag|s/n)\b['\"]?"
    r"\s*(?:[:=]\s*|(?<=number)\s+)['\"]?(?P<serial>(?=[\w-]*\d)[A-Z0-9][\w-]{3,})"
)
DEVICE_SERIAL = re.compile(r"(?i)Device Serial Number\s+(?P<serial>[0-9a-f]{2}(?:-[0-9a-f]{2}){7})")

HOME = re.compile(
    r"(?i)(?:(?<=\\users\\)|(?<=\\\\users\\\\))(?:[^\\/:\"<>|]+)(?=[\\\"']|$)"
    r"|(?:(?<=/home/)|(?<=/users/))(?:[^/\\\s:;,'\"<>|]+)"
)
USER = re.compile(
    r"(?:\b(?:USER|LOGNAME|SUDO_USER|USERNAME)=|\buser=['\"]?|\bfor user |\bof user |\buid=\d+\()"
    r"(?P<user>[a-z_][\w.-]{1,31})"
)
_STAMP = (
    r"(?:[^\W\d_]{3,4}\.?\s+\d{1,2}\s(?:\d{4}\s)?\d\d:\d\d:\d\d(?:\.\d+)?"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)"
)
SYSLOG_HOST = re.compile(
    rf"(?:^|[\s|>])(?:<\d+>1?\s*)?{_STAMP}\s+(?P<host>[A-Za-z0-9][\w.-]*)\s+"
    r"(?:[\w./()@-]+(?:\[\d+\])?:(?:\s|$)|[\w./-]+\s+(?:\d+|-)\s+\S+\s+[\[-])"
)
"""The host field of a line of syslog (both forms) or of `journalctl`."""

HOST_FIELD = re.compile(
    r"(?i)\b(?:_?hostname|nodename|host name)['\"]?\s*[:=]\s*['\"]?(?P<host>[A-Za-z0-9][\w.-]+)"
)
DOMAIN = (
    r"(?:\.[A-Za-z0-9-]+)*\.(?:com|net|org|edu|gov|io|ai|dev|cloud|local|lan|internal|intranet"
    r"|home|corp|localdomain)"
)
"""What may follow a short host name and belongs to it."""

NO_HOST = frozenset({"localhost", "localhost.localdomain", "none", "null", "kernel"})
NO_USER = frozenset(
    {"root", "nobody", "user", "users", "public", "shared", "default", "none", "name", "runner"}
)
TOO_COMMON = frozenset(
    {
        "admin",
        "aer",
        "build",
        "card",
        "cuda",
        "data",
        "debian",
        "dev",
        "device",
        "docker",
        "driver",
        "engine",
        "fedora",
        "gpu",
        "gpus",
        "host",
        "kernel",
        "link",
        "linux",
        "localhost",
        "log",
        "logs",
        "main",
        "node",
        "nvidia",
        "nvme",
        "pcie",
        "port",
        "power",
        "python",
        "root",
        "server",
        "system",
        "systemd",
        "test",
        "torch",
        "ubuntu",
        "user",
        "vllm",
        "worker",
    }
)
"""Words that are replaced only where they stand as a name, never all over the text."""
