"""Binary systemd journals, read through journalctl: their format belongs to systemd."""

from __future__ import annotations

import os
from pathlib import Path

from gpuprobe.sources.files.unpack import BLOCK, Blocks

HINT = "Convert it where journalctl is: journalctl --file FILE -o json > journal.json"


def _journalctl() -> str | None:
    from shutil import which  # imports three decompressors, for which every input would wait

    return which("journalctl")


def available() -> bool:
    """True when journalctl is installed here."""
    return _journalctl() is not None


def read_blocks(path: str, notes: list[str]) -> Blocks:
    """The journal at `path` as `journalctl -o json` writes it.

    Args:
        path: Of a journal file.
        notes: Gets a text when journalctl could not read all of it.
    """
    if any(char in path for char in "*?[\\"):
        import tempfile  # here and below: few inputs are journals, and all would wait for it

        # journalctl takes these as a pattern: give it a name without them.
        with tempfile.TemporaryDirectory(prefix="gpuprobe-") as folder:
            plain = Path(folder, "plain.journal")
            plain.symlink_to(Path(path).absolute())
            yield from _run(str(plain), notes)
    else:
        yield from _run(str(Path(path).absolute()), notes)


def read_stream(blocks: Blocks, notes: list[str]) -> Blocks:
    """The same for a journal that is no file yet: it goes to a private temporary one first."""
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="gpuprobe-", suffix=".journal") as copy:
        try:
            for block in blocks:
                copy.write(block)
            copy.flush()
        except OSError as error:
            notes.append(f"the journal could not be unpacked to read it ({error.strerror})")
            return
        yield from _run(copy.name, notes)


def _run(path: str, notes: list[str]) -> Blocks:
    import subprocess
    import tempfile

    command = [
        _journalctl() or "journalctl",
        f"--file={path}",
        "--output=json",
        "--no-pager",
        "--quiet",
        "--all",
    ]
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(  # noqa: S603 - a fixed command, the path behind `=`
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
                env={**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0"},
            )
        except OSError as error:
            notes.append(f"journalctl could not be started ({error.strerror})")
            return
        assert process.stdout is not None
        try:
            while block := os.read(process.stdout.fileno(), BLOCK):
                yield block
            process.wait()
        finally:
            process.stdout.close()
            if process.poll() is None:
                process.kill()
                process.wait()
        complaints.seek(0)
        said = complaints.read(400).decode("utf-8", errors="replace").strip().replace("\n", " ")
        if process.returncode or said:
            notes.append(f"journalctl: {said or f'ended with {process.returncode}'}")
