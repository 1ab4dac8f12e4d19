"""A process that looks at folders of a cache for a scan, so that a second core helps.

Run as `python -I -m gpuprobe.jitcache.worker CACHES` by `workers`. It has the caches' folders from
its parent as open files, gets a batch a line on its input and answers a line, both JSON, and ends
when its input does. Folders in which something is wrong are only named: the parent looks at those
itself.

- `CACHES`: for each cache its open file, its path and its kind.
- A batch: the number of its cache, the parts of the parent's path, the folders' names, and when the
  machine last ended uncleanly (seconds since the epoch, or null).
- An answer: entries checked, links met, the names to be looked at again, the names of folders with
  those of the folders in each, and the compute capabilities met in the cache so far.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuprobe.jitcache.batch import look_below
from gpuprobe.jitcache.look import Seen
from gpuprobe.jitcache.tree import Root


def main() -> None:
    """Answer batches until there is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent has it too, and ends our input
    roots = [Root.of_fd(fd, Path(path), cache) for fd, path, cache in json.loads(sys.argv[1])]
    for line in sys.stdin.buffer:
        number, parts, names, unclean_at = json.loads(line)
        answer = _looked(roots[number], tuple(parts), names, unclean_at)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _looked(
    root: Root, parts: tuple[str, ...], names: Sequence[str], unclean_at: float | None
) -> list[Any]:
    total = Seen()
    again: list[str] = []
    folders: list[tuple[str, Sequence[str]]] = []
    try:
        with root.folder(parts) as parent:
            for name in names:
                seen = look_below(parent, name, unclean_at)
                if seen.is_clean:
                    total.add(seen)
                    folders += [(name, seen.folders)] if seen.folders else []
                else:
                    again.append(name)
    except OSError:
        again, folders, total = [*names], [], Seen()
    return [total.checked, total.links, again, folders, sorted(root.architectures)]


if __name__ == "__main__":
    main()
