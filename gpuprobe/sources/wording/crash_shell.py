"""What shells write of a program that a signal ended, in the language of who runs them."""

from __future__ import annotations

import re

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Pattern, Reading
from gpuprobe.sources.wording.crash_signals import WORDS, crashed

_TRANSLATED = {
    "SIGSEGV": (
        "Erreur de segmentation", "Speicherzugriffsfehler", "Errore di segmentazione",
        "Violación de segmento", "Falha de segmentação", "Ошибка сегментирования", "段错误",
        "記憶區段錯誤", "세그멘테이션 오류", "세그멘테이션 결함", "Naruszenie ochrony pamięci",
        "Segmenteringsfel", "Segmentatiefout", "Помилка адресування",
    ),
    "SIGBUS": ("Bus-Zugriffsfehler", "Erreur du bus", "Ошибка шины", "总线错误", "버스 오류"),
    "SIGABRT": ("Abgebrochen", "Abandon", "Annullato", "Abortado", "Аварийный останов", "已放弃", "已中止", "Przerwane"),
    "SIGKILL": ("Getötet", "Processus arrêté", "Ucciso", "Morto", "Убито", "已杀死", "已终止", "강제종료", "죽었음", "強制終了", "Unicestwiony"),
}  # fmt: skip
_SIGNAL = {word: signal for signal, words in _TRANSLATED.items() for word in words}
"""glibc's and bash's translations."""

_DUMPED = r"\((?:core dumped|\d+|Speicherabzug|core dump|imagem do|[`']core)"


def _read_words(match: re.Match[str], window: Window) -> Reading:
    words = match["words"]
    return crashed(window, _SIGNAL.get(words) or WORDS[words.lower()], pid=match["pid"])


def _read_job(match: re.Match[str], window: Window) -> Reading:
    return crashed(window, _SIGNAL[match["words"]], pid=match["pid"])


def _read_zsh(match: re.Match[str], window: Window) -> Reading:
    return crashed(window, WORDS[match["words"]], process=match["process"])


def _read_killed(match: re.Match[str], window: Window) -> Reading:
    return crashed(window, "SIGKILL", pid=match["pid"])


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        id="crash-zsh",
        needles=("zsh: ",),
        regex=regex(
            r"(?<![`'\"])\bzsh: (?P<words>segmentation fault|bus error|abort|killed|illegal hardware instruction)\s+(?P<process>\S+)"
        ),
        read=_read_zsh,
        examples=(
            "zsh: segmentation fault  ./llama-cli -m model.gguf",
            "zsh: killed     python serve.py",
        ),
        near=("zsh: command not found: nvidia-smi", "What does `zsh: killed python` mean?"),
        source="zsh jobs.c",
    ),
    Pattern(
        id="crash-shell-words",
        needles=(
            "egmentation fault",
            "(core dumped)",
            "Bus error",
            "bus error",
            "Aborted (core dumped)",
            "aborted (core dumped)",
            "llegal instruction",
            "loating point exception",
            "Erreur de segmentation",
            "Speicherzugriffsfehler",
            "Errore di segmentazione",
            "n de segmento",
            "Falha de segmenta",
        ),
        regex=regex(
            r"(?:\bline \d+: +(?P<pid>\d+) +)?(?<![Pp]CIe )(?<!PCI )\b(?P<words>[Ss]egmentation fault|[Bb]us error|[Aa]borted(?=\s{1,40}\(core dumped\))|[Ii]llegal instruction|[Ff]loating point exception|Erreur de segmentation|Speicherzugriffsfehler|Errore di segmentazione|Violación de segmento|Falha de segmentação)"
            rf"(?= ?{_DUMPED}|[.\s]*$|[\s\"'`)]*$|: address|  +\S)"
        ),
        read=_read_words,
        examples=(
            "Segmentation fault (core dumped)",
            "Bus error",
            "Violación de segmento (`core' generado)",
            "Falha de segmentação (imagem do núcleo gravada)",
            "/srv/start.sh: line 12:  8812 Aborted                 (core dumped) python3 serve.py",
            'time=2025-03-02 level=ERROR msg="llama runner terminated" error="signal: segmentation fault"',
        ),
        near=(
            "pcieport 0000:00:01.0: PCIe Bus Error: severity=Corrected",
            "a segmentation fault handler is installed",
        ),
        source="POSIX strsignal in shells, Go os/exec",
    ),
    Pattern(
        id="crash-shell-job",
        # Words that are not ASCII cannot be searched for: a script's name stands before them.
        needles=("sh: ",),
        regex=regex(
            rf"sh: \S{{1,12}} ?\d{{1,6}}(?: ?\S{{1,3}})? ?[:：] {{0,4}}(?P<pid>\d{{1,10}}) +(?P<words>{'|'.join(_SIGNAL)})(?!\w)[^\n]*"
        ),
        read=_read_job,
        examples=(
            "./serve.sh: строка 12: 40122 Ошибка сегментирования (образ памяти сброшен на диск) ./llama-server -m m.gguf",
            "run.sh: 第 7 行： 40122 段错误               (核心已转储) python3 main.py",
            "./serve.sh: Zeile 7: 40122 Getötet                 python3 main.py",
            "./serve.sh: ligne 7 : 40122 Processus arrêté        python3 main.py",
        ),
        near=("./serve.sh: строка 12: nvidia-smi: команда не найдена",),
        source="bash jobs.c, glibc po/*.po",
    ),
    Pattern(
        id="crash-shell-killed",
        needles=("Killed",),
        regex=regex(
            r"(?:\bline \d+: +(?P<pid>\d+) +|(?P<alone>\A[\s*`>]*|(?:/it|it/s|B/s)\]\s*|srun: error: \S+: tasks? [\d,-]+: ))Killed(?(alone)[\s*`.]*\Z|\b)"
        ),
        read=_read_killed,
        examples=(
            "**Killed**",
            "Loading checkpoint shards:  50%|#####     | 2/4 [00:21<00:21, 10.61s/it]Killed",
            "/srv/run.sh: line 3:  4412 Killed                  python serve.py",
            "srun: error: gpu7: tasks 0-7: Killed",
            "Killed",
        ),
        near=("Killed process 7", "Killed the old server"),
        source="POSIX shells",
    ),
)
