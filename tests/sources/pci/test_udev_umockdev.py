import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    shutil.which("umockdev-wrapper") is None,
    reason="no umockdev-wrapper (Debian: umockdev, libumockdev0)",
)

CLIENT = Path(__file__).with_name("umockdev_client.py")
GPU = "0000:01:00.0"


def run(*actions):
    done = subprocess.run(
        ["umockdev-wrapper", sys.executable, str(CLIENT), *actions],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_uevents_of_a_gpu():
    """Each uevent that the kernel sends about a GPU becomes one event at once, in order."""
    answers = run("add", "bind:DRIVER=nvidia", "unbind", "remove")
    assert [answer["events"] for answer in answers] == [
        [{"type": "DeviceChanged", "what": what, "driver": driver, "device": GPU}]
        for what, driver in [
            ("added", None),
            ("bound", "nvidia"),
            ("unbound", None),
            ("removed", None),
        ]
    ]
    assert max(answer["after_s"] for answer in answers) < 1


def test_recovery_is_told_by_a_change():
    """A change event says how the kernel's error recovery of a GPU ended."""
    first, second = run(
        "change:ERROR_EVENT=FAILED_RECOVERY:DEVICE_ONLINE=0",
        "change:ERROR_EVENT=SUCCESSFUL_RECOVERY:DEVICE_ONLINE=1",
    )
    assert [(one["type"], one["what"]) for one in first["events"]] == [
        ("AerRecoveryEnded", "failed")
    ]
    assert [(one["type"], one["what"]) for one in second["events"]] == [
        ("AerRecoveryEnded", "recovered")
    ]


def test_what_says_nothing():
    """A change without a reason, and uevents of other subsystems, give no event."""
    assert [answer["events"] for answer in run("change", "net-change")] == [[], []]
