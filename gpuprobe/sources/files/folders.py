"""Folders of logs, walked without following links."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gpuprobe.sources.files.raw_input import UnreadableInput

FOLDER_DEPTH = 32
FILE_LIMIT = 20_000
"""Files taken from one folder."""


def walk(root: str) -> Iterator[str | UnreadableInput]:
    """Every file below that is no link, sorted; as links are not followed, no loop can form."""
    count = 0
    pending: list[tuple[str, int]] = [(root, 0)]
    real_root = os.path.realpath(root)
    while pending:
        folder, depth = pending.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            yield refused(folder, error)
            continue
        subfolders: list[tuple[str, int]] = []
        for entry in entries:
            try:
                is_link = entry.is_symlink()
                is_folder = entry.is_dir(follow_symlinks=False)
            except OSError as error:
                yield refused(entry.path, error)
                continue
            if is_link:
                outside = _link_out(entry.path, real_root)
                if outside is not None:
                    yield outside
            elif is_folder:
                if depth < FOLDER_DEPTH:
                    subfolders.append((entry.path, depth + 1))
                else:
                    yield UnreadableInput(
                        entry.path, f"more than {FOLDER_DEPTH} folders deep", "Name it itself."
                    )
            else:
                count += 1
                if count > FILE_LIMIT:
                    yield UnreadableInput(
                        root, f"more than {FILE_LIMIT} files in it", "Name the logs themselves."
                    )
                    return
                yield entry.path
        pending.extend(reversed(subfolders))


def _link_out(path: str, real_root: str) -> UnreadableInput | None:
    """A link inside the folder needs no word: what it points to is read itself."""
    target = os.path.realpath(path)
    if target == real_root or target.startswith(real_root.rstrip(os.sep) + os.sep):
        return None
    return UnreadableInput(
        path, "a link that leads out of the folder", "Name its target itself.", expected=True
    )


def refused(path: str, error: Exception) -> UnreadableInput:
    """What an error on opening or reading a path says to the user."""
    if isinstance(error, PermissionError):
        return UnreadableInput(path, "no permission to read it", "Try with sudo.")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UnreadableInput(path, reason, "Check that the file is there and readable.")
