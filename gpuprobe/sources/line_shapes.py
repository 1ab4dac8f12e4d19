"""Shapes of single lines that several judgements of `gpuprobe.sources` share."""

from __future__ import annotations

from gpuprobe.lazy_regex import regex

REACH = 2000
"""How much of a line is looked at, so that huge lines cost little."""

RUNS = regex(r"[ \t\xa0]{3,}")
"""Blanks of a table or an indentation, made two before a line is judged."""

LOG_LINE = regex(
    r"^\s*(?:[>|*+-] ?|\d+[:.)-] ?)?(?:\[ *\d+\.\d{3,6}\]|<\d{1,3}>|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d|\S{2,5}\.? +\d{1,2} \d\d:\d\d:\d\d|\d{4}[-/]\d\d[-/]\d\d[T ,]+\d\d:\d\d"
    r"|\[?\d\d:\d\d:\d\d|\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d|NVRM: |nvidia-nvswitch\d|[IWEF]\d{4} \d\d:\d\d|(?:INFO|WARNING|ERROR|CRITICAL|DEBUG) +\d\d-\d\d|\d,\d+,\d+,[-c+];|\(?\w+ pid=\d+"
    r"|\"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^\"]{0,24}|\d{13,19})\",|\d{13,19},\"|\[?\d\d/\d\d/\d{4}[-, ]+\d\d:\d\d|\[(?:rank|default)\d+\]|(?:srun|slurmstepd|slurmctld|slurmd): |\[[\w.-]+:\d{2,8}\] )"
)
"""A line that begins as a log's lines do: stamp, priority, program."""

PROMPT = regex(
    r"^\s*(?:\([\w.-]+\) ?)?(?:\[?[\w.-]+@[\w.-]+[^$#>]{0,60}[$#>] ?\S|[A-Z]:\\[^>]*>\s*\S|PS [A-Z]:\\[^>]*>|\$ [a-z./]|# (?:dmesg|nvidia-smi|journalctl|lspci|uname|cat|lsmod)\b)"
)
"""A shell's prompt with a command."""

MACHINE_OUTPUT = regex(
    r"^\s*(?:Traceback \(most recent call last\)|\+[-=]{15,}|\|[=-]{15,}|[│┃║ ]*[┌┏╔├┣╠└┗╚][─━═╦┬┼╬╤]{10,}|=+NVSMI LOG=+|File \".+\", line \d+|#\d+ +0x[0-9a-f]{6,}|```|~~~"
    r"|terminate called (?:after|without)|MPI_ABORT was invoked on rank \d|\*\*\* Process received signal|Fatal Python error: |Signal \(\d+\) received|# A fatal error has been detected by the Java)"
)
"""What only programs print: a traceback, a table's rule, a stack frame; or a fence around it."""

TOKEN = regex(
    r"\b[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\b|GPU-[0-9a-f]{8}-|/[\w./-]+\.\w+:\d+|\+0x[0-9a-f]+/0x"
)
"""Words nobody types: an address of a device, a UUID, a file with a line number."""

LIST_KEY = regex(
    r"^\s*\"(?:[\w -]+\.)?(?:\w+_lines|lines|stdout|stderr|output|logs?|messages|dmesg|journal)\"\s*:\s*\[\s*$"
)
"""Above the lines of a JSON list that a tool printed: Ansible's `"stdout_lines": [`."""

CODE_ROW = regex(
    r"^\s*\|?\s*[*_`\"]*(?:[Xx][Ii][Dd]\s*)?\d{1,3}[*_`\"]*\s*(?:(?:\||,|;|\t)\s*[*_`\"]*|: ?[\"'](?!\w+[\"']\s*:))(?P<words>[A-Za-z])"
)
"""A row of a list of codes: `| 79 | GPU has fallen off the bus | ... |`, `79: "GPU has ..."`."""

NUMBERED = regex(r"(?= *\d+\t)[ \d]{6}\t")
"""A line's number as `cat -n` and `nl` write it: to the right of six columns, and a tab."""

USER_TEXT = regex(
    r"\bprompt\\?[\"']?\s*[:=]\s*\\?[\"'(\[]|[\"']role\\?[\"']\s*:\s*\\?[\"'](?:user|assistant|system|tool)\b|[\"']delta\\?[\"']\s*:\s*\{|[\"']messages\\?[\"']\s*:\s*\["
    r"|\b(?:[Gg]enerated[ _]text|[Cc]ompletions?|[Mm]odel[ _]output|output_text|question|(?<=[\"'])instruction)\\?[\"']?\s*[:=]\s*\\?[\"'(\[]"
    r"|\b\w+ReqInput\(|[\"']sampling_params[\"']|\b[Rr]equest(?: body)?:? \{\s*\\?[\"'](?:text|prompt|messages|inputs?)\\?[\"']"
    r"|<\|im_start\|>user|<\|start\|>user|<\|start_header_id\|>user|<start_of_turn>user|\[INST\]"
)
"""What a model was asked or answered, as an engine's log repeats it."""
