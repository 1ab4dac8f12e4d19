"""What is told of the machine and the engine, and what never is."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from gpuprobe.recording.about import boot_line, of_engine, of_machine
from gpuprobe.recording.secrets import is_secret_name, mask_argv, mask_text


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--api-key", "s3cr3t"], ["--api-key", "***"]),
        (["--api-key", "one", "two", "--port", "1"], ["--api-key", "***", "***", "--port", "1"]),
        (["--api-key=s3cr3t"], ["--api-key=***"]),
        (["--hf-token", "x", "-v"], ["--hf-token", "***", "-v"]),
        (["-e", "OPENAI_API_KEY=x"], ["-e", "OPENAI_API_KEY=***"]),
        (["HF_TOKEN=x", "vllm"], ["HF_TOKEN=***", "vllm"]),
        (["postgres://me:pw@host/db"], ["postgres://***@host/db"]),
        (["http://host/?token=abc&page=2"], ["http://host/?token=***&page=2"]),
        (["Authorization: Bearer abcdefghij"], ["Authorization: *** ***"]),
        (['{"api_key": "abc", "n": 1}'], ['{"api_key": "***", "n": 1}']),
        (["hf_abcdefghijklmnopqrstuv"], ["***"]),
        (["sk-abcdefghijklmnopqrstuv"], ["***"]),
        (["docker", "run", "--env=HF_TOKEN=x"], ["docker", "run", "--env=HF_TOKEN=***"]),
        (["--header=X-Api-Key: x"], ["--header=X-Api-Key: ***"]),
        (["sh", "-c", "a --api-key 'x y' -p 1"], ["sh", "-c", "a --api-key *** -p 1"]),
        (["--api-keys", "a,b"], ["--api-keys", "***"]),
        (["curl", "-u", "me:x"], ["curl", "-u", "me:***"]),
        (["docker", "run", "-u", "1000:1000"], ["docker", "run", "-u", "1000:1000"]),
        (["-O", '{"pass_config":{"a":1}}'], ["-O", '{"pass_config":{"a":1}}']),
        (["--max-num-batched-tokens", "8192"], ["--max-num-batched-tokens", "8192"]),
        (["--tokenizer", "a/b"], ["--tokenizer", "a/b"]),
        (["--kv-cache-dtype=fp8"], ["--kv-cache-dtype=fp8"]),
        (["--max-model-len", "8192"], ["--max-model-len", "8192"]),
    ],
)
def test_secrets_of_a_command_line_are_masked(argv: list[str], shown: list[str]) -> None:
    """Values of options that name a secret, tokens by their shape; nothing else."""
    assert mask_argv(argv) == shown


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "VLLM_API_KEY", "apiKey", "db-password", "AWS_SECRET"]
)
def test_names_of_secrets(name: str) -> None:
    """Whatever way they are written."""
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["VLLM_MAX_TOKENS", "TOKENIZERS_PARALLELISM", "NCCL_DEBUG"])
def test_names_of_no_secrets(name: str) -> None:
    """What only begins like one is told."""
    assert not is_secret_name(name)


def test_a_text_without_secrets_stays() -> None:
    """A boot line is told as it is."""
    line = "BOOT_IMAGE=/vmlinuz root=UUID=1-2 ro pcie_aspm=off iommu=pt"
    assert mask_text(line) == line


def test_only_variables_on_the_list_are_told(tmp_path: Path) -> None:
    """And of these none that names a secret."""
    env = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_DEBUG": "INFO",
        "VLLM_API_KEY": "x",
        "HOME": "/home/me",
        "AWS_SECRET_ACCESS_KEY": "y",
        "HF_TOKEN": "z",
        "TF_VAR_db": "postgres",
        "NVIDIA_NGC_CLI_CREDS": "w",
        "HF_HOME": "/data",
        "PATH": "",
    }
    found = of_engine(["serve"], env)
    told = {key.removeprefix("engine.env.") for key in found if key.startswith("engine.env.")}
    assert told == {"CUDA_VISIBLE_DEVICES", "NCCL_DEBUG", "HF_HOME"}
    assert json.loads(found["engine.argv"]) == ["serve"]


def program(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize("how", ["python", "script", "env-script", "behind-numactl"])
def test_versions_are_those_of_the_engines_own_python(tmp_path: Path, how: str) -> None:
    """Found by its interpreter or the first line of its script; nothing is imported or run."""
    venv = tmp_path / "venv"
    python = program(venv / "bin/python3", "not run")
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\n")
    for name in ("torch-2.9.0+cu128", "vllm-0.11.0", "left_pad-1.0", "flashinfer_python-0.4.0"):
        (venv / "lib/python3.12/site-packages" / f"{name}.dist-info").mkdir(parents=True)
    script = program(venv / "bin/vllm", f"#!{python}\nimport vllm\n")
    other = program(venv / "bin/serve", "#!/usr/bin/env python3\n")
    numactl = program(tmp_path / "numactl", "\x7fELF")
    argv = {
        "python": [str(python), "-m", "vllm"],
        "script": ["vllm", "serve"],
        "env-script": [str(other)],
        "behind-numactl": [str(numactl), "-N", "0", str(script)],
    }[how]
    found = of_engine(argv, {"PATH": str(venv / "bin")})

    versions = {k.rpartition(".version.")[2]: v for k, v in found.items() if ".version." in k}
    assert versions == {"torch": "2.9.0+cu128", "vllm": "0.11.0", "flashinfer-python": "0.4.0"}


def test_an_engine_in_another_file_system_has_none_of_this_ones_versions(tmp_path: Path) -> None:
    """In a container the same path leads to another Python, and the folder is another one."""
    python = program(tmp_path / "venv/bin/python3")
    (tmp_path / "venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    (tmp_path / "venv/lib/python3.12/site-packages/torch-2.9.0.dist-info").mkdir(parents=True)
    argv = [str(python), "-m", "vllm"]

    assert "engine.version.torch" in of_engine(argv, {})
    assert set(of_engine(argv, {}, here=False)) == {"engine.argv", "engine.command"}


def test_a_program_without_python_has_no_versions(tmp_path: Path) -> None:
    """A binary, or one that is not there, is told by its command line alone."""
    assert set(of_engine(["/nowhere/llama-server"], {}, os.getpid())) == {
        "engine.argv",
        "engine.command",
        "engine.cwd",
        "engine.pid",
        *(k for k in of_engine(["/nowhere"], {}, os.getpid()) if k.startswith("engine.python")),
        *(k for k in of_engine(["/nowhere"], {}, os.getpid()) if ".version." in k),
    }


def test_the_machine(tmp_path: Path) -> None:
    """Each value from its file; what is not there is left out."""
    texts = {
        "proc/sys/kernel/hostname": "box\n",
        "proc/sys/kernel/random/boot_id": "01234567-89ab-cdef-0123-456789abcdef\n",
        "proc/version": "Linux version 6.12.1\n",
        "proc/cmdline": "quiet pcie_aspm=off password=x\n",
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: A CPU\nprocessor\t: 1\n",
        "proc/meminfo": "MemTotal:       1024 kB\n",
        "proc/driver/nvidia/version": "NVRM version: 580.1\nGCC\n",
        "etc/os-release": 'NAME=x\nPRETTY_NAME="An OS 1"\n',
        "sys/class/dmi/id/board_name": "B1\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert of_machine(tmp_path) == {
        "hostname": "box",
        "boot-id": "01234567-89ab-cdef-0123-456789abcdef",
        "kernel": "Linux version 6.12.1",
        "boot-line": "quiet pcie_aspm=off password=***",
        "os": "An OS 1",
        "cpu": "A CPU",
        "cpus": "2",
        "memory-bytes": str(1024 * 1024),
        "driver": "NVRM version: 580.1",
        "board": "B1",
    }


def test_what_an_image_sets_for_itself_is_not_told() -> None:
    """Names that say something of a run are told, each in at most 200 characters."""
    env = {
        "NVIDIA_REQUIRE_CUDA": "cuda>=13.0 brand=unknown,driver>=535",
        "NVIDIA_DRIVER_CAPABILITIES": "compute",
        "NVIDIA_VISIBLE_DEVICES": "0",
        "NCCL_TOPO_FILE": "x" * 900,
        "CUDA_LAUNCH_BLOCKING": "1",
    }

    found = of_engine(["serve"], env)

    told = {k.removeprefix("engine.env."): v for k, v in found.items() if ".env." in k}
    assert set(told) == {"NVIDIA_VISIBLE_DEVICES", "NCCL_TOPO_FILE", "CUDA_LAUNCH_BLOCKING"}
    assert len(told["NCCL_TOPO_FILE"]) == 200


def test_arguments_of_init_are_no_part_of_the_boot_line() -> None:
    """The kernel's parameters end at ` -- `."""
    assert boot_line("quiet pci=noaer -- --token 7") == "quiet pci=noaer"
    assert boot_line("quiet --") == "quiet"
