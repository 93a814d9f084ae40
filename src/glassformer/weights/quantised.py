"""Quantised checkpoints: levels read into quantised layers, without a copy in floating point, and written again.

    LevelReader        nn.Linear ──(the file has levels)──> QuantisedLinear, whose levels are mapped from the file
    export_quantised   QuantisedLinear → the tensors of compressed-tensors' layout, and their `quantization_config`

The names of layers are those of the family's table. A layer that is several in the file (q, k and v) joins their rows.
Weights in levels are [outputs, inputs] in every file, also of a family that stores its plain weights transposed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core.levels import pack
from glassformer.core.quantised import (
    QUANTISED,
    QuantisedEmbedding,
    QuantisedLinear,
    StoredLevels,
    quantised_layers,
)
from glassformer.errors import UnsupportedError, WeightsError
from glassformer.weights.names import RenamedCheckpoint, Rule, TiedUnlessStored, Transposed, WeightNames
from glassformer.weights.quantised_layout import MARKS, PARTS, QuantisedFiles
from glassformer.weights.read import WeightFiles
from glassformer.weights.report import printable

Aliases = Mapping[str, tuple[nn.Parameter, list[str]]]
"""Each distinct parameter under its first name, with all its names."""

Static = tuple[Tensor | None, Tensor | None]
"""Scale and zero point of static inputs."""


class LevelReader:
    """Reads the levels of a checkpoint, and replaces the layers that they belong to.

    Args:
        checkpoint: the files
        tensors: the same under the names of the table; tensors of levels are left out of it once they are read
        files: how the levels are stored
        dtype: of the scales
        device: of all
    """

    def __init__(
        self,
        checkpoint: WeightFiles,
        tensors: RenamedCheckpoint,
        names: WeightNames,
        files: QuantisedFiles,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.checkpoint, self.tensors, self.names, self.files = checkpoint, tensors, names, files
        self.dtype, self.device = dtype, device
        self._prefixed = names.has_prefix(tensors.tensors)
        stems = {name.removesuffix(mark) for name in checkpoint.tensors for mark in MARKS if name.endswith(mark)}
        # the weight's name in the table → how the names of its tensors in the file begin
        self._stems = {names.table_names(f"{stem}.weight", ())[1][0]: stem for stem in stems}

    def into(
        self,
        network: nn.Module,
        parameters: Aliases,
        *,
        may_be_new: Callable[[str], bool],
        reinitialised: Callable[[str], bool],
    ) -> list[str]:
        """Replace the layers for which the checkpoint has levels.

        Args:
            parameters: of the network
            may_be_new: parameters of which a stored one of another shape is not read
            reinitialised: parameters that keep their plain layer
        Returns: the parameters whose levels were read.
        Raises: WeightsError: tensors that do not fit. UnsupportedError: a part of a layer alone has levels.
        """
        loaded: list[str] = []
        used: set[str] = set()
        for ours, (parameter, aliases) in parameters.items():
            rule, stems = self._matching(aliases) if parameter.dim() == 2 else (None, [])
            shape = tuple(parameter.shape)
            if rule is None or reinitialised(ours) or (may_be_new(ours) and not self._fits(rule, stems, shape)):
                continue
            stored = self._stored(rule, stems, shape)
            inputs, static = self._inputs(stems)
            factors = self._factors(stems, shape[1])
            for path in (alias.rpartition(".")[0] for alias in aliases):
                if not isinstance(network.get_submodule(path), QUANTISED):  # a module that several others hold
                    replace_layer(network, path, stored, inputs, static, factors)
            used |= {f"{stem}.{part}" for stem in stems for part in PARTS}
            loaded.append(ours)
        self.tensors.drop(used)
        self._share_tied(network, parameters, loaded)
        if not loaded:
            raise WeightsError(
                "config.json names a quantization_config, but the checkpoint has levels for no layer of this model"
            )
        return loaded

    def _matching(self, aliases: Sequence[str]) -> tuple[Rule | None, list[str]]:
        """The rule of a weight, and the layers of the file that have its levels; None where it has none."""
        for alias in aliases:
            rule, theirs = self.names.find(alias, prefixed=self._prefixed)
            stems = [self._stems[name] for name in theirs if name in self._stems]
            if stems and len(stems) < len(theirs):
                raise UnsupportedError(
                    f"the checkpoint has levels for {printable(stems[0])}, and not for all of {', '.join(theirs)}, "
                    f"which are one layer here ({alias}): quantise all of them, or none"
                )
            if stems:
                return rule, stems
        return None, []

    def _fits(self, rule: Rule, stems: Sequence[str], shape: tuple[int, ...]) -> bool:
        """Whether stored levels are those of as many outputs."""
        scale = self.checkpoint.tensors.get(f"{stems[0]}.weight_scale")
        return scale is None or scale.shape[:1] in ((1,), self._shapes(rule, shape)[0][:1])

    @staticmethod
    def _shapes(rule: Rule, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        return [shape] if isinstance(rule, Transposed) else rule.shapes(shape)

    def _stored(self, rule: Rule, stems: Sequence[str], shape: tuple[int, ...]) -> StoredLevels:
        transient = len(stems) > 1 or self.device.type != "cpu"

        def read(name: str) -> Tensor:
            return self.checkpoint.read(name, transient=transient)

        shapes = self._shapes(rule, shape)
        parts = [
            self.files.read(stem, self.checkpoint.tensors, read, (part[0], part[1]))
            for stem, part in zip(stems, shapes, strict=True)
        ]
        first = parts[0]
        if len({(part.bits, part.group, part.order is None) for part in parts}) > 1:
            raise UnsupportedError(f"{', '.join(stems)} are one layer here, and quantised in different ways")
        if first.order is not None and any(
            not torch.equal(first.order, x.order) for x in parts[1:] if x.order is not None
        ):
            raise UnsupportedError(f"{', '.join(stems)} are one layer here, and order their columns differently")
        zero = None
        if any(part.zero is not None for part in parts):
            nothing = [torch.zeros(part.scale.shape, dtype=torch.int8) for part in parts]
            zero = self._joined(rule, [a if p.zero is None else p.zero for p, a in zip(parts, nothing, strict=True)])
        return StoredLevels(
            self._joined(rule, [part.levels for part in parts]),
            self._joined(rule, [part.scale for part in parts]).to(self.dtype),
            first.columns,
            zero,
            None if first.order is None else first.order.to(self.device),
        )

    def _joined(self, rule: Rule, parts: list[Tensor]) -> Tensor:
        return (parts[0] if isinstance(rule, Transposed) else rule.read(parts)).to(self.device)

    def _inputs(self, stems: Sequence[str]) -> tuple[str, Static]:
        """How inputs are rounded, with the scale and the zero point of static ones."""
        static = [self._static(stem) for stem in stems if f"{stem}.input_scale" in self.checkpoint.tensors]
        if not static:
            return self.files.inputs, (None, None)
        if len(static) < len(stems) or len(set(static)) > 1:
            raise UnsupportedError(f"{', '.join(stems)} are one layer here, and round their input differently")
        scale, zero = static[0]
        return "static", (
            torch.tensor(scale, device=self.device),
            torch.tensor(zero, dtype=torch.int8, device=self.device),
        )

    def _factors(self, stems: Sequence[str], columns: int) -> Tensor | None:
        """What inputs are multiplied by; those of a fused layer are equal, as its parts read the same."""
        names = [name for name in (f"{stem}.input_factors" for stem in stems) if name in self.checkpoint.tensors]
        if not names:
            return None
        infos = [self.checkpoint.tensors[name] for name in names]
        if any(info.shape != (columns,) or not info.dtype.is_floating_point for info in infos):
            raise WeightsError(f"{printable(names[0])} must be {columns} floating-point numbers")
        factors = [self.checkpoint.read(name).to(self.device, self.dtype) for name in names]
        if len(names) < len(stems) or any(not torch.equal(factors[0], other) for other in factors[1:]):
            raise UnsupportedError(f"{', '.join(stems)} are one layer here, and scale their input differently")
        return factors[0]

    def _static(self, stem: str) -> tuple[float, int]:
        scale, zero = (self._number(f"{stem}.{part}") for part in ("input_scale", "input_zero_point"))
        if not (scale > 0 and -128 <= zero <= 127 and zero == int(zero)):
            raise WeightsError(f"{printable(stem)}: inputs cannot be rounded by scale {scale} and zero point {zero}")
        return scale, int(zero)

    def _number(self, name: str) -> float:
        info = self.checkpoint.tensors.get(name)
        if info is None:
            return 0.0
        value = self.checkpoint.read(name).float() if info.shape in ((), (1,)) else None
        if value is None or not torch.isfinite(value).all():
            raise WeightsError(f"{printable(name)} must be one finite number, and has shape {list(info.shape)}")
        return float(value)

    def _share_tied(self, network: nn.Module, parameters: Aliases, loaded: list[str]) -> None:
        """Layers that share another's weight unless the file has one of their own."""
        for ours in parameters:
            rule, theirs = self.names.find(ours, prefixed=self._prefixed)
            if ours in loaded or not isinstance(rule, TiedUnlessStored) or theirs[0] in self.tensors.tensors:
                continue
            owner = network.get_submodule(rule.ours)
            if ours.endswith(".weight") and isinstance(owner, QUANTISED):
                replace_layer(network, ours.removesuffix(".weight"), owner.stored)
                loaded.append(ours)


