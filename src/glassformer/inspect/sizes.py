"""Published models, a row each, every size computed from the network itself.

sizes() → Size(name="gpt2-xl", context=1024, parameters=1_557_611_200, layers=(48,), width=1600, …), …
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from glassformer.core.embeddings import Embedding
from glassformer.core.specs import LearnedPositionsSpec
from glassformer.core.stack import Stack
from glassformer.inspect.summary import active_parameters
from glassformer.models import FAMILIES, Reader
from glassformer.models.presets import PRESETS, Preset


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """What a published model measures.

    context: the longest text, in tokens; None where there is none, or where positions have no end
    parameters: tied ones once · active: those that run for a token, fewer where there are experts
    vocabulary: rows of the table of tokens; None where there is none
    width: D · layers: of each stack, the encoder's before the decoder's · heads: H
    trained_on: tokens, where the paper states them · source: of the sizes
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
        """Of the weights alone, 4 each."""
        return 4 * self.parameters

    @property
    def int8_bytes(self) -> int:
        """Of the weights alone, 1 each; the scales that int8 has beside them are not counted."""
        return self.parameters

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists, for JSON."""
        return {**asdict(self), "fp32_bytes": self.fp32_bytes, "int8_bytes": self.int8_bytes}


def sizes(names: Iterable[str] = tuple(PRESETS)) -> list[Size]:
    """A row for each of these presets, in their order; for all of them unless told."""
    return [_size(name, PRESETS[name]) for name in names]


def _size(name: str, preset: Preset) -> Size:
    family = FAMILIES[preset.config["model_type"]]
    spec = family.spec(Reader(preset.config))
    network = family.blank(spec, family.architectures[preset.config["architectures"][0]])
    stacks = [module for module in network.modules() if isinstance(module, Stack)]
    table = next((module.spec for module in network.modules() if isinstance(module, Embedding)), None)
    positions = None if table is None else table.positions
    return Size(
        name=name,
        context=positions.count
        if isinstance(positions, LearnedPositionsSpec)
        else preset.config.get("max_position_embeddings"),
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        active=active_parameters(network),
        vocabulary=None if table is None else table.vocabulary,
        width=stacks[-1].spec.width,
        layers=tuple(map(len, stacks)),
        heads=stacks[-1].spec.blocks[0].attention.heads,
        trained_on=preset.trained_on,
        source=preset.source,
    )
