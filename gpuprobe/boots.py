"""This machine's boots, read from its own logs and judged one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuprobe.checks.scene import BootLog
from gpuprobe.events import BootStarted
from gpuprobe.joining import join_readings, read
from gpuprobe.options import Options
from gpuprobe.reading import Known, Reading, Reason, Unavailable
from gpuprobe.sources.files import machine
from gpuprobe.sources.files.raw_input import RawInput, UnreadableInput
from gpuprobe.sources.kmsg import KMSG
from gpuprobe.timeline import Timeline
from gpuprobe.verdict import diagnose

Inputs = Iterable[RawInput | UnreadableInput]

HINT = "Run it with sudo, or join the group: sudo usermod -aG systemd-journal $USER"


def read_boot(boot: int, inputs: Callable[[int], Inputs] = machine.boot_inputs) -> Reading[BootLog]:
    """The kernel log of one boot, judged.

    Args:
        boot: 0 this one, -1 the one before it.
        inputs: Gives the inputs of a boot.
    """
    timeline = read_timeline(inputs(boot))
    if isinstance(timeline, Unavailable):
        return timeline
    found, notes = timeline.value
    # The journal of an ordinary user may hold nothing of the kernel: that is no quiet log.
    partial = any("only part" in note for note in notes)
    if partial and not found.events:
        return Unavailable(Reason.NOT_PERMITTED, "the journal's kernel lines", HINT)
    begins = any(True for _ in found.of(BootStarted))
    wrapped = not begins and all(item.path == str(KMSG) for item in found.inputs)
    flooded = any((item.lines or 0) >= machine.BOOT_LINES for item in found.inputs)
    if flooded:
        notes.append(f"the newest {machine.BOOT_LINES:,} lines were read")
    if wrapped:
        notes.append("the kernel's buffer no longer holds how this boot began")
    ids = {event.boot for event in found.events if event.boot}
    return Known(
        BootLog(
            timeline=found,
            diagnosis=diagnose(found),
            boot_id=next(iter(ids)) if len(ids) == 1 else "",
            whole=not (partial or wrapped or flooded or any("are lost" in note for note in notes)),
            notes=tuple(notes),
        )
    )


def read_timeline(inputs: Inputs) -> Reading[tuple[Timeline, list[str]]]:
    """One timeline of this machine's inputs, and what was amiss with them.

    Inputs that hold nothing at all count as missing.
    """
    raw = []

    def kept() -> Inputs:
        for item in inputs:
            raw.append(item)
            yield item

    readings, _ = read(kept(), Options())
    readings = [reading for reading in readings if reading.input.lines]
    opened = [item for item in raw if isinstance(item, RawInput)]
    if readings:
        # A boot without a shutdown has no lines of one: that is an answer, not a gap.
        opened = [item for item in opened if item.path != machine.UNITS]
    notes = [note for item in opened for note in item.notes]
    if not readings:
        closed = [item for item in raw if isinstance(item, UnreadableInput)]
        said = [_reason(item) for item in closed] + notes
        denied = any(word in text.lower() for text in said for word in ("permi", "only part"))
        reason = Reason.NOT_PERMITTED if denied else Reason.NOT_THERE
        told = "; ".join(dict.fromkeys(said[:2])).rstrip(".")
        return Unavailable(reason, told, HINT if denied else "")
    # All of it is this machine's, whatever name it had in a boot.
    timeline = join_readings(readings, Options())[0]
    return Known((timeline, notes))


def _reason(item: UnreadableInput) -> str:
    """Why an input was left out, with its path once."""
    return item.reason if item.path in item.reason else f"{item.path}: {item.reason}"
