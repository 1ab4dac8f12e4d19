"""What NVML's users print becomes loss, hint, or trouble of the driver, with the right GPU."""

from __future__ import annotations

import pytest
from _windows import read, read_lines

from gpuprobe.events import (
    DeviceIdentified,
    DriverUnusable,
    GpuLostReported,
    GpuMemoryCounted,
    GpuSampled,
    LinkStateReported,
    LossHinted,
    NvmlReturned,
    PowerReported,
    SystemDescribed,
    ThermalReported,
)
from gpuprobe.sources.wording.nvidia_smi import FAMILY as NVIDIA_SMI
from gpuprobe.sources.wording.smi_report import FAMILY as SMI_REPORT
from gpuprobe.sources.wording.smi_table import FAMILY as SMI_TABLE


@pytest.mark.parametrize(
    ("line", "device", "index"),
    [
        ("Unable to determine the device handle for GPU 0000:44:00.0: GPU is lost.  Reboot the system to recover this GPU", "0000:44:00.0", None),
        ("Unable to determine the device handle for GPU0000:C4:00.0: GPU is lost.", "0000:c4:00.0", None),
        ("Unable to determine the device handle for gpu 0000:c4:00.0: GPU is lost", "0000:c4:00.0", None),
        ("Unable to determine the device handle for GPU2: 0000:C4:00.0: GPU is lost", "0000:c4:00.0", 2),
        ("Unable to determine the device handle for GPU 3: GPU is lost", None, 3),
        ("Unable to determine the device handle for GPU 0000:44:00.0: GPU is lost.  Reb\noot the system to recover this GPU", "0000:44:00.0", None),
        ("Unable to determine the device handle for GPU 0000:44:00.0: GPU is\n lost.  Reboot the system to recover this GPU", "0000:44:00.0", None),
        ("Unable to determine the device handle for GPU 0000:44:\n00.0: GPU is lost.", "0000:44:00.0", None),
    ],
)  # fmt: skip
def test_no_handle_because_lost_is_a_loss(line: str, device: str | None, index: int | None) -> None:
    (event,) = read(NVIDIA_SMI, line)

    assert isinstance(event, GpuLostReported)
    assert event.by == "nvml"
    assert event.index == index
    assert (str(event.device) if event.device else None) == device


@pytest.mark.parametrize(
    ("line", "device"),
    [
        (
            "Unable to determine the device handle for GPU 0000:44:00.0: Unknown Error",
            "0000:44:00.0",
        ),
        (
            "Unable to determine the device handle for GPU0: 0000:44:00.0: Unknown Error",
            "0000:44:00.0",
        ),
        ("Unable to determine the device handle for GPU 000:4F:80.0: Unknown Error", None),
    ],
)
def test_no_handle_for_an_unknown_reason_is_a_hint(line: str, device: str | None) -> None:
    (event,) = read(NVIDIA_SMI, line)

    assert isinstance(event, LossHinted)
    assert event.what == "no-handle"
    assert (str(event.device) if event.device else None) == device


def test_no_handle_because_of_a_reset_owed_is_no_loss() -> None:
    (event,) = read(
        NVIDIA_SMI, "Unable to determine the device handle for GPU 0000:44:00.0: GPU requires reset"
    )

    assert isinstance(event, NvmlReturned)
    assert event.code == 16


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", "version-mismatch"),
        ("Failed to initialize NVML: Driver Not Loaded", "not-loaded"),
        ("Failed to initialize NVML: Insufficient Permissions", "no-permission"),
        ("could not initialize NVML: ERROR_LIBRARY_NOT_FOUND", "not-loaded"),
        ("No devices were found", "no-devices"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            "smi-failed",
        ),
        (
            "pynvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.",
            "version-mismatch",
        ),
    ],
)
def test_driver_trouble_has_its_name(line: str, what: str) -> None:
    (event,) = read(NVIDIA_SMI, line)

    assert isinstance(event, DriverUnusable)
    assert event.what == what


@pytest.mark.parametrize(
    "line",
    [
        "GPU is lost. Reboot the system to recover this GPU",
        "GPU is lost",
        "Failed to initialize NVML: GPU is lost",
        "pynvml.nvml.NVMLError_GpuIsLost: GPU is lost",
        "panic: nvmlDeviceGetCount: ERROR_GPU_IS_LOST",
        "nvmlDeviceGetPowerUsage() = NVML_ERROR_GPU_IS_LOST",
        "NvmlException: GPU is lost",
        "nvml: GPU is lost",
    ],
)
def test_lost_by_name_is_a_loss_once(line: str) -> None:
    (event,) = read(NVIDIA_SMI, line)

    assert isinstance(event, GpuLostReported)
    assert event.by == "nvml"
    assert event.device is None


