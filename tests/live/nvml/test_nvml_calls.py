"""The published list of NVML calls is what is called, and its data are sound."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from gpuprobe import catalog
from gpuprobe.diagnosis import Kind
from gpuprobe.live.nvml.calls import (
    CALLS,
    DEADLINES_S,
    EVENT_WAIT_MS,
    FIRMWARE_XIDS,
    NEVER,
    Group,
    call_of,
    number_of,
    values,
)
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from tests.live.nvml_bench import ONE, TWO, collect, gather, of, probing

SLOWEST_FAST_US = 100
PUBLISHED = {call.function for call in CALLS}


def plain(name: str) -> str:
    """An exported function's name as pynvml spells it: without `_v2`, and init as one word."""
    name = re.sub(r"_v\d+$", "", name)
    return {"nvmlInitWithFlags": "nvmlInit"}.get(name, name)


@pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
def test_no_call_is_made_that_is_not_published(tmp_path: Path) -> None:
    """Through loss, events, MIG and a reload, the library sees published calls only."""
    from gpuprobe.events import GpuLostReported, GpuSampled

    fake = FakeNvml(tmp_path, [ONE, TWO])
    fake.set(ONE, mig=1, mig_instances=2)
    with probing(fake) as probe:
        collect(probe, lambda e: of(GpuSampled, e, ONE) and of(GpuSampled, e, TWO))
        gather(probe, 1.2)
        fake.xid(TWO, 31)
        fake.lose(TWO)
        collect(probe, lambda e: of(GpuLostReported, e))

    made = {plain(call.name) for call in fake.calls()} - {"nvmlErrorString"}
    assert made <= PUBLISHED
    assert {"nvmlEventSetWait", "nvmlDeviceGetMigDeviceHandleByIndex"} <= made


def test_dangerous_calls_are_not_in_the_list() -> None:
    """What is said to be never made is not in the list."""
    assert not PUBLISHED & set(NEVER)


def test_fast_calls_are_cheap() -> None:
    """Nothing that costs a tenth of a millisecond runs at the sampling rate."""
    costs = [call.cost_us for call in CALLS if call.group is Group.FAST]

    assert all(cost is None or cost < SLOWEST_FAST_US for cost in costs)


def test_numbers_lead_to_their_calls_and_back() -> None:
    """The number in the shared memory names the call; 0 and numbers beyond name none."""
    for number, call in enumerate(CALLS, 1):
        assert call_of(number) is call
    for call in CALLS:
        if call.group in (Group.LIBRARY, Group.EVENT):
            assert call_of(number_of(call.function)) is call
    assert call_of(0) is None
    assert call_of(len(CALLS) + 1) is None
    with pytest.raises(KeyError):
        number_of("nvmlDeviceSetPowerManagementLimit")


def test_only_getters_and_the_life_of_the_library() -> None:
    """No call changes anything."""
    changing = re.compile(r"Set(?!Create|Wait)|Clear|Reset|Modify|Remove|Discover")

    assert not [name for name in PUBLISHED if changing.search(name.replace("EventSet", "Event"))]


def test_a_name_means_one_thing() -> None:
    """Calls that give the same name give it in the same unit."""
    units: dict[str, set[str]] = {}
    for call in CALLS:
        for value in call.gives:
            units.setdefault(value.name, set()).add(value.unit)

    assert not {name: found for name, found in units.items() if len(found) > 1}
    assert next(value.name for value in values(Group.FAST)) == "power_w"


def test_every_group_has_a_deadline_longer_than_its_wait() -> None:
    """A wait for events that ends in time is no stall."""
    assert set(Group) == set(DEADLINES_S)
    assert DEADLINES_S[Group.EVENT] > EVENT_WAIT_MS / 1000


def test_firmware_xids_are_those_of_the_catalogue() -> None:
    """Each of them is a firmware hang by the catalogue."""
    kinds = {xid.code: xid.kind for xid in catalog.xids()}

    assert {kinds[code] for code in FIRMWARE_XIDS} == {Kind.GPU_FIRMWARE_HANG}


def test_field_ids_are_those_of_the_binding() -> None:
    """Ids and argument numbers agree with nvidia-ml-py's own constants.

    Those of the throttle times have had their names only since 12.575.
    """
    spec = importlib.util.find_spec("pynvml")
    assert spec is not None
    text = Path(str(spec.origin)).read_text("utf-8")
    fields = dict(re.findall(r"^(NVML_FI_\w+)\s*=\s*(\d+)", text, re.MULTILINE))

    expected = {
        "power_w": "NVML_FI_DEV_POWER_INSTANT",
        "recovery_action": "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
        "memory_temp_c": "NVML_FI_DEV_MEMORY_TEMP",
        "throttle_sw_thermal_ns": "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN",
        "throttle_hw_thermal_ns": "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN",
        "throttle_hw_power_brake_ns": "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN",
        "pcie_tx_bytes": "NVML_FI_DEV_PCIE_COUNT_TX_BYTES",
        "pcie_rx_bytes": "NVML_FI_DEV_PCIE_COUNT_RX_BYTES",
        "pcie_replay_rollover": "NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER",
        "pcie_l0_to_recovery": "NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER",
        "pcie_correctable_errors": "NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS",
        "pcie_naks_received": "NVML_FI_DEV_PCIE_COUNT_NAKS_RECEIVED",
        "pcie_receiver_errors": "NVML_FI_DEV_PCIE_COUNT_RECEIVER_ERROR",
        "pcie_bad_tlp": "NVML_FI_DEV_PCIE_COUNT_BAD_TLP",
        "pcie_naks_sent": "NVML_FI_DEV_PCIE_COUNT_NAKS_SENT",
        "pcie_bad_dllp": "NVML_FI_DEV_PCIE_COUNT_BAD_DLLP",
        "pcie_non_fatal_errors": "NVML_FI_DEV_PCIE_COUNT_NON_FATAL_ERROR",
        "pcie_fatal_errors": "NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR",
        "pcie_unsupported_requests": "NVML_FI_DEV_PCIE_COUNT_UNSUPPORTED_REQ",
        "pcie_lcrc_errors": "NVML_FI_DEV_PCIE_COUNT_LCRC_ERROR",
        "pcie_lane_errors": "NVML_FI_DEV_PCIE_COUNT_LANE_ERROR",
    }
    ours = {v.name: v.field for call in CALLS for v in call.gives if v.field is not None}
    assert expected.keys() == ours.keys()
    for name, constant in expected.items():
        if constant in fields or not name.startswith("throttle_"):
            assert int(fields[constant]) == ours[name]
