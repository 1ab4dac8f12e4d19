"""What kind of text a whole input is: a log, or a program, a document, an article.

Words in a program or in documentation prove nothing, whatever they say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.line_shapes import (
    CODE_ROW,
    LIST_KEY,
    LOG_LINE,
    MACHINE_OUTPUT,
    PROMPT,
    REACH,
    RUNS,
    TOKEN,
)

_SOURCE_LINE = regex(
    r"^\s*(?:#include\b|#define\b|#if\w*\b|#endif\b|import [\w.]+(?: as \w+)?;?$|from [\w.]+ import |(?:async )?def \w+\(|class \w+.*[:{]$|func \w*\(?|fn \w+|(?:pub |static |const |extern |inline |export )+\w|"
    r"package \w+;?$|use \w+::|@\w+(?:\.\w+)*(?:\(.*\))?$|(?:if|for|while|switch|else if|elif) ?\(?.*[{:]$|else ?[:{]$|\} else|return\b.*|try ?[:{]$|except\b.*:$|with .* as \w+:$|"
    r"[})\]]+[;,]?$|/\*|\*/|\* |//|\"\"\"|assert\b[ (]|(?:let|var|const|static|struct|enum|typedef|int|void|char|bool|local) .*[;{=,(]$|[\w.>\[\]-]+ ?[+:|-]?= .*[;({\[]?$|[\w.>-]+\(.*\)[;,]?$|.*;$|[rbf]?[\"'].*[\"'],?$)"
)
_SURE_SOURCE = regex(
    r"(?:from [\w.]+ import [\w(*]|import [\w.]+(?: as \w+)?$|(?:async )?def \w+\(|class \w+(?:\(.*\))?:$|[A-Z_]{3,} = [\[({\"']|#include [<\"]|#ifn?def \w+$|#define \w+|"
    r"package \w+$|func \w+\(|(?:pub )?fn \w+|use \w+::|(?:static|extern|typedef|struct|export|const) \w.*[;{(]$)"
)
_PATCH = regex(
    r"^(?:diff --git |@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@|From [0-9a-f]{40} |Index: \S+$)"
)
_RULE_FILE = regex(
    r"^\s*(?:- alert:|expr:|- name: .*alert|kind: (?:PrometheusRule|ConfigMap|DaemonSet|AlertingRule)|- record:|groups:$|alerting:|- pattern:|- regex:|- expression: |zabbix_export:$|\s*\"?pattern\"?: |- match:|\"(?:expr|panels|targets|legendFormat|datasource|fieldConfig)\"\s*:)"
)
"""Rules of alerts, and the dashboards that Grafana keeps as JSON."""
_JSON_PAIR = regex(r"^\s*\"[\w .-]+\"\s*:\s")
_GIVEN = regex(r"^\s*(?:- )?[\"']?(?:input|given|in|sample|stdin)[\"']?\s*:\s*\S")
_EXPECTED = regex(
    r"^\s*(?:- )?[\"']?(?:expect(?:ed|s)?|want(?:ed)?|expected_\w+|should_\w+)[\"']?\s*:"
)
"""A case of a test that is kept as data: what is given, and what has to come out."""
_HEADING = regex(r"^#{1,6} [A-Z\d\[\"`'*(]|^(?:={4,}|-{4,}|~{4,})$")
_DOCUMENT = regex(
    r"^(?:\.TH |\.SH |\.\. (?:_\w|code|note|toctree|list-table)|title: |:toc:|= [A-Z]|## \[?v?\d+\.\d+|# Change ?log|[A-Z0-9_-]+\(\d\) {2,}\w)",
    re.IGNORECASE,
)
_FAQ = regex(r"#{1,6} (?:FAQs?|Frequently Asked Questions)\b")
_REPORTER = regex(
    r"\bI(?:'m|'ve|’m|’ve)?\b (?:have|am|was|saw|see|get|got|run|ran|tried|think|use|upgraded|can)|\b[Mm]y (?:GPU|system|card|machine|server|log|setup|PC|computer)|[Dd]escribe the bug|[Ss]teps to reproduce|"
    r"[Ww]hat happened|[Ee]xpected behaviou?r|^#+ *(?:[Bb]ug [Rr]eport|\[(?:[Bb]ug|BUG|[Uu]sage|[Qq]uestion|[Hh]elp|[Ii]ssue)\]|(?:My )?[Ee]nvironment$)|[Ww]hat happens|[Aa]ctual behaviou?r|Start of NVIDIA bug report|[Rr]elevant log output"
)
_HAPPENED = regex(
    r"\b(?:I|[Mm]y|[Oo]ur|[Ww]e|me|us|today|yesterday|last (?:night|week|month)|ago|again|after (?:updat|upgrad)\w+)\b|[Hh]elp\b|[Rr]eproduc"
)
"""Somebody tells what happened, or asks."""
_GENRE = regex(
    r"^(?:feat|fix|chore|docs?|refactor|test|perf)(?:\([\w ./-]+\))?!?: "
    r"|\b(?:[Dd]escription of changes|[Tt]esting [Dd]one|[Tt]est [Pp]lan|[Ss]igned-off-by|[Tt]his (?:PR|pull request|change|commit|patch)|[Rr]elease notes"
    r"|(?:is|are) (?:a|an|the|one of the) (?:\w+ ){1,3}(?:condition|error|failure|event|code|mode|bus|interface)s?|refers to|indicates? (?:a|an|that|the)|typically|[Rr]oot causes include"
    r"|[Ww]hat (?:it is|is an?)\b|[Ww]hy it matters|[Hh]ow to (?:monitor|detect|fix|prevent|resolve)|[Rr]elated (?:terms|topics)|[Gg]lossary|[Bb]est [Pp]ractices|[Rr]ecommended [Aa]ctions?|[Kk]ey takeaways?|operators? should)",
    re.MULTILINE,
)
"""What articles and the descriptions of changes say."""
_REVIEW = regex(
    r"^\W*(?P<nit>nit(?:pick)?s?:)|^```(?P<suggestion>suggestion)|(?P<suggested>\bSuggested changes?\b)|(?P<lgtm>\bLGTM\b)|(?P<squash>\b(?:squash|rebase)\b)|(?P<signed>\bSigned-off-by:|\bReviewed-by:|\bCo-authored-by:)"
    r"|(?P<this>\b[Tt]his (?:PR|MR|pull request|merge request|patch|changeset)\b|^Patch [Ss]et \d+\b|\bPS\d+, Line \d+)"
    r"|^#+ *(?P<heading>(?:Motivation|Proposed changes?|Description of changes?|Types? of changes?|Test(?:ing)? [Pp]lan|How (?:was|has) this(?: been)? tested\??|Checklist|Summary of changes?)\W*$)"
    r"|(?P<tests>\b(?:unit|regression) tests?\b|\badd(?:ed|s)? (?:a |some )?tests?\b|\btests? added\b|\btest for (?:it|this|that)\b)"
    r"|(?P<fixes>\b(?:Fixes|Closes|Resolves|Refs) #\d+)|^\W*(?P<review>Review(?:ed)? (?:on|of|by)\b|.*\b(?:approved these changes|requested changes|(?:commented|reviewed) on (?:this|lines?|\S+\.\w{1,4})\b))"
    r"|(?P<parser>\b(?i:the|our|an?|this|that) (?:\w+ )?(?:regexp?|parser|pattern|matcher|needle)\b|`(?:parse|match|detect|is)_\w+`)|(?P<conventional>^(?:feat|fix|chore|docs?|refactor|test|perf)(?:\([\w ./-]+\))?!?: )",
    re.MULTILINE,
)
"""What reviews and descriptions of changes to programs say; each group is one mark."""
_MARKS_OF_REVIEW = 3
_QUOTED_LINES = 1
"""Log lines that such a text quotes at most; whoever reports a loss has what came with it."""
_IN_LIFE = regex(
    r"\b(?:[Mm]y|[Oo]ur) (?:\w+ )?(?:GPUs?|cards?|machines?|nodes?|servers?|clusters?|hosts?|box(?:es)?|rigs?|logs?|dmesg|setups?|fleet|prod\w*)\b|\b(?:yesterday|today|last (?:night|week|month)|this morning|tonight|just (?:now|happened))\b"
    r"|\b(?:we|I) (?:just )?(?:hit|saw|see|had|have|got|get|lost|run|ran)\b|\bhappen(?:s|ed)\b|\bcrash(?:es|ed)\b|\bdie[sd]\b|\bbroke\b|\bfail(?:s|ed|ing)\b|\bhangs?\b|\bfroze\b|\bfreezes?\b|\breboot(?:s|ed)\b",
    re.IGNORECASE,
)
"""Something happened to somebody, who tells of it beside the change."""
_GO_FILE = regex(r"package \w+$")
_GO_SECTION = regex(r"(?:import (?:\(|\")|func [(\w]|type \w+ )")
_LOGGED_COMMIT = regex(r"commit [0-9a-f]{7,40}\b")
_COMMIT_FIELD = regex(r"(?:Author|AuthorDate|Merge): ")
_COMMIT = regex(
    r"^[*|/\\ ]*(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40} (?:\([^)]*\) )?[A-Za-z]"
)
"""A line of `git log --oneline`."""
_MENDED = regex(
    r"(?:[-*•+–] )?(?:Fix(?:ed|es)?|Resolv(?:ed|es)|Address(?:ed|es)) (?:an?|the|some|several) (?:\w+ ){0,2}(?:bugs?|issues?|problems?|regressions?|race|crash(?:es)?|errors?)\b"
)
"""A line of release notes."""
_XID_ROW = regex(r"[-*•+\W]*(?:Xid|XID|xid) ?#?(?P<code>\d{1,3}) ?(?:--?|[:–—=→]) ?[A-Za-z(]")
"""A line of a list of codes that has no table: `Xid 79 - GPU has fallen off the bus`."""
_SETTING = regex(
    r"(?:options|blacklist|install|alias|softdep) [a-z]\w*|GRUB_[A-Z_]+=|\[(?:Unit|Service|Install|Timer|SERVICE|INPUT|FILTER|OUTPUT|PARSER)\]$|(?:Name|Match|Regex|Exclude|Path|Tag|Parser|Host|Port|Key_Name|Log_Level|Flush) +\S|(?:Exec\w+|Environment|Restart\w*|WantedBy|After|Requires|Description|Type|User)="
)
"""A line of a file below /etc: modprobe.d, GRUB, a unit of systemd; Fluent Bit's."""
_CODE_LIST = regex(r"^\W*(?:xid|code|error code)\W*[,;|\t]\s*\w+", re.IGNORECASE)


