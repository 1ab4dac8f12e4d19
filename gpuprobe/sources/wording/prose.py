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

_FILLER = (
    r"[\"'\u2018\u201c`]?(?:(?:an?|any|the|single|new|kernel|NVRM|gpu|card|driver|has|have|had|ever|is|was|such|"
    r"lines? with|(?:sign|trace|hint|mention)s? of) )*(?:xids?[ :#]*\d{1,3} ?[(:,-]+ ?(?:GPU (?:has )?)?)?"
)

_NOBODY_SAW = regex(
    r"\bwould be (?:\w+ )?(?:great|nice|good|helpful|useful|handy|cool|better)\b"
    r"(?:(?!\b(?:why|how|what|some(?:one|body)|any(?:one|body)|you|help)\b)[^.!?:;])*$"
    r"|\bshould (?!not\b)(?:\w+ )?(?:print|say|tell|show|warn|log|detect|report|mention)\b[^.!?:;,]*$"
    r"|\b(?:pages?|docs?|documentation|manual|catalog(?:ue)?) says?\b[^.!?;]*$"
    r"|\b(?:told (?:me|us) about|(?:read|heard|talk(?:s|ed|ing)?) (?:about|of)|googled)\b[^.!?:;,]*$"
    rf"|\b(?:no|nor|without|zero|never) {_FILLER}$"
    rf"|(?:(?<!should )\bnot|\bnever|n['\u2019]t) (?:see|seen|saw|find|found|show|contain|logged) {_FILLER}$",
    re.IGNORECASE,
)
"""What stands before a fault that its sentence wishes for, denies or knows from hearsay."""

_SAW_AFTER_ALL = regex(
    r"[^.!?]{0,80}\b(?:only|except|unless|until|any ?more|any longer|mine|ours)\b"
)
"""What goes on behind it where the fault was there at other times."""


def is_seen(match: re.Match[str]) -> bool:
    """Whether the sentence says that the fault was there."""
    denied = _NOBODY_SAW.search(match.string, max(0, match.start() - 200), match.start())
    return denied is None or _SAW_AFTER_ALL.match(match.string, match.end()) is not None


def _read_xid(match: re.Match[str], window: Window) -> Reading:
    code = int(match["code"])
    if not 0 < code <= _HIGHEST_XID or _OTHER_XIDS.search(window.text) or not is_seen(match):
        return None
    lost = code == 79 or _LOSS.search(window.text) is not None
    events = [ProseMentioned(topic="xid", xid=code, **window.base())]
    if lost and code != 79:
        events.append(ProseMentioned(topic="loss", **window.base()))
    return events


def _mention(topic: str) -> Callable[[re.Match[str], Window], Reading]:
    def read(match: re.Match[str], window: Window) -> Reading:
        return ProseMentioned(topic=topic, **window.base()) if is_seen(match) else None

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
    r"|\b(?:GPU|gpu|[Dd]evice) loss\b(?!\s*[:=]?\s*(?:nan|inf|-?\d))"
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
                r"(?<![A-Za-z0-9_\"'.])(?:Xid|XID|xid)(?:s| error| code| errors| codes| event| message)?(?:\s*[:#]\s*|\s*\(\s*|\s+is\s+|\s+|-)?(?<!=)"
                r"(?P<code>\d{1,3})(?![A-Za-z0-9_:]|\.\d|[\w.-]*\.(?:log|txt|gz|zip|json|md|html|png|jpe?g|ya?ml|csv)\b)"
            ),
            read=_read_xid,
            examples=(
                "We get Xid 79 twice a day since the new riser",
                "the log had XID: 119 in it",
                "title: xid79 under load",
                "Xid error 31 whenever the second worker starts",
                "It would be great if someone could explain the Xid 79 below",
                "I am not sure what Xid 79 means",
                "I never see Xid 79 at idle, only under load",
                "It should not show Xid 79 but does",
                "I don't have the Xid 79 line any more",
                "dmesg\u306bXid 79\u304c\u51fa\u307e\u3057\u305f",
            ),
            near=(
                "0.0.0.0.68 > 255.255.255.255.67: BOOTP/DHCP, Request, length 288, xid 0x1a2b3c4d, secs 1",
                "dhclient: DHCPREQUEST on eth0 (xid 79)",
                "committed transaction xid 501 of database app",
                "xid=12345678",
                "xid 0x4f",
                "There is no Xid 79 in dmesg and nvidia-smi works",
                "It would be great if the engine printed Xid 79 beside its own error",
                "I haven't seen any Xid 79 since",
                "vLLM should report Xid 79 itself",
                "-rw-r--r-- 1 u u 4411 Sep 11 03:31 bug-report-xid79.log.gz",
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
                "Is there no way to stop the card from falling off the bus?",
            ),
            near=(
                "a passenger fell of the bus",
                "step 10 GPU loss: 1.07, device loss nan",
                "lost GPU memory to fragmentation",
                "I lost connection to the server",
                "someone told me about GPUs falling off the bus",
                "in a year no card has fallen off the bus",
                "NVIDIA's page says for it: the GPU has fallen off the bus",
            ),
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
