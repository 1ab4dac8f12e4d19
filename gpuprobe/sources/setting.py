"""In what surroundings words stand: a log, alone on a line, somebody's sentence, or program text.

Three questions are answered here, all from text alone:

- `judge`: may the words found in a line prove anything?
- `is_program_text`: is the whole input a program, a patch, a rule file or documentation?
- `looks_pasted`: are the lines around plainly a log that was pasted without its prefixes?

A wrong "log" sends somebody to buy hardware, so doubt goes towards prose and code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuprobe.events import Setting
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Record

_REACH = 2000
"""How much of a line on either side of the words is looked at, so that huge lines cost little."""
_RUNS = regex(r"[ \t\xa0]{3,}")
_NEAR = 60
"""How far from the words found a regex's or a format's characters still speak of them."""

# --- Program text inside a line --------------------------------------------------------------

_TEMPLATE = regex(
    r"\\d[+*{)\]]|\\s[+*]|\\w[+*]|\\\(|\\\[|\(\?[:P<=!i]|\.\*(?!\*)|\.\+|\[0-9|\[\^|\[a-f"
    r"|(?<![\d.])%(?:0?\d+)?(?:l{0,2}|h{0,2}|z)[dsxXup]\b|(?<![\w$\"])\{\d?\}(?!\[Hardware)|\{[a-z_]+(?:![rs])?\}|\$\{\w+\}|\{\{"
    r"|<(?:bdf|pci|pci-?id|bus-?id|address|xid|code|n|number|xx)>"
)
"""A regular expression's, a format's or a placeholder's characters."""

_SEARCHES = regex(
    r"\b(?:z|e|f|rip)?grep\b|\brg\b \S|\bawk\b|\bsed -|\bproctitle=|--grep|journalctl \S"
    r"|\b(?:[Mm]onitor(?:ing|s)?|[Ww]atch(?:ing|es)?|[Cc]heck(?:ing|s)?|[Ll]ook(?:ing|s)?|[Ss]earch(?:ing|es)?|[Ss]cann?(?:ing|s)?|[Ll]isten(?:ing|s)?|[Tt]rigger(?:s|ed)?|[Ff]ilter(?:ing|s)?) (?:\S+ ){0,4}?(?:for|on)\b"
    r"|\b(?:[Pp]atterns?|[Rr]egexp?s?|[Mm]atcher|[Rr]ules?|[Aa]lert(?:s|name)?|expr|keywords?|needles?|filters?|query|signatures?)\b[\"']?\s*(?:\([^)]*\))?\s*(?:[:=~]|for\b|\"|')"
    r"|\|[=~] ?[\"`]|\blogger (?:-\S+ (?:\S+ )?)*[\"']|\becho (?:-\w+ )?[\"']|_test\.\w{1,4}:\d+: [^\"'`\n]*[\"'`]"
)
"""Somebody searches for the words, or configures a search."""

_USER_TEXT = re.compile(r"\bprompt[\"']?\s*[:=]\s*[\"'(\[]|[\"']role[\"']\s*:\s*[\"']user\b")
"""What a model was asked, as an engine's log repeats it."""

_CALL = regex(r"(?P<name>[\w.:!>]+)\s*\(\s*(?:[^()\"']*[,\s]\s*)?(?:[rbfuRBFUL]{0,2})[\"']\Z")
_RAISED = regex(r"(?:Error|Exception|Err|Failure|Fault|Warning|Status|Some|Exit|Lost)\Z")
_ASSIGNED = regex(r"[\w\])*]\s*(?:\s[:+]?=\s|:=\s*|=>\s*|==\s*|!=\s*)(?:[rbfuRBFUL]{0,2})[\"'`]\Z")
_KEYED = regex(r"(?P<key>[\w.-]+)=(?:\\?[\"'])\Z")
_FIELD = regex(r"[{,]\s*\w+:\s*[\"'`]\Z")
_STATEMENT = regex(
    r"^\s*(?:return|case|assert|raise|throw|if|elif|while|const|static|let|var|print|puts|#define|#\s*define)\b[ (]"
)
_COMMENT = regex(r"(?:^|\s)(?://|/\*|<!--)\s?|^\s*(?:#|;|--)\s+(?!\w+@)")
_COMMAND = regex(
    r"(?:sudo|nvidia-smi|modprobe|rmmod|insmod|setpci|lspci|dmesg|journalctl|echo|cat|systemctl|reboot|uname)\b"
)
"""What stands behind root's prompt `#`, which is no comment then."""
_LITERAL_ITEM = regex(r"^\s*[\[({]?\s*(?:[rbfu]?[\"'])")

