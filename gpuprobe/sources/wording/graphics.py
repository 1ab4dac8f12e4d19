"""Device loss as Vulkan and Direct3D programs print it.

In these interfaces "device lost" means that a context can no longer be used: after a hang, a reset,
a driver update or a true loss. It proves none of them.
"""

from __future__ import annotations

import re

from gpuprobe.events import GpuHung
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading

_D3D = {
    "DEVICE_REMOVED": "device-removed", "5": "device-removed",
    "DEVICE_HUNG": "tdr", "6": "tdr",
    "DEVICE_RESET": "reset", "7": "reset",
    "DRIVER_INTERNAL_ERROR": "device-removed", "20": "device-removed",
}  # fmt: skip


def _read_vulkan(match: re.Match[str], window: Window) -> Reading:
    return GpuHung(**window.base(), driver="vulkan", what="device-removed")


def _read_d3d(match: re.Match[str], window: Window) -> Reading:
    # A line mostly has the name and the number of one error.
    if re.search(r"DXGI_ERROR_DE|0x887[aA]00", window.text[: match.start()]):
        return None
    what = _D3D[match["name"] or match["number"] or "20"]
    return GpuHung(**window.base(), driver="d3d", what=what)


def _read_d3d_words(match: re.Match[str], window: Window) -> Reading:
    return GpuHung(**window.base(), driver="d3d", what="device-removed")


FAMILY = Family(
    "graphics",
    (
        Pattern(
            id="vulkan-driver-words",
            needles=(
                "because the context is lost",
                "ggml_vulkan: device lost",
                "GPU hung on one of our command buffers",
                "kIOGPUCommandBufferCallbackError",
            ),
            regex=regex(
                r"The CS has been (?:cancelled|rejected) because the context is lost|ggml_vulkan: device lost on|GPU hung on one of our command buffers|kIOGPUCommandBufferCallbackError(?:Timeout|Hang|ImpactingInteractivity)\b"
            ),
            read=_read_vulkan,
            examples=(
                "radv/amdgpu: The CS has been cancelled because the context is lost. This context is guilty of a hard recovery.",
                "ggml_vulkan: device lost on Vulkan1",
                "MESA: error: ../src/intel/vulkan/anv_device.c:2041: GPU hung on one of our command buffers (VK_ERROR_DEVICE_LOST)",
            ),
            near=("kIOGPUCommandBufferCallbackErrorOutOfMemory",),
            source="Mesa radv and anv, llama.cpp ggml-vulkan, Apple Metal",
        ),
        Pattern(
            id="vulkan-device-lost",
            needles=("ERROR_DEVICE_LOST", "DeviceLostError", "ErrorDeviceLost"),
            regex=regex(
                r"(?<![=!]= )(?<!case )\b(?:(?:VK_|(?:UR|ZE|PI)_RESULT_)?ERROR_DEVICE_LOST|vk::(?:\w+::)*DeviceLostError|(?:vk::\S*)?ErrorDeviceLost)\b(?! =)"
            ),
            read=_read_vulkan,
            examples=(
                "terminate called after throwing an instance of 'vk::DeviceLostError'",
                "  what():  vk::Device::waitForFences: ErrorDeviceLost",
                "vkQueueSubmit failed: VK_ERROR_DEVICE_LOST",
                "RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
            ),
            near=(
                "case VK_ERROR_DEVICE_LOST:",
                "device lost its lease",
                "    from gpuprobe import DeviceLostError, guard",
            ),
            source="Vulkan specification, lost device",
        ),
        Pattern(
            id="d3d-device-removed",
            needles=("DXGI_ERROR_D", "887A00", "887a00"),
            regex=regex(
                r"(?<![=!]= )(?<!case )(?:DXGI_ERROR_(?P<name>DEVICE_REMOVED|DEVICE_HUNG|DEVICE_RESET|DRIVER_INTERNAL_ERROR)\b(?! =)|(?:0x)?887[Aa]00(?:0(?P<number>[567])|20)\b)"
            ),
            read=_read_d3d,
            examples=(
                "Present failed with DXGI_ERROR_DEVICE_REMOVED (0x887A0005), reason DXGI_ERROR_DEVICE_HUNG",
                "CreateTexture2D failed, HRESULT: 0x887a0006",
            ),
            near=("DXGI_ERROR_DEVICE_LIST is not a name", "#define DXGI_ERROR_DEVICE_HUNG = 3"),
            source="Microsoft, DXGI_ERROR reference",
        ),
        Pattern(
            id="d3d-device-lost-words",
            needles=(
                "D3D Device Removed",
                "D3D device being lost",
                "GPU device instance has been suspended",
            ),
            regex=regex(
                r"GPU Crashed or D3D Device Removed|D3D device being lost|GPU device instance has been suspended"
            ),
            read=_read_d3d_words,
            examples=(
                "LogD3D12RHI: Error: GPU Crashed or D3D Device Removed.",
                "Unreal Engine is exiting due to D3D device being lost. (Error: 0x1)",
                "The GPU device instance has been suspended. Use GetDeviceRemovedReason to determine the appropriate action.",
            ),
            source="Unreal Engine D3D12RHI",
        ),
    ),
)
"""Vulkan and Direct3D device loss."""
