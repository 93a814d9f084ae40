"""CLIP's text tower alone, the text encoder of image generators.

    ids + positions ─ [ norm ─ causal attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ end token

Source: Radford et al. 2021, section 2.4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from glassformer.core import Batch, Embedding, Flow, Output, Stack, make_norm
from glassformer.models._clip import (
    POSITION_IDS,
    TextTowerSpec,
    end_token_state,
    initialise_towers,
    text_names,
    text_spec,
)
from glassformer.models._config import ConfigReader
from glassformer.models._family import Family
from glassformer.models._network import Network, require_ids
from glassformer.weights.names import WeightNames


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipTextSpec:
    """The text tower. factor: multiplies the standard deviations of initialisation"""

    tower: TextTowerSpec
    factor: float


def spec(reader: ConfigReader) -> ClipTextSpec:
    """config.json → spec."""
    return ClipTextSpec(tower=text_spec(reader), factor=reader.number("initializer_factor", default=1.0))


class ClipText(Network):
    """CLIP's text encoder: embedding, stack, norm.

    Taps: final [B T D] · pooler_output [B D]
    """

    READS = ("input_ids",)

    def __init__(self, spec: ClipTextSpec, task: str) -> None:
        super().__init__()
        self.end = spec.tower.end
        self.embed = Embedding(spec.tower.embed)
        self.blocks = Stack(spec.tower.blocks)
        self.final_norm = make_norm(spec.tower.final_norm)
        self.head = None
        self.name_nodes()

    def own_taps(self) -> tuple[str, ...]:
        return (*super().own_taps(), "pooler_output")

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x: Tensor = self.final_norm(self.blocks(self.embed(require_ids(batch), flow), flow))
        return x

    def forward(self, batch: Batch, flow: Flow) -> Output:
        output = super().forward(batch, flow)
        assert output.last_hidden_state is not None
        pooled = end_token_state(output.last_hidden_state, require_ids(batch), self.end)
        return replace(output, pooler_output=self.tap(flow, "pooler_output", pooled))


def names(spec: ClipTextSpec, task: str) -> WeightNames:
    """Weight names; newer files have no prefix."""
    return WeightNames(prefix="text_model", body=text_names(spec.tower, "", ""), ignored=(POSITION_IDS,))


FAMILY = Family(
    model_type="clip_text_model",
    architectures={"CLIPTextModel": "feature-extraction"},
    spec=spec,
    build=ClipText,
    names=names,
    initialise=lambda network, spec: initialise_towers(network, spec.factor),
    distinction="CLIP's text tower alone; the end token's state represents the text",
    tiny={
        "model_type": "clip_text_model",
        "vocab_size": 99,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 40,
        "eos_token_id": 2,
    },
)
