"""SizeTable of published models: parameters, layers, width, context; computed from their networks.

sizes() → Size(name="gpt2-xl", context=1024, parameters=1_557_611_200, layers=(48,), width=1600, …), …
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from glassformer.core.embeddings import LearnedPositionsSpec
from glassformer.core.stack import Stack
from glassformer.inspect.summary import active_parameters
from glassformer.models import FAMILIES, ConfigReader
from glassformer.models.presets import PRESETS
from glassformer.reports.report import Record, Report
from glassformer.reports.table import Table, amount, byte_amount

SIZE_KEYS = (
    "name", "context", "parameters", "active", "vocabulary", "width", "layers", "heads", "trained_on", "source",
    "fp32_bytes", "int8_bytes",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Size(Record, keys=SIZE_KEYS):
    """SizeTable of a published model.

    context: context length in tokens; None where there is no text, or positions are unlimited
    parameters: tied ones once
    active: parameters that run for a token, fewer in a mixture of experts
    vocabulary: rows of the token embedding; None where there is none
    width: D
    layers: of each stack, the encoder's before the decoder's
    heads: H
    trained_on: number of training tokens, where the paper states it
    source: of the sizes
    """

    name: str
    context: int | None
    parameters: int
    active: int
    vocabulary: int | None
    width: int
    layers: tuple[int, ...]
    heads: int
    trained_on: float | None
    source: str

    @property
    def fp32_bytes(self) -> int:
        """Weights in float32, 4 bytes each."""
        return 4 * self.parameters

    @property
    def int8_bytes(self) -> int:
        """Weights in int8, 1 byte each; quantization scales are not counted."""
        return self.parameters


class SizeTable(Report, list[Size], kind="model-sizes", keys=("models",)):
    """SizeTable of published models: a list that shows itself as a table."""

    notes = (
        "Parameters: tied ones count once; active: used per token (mixture of experts). fp32: 4 bytes per parameter; "
        "int8: 1. Trained on: tokens, where the paper states them. --json has all columns, and the sources; "
        "glassformer info NAME shows the modules.",
    )

    @property
    def models(self) -> list[Size]:
        return list(self)

    def tables(self) -> list[Table]:
        """A row a model; what not every terminal has room for last."""
        headings = ["model", "params", "fp32", "int8", "context", "vocab", "width", "layers", "heads"]
        rows = [
            [
                one.name,
                amount(one.parameters),
                byte_amount(one.fp32_bytes),
                byte_amount(one.int8_bytes),
                *("" if number is None else f"{number:,}" for number in (one.context, one.vocabulary, one.width)),
                " + ".join(map(str, one.layers)),
                str(one.heads),
                "" if one.active == one.parameters else amount(one.active),
                "" if one.trained_on is None else amount(one.trained_on),
            ]
            for one in self
        ]
        return [Table([*headings, "active", "trained on"], rows)]


def sizes(names: Iterable[str] = tuple(PRESETS)) -> SizeTable:
    """SizeTable of presets, in their order; by default of all of them."""
    return SizeTable(_size(name) for name in names)


@cache
def _size(name: str) -> Size:
    preset = PRESETS[name]
    family = FAMILIES[preset.config["model_type"]]
    spec = family.spec(ConfigReader(preset.config))
    network = family.build_on_meta(spec, family.architectures[preset.config["architectures"][0]])
    stacks = [module for module in network.modules() if isinstance(module, Stack)]
    table = network.text_embedding
    embedding = None if table is None else table.spec
    positions = None if embedding is None else embedding.positions
    return Size(
        name=name,
        context=positions.count
        if isinstance(positions, LearnedPositionsSpec)
        else preset.config.get("max_position_embeddings"),
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        active=active_parameters(network),
        vocabulary=None if embedding is None else embedding.vocabulary,
        width=stacks[-1].spec.width,
        layers=tuple(map(len, stacks)),
        heads=stacks[-1].spec.blocks[0].attention.heads,
        trained_on=preset.training_tokens,
        source=preset.source,
    )
