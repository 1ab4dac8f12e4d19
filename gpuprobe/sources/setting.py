"""In what surroundings the words of one match stand: a log, alone, a sentence, program text.

`judge` answers from the line alone, and from what `gpuprobe.sources.input_kind` says of the input
and `gpuprobe.sources.lines_around` of the lines beside it. A wrong "log" sends somebody to buy
hardware, so doubt goes towards prose and code.
"""

from __future__ import annotations

import re

from gpuprobe.events import Setting
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.line_shapes import CODE_ROW, NUMBERED, REACH, RUNS, USER_TEXT
from gpuprobe.sources.record import Record

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
    r"|\|[=~] ?[\"`]|\blogger (?:-\S+ (?:\S+ )?)*[\"']|\becho (?:-\w+ )?[\"']|\bcurl\b.{0,300} (?:-d|--data(?:-\w+)?|--json)[ =]|\bI?LIKE '|(?:_test|\btest_\w+)\.\w{1,4}:\d+: "
    r"|^(?:TASK|PLAY|HANDLER|RUNNING HANDLER) \["
    r"|\.py::\w+(?:\[| - )|^E +(?:\+|assert\b|AssertionError)"
)
"""Somebody searches for the words, or configures a search."""

_TESTED = regex(r"\s*(?:\d{4}-\d\d-\d\dT[\d:.]+Z\s+)?\w+_test\.\w{1,4}:\d+: ")
"""A line of a test, whatever kernel line it quotes."""

_FIRED = re.compile(r"\"(?:status|state)\":\s*\"firing\"")
"""An alert that went off, and no rule that waits for it."""

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
    r"|(?:SIG[A-Z]+|EXCEPTION_[A-Z_]+) \(0x[0-9a-fA-F]+\) at pc"
)
"""What stands behind root's prompt `#`, or in Java's report of a crash: no comment then."""
_WRITES = regex(r"\s*#\s+(?:echo|printf)\b[^\n#]{0,60}(?:>|\| ?tee )")
"""Root writes to a file at that prompt."""
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

_DATE_CELL = regex(r"\d{1,4}[/-]\w{2,3}[/-]\d{2,4}|\b\d\d:\d\d:\d\d|\b[A-Z][a-z]{2}-\d\d-\d{4}")
_LABELLED = regex(r"^\s*\"[^\"]{1,400}\",\s*[A-Za-z][\w -]{0,30}$")
"""A text and its label, as collections of examples hold them."""
_QUERIED = regex(
    r"^\s*\d{1,3}, .*\b[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7](?:, |\s*\Z)"
)
"""A row of `nvidia-smi --query-gpu`: what it says begins with a number as rows of codes do."""
_OPTION = regex(r"^\s*(?:-\w,? )?--[a-z][\w-]*(?:[ =](?:[A-Z_<\[{]\S*))?(?: {2,}|\t)")
"""An option and what it does, as `--help` prints them."""
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
    r"\b(?:[Tt]he|an?|(?<![a-z] )An?|[Tt]his|[Tt]hat|[Tt]hese|[Ww]hen(?:ever)?|[Ii]f|[Bb]ut|[Aa]lso|[Tt]hen|[Aa]bout|[Gg]ets?|[Gg]ot|[Gg]etting|[Gg]ives?|"
    r"[Ll]ike|[Aa]nd|[Oo]r|[Mm]eans?|[Cc]auses?|[Cc]ausing|[Ss]ince|[Ff]ix(?:es|ed)?|[Hh]andles?|"
    r"[Dd]etects?|[Aa]dd(?:s|ed)?|[Dd]er|[Dd]ie|[Dd]as|[Ee]in|[Uu]nd|[Ll]es?|[Uu]ne?|[Ee]l|[Uu]na|[Cc]on|[Oo]s|[Cc]om)\b"
)
"""Words of any sentence; a program's sentence ends in a colon before the error it quotes."""