def replace_layer(
    network: nn.Module,
    path: str,
    stored: StoredLevels,
    inputs: str = "wide",
    static: Static = (None, None),
    factors: Tensor | None = None,
) -> None:
    """Put a quantised layer in the place of a plain linear layer or embedding, with its bias.

    Args:
        path: of the plain layer
        stored: its weight
        inputs: how a linear layer rounds its inputs: "wide", "dynamic" or "static"
        static: scale and zero point of static inputs
        factors: what inputs of a linear layer are multiplied by
    Raises: UnsupportedError: it is neither.
    """
    old = network.get_submodule(path)
    if type(old) is nn.Linear:
        new: nn.Module = QuantisedLinear(stored, old.bias, inputs, *static, factors)
    elif type(old) is nn.Embedding:
        new = QuantisedEmbedding(stored, old.padding_idx)
    else:
        raise UnsupportedError(f"{path} is a {type(old).__name__}, which is not run with quantised weights")
    parent, _, name = path.rpartition(".")
    setattr(network.get_submodule(parent), name, new.train(old.training))


# ------------------------------------------------------------------------------------------------------------- writing


def export_quantised(
    network: nn.Module,
    names: WeightNames,
    export: Callable[..., dict[str, Tensor]],
    *,
    prefixed: bool,
) -> dict[str, Tensor]:
    """The tensors of the quantised layers, under the names of compressed-tensors.

    Args:
        export: `weights.load.export_parameters`
    """
    layers = {id(layer.stored): (path, layer) for path, layer in reversed(quantised_layers(network).items())}
    tensors: dict[str, Tensor] = {}

    def theirs(part: Callable[[StoredLevels], Tensor | None]) -> dict[str, Tensor]:
        ours = {}
        for path, layer in layers.values():
            if (tensor := part(layer.stored)) is not None:
                rule, _ = names.find(f"{path}.weight", prefixed=prefixed)
                # The rule would transpose a plain weight; levels are [outputs, inputs] in every file.
                ours[f"{path}.weight"] = tensor.T if isinstance(rule, Transposed) else tensor
        return export(ours, names, prefixed=prefixed)

    levels, scales, zeros = (theirs(part) for part in (lambda x: x.levels, lambda x: x.scale, lambda x: x.zero))
    columns = theirs(lambda x: torch.full((x.rows, 1), x.columns))
    for name, tensor in levels.items():
        stem = name.removesuffix(".weight")
        tensors[f"{stem}.weight_scale"] = scales[name]
        zero = zeros.get(name)
        if tensor.dtype == torch.int8:
            tensors[name] = tensor
        else:
            tensors[f"{stem}.weight_packed"] = tensor
            tensors[f"{stem}.weight_shape"] = torch.tensor([len(tensor), int(columns[name][0, 0])])
            zero = None if zero is None else pack(zero.T.contiguous()).T.contiguous()
        if zero is not None:
            tensors[f"{stem}.weight_zero_point"] = zero
    for path, layer in layers.values():
        for stem in (name.removesuffix(".weight") for name in names.find(f"{path}.weight", prefixed=prefixed)[1]):
            if layer.stored.order is not None:
                tensors[f"{stem}.weight_g_idx"] = layer.stored.order.to(torch.int32)
            if isinstance(layer, QuantisedLinear) and layer.input_factors is not None:
                tensors[f"{stem}.input_factors"] = layer.input_factors
            if isinstance(layer, QuantisedLinear) and layer.input_scale is not None:
                assert layer.input_zero is not None
                tensors[f"{stem}.input_scale"] = layer.input_scale.reshape(1)
                tensors[f"{stem}.input_zero_point"] = layer.input_zero.reshape(1)
    return tensors