def is_program_text(head_lines: Sequence[str]) -> bool:
    """True if an input is a program, a patch, a rule file, a list of codes or documentation.

    An issue that quotes logs, a shell transcript or a traceback is none of these.

    Args:
        head_lines: The first lines of the input, some dozens, as they stand.
    """
    lines = [RUNS.sub("  ", line[:REACH]).rstrip() for line in head_lines if line.strip()]
    if not lines:
        return False
    logged = sum(bool(LOG_LINE.match(line)) for line in lines)
    if logged * 4 >= len(lines) or any(PROMPT.match(line) for line in lines[:40]):
        return False
    if lines[0].startswith("#!/") or any(_PATCH.match(line) for line in lines[:30]):
        return True
    if _LOGGED_COMMIT.match(lines[0]) and any(_COMMIT_FIELD.match(line) for line in lines[1:2]):
        return True
    if any(
        MACHINE_OUTPUT.match(line) and "```" not in line and "~~~" not in line for line in lines
    ):
        return False
    if sum(bool(_RULE_FILE.match(line)) for line in lines) >= 2:
        return True
    if any(map(_GIVEN.match, lines)) and any(map(_EXPECTED.match, lines)):
        return True
    if len(lines) >= 2 and all(_COMMIT.match(line) for line in lines):
        return True
    if _CODE_LIST.match(lines[0]) and sum(bool(CODE_ROW.match(line)) for line in lines) >= 2:
        return True
    return (
        _is_source(lines)
        or _is_document(lines)
        or _is_configuration(lines)
        or (not logged and _is_list_of_facts(lines))
    )


