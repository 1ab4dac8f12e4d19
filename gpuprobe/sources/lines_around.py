"""What the lines around a line say of it: a pasted log, a patch, a command's body, a fence of code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.line_shapes import (
    LIST_KEY,
    LOG_LINE,
    MACHINE_OUTPUT,
    PROMPT,
    REACH,
    RUNS,
    TOKEN,
)

_HUNK = regex(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@|diff --git |\+\+\+ b/")
_BODY_STARTS = regex(
    r"(?:^|\s)(?:-d|--data(?:-raw|-binary)?|--json)[ =]['\"$]\S{0,3}\s*$|<<-?\s*['\"]?[A-Z]{2,}\b"
)
_BODY_ENDS = regex(r"^\s*(?:[}\]]*['\"]\s*(?:\\|\|.*|>.*)?$|[A-Z]{2,}$|```)")
_CODE_FENCE = regex(
    r"(?:`{3,}|~{3,})\s*(?:mermaid|go|golang|python|py|rust|c|cpp|c\+\+|java|javascript|js|ts|typescript|"
    r"promql|hcl|terraform|jinja2?|regex|sql|proto|plantuml|dockerfile)\s*$",
    re.IGNORECASE,
)

_EXAMPLE = regex(
    r"(?:(?:For|An?|The|Typical|Common) )?(?:[Ee]xamples?|[Ss]ample|[Tt]ypical)\b[^.?!]{0,80}:\W*$|(?:It|This|They|These|A line|The line|The message)\b[^.?!]{0,60}\b(?:looks? like|reads?|prints?)\b[^.?!]{0,30}:\W*$"
    r"|(?:When(?:ever)?|If|Look|Search|Check|Watch|Grep|You(?:'ll| may| will| might| can| should))\b[^.?!]{0,60}\b(?:such as|like(?: this| these)?)\W*$"
    r"|[Tt]ypical\b[^.?!:]{0,60}$|.*\w::$|.*\b(?:a line such as|similar to the following)\W*$"
    r"|(?i:.*\b(?:look|search|watch|check|grep)(?:p?ing)?\b[^.?!]{0,40} for\b[^.?!]{0,60}\b(?:like|such as|similar to)(?: this| these| that)?\W*$|.*\bwhat to (?:look|search|watch) (?:out )?for\W*$)"
    r"|.*\byou(?:'ll|’ll| would| will| may| might| should)(?: \w+){0,2} (?:see|find|get|notice)\b[^.?!]*:\W*$"
    r"|.*\b(?:zum Beispiel|z\. ?B\.|[Bb]eispiel\w*|par exemple|[Ee]xemple|por ejemplo|[Ee]jemplo|por exemplo|[Ee]xemplo|per esempio|[Ee]sempio|[Нн]апример|[Пп]ример\w{0,2})[^.?!]{0,60}:\W*$"
    r"|.*(?:示例|例如|比如|样例|例えば|예시|예를 들)[^。？！]{0,20}[:：]\W*$"
)
_IMAGINED = regex(
    r"\bwould (?:then |also |only )?(?:show|say|print|log|contain|report)\b[^.?!]{0,60}$"
    r"|\b(?:[Yy]ou|[Oo]ne|[Tt]hey)(?:'d|’d| would| may| might) (?:then |also )?(?:see|find|get|notice)\b[^.?!]{0,60}$"
)
"""What follows would be seen if things were otherwise."""
_FIRST_PERSON = regex(r"\b(?:I|[Mm]y|[Mm]ine|[Ww]e|[Oo]urs?)\b")
_SAMPLE = regex(
    r"(?i:\b(?:examples?|e\.g\.|samples?|such as|looks? like|reads? like|lines? like|something like|similar to|typical(?:ly)?|for instance|zum Beispiel|z\. ?B\.|Beispiel\w*|par exemple|exemple|por ejemplo|ejemplo|por exemplo|per esempio|ad esempio)(?!\w)|\b(?:например|пример\w{0,2})\b)"
    r"|例如|比如|示例|样例|例えば|예를 들|예시"
)
"""What stands above a sample, and above many a log."""
_MADE_UP = regex(
    r"\[ *(?:123\.456\d{0,3}|1234\.567\d{0,3}|12345\.678\d{0,3}|\d{1,8}\.0{6})\]|\bJan (?: ?1|01) 00:00:00\b|\bpid=(?:1234|12345|123)\b"
)
"""The figures that people make up; no one log has all of its own like these."""
_ECHO = regex(r"\b(?:echo|printf) (?:-\w+ )?(?P<quote>[\"']).+(?P=quote)\s*\|\s*(?:sudo )?tee\b")
_OWN = regex(
    r"\b(?:I|[Mm]y|[Ww]e|[Oo]urs?|me|us|today|yesterday|ich|mir|[Mm]eine?[mnrs]?|wir|[Uu]nsere?[mnrs]?|gestern|heute|j'|mon|ma|mes|notre|hier|mis?|nuestr[oa]s?|ayer|meu|minha|ontem|mio|mia)\b"
    r"|(?i:\b(?:у меня|мо(?:й|я|и|его|ей|ём|ем)|наш\w*|вчера|сегодня)\b)|我|今天|昨天|昨晚|私|うち|내|우리"
)
"""The reporter's own, his log or his machine."""
_PROMPT_OPENS = regex(r"\bprompt[\"']?\s*[:=]\s*(?P<quote>[\"'])(?P<rest>.*)$")
_QUOTE_CLOSES = regex(r"[\"'](?:[,)}]|\s*$)")
_TAG = regex(r"<[^<>]{1,80}>")
_LITERAL_OPENS = regex(
    r"(?:^\s*[A-Za-z_][\w.]*(?:: ?\w+)? ?:?= ?|\breturn |\w\()[rbfRBF]{0,2}(?P<quote>\"{3}|'{3}|`(?!`))(?P<rest>.*)$"
)
_LITERAL_CLOSES = regex(r"^[^\"'`]*(?:\"{3}|'{3}|`)[),;.\w]*\s*$")
_TEST_STARTS = regex(
    r"=== (?:RUN|CONT|NAME)\s+Test\w|-{3,} Captured (?:stdout|stderr|log) (?:call|setup|teardown) -{3,}"
)
_TEST_ENDS = regex(r"--- (?:PASS|FAIL|SKIP): |(?:PASS|FAIL|ok)(?:\s|$)|={5,}")
_TEST_NAME = regex(r"_{3,} (?:\w+\.)?[Tt]est\w*(?:\[.*\])? _{3,}$")
_DOUBLE = regex(
    r"\b(?:monkeypatch|mocker|Mock|MagicMock|mock_\w+|side_effect)\b|\bpatch(?:\.\w+)?\("
)
_RUNNER = regex(r"^\[?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z\]? ")
"""The stamp that a CI's runner puts before each line of a job's output."""
_LIST_ITEM = regex(r"^\s*\".*\",?\s*$")


