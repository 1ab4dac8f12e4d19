"""One target under the fuzzer, in a process of its own, forked from one that has all imports.

All of gpuprobe is instrumented, so that what a part does with an input guides what is tried next.
Instrumenting takes far longer than starting a process does, and is done once.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path

import atheris  # the extra `fuzz` alone has it

# It names every module that it instruments.
with redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["gpuprobe"]):
    from fuzz import parts
    from fuzz.seeds import seeds, words_of
    from fuzz.targets import TARGETS

    parts.import_all()


def start(target: str, corpus: Path, artefacts: Path, options: Sequence[str]) -> int:
    """Start to fuzz a target.

    Args:
        target: Its name.
        corpus: Below it lie `TARGET/`, inputs that are added to, and `TARGET.log`, which gets
            what libFuzzer says.
        artefacts: Gets the input of a find.
        options: What libFuzzer is told besides.

    Returns:
        The id of the new process, to be waited for.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        # Standard input is the archive of nobody: a target that reads it must not wait.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        out = os.open(corpus / f"{target}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        _fuzz(target, corpus, artefacts, options)
    except Exception as error:
        print(f"could not start: {error!r}", file=sys.stderr, flush=True)
    finally:
        # Whatever it was, this process must not go on as its parent does.
        os._exit(os.EX_SOFTWARE)


def _fuzz(target: str, corpus: Path, artefacts: Path, options: Sequence[str]) -> None:
    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    for data in seeds(target):
        name = hashlib.sha256(data).hexdigest()[:20]
        (folder / name).write_bytes(data)
    dictionary = corpus / f"{target}.words"
    dictionary.write_text("".join(f'"{_spelt(word)}"\n' for word in words_of(target)))

    def try_one(data: bytes) -> None:
        try:
            TARGETS[target](data)
        except Exception:
            name = f"{target}-crash-{hashlib.sha256(data).hexdigest()[:20]}"
            (artefacts / name).write_bytes(data)
            raise

    atheris.Setup(
        ["fuzz", str(folder), f"-dict={dictionary}", f"-artifact_prefix={artefacts}/{target}-",
         *options],
        try_one,
    )  # fmt: skip
    atheris.Fuzz()


def _spelt(word: bytes) -> str:
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 0x80 else f"\\x{byte:02x}" for byte in word
    )
