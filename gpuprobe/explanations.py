"""What one code, name or kind means, put into words from the catalogue."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

from gpuprobe import catalog
from gpuprobe.diagnosis import Kind


@dataclass(frozen=True, slots=True)
class Explanation:
    """One reading of what was asked.

    Attributes:
        topic: `Xid 79`, `CUDA 719`, `AER uncorrectable bit 5`, ...
        title: Its name.
        meaning: In plain words.
        facts: Further facts, label and text, in the order to be shown.
        source: Where the facts come from.
        page: A longer text in paragraphs and indented lists, or "".
        known: False for a code of a known kind that the catalogue does not hold.
    """

    topic: str
    title: str
    meaning: str
    facts: tuple[tuple[str, str], ...] = ()
    source: str = ""
    page: str = ""
    known: bool = True


def explain_xid(code: int) -> Explanation:
    """An Xid, also one that the catalogue does not hold."""
    known = catalog.xid(code)
    topic = f"Xid {code}"
    if known is None:
        return Explanation(
            topic=topic,
            title="unknown, not harmless",
            meaning=(
                "The catalogue does not hold this code. A newer driver may have added it, so "
                "take it as a fault until NVIDIA's documentation says otherwise."
            ),
            facts=(
                (
                    "What to do",
                    "Keep the whole line, with what stands behind the number, and the driver's "
                    "version. Look for an Xid 79 or 154 and for PCIe lines in the same minute.",
                ),
            ),
            known=False,
        )
    facts = [
        ("Verdict", "none by itself: context" if known.kind is None else known.verdict),
        ("At most", f"{known.max_certainty} from this code alone" if known.max_certainty else ""),
        ("Left the bus", known.left_the_bus),
        ("Role", _ROLES[known.role]),
        ("NVIDIA's action", _bucket(known)),
        ("Xid 154", _recovery(known.recovery_expected_since)),
        ("Note", known.note),
    ]
    return Explanation(
        topic=topic,
        title=known.name,
        meaning=known.meaning,
        facts=tuple((label, text) for label, text in facts if text),
        source=known.source,
    )


_ROLES = {
    "root": "a root of trouble",
    "consequence": "a consequence of something else",
    "either": "a root, or a consequence of another fault",
    "detail": "a detail of another Xid",
    "unclear": "not clear from public sources",
}


def _bucket(xid: catalog.Xid) -> str:
    parts = [xid.nvidia_bucket]
    if xid.nvidia_investigatory and xid.nvidia_investigatory != xid.nvidia_bucket:
        parts.append(f"against a return: {xid.nvidia_investigatory}")
    return "; ".join(part for part in parts if part)


def _recovery(since: str) -> str:
    if not since:
        return ""
    return (
        "expected beside it from the start"
        if since == "start"
        else f"expected beside it from {since}"
    )


def explain_cuda(error: catalog.CudaError) -> Explanation:
    """A CUDA error."""
    loss = {
        "maybe": "a lost GPU can cause it; it is no proof of one",
        "no": "no sign of a lost GPU",
    }
    facts = [
        ("NVIDIA's text", error.text),
        ("Driver API", error.driver_name),
        ("Loss", loss[error.loss]),
        ("Verdict", f"{error.verdict.value}, if nothing else is known"),
        ("Look at", error.next),
    ]
    return Explanation(
        topic=f"CUDA {error.code}",
        title=error.name,
        meaning=error.meaning,
        facts=tuple((label, text) for label, text in facts if text),
        source=error.source,
    )


def explain_aer(bit: catalog.AerBit) -> Explanation:
    """An AER status bit."""
    loss = {
        "yes": "the device below this port is gone, unless it comes back",
        "maybe": "it can go with a loss; no proof by itself",
        "no": "no sign of a lost device",
    }
    return Explanation(
        topic=f"AER {bit.severity} bit {bit.bit}",
        title=f"{bit.name} ({bit.old_name})" if bit.old_name != bit.name else bit.name,
        meaning=bit.meaning,
        facts=(("Layer", bit.layer), ("Loss", loss[bit.loss])),
        source=bit.source,
    )


def explain_nvml(code: catalog.NvmlCode) -> Explanation:
    """A return code of NVML."""
    verdict = code.verdict if code.kind else "none by itself: context"
    return Explanation(
        topic=f"NVML {code.code}",
        title=f"NVML_ERROR_{code.name}",
        meaning=code.meaning,
        facts=(("Left the bus", code.loss), ("Verdict", verdict)),
        source=code.source,
    )


def explain_rm_status(status: catalog.RmStatus) -> Explanation:
    """A status number of the driver's resource manager."""
    return Explanation(
        topic=f"driver status {status.code:#04x}",
        title=f"NV_ERR_{status.name}",
        meaning=status.meaning,
        facts=(("Left the bus", status.loss),),
        source=status.source,
    )


