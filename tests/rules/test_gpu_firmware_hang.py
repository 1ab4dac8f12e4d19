"""When the GPU's own firmware stopped."""

from __future__ import annotations

from _judging import findings, first, kinds, only, pci

from gpuprobe.diagnosis import Certainty, Kind

KIND = Kind.GPU_FIRMWARE_HANG
XID119 = "[ 6001.000000] NVRM: Xid (PCI:0000:1a:00): 119, pid=71, name=nvidia-smi, Timeout after 45s of waiting for RPC response from GPU2 GSP! Expected function 76 (GSP_RM_CONTROL) sequence 80 (0x20800a4c 0x4).\n"


def test_xid_119_confirms_it() -> None:
    """A GSP timeout names its GPU."""
    verdict = only(XID119)

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.CONFIRMED)
    assert pci(verdict) == "0000:1a:00.0"


def test_several_gpus_in_turn_are_one_finding() -> None:
    """The first to stop is the device, the others are named beside it."""
    verdict = only(XID119 + XID119.replace("6001", "6046").replace("1a:00", "1b:00"))

    assert pci(verdict) == "0000:1a:00.0"
    assert [str(device) for device in verdict.other_devices] == ["0000:1b:00.0"]


def test_a_gaudi_whose_heartbeat_failed_is_one() -> None:
    """Its driver says whether the link still answers: where it does not, the card is probably gone."""
    text = "[ 4120.551022] habanalabs 0000:19:00.0: Device heartbeat failed! PCI link is healthy\n"

    assert only(text).kind is KIND
    assert pci(only(text)) == "0000:19:00.0"
    broken = first(text.replace("healthy", "broken"))
    assert (broken.kind, broken.certainty) == (Kind.DEVICE_LEFT_BUS, Certainty.LIKELY)


def test_a_slow_firmware_is_not_a_dead_one() -> None:
    """The banner `GSP-RM is slow` alone is no hang."""
    text = "[ 6001.000000] NVRM: _kgspClassifyGspTimeout: =================== GSP-RM is slow ===================\n"

    assert findings(KIND, text) == []


def test_after_a_loss_it_is_a_consequence() -> None:
    """A GPU that is gone does not answer its firmware's calls either."""
    lost = "[ 6000.000000] NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"

    assert kinds(lost + XID119.replace("6001", "6046")) == [Kind.DEVICE_LEFT_BUS]


def test_it_explains_the_programs_that_die_after_it() -> None:
    """The CUDA error behind a firmware hang is no second finding."""
    text = XID119 + "[ 6050.000000] torch: RuntimeError: CUDA error: unspecified launch failure\n"

    assert kinds(text) == [KIND]


def test_status_lost_in_a_sanity_check_is_not_the_firmware() -> None:
    """0x0f while a call waits means that the GPU is gone."""
    text = "[ 6001.000000] NVRM: _kgspLogRpcSanityCheckFailure: GPU0 sanity check failed 0xf waiting for RPC response from GSP. Expected function 103 (GSP_RM_ALLOC) sequence 12 (0x0 0x0).\n"

    assert findings(KIND, text) == []
    assert first(text).kind is Kind.DEVICE_LEFT_BUS


def test_a_heartbeat_without_an_address_is_the_gpu_whose_engine_hangs_beside_it() -> None:
    """Xid 109 of the same seconds names the GPU; a 154 may come on any of them."""
    heartbeat = "[   50.000001] NVRM: GPU0 _kgspRpcRecvPoll: GSP RM heartbeat timed out\n"
    hang = "[   54.000001] NVRM: Xid (PCI:0000:3b:00): 109, pid=9, name=a, channel 0x0000000f, errorString CTX SWITCH TIMEOUT, Info 0x1c016\n"
    owed = "[   54.000002] NVRM: Xid (PCI:0000:5e:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)\n"
    named, unnamed = first(heartbeat + hang + owed), first(heartbeat + owed)

    assert (named.kind, pci(named)) == (Kind.GPU_FIRMWARE_HANG, "0000:3b:00.0")
    assert (unnamed.kind, pci(unnamed)) == (Kind.GPU_FIRMWARE_HANG, None)