def looks_pasted(lines: Sequence[str]) -> bool:
    """True if lines are plainly program output: several log lines, a prompt, a table, a fence.

    Args:
        lines: A line and its neighbours, as they stand.
    """
    lines = [line for line in lines if line.strip()]
    if sum(map(_begins_as_log, lines)) >= 2:
        return True
    if any(map(_is_output, lines)):
        return True
    return len(lines) >= 2 and all(map(_holds_token, lines))


def only_quotes(before: Sequence[str], *, framed: bool, line: str = "") -> bool:
    """True if the lines above say that a line is quoted and not logged.

    Args:
        before: The lines before it, nearest first, as they stand.
        framed: It has a log's prefix.
        line: It, as it stands.
    """
    quoting = (
        in_patch, in_fence_of_code, in_command, in_prompt, in_test, raised_by_double, in_literal
    )  # fmt: skip
    if any(quotes(before) for quotes in quoting) or imagined(before):
        return True
    if _MADE_UP.search(line[:REACH]) and shown_as_sample(before):
        return True
    return not framed and (shown_as_example(before) or in_echo(before))


# What one line says is asked for each line that stands near it, so the answers are kept.
_kept = lru_cache(128)


@_kept
def _begins_as_log(line: str) -> bool:
    return LOG_LINE.match(RUNS.sub("  ", line[:REACH])) is not None


@_kept
def _is_output(line: str) -> bool:
    line = RUNS.sub("  ", line[:REACH])
    return PROMPT.match(line) is not None or MACHINE_OUTPUT.match(line) is not None


@_kept
def _holds_token(line: str) -> bool:
    return TOKEN.search(RUNS.sub("  ", line[:REACH])) is not None


def _first(answers: Iterable[bool | None]) -> bool:
    """The answer of the nearest line that says something; no if none does."""
    for answer in answers:
        if answer is not None:
            return answer
    return False