_LOG_KEYS = frozenset(
    {
        "msg",
        "message",
        "error",
        "err",
        "log",
        "text",
        "reason",
        "description",
        "line",
        "event",
        "details",
        "detail",
        "stderr",
        "stdout",
        "output",
        "exception",
        "cause",
        "last_error",
        "status",
        "errmsg",
        "error_message",
        "body",
    }
)

_CODE_ROW = regex(
    r"^\s*\|?\s*[*_`\"]*(?:[Xx][Ii][Dd]\s*)?\d{1,3}[*_`\"]*\s*(?:\||,|;|\t)\s*[*_`\"]*(?P<words>[A-Za-z])"
)
_DATE_CELL = regex(r"\d{1,4}[/-]\w{2,3}[/-]\d{2,4}|\b\d\d:\d\d:\d\d|\b[A-Z][a-z]{2}-\d\d-\d{4}")
_MARKUP = regex(r"<(?:td|th|tr|li|dt|dd|code|option)\b[^>]*>", re.IGNORECASE)

# --- People's sentences ----------------------------------------------------------------------

_PERSON = regex(
    r"\b(?:I(?:'m|'ve|'d|'ll|’m|’ve)?(?= [a-z])|[Mm]y|[Ww]e(?:'re|'ve|’re|’ve)?(?! are taking)|[Oo]urs?|me|[Yy]ou(?:'re|r)?|[Tt]hey|[Ss]omeone|[Aa]nyone|[Ee]verybody"
    r"|[Ii]ch|[Ww]ir|[Mm]eine?[rmns]?|habe|bekomme|j'ai|[Nn]ous|[Tt]engo|[Mm]inha|[Mm]eu|[Ee]stoy)\b"
)
"""Nobody but a person speaks of himself or to somebody."""

_FIRST_PERSON = regex(
    r"\b(?:I(?:'m|'ve|'d|’m|’ve)?(?= [a-z])|[Mm]y|[Ww]e(?:'re|'ve|’re|’ve)?(?! are taking)|[Oo]urs?|me|[Ss]omeone|[Aa]nyone)\b"
)
"""The same behind the words, where programs speak to "you" as well."""

_TELLING = regex(
    r"\be\.g\.|\bi\.e\.|\b(?:such as|[Pp]rints?|printed|asked|[Ww]hy|[Hh]ow (?:do|can|to)|[Ss]hows?|showing|showed|[Ss]ays?|said|saying|[Ss]aw|[Ss]ees?|seeing|complain(?:s|ed|ing)?|[Mm]entions?|so-called|"
    r"known as|similar to|[Aa]ccording to|[Ss]ometimes|[Ss]uddenly|[Uu]sually|[Oo]ften|[Hh]ello|[Hh]i all|[Tt]hanks|[Ee]xample|zeigt|meldet|affiche|muestra|mostra)\b"
    r"|\bprompt[\"']?\s*[:=]|\"role\"\s*:"
    r"|^\W*(?:Bug|BUG|Bug [Rr]eport|Question|Feature|Issue|ISSUE|Usage|Help|Title|Subject)\]?:(?:\s|\Z)"
)
"""Words that introduce a quotation."""

_LINKING = regex(
    r"\b(?:[Tt]he|[Aa]n?|[Tt]his|[Tt]hat|[Tt]hese|[Ww]hen(?:ever)?|[Ii]f|[Bb]ut|[Aa]lso|[Tt]hen|[Aa]bout|[Gg]ets?|[Gg]ot|[Gg]etting|[Gg]ives?|"
    r"[Ll]ike|[Aa]nd|[Oo]r|[Mm]eans?|[Cc]auses?|[Cc]ausing|[Ss]ince|[Ff]ix(?:es|ed)?|[Hh]andles?|"
    r"[Dd]etects?|[Aa]dd(?:s|ed)?|[Dd]er|[Dd]ie|[Dd]as|[Ee]in|[Uu]nd|[Ll]es?|[Uu]ne?|[Ee]l|[Uu]na|[Cc]on|[Oo]s|[Cc]om)\b"
)
"""Words of any sentence; a program's sentence ends in a colon before the error it quotes."""

