"""MusicGen's decoder: a pre-norm decoder-only language model over the codes of an audio codec.

    ids [T, K] ─ Σ of K tables + sinusoids ─ [ norm ─ causal attention ─ add ─ (norm ─ cross-attention ─ add)
      ─ norm ─ feed-forward ─ add ] × L ─ norm ─ K heads

Nothing has a bias but the norms. Each codebook is a step later than the one before it (`audio/code_patterns.py`), so
that a code is predicted from the earlier codebooks of its frame too.
Source: Copet et al. 2023, "Simple and controllable music generation", sections 2.2 and 2.4.
Differs: ids are [B, T, K], where the reference library has [B · K, T], and logits [B, T, K, V].
"""

from __future__ import annotations

from glassformer.core import (
    AttentionSpec,
    BlockSpec,
    CrossAttentionSpec,
    FeedForwardSpec,
    LayerNormSpec,
    ResidualSpec,
    StackSpec,
)
from glassformer.core.codebooks import CodebookEmbeddingSpec
from glassformer.models._config import Keys, Values, constants, number, size
from glassformer.models._family import Family, architectures
from glassformer.models.musicgen_decoder.network import (
    CosineFirstSpec,
    MusicgenDecoder,
    MusicgenSpec,
)
from glassformer.weights.name_table import NameTable
from glassformer.weights.names import WeightNames

KEYS = Keys(
    width=("hidden_size", 1024),
    layers=("num_hidden_layers", 24),
    heads=("num_attention_heads", 16),
    hidden=("ffn_dim", 4096),
    vocabulary=("vocab_size", 2048),
    books=size("num_codebooks", 4, maximum=64),
    max_tokens=("max_position_embeddings", 2048),
    activation=("activation_function", "gelu"),
    dropout=("dropout", 0.1),
    attention_dropout=("attention_dropout", 0.0),
    activation_dropout=("activation_dropout", 0.0),
    init_std=("initializer_factor", 0.02),
    frame_rate_hz=number("frame_rate_hz", 50.0),  # of our own: it names positions
    **constants(eps=1e-5, bias=False, out_bias=False),
    fixed={"tie_word_embeddings": False, "is_decoder": (True, False), "add_cross_attention": (True, False)},
    # read by nothing there; how codes of stereo are laid out; whole blocks left out, in training alone
    unused="scale_embedding audio_channels layerdrop",
)


@KEYS.spec
def spec(c: Values) -> MusicgenSpec:
    norm = LayerNormSpec(**c("width eps"))
    attention = c("width heads bias out_bias") | {"dropout": c.attention_dropout}
    block = BlockSpec(
        attention=AttentionSpec(**attention, causal=True),
        cross=CrossAttentionSpec(**attention),
        cross_optional=True,
        feed_forward=FeedForwardSpec(**c("width hidden activation bias"), dropout=c.activation_dropout),
        residual=ResidualSpec(before=norm, dropout=c.dropout),
    )
    return MusicgenSpec(
        embed=CodebookEmbeddingSpec(
            **c("width books dropout"), vocabulary=c.vocabulary + 1, positions=CosineFirstSpec(count=c.max_tokens)
        ),
        blocks=StackSpec(blocks=(block,) * c.layers),
        final_norm=norm,
        codes=c.vocabulary,
        tied=False,
        **c("frame_rate_hz init_std"),
    )


NAMES = NameTable(
    """
    blocks.{i}.attn.qkv                decoder.layers.{i}.self_attn.(q|k|v)_proj
    blocks.{i}.attn.out                decoder.layers.{i}.self_attn.out_proj
    blocks.{i}.attn_residual.before    decoder.layers.{i}.self_attn_layer_norm
    blocks.{i}.cross.q                 decoder.layers.{i}.encoder_attn.q_proj
    blocks.{i}.cross.kv                decoder.layers.{i}.encoder_attn.(k|v)_proj
    blocks.{i}.cross.out               decoder.layers.{i}.encoder_attn.out_proj
    blocks.{i}.cross_residual.before   decoder.layers.{i}.encoder_attn_layer_norm
    blocks.{i}.ffn.up                  decoder.layers.{i}.fc1
    blocks.{i}.ffn.down                decoder.layers.{i}.fc2
    blocks.{i}.ffn_residual.before     decoder.layers.{i}.final_layer_norm
    final_norm                         decoder.layer_norm
    """,
    prefix="model",
    computed={"decoder.embed_positions.weights": "embed.positions"},
)


def names(spec: MusicgenSpec, task: str) -> WeightNames:
    """Weight names: a table and a head for each codebook."""
    books = "|".join(map(str, range(spec.embed.books)))
    own = f"embed.tokens    decoder.embed_tokens.({books})\n[head]\nhead.decoder    lm_heads.({books})"
    return NAMES.extend(own)(spec, task)


FAMILY = Family(
    model_type="musicgen_decoder",
    distinction="codes of several codebooks at each position, added up; a head for each",
    architectures=architectures("Musicgen", "Model ForCausalLM", ForCausalLM="text-to-audio"),
    spec=spec,
    build=MusicgenDecoder,
    names=names,
    tiny=KEYS.tiny("musicgen_decoder", num_codebooks=3, vocab_size=16, pad_token_id=16, bos_token_id=16),
)
