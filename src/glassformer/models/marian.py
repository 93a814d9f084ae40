"""Marian (OPUS-MT): the post-norm encoder-decoder of 2017 with sinusoidal positions, for translation.

    source ids · √D + sinusoids ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ memory
    target ids · √D + sinusoids ─ [ causal attention … cross-attention … feed-forward … ] × L ─ head (tied)

Source: Junczys-Dowmunt et al. 2018; Tiedemann and Thottingal 2020.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core import HalvedSinusoidalSpec
from glassformer.models._config import Values, constant, flag, rows
from glassformer.models._family import Family, architectures
from glassformer.models._seq2seq import EncoderDecoderSpec, Seq2SeqModel
from glassformer.models.bart import recipe as bart
from glassformer.models.bart.names import NAMES as BART_NAMES
from glassformer.models.bart.names import with_decoder_alone
from glassformer.models.bart.network import build
from glassformer.weights.names import WeightNames

SINUSOIDS = constant(lambda c: HalvedSinusoidalSpec(count=c.max_tokens))

KEYS = bart.sibling_keys(norm_first=False, embedding_norm=False, sinusoidal=True).extend(
    positions=SINUSOIDS,
    padding=("pad_token_id", 58_100),
    tied=flag("share_encoder_decoder_embeddings", True),
    tied_head=flag("tie_word_embeddings", True),
    decoder_vocabulary=rows("decoder_vocab_size", "=vocabulary"),
    fixed={"tie_word_embeddings": (True, False)},
)


@KEYS.spec
def spec(c: Values) -> EncoderDecoderSpec:
    made = bart.sibling_spec(c)
    if c.tied:  # one table: one vocabulary, and the head's too
        c.reader.fixed("decoder_vocab_size", c.vocabulary)
        c.reader.fixed("tie_word_embeddings", True)
        return made
    embed = replace(made.decoder.embed, vocabulary=c.decoder_vocabulary)
    return replace(made, decoder=replace(made.decoder, embed=embed), **c("tied tied_head"))


NAMES = BART_NAMES.extend(
    computed={f"{side}.embed_positions.weight": f"{side}.embed.positions" for side in ("encoder", "decoder")}
)
"""Positions are computed: files that hold them repeat what is known."""
UNTIED_NAMES = NAMES.extend(
    """
    {side}.embed.tokens    {side}.embed_tokens
    """,
    ignored=tuple(name for name in NAMES.ignored if name != "encoder.embed_tokens.weight"),
    renamed={},
)
"""For two vocabularies, a table each."""
OWN_HEAD = """
    [head]
    head.decoder           lm_head
"""


def names(spec: EncoderDecoderSpec, task: str) -> WeightNames:
    """Weight names: the embedding tables and the head are one tensor, two, or three."""
    if spec.tied:
        return NAMES(spec, task)
    return UNTIED_NAMES.extend("" if spec.tied_head else OWN_HEAD)(spec, task)


FAMILY = Family(
    model_type="marian",
    distinction="sinusoidal positions in halves, sines then cosines; scaled embeddings",
    architectures=architectures("Marian", "Model MTModel ForCausalLM"),
    spec=spec,
    build=build(Seq2SeqModel),
    names=with_decoder_alone(NAMES, names),
    tiny=KEYS.tiny("marian", **bart.TINY, activation_function="swish", scale_embedding=True),
)
