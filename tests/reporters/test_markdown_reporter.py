"""The Markdown form is safe to paste into an issue."""

from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt

from gpuprobe.diagnosis import Diagnosis, Kind, Verdict
from gpuprobe.reporters.markdown import MOST_CHARACTERS, MarkdownReporter, escape, fence


@pytest.mark.parametrize("name", ["loss", "nothing", "two_hosts"])
def test_the_whole_document_is_the_stored_one(name, request, rendered, compare) -> None:
    """Every character of the document is as it was."""
    compare(f"{name}.md", rendered(MarkdownReporter(), request.getfixturevalue(name)))


def test_a_hostile_log_makes_no_markup(hostile, rendered) -> None:
    """Rendered, there is no link, image, script or bold text of the log's own."""
    html = MarkdownIt("commonmark").enable("table").render(rendered(MarkdownReporter(), hostile))

    tags = {tag for tag in re.findall(r"<\s*(/?\w+)", html) if not tag.startswith("/")}
    assert tags <= {
        "h1", "h2", "h3", "table", "thead", "tbody", "tr", "th", "td", "p", "pre", "code",
        "strong", "em", "br", "details", "summary", "ul", "li",
    }  # fmt: skip
    hosts = [hostile, *hostile.other_hosts]
    rows = [row for one in hosts for verdict in one.verdicts for row in verdict.not_checked]
    assert html.count("<li>") == len(rows)
    assert html.count("<details>") == html.count("</details>") == 5
    for strong in re.findall(r"<strong>(.*?)</strong>", html, re.DOTALL):
        assert strong != "bold"


def test_outside_fences_nothing_is_a_mention_or_reference(hostile, rendered) -> None:
    """GitHub finds no user, issue number or address."""
    text = rendered(MarkdownReporter(), hostile)
    prose = re.sub(r"^(`{3,})\w*\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"(?<=How: )(`+) .*? \1$", "", prose, flags=re.MULTILINE)

    assert not re.search(r"@\w", prose)
    assert not re.search(r"#\d", prose)
    assert not re.search(r"GH-\d|https?://|www\.", prose)


def test_escaped_text_renders_as_it_was() -> None:
    """Escaping changes what Markdown makes of a text, not what a reader sees."""
    for text in (
        "a*b_c `d` [e](f) <g> & | ~h~ #1 @i 0000:04:00.0",
        "- no list",
        "1. no list",
        "+x",
    ):
        html = MarkdownIt("commonmark").render(escape(text))
        plain = re.sub(r"<!-- -->|</?p>|\n", "", html)
        for entity, letter in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
            plain = plain.replace(entity, letter)
        assert text == plain


def test_no_run_of_backticks_closes_a_fence() -> None:
    """The fence is longer than anything in it."""
    text = fence("a\n````\nb", "text")

    assert text.startswith("`````text\n")
    assert text.endswith("\n`````")


def test_a_huge_diagnosis_stays_below_the_limit(huge, rendered) -> None:
    """What GitHub would refuse is shortened, and says so."""
    text = rendered(MarkdownReporter(), huge)

    assert 5_000 < len(text) <= MOST_CHARACTERS
    assert "more" in text
    assert text.count("<details>") == text.count("</details>")


def test_the_reporter_redacts_by_itself(loss, rendered) -> None:
    """Nobody can write a Markdown report with names in it by accident."""
    text = rendered(MarkdownReporter(), loss)

    assert "kestrel" not in text
    assert "ines" not in re.findall(r"[a-z]+", text)
    assert "GPU-5f0c1a2b" not in text
    assert "0000:0b:00.0" in text
    assert "1 host (7 times)" in text


def test_ten_thousand_letters_in_one_line(rendered) -> None:
    """A summary of any length is cut."""
    diagnosis = Diagnosis((Verdict(Kind.NO_FAULT, None, "@" * 10_000),), ())

    assert len(rendered(MarkdownReporter(), diagnosis)) <= MOST_CHARACTERS
