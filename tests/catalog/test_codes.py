"""The tables of codes hold together and say what they should."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from gpuprobe import catalog
from gpuprobe.diagnosis import Certainty, Kind

TABLES = {
    "xid": catalog.xids(),
    "cuda": catalog.cuda_errors(),
    "correctable": catalog.aer_bits("correctable"),
    "uncorrectable": catalog.aer_bits("uncorrectable"),
    "nvml": catalog.nvml_codes(),
    "rm_status": catalog.rm_statuses(),
    "recovery": catalog.recovery_actions(),
}


@pytest.mark.parametrize("table", TABLES)
def test_every_entry_has_a_source_and_a_sentence(table):
    """Each entry says where it comes from, and what it means in sentences of at most 32 words."""
    for entry in TABLES[table]:
        assert entry.source, entry
        assert entry.meaning.endswith((".", "'")), entry
        for sentence in re.split(r"(?<=[.:;])\s", entry.meaning):
            assert len(sentence.split()) <= 32, sentence


def test_all_xids_are_there():
    """Codes 1 to 176, each once and in order."""
    assert [xid.code for xid in catalog.xids()] == list(range(1, 177))


def test_only_79_left_the_bus_for_sure():
    """Xid 79 alone is a plain yes, and its verdict is the loss."""
    assert [xid.code for xid in catalog.xids() if xid.left_the_bus == "yes"] == [79]
    assert [x.code for x in catalog.xids() if x.kind is Kind.DEVICE_LEFT_BUS] == [79]


def test_maybe_codes():
    """The codes that can go with a loss."""
    maybe = [xid.code for xid in catalog.xids() if xid.left_the_bus == "maybe"]
    assert maybe == [54, 62, 110, 119, 143, 158, 167, 173]


@pytest.mark.parametrize(
    ("code", "kind", "certainty"),
    [
        (8, Kind.GPU_HANG, None),
        (13, Kind.APPLICATION_FAULT, None),
        (14, None, None),
        (31, Kind.APPLICATION_FAULT, None),
        (32, Kind.PCIE_LINK_ERRORS, Certainty.LIKELY),
        (43, Kind.APPLICATION_FAULT, Certainty.LIKELY),
        (45, None, None),
        (48, Kind.GPU_MEMORY_ERROR, None),
        (54, Kind.POWER, None),
        (61, Kind.GPU_HANG, None),
        (62, Kind.GPU_FIRMWARE_HANG, None),
        (63, Kind.GPU_MEMORY_ERROR, Certainty.POSSIBLE),
        (74, Kind.NVLINK_ERROR, None),
        (92, Kind.GPU_MEMORY_ERROR, Certainty.POSSIBLE),
        (94, Kind.GPU_MEMORY_ERROR, None),
        (119, Kind.GPU_FIRMWARE_HANG, None),
        (150, Kind.NVLINK_ERROR, None),
        (154, None, None),
        (175, Kind.GPU_FIRMWARE_HANG, None),
        (176, Kind.PCIE_LINK_ERRORS, Certainty.LIKELY),
        (1, Kind.CANNOT_TELL, None),
    ],
)
def test_xid_verdicts(code, kind, certainty):
    """A code supports this kind, with this certainty at most."""
    xid = catalog.xid(code)
    assert (kind, certainty) == (xid.kind, xid.max_certainty)


def test_unknown_xid_is_none():
    """A code beyond the table is not known, and that is said by None."""
    assert catalog.xid(177) is None


def test_unused_codes_say_so():
    """A code that NVIDIA marks unused tells the reader to keep the line."""
    assert catalog.xid(1).unused
    assert "keep the whole line" in catalog.xid(1).meaning
    assert not catalog.xid(79).unused


@pytest.mark.parametrize(
    ("code", "name", "text", "driver_name"),
    [
        (719, "cudaErrorLaunchFailure", "unspecified launch failure", "CUDA_ERROR_LAUNCH_FAILED"),
        (999, "cudaErrorUnknown", "unknown error", "CUDA_ERROR_UNKNOWN"),
        (226, "cudaErrorContained", None, "CUDA_ERROR_CONTAINED"),
        (35, "cudaErrorInsufficientDriver", None, ""),
    ],
)
def test_cuda_names(code, name, text, driver_name):
    """Number, runtime name, driver name and NVIDIA's text find the same entry."""
    error = catalog.cuda_by_code(code)
    assert (name, driver_name) == (error.name, error.driver_name)
    assert catalog.cuda_by_name(name.upper()) is error
    assert catalog.cuda_by_text(f"{error.text.upper()}.") is error
    assert text is None or error.text == text
    if driver_name:
        assert catalog.cuda_by_name(driver_name) is error


