"""Imports go one way, and heavy ones stay where they are used."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "gpuprobe"
MODULES = sorted(ROOT.rglob("*.py"))

ALL = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in MODULES}
"""Every part of the package: `rules`, `timeline`."""

ON_TOP = {"__init__", "__main__", "cli"}
"""What may import any part."""

BEHIND = {"events", "timeline", "rules", "verdict", "reporters", "cli", "sources", "api"}
"""What stands to the right of the parts that all others build on."""

FORBIDDEN = {
    "clock": ALL,
    "lazy_regex": ALL,
    "pace": ALL,
    "reading": ALL,
    "values": ALL,
    "identity": BEHIND,
    "errors": BEHIND,
    "secret_words": BEHIND,
    "output_file": BEHIND,
    "options": BEHIND,
    "explain": BEHIND,
    "explanations": BEHIND,
    "testing": ALL - {"testing", "errors", "identity"},
    "events": {"timeline", "rules", "verdict", "reporters", "cli", "sources", "api"},
    "diagnosis": {"timeline", "rules", "verdict", "reporters", "cli", "sources", "api"},
    "catalog": BEHIND,
    "sources": {"timeline", "rules", "verdict", "diagnosis", "reporters", "cli", "api"},
    "checks": {"reporters", "cli", "api"},
    "boots": {"reporters", "cli", "api"},
    "boot_history": {"reporters", "cli", "api"},
    "boot_rows": {"reporters", "cli", "api"},
    "jitcache": {"timeline", "rules", "verdict", "reporters", "cli", "api"},
    "joining": {"rules", "verdict", "reporters", "cli", "api"},
    "same_lines": {"timeline", "rules", "verdict", "reporters", "cli", "api"},
    "newest": {"rules", "reporters", "cli", "api"},
    "derive": {"timeline", "rules", "verdict", "reporters", "cli", "sources", "live", "api"},
    "live": {"reporters", "cli", "api"},
    "recording": {"rules", "verdict", "cli", "api"},
    "inside": {"events", "timeline", "rules", "verdict", "reporters", "cli", "api"},
    "hook": {"events", "timeline", "rules", "verdict", "cli", "api"},
    "clock_joining": {"timeline", "rules", "verdict", "reporters", "cli", "sources", "api"},
    "boot_numbers": {"timeline", "rules", "verdict", "reporters", "cli", "sources", "api"},
    "port_ties": {"timeline", "rules", "verdict", "reporters", "cli", "sources", "api"},
    "timeline": {"rules", "verdict", "reporters", "cli", "sources", "api"},
    "hosts": {"rules", "verdict", "reporters", "cli", "sources", "api"},
    "spoken_times": BEHIND,
    "selection": {"rules", "verdict", "reporters", "cli", "sources", "api"},
    "rules": {"verdict", "reporters", "cli", "sources", "api"},
    "verdict": {"reporters", "cli", "sources", "api"},
    "reporters": {"events", "timeline", "rules", "verdict", "sources", "cli", "api"},
    "api": {"reporters", "cli"},
    "report": {"cli"},
}
"""Part of the package to the parts it may not import."""

INSIDE = {
    "live/nvml": {"live.engine", "live.session", "live.sources", "live.window"},
    "live/engine": {"live.nvml"},
    "sources/files": {"sources.framing", "sources.wording", "sources.scanning", "sources.ingest"},
    "sources/framing": {"sources.wording", "sources.scanning", "sources.ingest", "sources.files"},
    "sources/wording": {"sources.scanning", "sources.ingest", "sources.files"},
    "sources/pci": {"sources.files", "sources.framing", "sources.wording", "sources.following"},
    "sources/scanning": {"sources.ingest", "sources.following", "sources.pci"},
}
"""A folder within a part to what it may not import of that part."""

EXCEPTIONS = {"gpuprobe.diagnosis.Input"}
"""How an input was read is known to the source alone, and shown as it is."""

ALLOWED_HEAVY = {
    "click": "cli/",
    "rich": ("cli/", "reporters/terminal.py", "reporters/live.py"),
    "hyperscan": "sources/",
    "numpy": ("sources/scanning/line_layouts.py", "sources/lines.py", "recording/", "report/"),
    "pandas": ("recording/", "report/", "timeline.py"),
    "pyudev": "sources/pci/udev.py",
    "pynvml": "live/nvml_child.py",
    "prometheus_client": "live/metrics.py",
    "altair": "report/",
    "vl_convert": "report/",
}
"""Library to where it may be imported."""

LATER_STANDARD = {"compression"}
"""What the standard library has since Python 3.14."""


@cache
def imports(path: Path) -> list[str]:
    """Full names of what a module imports, wherever the statement stands."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def part(path: Path) -> str:
    """The part that a module belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_every_part_has_its_place() -> None:
    """A new part says what it may not import."""
    assert FORBIDDEN.keys() == ALL - ON_TOP


def test_imports_go_one_way() -> None:
    """No module imports what stands to its right."""
    wrong = {
        (str(path.relative_to(ROOT)), name)
        for path in MODULES
        for name in imports(path)
        if name.startswith("gpuprobe.")
        and name.split(".")[1] in FORBIDDEN.get(part(path), ())
        and name not in EXCEPTIONS
    }

    assert not wrong


def test_folders_within_a_part_have_their_direction_too() -> None:
    """What NVML says is independent of the engine, framing of wording."""
    wrong = {
        (str(path.relative_to(ROOT)), name)
        for folder, behind in INSIDE.items()
        for path in sorted((ROOT / folder).glob("*.py"))
        for name in imports(path)
        if any(name.startswith(f"gpuprobe.{other}.") for other in behind)
    }

    assert all((ROOT / folder).is_dir() for folder in INSIDE)
    assert not wrong


def test_heavy_libraries_stay_where_they_are_used() -> None:
    """A post-mortem needs no driver library, and only the command line needs click."""
    wrong = {
        (where, name)
        for where, path in ((str(path.relative_to(ROOT)), path) for path in MODULES)
        for name in imports(path)
        if not where.startswith(ALLOWED_HEAVY.get(name.split(".")[0], ""))
    }

    assert not wrong


def test_each_library_that_is_imported_is_declared() -> None:
    """What a module imports itself stands in pyproject.toml, and is not only brought by another."""
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text("utf-8"))["project"]
    rows = chain(project["dependencies"], *project["optional-dependencies"].values())
    declared = {re.split(r"[<>=;\[ ]", row)[0].lower() for row in rows}
    names = {name.split(".")[0] for path in MODULES for name in imports(path)}
    homes = packages_distributions()

    others = names - sys.stdlib_module_names - LATER_STANDARD - {"gpuprobe"}
    missing = {
        name
        for name in others
        if not declared & {home.lower().replace("_", "-") for home in homes.get(name, [name])}
    }

    assert "numpy" in others
    assert not missing


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import gpuprobe", {"click", "rich", "pandas", "gpuprobe.diagnosis", "gpuprobe.api"}),
        ("import gpuprobe; gpuprobe.diagnose", {"click", "rich", "pandas"}),
        (
            "import sys; sys.argv = ['gpuprobe', '--help']; import runpy\n"
            "try: runpy.run_module('gpuprobe', run_name='__main__')\nexcept SystemExit: pass",
            {"rich", "pandas", "gpuprobe.api", "gpuprobe.diagnosis", "gpuprobe.cli.diagnose"},
        ),
        (
            "from gpuprobe.api import diagnose_text; diagnose_text('NVRM: Xid (PCI:0000:65:00): 8')",
            {"backports.zstd", "bz2", "lzma", "tarfile", "html", "json", "statistics", "shutil"}
            | {
                "hyperscan",
                "multiprocessing",
                "subprocess",
                "sqlite3",
                "gpuprobe.sources.files.machine",
            }
            | {"gpuprobe.verdict.scorecard", "gpuprobe.catalog.causes"},
        ),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code: str, absent: set[str]) -> None:
    """Importing the package, asking for help and judging a short log stay fast."""
    script = f"{code}\nimport sys; sys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert not absent & set(done.stderr.split())


def test_public_names_load_and_unknown_ones_do_not() -> None:
    """Each name in `__all__` is there; another one is an AttributeError."""
    import gpuprobe

    for name in gpuprobe.__all__:
        assert getattr(gpuprobe, name) is not None
    assert set(gpuprobe.__all__) <= set(dir(gpuprobe))
    with pytest.raises(AttributeError, match="no attribute 'diagnoze'"):
        _ = gpuprobe.diagnoze