def quantisation_config(
    network: nn.Module, names: WeightNames, tensors: Mapping[str, Tensor], *, prefixed: bool
) -> dict[str, Any]:
    """The `quantization_config` of these layers in compressed-tensors' form.

    Args:
        tensors: all that are saved: matrices among them without levels are layers to ignore
    """
    groups: dict[tuple[Any, ...], list[str]] = {}
    layers = {id(layer.stored): (path, layer) for path, layer in reversed(quantised_layers(network).items())}
    for path, layer in layers.values():
        stored = layer.stored
        linear = isinstance(layer, QuantisedLinear)
        inputs = layer.inputs if isinstance(layer, QuantisedLinear) else "wide"
        key = linear, stored.bits, stored.group, stored.zero is None, inputs
        stems = (name.removesuffix(".weight") for name in names.find(f"{path}.weight", prefixed=prefixed)[1])
        groups.setdefault(key, []).extend(names.without_prefix(stem) for stem in stems)
    several = Counter(linear for linear, *_ in groups)
    schemes = {
        f"group_{number}": _scheme(
            *key,
            targets=["Linear" if key[0] else "Embedding"]
            if several[key[0]] == 1
            else [_ending(x) for x in sorted(stems)],
        )
        for number, (key, stems) in enumerate(groups.items())
    }
    plain = (name for name, x in tensors.items() if name.endswith(".weight") and x.dim() == 2 and x.is_floating_point())
    formats = {scheme["format"] for scheme in schemes.values()}
    return {
        "quant_method": "glassformer" if any(x.endswith(".input_factors") for x in tensors) else "compressed-tensors",
        "format": formats.pop() if len(formats) == 1 else "mixed-precision",
        "quantization_status": "compressed",
        "config_groups": schemes,
        "ignore": sorted(_ending(names.without_prefix(name.removesuffix(".weight"))) for name in plain),
        "kv_cache_scheme": None,
        "global_compression_ratio": None,
    }


def _ending(stem: str) -> str:
    """A pattern of the layer with or without the prefix of its body, which depends on the class that loads it."""
    return "re:.*" + stem.replace(".", r"\.") + "$"


def _scheme(linear: bool, bits: int, group: int, symmetric: bool, inputs: str, *, targets: list[str]) -> dict[str, Any]:
    weights = {
        "num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": "group" if group else "channel",
        "group_size": group or None, "dynamic": False,
    }  # fmt: skip
    activations = {
        "wide": None,
        "dynamic": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True},
        "static": {"num_bits": 8, "type": "int", "symmetric": False, "strategy": "tensor", "dynamic": False},
    }[inputs]
    return {
        "targets": targets,
        "weights": weights,
        "input_activations": activations,
        "output_activations": None,
        "format": "int-quantized" if bits == 8 else "pack-quantized",
    }
