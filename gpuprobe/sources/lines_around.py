"""What the lines around a line say of it: a pasted log, a patch, a command's body, a fence of code."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
    r"|(?i:.*\b(?:look|search|watch|check|grep)(?:p?ing)? (?:out )?for\b[^.?!]{0,60}\b(?:like|such as|similar to)(?: this| these| that)?\W*$|.*\bwhat to (?:look|search|watch) (?:out )?for\W*$)"
    r"|.*\byou(?:'ll|’ll| would| will| may| might| should)(?: \w+){0,2} (?:see|find|get|notice)\b[^.?!]*:\W*$"
    r"|.*\b(?:zum Beispiel|z\. ?B\.|[Bb]eispiel\w*|par exemple|[Ee]xemple|por ejemplo|[Ee]jemplo|por exemplo|[Ee]xemplo|per esempio|[Ee]sempio|[Нн]апример|[Пп]ример\w{0,2})[^.?!]{0,60}:\W*$"
    r"|.*(?:示例|例如|比如|样例|例えば|예시|예를 들)[^。？！]{0,20}[:：]\W*$"
)
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
_LIST_ITEM = regex(r"^\s*\".*\",?\s*$")


def looks_pasted(lines: Sequence[str]) -> bool:
    """True if lines are plainly program output: several log lines, a prompt, a table, a fence.

    Args:
        lines: A line and its neighbours, as they stand.
    """
    lines = [RUNS.sub("  ", line[:REACH]) for line in lines if line.strip()]
    if sum(bool(LOG_LINE.match(line)) for line in lines) >= 2:
        return True
    if any(PROMPT.match(line) or MACHINE_OUTPUT.match(line) for line in lines):
        return True
    return len(lines) >= 2 and all(TOKEN.search(line) for line in lines)


def only_quotes(before: Sequence[str], *, framed: bool) -> bool:
    """True if the lines above say that a line is quoted and not logged.

    Args:
        before: The lines before it, nearest first, as they stand.
        framed: It has a log's prefix.
    """
    quoting = (in_patch, in_fence_of_code, in_command, in_prompt, in_test, in_literal)
    if any(quotes(before) for quotes in quoting):
        return True
    return not framed and (shown_as_example(before) or in_echo(before))


def in_patch(before: Sequence[str]) -> bool:
    """True if a line stands in a hunk of a patch that somebody quotes in an issue or a review.

    A fence named `diff` alone is not enough: reporters use it to colour their logs. Changed lines
    in it that are no log's show a patch.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    changed = 0
    for line in before:
        text = line.strip()
        if _HUNK.match(text):
            return True
        if text.startswith(("```", "~~~")):
            return text.lstrip("`~").startswith(("diff", "patch")) and changed >= 2
        if text[:1] in ("+", "-") and text[1:].strip() and not LOG_LINE.match(text[1:]):
            changed += 1
    return False


def shown_as_example(before: Sequence[str]) -> bool:
    """True if the words right above say that what follows is an example, as documentation does.

    A reporter's "example of my log" counts as a report.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    for line in before[:6]:
        text = _TAG.sub(" ", line[:REACH]).strip(" \t>*#`-")
        if text and not LOG_LINE.match(line) and not PROMPT.match(line):
            return bool(_EXAMPLE.match(text)) and not _OWN.search(text)
    return False


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
    for line in before:
        if opens := _LITERAL_OPENS.search(line[:REACH]):
            return opens["quote"] not in opens["rest"]
        if _LITERAL_CLOSES.match(line):
            return False
    return False


def in_test(before: Sequence[str]) -> bool:
    """True if a line stands in what a program printed while Go or pytest tested it.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    for line in before:
        if _TEST_ENDS.match(line):
            return False
        if _TEST_STARTS.match(line):
            return True
    return False


def in_command(before: Sequence[str]) -> bool:
    """True if a line stands in the body that a shell command above it sends or writes.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    for line in before[:12]:
        if _BODY_ENDS.search(line):
            return False
        if _BODY_STARTS.search(line):
            return True
    return False


def in_prompt(before: Sequence[str]) -> bool:
    """True if a line stands in a question to a model that an engine's log prints over lines.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    for line in before[:12]:
        opens = _PROMPT_OPENS.search(line[:REACH])
        if opens:
            return opens["quote"] not in opens["rest"]
        if _QUOTE_CLOSES.search(line[:REACH]):
            return False
    return False


def in_fence_of_code(before: Sequence[str]) -> bool:
    """True if a line stands in a fenced block that is said to be a program or a chart.

    Args:
        before: The lines before it, nearest first, as they stand.
    """
    for line in before:
        text = line.strip()
        if text.startswith(("```", "~~~")):
            return bool(_CODE_FENCE.match(text))
    return False
