"""Layers between pooling and normalisation of sentence embeddings, as folders of sentence-transformers hold them.

Dense       y = activation(W x + b)         config.json, model.safetensors: linear.weight, linear.bias
LayerNorm   y = LayerNorm(x)                config.json, model.safetensors: norm.weight, norm.bias
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import is_int, read_json_object, safe_repr
from glassformer.files.atomic import atomic_file, write_json
from glassformer.weights.read import open_file
from glassformer.weights.write import write_tensors

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "torch.nn.modules.activation.Tanh": torch.tanh,
    "torch.nn.modules.linear.Identity": lambda x: x,
    "torch.nn.modules.activation.ReLU": torch.relu,
    "torch.nn.modules.activation.GELU": functional.gelu,
    "torch.nn.modules.activation.Sigmoid": torch.sigmoid,
}
"""The activations of a Dense layer, by the names that files have."""
LAYER_NORM_EPS = 1e-5  # torch's default, which the layer of sentence-transformers has


@dataclass(frozen=True)
class PoolingLayer(ABC):
    """A layer that vectors pass.

    weight: as the file has it
    bias: None = none

    KIND: the name of its step
    STEM: of its tensors in the file
    """

    weight: Tensor
    bias: Tensor | None

    KIND: ClassVar[str]
    STEM: ClassVar[str]

    @classmethod
    @abstractmethod
    def read(cls, folder: Path) -> Self:
        """Read a layer from its folder. Raises: ConfigError, WeightsError, UnsupportedError: what is wrong with it."""

    @abstractmethod
    def config(self) -> dict[str, object]:
        """Content of the layer's config.json."""

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor: ...

    @property
    @abstractmethod
    def held_fixed(self) -> str | None:
        """What of it depends on the whole vector, and is held fixed where a sum is distributed; None = it is linear."""

    @abstractmethod
    def distribute(self, parts: Tensor) -> Tensor:
        """What each part of a sum becomes; the last is that of the constant. [R, in] → [R, out]

        The parts of the result sum to the layer's output for the sum of `parts`.
        Raises: UnsupportedError: an activation that is not 0 at 0.
        Source: the rescale rule of DeepLIFT, with the reference 0 (Shrikumar et al. 2017).
        """

    def size(self, size: int) -> int:
        """The size of the vectors that leave it, of vectors of this size."""
        return size

    def write(self, folder: Path) -> None:
        """Write the layer to its folder."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "config.json", self.config())
        tensors = {f"{self.STEM}.weight": self.weight}
        if self.bias is not None:
            tensors[f"{self.STEM}.bias"] = self.bias
        with atomic_file(folder / "model.safetensors") as stream:
            write_tensors(stream, tensors, {"format": "pt"})

    @classmethod
    def tensors(cls, folder: Path, shape: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of its file, in fp32."""
        path = folder / "model.safetensors"
        if not path.is_file():
            raise UnsupportedError(f"{folder}: holds no model.safetensors; older .bin files are not read here")
        with open_file(path) as file:
            names = {leaf: f"{cls.STEM}.{leaf}" for leaf in ("weight", "bias")}
            weight = file.read(names["weight"]).float().clone()
            bias = file.read(names["bias"]).float().clone() if names["bias"] in file.tensors else None
        if tuple(weight.shape) != shape or (bias is not None and tuple(bias.shape) != shape[:1]):
            raise ConfigError(f"{path}: the layer is {list(weight.shape)}; its config.json says {list(shape)}")
        return weight, bias


@dataclass(frozen=True)
class DenseLayer(PoolingLayer):
    """A linear layer with an activation, by the name that files have."""

    activation: str

    KIND, STEM = "Dense", "linear"

    @classmethod
    def read(cls, folder: Path) -> Self:
        config = read_json_object(folder / "config.json", ConfigError)
        activation = config.get("activation_function", "torch.nn.modules.activation.Tanh")
        if activation not in ACTIVATIONS:
            raise UnsupportedError(
                f"{folder}: activation_function is {safe_repr(activation)}; supported: {', '.join(ACTIVATIONS)}"
            )
        return cls(*cls.tensors(folder, (_count(config, "out_features"), _count(config, "in_features"))), activation)

    def config(self) -> dict[str, object]:
        out, inner = self.weight.shape
        sizes = {"in_features": inner, "out_features": out, "bias": self.bias is not None}
        return {**sizes, "activation_function": self.activation}

    def size(self, size: int) -> int:
        return int(self.weight.shape[0])

    def __call__(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(x.device)
        return ACTIVATIONS[self.activation](functional.linear(x, self.weight.to(x.device), bias))

    @property
    def held_fixed(self) -> str | None:
        name = self.activation.rpartition(".")[2]
        return None if name == "Identity" else f"the slope of the Dense layer's {name} in each dimension"

    def distribute(self, parts: Tensor) -> Tensor:
        parts = parts @ self.weight.to(parts).mT
        if self.bias is not None:
            parts = torch.cat([parts[:-1], parts[-1:] + self.bias.to(parts)])
        total, activate = parts.sum(0), ACTIVATIONS[self.activation]
        if activate(torch.zeros(1)).any():
            raise UnsupportedError(
                f"the Dense layer's {self.activation.rpartition('.')[2]} is not 0 at 0, so its output is no sum over "
                "tokens; the similarity of this model cannot be distributed over them"
            )
        return parts * torch.where(total == 0, 1, activate(total) / total)


@dataclass(frozen=True)
class LayerNormLayer(PoolingLayer):
    """A layer norm with the eps of PyTorch."""

    KIND, STEM = "LayerNorm", "norm"

    @classmethod
    def read(cls, folder: Path) -> Self:
        return cls(*cls.tensors(folder, (_count(read_json_object(folder / "config.json", ConfigError), "dimension"),)))

    def config(self) -> dict[str, object]:
        return {"dimension": self.weight.shape[0]}

    def __call__(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(x.device)
        return functional.layer_norm(x, self.weight.shape, self.weight.to(x.device), bias)

    @property
    def held_fixed(self) -> str | None:
        return "the standard deviation of the LayerNorm"

    def distribute(self, parts: Tensor) -> Tensor:
        deviation = (parts.sum(0).var(correction=0) + LAYER_NORM_EPS).sqrt()
        parts = (parts - parts.mean(-1, keepdim=True)) / deviation * self.weight.to(parts)
        return parts if self.bias is None else torch.cat([parts[:-1], parts[-1:] + self.bias.to(parts)])


def _count(config: Mapping[str, object], key: str) -> int:
    value = config.get(key)
    if not is_int(value, 1):
        raise ConfigError(f"config.json of a layer: {key} is {safe_repr(value)}; it must be a whole number from 1 up")
    return value


LAYERS: dict[str, type[PoolingLayer]] = {layer.KIND: layer for layer in (DenseLayer, LayerNormLayer)}
"""Layers by the names of their steps."""
