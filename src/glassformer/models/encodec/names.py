"""EnCodec's weight names: of files in the Hugging Face layout, and of the original `.th` files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from glassformer.models.encodec.network import EncodecSpec
from glassformer.weights.name_table import NameTable
from glassformer.weights.names import Same, Shape, WeightNames

CONVOLUTIONS = [
    f"{side}.layers.{{i}}{part}" for side in ("encoder", "decoder") for part in ("", ".block.{j}", ".shortcut")
]

NAMES = NameTable(
    "{side}.layers.{i}.lstm  {side}.layers.{i}.lstm\n"
    + "".join(f"{path}.conv  {path}.conv\n" for path in CONVOLUTIONS),
    renamed={  # two spellings of weight normalisation; files with `weight_g` are older, but either is read
        f"{path}.conv.weight_{old}": f"{path}.conv.parametrizations.weight.{new}"
        for path in CONVOLUTIONS
        for old, new in (("g", "original0"), ("v", "original1"))
    },
)
NORMED = "".join(f"{path}.norm  {path}.norm\n" for path in CONVOLUTIONS)
WEIGHT_NORMED = "".join(f"{path}.conv.weight  {path}.conv.parametrizations.weight  |v|\n" for path in CONVOLUTIONS)


def original_names() -> str:
    """The original file's names → the Hugging Face layout's, as a table of `foreign/renamed.py`.

    There, a convolution is within one that pads, within one that normalises it; layers have the same numbers.
    """
    lines = []
    for part in ("", ".block.{j}", ".shortcut"):
        for inner in ("conv", "convtr"):
            theirs, ours = f"{{side}}.model.{{i}}{part}.{inner}", f"{{side}}.layers.{{i}}{part}"
            lines += [
                f"{theirs}.{inner}  {ours}.conv",
                f"{theirs}.{inner}.weight_g  {ours}.conv.parametrizations.weight.original0",
                f"{theirs}.{inner}.weight_v  {ours}.conv.parametrizations.weight.original1",
                f"{theirs}.norm  {ours}.norm",
            ]
    for leaf in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        lines.append(f"{{side}}.model.{{i}}.lstm.{leaf}_l{{n}}  {{side}}.layers.{{i}}.lstm.{leaf}_l{{n}}")
    for leaf in ("embed", "embed_avg", "cluster_size", "inited"):
        lines.append(f"quantizer.vq.layers.{{i}}._codebook.{leaf}  quantizer.layers.{{i}}.codebook.{leaf}")
    return "\n".join(lines)


@dataclass(frozen=True)
class AveragedCodebook(Same):
    """A codebook with the moving averages that the original training updates it by, which nothing else reads.

    They are computed on export, to be the same codebook: the mean of one frame a code.
    """

    @property
    def stems(self) -> tuple[str, ...]:
        return tuple(f"{self.theirs}.{name}" for name in ("embed", "embed_avg", "cluster_size", "inited"))

    def shapes(self, ours: Shape) -> list[Shape]:
        return [ours, ours, ours[:1], (1,)]

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0]

    def write(self, ours: Tensor) -> list[Tensor]:
        return [ours, ours, ours.new_ones(ours.shape[0]), ours.new_ones(1)]


def names(spec: EncodecSpec, task: str) -> WeightNames:
    """Weight names: convolutions are normalised by their weights, or their outputs are."""
    table = NAMES.extend(NORMED if spec.seanet.group_norm else WEIGHT_NORMED)(spec, task)
    codebook = {"quantizer.books.{i}.codebook.weight": AveragedCodebook("quantizer.layers.{i}.codebook")}
    return replace(table, body={**table.body, **codebook})
