"""EnCodec's original `.th` files: the config from sizes, and what they cannot say from the two published models."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from glassformer.errors import WeightsError
from glassformer.files.atomic import write_json
from glassformer.foreign.renamed import RenamedWeights
from glassformer.models.encodec.names import original_names
from glassformer.weights.read import WeightFiles

BANDWIDTHS = (1.5, 3.0, 6.0, 12.0, 24.0)
"""In kbit/s, of the published models; each has those that its codebooks make."""


def open_original(checkpoint: WeightFiles, source: Path, folder: Path) -> RenamedWeights:
    """An original state dict in the Hugging Face layout, and its config.json and preprocessor_config.json written.

    The file holds no settings. Mono with normalised weights is the causal model of 24 kHz; stereo with normalised
    outputs the one of 48 kHz, which evens out loudness and works in chunks of a second.
    Raises: WeightsError: tensors that are missing or damaged.
    """
    weights = RenamedWeights(checkpoint, original_names())
    stereo = "encoder.layers.0.norm.weight" in weights.tensors
    leaf = "weight" if stereo else "parametrizations.weight.original1"
    filters, channels, kernel = _sizes(weights, f"encoder.layers.0.conv.{leaf}")
    upsampling = sorted(int(match[1]) for name in checkpoint.tensors if (match := _UPSAMPLING.fullmatch(name)))
    ratios = [_sizes(weights, f"decoder.layers.{i}.conv.{leaf}")[2] // 2 for i in upsampling]
    if not ratios or 0 in ratios:
        raise WeightsError(f"{source}: has no transposed convolution in its decoder, or an empty one; it is cut off")
    convolutions = [int(match[1]) for name in weights.tensors if (match := _CONVOLUTION.match(name))]
    inner, _, residual_kernel = _sizes(weights, f"encoder.layers.1.block.1.conv.{leaf}")
    codes, width = weights.shape("quantizer.layers.0.codebook.embed")
    rate = 48_000 if stereo else 24_000
    # kbit/s of all codebooks: frames a second, and bits of a code
    top = weights.count("quantizer.layers.{i}.codebook.") * (rate / math.prod(ratios)) * math.log2(codes) / 1000
    chunks = {"chunk_length_s": 1.0, "overlap": 0.01} if stereo else {}
    config: dict[str, Any] = {
        "model_type": "encodec",
        "architectures": ["EncodecModel"],
        "sampling_rate": rate,
        "audio_channels": channels,
        "normalize": stereo,
        "norm_type": "time_group_norm" if stereo else "weight_norm",
        "use_causal_conv": not stereo,
        "target_bandwidths": [*(each for each in BANDWIDTHS if top / each > 1 and _books(each, top, weights)), top],
        "upsampling_ratios": ratios,
        "num_filters": filters,
        "num_residual_layers": weights.count("encoder.layers.{i}.block.1.conv.bias") // len(ratios),
        "num_lstm_layers": len({match[1] for name in weights.tensors if (match := _LSTM.search(name))}),
        "kernel_size": kernel,
        "last_kernel_size": _sizes(weights, f"encoder.layers.{max(convolutions)}.conv.{leaf}")[2],
        "residual_kernel_size": residual_kernel,
        "compress": filters // inner,
        "use_conv_shortcut": "encoder.layers.1.shortcut.conv.bias" in weights.tensors,
        "hidden_size": width,
        "codebook_size": codes,
        **chunks,
    }
    write_json(folder / "config.json", config)
    write_json(
        folder / "preprocessor_config.json",
        {
            "feature_extractor_type": "EncodecFeatureExtractor",
            "sampling_rate": rate,
            "feature_size": channels,
            **chunks,
        },
    )
    return weights


_UPSAMPLING = re.compile(r"decoder\.model\.(\d+)\.convtr\.convtr\.bias")
_CONVOLUTION = re.compile(r"encoder\.layers\.(\d+)\.conv\.")
_LSTM = re.compile(r"encoder\.layers\.\d+\.lstm\.weight_ih_l(\d+)")


def _books(bandwidth: float, top: float, weights: RenamedWeights) -> int:
    """How many whole codebooks a bandwidth pays for."""
    return int(weights.count("quantizer.layers.{i}.codebook.") * bandwidth / top)


def _sizes(weights: RenamedWeights, name: str) -> tuple[int, int, int]:
    """The sizes of a convolution's weight. Raises: WeightsError: it is missing, or of another shape."""
    shape = weights.shape(name)
    if len(shape) != 3:
        raise WeightsError(f"{weights.files[0]}: {name!r} is {list(shape)}; it must have 3 sizes")
    return shape