_PROGRAMS_SENTENCE = regex(
    r"^(?:(?!(?:(?:[Nn]ote|[Ee]dit|[Uu]pdate|[Tt]itle|[Ss]ummary|[Dd]escription|[Pp]roblem|[Ii]ssue|[Qq]uestion|[Bb]ug|[Ss]tep|[Ss]ubject|[Ff]ix)\w*|PS|Q|A|Re) {0,2}:)[\w.()\[\]/-]+ {0,2}: "
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
    printed_list: bool = False,
    retyped: bool = False,
) -> Setting:
    """In what surroundings the words at `text[match_start:match_end]` stand.

    Args:
        record: The line, or the first of those that `text` was joined from.
        match_start: Where a pattern's match begins in `text`.
        match_end: Where it ends.
        text: The message, or several joined.
        program_text: What `is_program_text` said of the input.
        pasted_log: What `looks_pasted` said of the lines around.
        printed_list: What `in_printed_list` said of the lines above.
        retyped: What `looks_retyped` said of the lines around.
    """
    if program_text:
        return Setting.CODE
    head, tail = (
        text[max(0, match_start - REACH) : match_start],
        text[match_end : match_end + REACH],
    )
    words = text[match_start : min(match_end, match_start + REACH)]
    head, tail = RUNS.sub("  ", head), RUNS.sub("  ", tail)
    if _is_code(record, head, words, tail, printed_list=printed_list):
        return Setting.CODE
    if not record.kernel and _is_prose(record, head, words, tail):
        return Setting.PROSE
    return Setting.LOG if (record.framed or pasted_log) and not retyped else Setting.BARE


def _is_code(record: Record, head: str, words: str, tail: str, *, printed_list: bool) -> bool:
    if _TESTED.match(record.raw):
        return True
    if record.kernel:
        # The kernel quotes nothing but commands; what is glued before its words is its own.
        return bool(re.search(r"\b(?:proctitle|cmd|comm|COMMAND)=", head))
    near = head[-_NEAR:] + words[: 4 * _NEAR] + tail[:_NEAR]
    if _TEMPLATE.search(near) and not near.lstrip().startswith('{"'):
        return True
    if USER_TEXT.search(head):
        return True
    if not record.framed and _OPTION.match(RUNS.sub("  ", record.raw[:REACH])):
        return True
    searches = _SEARCHES.search(head) and not _FIRED.search(head)
    if searches or _in_row_of_codes(record, head) or _MARKUP.search(head[-40:]):
        return True
    if "[Errno " not in head[-_NEAR:] + words and re.match(
        r"[\"'`]?\s*(?:in (?:line|text|log|s|msg|message|data|out\w*|str\(\w+\))\b|=> |-> )", tail
    ):
        # Python's own "[Errno 2] ...: 'a' -> 'b'" names the two files of a rename.
        return True
    return _in_literal(record, head, words, tail, printed_list=printed_list)


def _in_row_of_codes(record: Record, head: str) -> bool:
    """True in a row such as `| 79 | GPU has fallen off the bus | ... |` of a list of codes."""
    if record.framed:
        return False
    raw = NUMBERED.sub("", record.raw[:REACH], count=1)
    for line in (RUNS.sub(" ", raw), RUNS.sub(" ", record.message[:REACH])):
        if _QUERIED.match(line):
            continue
        if _LABELLED.match(line) and not _DATE_CELL.search(line):
            return True
        row = CODE_ROW.match(line)
        if row and not _DATE_CELL.search(line) and not re.search(r"\bpid=", line):
            return True
    return False


def _in_literal(record: Record, head: str, words: str, tail: str, *, printed_list: bool) -> bool:
    """True inside a string of source code; a log's own quotes (JSON, key=value) do not count."""
    if not record.framed and _COMMENT.search(head) and not _is_command(head, words):
        return not _is_title(record, head)
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
        not printed_list
        and bool(_LITERAL_ITEM.match(head or words))
        and whole.endswith(('",', "',", '")', "')", '"]', "']", '";', "';", '"),', '"}', '"},'))
        and not _is_json_pair(opened, (head + words + tail)[quote + 1 :])
    )


def _is_command(head: str, words: str) -> bool:
    """True if root typed the words at a prompt, or Java reports them behind its `#`."""
    return bool(_COMMAND.match(words.lstrip()) or _WRITES.match(head + words))


def _is_title(record: Record, head: str) -> bool:
    """True in the first line of a text that is no program, `# GPU falls off the bus`."""
    return (
        record.line == 1
        and not record.framed
        and head.startswith("# ")
        and not head.startswith("# /")  # the name of a file, as its first line has it
    )


def _is_json_pair(opened: str, rest: str) -> bool:
    """True at a value as in `{"message": "` or a key as in `{"OOMKilled":`: a program's data.

    Args:
        opened: The line up to the quote before the words, with it.
        rest: What follows.
    """
    key = re.search(r"[{,]\s*\"\Z", opened) and re.match(r"[\w.-]+\"\s*:", rest)
    return bool(key or re.search(r"\"[\w.-]+\"\s*:\s*\"\Z", opened))


def _is_prose(record: Record, head: str, words: str, tail: str) -> bool:
    before = head.strip(_BARE_MARKS)
    if _is_title(record, head) and not _is_command(head, words):
        return True
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
