"""What the NVML child and its parent say to each other. It imports no NVML.

The child is started with one argument, its `Settings` as JSON. Child to parent, on its stdout: one
JSON object a line, `{"t": TYPE, ...}`, ASCII. Every message has `"m"`: `time.monotonic_ns()` when
it was made, and `"w"`: wall clock, nanoseconds since 1970. A `slot` is one opening of one device.

* `hello` (`pid`, `driver`, `nvml`, `cuda`, `count`): NVML is open and lists `count` devices.
* `came` (`slot`, `pci`, `uuid`, `name`, `index`, `mig`): a device was opened.
* `samples` (`slot`, `layout`, `rows`): the fast group and the newest of the calm one. `rows` are
  rows one after the other, in base64. `layout` says how many bytes a row has, then for each value
  in the order of `calls.values(Group.FAST)` and of `Group.CALM` where it stands: an offset and
  a letter of `struct`, and what it is multiplied with (`16I*0.001`); `-` for what the device does
  not offer. A row begins with its time (as `m`) in eight bytes.
* `rows` (`slot`, `rows`): the same as lists, time first, where a value of a row failed: null for
  what the device does not offer, `{"u": reason, "c": code}` for what failed this time.
* `sample` (`slot`, `group`, `values`): group `slow` (when one changed), `rare`, `seldom` or `once`;
  name to value, or to `{"u", "c"}`.
* `absent` (`slot`, `values`): name to `{"u", "c"}` of what is not offered, and asked no more.
* `power` (`slot`, `samples`): the driver's own as it gives them, in base64: see `SAMPLE`.
* `processes` (`slot`, `pids`): who uses the device; when it changed, and every 10 s.
* `event` (`slot`, `type`, `data`): an NVML event: type bit mask, data (the Xid).
* `nvml` (`call`, `code`, `name`, `slot`): a call began to fail; said once until it answers again.
* `lost` (`slot`, `pci`, `index`, `call`, `code`): GPU_IS_LOST; the device is asked no more.
* `gone` (`slot`, `pci`, `why`): no longer sampled: `not-found`, `unavailable`, `skipped`.
* `closed` (`code`, `name`): NVML cannot be opened, or was shut; it is tried again.
* `error` (`text`): something in the child itself failed.
* `bye` (`why`): the child ends by itself: `pipe`, `done`, `firmware`, `mismatch`, `error`.

Parent to child, on its stdin: one JSON object a line: `{"do": "skip", "pci": ...}` (make no more
calls to that device), `{"do": "open", "pci": ...}`, `{"do": "flush"}` (write the readings that
wait), `{"do": "cease"}` (no further call at all), `{"do": "stop"}`. The end of the pipe means the
same as `stop`.

Beside it a small shared memory (a memfd, inherited) holds a `CallState` for each thread: which
call it is in, and since when, so that a call that hangs has a name.
"""

from __future__ import annotations

import binascii
import functools
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import NoneType
from typing import Any, Final

from gpuprobe.live.nvml.calls import Group, values

MAX_DEVICES: Final = 63
"""Slots for devices, 0 to 62. The thread that waits for a slot's events has EVENTS more."""

EVENTS: Final = 64
LIBRARY_SLOT: Final = 127
"""The thread that opens the library and lists devices."""

SLOTS: Final = 128
"""Threads that can be told apart."""

SAMPLE: Final = struct.Struct("=QI4x")
"""One of the driver's own power samples: microseconds since 1970, milliwatts."""

_STATE: Final = struct.Struct("<IIQ")
STATE_BYTES: Final = _STATE.size * SLOTS


@dataclass(frozen=True, slots=True)
class Settings:
    """What the child is told at its start.

    Attributes:
        state_fd: File descriptor of the shared memory.
        rate_hz: Rate of the fast group.
        devices: Addresses to open, or None for all that NVML lists.
        once: Read every group once and leave.
        retry_s: How often NVML is tried again where it cannot be opened, and asked how many
            devices there are where it is, seconds.
        batch_s: Readings wait this long at most, to go in one write, seconds.
    """

    state_fd: int
    rate_hz: float = 10.0
    devices: tuple[str, ...] | None = None
    once: bool = False
    retry_s: float = 5.0
    batch_s: float = 0.5

    def to_argument(self) -> str:
        """As the child's one argument."""
        return json.dumps(asdict(self))

    @classmethod
    def from_argument(cls, text: str) -> Settings:
        """Read it back."""
        fields = json.loads(text)
        if fields["devices"] is not None:
            fields["devices"] = tuple(fields["devices"])
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class CallState:
    """What one thread of the child is doing.

    Attributes:
        call: Index into `calls.CALLS` plus 1, or 0 outside of any call.
        tid: The thread's kernel id.
        since_ns: `time.monotonic_ns()` when the call began. Outside of any call: when the last
            pass began in which the device answered, 0 for none.
    """

    call: int
    tid: int
    since_ns: int


