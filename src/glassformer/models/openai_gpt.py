"""GPT (2018): a post-norm decoder-only language model without a final norm.

    ids + positions ─ [ causal attention ─ add ─ norm ─ feed-forward ─ add ─ norm ] × L ─ head (tied)

Source: Radford et al. 2018, sections 3.1 and 4.1.
"""

from __future__ import annotations

from glassformer.core import AttentionSpec, BlockSpec, FeedForwardSpec, LayerNormSpec, ResidualSpec, StackSpec
from glassformer.errors import UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.models import gpt2
from glassformer.models._config import ConfigReader, Values, constant
from glassformer.models._family import Family, architectures
from glassformer.models._network import Decoder, TextSpec
from glassformer.weights.name_table import NameTable

ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu", "silu": "silu", "swish": "silu"}
"""`afn` → activation: the checkpoint was trained with the tanh form of GELU, and its config calls that "gelu"."""


KEYS = gpt2.SHARED_KEYS.extend(
    hidden=constant(lambda c: 4 * c.width),
    unused="n_special predict_special_tokens",  # rows that vocab_size counts already, the purpose of the model
)


@KEYS.spec
def spec(c: Values) -> TextSpec:
    block = BlockSpec(
        attention=AttentionSpec(**c("width heads"), dropout=c.attention_dropout, causal=True),
        feed_forward=FeedForwardSpec(**c("width hidden"), activation=activation(c.reader)),
        residual=ResidualSpec(on_residual=LayerNormSpec(**c("width eps")), dropout=c.dropout),
    )
    return TextSpec(
        embed=gpt2.embedding_spec(c),
        blocks=StackSpec(blocks=(block,) * c.layers),
        **c("tied labels problem init_std"),
    )


def activation(reader: ConfigReader) -> str:
    """The activation of the feed-forward layer.

    Raises: UnsupportedError: an unknown one.
    """
    name = reader.text("afn", default="gelu")
    if name not in ACTIVATIONS:
        raise UnsupportedError(
            f"{reader.location}afn = {safe_repr(name)} is not supported for a {reader.family!r} model; "
            f"supported: {', '.join(ACTIVATIONS)}{nearest(name, ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]


NAMES = NameTable(
    """
    embed.tokens                            tokens_embed
    embed.positions                         positions_embed
    blocks.{i}.attn.qkv                     h.{i}.attn.c_attn    ᵀ
    blocks.{i}.attn.out                     h.{i}.attn.c_proj    ᵀ
    blocks.{i}.attn_residual.on_residual    h.{i}.ln_1
    blocks.{i}.ffn.up                       h.{i}.mlp.c_fc       ᵀ
    blocks.{i}.ffn.down                     h.{i}.mlp.c_proj     ᵀ
    blocks.{i}.ffn_residual.on_residual     h.{i}.ln_2

    [head]
    head.decoder                            lm_head              =?
    head.classifier                         score
    """,
    prefix="transformer",
    ignored=("position_ids", "h.{i}.attn.bias"),
)

FAMILY = Family(
    model_type="openai-gpt",
    distinction="post-norm, without a final norm",
    architectures=architectures("OpenAIGPT", "Model LMHeadModel ForSequenceClassification"),
    spec=spec,
    build=Decoder,
    names=NAMES,
    tiny=KEYS.tiny("openai-gpt", embd_pdrop=0.0, pad_token_id=0),
)
