"""Facts about codes: Xids, CUDA errors, AER bits, NVML and driver status numbers.

Each file is read when its first code is asked for, and once.
"""

from __future__ import annotations

import re
from functools import cache

from gpuprobe.catalog.load import DataFile
from gpuprobe.diagnosis import Certainty, Kind
from gpuprobe.errors import CatalogueError
from gpuprobe.values import Value

CONTEXT = "context"
"""The `verdict` of a code that is no fault by itself."""

_VERDICTS = frozenset({*Kind, CONTEXT})
_LOSS = ("yes", "no", "maybe")


def _kind(verdict: str) -> Kind | None:
    return None if verdict == CONTEXT else Kind(verdict)


class Xid(Value):
    """One Xid.

    Attributes:
        code: Its number.
        name: What it is called here.
        meaning: What happened, in plain words.
        verdict: The verdict kind it supports as the root of an incident, or `context`.
        max_certainty: No verdict from this code alone is surer; None where any is possible.
        left_the_bus: `yes`, `no` or `maybe`.
        role: `root`, `consequence`, `either`, `detail` or `unclear`.
        nvidia_bucket: NVIDIA's immediate action, or "" where its catalogue has none.
        nvidia_investigatory: NVIDIA's action against a return, or "".
        recovery_expected_since: Driver branch from which a 154 comes with it (`R565`), `start`
            for always, or "".
        source: Where the facts come from.
        note: What else a reader should know, or "".
        unused: NVIDIA marks the code unused from A100 on.
    """

    code: int
    name: str
    meaning: str
    verdict: str
    max_certainty: Certainty | None
    left_the_bus: str
    role: str
    nvidia_bucket: str
    nvidia_investigatory: str
    recovery_expected_since: str
    source: str
    note: str = ""
    unused: bool = False

    @property
    def kind(self) -> Kind | None:
        """The verdict kind, or None for context."""
        return _kind(self.verdict)


class CudaError(Value):
    """One CUDA error.

    Attributes:
        code: Number in the runtime API; the driver API uses the same where it has a name.
        name: Runtime name, `cudaErrorLaunchFailure`.
        text: NVIDIA's text, to the letter.
        driver_name: `CUDA_ERROR_LAUNCH_FAILED`, or "" where the driver API has none.
        loss: `maybe` where a lost GPU can cause it, else `no`. No CUDA error proves a loss.
        verdict: The verdict kind it hints at when nothing else is known.
        meaning: In plain words.
        next: What to look at next.
        source: Where the facts come from.
    """

    code: int
    name: str
    text: str
    driver_name: str
    loss: str
    verdict: Kind
    meaning: str
    next: str
    source: str


class AerBit(Value):
    """One status bit of PCIe Advanced Error Reporting.

    Attributes:
        severity: `correctable` or `uncorrectable`: the register it stands in.
        bit: Its number in that register.
        name: Short name, as kernels print it today.
        old_name: Long name of older kernels or the specification.
        layer: `physical`, `data-link` or `transaction`.
        meaning: In plain words.
        loss: `yes`, `no` or `maybe`.
        source: Where the facts come from.
    """

    severity: str
    bit: int
    name: str
    old_name: str
    layer: str
    meaning: str
    loss: str
    source: str


class NvmlCode(Value):
    """One return code of NVML, its name without `NVML_ERROR_`."""

    code: int
    name: str
    loss: str
    verdict: str
    meaning: str
    source: str

    @property
    def kind(self) -> Kind | None:
        """The verdict kind, or None for context."""
        return _kind(self.verdict)


class RmStatus(Value):
    """One status number of NVIDIA's resource manager, its name without `NV_ERR_`."""

    code: int
    name: str
    loss: str
    meaning: str
    source: str


class RecoveryAction(Value):
    """One value of the recovery action (Xid 154, NVML field 230).

    Attributes:
        value: The number, which decides.
        old_text: Words of drivers 565 to 595, or "".
        new_text: Words of 610 and later, or "" where none was seen.
        nvml: Name behind `NVML_GPU_RECOVERY_ACTION_`.
        since: First open driver that has it, or "".
        meaning: What is owed.
        source: Where the facts come from.
    """

    value: int
    old_text: str
    new_text: str
    nvml: str
    since: str
    meaning: str
    source: str


class SxidText(Value):
    """What NVSwitch's errors (SXid) have in common, whatever their number."""

    name: str
    verdict: Kind
    meaning: str
    note: str
    source: str


@cache
def xids() -> tuple[Xid, ...]:
    """Every known Xid, by number.

    Raises:
        CatalogueError: The data file contradicts itself.
    """
    file = DataFile("xid")
    unused_meaning = file.data["defaults"]["unused_meaning"]
    found = []
    for entry in file.entries("xid", "code"):
        unused = entry.flag("unused")
        certainty = entry.choice("max_certainty", tuple(Certainty), "")
        one = Xid(
            code=entry.number("code"),
            name=entry.text("name"),
            meaning=unused_meaning if unused else entry.text("meaning"),
            verdict=entry.choice("verdict", _VERDICTS),
            max_certainty=Certainty(certainty) if certainty else None,
            left_the_bus=entry.choice("left_the_bus", _LOSS, "no"),
            role=entry.choice("role", ("root", "consequence", "either", "detail", "unclear")),
            nvidia_bucket=entry.text("nvidia_bucket", ""),
            nvidia_investigatory=entry.text("nvidia_investigatory", ""),
            recovery_expected_since=entry.text("recovery_expected_since", ""),
            source=entry.source(),
            note=entry.text("note", ""),
            unused=unused,
        )
        entry.done()
        found.append(one)
    return tuple(found)


def xid(code: int) -> Xid | None:
    """What is known about an Xid, or None: unknown, which is not harmless."""
    return _xids_by_code().get(code)


