"""`--need-gen`, `--need-width`, `--need-bandwidth`: a guard before an engine starts."""

from __future__ import annotations

import pytest
from machines import GPU, PORT, nvml, only, run, sample, scene

from gpuprobe.checks import Status, requirements
from gpuprobe.checks.base import REQUIREMENT_NOT_MET
from gpuprobe.checks.examine import judge
from gpuprobe.checks.scene import Requirements
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.reporters.check_text import headline
from gpuprobe.testing.sysfs import FakeSysfs


def test_nothing_needed_nothing_said(tree) -> None:
    """No line without an option."""
    assert run(requirements, scene(tree)) == []


@pytest.mark.parametrize(
    ("needs", "what", "met"),
    [
        (Requirements(gen=4), "need-gen", True),
        (Requirements(gen=5), "need-gen", False),
        (Requirements(width=16), "need-width", True),
        (Requirements(width=32), "need-width", False),
        (Requirements(bytes_per_s=25e9), "need-bandwidth", True),
        (Requirements(bytes_per_s=30e9), "need-bandwidth", False),
    ],
)
def test_each_need_against_gen4_x16(tree, needs: Requirements, what: str, met: bool) -> None:
    """Practical rates: 31.5 GB/s raw is no 30 GB/s."""
    found = only(requirements, scene(tree, needs=needs), what)

    assert found.status is (Status.OK if met else Status.BAD)
    assert found.kind == (None if met else REQUIREMENT_NOT_MET)


def test_an_idle_generation_does_not_fail_a_need(tree) -> None:
    """The link steps up under load."""
    tree.set_link(str(GPU), speed_gts=2.5)

    assert (
        only(requirements, scene(tree, needs=Requirements(gen=4)), "need-gen").status is Status.OK
    )


def test_a_narrow_hop_far_up_counts(tmp_path) -> None:
    """The narrowest hop decides, not the slot."""
    tree = FakeSysfs(tmp_path)
    tree.gpu(str(GPU), bridges=["0000:00:01.0", "0000:02:00.0", str(PORT)])
    tree.set_link("0000:02:00.0", width=4)
    of = scene(tree, needs=Requirements(bytes_per_s=12e9))

    found = only(requirements, of, "need-bandwidth")

    assert found.status is Status.BAD
    assert "0000:00:01.0 - 0000:02:00.0" in found.text


def test_the_generation_under_load_counts_where_it_was_sampled(tree) -> None:
    """It was asked for, so the best is no excuse."""
    samples = tuple(sample(at / 10, link_gen=2) for at in range(4))
    of = scene(tree, needs=Requirements(gen=3), load=Known(samples))

    assert only(requirements, of, "need-gen").figures == {"gen": 2, "need_gen": 3}


def test_a_link_that_cannot_be_read_is_not_met_and_not_failed(tree) -> None:
    """Not checked, with the reason."""
    tree.lose(str(GPU))
    (found,) = run(
        requirements,
        scene(
            tree,
            needs=Requirements(width=16),
            nvml=Unavailable(Reason.NOT_THERE, "LIBRARY_NOT_FOUND"),
        ),
    )

    assert found.status is Status.NOT_CHECKED


def test_a_need_that_cannot_be_judged_lets_nobody_through(tree) -> None:
    """The guard before an engine fails where nobody could look; without a need it does not."""
    for name in ("current_link_width", "current_link_speed", "max_link_width", "max_link_speed"):
        for address in (GPU, PORT):
            (tree.folder(str(address)) / name).unlink()
    unread = nvml(link_width=Unavailable(Reason.NOT_SUPPORTED))

    asked = judge(scene(tree, needs=Requirements(width=16), nvml=unread))

    assert (asked.answer, asked.exit_code) == ("cannot-tell", 3)
    assert "what is needed could not be judged" in headline(asked)
    assert judge(scene(tree, nvml=unread)).exit_code == 0


def test_the_driver_tells_where_there_is_no_sysfs() -> None:
    """Its maximum and its width."""
    of = scene(None, bus=Unavailable(Reason.NOT_THERE), needs=Requirements(gen=4, width=16))

    assert [f.status for f in run(requirements, of)] == [Status.OK, Status.OK]
