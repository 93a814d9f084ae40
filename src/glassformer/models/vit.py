"""ViT: Vision Transformer, an image encoder over patches.

    pixels ─ patches + [CLS] + positions ─ [ norm ─ attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ head
                                                                                            [CLS] alone ──┘

Source: Dosovitskiy et al. 2021, section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from glassformer.core.classification_heads import Problem, SequenceClassifier
from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import Head, Pooler
from glassformer.core.norms import make_norm
from glassformer.core.patches import Patches
from glassformer.core.specs import (
    AttentionSpec,
    BlockSpec,
    FeedForwardSpec,
    LayerNormSpec,
    NormSpec,
    PatchesSpec,
    StackSpec,
)
from glassformer.core.stack import Stack
from glassformer.models._config import MAX_LAYERS, ConfigReader
from glassformer.models._family import Family
from glassformer.models._image import MAX_CHANNELS, ImageEncoder, image_size, require_pixels
from glassformer.weights.names import Fused, Unsqueezed, WeightNames


@dataclass(frozen=True, kw_only=True, slots=True)
class VitSpec:
    """One stack over the patches of an image. pooler: activation of the body's pooler"""

    embed: PatchesSpec
    blocks: StackSpec
    final_norm: NormSpec
    pooler: str
    labels: int
    problem: Problem | None
    init_std: float


def spec(reader: ConfigReader) -> VitSpec:
    """config.json → spec."""
    reader.get("encoder_stride", default=None)  # of a head that is not supported
    width = reader.integer("hidden_size", default=768)
    reader.fixed("pooler_output_size", width)
    dropout = reader.probability("hidden_dropout_prob", default=0.0)
    norm = LayerNormSpec(width=width, eps=reader.number("layer_norm_eps", default=1e-12))
    block = BlockSpec(
        attention=AttentionSpec(
            width=width,
            heads=reader.integer("num_attention_heads", default=12),
            bias=reader.flag("qkv_bias", default=True),
            dropout=reader.probability("attention_probs_dropout_prob", default=0.0),
        ),
        feed_forward=FeedForwardSpec(
            width=width,
            hidden=reader.integer("intermediate_size", default=3072),
            activation=reader.text("hidden_act", default="gelu"),
        ),
        before=norm,
        dropout=dropout,
    )
    return VitSpec(
        embed=PatchesSpec(
            image=image_size(reader, "image_size", 224),
            patch=image_size(reader, "patch_size", 16),
            channels=reader.integer("num_channels", default=3, maximum=MAX_CHANNELS),
            width=width,
            dropout=dropout,
        ),
        blocks=StackSpec(
            blocks=(block,) * reader.integer("num_hidden_layers", default=12, maximum=MAX_LAYERS)
        ),
        final_norm=norm,
        pooler=reader.text("pooler_act", default="tanh"),
        labels=reader.labels(),
        problem=reader.problem(),
        init_std=reader.number("initializer_range", default=0.02),
    )


class Vit(ImageEncoder):
    """ViT: patches, stack, norm, head."""

    def __init__(self, spec: VitSpec, task: str) -> None:
        super().__init__()
        self.embed = Patches(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.final_norm = make_norm(spec.final_norm)
        self.head = self.make_head(spec, task)
        self.name_nodes()

    def make_head(self, spec: VitSpec, task: str) -> Head:
        if task == "image-classification":
            return SequenceClassifier(spec.blocks.width, spec.labels, pooling="first", problem=spec.problem)
        return Pooler(spec.blocks.width, spec.pooler)

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x: Tensor = self.final_norm(self.blocks(self.embed(require_pixels(batch), flow), flow))
        return x


def names(spec: VitSpec, task: str) -> WeightNames:
    """Weight names."""
    layer = "encoder.layer.{i}"
    return WeightNames(
        prefix="vit",
        body={
            "embed.projection": "embeddings.patch_embeddings.projection",
            "embed.summary": Unsqueezed("embeddings.cls_token", axes=2),
            "embed.positions.weight": Unsqueezed("embeddings.position_embeddings"),
            "blocks.{i}.attn_residual.before": f"{layer}.layernorm_before",
            "blocks.{i}.attn.qkv": Fused(
                tuple(f"{layer}.attention.attention.{part}" for part in ("query", "key", "value")),
                (spec.blocks.width,) * 3,
            ),
            "blocks.{i}.attn.out": f"{layer}.attention.output.dense",
            "blocks.{i}.ffn_residual.before": f"{layer}.layernorm_after",
            "blocks.{i}.ffn.up": f"{layer}.intermediate.dense",
            "blocks.{i}.ffn.down": f"{layer}.output.dense",
            "final_norm": "layernorm",
            "head.dense": "pooler.dense",
        },
        head={"head.classifier": "classifier"},
        ignored=("embeddings.mask_token",),  # of masked image modelling
    )


FAMILY = Family(
    model_type="vit",
    distinction="images cut into patches; a learned [CLS] token represents the image",
    architectures={
        "ViTModel": "feature-extraction",
        "ViTForImageClassification": "image-classification",
    },
    spec=spec,
    build=Vit,
    names=names,
    modality="picture",
    tiny={
        "model_type": "vit",
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "image_size": 12,
        "patch_size": 4,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    },
)
