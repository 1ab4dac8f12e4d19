"""All kinds of cache that are known, in the order in which they are asked."""

from __future__ import annotations

from gpuprobe.jitcache.base import Kind
from gpuprobe.jitcache.cuda import ComputeCache
from gpuprobe.jitcache.deepgemm import DeepGemm
from gpuprobe.jitcache.inductor import Inductor
from gpuprobe.jitcache.jax import Jax
from gpuprobe.jitcache.ninja import FlashInfer, TorchExtensions
from gpuprobe.jitcache.numba_cache import Numba
from gpuprobe.jitcache.sglang import Sglang
from gpuprobe.jitcache.tilelang import TileLang
from gpuprobe.jitcache.torch_kernels import TorchKernels
from gpuprobe.jitcache.triton import Triton
from gpuprobe.jitcache.vllm import Vllm

KINDS: tuple[Kind, ...] = (
    Triton(),
    DeepGemm(),
    TileLang(),
    FlashInfer(),
    TorchExtensions(),
    Vllm(),
    Inductor(),
    Jax(),
    Numba(),
    TorchKernels(),
    ComputeCache(),
    Sglang(),
)
"""The first that owns a folder, or a file, judges it."""