def _commented(lines: Sequence[str]) -> list[bool]:
    """For each line, whether it lies in a block comment or a docstring."""
    inside, found = "", []
    for line in lines:
        text = line.strip()
        if inside:
            found.append(True)
            if inside in text:
                inside = ""
            continue
        start = next((s for s in ("/*", '"""', "'''") if text.lstrip("rR").startswith(s)), "")
        found.append(bool(start))
        end = "*/" if start == "/*" else start
        if start and end not in text[text.index(start) + len(start) :]:
            inside = end
    return found


def _is_source(lines: Sequence[str]) -> bool:
    if lines[0].lstrip().startswith(("{", "[")) and '"' in "".join(lines[:3]):
        return False  # JSON
    comments = _commented(lines)
    code = [line for line, comment in zip(lines, comments, strict=True) if not comment]
    statements = [line for line in code if not line.startswith("//")]
    if statements and _GO_FILE.match(statements[0]):
        # Most lines of a table of test cases look like fields that a tool printed.
        return any(_GO_SECTION.match(line) for line in statements[1:])
    shaped = [line for line in code if _SOURCE_LINE.match(line)]
    sure = sum(bool(_SURE_SOURCE.match(line)) for line in code)
    if comments[0] and sure >= 1:
        return True
    json_pairs = sum(bool(_JSON_PAIR.match(line)) for line in code)
    if not sure and (json_pairs * 3 >= len(code) or any(map(LIST_KEY.match, code))):
        return False  # JSON that a tool printed over several lines
    strong = sum(bool(re.search(r"[(){};]|^\s*(?:#\w|import|from|//)", line)) for line in shaped)
    return (strong >= 3 and len(shaped) * 2 >= len(code)) or (
        sure >= 3 and len(shaped) * 4 >= len(code)
    )