def in_patch(before: Sequence[str]) -> bool:
    """True if a line stands in a hunk of a patch that somebody quotes in an issue or a review.

    A fence named `diff` alone is not enough: reporters use it to colour their logs. Changed lines
    in it that are no log's show a patch.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    changed = 0
    for line in before:
        mark = _mark_of_patch(line)
        if mark == "changed":
            changed += 1
        elif mark:
            return mark == "hunk" or (mark == "patch" and changed >= 2)
    return False


@_kept
def _mark_of_patch(line: str) -> str:
    text = line.strip()
    if _HUNK.match(text):
        return "hunk"
    if text.startswith(("```", "~~~")):
        return "patch" if text.lstrip("`~").startswith(("diff", "patch")) else "fence"
    is_changed = text[:1] in ("+", "-") and text[1:].strip() and not LOG_LINE.match(text[1:])
    return "changed" if is_changed else ""


def shown_as_example(before: Sequence[str]) -> bool:
    """True if the words right above say that what follows is an example, as documentation does.

    A reporter's "example of my log" counts as a report.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    text = _said_above(before)
    return bool(_EXAMPLE.match(text)) and not _OWN.search(text)


def imagined(before: Sequence[str]) -> bool:
    """True if the words right above say what a log would show, and so does not.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    text = _said_above(before).rstrip(" :")
    return _IMAGINED.search(text) is not None and not _FIRST_PERSON.search(text)


def shown_as_sample(before: Sequence[str]) -> bool:
    """True if the words right above may introduce a sample, and nobody says that it is his own.

    Not enough for a line as drivers write it; for one whose figures are made up it is.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    text = _said_above(before)
    return _SAMPLE.search(text) is not None and not _OWN.search(text)


def _said_above(before: Sequence[str]) -> str:
    """The nearest of the few lines above that is no log's, without marks; "" for none."""
    return next(filter(None, map(_words_of, before[:6])), "")


@_kept
def _words_of(line: str) -> str:
    if LOG_LINE.match(line) or PROMPT.match(line):
        return ""
    return _TAG.sub(" ", line[:REACH]).strip(" \t>*#`-")


def in_echo(before: Sequence[str]) -> bool:
    """True if the command right above prints a line of its own: `echo "..." | sudo tee /dev/kmsg`.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    return bool(before) and _ECHO.search(before[0][:REACH]) is not None


def in_printed_list(before: Sequence[str]) -> bool:
    """True if a string stands in a JSON list that a tool printed: Ansible's `"stdout_lines": [`.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    for line in before:
        if LIST_KEY.match(line):
            return True
        if not _LIST_ITEM.match(line):
            return False
    return False


def in_literal(before: Sequence[str]) -> bool:
    """True if a line stands in a string over several lines, as tests of programs hold samples.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    return _first(map(_opens_literal, before))


@_kept
def _opens_literal(line: str) -> bool | None:
    if opens := _LITERAL_OPENS.search(line[:REACH]):
        return opens["quote"] not in opens["rest"]
    return False if _LITERAL_CLOSES.match(line) else None


def in_test(before: Sequence[str]) -> bool:
    """True if a line stands in what a program printed while Go or pytest tested it.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    return _first(map(_starts_test, before))


@_kept
def _starts_test(line: str) -> bool | None:
    line = _RUNNER.sub("", line, count=1)
    if _TEST_ENDS.match(line):
        return False
    return True if _TEST_STARTS.match(line) else None


def raised_by_double(before: Sequence[str]) -> bool:
    """True if a test of pytest's stands above that put a double in the place of a call.

    What other tests raise may have happened: some ask the driver itself.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    doubled = False
    for line in before:
        mark = _mark_of_double(line)
        if mark == "test":
            return doubled
        doubled = doubled or mark == "double"
    return False


@_kept
def _mark_of_double(line: str) -> str:
    if _TEST_NAME.match(line):
        return "test"
    return "double" if _DOUBLE.search(line[:REACH]) else ""


def in_command(before: Sequence[str]) -> bool:
    """True if a line stands in the body that a shell command above it sends or writes.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    return _first(map(_starts_body, before[:12]))


@_kept
def _starts_body(line: str) -> bool | None:
    if _BODY_ENDS.search(line):
        return False
    return True if _BODY_STARTS.search(line) else None


def in_prompt(before: Sequence[str]) -> bool:
    """True if a line stands in a question to a model that an engine's log prints over lines.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    return _first(map(_opens_prompt, before[:12]))


@_kept
def _opens_prompt(line: str) -> bool | None:
    if opens := _PROMPT_OPENS.search(line[:REACH]):
        return opens["quote"] not in opens["rest"]
    return False if _QUOTE_CLOSES.search(line[:REACH]) else None


def in_fence_of_code(before: Sequence[str]) -> bool:
    """True if a line stands in a fenced block that is said to be a program or a chart.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    return _first(map(_opens_code, before))


@_kept
def _opens_code(line: str) -> bool | None:
    text = line.strip()
    return bool(_CODE_FENCE.match(text)) if text.startswith(("```", "~~~")) else None
