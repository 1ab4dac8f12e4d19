"""`gpuprobe run` in front of a container client: what is recorded of the container."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import gpuprobe
from tests.cli.run_bench import RUN

DOCKER = """\
#!{python}
import json, os, sys, time
if sys.argv[1] == "inspect":
    open({asked!r}, "w").close()
    print({answer!r}.replace("4711", str(os.getppid())))
    sys.exit()
end = time.monotonic() + 10
while not os.path.exists({asked!r}) and time.monotonic() < end:
    time.sleep(0.01)
time.sleep(0.5)
"""


def test_the_container_is_recorded_and_no_package_of_this_machine(tmp_path: Path) -> None:
    """Its command line, image and process; its Python is not the one of that path here."""
    answer = {
        "Name": "/llm",
        "Path": sys.executable,
        "Args": ["-m", "vllm"],
        "Image": "5f" * 32,
        "State": {"Running": True, "Pid": 4711},
        "Config": {"Image": "vllm/vllm-openai:v0.9", "Env": ["CUDA_VISIBLE_DEVICES=0"]},
    }
    docker = tmp_path / "docker"
    docker.write_text(
        DOCKER.format(
            python=sys.executable, asked=str(tmp_path / "asked"), answer=json.dumps([answer])
        )
    )
    docker.chmod(0o755)
    path = tmp_path / "a.gpuprobe"
    command = [*RUN, "--no-nvml", "--record", str(path), "--"]
    done = subprocess.run(
        [*command, str(docker), "run", "--name", "llm", "image"],
        capture_output=True,
        timeout=60,
        env={**os.environ, "GPUPROBE_DIR": str(tmp_path)},
        check=False,
    )

    assert done.returncode == 0, done.stderr
    with gpuprobe.load(path) as recording:
        found = {key: value for key, value in recording.about.items() if "container-" in key}
    assert int(found.pop("container-pid")) > 0
    assert found == {
        "container-client": "docker",
        "container-engine.argv": json.dumps([sys.executable, "-m", "vllm"]),
        "container-engine.command": f"{sys.executable} -m vllm",
        "container-engine.env.CUDA_VISIBLE_DEVICES": "0",
        "container-name": "llm",
        "container-image": "vllm/vllm-openai:v0.9",
        "container-digest": f"sha256:{'5f' * 32}",
    }
