"""The instructions of this machine's processor: they decide which dtypes and kernels are fast.

    AVX2 alone (most laptops, AMD Zen 1 to 3)     fp32                 bf16 is emulated: seven times slower than fp32
    AVX-512 with VNNI                             fp32, int8
    AVX-512 with BF16; AMX                        fp32, int8, bf16

`ATEN_CPU_CAPABILITY=avx2`, which torch obeys, hides AVX-512 and AMX from Glassformer too, so that any machine can test
what a smaller one does (`make test CPU=avx2`).
"""

from __future__ import annotations

import platform
from functools import cache

import torch

BEYOND_AVX2 = ("avx512", "avxvnni", "avx10", "evex512", "vnni", "amx")
"""How the names of what AVX2 alone does not have begin, by torch and by LLVM."""


@cache
def has(instructions: str) -> bool:
    """Whether the processor has instructions, by torch's names: "avx2", "avx512_bf16", "vnni", "amx_tile".

    False too where torch cannot say, and beyond what `ATEN_CPU_CAPABILITY` allows.
    """
    if instructions.startswith(BEYOND_AVX2) and "AVX512" not in torch.backends.cpu.get_cpu_capability():
        return False
    return bool(getattr(torch.cpu, f"_is_{instructions}_supported", bool)())


@cache
def is_fast(dtype: torch.dtype, device: str = "cpu") -> bool:
    """Whether products in a floating-point dtype run in instructions of their own, rather than emulated.

    Args:
        dtype: any floating-point one; fp32 and fp64 always are.
        device: the type of a device; everything is taken to be fast on those that are no CPU.
    """
    if device != "cpu" or dtype not in (torch.bfloat16, torch.float16):
        return True
    name = {torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype]
    if platform.machine().lower() in ("x86_64", "amd64"):
        if not has("avx512"):
            return False
        if dtype == torch.bfloat16:
            return has("avx512_bf16")  # oneDNN has products for AVX-512 without it, but widens each number
    return bool(getattr(torch.ops.mkldnn, f"_is_mkldnn_{name}_supported", bool)())