def explain_recovery_action(action: catalog.RecoveryAction) -> Explanation:
    """A recovery action, the value of an Xid 154."""
    facts = [
        ("Words 565-595", action.old_text),
        ("Words 610 on", action.new_text),
        ("NVML field 230", action.nvml),
        ("Since", action.since),
    ]
    return Explanation(
        topic=f"recovery action {action.value:#x} (Xid 154)",
        title=action.old_text or action.nvml,
        meaning=action.meaning,
        facts=tuple((label, text) for label, text in facts if text),
        source=action.source,
    )


def explain_sxid(code: str) -> Explanation:
    """An SXid, of which only the general meaning is known here."""
    text = catalog.sxid_text()
    return Explanation(
        topic=f"SXid {code}",
        title=text.name,
        meaning=text.meaning,
        facts=(("Verdict", text.verdict.value), ("Note", text.note)),
        source=text.source,
    )


def explain_kind(kind: Kind) -> Explanation:
    """A verdict kind, with its rule's own page."""
    codes = [str(xid.code) for xid in catalog.xids() if xid.kind is kind]
    facts = [("Xids", ", ".join(codes))] if codes and kind is not Kind.CANNOT_TELL else []
    return Explanation(
        topic=kind.value,
        title="verdict kind",
        meaning=catalog.kind_meanings()[kind],
        facts=tuple(facts),
        source=f"gpuprobe's own rule, gpuprobe/rules/{_rule_module(kind)}.py",
        page=rule_page(kind),
    )


def _rule_module(kind: Kind) -> str:
    return kind.value.replace("-", "_")


def rule_page(kind: Kind) -> str:
    """What a kind's rule says about itself, or "" where the kind has no rule of its own."""
    name = f"gpuprobe.rules.{_rule_module(kind)}"
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in (name, "gpuprobe.rules"):
            raise
        return ""
    return inspect.cleandoc(module.__doc__ or "")


def explain_advice(text: str) -> Iterator[Explanation]:
    """Readings as a cause rule's id or as a setting that does harm."""
    from gpuprobe.catalog.causes import cause_rules, cause_texts

    rule = cause_rules().get(text.upper())
    if rule is not None:
        names = {cause.id: cause.name for cause in cause_texts().values()}
        effects = [f"{effect.weight} {names[effect.cause]}" for effect in rule.effects]
        facts = [
            ("Speaks", ", ".join(effects) or "for and against nothing"),
            ("Needs", rule.needs),
            ("Caveat", rule.caveat),
        ]
        yield Explanation(
            topic=f"cause rule {rule.id}",
            title=rule.text,
            meaning=rule.condition,
            facts=tuple((label, said) for label, said in facts if said),
            source=rule.source,
        )
    from gpuprobe.catalog.advice import folklore_entries

    for entry in folklore_entries():
        if text.lower() == entry.setting.lower() or (
            entry.where == "kernel-line" and entry.pattern.search(text)
        ):
            yield Explanation(
                topic=entry.setting,
                title="does harm, never suggested",
                meaning=entry.why,
                source=entry.source,
            )
