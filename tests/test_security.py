"""What SECURITY.md promises, held by a look at the code and at what a run does."""

from __future__ import annotations

import ast
import io
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from gpuprobe.api import diagnose
from gpuprobe.errors import GpuprobeError
from gpuprobe.live import metrics
from gpuprobe.live.metrics import parse_endpoint
from gpuprobe.recording.writer import Recorder

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "gpuprobe").rglob("*.py"))

UNPACKERS = {"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml"}
NETWORK = {"urllib.request", "http.client", "requests", "httpx", "aiohttp", "ftplib", "smtplib"}
SOCKETS = {
    "recording/own.py": "the host's name",
    "cli/systemd.py": "systemd's own socket",
    "live/doorbell.py": "a socket of the same user",
    "live/metrics.py": "metrics, on loopback",
}
"""Modules that may import `socket`, and for what."""

LOG = b"[ 8000.5] NVRM: Xid (PCI:0000:5e:00): 79, pid=1, GPU has fallen off the bus.\n"


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    """Every import and call of every module, with the module's path below the package."""
    return [
        (str(path.relative_to(ROOT / "gpuprobe")), node)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)
    ]


def imported() -> Iterator[tuple[str, str]]:
    """Module and name of each import."""
    for where, node in nodes():
        if isinstance(node, ast.Import):
            yield from ((where, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield where, node.module


def spelled(node: ast.expr) -> str:
    """`os.system` of a name with attributes; "…" where something else begins it."""
    if isinstance(node, ast.Attribute):
        return f"{spelled(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "…"


@cache
def called() -> list[tuple[str, str, ast.Call]]:
    """Module, spelling and node of each call."""
    return [
        (where, spelled(node.func), node) for where, node in nodes() if isinstance(node, ast.Call)
    ]


def test_nothing_is_unpickled_or_evaluated() -> None:
    """No module imports what turns bytes into code or objects, or runs a text."""
    assert not [(where, name) for where, name in imported() if name.split(".")[0] in UNPACKERS]
    assert not [(where, name) for where, name, _ in called() if name in {"eval", "exec", "compile"}]


def test_no_shell_is_started_with_a_text() -> None:
    """Programs are started by argument lists alone."""
    for where, name, call in called():
        assert name not in {"os.system", "os.popen", "subprocess.getoutput"}, where
        for keyword in call.keywords:
            assert not (keyword.arg == "shell" and ast.unparse(keyword.value) != "False"), where


def test_nothing_reaches_for_the_network() -> None:
    """No module imports a client, and a socket only where its use is known."""
    assert not [(where, name) for where, name in imported() if name in NETWORK]
    users = {where for where, name in imported() if name in ("socket", "socketserver")}

    assert users <= set(SOCKETS)


def test_nothing_is_extracted_to_disk() -> None:
    """Members of archives are streamed: no module calls an extraction to a folder."""
    calls = {name.rpartition(".")[2] for _, name, _ in called()}

    assert not calls & {"extractall", "extract", "unpack_archive"}


@pytest.mark.parametrize("arguments", [["diagnose"], ["report", "-o", "out.md"], ["explain", "79"]])
def test_a_run_opens_no_socket(arguments: list[str], tmp_path: Path) -> None:
    """Judging a log and writing its report open no socket of any kind."""
    (tmp_path / "kern.log").write_bytes(LOG)
    script = (
        "import sys\n"
        "def watch(event, args):\n"
        "    if event in ('socket.__new__', 'socket.connect', 'socket.getaddrinfo'):\n"
        "        sys.stderr.write(f'socket: {event} {args}')\n"
        "        sys.stderr.flush()\n"
        "        import os; os._exit(99)\n"
        "sys.addaudithook(watch)\n"
        "from gpuprobe.cli import main\n"
        "main()\n"
    )
    log = [] if arguments[0] == "explain" else ["kern.log"]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments, *log],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip

    assert done.returncode in (0, 79), done.stderr


def test_a_recording_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Whatever the mask, a recording and what SQLite puts beside it have mode 0600."""
    before = os.umask(0)
    try:
        recorder = Recorder(tmp_path / "a.gpuprobe")
        recorder.commit((), timeout_s=10)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        recorder.end("stopped")
    finally:
        os.umask(before)

    assert set(modes.values()) == {0o600}, modes


def test_a_recording_is_not_made_through_a_link(tmp_path: Path) -> None:
    """A link that waits at its place is not followed."""
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "a.gpuprobe").symlink_to(tmp_path / "victim")

    with pytest.raises(GpuprobeError):
        Recorder(tmp_path / "a.gpuprobe")
    assert (tmp_path / "victim").read_text() == "mine"


def test_metrics_listen_on_loopback() -> None:
    """Without a host nobody but this machine can ask, and all that can be asked is to read."""
    assert parse_endpoint("9600")[0] == parse_endpoint(":9600")[0] == "127.0.0.1"
    refusal = metrics._Handler.do_POST  # answers 405 and nothing else: tests/live/test_metrics.py
    verbs = {
        name
        for name, does in vars(metrics._Handler).items()
        if name.startswith("do_") and does is not refusal
    }

    assert verbs == {"do_GET", "do_HEAD"}


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_paths_in_archives_lead_nowhere(kind: str, tmp_path: Path) -> None:
    """A member named `../../x`, an absolute one and a link write nothing and are read as text."""
    names = ("../../outside.log", "/outside.log", "a/../../outside.log")
    box = tmp_path / "box" / "deep"
    box.mkdir(parents=True)
    path = box / f"a.{kind}"
    if kind == "tar":
        with tarfile.open(path, "w") as tar:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = len(LOG)
                tar.addfile(member, io.BytesIO(LOG))
            link = tarfile.TarInfo("link.log")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(link)
    else:
        with zipfile.ZipFile(path, "w") as made:
            for name in names:
                made.writestr(name, LOG)
    before = sorted(tmp_path.rglob("*"))

    found = diagnose(path)

    assert found.exit_code == 79
    assert sorted(tmp_path.rglob("*")) == before
    assert not any("root:" in str(item) for item in found.verdicts)
