"""Commands that only ask another program to run the engine: docker, podman, kubectl, srun.

The engine is then no child of the command: its processes, its exit code and its memory are
elsewhere. What the container runtime says of it is asked for, with a deadline.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

INSPECT_S: Final = 2.0
"""How long one answer of the container runtime is waited for."""

PAUSES_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Between two questions: an image may have to be fetched before the container runs."""

_RUNTIMES: Final = ("docker", "podman", "nerdctl")
_OTHERS: Final = ("kubectl", "enroot", "srun", "oc", "docker-compose")
_WRAPPERS: Final = ("sudo", "doas", "nice", "ionice", "env", "time", "exec", "nohup")
_WITH_VALUE: Final = frozenset(
    {
        "-e", "--env", "-u", "--user", "-w", "--workdir", "--env-file", "--detach-keys",
        "-H", "--host", "--context", "-c", "--config", "-l", "--log-level", "--connection",
        "-n", "--namespace", "--url", "--identity", "--root", "--storage-driver",
    }
)  # fmt: skip
"""Options of `docker` itself and of `docker exec` that take the next word."""


@dataclass(frozen=True, slots=True)
class Client:
    """A command that only asks for the engine.

    Attributes:
        program: As it was called: a name or a path.
        name: The container's name or id where the command says it, else None.
        cidfile: A file that will hold its id, else None.
    """

    program: str
    name: str | None = None
    cidfile: str | None = None

    @property
    def runtime(self) -> bool:
        """Whether the program can be asked about its containers."""
        return Path(self.program).name in _RUNTIMES


def container_client(argv: Sequence[str]) -> Client | None:
    """What a command asks for, or None where it runs the engine itself."""
    words = list(argv)
    while words and Path(words[0]).name in _WRAPPERS:
        words = words[1:]
        while words and (words[0].startswith("-") or "=" in words[0]):
            words = words[1:]
    if not words:
        return None
    program, rest = words[0], words[1:]
    name = Path(program).name
    if name in _OTHERS:
        return Client(program)
    if name not in _RUNTIMES:
        return None
    plain = list(_without_options(rest))
    if not plain:
        return None
    action, *arguments = plain
    if action == "container" and arguments:
        action, *arguments = arguments
    if action in ("exec", "start", "attach"):
        return Client(program, arguments[0] if arguments else None)
    if action in ("run", "create", "compose"):
        named = _value(rest, "--name") if action == "run" else None
        return Client(program, named, _value(rest, "--cidfile"))
    return None


def _without_options(words: Sequence[str]) -> Iterator[str]:
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in _WITH_VALUE
        else:
            yield word


def _value(words: Sequence[str], option: str) -> str | None:
    for place, word in enumerate(words):
        if word == option and place + 1 < len(words):
            return words[place + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


@dataclass(frozen=True, slots=True)
class Container:
    """What the runtime says of a container.

    Attributes:
        name: Its name. argv: Its command line. image: As it was asked for.
        digest: The image's id. pid: Its first process, in this machine's numbers; 0 unknown.
        environment: Its variables, for those that matter.
    """

    name: str
    argv: tuple[str, ...]
    image: str
    digest: str
    pid: int
    environment: Mapping[str, str]


def inspect(client: Client, *, deadline_s: float = INSPECT_S) -> Container | None:
    """Ask the runtime about the container; None where it does not answer or does not run yet."""
    name = client.name or _from_file(client.cidfile)
    program = shutil.which(client.program)
    if name is None or program is None or not client.runtime or name.startswith("-"):
        return None
    try:
        done = subprocess.run(  # noqa: S603 - the program the user called, a fixed question
            [program, "inspect", "--type", "container", name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=deadline_s,
            check=False,
        )
        (found, *_) = json.loads(done.stdout)
        return _read(found)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _read(found: Mapping[str, Any]) -> Container | None:
    state, config = found["State"], found["Config"]
    if not state.get("Running"):
        return None
    pairs = (text.partition("=") for text in config.get("Env") or ())
    return Container(
        name=str(found.get("Name", "")).removeprefix("/"),
        argv=(str(found["Path"]), *map(str, found.get("Args") or ())),
        image=str(config.get("Image", "")),
        digest=_digest(str(found.get("Image", ""))),
        pid=int(state.get("Pid") or 0),
        environment={name: value for name, _, value in pairs},
    )


def _digest(text: str) -> str:
    """An image's id with its algorithm, which Podman leaves out."""
    return f"sha256:{text}" if re.fullmatch("[0-9a-f]{64}", text) else text


def _from_file(path: str | None) -> str | None:
    try:
        return Path(path).read_text("utf-8", "replace").strip()[:80] or None if path else None
    except OSError:
        return None


class ContainerSearch:
    """Asks the runtime until the container runs, in a thread of its own.

    Args:
        client: The command.
        found: Called once with what the runtime said, from that thread.
    """

    def __init__(self, client: Client, found: Callable[[Container], None]) -> None:
        self._client = client
        self._found = found
        self._over = threading.Event()

    def start(self) -> None:
        """Begin to ask, where the command names a container and its runtime can be asked."""
        client = self._client
        if client.runtime and (client.name or client.cidfile):
            threading.Thread(target=self._ask, name="container", daemon=True).start()

    def stop(self) -> None:
        """Ask no more."""
        self._over.set()

    def _ask(self) -> None:
        for pause in PAUSES_S:
            if self._over.wait(pause):
                return
            container = inspect(self._client)
            if container is not None:
                self._found(container)
                return
