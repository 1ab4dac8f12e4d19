"""Lines that fuzzing starts from, in every framing; all made up, in the form of real ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

LOSS: Final = (
    "[ 8000.500000] NVRM: GPU at PCI:0000:5e:00: GPU-2f1e0d3c-5b4a-4968-8776-a5b4c3d2e1f0\n"
    "[ 8000.500001] NVRM: Xid (PCI:0000:5e:00): 79, pid=1, GPU has fallen off the bus.\n"
    "[ 8000.700000] NVRM: Xid (PCI:0000:5f:00): 154, GPU recovery action changed from 0x0 (None)\n"
)

LINES: Final[dict[str, tuple[str, ...]]] = {
    "json_lines": (
        '{"__REALTIME_TIMESTAMP":"1796000000000000","_HOSTNAME":"n1","SYSLOG_IDENTIFIER":"kernel",'
        '"_TRANSPORT":"kernel","MESSAGE":"NVRM: x"}',
        '{"MESSAGE":[78,86,82,77,58],"__CURSOR":"s=1"}',
        '{"log":"NVRM: x\\n","stream":"stdout","time":"2027-03-14T06:00:00.5Z"}',
        '{"ts":1796000000.5,"level":"error","msg":"CUDA error: x"}',
        '{"MESSAGE":["NVRM: x",[120]],"_BOOT_ID":"0123","_MACHINE_ID":"4567","_PID":"12",'
        '"_SOURCE_MONOTONIC_TIMESTAMP":"8000500000","_SOURCE_REALTIME_TIMESTAMP":"1796000000000000"}',
        '{"timestamp":1796000000500,"level":"ERROR","fields":{"message":"x"},"error":{"msg":"y"}}',
        '{"time":"2027-03-14T06:00:00Z","event":{"a":1},"err":"CUDA error: x","message":"x"}',
        '{"date":1,"level":30,"text":""}',
    ),
    "macos": ("2027-03-14 06:00:00.123456+0100 0x1a  Error  0x0  0  0  kernel: (x) y",),
    "windows": (
        "<Event><System><Provider Name='nvlddmkm'/><EventID>153</EventID></System></Event>",
        "<Event><System><Provider Name='nvlddmkm'/><EventID>14</EventID><TimeCreated "
        "SystemTime='2027-03-14T06:00:00.5000000Z'/><Computer>pc1</Computer></System></Event>",
        "Date:          3/14/2027 6:00:00 PM",
        "Date:          14.03.2027 06:00:00",
    ),
    "nvidia_smi": (
        "|   0  NVIDIA H200   On | 00000000:5E:00.0 Off |",
        "2027/03/14 06:00:00.123, 0, 88.1 W, 52",
    ),
    "containers": (
        "2027-03-14T06:00:00.123456789Z stdout F CUDA error: x",
        "[pod/a/b] x",
        "engine-1  | CUDA error: x",
        "0|vllm  | x",
    ),
    "dmesg": (
        "[ 8000.500000] NVRM: x",
        "[Sun Mar 14 06:00:00 2027] NVRM: x",
        "2027-03-14T06:00:00,500000+00:00 NVRM: x",
        "4,1234,8000500000,-;NVRM: x",
        "kern  :err   : [ 8000.5] x",
        "<3>[ 8000.5] x",
    ),
    "syslog": (
        "<34>1 2027-03-14T06:00:00.5Z n1 kernel - - - NVRM: x",
        "1796000000.500000 n1 kernel: NVRM: x",
        "2027-03-14T06:00:00+0000 n1 kernel: NVRM: x",
        "Sun 2027-03-14 06:00:00 UTC n1 kernel: NVRM: x",
        "Mar 14 06:00:00 n1 kernel: [ 8000.5] NVRM: x",
        "-- Boot 0123456789abcdef0123456789abcdef --",
    ),
    "engine": (
        "(EngineCore_0 pid=1) ERROR 03-14 06:00:00 [core.py:1] CUDA error: x",
        "ERROR 03-14 06:00:00 [a.py:12] x",
        "E0314 06:00:00.123456 12 a.cc:3] x",
        "[rank0]: RuntimeError: x",
        "[2027-03-14 06:00:00 TP0] x",
        "time=2027-03-14T06:00:00Z level=error msg=x",
        "2027-03-14 06:00:00,123 - a - ERROR - x",
    ),
    "blocks": (
        "__REALTIME_TIMESTAMP=1796000000000000\n_HOSTNAME=n1\nMESSAGE=NVRM: x\n\n",
        "MESSAGE=x",
    ),
    "marks": ("> NVRM: x", "  12: NVRM: x", "- NVRM: x", "kern.log:12:NVRM: x", "`NVRM: x`"),
}

PRIVATE: Final = (
    "alice@box:/home/alice HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345 10.1.2.3 ::1",
    "Mar 14 06:00:00 box7 sshd[1]: from 192.168.1.7 mac 00:11:22:33:44:55 %2Fhome%2Fbob",
    "Authorization: Bearer abcdefghijklmnop --api-key=x https://u:p@h.example.com/a?token=b",
    "serial number 1652022012345 S/N: PHAX12345 UUID 2f1e0d3c-5b4a-4968-8776-a5b4c3d2e1f0 "
    "machine-id 0123456789abcdef0123456789abcdef",
    "C:\\\\Users\\\\carol\\\\x ~dave/ CORP\\erin user=frank uid=1000(grace) enp3s0 wlx001122334455",
    'SSID=My-Wi-Fi wlan0: associated with "Home Net" fe80::1ff:fe23:4567:890a 2001:db8::7',
    "password: correct horse battery\nsecret_key = [\"a1b2c3d4e5f6\", 'g7h8i9j0k1l2']\n"
    "tokens:\n  - |\n    a1b2c3d4e5f6g7h8\n",
    '{"OPENAI_API_KEY": "sk-abc123def456ghi789", "u": "https%3A%2F%2Fbob%3Apw%40h.example.org"}',
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE\n"
    "-----END OPENSSH PRIVATE KEY-----",
    "Linux gpu7 6.8.0 #1 SMP x86_64 gpu7.lab.example.org NCCL INFO gpu7:12:34 [0] "
    "\\\\\\\\filer\\share connect to http://gpu7:8000/v1",
    "\\x2fhome\\x2fbob \\u002fhome\\u002fbob hf_abcdefghij\n  klmnop0123456789 "
    "--token a1b2c3d4 e5f6g7h8",
    "1796000000 0x7ffe 580.126.09 8.9.0.70 255.255.255.0 127.0.0.1 serial: N/A password=***",
)
"""What a report must not show, and what only looks like it."""

EXPORT: Final = (
    "__CURSOR=s=1\n__REALTIME_TIMESTAMP=1796000000000000\n_BOOT_ID=0123\n_HOSTNAME=n1\n"
    "_TRANSPORT=kernel\nMESSAGE=NVRM: x\n\n"
    "__CURSOR=s=2\nMESSAGE\n\x05\x01NVRM: Xid\n79\n_PID=1\n\n"
    "no field\nMESSAGE=x\n\n"
)
"""Entries of `journalctl -o export`, one of them with a binary field, one that is none."""

PRETTY: Final = (
    '{\n\t"__CURSOR" : "s=1",\n\t"__REALTIME_TIMESTAMP" : "1796000000000000",\n'
    '\t"MESSAGE" : "NVRM: x",\n\t"_TRANSPORT" : "kernel"\n}\n{\n\t"a" : 1\n}\n{\nx\n'
)
"""The same of `-o json-pretty`."""


_SAYS: Final = "NVRM: Xid (PCI:0000:5e:00): 79, GPU has fallen off the bus."

ABOUT: Final = (
    f"# What Xid 79 means\n\nThe driver says so:\n\n```\n{_SAYS}\n```\n\n"
    "| Xid | what |\n|---|---|\n| 79 | GPU has fallen off the bus |\n\n## What to do\n\n"
    "If your GPU has fallen off the bus, see https://example.org/.\n",
    "import re\n\nclass Parser:\n    LOST = re.compile(r'GPU has fallen off the bus')\n\n"
    f'    def test(self):\n        assert self.LOST.search("{_SAYS}")  # Xid 79\n',
    f'--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,3 @@\n+    printk("{_SAYS}");\n }}\n',
    f"<html><body><p>My log:</p><pre>{_SAYS}<br>&#78;VRM: x</pre></body></html>\n",
    f"Hi,\n\n> On Monday I wrote:\n>> [ 8000.5] {_SAYS}\n\nuser@n1:~$ dmesg | grep Xid\n"
    f"[ 8000.5] {_SAYS}\nuser@n1:~$ echo '{_SAYS}'\n\nIt said Xid 79 twice today.\n",
    f"rules:\n  - alert: GpuLost\n    expr: xid == 79\n    summary: '{_SAYS}'\n",
)
"""Texts that speak of a fault, or quote one."""


def texts() -> Iterator[bytes]:
    """Whole logs, and what is none."""
    yield LOSS.encode()
    yield LOSS.encode("utf-16")
    yield b"\r".join(LOSS.encode().split(b"\n"))
    yield EXPORT.encode()
    yield PRETTY.encode()
    for lines in LINES.values():
        yield "\n".join(lines).encode()
    yield b"torch.AcceleratorError: CUDA error: unspecified launch failure\n"
    yield from (text.encode() for text in ABOUT)
