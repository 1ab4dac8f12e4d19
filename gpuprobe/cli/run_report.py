"""`gpuprobe run --report FILE`: the verdict of a failed run as a file to attach."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuprobe.diagnosis import Diagnosis


def write(path: Path, diagnosis: Diagnosis) -> str:
    """Write a redacted report in place of an older one, JSON where the name ends so.

    Returns:
        Why it could not be written, or "".
    """
    from gpuprobe.reporters.redact import Redactor

    redactor = Redactor()
    shown = redactor.diagnosis(diagnosis)
    text = io.StringIO()
    if path.suffix == ".json":
        from gpuprobe.reporters.json import JsonReporter

        JsonReporter().render(shown, text)
    else:
        from gpuprobe.reporters.markdown import MarkdownReporter

        MarkdownReporter(redactor).render(shown, text)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text.getvalue(), "utf-8", errors="backslashreplace")
        part.replace(path)
        if redactor.replaced():
            redactor.write_map(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        return f"{path}: {error.strerror or error}"
    return ""
