"""A healthy machine for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from machines import machine

from gpuprobe.testing.sysfs import FakeSysfs


@pytest.fixture
def tree(tmp_path: Path) -> FakeSysfs:
    """One GPU below one root port, all well."""
    return machine(tmp_path)
