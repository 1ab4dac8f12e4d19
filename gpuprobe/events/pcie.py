"""What the kernel, the firmware and the tools of PCI say of links, ports and functions."""

from __future__ import annotations

from typing import Final, Literal

from gpuprobe.events.base import Event, observed
from gpuprobe.identity import PciAddress

BOARD_CONTROLLER: Final = "bmc"
"""In place of a driver's name: the board's controller (BMC) wrote it in a log of its own."""


@observed
class AerReported(Event):
    """One AER report, its lines put together.

    Attributes:
        severity: `correctable`, `non-fatal` or `fatal`.
        layer: `Physical Layer`, `Data Link Layer`, `Transaction Layer`, `Inaccessible`, or "".
        agent: `receiver`, `transmitter`, `requester`, `completer`, or "".
        bits: Names of the set status bits, short form (`RxErr`, `BadTLP`, `SDES`).
        port: The root port that got the message, when the block says so.
        driver: The bound driver's name as the kernel prints it, `BOARD_CONTROLLER`, or None.
        firmware_first: Reported through GHES by the firmware.
    """

    severity: Literal["correctable", "non-fatal", "fatal"]
    layer: str = ""
    agent: str = ""
    bits: tuple[str, ...] = ()
    port: PciAddress | None = None
    driver: str | None = None
    firmware_first: bool = False

    @property
    def by_board(self) -> bool:
        """Whether the board's controller tells of it and not the kernel."""
        return self.driver == BOARD_CONTROLLER


@observed
class AerRecoveryEnded(Event):
    """AER or DPC recovery ended.

    Attributes:
        outcome: `recovered`, `failed`, `link-reset`, `no-callback`.
    """

    outcome: Literal["recovered", "failed", "link-reset", "no-callback"]
    driver: str | None = None


@observed
class DpcTriggered(Event):
    """Downstream Port Containment cut the link below `device` (a port).

    Attributes:
        sender: Who sent the error message, from `source:0x2100`, or None.
        reason: As printed, such as `ERR_FATAL`, or "".
    """

    sender: PciAddress | None = None
    reason: str = ""


@observed
class SlotChanged(Event):
    """A hot-plug port (`device`) said something about its slot.

    Attributes:
        slot: The slot's name, as printed.
        what: `link-down`, `link-up`, `card-not-present`, `card-present`, `already-disabled`,
            `power-fault`, `ignored` (bounce that DPC recovered), `no-device`, `attention-button`,
            `powering-off` (asked for by that button).
    """

    slot: str
    what: str


@observed
class LinkStateReported(Event):
    """A link's state at `device`.

    Attributes:
        what: `inactive` (Data Link Layer Link Active not set), `active`, `retraining`,
            `retrain-failed`, `limited` (available bandwidth below what the card can),
            `sampled` (lspci, nvidia-smi -q or sysfs text).
        speed_gts: Speed now, or None. width: Lanes now, or None.
        max_speed_gts: Best speed, or None. max_width: Best width, or None.
        limited_by: The hop that limits it.
    """

    what: str
    speed_gts: float | None = None
    width: int | None = None
    max_speed_gts: float | None = None
    max_width: int | None = None
    limited_by: PciAddress | None = None


@observed
class ConfigSpaceUnreadable(Event):
    """The device's config space did not answer.

    Attributes:
        how: `power-state` ("device inaccessible" / "config space inaccessible"), `not-ready`
            ("not ready ... giving up"), `waiting` (not ready yet), `all-ones` (lspci `rev ff`,
            header type 7f, config reading ff ff ff ff, link width 63).
        driver: The driver name printed before the address, or None.
        from_state: The power state the kernel believed it in (`D3cold`), or None.
    """

    how: Literal["power-state", "not-ready", "waiting", "all-ones"]
    driver: str | None = None
    from_state: str | None = None


@observed
class DeviceChanged(Event):
    """The kernel or the driver noticed a device come, go, answer again or be reset.

    Attributes:
        what: `added`, `removed`, `bound`, `unbound`, `answered` (ready, reset done, enabled),
            `reset-done`, `suspended` and `active` (its runtime power state), `tunnel-lost`
            (thunderbolt disconnected).
        class_code: PCI class (0x030000), where the line has it.
        driver: Driver it was bound to, where the line has it.
    """

    what: str
    class_code: int | None = None
    driver: str | None = None


@observed
class AdminActed(Event):
    """Somebody removed, unbound or reset a device on purpose, or unloaded the driver.

    Attributes:
        what: `remove`, `unbind`, `reset`, `rescan`, `rmmod`, `slot-power`, `bind-vfio`,
            `config-write` (setpci).
    """

    what: str


@observed
class BridgeLinked(Event):
    """A line showed that `device` lies below `parent` (sysfs path, lspci -t, enumeration)."""

    parent: PciAddress
