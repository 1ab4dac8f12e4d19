"""Next steps fit the machine, name GPUs by address, and never suggest what does harm."""

from __future__ import annotations

import re

import pytest

from gpuprobe.catalog.advice import (
    LIMIT,
    folklore,
    folklore_entries,
    steps,
    steps_for,
    tag_meanings,
)
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress

GPU = PciAddress.parse("0000:65:00.0")
LOST = Kind.DEVICE_LEFT_BUS

LAPTOP = frozenset({"laptop", "under-load"})
RISER = frozenset({"riser", "corrected-errors", "under-load"})
SERVER = frozenset({"data-centre", "ecc", "under-load"})


def _commands(kind, *tags, **values):
    found = steps_for(kind, frozenset(tags), pci=GPU, values=values)
    return [step.command for step in found if step.command]


def _texts(kind, tags=frozenset(), **kwargs):
    return [step.text for step in steps_for(kind, frozenset(tags), pci=GPU, **kwargs)]


# --- The data --------------------------------------------------------------------------------


def test_each_step_is_whole():
    """A step has words, a cost, a condition and a source; what changes something can be undone."""
    for step in steps():
        assert step.text.endswith((".", "lead.")), step.id
        assert len(step.text.split()) <= 40, step.id
        assert step.cost, step.id
        assert step.when, step.id
        assert step.source, step.id
        if step.type == "read":
            assert not step.undo, step.id
            assert not step.undo_otherwise, step.id


def test_gpus_are_named_by_address():
    """A command that names a GPU names it by {pci}, never by an index."""
    for step in steps():
        for command in (*step.commands, *step.undo):
            if re.search(r"\bnvidia-smi\b.* -i\b", command):
                assert re.search(r" -i \{pci\}", command), step.id
            assert not re.search(r" -i \d|CUDA_VISIBLE_DEVICES=\d", command), step.id
            if re.search(r"-(?:pl|lgc|rgc|lmc|rmc|pm|r)\b", command) and "nvidia-smi" in command:
                assert "{pci}" in command, step.id


def test_reads_only_read():
    """No command of class read changes the system."""
    for step in steps():
        for command in step.commands if step.type == "read" else ():
            assert not re.search(
                r"nvidia-smi(?! nvlink)[^|;]* -(?:pl|lgc|rgc|lmc|rmc|pm|r|e|c|mig)\b|setpci [^ ]*=|modprobe -?r?"
                r"|rmmod|\btee\b|systemctl (?:enable|restart)|\brm\b|\bmv\b|dmesg -[cC]",
                command.replace("modinfo", ""),
            ), (step.id, command)


def test_no_step_is_folklore():
    """What is never suggested is not suggested, but for a reset of a GPU that still answers."""
    for step in steps():
        for command in step.commands:
            for entry in folklore_entries():
                if entry.pattern.search(command):
                    assert entry.id == "reset-lost", step.id
                    assert LOST not in step.kinds, step.id
                    assert "never on a GPU that left the bus" in step.when, step.id


def test_every_kind_has_steps():
    """No verdict kind is left without a next step."""
    for kind in Kind:
        assert steps_for(kind, pci=GPU), kind


def test_tags_are_documented_and_used():
    """Every tag has a meaning, and some step looks at it."""
    used = set()
    for step in steps():
        used |= step.applies | step.requires | step.not_when | set(step.sooner)
    assert used - set(Kind) <= set(tag_meanings())
    assert set(tag_meanings()) <= used


# --- Choice ----------------------------------------------------------------------------------


def test_evidence_is_saved_first():
    """After a loss the log and the link state come before anything that changes the machine."""
    found = steps_for(LOST, frozenset({"under-load"}), pci=GPU)
    assert [step.type for step in found[:2]] == ["read", "read"]
    assert "journalctl -k -b " in found[0].command
    assert "lspci -vvv -s 0000:65:00.0" in found[1].command
    assert found[2].type == "hands"
    assert len(found) <= LIMIT


def test_laptop_riser_and_server_differ():
    """The same loss gives other steps on a laptop, on a riser and in a server."""
    laptop, riser, server = _texts(LOST, LAPTOP), _texts(LOST, RISER), _texts(LOST, SERVER)
    assert set(laptop) != set(riser) != set(server)
    assert any("riser" in text for text in riser)
    assert not any("riser" in text for text in (*laptop, *server))
    assert any("charger" in text for text in laptop)
    assert any("BMC" in text for text in server)
    assert not any("BMC" in text for text in (*laptop, *riser))


def test_laptops_get_no_caps_and_no_cables():
    """A laptop has no power limit, no clock cap and no plugs to check."""
    for tags in (LAPTOP, frozenset({"laptop", "idle"}), frozenset({"laptop", "heat"})):
        for step in steps_for(
            LOST,
            tags,
            pci=GPU,
            values={"power_limit_default": "115", "power_limit_min": "60"},
        ):
            assert not re.search(r"-lgc|-pl\b", step.command or "")
            assert "12V-2x6" not in step.text


