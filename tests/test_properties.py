"""What must hold for any input: order, framing and noise do not change the judgement."""

from __future__ import annotations

import gzip
import io
import json
import random
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuprobe.api import diagnose, diagnose_text
from gpuprobe.diagnosis import Certainty, Diagnosis, Kind
from gpuprobe.errors import GpuprobeError
from gpuprobe.options import Options

MODEST = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

BOOT = datetime(2027, 3, 14, 6, 0, 0, tzinfo=UTC)
GPU = "0000:5e:00.0"
LOSS = [
    (9.25, "nvidia 0000:5e:00.0: enabling device (0140 -> 0142)"),
    (8000.5, "NVRM: GPU at PCI:0000:5e:00: GPU-2f1e0d3c-5b4a-4968-8776-a5b4c3d2e1f0"),
    (
        8000.5,
        "NVRM: Xid (PCI:0000:5e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    ),
    (8000.6, "NVRM: GPU 0000:5e:00.0: GPU has fallen off the bus."),
    (
        8000.7,
        "NVRM: Xid (PCI:0000:5e:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    ),
    (
        8000.8,
        "NVRM: Xid (PCI:0000:5f:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    ),
]
Judgement = tuple[Kind, Certainty | None, str | None, list[str], tuple[int, ...]]


def judgement(diagnosis: Diagnosis) -> Judgement:
    """What no framing may change."""
    verdict = diagnosis.verdicts[0]
    pci = verdict.device.pci if verdict.device else None
    return (
        verdict.kind,
        verdict.certainty,
        str(pci) if pci else None,
        [str(device) for device in verdict.other_devices],
        tuple(sorted(verdict.xids)),
    )


EXPECTED: Judgement = (
    Kind.DEVICE_LEFT_BUS, Certainty.CONFIRMED, GPU, ["0000:5f:00.0"], (79, 154),
)  # fmt: skip


# --- any bytes -------------------------------------------------------------------------------

FRAGMENTS = st.sampled_from(
    [
        b"NVRM: Xid (PCI:0000:5e:00): 79, ",
        b"NVRM: Xid (PCI:", b"): 31, pid=", b"GPU has fallen off the bus", b"\n", b"\r\n", b"\r",
        b"\x00", b"\x1b[31m", b"\xff\xfe", b"\xef\xbb\xbf", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\x00",
        b"PK\x03\x04", b"(\xb5/\xfd", b"pcieport 0000:00:01.1: DPC: containment event, status:0x",
        b"pcieport 0000:00:01.1: pciehp: Slot(", b"4): Link Down", b"CUDA error: ",
        b"unspecified launch failure", b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate ",
        b"[ 12.500000] ", b"Mar 14 08:13:20 n1 kernel: ", b'{"MESSAGE":', b'{"log":"', b"99999999999999999999",
        b"0x", b"-- Boot ", b"Linux version ", b"AER: ", b"severity=", b"[ 5] SDES", b"get_group",
        b"json.decoder.JSONDecodeError", b"nvidia-smi", b"(rev ff)", b"LnkSta: Speed ", b"Width x",
        b"Out of memory: Killed process ", b"EDAC MC0: ", b"| 0  NVIDIA ", b"\xe2\x80\xa8", b"\xed\xa0\x80",
        b"2027-02-30T25:61:61Z ", b"Feb 29 23:59:60 n1 kernel: ", b"SXid (PCI:", b" 100%", b"W / ",
    ]
)  # fmt: skip
NOISE = st.one_of(
    st.binary(max_size=400),
    st.lists(st.one_of(FRAGMENTS, st.binary(max_size=6)), max_size=40).map(b"".join),
)


@settings(MODEST, max_examples=150)
@given(data=NOISE)
def test_any_bytes_give_a_diagnosis_or_a_known_error(data: bytes) -> None:
    """Nothing that a file can hold ends in any other exception, and verdicts are never empty."""
    try:
        diagnosis = diagnose("-", stdin=io.BytesIO(data))
    except GpuprobeError:
        return
    assert diagnosis.verdicts
    assert diagnosis.exit_code in (0, 1, 3, 79)
    for verdict in diagnosis.verdicts:
        assert (verdict.certainty is None) == (verdict.kind in (Kind.NO_FAULT, Kind.CANNOT_TELL))
        for item in verdict.evidence:
            assert len(item.text) <= 500
            assert not [c for c in item.text if unicodedata.category(c) == "Cc" and c != "\t"]


@settings(MODEST, max_examples=60)
@given(data=NOISE)
def test_the_first_pass_changes_no_answer(data: bytes) -> None:
    """Reading every line slowly finds what the fast first pass finds."""
    answers = []
    for prefilter in (True, False):
        try:
            fast = diagnose("-", stdin=io.BytesIO(data), options=Options(prefilter=prefilter))
            answers.append(fast.verdicts)
        except GpuprobeError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]


BENIGN = st.lists(
    st.sampled_from(
        [
            "usb 1-4: new high-speed USB device number 7 using xhci_hcd",
            'audit: type=1400 apparmor="ALLOWED" operation="open"',
            "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode",
            "igb 0000:05:00.0 eno1: igb: eno1 NIC Link is Down",
            "Bluetooth: hci0: link tx timeout",
            "docker0: port 1(veth2a) entered blocking state",
            "dhclient: DHCPACK of 192.0.2.9 (xid=0x79)",
            "pcieport 0000:00:1d.0: AER: Correctable error message received from 0000:03:00.0",
            "nvme 0000:03:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
            "CPU3: Package temperature above threshold, cpu clock throttled (total events = 7)",
        ]
    ).flatmap(lambda text: st.integers(1, 7000).map(lambda up: f"[{up:12.6f}] {text}")),
    max_size=12,
)


@MODEST
@given(lines=BENIGN)
def test_other_devices_lines_before_a_loss_change_nothing(lines: list[str]) -> None:
    """Disks, networks and other cards that talk before a loss are not part of it."""
    lines.sort()
    diagnosis = diagnose_text("".join(f"{line}\n" for line in lines) + dmesg())

    assert judgement(diagnosis) == EXPECTED
    assert not any("0000:03:00.0" in item.text for item in diagnosis.verdicts[0].evidence)


# --- order -----------------------------------------------------------------------------------

SAME_SECOND = [
    "Mar 14 08:13:20 n1 kernel: NVRM: Xid (PCI:0000:5e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "Mar 14 08:13:20 n1 kernel: NVRM: GPU 0000:5e:00.0: GPU has fallen off the bus.",
    "Mar 14 08:13:20 n1 kernel: NVRM: Xid (PCI:0000:5e:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    "Mar 14 08:13:20 n1 kernel: NVRM: Xid (PCI:0000:5f:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    "Mar 14 08:13:20 n1 kernel: NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error 79.",
    "Mar 14 08:13:20 n1 vllm[4711]: torch.AcceleratorError: CUDA error: unspecified launch failure",
    "Mar 14 08:13:20 n1 kernel: NVRM: Xid (PCI:0000:5e:00): 45, pid=4711, name=python3, Ch 00000008 caused by previous Xid 79",
]
MEMORY_SECOND = [
    "Mar 14 08:13:20 n1 kernel: NVRM: Xid (PCI:0000:5e:00): 48, pid=4711, name=python3, DBE (double bit error) detected at physical address 0x1f00",
    "Mar 14 08:13:20 n1 kernel: NVRM: Xid (PCI:0000:5e:00): 45, pid=4711, name=python3, Ch 00000008 caused by previous Xid 48",
    "Mar 14 08:13:20 n1 kernel: NVRM: Xid (PCI:0000:5e:00): 43, pid=4711, name=python3, Ch 00000008",
    "Mar 14 08:13:20 n1 vllm[4711]: torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
    "Mar 14 08:13:20 n1 vllm[4711]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
]


@settings(MODEST, max_examples=30)
@given(seed=st.integers(0, 10**6), lines=st.sampled_from([SAME_SECOND, MEMORY_SECOND]))
def test_order_within_one_second_changes_nothing(seed: int, lines: list[str]) -> None:
    """Loggers write whole seconds and buffer: kind, certainty and device stay the same."""
    shuffled = list(lines)
    random.Random(seed).shuffle(shuffled)

    assert (
        judgement(diagnose_text("\n".join(shuffled) + "\n"))[:3]
        == (judgement(diagnose_text("\n".join(lines) + "\n"))[:3])
    )


@settings(MODEST, max_examples=12)
@given(order=st.permutations(range(4)))
def test_order_of_files_changes_nothing(order: list[int], tmp_path_factory) -> None:
    """However the files are named on the command line, the judgement is the same."""
    folder = tmp_path_factory.mktemp("files")
    texts = {
        "kernel.log": "\n".join(SAME_SECOND[:5]) + "\n",
        "engine.log": SAME_SECOND[5] + "\n",
        "lspci.txt": "5e:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 PCIe] [10de:2331] (rev a1)\n",
        "cuda.txt": "RuntimeError: CUDA error: unspecified launch failure\n",
    }
    paths = []
    for name, text in texts.items():
        (folder / name).write_text(text)
        paths.append(folder / name)

    assert judgement(diagnose(*(paths[place] for place in order)))[:3] == (
        Kind.DEVICE_LEFT_BUS, Certainty.CONFIRMED, GPU,
    )  # fmt: skip


# --- framing ---------------------------------------------------------------------------------


def _at(uptime: float) -> datetime:
    return BOOT + timedelta(seconds=uptime)


def _lines(write: Callable[[float, str], str]) -> str:
    return "".join(write(uptime, message) + "\n" for uptime, message in LOSS)


def dmesg() -> str:
    return _lines(lambda up, text: f"[{up:12.6f}] {text}")


def _dmesg_caller(up: float, text: str) -> str:
    return f"[{up:12.6f}] [  T4711] {text}"


def _journal_json(up: float, text: str) -> str:
    return json.dumps(
        {
            "__REALTIME_TIMESTAMP": str(int(_at(up).timestamp() * 1e6)),
            "__MONOTONIC_TIMESTAMP": str(int(up * 1e6)),
            "_BOOT_ID": "5d6e7f8091a24b3c8d4e5f60718293a4",
            "_MACHINE_ID": "a1b2c3d4e5f60718293a4b5c6d7e8f90",
            "_HOSTNAME": "n1",
            "_TRANSPORT": "kernel",
            "SYSLOG_IDENTIFIER": "kernel",
            "PRIORITY": "4",
            "MESSAGE": text,
        }
    )


def _docker(up: float, text: str) -> str:
    return json.dumps(
        {
            "log": f"[{up:.6f}] {text}\n",
            "stream": "stdout",
            "time": f"{_at(up):%Y-%m-%dT%H:%M:%S.%f}000Z",
        }
    )


TEXTS: dict[str, str] = {
    "dmesg": dmesg(),
    "dmesg-ctime": _lines(lambda up, text: f"[{_at(up):%a %b %e %H:%M:%S %Y}] {text}"),
    "dmesg-iso": _lines(lambda up, text: f"{_at(up):%Y-%m-%dT%H:%M:%S},{123456:06d}+00:00 {text}"),
    "dmesg-decoded": _lines(lambda up, text: f"kern  :warn  : [{up:12.6f}] {text}"),
    "dmesg-caller": _lines(_dmesg_caller),
    "dmesg-raw": _lines(lambda up, text: f"<4>[{up:12.6f}] {text}"),
    "kmsg": _lines(lambda up, text: f"4,{int(up)},{int(up * 1e6)},-;{text}"),
    "journal-short": _lines(lambda up, text: f"{_at(up):%b %d %H:%M:%S} n1 kernel: {text}"),
    "journal-iso": _lines(lambda up, text: f"{_at(up):%Y-%m-%dT%H:%M:%S}+0000 n1 kernel: {text}"),
    "journal-monotonic": _lines(lambda up, text: f"[{up:12.6f}] n1 kernel: {text}"),
    "journal-json": _lines(_journal_json),
    "syslog-3164": _lines(
        lambda up, text: f"{_at(up):%b %e %H:%M:%S} n1 kernel: [{up:12.6f}] {text}"
    ),
    "syslog-5424": _lines(
        lambda up, text: f"<4>1 {_at(up):%Y-%m-%dT%H:%M:%S.%f}Z n1 kernel - - - {text}"
    ),
    "syslog-iso": _lines(
        lambda up, text: f"{_at(up):%Y-%m-%dT%H:%M:%S.%f}+00:00 n1 kernel: {text}"
    ),
    "docker-json": _lines(_docker),
    "cri": _lines(
        lambda up, text: f"{_at(up):%Y-%m-%dT%H:%M:%S.%f}000Z stdout F [{up:.6f}] {text}"
    ),
    "quoted": _lines(lambda up, text: f"> [{up:12.6f}] {text}"),
    "grep-n": "".join(f"{n}:{line}\n" for n, line in enumerate(dmesg().splitlines(), 812)),
    "coloured": _lines(lambda up, text: f"\x1b[32m[{up:12.6f}] \x1b[0m\x1b[1m{text}\x1b[0m"),
}
BYTES: dict[str, bytes] = {
    "crlf": dmesg().replace("\n", "\r\n").encode(),
    "cr": dmesg().replace("\n", "\r\n").encode()[:-2],
    "utf-16": dmesg().encode("utf-16"),
    "utf-8-bom": b"\xef\xbb\xbf" + dmesg().encode(),
    "gzip": gzip.compress(TEXTS["journal-short"].encode(), mtime=0),
    "nul-padded": b"\x00" * 512 + dmesg().encode() + b"\x00" * 512,
}  # fmt: skip


@pytest.mark.parametrize("name", [*TEXTS, *BYTES])
def test_framing_does_not_change_the_judgement(name: str, tmp_path: Path) -> None:
    """One incident in any dress: kind, certainty, devices and Xids are the same."""
    path = tmp_path / "incident.log"
    path.write_bytes(BYTES[name] if name in BYTES else TEXTS[name].encode())

    diagnosis = diagnose(path)

    assert judgement(diagnosis) == EXPECTED
    assert len(diagnosis.verdicts) == 1


@pytest.mark.parametrize(
    "name", ["journal-json", "syslog-5424", "syslog-iso", "journal-iso", "docker-json", "cri"]
)
def test_a_framing_with_zone_and_year_gives_the_time(name: str) -> None:
    """The loss is placed at its second in UTC."""
    at = diagnose_text(TEXTS[name]).verdicts[0].at

    assert at is not None
    assert at.replace(microsecond=0) == _at(8000)


@pytest.mark.parametrize("name", ["dmesg", "kmsg", "journal-short", "dmesg-ctime"])
def test_a_framing_without_zone_gives_no_time_unless_told(name: str) -> None:
    """Uptime and zoneless stamps stay as they are, and no time is made up."""
    verdict = diagnose_text(TEXTS[name]).verdicts[0]

    assert verdict.at is None
    assert verdict.at_raw


# --- against a toy that greps ----------------------------------------------------------------


def test_the_same_file_with_another_xid_is_another_verdict() -> None:
    """The number decides: 31 in the place of 79 is a program's page fault."""
    text = (
        "[ 8000.500001] NVRM: Xid (PCI:0000:5e:00): 79, pid=4711, name=python3, Ch 00000008\n"
        "[ 8001.000000] vllm: RuntimeError: CUDA error: unspecified launch failure\n"
    )
    lost, fault = diagnose_text(text), diagnose_text(text.replace("): 79,", "): 31,"))

    assert lost.answer is Kind.DEVICE_LEFT_BUS
    assert fault.answer is Kind.APPLICATION_FAULT
    assert lost.verdicts[0].device == fault.verdicts[0].device


@MODEST
@given(domain=st.integers(0, 0xFFFF), bus=st.integers(0, 0xFF), device=st.integers(0, 0x1F))
def test_the_address_is_the_line_s_own(domain: int, bus: int, device: int) -> None:
    """Any address in the line is the address in the verdict."""
    address = f"{domain:04x}:{bus:02x}:{device:02x}"
    diagnosis = diagnose_text(dmesg().replace("0000:5e:00", address))

    if address == "0000:5f:00":
        return
    assert judgement(diagnosis)[2] == f"{address}.0"


def test_the_line_in_a_document_is_no_evidence() -> None:
    """The very words of the log, quoted in a text about them, prove nothing."""
    text = (
        "# Troubleshooting\n\n"
        "When the kernel log shows a message such as `NVRM: Xid (PCI:0000:5e:00): 79, GPU has fallen off"
        " the bus.`, the GPU is no longer reachable and you should reseat it.\n"
    )
    diagnosis = diagnose_text(text)

    assert diagnosis.answer in (Kind.NO_FAULT, Kind.CANNOT_TELL)
    assert not diagnosis.verdicts[0].xids


def test_an_unknown_number_is_neither_lost_nor_harmless() -> None:
    """An Xid that nobody documents is said to be unknown."""
    diagnosis = diagnose_text(
        "[ 8000.500000] NVRM: Xid (PCI:0000:5e:00): 997, pid=1, name=a, what\n"
    )

    assert diagnosis.answer is Kind.CANNOT_TELL
    assert "997" in diagnosis.verdicts[0].summary


def _steps(extra: str) -> list[str]:
    return [step.text for step in diagnose_text(extra + dmesg()).verdicts[0].next_steps]


def test_next_steps_depend_on_the_machine() -> None:
    """A laptop, a card on a riser and an H200 are told different things."""
    laptop = _steps(
        "5e:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD106M [GeForce RTX 4070 Max-Q / Mobile] [10de:2860] (rev a1)\n"
    )
    riser = _steps(
        "[    1.204977] pci 0000:5e:00.0: 3.938 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x1 link at 0000:00:1c.0 (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)\n"
    )
    server = _steps(
        "5e:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H200 SXM 141GB] [10de:2335] (rev a1)\n"
    )

    assert laptop
    assert riser
    assert server
    assert laptop != server
    assert riser != server
    assert laptop != riser
    assert any("riser" in step for step in riser)
    assert not any("riser" in step for step in server)
    assert any("charger" in step for step in laptop)
