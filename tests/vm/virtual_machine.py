"""A virtual machine with a real Linux kernel, whose PCI slot can be cut off, for the tests here.

Needs `qemu-system-x86_64`, a static `busybox`, and Debian's kernel package unpacked, not
installed: `$GPUPROBE_VM_KERNEL` names the folder (with `boot/` and `lib/modules/` in it), else the
package is downloaded once with `apt-get download` into `~/.cache/gpuprobe-vm`. The guest sees this
machine's root folder read-only, so the virtual environment of the tests runs inside.

Two things about the machine are not free to choose. Without
`acpi-pci-hotplug-with-bridge-support=off` QEMU hides the slot's power from the guest and the
device is dead from the start. And QEMU injects no correctable errors into a bus that a guest would
notice, so those come from the kernel's own aer_inject module.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PORT = "0000:00:04.0"
DEVICE = "0000:01:00.0"
BOOT_S = 240.0

_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "e1000e", "aer_inject")
_DISK_MODULES = ("virtio_blk", "crc32c_generic", "ext4")

_MANAGER_MODULES = ("overlay", "autofs4")

_INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do insmod /modules/$module.ko; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose host /mnt || poweroff -f
mount -t proc proc /mnt/proc
mount -t sysfs sysfs /mnt/sys
mount -t devtmpfs dev /mnt/dev
mount -t tmpfs tmpfs /mnt/run
mkdir /mnt/run/tmp
if [ -b /mnt/dev/vda ]; then
    mkdir /mnt/run/disk
    mount -t ext4 /mnt/dev/vda /mnt/run/disk || poweroff -f
fi
cd /mnt
stty -F /mnt/dev/ttyS1 raw -echo
export PATH=/usr/bin:/bin HOME=/run/tmp TMPDIR=/run/tmp LC_ALL=C.UTF-8
chroot /mnt {python} -B {guest} </mnt/dev/ttyS1 >/mnt/dev/ttyS1 2>/mnt/dev/console
sync
poweroff -f
"""


# systemd takes /.dockerenv for a container, where it reads no kernel command line, and journald no
# kernel log. A write to the overlay stays in the guest's memory.
_MANAGER_INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do insmod /modules/$module.ko; done
mkdir /host /writes
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose host /host || poweroff -f
mount -t tmpfs tmpfs /writes
mkdir /writes/upper /writes/work
mount -t overlay -o lowerdir=/host,upperdir=/writes/upper,workdir=/writes/work overlay /mnt \\
    || poweroff -f
