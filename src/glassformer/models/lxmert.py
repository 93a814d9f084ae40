"""LXMERT: a text and the regions of a picture, each read by itself, then by each other.

    text      ids + positions + segments ─ norm ─ [ BERT's block ] × L ──┬─ attention to the regions ─ BERT's block ─┬─
                                                                          × X, the same weights both ways            │
    regions   (norm(W features) + norm(V boxes)) / 2 ─ [ BERT's block ] × R ─ attention to the text ─ BERT's block ───┴─

Source: Tan and Bansal 2019, section 2. A detector, which is no part of it, finds the regions.
Differs: the reference library never trains position 0 and segment 0; here they are trained like all others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor, nn

from glassformer.core.blocks import Block, run
from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow, Memory, Node, Output
from glassformer.core.heads import MaskedLanguageModel
from glassformer.core.regions import (
    BothSides,
    RegionEmbedding,
    RegionQuestions,
    TwoSided,
    VisualAnswer,
    VisualPreTraining,
)
from glassformer.core.sight import Place, Sight, self_attention
from glassformer.core.specs import (
    BlockSpec,
    CrossAttentionSpec,
    EmbeddingSpec,
    LayerNormSpec,
    RegionsSpec,
    StackSpec,
    VisualPreTrainingSpec,
)
from glassformer.core.stack import Stack
from glassformer.errors import DataError, UnsupportedError
from glassformer.models import bert
from glassformer.models._family import MOST_LAYERS, MOST_ROWS, Family, Network, Reader, needed, reads_ids
from glassformer.weights.names import Fused, Names, Rule, Tied

if TYPE_CHECKING:
    from jaxtyping import Float

TASKS = {
    "labels": "task_mask_lm",
    "matched_label": "task_matched",
    "obj_labels": "task_obj_predict",
    "ans": "task_qa",
}
"""Labels of pre-training, and the keys that say whether they count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LxmertSpec:
    """Both sides, what they do to each other, and the heads."""

    embed: EmbeddingSpec
    regions: RegionsSpec
    text: StackSpec
    image: StackSpec
    crossed: tuple[BlockSpec, ...]
    norm: LayerNormSpec
    activation: str
    answers: int
    pre_training: VisualPreTrainingSpec
    init_std: float


def spec(reader: Reader) -> LxmertSpec:
    """config.json → spec."""
    reader.fixed("tie_word_embeddings", True)
    reader.used.update(("layer_norm_eps", "num_hidden_layers"))  # always 1e-12; the three below once more
    norm = LayerNormSpec(width=reader.integer("hidden_size"), eps=1e-12)
    block = bert.block(reader, norm)
    cross = CrossAttentionSpec(width=norm.width, heads=block.attention.heads, dropout=block.attention.dropout)
    features = reader.integer("visual_feat_dim", default=2048)
    return LxmertSpec(
        embed=bert.embedding(reader, norm),
        regions=RegionsSpec(
            features=features,
            corners=reader.integer("visual_pos_dim", default=4),
            norm=norm,
            dropout=block.dropout,
        ),
        text=StackSpec(blocks=(block,) * reader.integer("l_layers", default=9, most=MOST_LAYERS)),
        image=StackSpec(blocks=(block,) * reader.integer("r_layers", default=5, most=MOST_LAYERS)),
        crossed=(replace(block, cross=cross),) * reader.integer("x_layers", default=5, most=MOST_LAYERS),
        norm=norm,
        activation=reader.text("hidden_act", default="gelu"),
        answers=reader.integer("num_qa_labels", default=9500, most=MOST_ROWS),
        pre_training=_pre_training(reader, features),
        init_std=reader.number("initializer_range", default=0.02),
    )


def _pre_training(reader: Reader, features: int) -> VisualPreTrainingSpec:
    objects = reader.integer("num_object_labels", default=1600, most=MOST_ROWS)
    attributes = reader.integer("num_attr_labels", default=400, most=MOST_ROWS)
    return VisualPreTrainingSpec(
        objects=objects if reader.flag("visual_obj_loss", default=True) else 0,
        attributes=attributes if reader.flag("visual_attr_loss", default=True) else 0,
        features=features if reader.flag("visual_feat_loss", default=True) else 0,
        counts=frozenset(label for label, task in TASKS.items() if reader.flag(task, default=True)),
        region_weight=reader.number("visual_loss_normalizer", default=6.67),
    )


