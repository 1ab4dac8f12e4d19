"""What gpuprobe itself says inside an engine's log: the hook's error, and the word of `run`.

Whoever pastes such a log often has no other. It is a conclusion and no reading, so it supports a
loss and does not prove it.

Source: `gpuprobe.hook` and `gpuprobe run`.
"""

from __future__ import annotations

import re

from gpuprobe.events import LossHinted
from gpuprobe.identity import PciAddress
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading

_ADDRESS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"


def _read_loss(match: re.Match[str], window: Window) -> Reading:
    address = PciAddress.parse(match["left"] or match["lost"])
    return LossHinted(**window.base(device=address), what="gpuprobe")


FAMILY = Family(
    name="own",
    patterns=(
        Pattern(
            id="own-loss",
            needles=("gpuprobe",),
            regex=regex(
                r"(?:\bgpuprobe\.errors\.DeviceLostError: |\bgpuprobe: \[(?:confirmed|likely)\] )"
                rf"(?:GPU (?P<left>{_ADDRESS}) left the bus\b|the driver lost GPU (?P<lost>{_ADDRESS}))"
            ),
            read=_read_loss,
            examples=(
                "gpuprobe.errors.DeviceLostError: GPU 0000:04:00.0 left the bus: its config space "
                "reads all ones; CUDA error 719 is a consequence",
                "gpuprobe: [confirmed] GPU 0000:04:00.0 left the bus: noticed at 07:44:58",
            ),
            near=(
                "    from gpuprobe import DeviceLostError, guard",
                "except DeviceLostError: # the GPU left the bus",
                "gpuprobe: [possible] GPU 0000:04:00.0 left the bus",
            ),
            source="gpuprobe.hook and gpuprobe run",
        ),
    ),
)
