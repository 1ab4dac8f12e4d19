import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuprobe.testing import FakeNvml, why_unavailable

if os.environ.get("CI") is None and why_unavailable():
    pytest.skip(why_unavailable() or "", allow_module_level=True)

A, B = "0000:04:00.0", "0000:05:00.0"

# The real pynvml, in a process of its own, one line of Python at a time over a pipe.
CLIENT = """
import json, sys, threading
import pynvml as n
for line in sys.stdin:
    try:
        answer = eval(line, globals())
        if isinstance(answer, bytes): answer = answer.decode()
    except n.NVMLError as error:
        answer = ["error", error.value]
    if not isinstance(answer, (int, float, str, list, tuple, type(None))): answer = "object"
    print(json.dumps(answer), flush=True)
"""


class Client:
    def __init__(self, fake):
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", CLIENT],
            env={**os.environ, **fake.env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self("n.nvmlInit()") is None
        self(
            "[h := [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())], 1][1]"
        )

    def send(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def read(self):
        return json.loads(self.process.stdout.readline())

    def __call__(self, text):
        self.send(text)
        return self.read()


@pytest.fixture
def fake(tmp_path):
    return FakeNvml(tmp_path, [A, B])


@pytest.fixture
def client(fake):
    made = Client(fake)
    yield made
    fake.script.unlink(missing_ok=True)
    made.process.stdin.close()
    made.process.wait(5)
    made.process.stdout.close()


def test_healthy(client):
    """Two GPUs answer what a healthy card does, through the real pynvml."""
    assert client("n.nvmlDeviceGetCount()") == 2
    assert client("n.nvmlDeviceGetPciInfo(h[1]).busId") == "00000000:05:00.0"
    assert client("n.nvmlDeviceGetName(h[0])") == "NVIDIA GeForce RTX 4090"
    assert client("n.nvmlDeviceGetPowerUsage(h[0])") == 250000
    assert client("n.nvmlDeviceGetTemperatureV(h[0], 0)") == 55
    assert client("n.nvmlDeviceGetMarginTemperature(h[0])") == 32
    assert client("n.nvmlDeviceGetTemperatureThreshold(h[0], 1)") == 92
    assert client("n.nvmlDeviceGetClockInfo(h[0], n.NVML_CLOCK_MEM)") == 9501
    assert client("n.nvmlDeviceGetUtilizationRates(h[0]).gpu") == 60
    assert client("n.nvmlDeviceGetMemoryInfo(h[0], n.nvmlMemory_v2).used") == 10737418240
    assert client("n.nvmlDeviceGetRemappedRows(h[0])") == [0, 0, 0, 0]
    assert client("n.nvmlDeviceGetMigMode(h[0])") == [0, 0]
    assert client("n.nvmlDeviceGetComputeRunningProcesses(h[0])") == []
    assert client("n.nvmlDeviceGetPowerManagementLimitConstraints(h[0])") == [100000, 400000]
    assert client("n.nvmlSystemGetDriverVersion()") == "580.65.06"
    assert client("n.nvmlDeviceGetPcieSpeed(h[0])") == 16000


def test_handles(client):
    """A handle is found by address in either spelling and by UUID, and nothing else is."""
    uuid = client("n.nvmlDeviceGetUUID(h[1])")
    assert uuid.startswith("GPU-")
    assert len(uuid) == 40
    assert client(f"n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID({uuid!r}))") == 1
    assert client(f"n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(b'{B}'))") == 1
    assert client("n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(b'00000000:05:00.0'))") == 1
    assert client("n.nvmlDeviceGetHandleByPciBusId(b'0000:09:00.0')") == ["error", 6]
    assert client("n.nvmlDeviceGetHandleByIndex(2)") == ["error", 2]


def test_fields_have_codes_of_their_own(fake, client):
    """One unsupported field leaves the others of the same call good."""
    fake.unsupported("field.94")
    fake.unsupported("replay")
    fake.set(A, field_230=1, power_mw=123456)
    seen = client(
        "[(v.nvmlReturn, v.value.uiVal) for v in n.nvmlDeviceGetFieldValues(h[0], [94, 230, 186, 999])]"
    )
    assert seen == [[3, 0], [0, 1], [0, 123456], [3, 0]]


def test_power_samples(client):
    """The driver's own power samples are 9.6 ms apart and asked only once each."""
    seen = client("[s.timeStamp for s in n.nvmlDeviceGetSamples(h[0], 0, 0)[1]]")
    assert len(seen) == 119
    assert {b - a for a, b in itertools.pairwise(seen)} == {9600}
    later = client(f"[s.timeStamp for s in n.nvmlDeviceGetSamples(h[0], 0, {seen[-1]})[1]]")
    assert later == ["error", 6] or min(later) > seen[-1]
    assert client("n.nvmlDeviceGetSamples(h[0], 1, 0)") == ["error", 3]


def test_values_change_while_it_runs(fake, client):
    """A value set while the program runs is what the next call gives, for that GPU alone."""
    fake.set(A, power_mw=300000)
    assert client("[n.nvmlDeviceGetPowerUsage(x) for x in h]") == [300000, 250000]
    fake.set(name="NVIDIA H200")
    assert client("n.nvmlDeviceGetName(h[1])") == "NVIDIA H200"


def test_lost_after_calls(fake, client):
    """A GPU is lost after the N-th call and stays so for the next process; the other answers."""
    before = fake.count(A)
    fake.lose(A, after=before + 3)
    answers = client("[(lambda: n.nvmlDeviceGetPowerUsage(h[0]))() for _ in range(3)]")
    assert answers == [250000] * 3
    assert client("n.nvmlDeviceGetPowerUsage(h[0])") == ["error", 15]
    assert client("n.nvmlDeviceGetPowerUsage(h[1])") == 250000
    other = Client(fake)
    assert other("n.nvmlDeviceGetHandleByIndex(0)") == ["error", 15]
    other.process.stdin.close()
    other.process.wait(5)
    assert fake.count(A) == before + 3 + 3
    assert [call.code for call in fake.calls(A)][-3:] == [15, 15, 15]


@pytest.mark.parametrize(
    ("method", "code"), [("lose", 15), ("require_reset", 16), ("unknown", 999)]
)
def test_codes(fake, client, method, code):
    """Each failure is its NVML code, until it is healed."""
    getattr(fake, method)(A)
    assert client("n.nvmlDeviceGetPowerUsage(h[0])") == ["error", code]
    assert client("n.nvmlDeviceGetPowerUsage(h[1])") == 250000
    fake.heal(A)
    assert client("n.nvmlDeviceGetPowerUsage(h[0])") == 250000


def state_of(call):
    status = Path(f"/proc/{call.pid}/task/{call.tid}/status").read_text()
    return next(line.split()[1] for line in status.splitlines() if line.startswith("State:"))


@pytest.mark.parametrize("in_d", [False, True])
def test_hang(fake, client, in_d):
    """A call hangs until it is let go; in state D where asked; the log names it meanwhile."""
    fake.hang(A, in_d=in_d)
    client.send("n.nvmlDeviceGetPowerUsage(h[0])")
    fake.wait_for("nvmlDeviceGetPowerUsage", A)
    time.sleep(0.1)
    call = fake.calls(A)[-1]
    assert call.ended_ns is None
    assert call.pid == client.process.pid
    assert (state_of(call) == "D") is in_d
    fake.let_go()
    assert client.read() == 250000
    assert fake.calls(A)[-1].code == 0


def test_hang_of_one_leaves_the_other(fake, client):
    """While calls about one GPU hang in one thread, the other GPU answers in another."""
    fake.hang(A)
    client("threading.Thread(target=n.nvmlDeviceGetPowerUsage, args=(h[0],)).start()")
    fake.wait_for("nvmlDeviceGetPowerUsage", A)
    assert client("n.nvmlDeviceGetPowerUsage(h[1])") == 250000
    assert fake.calls(A)[-1].ended_ns is None


def test_hang_of_the_library(fake, client):
    """Without a GPU named, calls about none hang as well."""
    fake.hang()
    client.send("n.nvmlDeviceGetCount()")
    time.sleep(0.1)
    assert fake.calls()[-1].name == "nvmlDeviceGetCount_v2"
    assert fake.calls()[-1].ended_ns is None
    fake.heal()
    assert client.read() == 2


def test_slow(fake, client):
    """A slow call takes as long as it is told."""
    fake.slow(80, A, "nvmlDeviceGetPowerUsage")
    client("[n.nvmlDeviceGetPowerUsage(x) for x in h]")
    slow, quick = (fake.calls(gpu, "nvmlDeviceGetPowerUsage")[-1] for gpu in (A, B))
    assert slow.ended_ns - slow.began_ns >= 80_000_000
    assert quick.ended_ns - quick.began_ns < 80_000_000


def test_events(fake, client):
    """An Xid reaches the set that exists, names its GPU, and is delivered once."""
    fake.xid(A, 13)
    client(
        "[s := n.nvmlEventSetCreate(), [n.nvmlDeviceRegisterEvents(x, 0xc008, s) for x in h]][1]"
    )
    wait = "(lambda e: [e.eventType, e.eventData, n.nvmlDeviceGetIndex(e.device)])(n.nvmlEventSetWait(s, %d))"
    assert client(wait % 20) == ["error", 10]
    client.send(wait % 5000)
    fake.xid(B, 31)
    assert client.read() == [8, 31, 1]
    fake.event(A, 0x4000)
    assert client(wait % 5000) == [0x4000, 0, 0]
    assert client(wait % 20) == ["error", 10]


def test_events_that_do_not_exist(fake, client):
    """Registering a type that a GPU does not offer fails as a whole."""
    fake.set(A, event_types=8)
    client("[s := n.nvmlEventSetCreate(), 0][1]")
    assert client("n.nvmlDeviceRegisterEvents(h[0], 0x4008, s)") == ["error", 3]
    assert client("n.nvmlDeviceRegisterEvents(h[0], 8, s)") is None


def test_gpus_come_and_go(fake, client):
    """A GPU that left is no longer listed, shifts the indexes, and its handle says lost."""
    fake.remove(A)
    assert client("n.nvmlDeviceGetCount()") == 1
    assert client("n.nvmlDeviceGetPciInfo(n.nvmlDeviceGetHandleByIndex(0)).bus") == 5
    assert client("n.nvmlDeviceGetPowerUsage(h[0])") == ["error", 15]
    fake.add(A)
    assert client("n.nvmlDeviceGetPowerUsage(h[0])") == 250000
    fake.add("0000:81:00.0")
    assert client("n.nvmlDeviceGetCount()") == 3


def test_driver_reload(fake, client):
    """After the driver was loaded anew every call fails until nvmlInit is called again."""
    fake.unload_driver()
    assert client("n.nvmlDeviceGetCount()") == ["error", 9]
    assert client("n.nvmlInit()") == ["error", 9]
    fake.load_driver()
    assert client("n.nvmlDeviceGetCount()") == ["error", 9]
    assert client("[n.nvmlInit(), n.nvmlDeviceGetCount()]") == [None, 2]


def test_mig(fake, client):
    """MIG instances have handles and UUIDs of their own."""
    fake.set(A, mig=1, mig_instances=2)
    assert client("n.nvmlDeviceGetMigMode(h[0])") == [1, 1]
    uuids = client(
        "[n.nvmlDeviceGetUUID(n.nvmlDeviceGetMigDeviceHandleByIndex(h[0], i)) for i in range(2)]"
    )
    assert len(set(uuids)) == 2
    assert all(uuid.startswith("MIG-") for uuid in uuids)
    assert client("n.nvmlDeviceGetMigDeviceHandleByIndex(h[0], 2)") == ["error", 6]


def test_older_driver(tmp_path):
    """A function left out is one that the library does not have."""
    fake = FakeNvml(tmp_path, [A], without=["nvmlDeviceGetTemperatureV"])
    client = Client(fake)
    assert client("n.nvmlDeviceGetTemperatureV(h[0], 0)") == ["error", 13]
    assert client("n.nvmlDeviceGetTemperature(h[0], 0)") == 55
    client.process.stdin.close()
    client.process.wait(5)
    client.process.stdout.close()


def test_not_initialised(fake, client):
    """After the last nvmlShutdown calls say UNINITIALIZED."""
    client("n.nvmlShutdown()")
    assert client("n.nvmlDeviceGetCount()") == ["error", 1]


def test_deleted_script_lets_go(fake, client):
    """No process is left hanging once the test's folder is gone."""
    fake.hang(in_d=True)
    client.send("n.nvmlDeviceGetCount()")
    time.sleep(0.1)
    fake.script.unlink()
    assert client.read() == 2
