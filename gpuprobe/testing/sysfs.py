"""A /sys and /proc tree in a folder, with GPUs below their bridges, for readers that take a root.

Links are laid as in the real tree: `sys/bus/pci/devices/0000:01:00.0` is a relative link to
`sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0`, whose parent folders are the bridges.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuprobe.identity import PciAddress
from gpuprobe.testing.config_space import SIZE, UNPRIVILEGED_SIZE, ConfigSpace, bridge_buses
from gpuprobe.testing.host_files import (
    CGROUP,
    CGROUP_FILES,
    NVIDIA_INFORMATION,
    NVIDIA_VERSION,
    PROC_FILES,
)
from gpuprobe.testing.pci_files import (
    CORRECTABLE,
    TOTALS,
    UNCORRECTABLE,
    aer_text,
    remembered,
)

Address = str | PciAddress


@dataclass
class _Function:
    folder: Path
    config: ConfigSpace
    config_size: int
    speed_gts: float
    width: int
    max_speed_gts: float
    max_width: int
    aer: dict[str, dict[str, int]] = field(default_factory=dict)
    root_totals: dict[str, int] | None = None


class FakeSysfs:
    """A machine in a folder: give its `root` to whatever reads /sys and /proc.

    ```python
    machine = FakeSysfs(tmp_path)
    machine.gpu("0000:04:00.0", bridges=["0000:00:01.1", "0000:02:00.0", "0000:03:00.0"])
    machine.lose("0000:04:00.0")
    ```

    Attributes:
        root: The folder that stands for `/`.

    Args:
        folder: An existing folder, such as pytest's `tmp_path`.
        driver: Version of the NVIDIA driver, or None for a machine without it.
    """

    def __init__(self, folder: Path, *, driver: str | None = "580.65.06") -> None:
        self.root = Path(folder) / "root"
        self._driver = driver
        self._functions: dict[PciAddress, _Function] = {}
        self._gpus = 0
        self._hwmons = 0
        for path, content in {**PROC_FILES, **CGROUP_FILES}.items():
            self.write(path, content)
        self.write("sys/module/pcie_aspm/parameters/policy", "[default] performance powersave\n")
        for name in ("bus/pci/devices", "bus/pci/drivers", "bus/pci/slots", "class/hwmon"):
            (self.root / "sys" / name).mkdir(parents=True)
        if driver is not None:
            self.write("proc/driver/nvidia/version", NVIDIA_VERSION.format(driver=driver))
            self.write("sys/module/nvidia/version", f"{driver}\n")

    # --- building ----------------------------------------------------------------------------

    def gpu(
        self,
        address: Address,
        *,
        bridges: Sequence[Address] = ("0000:00:01.0",),
        vendor: int = 0x10DE,
        device: int = 0x2684,
        class_code: int = 0x030000,
        driver: str | None = "nvidia",
        name: str = "NVIDIA GeForce RTX 4090",
        speed_gts: float = 16.0,
        width: int = 16,
        port_speed_gts: float = 16.0,
        hotplug: bool = False,
    ) -> Path:
        """Put in a GPU, with the bridges above it where they are not there yet.

        Args:
            address: Its address.
            bridges: From the root port down; empty for a GPU on the root bus.
            vendor: Vendor id.
            device: Device id.
            class_code: 0x030000 VGA, 0x030200 3D, 0x040300 for the sound function beside it.
            driver: Kernel driver bound to it, or None.
            name: What /proc/driver/nvidia says.
            speed_gts: Best speed of the card.
            width: Lanes.
            port_speed_gts: Best speed of the port above; the slower of the two is in use.
            hotplug: The port above has a hot-plug slot.

        Returns:
            Its folder below `sys/devices`.
        """
        own = PciAddress.parse(str(address))
        path = [PciAddress.parse(str(bridge)) for bridge in bridges]
        folder = self.root / f"sys/devices/pci{(path[0] if path else own).domain:04x}:00"
        now_gts = min(speed_gts, port_speed_gts) if path else speed_gts
        for depth, bridge in enumerate(path):
            folder = folder / str(bridge)
            if bridge in self._functions:
                continue
            kind = 4 if depth == 0 else 5 if depth % 2 else 6
            config = ConfigSpace(
                vendor=0x8086 if depth == 0 else 0x11F8,
                device=0x460D if depth == 0 else 0x4000,
                class_code=0x060400,
                buses=bridge_buses(bridge, path[depth + 1] if depth + 1 < len(path) else own),
                port_type=kind,
                hotplug=hotplug and depth == len(path) - 1,
            )
            self._add(bridge, folder, config, (now_gts, width, port_speed_gts, width), depth == 0)
            self.bind(bridge, "pcieport")
        config = ConfigSpace(vendor=vendor, device=device, class_code=class_code)
        self._add(own, folder / str(own), config, (now_gts, width, speed_gts, width), False)
        self.bind(own, driver)
        if driver == "nvidia" and self._driver is not None:
            self._nvidia_entry(own, name)
        return self.folder(own)

    def slot(self, name: str, address: Address, *, power: int = 1, adapter: int | None = 1) -> Path:
        """Put in a slot, `address` being a function in it; `adapter` None for no such file."""
        slot = PciAddress.parse(str(address))
        where = f"sys/bus/pci/slots/{name}"
        self.write(f"{where}/address", f"{slot.domain:04x}:{slot.bus:02x}:{slot.device:02x}\n")
        self.write(f"{where}/power", f"{power}\n")
        if adapter is not None:
            self.write(f"{where}/adapter", f"{adapter}\n")
        return self.root / where

    def hwmon(self, name: str, *, device: Address | None = None, **files: float) -> Path:
        """Put in a sensor chip: `hwmon("nct6798", in1_input=12096, temp1_input=41000)`."""
        number, self._hwmons = self._hwmons, self._hwmons + 1
        above = self.folder(device) if device else self.root / f"sys/devices/platform/{name}"
        folder = above / "hwmon" / f"hwmon{number}"
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n")
        for file, value in files.items():
            (folder / file).write_text(f"{value:g}\n" if isinstance(value, float) else f"{value}\n")
        if device:
            self._link(folder / "device", above)
        self._link(self.root / f"sys/class/hwmon/hwmon{number}", folder)
        return folder

    def bind(self, address: Address, driver: str | None) -> None:
        """Bind a function to a driver, or to none."""
        link = self.folder(address) / "driver"
        if link.is_symlink():
            (link.resolve() / str(PciAddress.parse(str(address)))).unlink(missing_ok=True)
            link.unlink()
        if driver is not None:
            home = self.root / "sys/bus/pci/drivers" / driver
            home.mkdir(exist_ok=True)
            self._link(link, home)
            self._link(home / str(PciAddress.parse(str(address))), self.folder(address))

    # --- what happens ------------------------------------------------------------------------

    def lose(self, address: Address) -> None:
        """Let it read all ones; what the kernel remembers (ids, class, driver) stays.

        The port above shows a link of no width, as after a cut power supply.
        """
        function = self._function(address)
        self._answer_all_ones(function)
        port = self._above(address)
        if port is not None:
            port.width = 0
            self._write_link(port)
            (port.folder / "current_link_speed").write_text("Unknown\n")

    def recover(self, address: Address) -> None:
        """Let it answer as before, awake."""
        function = self._function(address)
        port = self._above(address)
        if port is not None and port.width == 0:
            port.width = function.width
            self._write_link(port)
        self._write_link(function)
        (function.folder / "power_state").write_text("D0\n")
        (function.folder / "power/runtime_status").write_text("active\n")

    def remove(self, address: Address) -> None:
        """Take its folder and every link to it away, as hot-plug or a write to `remove` does."""
        own = PciAddress.parse(str(address))
        folder = self.folder(own)
        for gone in [
            one for one in self._functions if folder in (self.folder(one), *self._up(one))
        ]:
            self.bind(gone, None)
            (self.root / f"sys/bus/pci/devices/{gone}").unlink()
            shutil.rmtree(self.root / f"proc/driver/nvidia/gpus/{gone}", ignore_errors=True)
            for link in (self.root / "sys/class/hwmon").iterdir():
                if self.folder(gone) in (self.root / link.resolve()).parents:
                    link.unlink()
        for place, _, names in os.walk(folder):  # what was open of them reads nothing from now on
            for name in names:
                Path(place, name).write_bytes(b"")
        shutil.rmtree(folder)
        self._functions = {one: it for one, it in self._functions.items() if it.folder.exists()}

    def suspend(self, address: Address, power_state: str = "D3cold") -> None:
        """Put it to sleep (runtime power management): it reads all ones and is not lost."""
        function = self._function(address)
        self._answer_all_ones(function)
        (function.folder / "power_state").write_text(f"{power_state}\n")
        (function.folder / "power/runtime_status").write_text("suspended\n")

    def set_link(
        self,
        address: Address,
        *,
        speed_gts: float | None = None,
        width: int | None = None,
        max_speed_gts: float | None = None,
        max_width: int | None = None,
    ) -> None:
        """Change a link as a function sees it; the port above sees the same speed and width."""
        function = self._function(address)
        port = self._above(address)
        function.speed_gts = speed_gts or function.speed_gts
        function.width = function.width if width is None else width
        function.max_speed_gts = max_speed_gts or function.max_speed_gts
        function.max_width = max_width or function.max_width
        if port is not None:
            port.speed_gts, port.width = function.speed_gts, function.width
            self._write_link(port)
        self._write_link(function)

    def count(self, address: Address, severity: str = "correctable", **errors: int) -> None:
        """Raise AER counters: `count(port, "correctable", BadTLP=3)`; the root port's totals too.

        Args:
            address: The function that counts.
            severity: `correctable`, `nonfatal` or `fatal`.
            errors: How many of each name.
        """
        function = self._function(address)
        for name, more in errors.items():
            function.aer[severity][name] += more
        self._write_aer(function)
        top = self._function((*self._above_all(address), PciAddress.parse(str(address)))[0])
        if top.root_totals is not None:
            top.root_totals[severity] += sum(errors.values())
            self._write_aer(top)

    def without_aer(self, address: Address) -> None:
        """Take the AER files away, as where the capability is missing."""
        for file in self.folder(address).glob("aer_*"):
            file.unlink()

    def restrict_config(self, address: Address, size: int = UNPRIVILEGED_SIZE) -> None:
        """Give only the first bytes of `config`, as the kernel does to other users than root."""
        function = self._function(address)
        function.config_size = size
        self._write_link(function)

    def write(self, path: str, content: str) -> Path:
        """Write any file below the root, such as `proc/meminfo`."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file

    # --- where things are --------------------------------------------------------------------

    @property
    def cgroup(self) -> Path:
        """The folder of the cgroup that `proc/self/cgroup` names."""
        return self.root / CGROUP

    def folder(self, address: Address) -> Path:
        """A function's folder below `sys/devices`.

        Raises:
            KeyError: There is no such function.
        """
        return self._function(address).folder

    def _function(self, address: Address) -> _Function:
        return self._functions[PciAddress.parse(str(address))]

    def _up(self, address: Address) -> list[Path]:
        return list(self.folder(address).parents)

    def _above_all(self, address: Address) -> list[PciAddress]:
        """The bridges above, from the root port down."""
        names = [PciAddress.try_parse(folder.name) for folder in reversed(self._up(address))]
        return [one for one in names if one is not None and one in self._functions]

    def _above(self, address: Address) -> _Function | None:
        bridges = self._above_all(address)
        return self._function(bridges[-1]) if bridges else None

    # --- files -------------------------------------------------------------------------------

    def _add(
        self,
        address: PciAddress,
        folder: Path,
        config: ConfigSpace,
        link: tuple[float, int, float, int],
        is_root_port: bool,
    ) -> None:
        (folder / "power").mkdir(parents=True)
        function = _Function(folder, config, SIZE, *link)
        function.aer = {
            "correctable": dict.fromkeys(CORRECTABLE, 0),
            "nonfatal": dict.fromkeys(UNCORRECTABLE, 0),
            "fatal": dict.fromkeys(UNCORRECTABLE, 0),
        }
        function.root_totals = dict.fromkeys(TOTALS, 0) if is_root_port else None
        self._functions[address] = function
        for name, content in remembered(config).items():
            (folder / name).write_text(f"{content}\n")
        self._write_link(function)
        self._write_aer(function)
        self._link(folder / "subsystem", self.root / "sys/bus/pci")
        self._link(self.root / f"sys/bus/pci/devices/{address}", folder)

    def _write_link(self, function: _Function) -> None:
        folder = function.folder
        (folder / "current_link_speed").write_text(f"{function.speed_gts} GT/s PCIe\n")
        (folder / "current_link_width").write_text(f"{function.width}\n")
        (folder / "max_link_speed").write_text(f"{function.max_speed_gts} GT/s PCIe\n")
        (folder / "max_link_width").write_text(f"{function.max_width}\n")
        function.config.set_link(
            function.speed_gts, function.width, function.max_speed_gts, function.max_width
        )
        (folder / "config").write_bytes(function.config.data[: function.config_size])

    def _answer_all_ones(self, function: _Function) -> None:
        (function.folder / "current_link_speed").write_text("Unknown\n")
        (function.folder / "current_link_width").write_text("63\n")
        (function.folder / "config").write_bytes(b"\xff" * function.config_size)

    def _write_aer(self, function: _Function) -> None:
        for severity, counters in function.aer.items():
            (function.folder / f"aer_dev_{severity}").write_text(aer_text(severity, counters))
        for severity, value in (function.root_totals or {}).items():
            name = f"aer_rootport_total_err_{TOTALS[severity].lower()}"
            (function.folder / name).write_text(f"{value}\n")

    def _nvidia_entry(self, address: PciAddress, name: str) -> None:
        minor, self._gpus = self._gpus, self._gpus + 1
        self.write(
            f"proc/driver/nvidia/gpus/{address}/information",
            NVIDIA_INFORMATION.format(
                name=name,
                irq=100 + minor,
                uuid=f"GPU-{address.bus:08x}-0000-4000-8000-{minor:012x}",
                address=address,
                minor=minor,
                driver=self._driver,
            ),
        )

    @staticmethod
    def _link(link: Path, target: Path) -> None:
        """A relative link, so that the tree can be moved and stays below its root."""
        link.symlink_to(os.path.relpath(target, link.parent))