@cache
def _xids_by_code() -> dict[int, Xid]:
    return {one.code: one for one in xids()}


@cache
def cuda_errors() -> tuple[CudaError, ...]:
    """The CUDA errors that matter here, by runtime number."""
    found = []
    for entry in DataFile("cuda").entries("cuda", "code"):
        one = CudaError(
            code=entry.number("code"),
            name=entry.text("name"),
            text=entry.text("text"),
            driver_name=entry.text("driver_name", ""),
            loss=entry.choice("loss", _LOSS),
            verdict=Kind(entry.choice("verdict", tuple(Kind))),
            meaning=entry.text("meaning"),
            next=entry.text("next"),
            source=entry.source(),
        )
        entry.done()
        found.append(one)
    return tuple(found)


def cuda_by_code(code: int) -> CudaError | None:
    """The CUDA error with this number, or None."""
    return next((error for error in cuda_errors() if error.code == code), None)


@cache
def _cuda_names() -> dict[str, CudaError]:
    names = {}
    for error in cuda_errors():
        for name in (error.name, error.driver_name):
            if name:
                names[_squeeze(name)] = error
    return names


def cuda_by_name(name: str) -> CudaError | None:
    """The CUDA error with this runtime or driver name, whatever its case, or None."""
    return _cuda_names().get(_squeeze(name))


@cache
def _cuda_texts() -> dict[str, CudaError]:
    texts: dict[str, CudaError] = {}
    for error in cuda_errors():
        # 200 and 300 share their words; the common one comes first.
        texts.setdefault(_plain(error.text), error)
    return texts


def cuda_by_text(text: str) -> CudaError | None:
    """The CUDA error with NVIDIA's text, whatever its case and final full stop, or None."""
    return _cuda_texts().get(_plain(text))


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip(".!").lower()


def _squeeze(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


@cache
def aer_bits(severity: str) -> tuple[AerBit, ...]:
    """The status bits of one AER register, lowest first.

    Args:
        severity: `correctable`, or `uncorrectable` (also `fatal` and `non-fatal`: one register).

    Raises:
        ValueError: `severity` is none of these.
    """
    table = {"fatal": "uncorrectable", "non-fatal": "uncorrectable"}.get(severity, severity)
    if table not in ("correctable", "uncorrectable"):
        raise ValueError(f"{severity!r} is no AER severity")
    found = []
    for entry in DataFile("aer").entries(table, "bit"):
        one = AerBit(
            severity=table,
            bit=entry.number("bit"),
            name=entry.text("name"),
            old_name=entry.text("old_name"),
            layer=entry.choice("layer", ("physical", "data-link", "transaction")),
            meaning=entry.text("meaning"),
            loss=entry.choice("loss", _LOSS),
            source=entry.source(),
        )
        entry.done()
        found.append(one)
    return tuple(found)


def aer_by_name(name: str) -> tuple[AerBit, ...]:
    """The bits with this short or long name, of both registers; empty when there is none."""
    wanted = _squeeze(name)
    return tuple(
        bit
        for severity in ("correctable", "uncorrectable")
        for bit in aer_bits(severity)
        if wanted in (_squeeze(bit.name), _squeeze(bit.old_name))
    )


@cache
def nvml_codes() -> tuple[NvmlCode, ...]:
    """NVML's return codes, by number."""
    found = []
    for entry in DataFile("nvml").entries("nvml", "code"):
        one = NvmlCode(
            code=entry.number("code"),
            name=entry.text("name"),
            loss=entry.choice("loss", _LOSS),
            verdict=entry.choice("verdict", _VERDICTS),
            meaning=entry.text("meaning"),
            source=entry.source(),
        )
        entry.done()
        found.append(one)
    return tuple(found)


@cache
def rm_statuses() -> tuple[RmStatus, ...]:
    """Status numbers of the driver's resource manager that turn up beside faults."""
    found = []
    for entry in DataFile("rm_status").entries("rm_status", "code"):
        one = RmStatus(
            code=entry.number("code"),
            name=entry.text("name"),
            loss=entry.choice("loss", _LOSS),
            meaning=entry.text("meaning"),
            source=entry.source(),
        )
        entry.done()
        found.append(one)
    return tuple(found)


@cache
def recovery_actions() -> tuple[RecoveryAction, ...]:
    """Recovery actions, by value."""
    found = []
    for entry in DataFile("recovery").entries("recovery", "value"):
        one = RecoveryAction(
            value=entry.number("value"),
            old_text=entry.text("old_text", ""),
            new_text=entry.text("new_text", ""),
            nvml=entry.text("nvml"),
            since=entry.text("since", ""),
            meaning=entry.text("meaning"),
            source=entry.source(),
        )
        entry.done()
        found.append(one)
    return tuple(found)


@cache
def sxid_text() -> SxidText:
    """What can be said about any SXid."""
    entry = next(DataFile("sxid").entries("sxid", "id"))
    entry.text("id")
    text = SxidText(
        name=entry.text("name"),
        verdict=Kind(entry.choice("verdict", tuple(Kind))),
        meaning=entry.text("meaning"),
        note=entry.text("note"),
        source=entry.source(),
    )
    entry.done()
    return text


@cache
def kind_meanings() -> dict[Kind, str]:
    """Each verdict kind in one sentence.

    Raises:
        CatalogueError: A kind is missing, or the file has one that does not exist.
    """
    found = {}
    for entry in DataFile("kinds").entries("kind", "id"):
        found[Kind(entry.choice("id", tuple(Kind)))] = entry.text("meaning")
        entry.done()
    missing = [kind for kind in Kind if kind not in found]
    if missing:
        raise CatalogueError(f"kinds.toml has no {missing[0].value!r}")
    return found
