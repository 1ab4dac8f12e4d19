"""Commands that only ask for an engine, and what a container runtime says of it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from gpuprobe.live.engine.container_client import Client, ContainerSearch, container_client, inspect

ANSWER = {
    "Name": "/llm",
    "Path": "python3",
    "Args": ["-m", "vllm.entrypoints.openai.api_server"],
    "Image": "sha256:5f3c",
    "State": {"Running": True, "Pid": 4711},
    "Config": {"Image": "vllm/vllm-openai:v0.9", "Env": ["CUDA_VISIBLE_DEVICES=0", "EMPTY"]},
}


@pytest.mark.parametrize(
    ("command", "client"),
    [
        ("python serve.py --name x", None),
        ("docker version", None),
        ("/opt/docker-tools/serve", None),
        ("docker run --rm --gpus all --name llm vllm/vllm-openai", ("docker", "llm", None)),
        ("docker run --name=llm image", ("docker", "llm", None)),
        ("docker run --cidfile /tmp/id image --name no", ("docker", "no", "/tmp/id")),
        ("docker run image", ("docker", None, None)),
        ("sudo -E /usr/bin/podman run --name llm x", ("/usr/bin/podman", "llm", None)),
        ("docker exec -it -e A=b --user root llm python serve.py", ("docker", "llm", None)),
        ("docker --context far exec llm python", ("docker", "llm", None)),
        ("docker container start llm", ("docker", "llm", None)),
        ("kubectl exec pod -- python", ("kubectl", None, None)),
        ("srun --gres=gpu:1 python train.py", ("srun", None, None)),
        ("env A=b nice -n 5 srun x", None),
    ],
)
def test_a_client_is_known_by_its_command(
    command: str, client: tuple[str, str | None, str | None] | None
) -> None:
    """Container runtimes and schedulers, behind sudo and the like, with the container's name."""
    found = container_client(command.split())

    assert found == (Client(*client) if client else None)


def runtime(folder: Path, answer: Any, *, sleep_s: float = 0.0) -> Client:
    """A program called docker that answers `inspect`."""
    program = folder / "docker"
    (folder / "answer.json").write_text(json.dumps(answer))
    program.write_text(
        f"#!/bin/sh\nsleep {sleep_s}\n"
        f'test "$*" = "inspect --type container llm" && cat {folder}/answer.json\n'
    )
    program.chmod(0o755)
    return Client(str(program), "llm")


def test_what_the_runtime_says(tmp_path: Path) -> None:
    """Command line, image, its id, first process, environment."""
    found = inspect(runtime(tmp_path, [ANSWER]))

    assert found is not None
    assert found.argv == ("python3", "-m", "vllm.entrypoints.openai.api_server")
    assert (found.name, found.image, found.digest, found.pid) == (
        "llm", "vllm/vllm-openai:v0.9", "sha256:5f3c", 4711,
    )  # fmt: skip
    assert found.environment["CUDA_VISIBLE_DEVICES"] == "0"


def test_podmans_id_of_an_image(tmp_path: Path) -> None:
    """It comes without its algorithm, and is told as Docker tells it."""
    found = inspect(runtime(tmp_path, [{**ANSWER, "Image": "5f" * 32}]))

    assert found is not None
    assert found.digest == f"sha256:{'5f' * 32}"


@pytest.mark.parametrize("answer", [[], {}, [{"State": 1}], [{**ANSWER, "State": {}}], "no"])
def test_any_other_answer_is_none(tmp_path: Path, answer: Any) -> None:
    """A container that does not run, and nonsense: nothing is known, nothing fails."""
    assert inspect(runtime(tmp_path, answer)) is None


def test_a_runtime_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    """No answer in time is no answer."""
    begin = time.monotonic()

    found = inspect(runtime(tmp_path, [ANSWER], sleep_s=5), deadline_s=0.2)

    assert found is None
    assert time.monotonic() - begin < 3.0


def test_a_name_that_is_an_option_is_not_asked_for(tmp_path: Path) -> None:
    """A name from a file is no way to pass an option."""
    (tmp_path / "id").write_text("--format=x")

    assert inspect(Client(runtime(tmp_path, [ANSWER]).program, None, str(tmp_path / "id"))) is None


def test_it_is_asked_until_the_container_runs(tmp_path: Path) -> None:
    """The search gives what was found, once."""
    found: list[Any] = []
    search = ContainerSearch(runtime(tmp_path, [ANSWER]), found.append)
    search.start()
    until = time.monotonic() + 5
    while not found and time.monotonic() < until:
        time.sleep(0.02)
    search.stop()

    assert [one.name for one in found] == ["llm"]
