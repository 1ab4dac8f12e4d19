"""What container runtimes and their tools put before a line: CRI, kubectl, compose, pm2."""

from __future__ import annotations

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.framing.base import Framing, Peeled
from gpuprobe.sources.framing.times import iso_stamp

_CRI = regex(
    r"(?P<raw>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(?:Z|[+-]\d\d:\d\d)) std(?:out|err) [FP](?::\w+)* ?"
)
_COMPOSE = regex(r"[A-Za-z0-9][\w.-]{0,100}[-_]\d{1,4} *\| ")
_PM2 = regex(r"\d{1,3}\|[A-Za-z][\w.-]{0,60} *\| ")
_KUBECTL = regex(r"\[(?:pod|job|deployment|container)/[\w./-]{1,250}\] ")


def _cri(text: str) -> Peeled | None:
    match = _CRI.match(text)
    if match is None:
        return None
    return Peeled(text[match.end() :], "cri", iso_stamp(match["raw"]))


def _compose(text: str) -> Peeled | None:
    match = _COMPOSE.match(text)
    return match and Peeled(text[match.end() :], "kubectl")


def _pm2(text: str) -> Peeled | None:
    match = _PM2.match(text)
    return match and Peeled(text[match.end() :], "kubectl")


def _kubectl(text: str) -> Peeled | None:
    match = _KUBECTL.match(text)
    return match and Peeled(text[match.end() :], "kubectl")


FRAMINGS = (
    Framing("cri", "0123456789", _cri),
    Framing("kubectl", "[", _kubectl, outermost=True),
    Framing("pm2", "0123456789", _pm2, outermost=True),
    Framing("compose", "", _compose, outermost=True),
)
