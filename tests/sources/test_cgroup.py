"""Cgroups: which container a process is in. Their limits: `test_host`."""

from __future__ import annotations

import pytest

from gpuprobe.sources.cgroup import container_of

ID = "22da9d6f1355cda1bb534887d5fde0acdc58e75d7e7d120b69e5d50014ebe772"
OUTER = "f" * 64
POD = "pod6f0a3f3e_0d3c_4a53_9a0e_6f5d2c1b7a10"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"/system.slice/docker-{ID}.scope", "docker"),
        (f"/docker/{ID}", "docker"),
        (f"/system.slice/docker-{ID}.scope/init", "docker"),
        (f"/docker/{OUTER}/docker/{ID}", "docker"),
        (f"/../docker-{ID}.scope", "docker"),
        (f"/machine.slice/libpod-{ID}.scope/container", "podman"),
        (f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope", "podman"),
        (f"/libpod_parent/libpod-{ID}", "podman"),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{POD}.slice"
            f"/cri-containerd-{ID}.scope",
            "kubernetes",
        ),
        (f"/kubepods.slice/kubepods-{POD}.slice/crio-{ID}.scope", "kubernetes"),
        (f"/kubepods/besteffort/{POD}/{ID}", "kubernetes"),
        (f"/kubepods-besteffort-{POD}.slice:cri-containerd:{ID}", "kubernetes"),
        (f"/system.slice/nerdctl-{ID}.scope", "containerd"),
        (f"/default/{ID}", "containerd"),
    ],
)
@pytest.mark.parametrize("begin", ["0::", "4:memory:", "9:name=systemd:"])
def test_the_container_of_a_process(begin: str, path: str, kind: str) -> None:
    """Of cgroup version 2 or 1, as each runtime names its groups."""
    assert container_of(f"1:cpu:/\n{begin}{path}\n") == (kind, ID)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/system.slice/vllm.service",
        "/system.slice/docker.service",
        f"/machine.slice/libpod-conmon-{ID}.scope",
        f"/system.slice/run-{ID[:32]}.scope",
        "",
    ],
)
def test_a_process_in_no_container(path: str) -> None:
    """A unit, the runtime's own daemon, Podman's watcher, an invocation's id."""
    assert container_of(f"0::{path}\n") is None
