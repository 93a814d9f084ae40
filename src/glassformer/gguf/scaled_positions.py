"""Scaled rotary positions of a GGUF file: a tensor of factors, by which llama.cpp divides the frequencies.

    rope_freqs.weight  [width/2]    1 … 1, then a ramp, then the factor of Llama 3.1's scaling

The factors tell the scaling where it is that of the published models (Llama 3.1 to 3.3).
Source: ggml-org/llama.cpp, its conversion of Llama.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.core import Llama3Scaling, RotarySpec
from glassformer.errors import WeightsError
from glassformer.gguf.header import GGUFHeader

FACTORS = "rope_freqs.weight"
ARCHITECTURES = ("llama",)
"""Those of which llama.cpp reads this tensor."""
F32 = 0
PUBLISHED = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def factors_of(rotary: RotarySpec) -> Tensor:
    """Frequencies without scaling, divided by those with it. [width/2]"""
    assert rotary.scaling is not None  # the caller asks of scaled positions
    plain = rotary.frequencies(torch.device("cpu"), torch.float64)
    scaled = rotary.scaling.frequencies(rotary, torch.zeros(1, 1), torch.float64)
    return (plain / scaled).float()


def read_factors(header: GGUFHeader) -> Tensor | None:
    """The factors of a file; None where it has none.

    Raises: WeightsError: they are no vector of float32, or cut off.
    """
    stored = header.tensors.get(FACTORS)
    if stored is None:
        return None
    count, size = int(np.prod(stored.shape)), header.path.stat().st_size
    if len(stored.shape) != 1 or stored.kind != F32 or stored.offset + 4 * count > size:
        raise WeightsError(f"{header.path}: {FACTORS} is no vector of float32, or cut off; the file is damaged")
    return torch.from_numpy(np.fromfile(header.path, np.float32, count, offset=stored.offset))


def scaling_of(factors: Tensor, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """`rope_scaling` of a config, whose scaling has these factors; None where it is none of the published ones."""
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    factor = float(factors.max()) if len(factors) else 0.0
    if len(factors) != width // 2 or not 1 < factor < float("inf"):
        return None
    published = Llama3Scaling(
        factor=factor,
        low_frequency_factor=PUBLISHED["low_freq_factor"],
        high_frequency_factor=PUBLISHED["high_freq_factor"],
        original_positions=int(PUBLISHED["original_max_position_embeddings"]),
    )
    again = factors_of(RotarySpec(width=width, theta=config.get("rope_theta", 10_000.0), scaling=published))
    if not torch.allclose(factors, again, rtol=1e-5):
        return None
    return {"rope_type": "llama3", "factor": factor, **PUBLISHED}
