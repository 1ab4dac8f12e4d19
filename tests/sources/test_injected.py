"""Messages that somebody put into the kernel's log to test who reads it."""

from __future__ import annotations

import pytest

from gpuprobe import diagnose_text
from gpuprobe.diagnosis import Kind
from gpuprobe.sources.injected import was_injected

LOST = "NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus."


@pytest.mark.parametrize(
    "command",
    [
        f'$ sudo agent inject-fault --kernel-log-level kern.err --kernel-message "{LOST}"',
        f"+ kubectl exec ds/injector -- sh -c \"echo '<3>{LOST}' > /dev/kmsg\"",
        f'# logger -p kern.err "{LOST}"',
        f'`  logger -t kernel -p kern.err "[449410.332316] {LOST}"`',
    ],
)
def test_what_a_command_above_wrote_is_no_loss(command: str) -> None:
    """The kernel's log holds it like any other; another GPU's is its own."""
    log = f"syslog:err   : 2026-05-27T04:18:56,089671+00:00 {LOST}\n"

    assert was_injected(["```", command], LOST)
    assert not was_injected([f"$ grep '{LOST}' kern.log"], LOST)
    assert diagnose_text(f"{command}\n\n{log}").answer is not Kind.DEVICE_LEFT_BUS
    other = log.replace("0000:04", "0000:05")
    assert diagnose_text(f"{command}\n\n{other}").answer is Kind.DEVICE_LEFT_BUS
