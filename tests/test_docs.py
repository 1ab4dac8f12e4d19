"""The pages say what the program does."""

from __future__ import annotations

import os
import re
import runpy
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gpuprobe.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"^```console\n\$ gpuprobe (?P<args>[^\n]*)\n(?P<output>.*?)```$", re.M | re.S)
SHOWN_LINES = 24
"""How much of a long output the README shows."""
REST = "[…]\n"


def output_of(args: str) -> str:
    """What a command of the README prints, run from the top of the checkout, as shown there."""
    result = CliRunner().invoke(main, shlex.split(args), prog_name="gpuprobe", terminal_width=80)
    lines = result.stdout.splitlines(keepends=True)
    if "--help" in args or len(lines) <= SHOWN_LINES:
        return "".join(lines)
    return "".join(lines[:SHOWN_LINES]).rstrip("\n") + "\n" + REST


def test_readme_shows_what_the_program_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Help and the example verdict are current; GPUPROBE_STORE=1 brings them up to date."""
    monkeypatch.chdir(ROOT)
    text = README.read_text("utf-8")
    blocks = list(BLOCK.finditer(text))
    if os.environ.get("GPUPROBE_STORE"):

        def fill(match: re.Match[str]) -> str:
            return f"```console\n$ gpuprobe {match['args']}\n{output_of(match['args'])}```"

        README.write_text(BLOCK.sub(fill, text), "utf-8")
        blocks = list(BLOCK.finditer(README.read_text("utf-8")))

    assert len(blocks) == 2
    for block in blocks:
        assert output_of(block["args"]) == block["output"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_is_documented(name: str) -> None:
    """Command, options and arguments say what they are for, and the README lists the command."""
    command = main.get_command(click.Context(main), name)

    assert command is not None
    assert command.help
    assert f"| `gpuprobe {name}" in README.read_text("utf-8")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help or parameter.hidden, parameter.name


def test_readme_lists_no_command_that_does_not_exist() -> None:
    """What is documented can be run."""
    listed = re.findall(r"^\| `gpuprobe ([\w-]+)", README.read_text("utf-8"), re.M)

    assert sorted(COMMANDS) == sorted(listed)


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """Each relative link names a file."""
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_python_in_the_library_page_runs(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """The worked example works and finds the loss among the examples."""
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "library.md").read_text("utf-8")
    scope: dict[str, object] = {}
    for code in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S):
        exec(compile(code, "library.md", "exec"), scope)

    assert "GPU 0000:04:00.0 left the bus" in capsys.readouterr().out


def test_the_pandas_example_shows_the_xids(capsys) -> None:
    """It reads an incident and prints the Xids with their lines."""
    example = runpy.run_path(str(ROOT / "examples" / "timeline_to_pandas.py"))

    example["main"]([ROOT / "examples" / "left-the-bus"])

    shown = capsys.readouterr().out
    assert "lathe: " in shown
    assert "0000:04:00.0" in shown


def test_the_frame_of_a_timeline_has_the_documented_columns() -> None:
    """The table in docs/library.md and the frame's dtypes agree."""
    import gpuprobe

    (timeline,) = gpuprobe.timelines(ROOT / "examples" / "left-the-bus")
    dtypes = {name: str(dtype) for name, dtype in timeline.to_frame().dtypes.items()}

    assert dtypes["at"] == "datetime64[ns, UTC]"
    assert dtypes["line"] == "Int64"
    assert dtypes["count"] == "int64"
    page = (ROOT / "docs" / "library.md").read_text()
    assert all(f"`{name}`" in page for name in dtypes)


@pytest.mark.parametrize(("name", "code"), [("left-the-bus", 79), ("healthy-trap", 1)])
def test_each_example_ends_with_its_code(name: str, code: int) -> None:
    """The two that print the same CUDA error are told apart."""
    result = CliRunner().invoke(main, ["diagnose", "-q", str(ROOT / "examples" / name)])

    assert result.exit_code == code
