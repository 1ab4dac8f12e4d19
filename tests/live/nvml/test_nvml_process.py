"""How the child is started, what is spoken, and what is let go of."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuprobe.live.nvml import process as nvml_process
from gpuprobe.live.nvml import wire
from gpuprobe.live.nvml.process import NvmlProcess, command, thread_state
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from tests.live.nvml_bench import ONE, wait_until

needs_compiler = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))


def test_the_state_of_a_thread_comes_back_as_it_was_put() -> None:
    """Slots do not overlap, and the quick way of writing is the same."""
    memory = memoryview(bytearray(wire.STATE_BYTES))
    first, last = wire.CallState(3, 41, 10**15), wire.CallState(0, 2**31, 0)
    wire.put_state(memory, 0, first)
    wire.put_state(memory, wire.LIBRARY_SLOT, last)
    wire.pack_state(memory, 5 * wire.STATE_SIZE, 7, 8, 9)

    assert wire.get_state(memory, 0) == first
    assert wire.get_state(memory, wire.LIBRARY_SLOT) == last
    assert wire.get_state(memory, 5) == wire.CallState(7, 8, 9)
    assert wire.get_state(memory, 1) == wire.CallState(0, 0, 0)
    assert wire.MAX_DEVICES + wire.EVENTS <= wire.LIBRARY_SLOT


def test_settings_come_back_as_they_were_given() -> None:
    """Also the devices, as a tuple."""
    settings = wire.Settings(7, 100.0, ("0000:04:00.0",), once=True, retry_s=1.5)

    assert wire.Settings.from_argument(settings.to_argument()) == settings
    assert wire.Settings.from_argument(wire.Settings(3).to_argument()) == wire.Settings(3)


@pytest.mark.parametrize("line", [b"", b"{", b"[1]", b'"t"', b'{"x": 1}', b"\xff\xfe", b"nan"])
def test_a_line_that_is_no_message_is_none(line: bytes) -> None:
    """A death in the middle of a line harms nothing."""
    assert wire.decode(line) is None
    assert wire.decode_command(line) is None


def test_the_package_found_by_an_isolated_python_is_run_by_name() -> None:
    """Installed, also editable: `python -I -m`, which no unguarded main script can harm."""
    found = command("{}")

    assert found[:2] == [sys.executable, "-I"]
    if found[2] == "-m":
        assert found[3] == "gpuprobe.live.nvml_child"


def test_a_package_that_an_isolated_python_does_not_find_is_shown_to_it(monkeypatch) -> None:
    """From PYTHONPATH or a user's own site-packages the child imports the same package."""
    monkeypatch.setattr(nvml_process, "_found_isolated", lambda folder: False)
    found = command(wire.Settings(0).to_argument())
    script = "import gpuprobe, pynvml; print(gpuprobe.__file__)"

    assert found[2] == "-c"
    folders = found[4].split("\n")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += {folders!r}; {script}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@needs_compiler
def test_the_shown_package_runs(tmp_path: Path, monkeypatch) -> None:
    """The roundabout start gives the same child."""
    monkeypatch.setattr(nvml_process, "_found_isolated", lambda folder: False)
    fake = FakeNvml(tmp_path, [ONE])
    messages: list[dict] = []
    process = NvmlProcess(
        wire.Settings(-1, once=True), lambda _, m: messages.append(m), {**os.environ, **fake.env}
    )

    assert wait_until(lambda: process.ended)
    assert "hello" in {message["t"] for message in messages}
    assert messages[-1]["t"] == "bye"
    assert process.exit_code == 0


def test_the_shown_package_is_of_this_version_whatever_is_installed(tmp_path: Path) -> None:
    """A checkout beside an installed gpuprobe runs its own child, with Python's own modules."""
    child = tmp_path.joinpath(*nvml_process.MODULE.split(".")).with_suffix(".py")
    child.parent.mkdir(parents=True)
    for folder in (child.parent, child.parent.parent):
        (folder / "__init__.py").write_text("")
    child.write_text("import sys, types; print(types.__file__, __file__, sys.argv[1])")
    (tmp_path / "types.py").write_text("raise ImportError('no module of Python')")
    boot = [sys.executable, "-I", "-c", nvml_process._BOOT, str(tmp_path), "told"]

    said = subprocess.run(boot, capture_output=True, text=True, check=True).stdout.split()

    assert said[1:] == [str(child), "told"]
    assert str(tmp_path) not in said[0]


@needs_compiler
def test_the_child_is_deaf_to_signals_and_has_no_death_signal(tmp_path: Path) -> None:
    """SIGHUP, SIGINT and SIGTERM are ignored, and it is in a session of its own."""
    fake = FakeNvml(tmp_path, [ONE])
    process = NvmlProcess(wire.Settings(-1), lambda *_: None, {**os.environ, **fake.env})
    try:
        fake.wait_for("nvmlDeviceGetPerformanceState")
        status = Path(f"/proc/{process.pid}/status").read_text()
        ignored = int(status.split("SigIgn:")[1].split()[0], 16)

        assert all(ignored >> (number - 1) & 1 for number in (1, 2, 15))
        assert os.getsid(process.pid) == process.pid
    finally:
        process.close()
        assert process.wait(5)


@needs_compiler
def test_the_child_imports_little(tmp_path: Path) -> None:
    """It is a small process: none of the package's heavy libraries."""
    fake = FakeNvml(tmp_path, [ONE])
    process = NvmlProcess(wire.Settings(-1), lambda *_: None, {**os.environ, **fake.env})
    try:
        fake.wait_for("nvmlDeviceGetPerformanceState")
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        status = Path(f"/proc/{process.pid}/status").read_text()
        resident_kb = int(status.split("VmRSS:")[1].split()[0])

        assert not [name for name in ("pandas", "numpy", "hyperscan") if name in maps]
        assert resident_kb < 40_000
    finally:
        process.close()
        assert process.wait(5)


def test_a_thread_that_is_not_there_has_no_state() -> None:
    """Nothing readable gives empty words; a thread that runs has its letter."""
    assert thread_state(2**22 + 1, 1).state == ""
    assert thread_state(os.getpid(), 0).state in "RS"


@needs_compiler
def test_a_message_for_a_dead_child_is_dropped(tmp_path: Path) -> None:
    """Commands after its end raise nothing."""
    fake = FakeNvml(tmp_path, [ONE])
    process = NvmlProcess(wire.Settings(-1, once=True), lambda *_: None, {**os.environ, **fake.env})
    assert wait_until(lambda: process.ended)
    time.sleep(0.05)

    process.tell(do="skip", pci="0000:04:00.0")
    process.close()
    process.tell(do="stop")
    process.kill_outside_calls()