def test_agents_line_keeps_the_uuid() -> None:
    (event,) = read(
        NVIDIA_SMI,
        "failed to read clocks of GPU-0a1b2c3d-1111-2222-3333-444455556666: ERROR_GPU_IS_LOST",
    )

    assert isinstance(event, GpuLostReported)
    assert event.uuid == "GPU-0a1b2c3d-1111-2222-3333-444455556666"


def test_unknown_error_keeps_its_code() -> None:
    (event,) = read(NVIDIA_SMI, "Failed to initialize NVML: Unknown Error")

    assert isinstance(event, NvmlReturned)
    assert (event.code, event.name) == (999, "UNKNOWN")


TABLE = """| NVIDIA-SMI 560.35.03    Driver Version: 560.35.03    CUDA Version: 12.6     |
|   0  NVIDIA GeForce RTX 4090        Off |   00000000:2B:00.0 Off |                  Off |
| 41%   66C    P2             287W /  450W |   22104MiB /  24564MiB |     97%      Default |
|   1  ERR!                       Off  | 00000000:C1:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!    ERR! / ERR! | Unknown Error        |   Unknown Error      |"""


@pytest.mark.parametrize("table", [TABLE, TABLE.replace("\n|", "\n").removeprefix("| ")])
def test_table_names_gpus_readings_and_the_broken_one(table: str) -> None:
    """The marks of a table may have been taken off as a quote."""
    events = read_lines(NVIDIA_SMI, table)

    systems = {e.key: e.value for e in events if isinstance(e, SystemDescribed)}
    names = {e.index: (e.name, str(e.device)) for e in events if isinstance(e, DeviceIdentified)}
    sample = next(e for e in events if isinstance(e, GpuSampled))
    hints = [e for e in events if isinstance(e, LossHinted)]
    assert systems == {"driver": "560.35.03", "cuda": "12.6"}
    assert names == {0: ("NVIDIA GeForce RTX 4090", "0000:2b:00.0"), 1: (None, "0000:c1:00.0")}
    assert (sample.temp_c, sample.power_w, sample.limit_w, sample.util_percent) == (
        66,
        287,
        450,
        97,
    )
    assert str(sample.device) == "0000:2b:00.0"
    assert {(h.what, h.index, str(h.device)) for h in hints} == {("smi-error", 1, "0000:c1:00.0")}


def test_list_joins_index_name_and_uuid() -> None:
    (event,) = read(
        NVIDIA_SMI, "GPU 1: NVIDIA L40S (UUID: GPU-5f0c1d2e-3a4b-5c6d-7e8f-90a1b2c3d4e5)"
    )

    assert isinstance(event, DeviceIdentified)
    assert (event.index, event.name, event.uuid) == (
        1,
        "NVIDIA L40S",
        "GPU-5f0c1d2e-3a4b-5c6d-7e8f-90a1b2c3d4e5",
    )


QUERY = """==============NVSMI LOG==============
Driver Version                            : 550.163.01
CUDA Version                              : 12.4

GPU 00000000:3B:00.0
    Product Name                          : NVIDIA A30
    Serial Number                         : 1320321000123
    GPU UUID                              : GPU-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0
    GPU Link Info
        PCIe Generation
            Max                           : 4
            Current                       : 1
            Device Current                : 1
        Link Width
            Max                           : 16x
            Current                       : 8x
    Clocks Event Reasons
        HW Thermal Slowdown               : Active
        HW Power Brake Slowdown           : Active
        SW Thermal Slowdown               : Not Active
    Volatile
        DRAM Uncorrectable                : 3
    Aggregate
        DRAM Uncorrectable                : 9
    Remapped Rows
        Pending                           : Yes
        Remapping Failure Occurred        : No
    Temperature
        GPU Current Temp                  : 81 C
        GPU Shutdown Temp                 : 96 C
        GPU Slowdown Temp                 : 93 C
        Memory Current Temp               : 88 C
    GPU Power Readings
        Power Draw                        : 164.20 W
        Current Power Limit               : 165.00 W"""


def test_query_text_gives_each_reading_under_its_gpu() -> None:
    events = read_lines(SMI_REPORT, QUERY)

    assert {str(e.device) for e in events if not isinstance(e, SystemDescribed)} == {"0000:3b:00.0"}
    link = next(e for e in events if isinstance(e, LinkStateReported))
    heat = {e.what: e for e in events if isinstance(e, ThermalReported)}
    power = {e.what: e for e in events if isinstance(e, PowerReported)}
    counted = [(e.what, e.value) for e in events if isinstance(e, GpuMemoryCounted)]
    assert (link.what, link.speed_gts, link.width, link.max_speed_gts, link.max_width) == (
        "sampled",
        2.5,
        8,
        16.0,
        16,
    )
    assert set(heat) == {"slowdown", "reading"}
    assert (heat["reading"].temp_c, heat["reading"].slowdown_c, heat["reading"].memory_temp_c) == (
        81,
        93,
        88,
    )
    assert set(power) == {"brake", "reading"}
    assert (power["reading"].power_w, power["reading"].limit_w) == (164.2, 165.0)
    assert counted == [("uncorrectable", 3), ("remap-pending", 1)]


