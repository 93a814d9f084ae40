"""DAC's original `.pth` files: config from sizes and metadata, weight normalisation folded into the weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.errors import WeightsError
from glassformer.files import is_int, safe_repr
from glassformer.files.atomic import write_json
from glassformer.foreign.renamed import RenamedWeights
from glassformer.models.dac.names import original_names
from glassformer.weights.read import ComputedWeights, WeightFiles
from glassformer.weights.weight_norm import fold

GAIN, DIRECTION = ".weight_g", ".weight_v"


class FoldedWeights(ComputedWeights):
    """An open checkpoint with weight normalisation folded: see `weights/weight_norm.py`."""

    def __init__(self, checkpoint: WeightFiles) -> None:
        super().__init__(checkpoint.files, {}, {}, None, checkpoint.settings)
        self._checkpoint = checkpoint
        for name, info in checkpoint.tensors.items():
            if name.endswith(DIRECTION) and name.removesuffix(DIRECTION) + GAIN in checkpoint.tensors:
                self.tensors[name.removesuffix(DIRECTION) + ".weight"] = info
            elif not name.endswith(GAIN):
                self.tensors[name] = info

    def read(self, name: str, *, transient: bool = False) -> Tensor:
        stem = name.removesuffix(".weight")
        if stem + DIRECTION not in self._checkpoint.tensors or stem + GAIN not in self._checkpoint.tensors:
            return self._checkpoint.read(name, transient=transient)
        gain, direction = (self._checkpoint.read(stem + leaf, transient=transient) for leaf in (GAIN, DIRECTION))
        if gain.numel() != direction.shape[0]:
            raise WeightsError(
                f"{self.files[0]}: {safe_repr(stem + GAIN)} is {list(gain.shape)}; it must hold a length for each of "
                f"the {direction.shape[0]} rows of {safe_repr(stem + DIRECTION)}"
            )
        return fold(gain, direction)

    def close(self) -> None:
        super().close()
        self._checkpoint.close()


def open_original(checkpoint: WeightFiles, source: Path, folder: Path) -> RenamedWeights:
    """An original state dict in the Hugging Face layout, and its config.json and preprocessor_config.json written.

    Strides are half of their convolutions' kernels; the sample rate is in the metadata.
    Raises: WeightsError: tensors or settings that are missing or damaged.
    """
    folded = FoldedWeights(checkpoint)
    blocks = sum(f"encoder.block.{i}.block.4.weight" in folded.tensors for i in range(1, 33))
    weights = RenamedWeights(folded, original_names(blocks))
    strides = [_size(weights, f"encoder.block.{i}.conv1.weight", 2) // 2 for i in range(blocks)]
    books = weights.count("quantizer.quantizers.{i}.")
    rate = _metadata(checkpoint).get("sample_rate", 44_100)
    if not is_int(rate, 1):
        raise WeightsError(f"{source}: its sample_rate is {safe_repr(rate)}; it must be a whole number of Hz above 0")
    config = {
        "model_type": "dac",
        "architectures": ["DacModel"],
        "encoder_hidden_size": _size(weights, "encoder.conv1.weight", 0),
        "decoder_hidden_size": _size(weights, "decoder.conv1.weight", 0),
        "hidden_size": _size(weights, "encoder.conv2.weight", 0),
        "downsampling_ratios": strides,
        "upsampling_ratios": [_size(weights, f"decoder.block.{i}.conv_t1.weight", 2) // 2 for i in range(blocks)],
        "n_codebooks": books,
        "codebook_size": _size(weights, "quantizer.quantizers.0.codebook.weight", 0),
        "codebook_dim": _size(weights, "quantizer.quantizers.0.codebook.weight", 1),
        "sampling_rate": rate,
    }
    hop = 1
    for stride in strides:
        hop *= stride
    write_json(folder / "config.json", config)
    write_json(
        folder / "preprocessor_config.json",
        {"feature_extractor_type": "DacFeatureExtractor", "sampling_rate": rate, "hop_length": hop},
    )
    return weights


def _size(weights: RenamedWeights, name: str, axis: int) -> int:
    shape = weights.shape(name)
    if len(shape) <= axis:
        raise WeightsError(f"{weights.files[0]}: {safe_repr(name)} is {list(shape)}; it must have {axis + 1} sizes")
    return shape[axis]


def _metadata(checkpoint: WeightFiles) -> Mapping[str, Any]:
    """The arguments that the network was made with, where the file states them."""
    stated: Any = checkpoint.settings
    for key in ("metadata", "kwargs"):
        stated = stated.get(key) if isinstance(stated, Mapping) else None
    return stated if isinstance(stated, Mapping) else {}