stty -F /dev/ttyS1 raw -echo
rm -f /mnt/.dockerenv
units=/mnt/etc/systemd/system
rm -rf $units/*.wants
cat >$units/guest.service <<end
[Unit]
DefaultDependencies=no
[Service]
Environment=PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
ExecStart={python} -B {guest}
StandardInput=file:/dev/ttyS1
StandardOutput=file:/dev/ttyS1
end
cat >$units/guest.target <<end
[Unit]
Wants=sysinit.target guest.service
DefaultDependencies=no
end
umount /proc /sys
exec switch_root /mnt /lib/systemd/systemd
"""

_MASKED = (
    "systemd-tmpfiles-setup.service",  # it empties /tmp, which may be large
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
    "systemd-hwdb-update.service",
    "systemd-binfmt.service",
    "proc-sys-fs-binfmt_misc.automount",
    "systemd-remount-fs.service",
    "systemd-timesyncd.service",
)


def why_unavailable() -> str | None:
    """Why no machine can be started here, or None where one can."""
    for program in ("qemu-system-x86_64", "busybox", "cpio"):
        if shutil.which(program) is None:
            return f"no {program} (Debian: qemu-system-x86, busybox-static, cpio)"
    try:
        kernel_folder()
    except (OSError, subprocess.CalledProcessError, LookupError) as error:
        return f"no kernel image: {error}"
    return None


def kernel_folder() -> Path:
    """The folder of an unpacked kernel package.

    Raises:
        LookupError: There is none, and it cannot be downloaded.
    """
    if named := os.environ.get("GPUPROBE_VM_KERNEL"):
        return Path(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuprobe-vm"
    if not list(cache.glob("boot/vmlinuz-*")):
        if shutil.which("apt-get") is None:
            raise LookupError("set GPUPROBE_VM_KERNEL to an unpacked kernel package")
        cache.mkdir(parents=True, exist_ok=True)
        meta = subprocess.run(
            ["apt-cache", "depends", "linux-image-amd64"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        package = re.search(r"Depends: (linux-image-\S+)", meta)
        if package is None:
            raise LookupError("apt-cache knows no linux-image-amd64")
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            subprocess.run(
                ["apt-get", "download", package[1]], cwd=folder, check=True, capture_output=True
            )
            archive = next(Path(folder).glob("*.deb"))
            subprocess.run(["dpkg", "-x", archive, f"{folder}/unpacked"], check=True)
            for name in ("lib", "boot"):  # last what is looked for, so that it is never half there
                shutil.move(f"{folder}/unpacked/{name}", cache / name)
    return cache


def modules_in_order(folder: Path, wanted: tuple[str, ...] = _MODULES) -> dict[str, bytes]:
    """The modules to load and what they depend on, by name, in an order that works.

    A package that is not installed has no modules.dep, so each file's own note is read. Newer
    packages have them compressed, which busybox cannot load.
    """
    files = {
        path.name.split(".")[0].replace("-", "_"): path
        for path in folder.glob("lib/modules/*/kernel/**/*.ko*")
    }
    ordered: dict[str, bytes] = {}

    def add(name: str) -> None:
        path = files.get(name.replace("-", "_"))
        if path is None or name in ordered:
            return  # built in, or there already
        content = path.read_bytes()
        if path.suffix == ".xz":
            content = lzma.decompress(content)
        note = re.search(rb"\0depends=([^\0]*)\0", content)
        for needed in (note[1].decode() if note else "").split(","):
            add(needed)
        ordered[name] = content

    for name in wanted:
        add(name)
    return ordered


def build_initramfs(
    folder: Path, guest: Path, *, disk: bool = False, manager: bool = False
) -> Path:
    """An initramfs with busybox, the modules and an init that runs `guest` in Python."""
    tree = folder / "initramfs"
    for name in ("bin", "proc", "sys", "dev", "mnt", "modules"):
        (tree / name).mkdir(parents=True)
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, tree / "bin/busybox")
    wanted = (*_MODULES, *(_DISK_MODULES if disk else ()), *(_MANAGER_MODULES if manager else ()))
    modules = modules_in_order(kernel_folder(), wanted)
    for name, content in modules.items():
        (tree / f"modules/{name}.ko").write_bytes(content)
    (tree / "modules/order").write_text(" ".join(modules))
    init = tree / "init"
    text = _MANAGER_INIT if manager else _INIT
    init.write_text(text.format(python=sys.executable, guest=guest))
    init.chmod(init.stat().st_mode | stat.S_IXUSR)
    names = "\n".join(str(path.relative_to(tree)) for path in tree.rglob("*"))
    packed = subprocess.run(
        ["cpio", "-o", "-H", "newc", "--quiet"],
        input=names.encode(),
        cwd=tree,
        capture_output=True,
        check=True,
    ).stdout
    image = folder / "initramfs.gz"
    image.write_bytes(gzip.compress(packed, 1))
    return image


def _drive(disk: Path | None, log: Path | None) -> tuple[str, ...]:
    """QEMU's options for a disk."""
    if disk is None:
        return ()
    node = f"driver=raw,node-name=disk,file.driver=file,file.filename={disk}"
    options = ["-blockdev", node]
    if log is not None:
        options += ["-blockdev", f"driver=file,node-name=logfile,filename={log}"]
        options += ["-blockdev", "driver=blklogwrites,node-name=top,file=disk,log=logfile"]
    top = "disk" if log is None else "top"
    return (*options, "-device", f"virtio-blk-pci,drive={top}")


