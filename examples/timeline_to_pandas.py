"""Turn the evidence of a diagnosis into a pandas frame, a row a quoted line.

    python examples/timeline_to_pandas.py LOG...

Without arguments the incident in `left-the-bus` beside this file is read.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

import gpuprobe


def evidence_frame(diagnosis: gpuprobe.Diagnosis) -> pd.DataFrame:
    """Return one row a line of evidence, in the order of the verdicts.

    Columns: `verdict` and `role` (text), `at` (datetime64[ns, UTC], NaT where zone or year is not
    known), `at_raw` (the stamp as it stands), `input`, `line` (Int64), `count` (Int64), `text`.
    """
    rows = [
        {
            "verdict": verdict.kind.value,
            "role": evidence.role.value,
            "at": evidence.at,
            "at_raw": evidence.at_raw,
            "input": evidence.input,
            "line": evidence.line,
            "count": evidence.count,
            "text": evidence.text,
        }
        for verdict in diagnosis.verdicts
        for evidence in verdict.evidence
    ]
    columns = ["verdict", "role", "at", "at_raw", "input", "line", "count", "text"]
    frame = pd.DataFrame(rows, columns=columns)
    frame["at"] = pd.to_datetime(frame["at"], utc=True)
    return frame.astype({"line": "Int64", "count": "Int64"})


if __name__ == "__main__":
    paths = sys.argv[1:] or [Path(__file__).parent / "left-the-bus"]
    frame = evidence_frame(gpuprobe.diagnose(*paths))
    print(frame[["role", "at_raw", "input", "line", "text"]].to_string(max_colwidth=60))
