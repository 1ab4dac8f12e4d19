"""Which events belong to which machine."""

from __future__ import annotations

from typing import Any

import pytest

from gpuprobe.api import diagnose
from gpuprobe.diagnosis import Kind
from gpuprobe.events import CudaFailed, Event, Origin, Setting, XidReported
from gpuprobe.hosts import group_by_host
from gpuprobe.options import Options

BOOT = "0123456789abcdef0123456789abcdef"
MACHINE = "fedcba9876543210fedcba9876543210"


def kernel(path: str, host: str | None, **fields: Any) -> Event:
    return XidReported(origin=Origin(path, 1, "x"), host=host, source="kernel", code=79, **fields)


def engine(path: str, host: str | None = None, **fields: Any) -> Event:
    return CudaFailed(
        origin=Origin(path, 1, "x"),
        host=host,
        source="vllm",
        code=719,
        name=None,
        message="m",
        **fields,
    )


def grouped(*events: Event, host: str | None = None) -> dict[str | None, list[str]]:
    """Name of each machine, with the inputs of its events."""
    paths = list(dict.fromkeys(event.origin.input for event in events))
    return {group.name: group.paths for group in group_by_host(events, paths, host=host)}


def test_a_kernel_line_s_host_is_a_machine() -> None:
    """The host field of kernel lines names the machine."""
    assert grouped(kernel("a", "n1")) == {"n1": ["a"]}


def test_inputs_without_a_host_join_the_only_one() -> None:
    """An engine's log beside one machine's kernel log is that machine's."""
    assert grouped(kernel("a", "n1"), engine("b")) == {"n1": ["a", "b"]}


def test_with_two_hosts_an_unnamed_input_joins_none() -> None:
    """Nobody says whose engine log it is."""
    assert grouped(kernel("a", "n1"), kernel("b", "n2"), engine("c")) == {
        "n1": ["a"], "n2": ["b"], None: ["c"],
    }  # fmt: skip


def test_the_user_can_say_whose_it_is() -> None:
    """--host decides for inputs that name none."""
    groups = grouped(kernel("a", "n1"), kernel("b", "n2"), engine("c"), host="n2")

    assert groups == {"n1": ["a"], "n2": ["b", "c"]}


def test_without_any_host_there_is_one_nameless_machine() -> None:
    """Two engine logs are one machine's until something says otherwise."""
    assert grouped(engine("a"), engine("b")) == {None: ["a", "b"]}


@pytest.mark.parametrize("shared", [{"boot": BOOT}, {"machine_id": MACHINE}])
def test_names_that_share_an_id_are_one_machine(shared: dict[str, str]) -> None:
    """A host that was renamed keeps its boot and machine id."""
    groups = grouped(
        kernel("a", "localhost", **shared),
        kernel("b", "n1", **shared),
        kernel("c", "n1.lan", **shared),
    )

    assert list(groups.values()) == [["a", "b", "c"]]
    assert next(iter(groups)) in ("n1", "n1.lan")


def test_localhost_is_no_name() -> None:
    """Before a name is set the kernel says localhost."""
    assert grouped(kernel("a", "localhost"), kernel("a", "n1")) == {"n1": ["a"]}


@pytest.mark.parametrize("name", ["9f8e7d6c5b4a", "vllm-6d4cf56db6-x7k2p", "vllm-0"])
def test_a_pod_or_a_container_is_no_machine(name: str) -> None:
    """Names that an orchestrator makes belong to the machine at hand."""
    assert grouped(kernel("a", "gpu-node"), engine("b", name)) == {"gpu-node": ["a", "b"]}


def test_a_program_s_host_that_is_another_machine_stays_apart() -> None:
    """A collected syslog with a line of another host does not join the known one."""
    groups = grouped(kernel("a", "alpha"), engine("b", "beta"))

    assert groups["alpha"] == ["a"]
    assert "b" not in groups["alpha"]


def test_prose_names_no_machine() -> None:
    """A log line quoted in somebody's words brings no host."""
    assert grouped(kernel("a", "n1"), kernel("b", "n9", setting=Setting.PROSE)).get("n9") is None


def test_an_input_without_events_is_listed_once() -> None:
    """A quiet log was read all the same."""
    (group,) = group_by_host([kernel("a", "n1")], ["a", "quiet"])

    assert group.paths == ["a", "quiet"]


def test_no_events_at_all_are_one_group() -> None:
    """There is always a machine to say nothing about."""
    (group,) = group_by_host([], ["a"])

    assert (group.name, group.paths) == (None, ["a"])


LOSS = "May 05 10:00:00 {} kernel: NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
ERROR = "May 05 10:00:02 {} vllm[9]: RuntimeError: CUDA error: unspecified launch failure\n"


def test_one_document_with_the_gravest_host_on_top(tmp_path) -> None:
    """The loss decides the answer and the exit code; the healthy host stands beside it."""
    (tmp_path / "a.log").write_text(
        "May 05 10:00:00 aa kernel: nvidia 0000:1a:00.0: enabling device (0000 -> 0003)\n"
    )
    (tmp_path / "z.log").write_text(LOSS.format("zz"))
    diagnosis = diagnose(tmp_path / "a.log", tmp_path / "z.log")

    assert (diagnosis.host, diagnosis.answer, diagnosis.exit_code) == (
        "zz",
        Kind.DEVICE_LEFT_BUS,
        79,
    )
    assert [(other.host, other.answer) for other in diagnosis.other_hosts] == [
        ("aa", Kind.NO_FAULT)
    ]


def test_one_address_on_two_hosts_is_two_devices(tmp_path) -> None:
    """A loss on one host explains nothing on the other, whatever the address."""
    (tmp_path / "a.log").write_text(LOSS.format("aa"))
    (tmp_path / "b.log").write_text(
        LOSS.format("bb").replace(
            "79, GPU has fallen off the bus.", "31, pid=9, name=vllm, MMU Fault"
        )
        + ERROR.format("bb")
    )
    diagnosis = diagnose(tmp_path)
    (other,) = diagnosis.other_hosts

    assert (diagnosis.host, diagnosis.answer) == ("aa", Kind.DEVICE_LEFT_BUS)
    assert (other.host, other.answer) == ("bb", Kind.APPLICATION_FAULT)
    assert {item.input for item in diagnosis.verdicts[0].evidence} == {str(tmp_path / "a.log")}


def test_host_ties_an_engine_log_to_its_machine(tmp_path) -> None:
    """With two machines known, --host makes the engine's error a consequence on the named one."""
    (tmp_path / "a.log").write_text(LOSS.format("aa"))
    (tmp_path / "b.log").write_text(LOSS.format("bb").replace("1a:00", "1b:00"))
    (tmp_path / "engine.log").write_text("RuntimeError: CUDA error: unspecified launch failure\n")
    loose = diagnose(tmp_path)
    tied = diagnose(tmp_path, options=Options(host="bb"))
    documents = {document.host: document for document in (tied, *tied.other_hosts)}

    assert None in {document.host for document in (loose, *loose.other_hosts)}
    assert any("--host" in row.how for row in loose.verdicts[0].not_checked)
    assert not any("--host" in row.how for row in tied.verdicts[0].not_checked)
    assert set(documents) == {"aa", "bb"}
    assert any(item.input.endswith("engine.log") for item in documents["bb"].verdicts[0].evidence)