_PROGRAMS_SENTENCE = regex(
    r"^(?:(?!(?:(?:[Nn]ote|[Ee]dit|[Uu]pdate|[Tt]itle|[Ss]ummary|[Dd]escription|[Pp]roblem|[Ii]ssue|[Qq]uestion|[Bb]ug|[Ss]tep|[Ss]ubject|[Ff]ix)\w*|PS|Q|A|Re):)[\w.()\[\]/-]+: "
    r"|terminate called|thread '[^']{0,80}' panicked at |called `Result::unwrap\(\)` on |(?:The|This|An?)(?: [\w-]+){0,2}$)"
)
"""A program's sentence: its component before a colon, or the subject of what the words say."""

_GOES_ON = regex(
    r"^[\"'`)]{0,2},?\s+(?:"
    r"when(?! (?:calling|trying|attempting|allocating|loading|executing|launching|creating|reading|writing))|whenever|since|because|but|usually|often|sometimes|randomly|constantly"
    r"|again|happens?|occurs?|appears?|means|indicates?|every|until|and (?:I|then|the|my|it)|or (?:I|the|a)|messages?|issues?|problems?"
    r"|(?:is|are|was) (?:the|an?|caused|due|often|usually|one|what|not an?)|after (?:an?|the|some|few|\d+ (?:hour|minute|day|step|request)s?|upgrad|updat|install|boot|switch)"
    r"|while (?:training|using|playing|gaming|generating)|during (?:training|inference|the|an?|long)|with (?:the|an?|my|long|large|new|all|any|this)|on (?:my|the|an?|long|large|this)"
    r")\b"
)
"""The sentence goes on behind the words, without a stop between."""

_QUESTION = regex(
    r"\b(?:what|why|how|does|do|is|are|can|could|any|anyone)\b[^?]{1,80}\?\W*\Z", re.IGNORECASE
)
_QUOTED_IN_SENTENCE = regex(r"[A-Za-z,] [\"“`]{1,2}\Z")

_COMPONENT = regex(r"(?:kernel: ?)?NVRM: ?\Z")
"""The driver's mark between an opening quote and its words."""

_FOREIGN = regex(r"[\u0400-\u04ff\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2}")

_ERROR_WORD = regex(r"(?:\w*Error|\w*Exception|ERROR|FATAL|panic): ")

_BARE_MARKS = " \t>|*•-–+#`\"'([{_~"


def judge(
    record: Record,
    match_start: int,
    match_end: int,
    text: str,
    *,
    program_text: bool,
    pasted_log: bool,
) -> Setting:
    """In what surroundings the words at `text[match_start:match_end]` stand.

    Args:
        record: The line, or the first of those that `text` was joined from.
        match_start: Where a pattern's match begins in `text`.
        match_end: Where it ends.
        text: The message, or several joined.
        program_text: What `is_program_text` said of the input.
        pasted_log: What `looks_pasted` said of the lines around.
    """
    if program_text:
        return Setting.CODE
    head, tail = (
        text[max(0, match_start - _REACH) : match_start],
        text[match_end : match_end + _REACH],
    )
    words = text[match_start : min(match_end, match_start + _REACH)]
    head, tail = _RUNS.sub("  ", head), _RUNS.sub("  ", tail)
    if _is_code(record, head, words, tail):
        return Setting.CODE
    if not record.kernel and _is_prose(record, head, words, tail):
        return Setting.PROSE
    return Setting.LOG if record.framed or pasted_log else Setting.BARE


