import pytest

from gpuprobe.testing import FakeSysfs, FilesOpened
from gpuprobe.testing.config_space import AER_CAPABILITY, EXPRESS_CAPABILITY

GPU = "0000:04:00.0"
BRIDGES = ["0000:00:01.1", "0000:02:00.0", "0000:03:00.0"]


@pytest.fixture
def machine(tmp_path):
    made = FakeSysfs(tmp_path)
    made.gpu(GPU, bridges=BRIDGES)
    return made


def device(machine, address=GPU):
    return machine.root / "sys/bus/pci/devices" / address


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def read(machine, name, address=GPU):
    return (device(machine, address) / name).read_text().strip()


def config(machine, address=GPU):
    return (device(machine, address) / "config").read_bytes()


def test_links_as_in_the_real_tree(machine):
    """The device is a relative link below its bridges, and its parent folder is the port above."""
    link = device(machine)
    assert str(link.readlink()) == (
        "../../../devices/pci0000:00/0000:00:01.1/0000:02:00.0/0000:03:00.0/0000:04:00.0"
    )
    assert (link / "..").resolve().name == "0000:03:00.0"
    assert (link / "driver").resolve().name == "nvidia"
    assert (link / "subsystem").resolve() == machine.root / "sys/bus/pci"
    assert names(link.parent) == sorted([*BRIDGES, GPU])
    assert (machine.root / f"sys/bus/pci/drivers/nvidia/{GPU}").resolve() == link.resolve()


def test_two_gpus_share_a_bridge(machine):
    """A second GPU below the same root port leaves what is there as it is."""
    machine.count(BRIDGES[0], BadTLP=1)
    machine.gpu("0000:06:00.0", bridges=[BRIDGES[0], BRIDGES[1], "0000:05:00.0"])
    assert "BadTLP 1" in read(machine, "aer_dev_correctable", BRIDGES[0])
    assert device(machine, "0000:06:00.0").resolve().parent.parent.name == BRIDGES[1]


def test_values_of_a_healthy_gpu(machine):
    """Ids, link and power files say what the kernel writes for a card at work."""
    assert read(machine, "vendor") == "0x10de"
    assert read(machine, "class") == "0x030000"
    assert read(machine, "current_link_speed") == "16.0 GT/s PCIe"
    assert read(machine, "current_link_width") == "16"
    assert read(machine, "power/runtime_status") == "active"
    assert read(machine, "power_state") == "D0"
    assert config(machine)[:4] == bytes.fromhex("de10 8426")
    assert len(config(machine)) == 4096


def test_config_space_of_a_port(machine):
    """A bridge has a type 1 header, and its link status says that the data link is active."""
    data = config(machine, BRIDGES[2])
    assert data[0x0E] & 0x7F == 1
    assert data[0x19] == 4
    status = int.from_bytes(data[EXPRESS_CAPABILITY + 0x12 :][:2], "little")
    assert status & 0xF == 4
    assert status >> 4 & 0x3F == 16
    assert status >> 13 & 1 == 1
    assert data[AER_CAPABILITY] == 1


def test_lose(machine):
    """A lost GPU reads all ones and width 63, what the kernel remembers stays, the port is down."""
    machine.lose(GPU)
    assert set(config(machine)) == {0xFF}
    assert read(machine, "current_link_speed") == "Unknown"
    assert read(machine, "current_link_width") == "63"
    assert read(machine, "vendor") == "0x10de"
    assert (device(machine) / "driver").resolve().name == "nvidia"
    assert read(machine, "current_link_width", BRIDGES[2]) == "0"
    status = int.from_bytes(config(machine, BRIDGES[2])[EXPRESS_CAPABILITY + 0x12 :][:2], "little")
    assert status >> 13 & 1 == 0
    machine.recover(GPU)
    assert read(machine, "current_link_width") == "16"
    assert read(machine, "current_link_width", BRIDGES[2]) == "16"
    assert config(machine)[:2] == bytes.fromhex("de10")


def test_remove(machine):
    """A removed GPU leaves no folder, link or driver entry; the bridges stay."""
    machine.hwmon("nvidia_card", device=GPU, temp1_input=40000)
    machine.remove(GPU)
    assert names(device(machine).parent) == BRIDGES
    assert not names(machine.root / "sys/bus/pci/drivers/nvidia")
    assert not names(machine.root / "proc/driver/nvidia/gpus")
    assert not names(machine.root / "sys/class/hwmon")
    with pytest.raises(KeyError):
        machine.folder(GPU)


