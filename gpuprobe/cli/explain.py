"""`gpuprobe explain`: what a code means, in plain words, with its source."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

import click

from gpuprobe.cli import options
from gpuprobe.explain import Answer, explain_all
from gpuprobe.explanations import Explanation
from gpuprobe.reporters.plain import printable

WIDTH = 80
LABEL = 16
UNKNOWN = 2
"""Exit code when something asked is not known."""


@click.command("explain")
@click.argument("codes", metavar="CODE...", nargs=-1, required=True)
@options.format_("text", "json", "markdown", help_="How to show it.")
@click.pass_context
def command(ctx: click.Context, codes: tuple[str, ...], format_: str) -> None:
    """Say what a code or a verdict kind means, with its source.

    CODE is an Xid (79, xid79), a CUDA error by number, name or words, an AER bit ("AER 5", SDES),
    an NVML code ("NVML 15"), a driver status (0x0f), a recovery action ("154 0x2"), a cause rule
    (L1) or a verdict kind (device-left-bus). A number with several meanings gets each.

    Exit codes: 0 all are known, 2 something is not.
    """
    answers = explain_all(codes)
    shown = _FORMATS[format_](answers)
    if shown:
        click.echo(shown)
    lost = [answer for answer in answers if not answer.readings]
    if format_ != "json":
        for answer in lost:
            click.echo(_not_found(answer), err=True)
    if not all(answer.known for answer in answers):
        ctx.exit(UNKNOWN)


def _not_found(answer: Answer) -> str:
    hint = f" Did you mean {' or '.join(answer.suggestions)}?" if answer.suggestions else ""
    return f"{printable(answer.query)!r} is not in the catalogue.{hint}"


def render_text(answers: Sequence[Answer]) -> str:
    """The answers as text of at most 80 columns."""
    blocks = []
    for answer in answers:
        blocks += ["\n".join(_text(reading)) for reading in answer.readings]
        if answer.readings and answer.suggestions:
            blocks.append(f"Known and near it: {', '.join(answer.suggestions)}")
    return "\n\n".join(blocks)


def _text(reading: Explanation) -> Iterator[str]:
    yield from _wrap(f"{reading.topic}: {reading.title}")
    if not reading.page:
        yield from _wrap(reading.meaning, "  ")
    for label, text in reading.facts:
        yield from _fact(label, text)
    if reading.page:
        yield ""
        yield from (f"  {line}".rstrip() for line in _page(reading.page))
        yield ""
    for number, source in enumerate(reading.source.split("; ") if reading.source else ()):
        yield from _fact("" if number else "Source", source)


def _page(page: str) -> Iterator[str]:
    """A rule's page with its paragraphs filled anew; lines of one indent belong together."""
    for indent, group in groupby(page.splitlines(), key=_indent):
        text = " ".join(line.strip() for line in group)
        width = WIDTH - 2
        yield from textwrap.wrap(
            text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        ) or [""]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())] if line.strip() else "\n"


def _fact(label: str, text: str) -> list[str]:
    head = f"  {label:<{LABEL}}"
    return textwrap.wrap(
        printable(text),
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    )


def _wrap(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        printable(text),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent or "  ",
        break_on_hyphens=False,
    )


def render_markdown(answers: Sequence[Answer]) -> str:
    """The answers as Markdown, a heading each."""
    blocks = []
    for answer in answers:
        for reading in answer.readings:
            lines = [
                f"## {reading.topic}: {reading.title}",
                "",
                reading.page or reading.meaning,
                "",
            ]
            lines += [f"- **{label}**: {text}" for label, text in reading.facts]
            lines += [f"- **Source**: {reading.source}"] if reading.source else []
            blocks.append("\n".join(lines))
        if answer.readings and answer.suggestions:
            blocks.append(f"Known and near it: {', '.join(answer.suggestions)}")
    return "\n\n".join(blocks)


def render_json(answers: Sequence[Answer]) -> str:
    """The answers as one JSON document, schema `gpuprobe.explain/1`."""
    document = {
        "schema": "gpuprobe.explain/1",
        "answers": [
            {
                "query": answer.query,
                "known": answer.known,
                "readings": [
                    {
                        "topic": reading.topic,
                        "title": reading.title,
                        "meaning": reading.meaning,
                        "facts": dict(reading.facts),
                        "page": reading.page or None,
                        "source": reading.source,
                        "known": reading.known,
                    }
                    for reading in answer.readings
                ],
                "suggestions": list(answer.suggestions),
            }
            for answer in answers
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


_FORMATS = {"text": render_text, "json": render_json, "markdown": render_markdown}