def test_a_server_reads_ecc_and_a_desktop_does_not():
    """ECC and row remapping are read where there is ECC."""
    assert any("ROW_REMAPPER" in command for command in _commands(LOST, *SERVER))
    assert not any("ROW_REMAPPER" in command for command in _commands(LOST, *RISER))


@pytest.mark.parametrize(
    ("tags", "suggested"),
    [
        ({"gsp-first", "proprietary"}, True),
        ({"proprietary"}, False),
        ({"gsp-first"}, False),
        ({"gsp-first", "proprietary", "open-modules"}, False),
        ({"gsp-first", "proprietary", "blackwell"}, False),
    ],
)
def test_gsp_off_only_where_it_can_help(tags, suggested):
    """GSP is switched off only after GSP lines came first, with the proprietary module."""
    commands = _commands(LOST, *tags)
    assert suggested is any("EnableGpuFirmware" in command for command in commands)


def test_loss_at_idle_starts_with_link_power():
    """At idle ASPM comes before anything else that changes the machine, and no cap is offered."""
    found = steps_for(LOST, frozenset({"idle", "recovered", "past-boot"}), pci=GPU)
    changes = [step for step in found if step.type != "read"]
    assert "ASPM" in changes[0].text
    assert not any("-lgc" in (step.command or "") for step in found)


def test_riser_comes_first_where_there_is_one():
    """With a riser the first change is to take it out."""
    found = steps_for(LOST, RISER | {"recovered"}, pci=GPU)
    changes = [step for step in found if step.type != "read"]
    assert "riser" in changes[0].text


def test_custom_power_comes_first():
    """A home-made power path is suspect number one."""
    found = steps_for(LOST, frozenset({"custom-power", "under-load", "recovered"}), pci=GPU)
    changes = [step for step in found if step.type != "read"]
    assert "distribution board" in changes[0].text


def test_amd_iommu_step_only_with_its_lines():
    """iommu=pt is offered only where the IOMMU complained."""
    assert any("iommu=pt" in text for text in _texts(LOST, {"amd-iommu"}))
    assert not any("iommu=pt" in text for text in _texts(LOST))


def test_rebooted_machine_asks_for_the_boot_before():
    """After a reboot the log of the boot before is the one to save."""
    assert "journalctl -k -b -1 --no-pager > kernel.log" in _commands(LOST, "past-boot")
    assert "journalctl -k -b --no-pager > kernel.log" not in _commands(LOST, "past-boot")


def test_cannot_tell_names_the_commands_that_settle_it():
    """The kernel log of either boot, then a diagnosis of both logs."""
    commands = _commands(Kind.CANNOT_TELL)
    assert commands[0] == "journalctl -k -b -1 --no-pager > kernel.log"
    assert commands[1] == "journalctl -k -b --no-pager > kernel.log"
    assert commands[2].startswith("gpuprobe diagnose kernel.log")


def test_application_fault_steps():
    """Blocking launches, the sanitizer and a core dump find the kernel."""
    commands = _commands(Kind.APPLICATION_FAULT, "kernel-log-seen")
    assert commands[:3] == [
        "CUDA_LAUNCH_BLOCKING=1 PROGRAM",
        "compute-sanitizer PROGRAM",
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 PROGRAM",
    ]


@pytest.mark.parametrize(
    ("tag", "words"),
    [
        ("version-mismatch", "/proc/driver/nvidia/version"),
        ("not-loaded", "modprobe nvidia"),
        ("no-permission", "/dev/nvidia"),
        ("fabric", "nvidia-fabricmanager"),
        ("bound-elsewhere", "lspci -nnk -s 0000:65:00.0"),
        ("mps", "nvidia-mps"),
    ],
)
def test_driver_unusable_by_case(tag, words):
    """Each reason has its own first look."""
    assert any(words in command for command in _commands(Kind.DRIVER_UNUSABLE, tag))


def test_contained_error_restarts_the_program():
    """A contained memory error asks for no reset."""
    commands = _commands(Kind.GPU_MEMORY_ERROR, "contained")
    assert not any(command.endswith(" -r") for command in commands)
    assert any(
        "Restart the one program" in text for text in _texts(Kind.GPU_MEMORY_ERROR, {"contained"})
    )


def test_unknown_tags_change_nothing():
    """A tag that no step looks at is ignored."""
    assert steps_for(LOST, frozenset({"blue"}), pci=GPU) == steps_for(LOST, pci=GPU)


# --- Filling in --------------------------------------------------------------------------------