def test_remove_of_a_bridge_takes_what_is_below(machine):
    """Removing a port removes the GPU below it as well."""
    machine.remove(BRIDGES[1])
    assert names(device(machine).parent) == [BRIDGES[0]]


def test_suspend(machine):
    """A sleeping GPU reads all ones as a lost one does, and the kernel's notes say why."""
    machine.suspend(GPU)
    assert read(machine, "power/runtime_status") == "suspended"
    assert read(machine, "power_state") == "D3cold"
    assert config(machine)[:4] == b"\xff" * 4
    assert read(machine, "current_link_width", BRIDGES[2]) == "16"
    machine.recover(GPU)
    assert read(machine, "power/runtime_status") == "active"


def test_set_link_changes_both_ends(machine):
    """Both ends of a link agree on speed and width, and config space says the same."""
    machine.set_link(GPU, speed_gts=2.5, width=8)
    for address in (GPU, BRIDGES[2]):
        assert read(machine, "current_link_speed", address) == "2.5 GT/s PCIe"
        assert read(machine, "current_link_width", address) == "8"
        assert read(machine, "max_link_width", address) == "16"
    status = int.from_bytes(config(machine)[EXPRESS_CAPABILITY + 0x12 :][:2], "little")
    assert status & 0x3FF == 8 << 4 | 1


def test_count(machine):
    """Counters rise by name, with the total, and the root port's own totals rise too."""
    machine.count(GPU, "correctable", BadTLP=3, RxErr=1)
    machine.count(BRIDGES[2], "fatal", SDES=1)
    lines = read(machine, "aer_dev_correctable").splitlines()
    assert "BadTLP 3" in lines
    assert lines[-1] == "TOTAL_ERR_COR 4"
    assert read(machine, "aer_dev_fatal", BRIDGES[2]).endswith("TOTAL_ERR_FATAL 1")
    assert read(machine, "aer_rootport_total_err_cor", BRIDGES[0]) == "4"
    assert read(machine, "aer_rootport_total_err_fatal", BRIDGES[0]) == "1"
    assert not (device(machine) / "aer_rootport_total_err_cor").exists()


def test_what_may_be_missing(machine):
    """AER files, the rest of config space, a driver: each can be taken away."""
    machine.without_aer(GPU)
    assert not list(device(machine).glob("aer_*"))
    machine.restrict_config(GPU)
    assert len(config(machine)) == 64
    machine.lose(GPU)
    assert config(machine) == b"\xff" * 64
    machine.bind(GPU, None)
    assert not (device(machine) / "driver").exists()
    machine.bind(GPU, "vfio-pci")
    assert (device(machine) / "driver").resolve().name == "vfio-pci"


def test_without_driver(tmp_path):
    """A machine without the NVIDIA driver has no /proc/driver/nvidia."""
    machine = FakeSysfs(tmp_path, driver=None)
    machine.gpu(GPU, driver=None)
    assert not (machine.root / "proc/driver").exists()
    assert not (device(machine) / "driver").is_symlink()


def test_host_files(machine):
    """Memory, pressure, cgroup, slots and sensors are where the kernel has them."""
    assert "MemAvailable:" in (machine.root / "proc/meminfo").read_text()
    assert (machine.cgroup / "memory.events").read_text().startswith("low 0")
    machine.slot("4", GPU, power=0, adapter=0)
    assert (machine.root / "sys/bus/pci/slots/4/address").read_text() == "0000:04:00\n"
    chip = machine.hwmon("nct6798", in1_input=12096)
    assert (machine.root / "sys/class/hwmon/hwmon0").resolve() == chip.resolve()
    information = (machine.root / f"proc/driver/nvidia/gpus/{GPU}/information").read_text()
    assert f"Bus Location: \t {GPU}" in information


def test_files_opened(machine):
    """The watcher names what was opened, through either path, and nothing else."""
    with FilesOpened(machine.folder(GPU)) as opened:
        assert opened.names() == set()
        read(machine, "vendor")
        assert opened.names() == {"vendor"}
        config(machine)
        names(device(machine))
    assert opened.names() == {"vendor", "config"}
    read(machine, "class")
    assert opened.names() == {"vendor", "config"}
