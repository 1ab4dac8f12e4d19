"""When nvidia-smi lists fewer GPUs than it did."""

from __future__ import annotations

import pytest
from _judging import first, kinds, pci

from gpuprobe.diagnosis import Certainty, Kind

KIND = Kind.DEVICE_LEFT_BUS
ERROR = "RuntimeError: CUDA error: unspecified launch failure\n"


def uuid(number: int) -> str:
    return f"GPU-77aa0000-1111-4222-8333-44445555000{number}"


def listed(*numbers: int, prompt: str = "$ nvidia-smi -L") -> str:
    rows = [
        f"GPU {index}: NVIDIA L40S (UUID: {uuid(number)})" for index, number in enumerate(numbers)
    ]
    return "\n".join([prompt, *rows]) + "\n\n"


def table(*buses: str, day: str = "Mon Mar  2", driver: str = "570.10.01", at: str = "09") -> str:
    rule = "+-----------------------------------------+------------------------+----------------------+\n"
    rows = "".join(
        f"|   {index}  NVIDIA L40S                    Off |   00000000:{bus}:00.0 Off |                    0 |\n"
        f"| N/A   31C    P8             33W /  350W |       1MiB /  46068MiB |      0%      Default |\n{rule}"
        for index, bus in enumerate(buses)
    )
    return (
        f"{day} {at}:11:12 2026\n{rule}"
        f"| NVIDIA-SMI {driver}              Driver Version: {driver}      CUDA Version: 12.8     |\n{rule}{rows}\n"
    )


def test_a_gpu_that_is_listed_no_more_while_a_program_fails_is_likely_lost() -> None:
    """The sentence names it, and the later list is what supports it."""
    verdict = first(listed(1, 2, 3) + ERROR + "\n" + listed(1, 3))

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)
    assert uuid(2) in verdict.summary
    assert [item.line for item in verdict.evidence if "line 2" in item.says] == [9]


def test_with_somebodys_words_alone_it_is_possible() -> None:
    """No machine says that anything failed."""
    text = "My server loses a GPU every night.\n" + listed(1, 2) + "Later:\n" + listed(1)

    assert first(text).certainty is Certainty.POSSIBLE


def test_the_gpu_without_a_handle_is_the_one_that_is_not_listed() -> None:
    """The line in its place gives the address."""
    later = listed(1, 2).replace(
        f"GPU 1: NVIDIA L40S (UUID: {uuid(2)})",
        "Unable to determine the device handle for gpu 0000:9D:00.0: Unknown Error",
    )

    verdict = first(listed(1, 2) + later)

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)
    assert pci(verdict) == "0000:9d:00.0"


def test_two_tables_of_one_day_and_driver_are_one_machine() -> None:
    """The address that the second table lacks is the GPU."""
    verdict = first(table("18", "3a") + ERROR + "\n" + table("18", at="11"))

    assert (verdict.kind, pci(verdict)) == (KIND, "0000:3a:00.0")


@pytest.mark.parametrize(
    "text",
    [
        listed(1, 2) + listed(1),
        listed(1) + ERROR + "\n" + listed(1, 2),
        listed(1, 2) + ERROR + "\n" + listed(1, 3),
        listed(1, 2) + ERROR + "\n" + listed(3),
        listed(1, 2) + ERROR + "\n" + listed(2, prompt="$ docker exec -it llm nvidia-smi -L"),
        listed(1, 2) + ERROR + "\nIn the container\n" + "step\n" * 9 + listed(2),
        listed(1, 2) + ERROR + "\nThen I unplugged one of them\n" + listed(2),
        listed(1, 2) + ERROR + "\n" + listed(1, prompt="$ nvidia-smi -L | head -1"),
        listed(1, 2, prompt="ann@one:~$ nvidia-smi -L")
        + ERROR
        + "\n"
        + listed(1, prompt="ann@two:~$ nvidia-smi -L"),
        listed(1, 2, 3) + ERROR + "\n" + listed(1).rstrip() + "\n...\n",
        table("18", "3a") + ERROR + "\n" + table("18", day="Tue Mar  3"),
        table("18", "3a") + ERROR + "\n" + table("18", driver="580.10.01"),
    ],
    ids=[
        "nothing-failed",
        "one-more",
        "another-card",
        "another-machine",
        "container",
        "said-to-be-a-container",
        "taken-out",
        "filtered",
        "another-host",
        "cut-short",
        "another-day",
        "another-driver",
    ],
)
def test_a_shorter_list_for_another_reason_is_no_loss(text: str) -> None:
    """It is another machine's, a part of one, or nothing failed."""
    assert KIND not in kinds(text)


def test_a_gpu_that_somebody_removed_is_not_lost() -> None:
    """A removal by way of sysfs stands between the lists."""
    removal = "[  811.100000] pci 0000:3a:00.0: removed by user\n"
    text = table("18", "3a") + ERROR + "\n$ echo 1 > /sys/bus/pci/devices/0000:3a:00.0/remove\n"

    assert KIND not in kinds(text + removal + table("18", at="11"))