def _is_document(lines: Sequence[str]) -> bool:
    """Documentation: headings and sentences, and nobody who reports what happened to him."""
    faqs = sum(bool(_FAQ.match(line)) for line in lines)
    # "Why do I get ...?" is nobody's report where it heads an answer.
    told = (line for line in lines if not (faqs and line.startswith("#") and line.endswith("?")))
    if any(_REPORTER.search(line) for line in told):
        return False
    marks = faqs + sum(bool(_DOCUMENT.match(line)) for line in lines)
    headings = sum(bool(_HEADING.match(line)) for line in lines)
    sentences = sum(_is_sentence(line) for line in lines)
    rows = sum(bool(CODE_ROW.match(line)) for line in lines)
    if marks and (sentences or headings or marks > 1):
        return True
    return headings >= 1 and (rows >= 2 or (headings >= 2 and sentences * 4 >= len(lines)))


def _is_configuration(lines: Sequence[str]) -> bool:
    """Settings and comments, whatever the comments say."""
    texts = [line.strip() for line in lines]
    settings = sum(bool(_SETTING.match(text)) for text in texts)
    return settings >= 2 and settings + sum(text.startswith("#") for text in texts) == len(texts)


def _is_list_of_facts(lines: Sequence[str]) -> bool:
    """Release notes, or what each Xid means, and nobody who says what happened to him."""
    # "What do the numbers in my log mean?" heads a list and tells nothing.
    text = "\n".join(line for line in lines if not line.endswith("?"))
    if _REPORTER.search(text) or _HAPPENED.search(text):
        return False
    texts = [line.strip() for line in lines]
    mended = sum(bool(_MENDED.match(text)) for text in texts)
    rows = [row for text in texts if (row := _XID_ROW.match(text))]
    explained = len({row["code"] for row in rows}) >= 4 and len(rows) * 2 >= len(texts)
    return explained or (mended >= 2 and mended * 2 >= len(texts))


def is_review(head_lines: Sequence[str]) -> bool:
    """True if a text is about a change to a program, and the log lines in it are samples.

    A pull request that tells what happened to its author is a report, whatever else it is.

    Args:
        head_lines: The first lines of the input, some dozens, as they stand.
    """
    lines = [RUNS.sub("  ", line[:REACH]).strip() for line in head_lines if line.strip()]
    told = [line for line in lines if not LOG_LINE.match(line)]
    if not told or len(lines) - len(told) > _QUOTED_LINES or any(map(PROMPT.match, lines)):
        return False
    text = "\n".join(told)
    if _REPORTER.search(text) or _IN_LIFE.search(text):
        return False
    return len({mark.lastgroup for mark in _REVIEW.finditer(text)}) >= _MARKS_OF_REVIEW


def _is_sentence(line: str) -> bool:
    words = re.findall(r"[A-Za-z][a-z']+", line)
    return len(words) >= 6 and len(" ".join(words)) > len(line) * 0.6


def is_general_text(head_lines: Sequence[str]) -> bool:
    """True if a text explains faults, or describes a change to a program, and reports none.

    A glossary, an article or the description of a pull request has no log in it and nobody who
    says what happened to him. A terse report may look alike, so two marks of the genre are needed.

    Args:
        head_lines: The first lines of the input, some dozens, as they stand.
    """
    lines = [RUNS.sub("  ", line[:REACH]).strip() for line in head_lines if line.strip()]
    machine = (LOG_LINE, PROMPT, MACHINE_OUTPUT, TOKEN)
    if not lines or any(pattern.search(line) for line in lines for pattern in machine):
        return False
    # What a contributor signs speaks in the first person and tells nothing.
    text = "\n".join(line for line in lines if not line.startswith("By submitting this"))
    if _REPORTER.search(text) or _HAPPENED.search(text) or "?" in text:
        return False
    return len({mark.group().lower() for mark in _GENRE.finditer(text)}) >= 2