def test_power_limit_lies_inside_the_cards_limits():
    """The cap is 80 % of the default, not below the card's minimum, with the default as undo."""
    values = {"power_limit_default": "350", "power_limit_min": "100"}
    found = steps_for(LOST, frozenset({"recovered"}), pci=GPU, values=values)
    step = next(step for step in found if step.text.startswith("Lower the power limit"))
    assert step.command == "sudo nvidia-smi -i 0000:65:00.0 -pl 280"
    assert step.undo == "sudo nvidia-smi -i 0000:65:00.0 -pl 350"
    values = {"power_limit_default": "450", "power_limit_min": "400"}
    assert any(c.endswith("-pl 400") for c in _commands(LOST, "recovered", **values))


@pytest.mark.parametrize("values", [{}, {"power_limit_default": "350"}, {"power_limit_min": "x"}])
def test_power_limit_without_limits_is_words(values):
    """Without the card's limits no figure is made up."""
    found = steps_for(LOST, frozenset({"recovered"}), pci=GPU, values=values)
    step = next(step for step in found if step.text.startswith("Lower the power limit"))
    assert step.command is None


def test_card_without_room_gets_no_power_limit():
    """Where the minimum is the default there is nothing to lower."""
    values = {"power_limit_default": "75", "power_limit_min": "75"}
    assert not any("-pl" in command for command in _commands(LOST, "recovered", **values))


def test_clock_cap_is_below_what_the_card_can():
    """A slow card gets a cap below its own best."""
    assert any("-lgc 300,1400" in c for c in _commands(LOST, "recovered", clock_max_mhz="1980"))
    assert any("-lgc 300,1035" in c for c in _commands(LOST, "recovered", clock_max_mhz="1380"))


def test_without_an_address_no_command_guesses_one():
    """Commands that need the address become words; others stay."""
    found = steps_for(LOST, frozenset({"under-load"}))
    assert found[0].command == "journalctl -k -b --no-pager > kernel.log"
    assert not any("nvidia-smi -i" in (step.command or "") for step in found)
    assert not any("{" in (step.command or "") for step in found)


def test_values_are_quoted_for_the_shell():
    """A path out of a log cannot start a command of its own."""
    commands = _commands(Kind.JIT_CACHE_CORRUPT, entry="/tmp/a; rm -rf b")
    assert "gpuprobe jitcache repair '/tmp/a; rm -rf b'" in commands


@pytest.mark.parametrize("path", ["/tmp/a\x1b[31m", "/tmp/a\nb", "-rf", ""])
def test_values_that_cannot_be_shown_are_left_out(path):
    """A value with control characters, or one that reads as an option, fills nothing."""
    assert not any(
        command.startswith("gpuprobe jitcache repair ")
        for command in _commands(Kind.JIT_CACHE_CORRUPT, entry=path)
    )


def test_one_change_at_a_time_is_said_once():
    """The first step that changes something says so, and only that one."""
    found = steps_for(LOST, frozenset({"under-load"}), pci=GPU)
    told = [number for number, step in enumerate(found) if "one thing at a time" in step.when]
    assert len(told) == 1
    assert found[told[0]].type != "read"


def test_helped_count_is_shown_only_where_counted():
    """The power limit's public record is told with it, and a step without one tells none."""
    found = steps_for(LOST, frozenset({"recovered"}), pci=GPU)
    by_text = {step.text: step for step in found}
    told = [text for text, step in by_text.items() if "helped in" in step.cost]
    assert told == [text for text in by_text if text.startswith("Lower the power limit")]


# --- Folklore ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ("BOOT_IMAGE=/vmlinuz root=/dev/sda2 ro quiet pci=noaer", "pci=noaer"),
        ("ro pci=realloc,noaer quiet", "pci=noaer"),
        ("ro pci=nommconf", "pci=nommconf"),
        ("ro pcie_aspm=off quiet", "pcie_aspm=off"),
        ("ro pcie_aspm=force", "pcie_aspm=force"),
        ("ro pci=nocrs,realloc", "pci=nocrs"),
        ("ro pci=assign-busses", "pci=assign-busses"),
        ("ro pcie_acs_override=downstream,multifunction", "pcie_acs_override"),
    ],
)
def test_folklore_is_found(line, setting):
    """A harmful setting in force is named, with the reason."""
    found = folklore(line)
    assert [entry.setting for entry in found] == [setting]
    assert found[0].why


@pytest.mark.parametrize(
    "line",
    [
        "ro quiet splash",
        "ro pcie_aspm.policy=performance pcie_port_pm=off",
        "ro pci=realloc iommu=pt pcie_ports=native",
        "ro xpci=noaer pci=noaerx",
    ],
)
def test_other_settings_are_left_alone(line):
    """Settings that do no harm, and lookalikes, are not named."""
    assert folklore(line) == []
