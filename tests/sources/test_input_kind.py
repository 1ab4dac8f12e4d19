"""Programs, patches, rule files and documentation are told from logs and reports."""

from __future__ import annotations

import pytest
from _texts import DMESG, ISSUE, SHELL, SMI, TRACEBACK, XID

from gpuprobe.sources.input_kind import is_general_text, is_program_text, is_review

PYTHON = """import re
import sys

XID = re.compile(r"NVRM: Xid")

def main(path: str) -> int:
    for line in open(path):
        if XID.search(line):
            print("GPU has fallen off the bus")
            return 79
    return 0
"""
C = """/* Lost devices. */
#include <linux/pci.h>

static void report_lost(struct pci_dev *dev)
{
    printk(KERN_ERR "NVRM: GPU has fallen off the bus\\n");
    dev->state = 3;
    return;
}
"""
PATCH = """diff --git a/xid.go b/xid.go
--- a/xid.go
+++ b/xid.go
@@ -10,2 +10,3 @@ var codes
     78: "vGPU start error",
+    79: "GPU has fallen off the bus",
"""
RULES = """groups:
- name: gpu
  rules:
  - alert: GpuLost
    expr: xid_errors{code="79"} > 0
    annotations:
      summary: GPU has fallen off the bus
"""
ZABBIX = """zabbix_export:
  triggers:
    - expression: 'find(/Linux by agent/log[kern.log],,"regexp","fallen off the bus")=1'
      name: 'GPU has fallen off the bus on {HOST.NAME}'
"""
DOCS = """# Troubleshooting GPUs

This page explains how the driver reports errors to the kernel log of a node.

## Xid 79

The driver prints this error when the GPU has fallen off the bus and cannot be reached.

    NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.

## Xid 31

A program used an address that is not mapped, which is a fault of the program itself.
"""
CHANGELOG = """# Changelog

## [1.4.0] - 2026-02-01
- Detect "GPU has fallen off the bus" in kernel logs
- Fixed handling of NVML_ERROR_GPU_IS_LOST
"""
CODES = """xid,description,action
13,Graphics engine exception,check application
79,GPU has fallen off the bus,drain node
"""
MAN = """.TH GPUWATCH 8
.SH NAME
gpuwatch \\- watch for GPU has fallen off the bus
"""
MAN_PAGE = """XIDWATCH(8)              System Administration              XIDWATCH(8)

DESCRIPTION
       Reads the kernel log and runs a hook for each message, for instance
       "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
"""
GO_TABLE = """// Copyright Example Inc.

package health

import (
	"testing"
)

func TestHealth(t *testing.T) {
	tests := []struct {
		name string
		ret  nvml.Return
	}{
		{
			name: "lost",
			ret:  nvml.ERROR_GPU_IS_LOST,
		},
		{
			name: "unknown",
			ret:  nvml.ERROR_UNKNOWN,
		},
	}
"""
LOGGED_COMMIT = """commit 3b1f0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b
Author: A Developer <dev@example.org>
Date:   Fri Feb 14 10:00:00 2025 +0100

    Count a loss without an Xid

    Newer drivers print
        NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.
"""
SHORT_COMMIT = LOGGED_COMMIT.replace(
    "commit 3b1f0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b", "commit 3b1f0c9d8e7f"
)
FAQ = f"""## FAQ
### Why do I get `{XID}`?
The card has lost its link: check the riser and the power supply.
"""
READ_FAQ = f"""## FAQ
I have read it. My GPU was gone again after an hour:
{XID}
"""
BISECTED = f"""commit 3b1f0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b is the first bad one.
[   11.000001] {XID}
"""
ONELINE = "3fa91c2 Fix a segmentation fault in the tokenizer\n77b0d1e docs: explain exit code 139"
ASSERTS = "\n".join(
    f"x.cu:3: k: block: [0,0,0], thread: [{n},0,0] Assertion `p==nullptr` failed." for n in range(9)
)
SYSCTL = "\n".join(f"vm.knob_{n} = {n}" for n in range(9))
RELEASE_NOTES = """Release 591.10
 - Fixed a bug that could cause Xid 79 on docks after a resume.
 - Fixed an issue where "NVRM: Xid (PCI:0000:01:00): 31" was logged by one game.
 - Added a profile for that game.
"""
TRIED = f"""Fixed the power limit at 300 W, no change.
Fixed a problem with the riser, no change.
It is my second card: {XID}
"""
XID_LIST = """What do the numbers in my log mean?
Xid 13 - mostly the program's fault
Xid 31 - an address that is not mapped
Xid 48 - memory
Xid 79 - GPU has fallen off the bus, check riser and power
"""
XIDS_SEEN = "Since Monday we have had:\n" + "\n".join(f"Xid {n} - once" for n in (13, 31, 62, 79))
MODPROBE = """# keeps the card from falling off the bus
options nvidia NVreg_DynamicPowerManagement=0x00
# GPU has fallen off the bus without this one
options nvidia NVreg_EnableGpuFirmware=0
"""
JAVA = """#
# A fatal error has been detected by the Java Runtime Environment:
#
#  SIGSEGV (0xb) at pc=0x00007f2a8b3d11aa, pid=4021, tid=4044
#
# Problematic frame:
# C  [libnvoptix.so.1+0xc1f10]
"""
UNDER_OPTIONS = f"options nvidia NVreg_EnableGpuFirmware=0\noptions nvidia x=1\n{XID}"
DASHBOARD = """{
  "title": "GPU fleet",
  "panels": [
    {
      "title": "Xid 79 - GPU has fallen off the bus",
      "targets": [
        {
          "expr": "count(DCGM_FI_DEV_XID_ERRORS == 79)"
        }
      ]
    }
  ]
}
"""
FIXTURE = f"""tests:
  - name: a lost GPU
    input: "{XID}"
    expect:
      xid: 79
"""
JSON_FIXTURE = f"""{{
  "name": "a lost GPU",
  "input": "{XID}",
  "expected": {{
    "xid": 79
  }}
}}
"""
STORED = f"""\"Time\",\"Line\",\"labels\"
\"2026-01-19T06:44:02.118Z\",\"[19882.447712] {XID}\",\"{{job=kern (node)}}\"
\"2026-01-19T06:44:02.117Z\",\"[19882.446980] up (again);\",\"{{job=kern (node)}}\"
"""
PLAYED = f"""TASK [collect kernel messages] ****
ok: [gpu03] => {{
    "changed": false,
    "rc": 0,
    "stdout_lines": [
        "[1203311.503981] {XID}",
        "[1203311.504013] NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
        "[1203311.504110] NVRM: A GPU crash dump has been created (again);"
    ]
}}
PLAY RECAP ****
"""
ABORTED = """[10/02/2025-17:20:11] [TRT-LLM] [RANK 4] [E] CUDA runtime error in cudaEventSynchronize(get())
terminate called after throwing an instance of 'tensorrt_llm::common::TllmException'
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 4 in communicator MPI_COMM_WORLD
with errorcode 1.
--------------------------------------------------------------------------
"""
JSON = f"""{{
  "kind": "Event",
  "message": "{XID}",
  "count": 1
}}
"""