pack_state = _STATE.pack_into
"""`pack_state(memory, slot * STATE_SIZE, call, tid, since_ns)`: for the hot path of the child."""
unpack_state = _STATE.unpack_from
"""The same back: call, thread, and since when."""

STATE_SIZE: Final = _STATE.size


def put_state(memory: memoryview, slot: int, state: CallState) -> None:
    """Write one thread's state; a torn read only names a call that just ended."""
    _STATE.pack_into(memory, slot * _STATE.size, state.call, state.tid, state.since_ns)


def get_state(memory: memoryview, slot: int) -> CallState:
    """Read one thread's state."""
    return CallState(*_STATE.unpack_from(memory, slot * _STATE.size))


def to_text(data: bytes | bytearray) -> str:
    """Bytes as a message holds them: numbers one by one cost ten times as much."""
    return binascii.b2a_base64(data, newline=False).decode()


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, default=to_text)


_DECODE: Final = json.JSONDecoder().decode


def encode(message: dict[str, Any]) -> bytes:
    """One line of the protocol."""
    return _ENCODER.encode(message).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands in a row.

    Attributes:
        offset: Bytes from the row's begin. code: A letter of `struct`: one of `CODES`.
        scale: What the number is multiplied with, and rounded to thousandths; 1 for as it is.
    """

    offset: int
    code: str
    scale: float = 1

    def read(self, row: Any) -> Any:
        """The value in the bytes of a row."""
        return self.scaled(struct.unpack_from("=" + self.code, row, self.offset)[0])

    def scaled(self, number: Any) -> Any:
        """The value that a number stands for."""
        return number if self.scale == 1 else round(number * self.scale, 3)

    def __str__(self) -> str:
        return f"{self.offset}{self.code}" + ("" if self.scale == 1 else f"*{self.scale:g}")


CODES: Final = frozenset("iIqQdH")
ROW_NAMES: Final = tuple(
    value.name for group in (Group.FAST, Group.CALM) for value in values(group)
)
"""The values of a row, in their order."""


def layout(size: int, places: Mapping[str, Place]) -> str:
    """The layout of rows, as a message has it."""
    return " ".join([str(size), *(str(places.get(name, "-")) for name in ROW_NAMES)])


def pack_row(row: Sequence[Any]) -> tuple[str, bytes]:
    """The layout of a row given as a list, and its bytes; both empty if a value is no number."""
    text, packer = _packer(tuple(map(type, row)))
    if packer is None:
        return "", b""
    try:
        return text, packer.pack(*[value for value in row if value is not None])
    except struct.error:  # a number of more than 63 bits
        return "", b""


_LETTERS: Final = {int: "q", float: "d", NoneType: ""}


@functools.lru_cache(maxsize=64)
def _packer(types: tuple[type, ...]) -> tuple[str, struct.Struct | None]:
    letters = [_LETTERS.get(kind) for kind in types]
    if None in letters:
        return "", None
    packer = struct.Struct("=" + "".join(filter(None, letters)))
    named = [(name, code) for name, code in zip(ROW_NAMES, letters[1:], strict=True) if code]
    places = {name: Place(8 * at, code) for at, (name, code) in enumerate(named, 1)}
    return layout(packer.size, places), packer


def decode(line: bytes) -> dict[str, Any] | None:
    """The message of a line, or None for a line that is none (cut off by a death)."""
    try:
        message = _DECODE(line.decode())
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and "t" in message else None


def decode_command(line: bytes) -> dict[str, Any] | None:
    """The command of a line, or None for a line that is none."""
    try:
        command = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return command if isinstance(command, dict) and "do" in command else None
