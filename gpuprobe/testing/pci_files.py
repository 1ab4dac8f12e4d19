"""What the kernel writes into a PCI function's files, for `FakeSysfs`."""

from __future__ import annotations

from collections.abc import Mapping

from gpuprobe.testing.config_space import ConfigSpace

CORRECTABLE = (
    "RxErr",
    "BadTLP",
    "BadDLLP",
    "Rollover",
    "Timeout",
    "NonFatalErr",
    "CorrIntErr",
    "HeaderOF",
)
UNCORRECTABLE = (
    "Undefined",
    "DLP",
    "SDES",
    "TLP",
    "FCP",
    "CmpltTO",
    "CmpltAbrt",
    "UnxCmplt",
    "RxOF",
    "MalfTLP",
    "ECRC",
    "UnsupReq",
    "ACSViol",
    "UncorrIntErr",
    "BlockedTLP",
    "AtomicOpBlocked",
    "TLPBlockedErr",
    "PoisonTLPBlocked",
)
TOTALS = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}


def aer_text(severity: str, counters: Mapping[str, int]) -> str:
    """A file such as `aer_dev_correctable`: a line a name, and the total last."""
    lines = [f"{name} {value}" for name, value in counters.items()]
    lines.append(f"TOTAL_ERR_{TOTALS[severity]} {sum(counters.values())}")
    return "\n".join(lines) + "\n"


def remembered(config: ConfigSpace) -> Mapping[str, object]:
    """The files that the kernel filled when it found the function, and power files."""
    data = config.data
    bridge = data[0x0E] == 1
    return {
        "vendor": f"0x{int.from_bytes(data[0:2], 'little'):04x}",
        "device": f"0x{int.from_bytes(data[2:4], 'little'):04x}",
        "class": f"0x{int.from_bytes(data[9:12], 'little'):06x}",
        "revision": f"0x{data[8]:02x}",
        "subsystem_vendor": "0x0000" if bridge else "0x1462",
        "subsystem_device": "0x0000" if bridge else "0x5110",
        "enable": 1,
        "irq": 100,
        "numa_node": 0,
        "broken_parity_status": 0,
        "d3cold_allowed": 1,
        "reset_method": "pm" if bridge else "flr bus",
        "power_state": "D0",
        "power/control": "auto" if bridge else "on",
        "power/runtime_status": "active",
        **({"secondary_bus_number": data[0x19]} if bridge else {"boot_vga": 0}),
    }