@pytest.mark.parametrize(
    "text",
    [
        PYTHON,
        C,
        GO_TABLE,
        PATCH,
        RULES,
        ZABBIX,
        DOCS,
        CHANGELOG,
        CODES,
        MAN,
        MAN_PAGE,
        ONELINE,
        LOGGED_COMMIT,
        SHORT_COMMIT,
        FAQ,
        RELEASE_NOTES,
        XID_LIST,
        MODPROBE,
        DASHBOARD,
        FIXTURE,
        JSON_FIXTURE,
    ],
    ids=lambda text: text[:20],
)
def test_programs_rules_lists_and_documentation_are_program_text(text: str) -> None:
    assert is_program_text(text.split("\n"))


@pytest.mark.parametrize(
    "text",
    [
        ISSUE,
        DMESG,
        TRACEBACK,
        SHELL,
        JSON,
        ASSERTS,
        SYSCTL,
        XID,
        SMI,
        BISECTED,
        READ_FAQ,
        TRIED,
        XIDS_SEEN,
        UNDER_OPTIONS,
        JAVA,
        STORED,
        PLAYED,
        ABORTED,
        "",
    ],
    ids=lambda text: text[:20],
)
def test_issues_logs_and_transcripts_are_not(text: str) -> None:
    assert not is_program_text(text.split("\n"))


def test_an_article_is_general_and_a_report_is_not() -> None:
    """Two marks of the genre and nobody who tells what happened make a general text."""
    article = [
        "Xid 79 is a hardware failure: the GPU no longer answers on PCIe.",
        "Root causes include power delivery and risers. How to monitor: watch the kernel log.",
    ]
    assert is_general_text(article)
    assert not is_general_text([*article, "My server shows it every night."])
    assert not is_general_text([*article, f"[   11.000001] {XID}"])
    assert not is_general_text(["Xid 79 under load", "driver 570, Ubuntu 24.04"])


def test_pretty_json_is_data() -> None:
    """A status that a tool printed over several lines is not program text."""
    assert not is_program_text(
        [
            "```json",
            "{",
            '  "component": "xid",',
            '  "health": "Unhealthy",',
            '  "reason": "XID 79"',
            "}",
        ]
    )


def test_a_review_quotes_a_line_and_reports_none() -> None:
    """What is said of a change makes the lines in it samples, unless somebody tells of his own."""
    review = [
        "The parser should take the stamps of dmesg -T too, for instance",
        f"[Tue Mar  4 10:11:12 2025] {XID}",
        "Please add a test for it.",
        "nit: squash the two commits",
    ]
    assert is_review(review)
    assert not is_review([*review, "Our node logged it."])
    assert not is_review([*review, f"[   11.000001] {XID}"])
    assert not is_review([f"[   11.000001] {XID}", "LGTM"])
    assert not is_review(ISSUE.split("\n"))
