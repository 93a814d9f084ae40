"""CLIP's text tower alone, the text encoder of image generators, with or without its projection.

    ids + positions ─ [ norm ─ causal attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ end token (─ project)

Source: Radford et al. 2021, section 2.4.
"""

from __future__ import annotations

from torch import Tensor

from glassformer.core import Batch, Embedding, Flow, Stack, make_norm
from glassformer.models._family import Family, architectures
from glassformer.models._network import Sizes, require_ids
from glassformer.models.clip import towers, weight_names
from glassformer.models.clip.contrastive import TextProjection
from glassformer.models.clip.initialise import initialise
from glassformer.models.clip.network import PooledTower
from glassformer.models.clip.towers import TextTowerSpec, end_token_state
from glassformer.weights.name_table import NameTable


class ClipText(PooledTower):
    """CLIP's text encoder: embedding, stack, norm, and the projection of the end token's state, where there is one.

    Taps: final [B T D] · pooler_output [B D] · text_embeds [B E]
    """

    READS = ("input_ids",)

    def __init__(self, spec: TextTowerSpec, task: str) -> None:
        super().__init__(Sizes.of_text(spec.embed))
        self.end = spec.end
        self.embed = Embedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.final_norm = make_norm(spec.final_norm)
        projects = task == "projection"
        self.head = TextProjection(spec.blocks.width, spec.projection) if projects else None
        self.name_nodes()

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        return self.finish(self.blocks(self.embed(require_ids(batch), flow), flow), flow)

    def finish(self, x: Tensor, flow: Flow) -> Tensor:
        normed: Tensor = self.final_norm(x)
        return normed

    def pooled(self, x: Tensor, batch: Batch) -> Tensor:
        return end_token_state(x, require_ids(batch), self.end)


NAMES = NameTable(
    weight_names.TEXT_LINES.format(ours="", theirs="")
    + """
    [head]
    head.projection    text_projection
    """,
    prefix="text_model",
    ignored=(weight_names.POSITION_IDS,),
)


FAMILY = Family(
    model_type="clip_text_model",
    architectures=architectures("CLIPText", "Model ModelWithProjection"),
    spec=towers.text_spec,
    build=ClipText,
    names=NAMES,
    initialise=lambda network, spec: initialise(network, spec.factor),
    distinction="CLIP's text tower alone; the end token's state represents the text",
    tiny=towers.TEXT_KEYS.tiny("clip_text_model", projection_dim=16, eos_token_id=2),
)