def _is_code(record: Record, head: str, words: str, tail: str) -> bool:
    if record.kernel:
        # The kernel quotes nothing but commands; what is glued before its words is its own.
        return bool(re.search(r"\b(?:proctitle|cmd|comm|COMMAND)=", head))
    near = head[-_NEAR:] + words[: 4 * _NEAR] + tail[:_NEAR]
    if _TEMPLATE.search(near) and not near.lstrip().startswith('{"'):
        return True
    if _USER_TEXT.search(head):
        return True
    if _SEARCHES.search(head) or _in_row_of_codes(record, head) or _MARKUP.search(head[-40:]):
        return True
    if re.match(
        r"[\"'`]?\s*(?:in (?:line|text|log|s|msg|message|data|out\w*|str\(\w+\))\b|=> |-> )", tail
    ):
        return True
    return _in_literal(record, head, words, tail)


def _in_row_of_codes(record: Record, head: str) -> bool:
    """True in a row such as `| 79 | GPU has fallen off the bus | ... |` of a list of codes."""
    if record.framed:
        return False
    for line in (_RUNS.sub(" ", record.raw[:_REACH]), _RUNS.sub(" ", record.message[:_REACH])):
        row = _CODE_ROW.match(line)
        if row and not _DATE_CELL.search(line) and not re.search(r"\bpid=", line):
            return True
    return False


def _in_literal(record: Record, head: str, words: str, tail: str) -> bool:
    """True inside a string of source code; a log's own quotes (JSON, key=value) do not count."""
    if not record.framed and _COMMENT.search(head) and not _COMMAND.match(words.lstrip()):
        return True
    quote = max(head.rfind('"'), head.rfind("'"), head.rfind("`"))
    if quote < 0:
        starts = words.lstrip()[:1]
        if record.framed or starts not in "\"'" or not starts:
            return bool(_STATEMENT.match(head)) and not record.framed
        quote = len(head) + words.index(starts)
    opened = (head + words)[: quote + 1]
    if call := _CALL.search(opened):
        return not _RAISED.search(call["name"])
    if _ASSIGNED.search(opened) and not record.framed:
        return True
    if keyed := _KEYED.search(opened):
        return keyed["key"].split(".")[-1].lower() not in _LOG_KEYS and not record.framed
    if record.framed:
        return False
    whole = (words + tail).rstrip()
    if _STATEMENT.match(opened) or (_FIELD.search(opened) and whole.endswith("},")):
        return True
    return (
        bool(_LITERAL_ITEM.match(head or words))
        and whole.endswith(('",', "',", '")', "')", '"]', "']", '";', "';", '"),', '"}', '"},'))
        and not _is_json_pair(opened)
    )


def _is_json_pair(opened: str) -> bool:
    """True for `{"message": "`: data that a program printed."""
    return bool(re.search(r"\"[\w.-]+\"\s*:\s*\"\Z", opened))


def _is_prose(record: Record, head: str, words: str, tail: str) -> bool:
    before = head.strip(_BARE_MARKS)
    if _PERSON.search(before) or _FIRST_PERSON.search(tail[:200]) or _TELLING.search(before):
        return True
    # A match may have swallowed the end of the line.
    if re.search(r"\bI [a-z]|\b[Mm]y [a-z]|\b(?:means|indicates) (?:that|the|your|an?)\b", words):
        return True
    if record.framed:
        return False
    # The quotation may begin before the words that a pattern needs.
    head = _COMPONENT.sub("", head)
    if _QUESTION.search(head[-_NEAR:] + words + tail) or _QUOTED_IN_SENTENCE.search(head):
        return True
    if errors := list(_ERROR_WORD.finditer(before)):
        # A model's answer that breaks off: what counts is the program's sentence behind it.
        before = before[errors[-1].start() :]
    if _FOREIGN.search(before[-40:]) or _FOREIGN.search(tail):
        return True
    glued = head.rstrip().endswith((":", "=", "[", "]", ")", ">", "|", ";", ","))
    if not glued and not _PROGRAMS_SENTENCE.match(before) and _LINKING.search(before):
        return True
    return bool(_GOES_ON.match(tail))


# --- Whole inputs ----------------------------------------------------------------------------