class Machine:
    """A running machine. `tell` and `read` talk with the guest program, `monitor` with QEMU.

    Args:
        folder: An existing folder for its sockets and its console's log.
        guest: The Python program that runs inside.
        disk: An image with ext4 on it, which the guest finds as /run/disk.
        log: Where every write to the disk and every flush is logged; see `disk_log`.
        manager: With this machine's systemd as its first process, which runs `guest`.
    """

    def __init__(
        self,
        folder: Path,
        guest: Path,
        *,
        disk: Path | None = None,
        log: Path | None = None,
        manager: bool = False,
    ) -> None:
        self.console = folder / "console.log"
        # A socket's path may have 107 bytes, and pytest's folders are long.
        self._sockets = tempfile.TemporaryDirectory(prefix="gpuprobe-vm-")
        place = Path(self._sockets.name)
        image = build_initramfs(folder, guest, disk=disk is not None, manager=manager)
        options = "console=ttyS0 pcie_ports=native loglevel=5 panic=-1"
        if manager:
            options += " systemd.unit=guest.target"
            options += "".join(f" systemd.mask={unit}" for unit in _MASKED)
        kernel = next(kernel_folder().glob("boot/vmlinuz-*"))
        self.process = subprocess.Popen(
            [
                *("qemu-system-x86_64", "-accel", "tcg", "-cpu", "max"),
                *("-M", "q35", "-m", "1024", "-smp", "2", "-display", "none", "-nodefaults"),
                *("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off", "-no-reboot"),
                *("-kernel", str(kernel), "-initrd", str(image)),
                *("-append", options),
                *("-serial", f"file:{self.console}"),
                *("-chardev", f"socket,id=guest,path={place}/guest,server=on,wait=off"),
                *("-serial", "chardev:guest"),
                *("-qmp", f"unix:{place}/qmp,server=on,wait=off"),
                *("-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"),
                *("-device", "virtio-9p-pci,fsdev=root,mount_tag=host"),
                *("-device", "pcie-root-port,id=rp1,slot=4,chassis=1,bus=pcie.0,addr=4"),
                *("-device", "e1000e,id=net0,bus=rp1"),
                *_drive(disk, log),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "qemu.log").open("wb"),
        )
        self._guest = self._connect(place / "guest")
        self._guest_lines = self._guest.makefile("rb")
        self._qmp = self._connect(place / "qmp")
        self._qmp_lines = self._qmp.makefile("rb")
        self._qmp_lines.readline()  # its greeting
        self._execute("qmp_capabilities")

    def _connect(self, path: Path) -> socket.socket:
        until = time.monotonic() + 20
        while True:
            found = socket.socket(socket.AF_UNIX)
            try:
                found.connect(str(path))
            except OSError:
                found.close()
                if time.monotonic() > until or self.process.poll() is not None:
                    raise
                time.sleep(0.05)
            else:
                return found

    def _execute(self, command: str, **arguments: object) -> object:
        message = {"execute": command, "arguments": arguments}
        self._qmp.settimeout(30)
        self._qmp.sendall(json.dumps(message).encode() + b"\n")
        while True:
            answer = json.loads(self._qmp_lines.readline())
            if "error" in answer:
                raise RuntimeError(answer["error"]["desc"])
            if "return" in answer:
                return answer["return"]

    def monitor(self, command: str) -> str:
        """What QEMU's monitor answers: `device_del net0`."""
        return str(self._execute("human-monitor-command", **{"command-line": command}))

    def tell(self, **message: object) -> None:
        """Send one message to the guest program."""
        self._guest.sendall(json.dumps(message).encode() + b"\n")

    def read(self, timeout_s: float = 60.0) -> dict[str, object]:
        """The guest program's next message.

        Raises:
            TimeoutError: None came; the end of the console's log is in its text.
        """
        self._guest.settimeout(timeout_s)
        try:
            line = self._guest_lines.readline()
            while line and not line.startswith(b"{"):
                line = self._guest_lines.readline()
        except TimeoutError:
            line = b""
        if not line:
            log = self.console.read_text(errors="replace") if self.console.exists() else ""
            raise TimeoutError(f"the guest said nothing; its console ends:\n{log[-3000:]}")
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    def cut_power(self) -> list[dict[str, object]]:
        """Kill the machine; gives what its guest program had said and nobody had read."""
        self.process.kill()
        self.process.wait(10)
        lines = [line for line in self._guest_lines if line.endswith(b"}\n")]
        return [json.loads(line) for line in lines if line.startswith(b"{")]

    def close(self) -> None:
        """End the machine."""
        self.process.kill()
        self.process.wait(10)
        for one in (self._guest_lines, self._guest, self._qmp_lines, self._qmp):
            one.close()
        self._sockets.cleanup()
