"""ViT: Vision Transformer, an image encoder over patches.

    pixels ─ patches + [CLS] + positions ─ [ norm ─ attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ head
                                                                                            [CLS] alone ──┘

Source: Dosovitskiy et al. 2021, section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from glassformer.core import AttentionSpec, BlockSpec, FeedForwardSpec, LayerNormSpec, ResidualSpec, StackSpec
from glassformer.core.classification_heads import Problem, SequenceClassifier
from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import Pooler
from glassformer.core.patches import PatchesSpec
from glassformer.models._config import Keys, Values, size, text
from glassformer.models._family import Family, architectures
from glassformer.models._image import MAX_CHANNELS, ImageEncoder, image_size
from glassformer.weights.name_table import NameTable


@dataclass(frozen=True, kw_only=True, slots=True)
class VitSpec:
    """One stack over the patches of an image; `pooler` is the activation of the body's pooler."""

    embed: PatchesSpec
    blocks: StackSpec
    final_norm: LayerNormSpec
    pooler: str
    labels: int
    problem: Problem | None
    init_std: float


KEYS = Keys(
    width=("hidden_size", 768),
    layers=("num_hidden_layers", 12),
    heads=("num_attention_heads", 12),
    hidden=("intermediate_size", 3072),
    channels=size("num_channels", 3, maximum=MAX_CHANNELS),
    activation=("hidden_act", "gelu"),
    eps=("layer_norm_eps", 1e-12),
    bias=("qkv_bias", True),
    dropout=("hidden_dropout_prob", 0.0),
    attention_dropout=("attention_probs_dropout_prob", 0.0),
    pooler=text("pooler_act", "tanh"),
    init_std=("initializer_range", 0.02),
    unused="encoder_stride",  # of a head that is not supported
)


@KEYS.spec
def spec(c: Values) -> VitSpec:
    c.reader.fixed("pooler_output_size", c.width)
    norm = LayerNormSpec(**c("width eps"))
    block = BlockSpec(
        attention=AttentionSpec(**c("width heads bias"), dropout=c.attention_dropout),
        feed_forward=FeedForwardSpec(**c("width hidden activation")),
        residual=ResidualSpec(before=norm, dropout=c.dropout),
    )
    image, patch = image_size(c.reader, "image_size", 224), image_size(c.reader, "patch_size", 16)
    return VitSpec(
        embed=PatchesSpec(image=image, patch=patch, **c("channels width dropout")),
        blocks=StackSpec(blocks=(block,) * c.layers),
        final_norm=norm,
        **c("pooler labels problem init_std"),
    )


class Vit(ImageEncoder):
    """ViT: patches, stack, norm, head."""

    def __init__(self, spec: VitSpec, task: str) -> None:
        classifier = SequenceClassifier(spec.blocks.width, spec.labels, pooling="first", problem=spec.problem)
        head = classifier if task == "image-classification" else Pooler(spec.blocks.width, spec.pooler)
        super().__init__(spec.embed, spec.blocks, spec.final_norm, head)

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        return self.finish(super().states(batch, flow), flow)

    def finish(self, x: Tensor, flow: Flow) -> Tensor:
        return self.final_norm(x)  # type: ignore[no-any-return]


NAMES = NameTable(
    """
    embed.projection                   embeddings.patch_embeddings.projection
    embed.summary                      embeddings.cls_token                           [1 1]
    embed.positions.weight             embeddings.position_embeddings                 [1]
    blocks.{i}.attn_residual.before    encoder.layer.{i}.layernorm_before
    blocks.{i}.attn.qkv                encoder.layer.{i}.attention.attention.(query|key|value)
    blocks.{i}.attn.out                encoder.layer.{i}.attention.output.dense
    blocks.{i}.ffn_residual.before     encoder.layer.{i}.layernorm_after
    blocks.{i}.ffn.up                  encoder.layer.{i}.intermediate.dense
    blocks.{i}.ffn.down                encoder.layer.{i}.output.dense
    final_norm                         layernorm
    head.dense                         pooler.dense

    [head]
    head.classifier                    classifier
    """,
    prefix="vit",
    unread=("embeddings.mask_token",),  # of masked image modelling
)

FAMILY = Family(
    model_type="vit",
    distinction="images cut into patches; a learned [CLS] token represents the image",
    architectures=architectures("ViT", "Model ForImageClassification"),
    spec=spec,
    build=Vit,
    names=NAMES,
    modality="picture",
    tiny=KEYS.tiny("vit", image_size=12, patch_size=4),
)