_LOG_LINE = regex(
    r"^\s*(?:[>|*+-] ?|\d+[:.)-] ?)?(?:\[ *\d+\.\d{3,6}\]|<\d{1,3}>|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d|\S{2,5}\.? +\d{1,2} \d\d:\d\d:\d\d|\d{4}[-/]\d\d[-/]\d\d[T ,]+\d\d:\d\d"
    r"|\[?\d\d:\d\d:\d\d|\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d|NVRM: |nvidia-nvswitch\d|[IWEF]\d{4} \d\d:\d\d|(?:INFO|WARNING|ERROR|CRITICAL|DEBUG) +\d\d-\d\d|\d,\d+,\d+,[-c+];|\(?\w+ pid=\d+)"
)
_PROMPT = regex(
    r"^\s*(?:\([\w.-]+\) ?)?(?:\[?[\w.-]+@[\w.-]+[^$#>]{0,60}[$#>] ?\S|[A-Z]:\\[^>]*>\s*\S|PS [A-Z]:\\[^>]*>|\$ [a-z./]|# (?:dmesg|nvidia-smi|journalctl|lspci|uname|cat|lsmod)\b)"
)
_MACHINE_OUTPUT = regex(
    r"^\s*(?:Traceback \(most recent call last\)|\+[-=]{15,}|\|[=-]{15,}|=+NVSMI LOG=+|File \".+\", line \d+|#\d+ +0x[0-9a-f]{6,}|```|~~~)"
)
_TOKEN = regex(
    r"\b[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\b|GPU-[0-9a-f]{8}-|/[\w./-]+\.\w+:\d+|\+0x[0-9a-f]+/0x"
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
    r"^\s*(?:- alert:|expr:|- name: .*alert|kind: (?:PrometheusRule|ConfigMap|DaemonSet|AlertingRule)|- record:|groups:$|alerting:|- pattern:|- regex:|\s*\"?pattern\"?: |- match:)"
)
_HUNK = regex(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@|diff --git |\+\+\+ b/")
_BODY_STARTS = regex(
    r"(?:^|\s)(?:-d|--data(?:-raw|-binary)?|--json)[ =]['\"$]\S{0,3}\s*$|<<-?\s*['\"]?[A-Z]{2,}\b"
)
_BODY_ENDS = regex(r"^\s*(?:[}\]]*['\"]\s*(?:\\|\|.*|>.*)?$|[A-Z]{2,}$|```)")
_JSON_PAIR = regex(r"^\s*\"[\w .-]+\"\s*:\s")
_CODE_FENCE = regex(
    r"(?:`{3,}|~{3,})\s*(?:mermaid|go|golang|python|py|rust|c|cpp|c\+\+|java|javascript|js|ts|typescript|"
    r"promql|hcl|terraform|jinja2?|regex|sql|proto|plantuml|dockerfile)\s*$",
    re.IGNORECASE,
)
_HEADING = regex(r"^#{1,6} [A-Z\d\[\"`'*(]|^(?:={4,}|-{4,}|~{4,})$")
_DOCUMENT = regex(
    r"^(?:\.TH |\.SH |\.\. (?:_\w|code|note|toctree|list-table)|title: |:toc:|= [A-Z]|## \[?v?\d+\.\d+|# Change ?log|[A-Z0-9_-]+\(\d\) {3,})",
    re.IGNORECASE,
)
_REPORTER = regex(
    r"\bI(?:'m|'ve|’m|’ve)?\b (?:have|am|was|saw|see|get|got|run|ran|tried|think|use|upgraded|can)|\b[Mm]y (?:GPU|system|card|machine|server|log|setup|PC|computer)|[Dd]escribe the bug|[Ss]teps to reproduce|"
    r"[Ww]hat happened|[Ee]xpected behaviou?r|^#+ *[Bb]ug [Rr]eport|[Aa]ctual behaviou?r|Start of NVIDIA bug report|[Rr]elevant log output"
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
_COMMIT = regex(
    r"^[*|/\\ ]*(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40} (?:\([^)]*\) )?[A-Za-z]"
)
"""A line of `git log --oneline`."""
_CODE_LIST = regex(r"^\W*(?:xid|code|error code)\W*[,;|\t]\s*\w+", re.IGNORECASE)


def _is_sentence(line: str) -> bool:
    words = re.findall(r"[A-Za-z][a-z']+", line)
    return len(words) >= 6 and len(" ".join(words)) > len(line) * 0.6


def is_program_text(head_lines: Sequence[str]) -> bool:
    """True if an input is a program, a patch, a rule file, a list of codes or documentation.

    An issue that quotes logs, a shell transcript or a traceback is none of these.

    Args:
        head_lines: The first lines of the input, some dozens, as they stand.
    """
    lines = [_RUNS.sub("  ", line[:_REACH]).rstrip() for line in head_lines if line.strip()]
    if not lines:
        return False
    logged = sum(bool(_LOG_LINE.match(line)) for line in lines)
    if logged * 4 >= len(lines) or any(_PROMPT.match(line) for line in lines[:40]):
        return False
    if lines[0].startswith("#!/") or any(_PATCH.match(line) for line in lines[:30]):
        return True
    if any(
        _MACHINE_OUTPUT.match(line) and "```" not in line and "~~~" not in line for line in lines
    ):
        return False
    if sum(bool(_RULE_FILE.match(line)) for line in lines) >= 2:
        return True
    if len(lines) >= 2 and all(_COMMIT.match(line) for line in lines):
        return True
    if _CODE_LIST.match(lines[0]) and sum(bool(_CODE_ROW.match(line)) for line in lines) >= 2:
        return True
    return _is_source(lines) or _is_document(lines)


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
    shaped = [line for line in code if _SOURCE_LINE.match(line)]
    sure = sum(bool(_SURE_SOURCE.match(line)) for line in code)
    if comments[0] and sure >= 1:
        return True
    if not sure and sum(bool(_JSON_PAIR.match(line)) for line in code) * 3 >= len(code):
        return False  # JSON that a tool printed over several lines
    strong = sum(bool(re.search(r"[(){};]|^\s*(?:#\w|import|from|//)", line)) for line in shaped)
    return (strong >= 3 and len(shaped) * 2 >= len(code)) or (
        sure >= 3 and len(shaped) * 4 >= len(code)
    )


def _is_document(lines: Sequence[str]) -> bool:
    """Documentation: headings and sentences, and nobody who reports what happened to him."""
    if any(_REPORTER.search(line) for line in lines):
        return False
    marks = sum(bool(_DOCUMENT.match(line)) for line in lines)
    headings = sum(bool(_HEADING.match(line)) for line in lines)
    sentences = sum(_is_sentence(line) for line in lines)
    rows = sum(bool(_CODE_ROW.match(line)) for line in lines)
    if marks and (sentences or headings or marks > 1):
        return True
    return headings >= 1 and (rows >= 2 or (headings >= 2 and sentences * 4 >= len(lines)))


def is_general_text(head_lines: Sequence[str]) -> bool:
    """True if a text explains faults, or describes a change to a program, and reports none.

    A glossary, an article or the description of a pull request has no log in it and nobody who
    says what happened to him. A terse report may look alike, so two marks of the genre are needed.

    Args:
        head_lines: The first lines of the input, some dozens, as they stand.
    """
    lines = [_RUNS.sub("  ", line[:_REACH]).strip() for line in head_lines if line.strip()]
    machine = (_LOG_LINE, _PROMPT, _MACHINE_OUTPUT, _TOKEN)
    if not lines or any(pattern.search(line) for line in lines for pattern in machine):
        return False
    # What a contributor signs speaks in the first person and tells nothing.
    text = "\n".join(line for line in lines if not line.startswith("By submitting this"))
    if _REPORTER.search(text) or _HAPPENED.search(text) or "?" in text:
        return False
    return len({mark.group().lower() for mark in _GENRE.finditer(text)}) >= 2


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
        if text[:1] in ("+", "-") and text[1:].strip() and not _LOG_LINE.match(text[1:]):
            changed += 1
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


def looks_pasted(lines: Sequence[str]) -> bool:
    """True if lines are plainly program output: several log lines, a prompt, a table, a fence.

    Args:
        lines: A line and its neighbours, as they stand.
    """
    lines = [_RUNS.sub("  ", line[:_REACH]) for line in lines if line.strip()]
    if sum(bool(_LOG_LINE.match(line)) for line in lines) >= 2:
        return True
    if any(_PROMPT.match(line) or _MACHINE_OUTPUT.match(line) for line in lines):
        return True
    return len(lines) >= 2 and all(_TOKEN.search(line) for line in lines)
