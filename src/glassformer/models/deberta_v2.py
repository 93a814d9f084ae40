"""DeBERTa v2 and v3: distances in log buckets, positions that share the weights of contents, and a convolution.

    ids ─ norm ─ [ disentangled attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head
              └ convolution, on the first block's output (v2, the largest models)

Source: He et al. 2021, "DeBERTa", released code of version 2; He et al. 2023, "DeBERTaV3", whose network is the same.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.blocks import BlockSpec
from glassformer.core.norms import LayerNormSpec
from glassformer.errors import UnsupportedError
from glassformer.models import deberta
from glassformer.models._config import Key, Values, flag, size, size_or_zero, text
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models.deberta.attention import RelativeEmbeddingSpec
from glassformer.models.deberta.convolution import ConvolvedBlockSpec
from glassformer.models.deberta.names import LEGACY_NAMES, weight_names
from glassformer.models.deberta.network import Deberta, DebertaSpec, initialise
from glassformer.models.deberta.recipe import attention_spec, text_spec
from glassformer.weights.names import WeightNames

KEYS = deberta.KEYS.extend(
    head_width=size("attention_head_size", lambda c: c.width // c.heads),
    buckets=Key("integer", ("position_buckets",), -1, {"minimum": -1}),
    shared=flag("share_att_key", False),
    position_norm=text("norm_rel_ebd", "none"),
    kernel=size_or_zero("conv_kernel_size", 0),
    kernel_groups=size("conv_groups", 1),
    kernel_activation=text("conv_act", "tanh"),
)


@KEYS.spec
def spec(c: Values) -> DebertaSpec:
    norm = LayerNormSpec(**c("width eps"))
    if c.head_width * c.heads != c.width:
        raise UnsupportedError(
            f"config.json: attention_head_size = {c.head_width} is not supported for a 'deberta-v2' model; supported: "
            f"{c.width // c.heads}, hidden_size / num_attention_heads"
        )
    relative = None
    if c.relative:
        relative = RelativeEmbeddingSpec(
            **c("heads width"),
            span=c.buckets if c.buckets > 0 else c.longest,
            longest=c.longest if c.buckets > 0 else None,
            norm=norm if "layer_norm" in c.position_norm.lower().split("|") else None,
        )
    made = text_spec(c, attention_spec(c, relative, **c("shared")), relative)
    first, *others = made.blocks.blocks
    if c.kernel:
        assert isinstance(first, BlockSpec)  # as all of a BERT's
        first = ConvolvedBlockSpec(
            attention=first.attention,
            feed_forward=first.feed_forward,
            residual=first.residual,
            kernel=c.kernel,
            groups=c.kernel_groups,
            activation=c.kernel_activation,
            dropout=c.dropout,
            norm=norm,
        )
    return replace(made, blocks=replace(made.blocks, blocks=(first, *others)))


LEGACY_NAMES_V2 = LEGACY_NAMES.extend(
    """
    blocks.bias.norm                        encoder.LayerNorm
    blocks.{i}.attn.qkv                     encoder.layer.{i}.attention.self.(query|key|value)_proj
    blocks.{i}.attn.q_bias                  -
    blocks.{i}.attn.v_bias                  -
    blocks.{i}.attn.position_key            encoder.layer.{i}.attention.self.pos_key_proj
    blocks.{i}.attn.position_query          encoder.layer.{i}.attention.self.pos_query_proj
    blocks.{i}.convolution.conv             encoder.conv.conv
    blocks.{i}.norm                         encoder.conv.LayerNorm
    """
)


def names(made: DebertaSpec, task: str) -> WeightNames:
    """The weight names, with those of the masked language-model head that the config asks for."""
    return weight_names(made, task, LEGACY_NAMES_V2)


FAMILY = Family(
    model_type="deberta-v2",
    distinction="DeBERTa with distances in log buckets; positions may share the weights of contents",
    architectures=architectures("DebertaV2", f"Model ForMaskedLM {CLASSIFIERS}"),
    spec=spec,
    build=Deberta,
    names=names,
    tiny=KEYS.tiny(
        "deberta-v2",
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_buckets=8,
        max_relative_positions=16,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        position_biased_input=False,
        conv_kernel_size=3,
    ),
    initialise=initialise,
)