def test_cuda_text_shared_by_two_codes_is_the_common_one():
    """200 and 300 print the same words; 200 is the one that caches cause."""
    assert catalog.cuda_by_code(300).text == catalog.cuda_by_code(200).text
    assert catalog.cuda_by_text("device kernel image is invalid").code == 200


def test_open_cuda_errors_hint_at_nothing():
    """The codes that a loss and a program share alone are no verdict."""
    for code in (3, 46, 100, 101, 304, 719, 999):
        error = catalog.cuda_by_code(code)
        assert (error.verdict, error.loss) == (Kind.CANNOT_TELL, "maybe"), code


def test_no_cuda_error_proves_a_loss():
    """No entry hints at device-left-bus, and none says that a loss is sure."""
    for error in catalog.cuda_errors():
        assert error.verdict is not Kind.DEVICE_LEFT_BUS
        assert error.loss != "yes"


def test_aer_tables_are_apart():
    """Bits 12 and 13 mean different things in the two registers."""
    correctable = {bit.bit: bit.name for bit in catalog.aer_bits("correctable")}
    uncorrectable = {bit.bit: bit.name for bit in catalog.aer_bits("fatal")}
    assert (correctable[12], correctable[13]) == ("Timeout", "NonFatalErr")
    assert (uncorrectable[12], uncorrectable[13]) == ("TLP", "FCP")
    assert sorted(correctable) == [0, 6, 7, 8, 12, 13, 14, 15]
    assert {0, 4, 5, *range(12, 27)} <= set(uncorrectable)


def test_aer_severity_must_exist():
    """A severity that is none raises."""
    with pytest.raises(ValueError, match="severity"):
        catalog.aer_bits("severe")


def test_aer_by_old_and_new_name():
    """Short and long names find the bit, and a name of no bit finds none."""
    assert [bit.bit for bit in catalog.aer_by_name("Surprise Down Error")] == [5]
    assert [bit.bit for bit in catalog.aer_by_name("sdes")] == [5]
    assert catalog.aer_by_name("nonsense") == ()


def test_recovery_actions():
    """The number decides; 1 and 2 changed their words in the 610 series."""
    by_value = {action.value: action for action in catalog.recovery_actions()}
    assert (by_value[1].old_text, by_value[1].new_text) == ("GPU Reset Required", "PF FLR")
    assert (by_value[2].old_text, by_value[2].new_text) == ("Node Reboot Required", "OS Reboot")
    assert sorted(by_value) == list(range(8))


def test_nvml_and_status():
    """NVML 15 is a loss, 16 is none; status 0x0f only supports one."""
    nvml = {code.code: code for code in catalog.nvml_codes()}
    assert (nvml[15].kind, nvml[15].loss) == (Kind.DEVICE_LEFT_BUS, "yes")
    assert (nvml[16].kind, nvml[16].loss) == (Kind.GPU_HANG, "no")
    status = {one.code: one for one in catalog.rm_statuses()}
    assert (status[0x0F].name, status[0x0F].loss) == ("GPU_IS_LOST", "maybe")


def test_nvml_names_are_pynvmls():
    """Numbers and names agree with the installed nvidia-ml-py, up to the last that it knows."""
    pynvml = pytest.importorskip("pynvml")
    numbers = {value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")}
    unknown = pynvml.NVML_ERROR_UNKNOWN
    last = max(numbers - {unknown})

    for code in catalog.nvml_codes():
        if code.code <= last or code.code == unknown:
            assert getattr(pynvml, f"NVML_ERROR_{code.name}") == code.code


def test_every_kind_has_a_sentence():
    """No verdict kind is left without its meaning."""
    assert set(catalog.kind_meanings()) == set(Kind)


def test_import_reads_no_data():
    """Importing the catalogue parses no file, and asking for AER parses no Xid."""
    code = (
        "import sys, gpuprobe.catalog as c\n"
        "from gpuprobe.catalog import codes\n"
        "assert codes.xids.cache_info().currsize == 0\n"
        "c.aer_bits('correctable')\n"
        "assert codes.xids.cache_info().currsize == 0\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
