"""What a device is called: one PCI address type for every spelling."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuprobe.errors import AddressError

_ADDRESS = re.compile(
    r"""^(?:pci:|gpu-)?\s*
    (?:(?P<domain>[0-9a-f]{4,8}):)?
    (?P<bus>[0-9a-f]{2}):
    (?P<device>[0-1][0-9a-f])
    (?:\.(?P<function>[0-7]))?$""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, order=True, slots=True)
class PciAddress:
    """A PCI function, as the kernel writes it: `0000:04:00.0`.

    NVML writes eight domain digits, sysfs four, an Xid's bracket leaves the function out and
    lspci the domain. All of them become this one value.

    Attributes:
        domain: PCI segment, 0 to 0xffffffff (Hyper-V and VMD use more than 16 bits).
        bus: 0 to 255.
        device: 0 to 31.
        function: 0 to 7; 0 where the text had none.
        domain_assumed: The text had no domain, so 0000 was taken. Not compared.
    """

    domain: int
    bus: int
    device: int
    function: int = 0
    domain_assumed: bool = field(default=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> PciAddress:
        """Read any spelling of a PCI address.

        Args:
            text: Such as `0000:04:00.0`, `00000000:5A:00.0`, `PCI:0000:04:00`, `04:00.0`.

        Raises:
            AddressError: `text` is not a PCI address.
        """
        match = _ADDRESS.match(text.strip())
        if match is None:
            raise AddressError(
                f"{text!r} is not a PCI address", hint="Write it as lspci -D does: 0000:04:00.0"
            )
        domain = match["domain"]
        return cls(
            domain=int(domain or "0", 16),
            bus=int(match["bus"], 16),
            device=int(match["device"], 16),
            function=int(match["function"] or "0"),
            domain_assumed=domain is None,
        )

    @classmethod
    def try_parse(cls, text: str | None) -> PciAddress | None:
        """Like `parse`, with None for anything that is not an address."""
        if not text:
            return None
        try:
            return cls.parse(text)
        except AddressError:
            return None

    @classmethod
    def from_requester_id(cls, requester_id: int, domain: int = 0) -> PciAddress:
        """Read a 16-bit requester id (`source:0x2100`, `id=00e4`): bus, device, function."""
        return cls(domain, requester_id >> 8 & 0xFF, requester_id >> 3 & 0x1F, requester_id & 7)

    @property
    def slot(self) -> PciAddress:
        """Function 0 of the same device: what a GPU with its sound and USB functions is called."""
        if self.function == 0:
            return self
        return PciAddress(self.domain, self.bus, self.device, 0, self.domain_assumed)

    def __str__(self) -> str:
        return f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}.{self.function}"