def test_link_of_another_gpu_is_not_taken_for_this_ones() -> None:
    """Values that say nothing give no link state."""
    assert (
        read_lines(
            SMI_REPORT, "PCIe Generation\n  Max : N/A\n  Current : N/A\nLink Width\n  Current : N/A"
        )
        == []
    )


CSV = """timestamp, pci.bus_id, clocks_event_reasons.active, power.draw [W], temperature.gpu
2026/05/11 09:12:43.690, 00000000:41:00.0, 0x0000000000000080, 402.15 W, 71
2026/05/11 09:12:44.700, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]"""


def test_csv_rows_are_samples_and_the_last_is_the_loss() -> None:
    events = read_lines(SMI_TABLE, CSV)

    samples = [e for e in events if isinstance(e, GpuSampled)]
    (brake,) = [e for e in events if isinstance(e, PowerReported)]
    (lost,) = [e for e in events if isinstance(e, GpuLostReported)]
    assert (samples[0].power_w, samples[0].temp_c, samples[0].clocks_event_reasons) == (
        402.15,
        71,
        0x80,
    )
    assert [sample.lost for sample in samples] == [False, True]
    assert (brake.what, brake.power_w) == ("brake", 402.15)
    assert str(lost.device) == "0000:41:00.0"
    assert lost.stamp is not None
    assert lost.stamp.raw == "2026/05/11 09:12:44.700"


def test_csv_columns_of_single_reasons_are_read() -> None:
    """`Active` in the column of a brake or a thermal slowdown is the same as its bit."""
    text = """timestamp, pci.bus_id, clocks_event_reasons.hw_power_brake_slowdown, clocks_throttle_reasons.hw_thermal_slowdown, power.draw [W]
2026/05/11 09:12:43.690, 00000000:41:00.0, Not Active, Not Active, 690.00 W
2026/05/11 09:12:44.690, 00000000:41:00.0, Active, Not Active, 210.00 W
2026/05/11 09:12:45.690, 00000000:41:00.0, Not Active, Active, 210.00 W"""
    events = read_lines(SMI_TABLE, text)

    assert [e.what for e in events if isinstance(e, PowerReported)] == ["brake"]
    assert [e.what for e in events if isinstance(e, ThermalReported)] == ["slowdown"]


def test_csv_without_a_header_reads_units_only() -> None:
    events = read_lines(SMI_TABLE, CSV.split("\n")[1])

    sample = next(e for e in events if isinstance(e, GpuSampled))
    assert (sample.power_w, sample.temp_c) == (402.15, None)


def test_lost_row_among_two_gpus_names_neither() -> None:
    two = (
        "2026/05/11 09:12:43.690, 00000000:41:00.0, 88.00 W\n2026/05/11 09:12:43.690, 00000000:61:00.0, 90.00 W\n"
        + CSV.split("\n")[2]
    )

    (lost,) = [e for e in read_lines(SMI_TABLE, two) if isinstance(e, GpuLostReported)]
    assert lost.device is None


def test_lost_row_that_names_its_gpu_names_it() -> None:
    (lost, _) = read_lines(SMI_TABLE, "1, 00000000:61:00.0, [GPU is lost], [GPU is lost]")

    assert isinstance(lost, GpuLostReported)
    assert str(lost.device) == "0000:61:00.0"


def test_supported_mask_is_no_power_brake() -> None:
    row = "2026/05/11 09:12:43.690, 00000000:41:00.0, 0x00000000000001ff, 402.15 W, 71"

    assert not [e for e in read_lines(SMI_TABLE, row) if isinstance(e, PowerReported)]


def test_dmon_rows_are_samples() -> None:
    text = "# gpu    pwr  gtemp  mtemp     sm    mem\n# Idx      W      C      C      %      %\n    0    210     66      -     98     40\n    0    212     67      -     99     41"

    events = read_lines(SMI_TABLE, text)
    assert [(e.power_w, e.temp_c, e.util_percent) for e in events if isinstance(e, GpuSampled)] == [
        (210, 66, 98),
        (212, 67, 99),
    ]


def test_a_lost_gpu_in_the_table_is_that_of_the_row_above() -> None:
    """The row of readings says so where a healthy one has its memory."""
    table = (
        "|   1  NVIDIA GeForce RTX 3090        Off |   00000000:42:00.0 Off |                  N/A |\n"
        "|ERR!  ERR!  ERR!             ERR! / ERR! |      GPU is lost       |     ERR!        ERR! |\n"
    )
    (lost,) = [
        event for event in read_lines(NVIDIA_SMI, table) if isinstance(event, GpuLostReported)
    ]

    assert str(lost.device) == "0000:42:00.0"