class CrossBlock(Block):
    """A block that reads the other side before it reads its own.

        x ─ before ─ cross-attention ─ crossed ─ attention ─ mid ─ feed-forward ─ out

    Taps: before, crossed, mid, out [B T D]
    Source: Tan and Bansal 2019, section 2.2.
    Differs: a decoder's block reads its own side first, and the weights of its cross-attention serve one direction.
    """

    def own_taps(self) -> tuple[str, ...]:
        return ("before", "crossed", "mid", "out")

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        assert self.cross is not None and self.cross_residual is not None  # its spec has a `cross`
        cross = self.cross
        x = self.tap(flow, "before", x)
        x = self.cross_residual(x, lambda y: cross(y, flow))
        x = self.tap(flow, "crossed", x)
        x = self.attn_residual(x, lambda y: self.attn(y, flow))
        x = self.tap(flow, "mid", x)
        x = self.ffn_residual(x, lambda y: self.ffn(y, flow))
        return self.tap(flow, "out", x)

    def share_cross(self, other: CrossBlock) -> None:
        """Have the cross-attention of another block: its parameters become this one's too."""
        for part in ("cross", "cross_residual"):
            for name, parameter in other.get_submodule(part).named_parameters():
                stem, _, leaf = f"{part}.{name}".rpartition(".")
                setattr(self.get_submodule(stem), leaf, parameter)


class Side(Node):
    """What a text goes through, or the regions of a picture: embedding, blocks, and blocks that read the other side."""

    def __init__(
        self, embed: Embedding | RegionEmbedding, blocks: StackSpec, crossed: tuple[BlockSpec, ...]
    ) -> None:
        super().__init__()
        self.embed = embed
        self.blocks = Stack(blocks)
        self.crossed = nn.ModuleList(CrossBlock(block) for block in crossed)

    def crossing(self) -> list[CrossBlock]:
        """The blocks that read the other side."""
        return [block for block in self.crossed if isinstance(block, CrossBlock)]

    def stream(self) -> tuple[str, ...]:
        """The taps of the residual stream: before each block of either kind, and after the last."""
        stacks = (("blocks", len(self.blocks)), ("crossed", len(self.crossed)))
        before = (f"{self.path}.{stack}.{i}.before" for stack, count in stacks for i in range(count))
        return (*before, f"{self.path}.crossed.{len(self.crossed) - 1}.out")

    def own_attention(self, side: str) -> Sight:
        """Attention to its own side, in blocks of both kinds."""
        within = tuple(
            Place(
                attention=block.attn,
                stream=f"{self.path}.crossed.{i}.crossed",
                entered=block.attention_input,
            )
            for i, block in enumerate(self.crossing())
        )
        return Sight(queries=side, keys=side, places=(*self_attention(self.blocks, side).places, *within))

    def attention_to(self, other: Side, queries: str, keys: str) -> Sight:
        """Attention to another side."""
        places = tuple(
            Place(
                attention=block.cross,
                stream=f"{self.path}.crossed.{i}.before",
                entered=block.cross_residual.before,
                memory=f"{other.path}.crossed.{i}.before",
            )
            for i, block in enumerate(self.crossing())
            if block.cross is not None and block.cross_residual is not None
        )
        return Sight(queries=queries, keys=keys, places=places)


class Lxmert(Network):
    """Two sides, what they do to each other, and a head that reads both.

    Raises: ConfigError: no regions. DataError: as many pictures as texts are needed, and regions of the right shape.
    Taps: text.… · vision.… · final [B T D], of the text · the fields of the head
    """

    READS = ("input_ids", "token_type_ids", "visual_feats", "visual_pos")

    head: TwoSided

    def __init__(self, spec: LxmertSpec, task: str) -> None:
        super().__init__()
        self.text = Side(Embedding(spec.embed), spec.text, spec.crossed)
        self.vision = Side(RegionEmbedding(spec.regions), spec.image, spec.crossed)
        for forth, back in zip(self.text.crossing(), self.vision.crossing(), strict=True):
            back.share_cross(forth)
        self.head = self._head(spec, task)
        self.name_nodes()

    def _head(self, spec: LxmertSpec, task: str) -> TwoSided:
        if task == "feature-extraction":
            return BothSides(spec.norm.width)
        answer = VisualAnswer(spec.norm, spec.answers)
        if task == "visual-question-answering":
            return answer
        if "ans" not in spec.pre_training.counts:
            raise UnsupportedError(
                "config.json: task_qa = False is not supported for pre-training; to load the body, give "
                "task='feature-extraction'"
            )
        masked = MaskedLanguageModel(spec.norm.width, spec.embed.vocabulary, spec.activation, spec.norm)
        masked.decoder.weight = self.embedding.tokens.weight
        questions = RegionQuestions(spec.pre_training, spec.norm, spec.activation)
        return VisualPreTraining(spec.pre_training, masked, answer, questions)

    def sides(self) -> dict[str, Stack]:
        return {"text": self.text.blocks, "image": self.vision.blocks}

    def streams(self) -> dict[str, tuple[str, ...]]:
        return {"text": self.text.stream(), "image": self.vision.stream()}

    def sights(self) -> dict[str, Sight]:
        return {
            "text": self.text.own_attention("text"),
            "image": self.vision.own_attention("image"),
            "text to image": self.text.attention_to(self.vision, "text", "image"),
            "image to text": self.vision.attention_to(self.text, "image", "text"),
        }

    def places(self, batch: Batch) -> dict[str, list[str]]:
        regions = needed(batch.visual_feats, "visual_feats [B, regions, width]").shape[1]
        return {"image": [f"region {i}" for i in range(regions)]}

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        return self.both(batch, flow)[0]

    def both(self, batch: Batch, flow: Flow) -> tuple[Tensor, Tensor]:
        """The final states of the text [B, T, D] and of the regions [B, R, D]."""
        ids = reads_ids(batch)
        features = needed(batch.visual_feats, "visual_feats [B, regions, width]")
        boxes = needed(batch.visual_pos, "visual_pos [B, regions, 4]")
        if len(features) != len(ids):
            raise DataError(
                f"visual_feats is of {len(features)} pictures, input_ids of {len(ids)} texts; each text has one picture"
            )
        sees = Flow(keep=batch.visual_keep, tape=flow.tape, recompute=flow.recompute)
        x = self.text.blocks(self.text.embed(ids, flow, batch.token_type_ids), flow)
        y = self.vision.blocks(self.vision.embed(features, boxes, sees), sees)
        for forth, back in zip(self.text.crossing(), self.vision.crossing(), strict=True):
            text, image = Memory(x, flow.keep), Memory(y, sees.keep)
            x, y = run(forth, x, replace(flow, memory=image)), run(back, y, replace(sees, memory=text))
        return x, y

    def forward(self, batch: Batch, flow: Flow) -> Output:
        text, image = self.both(batch, flow)
        text = self.tap(flow, "final", text)
        return self.shown(self.head.join(text, image, flow), text, flow)

    learn = Network.learn_from_output


