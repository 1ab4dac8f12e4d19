"""What keeps programs from the driver: modules that will not load, containers, missing libraries."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.events import DriverUnusable
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading
from gpuprobe.sources.wording.shapes import BDF

_CLI_REASONS = tuple(
    (regex(text, re.IGNORECASE), what)
    for text, what in (
        (r"driver/library version mismatch", "version-mismatch"),
        (r"driver not loaded|nvidia driver was not detected|no such device\b", "not-loaded"),
        (r"requirement error|unsatisfied condition", "too-old"),
        (r"load library failed", "no-library"),
        (r"insufficient permissions|permission denied", "no-permission"),
        # NVML's own answers may come from a lost GPU: other patterns read them.
        (r"nvml error: (?:unknown|gpu is lost|gpu requires)", ""),
        (r"\w", "container-setup"),
    )
)


def _unusable(what: str) -> Callable[[re.Match[str], Window], Reading]:
    """A reader that gives `DriverUnusable(what)`."""

    def read(match: re.Match[str], window: Window) -> Reading:
        return DriverUnusable(**window.base(), what=what)

    return read


def _read_cli(match: re.Match[str], window: Window) -> Reading:
    said = match["said"]
    what = next((what for text, what in _CLI_REASONS if text.search(said)), "")
    return DriverUnusable(**window.base(), what=what) if what else None


def _read_rejected(match: re.Match[str], window: Window) -> Reading:
    """The kernel does not say which module it refused; the lines around may."""
    near = (*window.before(6), *window.after(6))
    if not any("nvidia" in record.message.lower() for record in near):
        return None
    return DriverUnusable(**window.base(), what="not-loaded")


def _read_library(match: re.Match[str], window: Window) -> Reading:
    near = [window.text, *(record.message for record in (*window.before(2), *window.after(8)))]
    if any(
        re.search(r"Ignore above|if you do not have a GPU|llvmlite|stubs/", text) for text in near
    ):
        return None  # TensorFlow and others say so on machines that never had a GPU.
    return DriverUnusable(**window.base(), what="no-library")


FAMILY = Family(
    "driver_setup",
    (
        Pattern(
            id="container-cli",
            needles=("nvidia-container-cli",),
            regex=regex(r"nvidia-container-cli(?:\.real)?: (?P<said>(?:\w+ ){1,3}error: [^\n]+)"),
            read=_read_cli,
            examples=(
                "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown.",
                "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory: unknown",
                "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.6, please update your driver to a newer version",
                "nvidia-container-cli.real: initialization error: WSL environment detected but no adapters were found: unknown",
                "stderr: nvidia-container-cli: container error: cgroup subsystem devices not found: unknown.",
            ),
            near=(
                "nvidia-container-cli --version",
                "nvidia-container-cli: initialization error: nvml error: unknown error: unknown.",
            ),
            source="NVIDIA/libnvidia-container, src/cli",
        ),
        Pattern(
            id="cluster-setup",
            needles=("executable file not found", "no runtime for "),
            regex=regex(
                r"exec: \\?\"nvidia-smi\\?\": executable file not found|no runtime for \\?\"nvidia[\w-]*\\?\" is configured"
            ),
            read=_unusable("container-setup"),
            examples=(
                'Error: error validating toolkit installation: exec: "nvidia-smi": executable file not found in $PATH',
                'failed to get sandbox runtime: no runtime for "nvidia" is configured',
            ),
            near=('no runtime for "kata" is configured',),
            source="NVIDIA/gpu-operator, validator; containerd CRI",
        ),
        Pattern(
            # NVML's text in a program's own words; nvidia-smi's are in `nvml_errors`.
            id="nvml-version-mismatch",
            needles=("ibrary version mismatch",),
            regex=regex(
                r"(?<!nitialize NVML: )(?<!nitialise NVML: )(?<!nitializing NVML: )[Dd]river/[Ll]ibrary version mismatch"
            ),
            read=_unusable("version-mismatch"),
            examples=(
                "pynvml.NVMLError_LibRmVersionMismatch: Driver/library version mismatch",
                "NVML: Driver/library version mismatch",
            ),
            near=(
                "Failed to initialize NVML: Driver/library version mismatch",
                "library version mismatch: numpy",
            ),
            source="NVML, nvmlErrorString",
        ),
        Pattern(
            id="container-runtime",
            needles=(
                "could not select device driver",
                "CDI device",
                "runtime name: nvidia",
                "runtime specified nvidia",
                "nvidia-container-runtime-hook",
            ),
            regex=regex(
                r"could not select device driver \\?\"[^\"]{0,20}\" with capabilities: \[\[[^\]]*gpu"
                r"|(?:unresolvable|failed to inject|unknown) CDI devices?[^\n]{0,80}?nvidia\.com"
                r"|[Uu]nknown (?:or invalid )?runtime (?:name: |specified )nvidia"
                r"|nvidia-container-runtime-hook[^\n]{0,40}(?:executable file not found|no such file|\(exit code: [1-9])"
            ),
            read=_unusable("container-setup"),
            examples=(
                'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
                "error modifying OCI spec: failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=all: unknown",
                "Error response from daemon: unknown or invalid runtime name: nvidia",
            ),
            near=("CDI devices found: 3",),
            source="moby daemon, NVIDIA container toolkit",
        ),
        Pattern(
            id="device-plugin-no-driver",
            needles=(
                "Incompatible platform detected",
                "If this is a GPU node, did you",
                "could not load NVML library",
                "ncompatible strategy detected",
            ),
            regex=regex(
                r"If this is a GPU node, did you (?:configure|set)|could not load NVML library"
                r"|Incompatible (?:platform|strategy) detected"
            ),
            read=_unusable("container-setup"),
            examples=(
                "E0611 08:00:01.000000       1 factory.go:113] Incompatible platform detected",
                "2024/06/11 08:00:01 Failed to initialize NVML: could not load NVML library.",
                "If this is a GPU node, did you set the docker default runtime to `nvidia`?",
            ),
            source="NVIDIA/k8s-device-plugin",
        ),
        Pattern(
            id="module-not-inserted",
            needles=("could not insert", "Module nvidia", "nicht einf"),
            regex=regex(
                r"could not insert (?:module )?['\"‘]?(?:\S*/)?nvidia[\w.-]*['\"’]?: (?P<why>(?!File exists)[A-Z][\w ]+)"
                r"|FATAL: Module nvidia[\w-]* not found|konnte 'nvidia[\w-]*' nicht einf"
            ),
            read=_unusable("not-loaded"),
            examples=(
                "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
                "modprobe: ERROR: could not insert 'nvidia_drm': No such device",
                "insmod: ERROR: could not insert module nvidia.ko: Invalid module format",
                "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.11.0-8-generic",
            ),
            near=(
                "modprobe: ERROR: could not insert 'zfs': Invalid argument",
                "modprobe: FATAL: Module nvidiafb is in use.",
            ),
            source="kmod tools/modprobe.c",
        ),
        Pattern(
            id="module-refused",
            needles=("nvidia: version magic", "nvidia: disagrees about", "nvidia: Unknown symbol"),
            regex=regex(
                r"\bnvidia: (?:version magic '|disagrees about version of symbol|Unknown symbol)"
            ),
            read=_unusable("not-loaded"),
            examples=(
                "nvidia: version magic '6.8.0-40-generic SMP mod_unload ' should be '6.8.0-41-generic SMP mod_unload '",
                "nvidia: disagrees about version of symbol module_layout",
            ),
            near=(
                "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
            ),
            source="Linux, kernel/module",
        ),
        Pattern(
            id="module-signature",
            needles=("is rejected",),
            regex=regex(
                r"Loading of (?:unsigned module|module with (?:unavailable key|unsupported crypto)) is rejected"
            ),
            read=_read_rejected,
            examples=(
                "nvidia-nvlink: loading out-of-tree module taints kernel.\nLoading of unsigned module is rejected",
            ),
            near=("Loading of unsigned module is rejected",),
            source="Linux, kernel/module/signing.c",
        ),
        Pattern(
            id="module-not-built",
            needles=(
                "/var/lib/dkms/nvidia",
                "to load the kernel module",
                "build the NVIDIA kernel module",
                "build the kernel module",
            ),
            regex=regex(
                r"[Cc]onsult (?:the )?\S*/var/lib/dkms/nvidia\S*/make\.log"
                r"|Unable to (?:load the kernel module 'nvidia[\w.-]*'|build the NVIDIA kernel module)"
            ),
            read=_unusable("not-loaded"),
            examples=(
                "Consult /var/lib/dkms/nvidia/560.35.03/build/make.log for more information.",
                "ERROR: Unable to load the kernel module 'nvidia.ko'.",
            ),
            near=("Creating symlink /var/lib/dkms/nvidia/560.35.03/source",),
            source="dkms, nvidia-installer",
        ),
        Pattern(
            id="legacy-branch",
            needles=("Legacy drivers",),
            regex=regex(r"supported through the NVIDIA [\d.]+xx Legacy drivers"),
            read=_unusable("unsupported"),
            examples=("NVRM:  supported through the NVIDIA 390.xx Legacy drivers. Please",),
            near=("the Legacy drivers of NVIDIA",),
            source="NVIDIA open kernel modules, nv-pci.c",
        ),
        Pattern(
            id="library-missing",
            needles=("libcuda.so", "libnvidia-ml.so", "UNKNOWN ERROR (303)"),
            regex=regex(
                r"\blib(?:cuda|nvidia-ml)\.so(?:\.\d+)*'?[:;][^\n]{0,40}cannot open shared object file"
                r"|failed call to cuInit: UNKNOWN ERROR \(303\)"
            ),
            read=_read_library,
            examples=(
                "OSError: libcuda.so.1: cannot open shared object file: No such file or directory",
                "E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:152] failed call to cuInit: UNKNOWN ERROR (303)",
            ),
            near=(
                "loaded /usr/lib/libcuda.so.570.86",
                "libcudart.so.12: cannot open shared object file",
            ),
            source="glibc dlopen, TensorFlow dso_loader",
        ),
        Pattern(
            id="xorg-no-driver",
            needles=("Failed to initialize the NVIDIA",),
            regex=regex(
                r"\(EE\)\s+NVIDIA(?:\([\w-]+\))?: Failed to initialize the NVIDIA (?:kernel module|graphics device|GPU at PCI)"
            ),
            read=_unusable("probe-failed"),
            examples=(
                "(EE) NVIDIA: Failed to initialize the NVIDIA kernel module. Please see the",
                "(EE) NVIDIA(GPU-0): Failed to initialize the NVIDIA GPU at PCI:1:0:0.  Please",
            ),
            near=("Failed to initialize the NVIDIA plug-in",),
            source="NVIDIA X driver",
        ),
        Pattern(
            id="program-no-device",
            needles=(
                "torch.cuda.is_available() is False",
                "Failed to infer device type",
                "Torch is not able to use GPU",
                "no healthy devices present",
                "/dev/nvidia",
            ),
            regex=regex(
                r"object on a CUDA device but torch\.cuda\.is_available\(\) is False|RuntimeError: Failed to infer device type|RuntimeError: Torch is not able to use GPU"
                r"|no healthy devices present; cannot allocate unhealthy devices nvidia\.com/gpu|cannot access '/dev/nvidia[^'\n]{0,20}': No such file"
            ),
            read=_unusable("no-cuda-device"),
            examples=(
                "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.",
                "RuntimeError: Failed to infer device type, please set the environment variable",
                "RuntimeError: Torch is not able to use GPU; add --skip-torch-cuda-test to COMMANDLINE_ARGS variable to disable this check",
                "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected",
                "ls: cannot access '/dev/nvidia*': No such file or directory",
            ),
            near=("torch.cuda.is_available() is False, using the CPU",),
            source="PyTorch serialization.py, vLLM config, webui launch.py, kubelet, coreutils",
        ),
        Pattern(
            id="kfd-no-permission",
            needles=("/dev/kfd", "default DRM access group"),
            regex=regex(
                r"[Uu]nable to open /dev/kfd\b[^\n]{0,40}Permission denied|is not member of \"?(?:render|video)\"? group, the default DRM access group"
            ),
            read=_unusable("no-permission"),
            examples=(
                "Unable to open /dev/kfd read-write: Permission denied",
                'kim is not member of "render" group, the default DRM access group.',
            ),
            near=("crw-rw---- 1 root render 510, 0 /dev/kfd",),
            source="ROCm, rocminfo",
        ),
        Pattern(
            id="vfio-refused",
            needles=("is not viable", "/dev/vfio/"),
            regex=regex(
                rf"vfio(?:-pci)?:? {BDF}:?.{{0,40}}(?:group \d+ is not viable|failed to open /dev/vfio/\d+: (?:Permission denied|No such file|Device or resource busy))"
            ),
            read=_unusable("vm-setup"),
            examples=(
                "qemu-system-x86_64: -device vfio-pci,host=0000:0a:00.0,id=hostpci0: vfio 0000:0a:00.0: group 21 is not viable",
                "qemu-system-x86_64: -device vfio-pci,host=0a:00.0: vfio 0000:0a:00.0: failed to open /dev/vfio/21: Device or resource busy",
            ),
            near=(
                "the plan is not viable",
                "crw------- 1 root root 240, 0 /dev/vfio/21",
            ),
            source="QEMU hw/vfio/container.c",
        ),
        Pattern(
            id="jetson-no-permission",
            needles=("NvRmMemInitNvmap failed",),
            regex=regex(r"NvRmMemInitNvmap failed with Permission denied"),
            read=_unusable("no-permission"),
            examples=("NvRmMemInitNvmap failed with Permission denied",),
            near=("NvRmMemInitNvmap failed with Success",),
            source="NVIDIA Jetson forum",
        ),
    ),
)
"""The way to the driver: kernel module, container, libraries."""
