"""Turn saved logs into a pandas frame, a row an event, and pick out the Xids.

    python examples/timeline_to_pandas.py LOG...

Without arguments the incident in `left-the-bus` beside this file is read.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import gpuprobe


def main(paths: Sequence[str | Path]) -> None:
    """Print what each host's logs hold, and the Xids among it."""
    for timeline in gpuprobe.timelines(*paths):
        frame = timeline.to_frame()
        print(f"{timeline.host or 'a host that no line names'}: {len(frame)} events")
        print(frame.groupby("kind")["count"].sum().sort_values(ascending=False).head(8).to_string())
        xids = frame[frame["kind"] == "XidReported"]
        print(xids[["device", "input", "line", "text"]].to_string(max_colwidth=60, index=False))


if __name__ == "__main__":
    main(sys.argv[1:] or [Path(__file__).parent / "left-the-bus"])
