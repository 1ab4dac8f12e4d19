"""The power goes while the guest records: what is on its disk afterwards."""

import random
import shutil
import subprocess
from pathlib import Path

import disk_log
import pytest
import virtual_machine as vm

from gpuprobe import load

pytestmark = pytest.mark.vm

GUEST = Path(__file__).with_name("guest_recorder.py")
SEED = 20260305
CUTS = 10
SAMPLES_A_SECOND = 10


def disk(folder):
    for program in ("mkfs.ext4", "e2fsck", "debugfs"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} (Debian: e2fsprogs)")
    image = folder / "disk"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    made = ["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image)]
    subprocess.run(made, check=True)
    return image


def recorded_until_cut(folder, image, log, after_s):
    """Numbers that the guest said: of samples, and of events that were on the disk."""
    machine = vm.Machine(folder, GUEST, disk=image, log=log)
    said = []
    try:
        assert machine.read(vm.BOOT_S) == {"ready": True}
        machine.tell(do="begin")
        while len(said) < after_s * SAMPLES_A_SECOND:
            said.append(machine.read())
        said += machine.cut_power()
    finally:
        machine.close()
    samples = [message["sample"] for message in said if "sample" in message]
    return samples, [message["shown"] for message in said if "shown" in message]


def found_on(image, folder):
    """Numbers of the samples and events of the recording, after the file system's own repair."""
    folder.mkdir()
    # As the next boot does it: the journal of the file system is played back.
    repaired = subprocess.run(["e2fsck", "-fy", str(image)], capture_output=True, check=False)
    assert repaired.returncode in (0, 1), repaired.stdout
    subprocess.run(
        ["debugfs", "-R", f"rdump / {folder}", str(image)], capture_output=True, check=True
    )
    with load(folder / "a.gpuprobe") as recording:
        assert recording.ended is None
        assert any("power cut" in note for note in recording.notes), recording.notes
        samples = [int(value) for value in recording.samples()["power_w"]]
        events = [int(text.split()[1]) for text in recording.events()["text"]]
    assert samples == list(range(len(samples)))
    return samples, events


@pytest.mark.parametrize("number", range(CUTS))
def test_a_power_cut_costs_a_second_of_samples_and_no_event(tmp_path, number):
    """Whether the disk keeps or loses what it was not told to flush, the recording opens."""
    if (why := vm.why_unavailable()) is not None:
        pytest.skip(why)
    chance = random.Random(SEED + number)
    image, log = disk(tmp_path), tmp_path / "log"
    log.touch()
    before = tmp_path / "before"
    shutil.copy(image, before)

    said, shown = recorded_until_cut(tmp_path, image, log, chance.uniform(3, 8))
    kept, lost = disk_log.as_left_by_a_power_cut(before, log, tmp_path / "flushed")
    assert kept > 0

    for name in ("disk", "flushed"):
        samples, events = found_on(tmp_path / name, tmp_path / f"of-{name}")
        missing = (len(said) - len(samples)) / SAMPLES_A_SECOND
        print(  # noqa: T201
            f"cut {number}, {name}: {len(said)} samples taken, {missing:.1f} s lost; "
            f"{len(shown)} events shown, {len(events)} there; {lost} of {kept + lost} writes lost"
        )
        assert set(shown) <= set(events)
        # A second, and under emulation the time that the disk takes.
        assert missing < 2.5
