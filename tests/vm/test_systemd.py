"""A real service manager and journal: a unit that is followed, and the example's unit."""

import shutil
import sys
import time
from pathlib import Path

import pytest
import virtual_machine as vm

import gpuprobe

pytestmark = pytest.mark.vm

GUEST = Path(__file__).with_name("guest_manager.py")
ROOT = Path(gpuprobe.__file__).parents[1]
EXAMPLE = ROOT / "examples/systemd/gpuprobe-record.service"

ENGINE = """\
[Service]
ExecStart=/bin/sh -c 'for n in 1 2 3; do echo step $$n; sleep 1; done; \\
    echo "RuntimeError: CUDA error: unspecified launch failure" >&2; exit 1'
Restart=on-failure
RestartSec=1
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    if (why := vm.why_unavailable()) is not None:
        pytest.skip(why)
    if not Path("/lib/systemd/systemd").exists() or shutil.which("journalctl") is None:
        pytest.skip("no systemd")
    made = vm.Machine(tmp_path_factory.mktemp("vm"), GUEST, manager=True)
    try:
        assert made.read(vm.BOOT_S) == {"ready": True}
        yield made
    finally:
        made.close()


def run(machine, command):
    machine.tell(do="run", command=command)
    found = machine.read(120)
    assert found["code"] == 0, found["output"]
    return found["output"]


def put(machine, unit, text):
    run(machine, f"cat >/etc/systemd/system/{unit} <<'end'\n{text}\nend\nsystemctl daemon-reload")


def until(machine, enough, limit_s=60.0):
    found = []
    end = time.monotonic() + limit_s
    while not enough(found):
        assert time.monotonic() < end, found
        time.sleep(0.5)
        machine.tell(do="told")
        found += machine.read()["told"]
    return found


def names(found):
    return [entry[0] for entry in found if isinstance(entry, list)]


def test_a_unit_through_its_restarts_and_those_of_the_journal(machine):
    """Each run is told with its lines, its error and its end; the journal's own changes cost none.

    journald is started anew during the second run, its files are rotated and deleted in the third.
    """
    put(machine, "engine.service", ENGINE)
    machine.tell(do="follow", unit="engine")
    machine.read()
    until(machine, lambda found: any("no line of engine" in str(one) for one in found))
    time.sleep(5)  # under emulation journalctl needs as long until it follows
    run(machine, "systemctl start engine")
    found = until(machine, lambda found: names(found).count("started") >= 2)
    run(machine, "systemctl restart systemd-journald")
    found += until(machine, lambda found: "started" in names(found))
    run(machine, "journalctl --rotate --vacuum-time=1s")
    found += until(machine, lambda found: "stopped" in names(found))
    run(machine, "systemctl stop engine")

    # An end that the journal has behind the next run's first line is not told a second time.
    assert "stopped" in names(found)
    life = [name for name in names(found) if name in ("started", "CudaFailed")]
    assert life[:6] == ["started", "CudaFailed"] * 3, found
    gaps = [one for one in found if isinstance(one, list) and one[0] == "SourceChanged"]
    assert gaps == [["SourceChanged", "it can be followed now"]]
    lines = [line for line in found if isinstance(line, str) and line.startswith("step")]
    assert lines[:9] == ["step 1", "step 2", "step 3"] * 3


def test_the_example(machine):
    """It passes systemd's own check, is ready when it records, and its stop is an end mark."""
    text = EXAMPLE.read_text("utf-8").replace(
        "/usr/local/bin/gpuprobe", f"{sys.executable} -B -m gpuprobe"
    )
    text = text.replace("[Service]", f"[Service]\nEnvironment=PYTHONPATH={ROOT}")
    put(machine, "gpuprobe-record.service", text)
    run(machine, "rm -rf /var/lib/gpuprobe")  # the guest's own view of what the host may have there
    assert run(machine, "systemd-analyze verify gpuprobe-record.service") == ""
    run(machine, "systemctl start gpuprobe-record")
    run(machine, "systemctl kill --kill-who=main --signal=USR1 gpuprobe-record")
    time.sleep(5)
    run(machine, "systemctl stop gpuprobe-record")
    show = "systemctl show --property=Result,ExecMainStatus,ActiveState gpuprobe-record"

    assert sorted(run(machine, show).split()) == [
        "ActiveState=inactive",
        "ExecMainStatus=0",
        "Result=success",
    ]
    code = "import gpuprobe, sys; print(*(gpuprobe.load(path).ended for path in sys.argv[1:]))"
    ended = run(
        machine, f"PYTHONPATH={ROOT} {sys.executable} -B -c '{code}' /var/lib/gpuprobe/*.gpuprobe"
    )
    assert ended.split() == ["stopped"]
