"""People's own words about a fault: never evidence, but worth saying which command would prove it.

Source: how reports in public trackers put it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.events import ProseMentioned
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading

_OTHER_XIDS = regex(
    r"BOOTP|DHCP|\bRPC\b|\bNFS|nfs4|sunrpc|\bdhc|transaction|binlog|\bxm(?:in|ax)\b|vacuum|relfrozenxid|\bXA\b|postgres|"
    r"autovacuum|wraparound|commit|mysql|mariadb|X11|XIDs? of|window id|xid cache",
    re.IGNORECASE,
)
"""Other things that are called xid: transactions of DHCP, RPC and databases, X resources."""

_HIGHEST_XID = 200


def _read_xid(match: re.Match[str], window: Window) -> Reading:
    code = int(match["code"])
    if not 0 < code <= _HIGHEST_XID or _OTHER_XIDS.search(window.text):
        return None
    lost = code == 79 or _LOSS.search(window.text) is not None
    events = [ProseMentioned(topic="xid", xid=code, **window.base())]
    if lost and code != 79:
        events.append(ProseMentioned(topic="loss", **window.base()))
    return events


def _mention(topic: str) -> Callable[[re.Match[str], Window], Reading]:
    def read(match: re.Match[str], window: Window) -> Reading:
        return ProseMentioned(topic=topic, **window.base())

    return read


_LOST_GPU = (
    *(
        f"{lose} {which}{gpu}"
        for lose in ("lost", "lose", "loses", "losing")
        for which in ("", "the ", "my ", "a ", "one ", "our ")
        for gpu in ("GPU", "gpu")
    ),
    *(
        f"{gpu} {be} lost"
        for gpu in ("GPU", "gpu", "card")
        for be in ("is", "was", "gets", "got", "has been")
    ),
)
"""Phrases that are needles as well."""

_LOSS = regex(
    r"\b(?:f[ae]lls?|fallen|falling|drop(?:s|ped|ping)?|came|went|kicked|knocked) off (?:of )?the (?:(?:PCI|pci)(?:[ -]?(?:[eE]|[eE]xpress))? )?bus\b"
    rf"|\b(?:{'|'.join(_LOST_GPU)})s?\b(?! memory| time| utili[sz]ation| acceleration| performance)"
    r"|\b(?:GPU|gpu|[Dd]evice) loss\b"
    r"|\bleft the (?:PCIe? )?bus\b"
    r"|\b(?:GPU|gpu|card) (?:has )?(?:disappear(?:s|ed)|vanish(?:es|ed)) from\b"
    r"|\bvom (?:PCIe?-)?Bus (?:ge)?fall|\btomb[ée]e? du bus\b|\bcay[óo] del bus\b|\bcaiu do barramento\b|\bcadut[oa] dal bus\b"
)

FAMILY = Family(
    "prose",
    (
        Pattern(
            id="prose-xid",
            needles=("Xid", "XID", "xid"),
            regex=regex(
                r"(?<![\w\"'.])(?:Xid|XID|xid)(?:s| error| code| errors| codes| event| message)?(?:\s*[:#]\s*|\s*\(\s*|\s+is\s+|\s+|-)?(?<!=)"
                r"(?P<code>\d{1,3})(?![\w:]|\.\d)"
            ),
            read=_read_xid,
            examples=(
                "We get Xid 79 twice a day since the new riser",
                "the log had XID: 119 in it",
                "title: xid79 under load",
                "Xid error 31 whenever the second worker starts",
            ),
            near=(
                "0.0.0.0.68 > 255.255.255.255.67: BOOTP/DHCP, Request, length 288, xid 0x1a2b3c4d, secs 1",
                "dhclient: DHCPREQUEST on eth0 (xid 79)",
                "committed transaction xid 501 of database app",
                "xid=12345678",
                "xid 0x4f",
            ),
            source="public reports",
        ),
        Pattern(
            id="prose-loss",
            needles=(
                "off the bus", "off the PCI", "off the pci", "off of the bus", "off of the PCI",
                "off of the pci", "left the bus", "left the PCI", "evice loss", "GPU loss", "gpu loss",
                "disappear", "vanish", "vom Bus", "vom PCI", "du bus", "del bus", "do barramento", "dal bus",
                *_LOST_GPU,
            ),
            regex=_LOSS,
            read=_mention("loss"),
            examples=(
                "After a minute the card fell off the PCIe bus again",
                "my GPU has fallen off the bus",
                "every night we lose a GPU",
                "Is this device loss known?",
                "Die Karte ist vom Bus gefallen",
            ),
            near=("a passenger fell of the bus", "lost GPU memory to fragmentation", "I lost connection to the server"),
            source="public reports",
        ),
        Pattern(
            id="prose-cuda",
            needles=("launch failure", "illegal memory access", "CUDA error"),
            regex=regex(r"(?:unspecified )?launch failure|illegal memory access|CUDA errors?\b"),
            read=_mention("cuda"),
            examples=("I keep getting an unspecified launch failure on long prompts",),
            near=("launch failed for payment service",),
            source="public reports",
        ),
        Pattern(
            id="prose-heat",
            needles=("overheat", "thermal throttl"),
            regex=regex(r"\boverheat(?:s|ed|ing)?\b|\bthermal throttl(?:ing|es?|ed)\b"),
            read=_mention("thermal"),
            examples=("maybe the card is overheating",),
            near=("heat sink ordered",),
            source="public reports",
        ),
        Pattern(
            id="prose-oom",
            needles=("out of memory", "out of VRAM", "OOM kill"),
            regex=regex(r"\b(?:runs?|ran|running|goes|went) out of (?:memory|VRAM)\b|\bOOM kill(?:ed|er|s)\b"),
            read=_mention("oom"),
            examples=("the box ran out of memory yesterday",),
            near=("read out of memory mapped files",),
            source="public reports",
        ),
    ),
    machine=False,
)  # fmt: skip