def names(spec: LxmertSpec, task: str) -> Names:
    """Their tensor names."""
    width = spec.norm.width
    embed = {"tokens": "word", "positions": "position", "segments": "token_type"}
    regions = {
        "features": "visn_fc",
        "features_norm": "visn_layer_norm",
        "boxes": "box_fc",
        "boxes_norm": "box_layer_norm",
    }
    body: dict[str, str | Rule] = {
        **{f"text.embed.{ours}": f"embeddings.{theirs}_embeddings" for ours, theirs in embed.items()},
        "text.embed.norm": "embeddings.LayerNorm",
        **{f"vision.embed.{ours}": f"encoder.visn_fc.{theirs}" for ours, theirs in regions.items()},
        "head.pooler.dense": "pooler.dense",
        "head.answer.pooler.dense": "pooler.dense",
    }
    both = "encoder.x_layers.{i}"
    cross = f"{both}.visual_attention"
    for side, layers, their in (("text", "layer", "lang"), ("vision", "r_layers", "visn")):
        alone = f"encoder.{layers}.{{i}}"
        body |= bert.block_names(
            f"{side}.blocks.{{i}}",
            width,
            attention=f"{alone}.attention",
            up=f"{alone}.intermediate",
            down=f"{alone}.output",
        )
        crossed = f"{side}.crossed.{{i}}"
        body |= bert.block_names(
            crossed,
            width,
            attention=f"{both}.{their}_self_att",
            up=f"{both}.{their}_inter",
            down=f"{both}.{their}_output",
        )
        body |= {  # of both sides the same
            f"{crossed}.cross.q": f"{cross}.att.query",
            f"{crossed}.cross.kv": Fused((f"{cross}.att.key", f"{cross}.att.value"), (width,) * 2),
            f"{crossed}.cross.out": f"{cross}.output.dense",
            f"{crossed}.cross_residual.on_residual": f"{cross}.output.LayerNorm",
        }
    answer = {"dense": "answer_head.logit_fc.0", "norm": "answer_head.logit_fc.2"}
    answer["classifier"] = "answer_head.logit_fc.3"
    head: dict[str, str | Rule] = {
        **{f"head.{ours}": theirs for ours, theirs in answer.items()},
        **{f"head.answer.{ours}": theirs for ours, theirs in answer.items()},
        "head.masked.transform": "cls.predictions.transform.dense",
        "head.masked.norm": "cls.predictions.transform.LayerNorm",
        "head.masked.decoder.weight": Tied("cls.predictions.decoder.weight"),
        "head.masked.decoder.bias": "cls.predictions.bias",
        "head.matched": "cls.seq_relationship",
        "head.questions.transform": "obj_predict_head.transform.dense",
        "head.questions.norm": "obj_predict_head.transform.LayerNorm",
        **{
            f"head.questions.asked.{name}": f"obj_predict_head.decoder_dict.{name}"
            for name in ("obj", "attr", "feat")
        },
    }
    return Names(prefix="lxmert", body=body, head=head)


FAMILY = Family(
    model_type="lxmert",
    oddity="regions of a picture beside the text; each side reads the other by the same weights",
    architectures={
        "LxmertModel": "feature-extraction",
        "LxmertForPreTraining": "pre-training",
        "LxmertForQuestionAnswering": "visual-question-answering",
    },
    spec=spec,
    build=Lxmert,
    names=names,
    tiny={
        "model_type": "lxmert",
        "vocab_size": 99,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 40,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "l_layers": 3,
        "r_layers": 2,
        "x_layers": 2,
        "visual_feat_dim": 24,
        "num_qa_labels": 7,
        "num_object_labels": 6,
        "num_attr_labels": 5,
    },
)
