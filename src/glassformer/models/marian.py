"""Marian (OPUS-MT): the post-norm encoder-decoder of 2017 with sinusoidal positions, for translation.

    source ids · √D + sinusoids ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ memory
    target ids · √D + sinusoids ─ [ causal attention … cross-attention … feed-forward … ] × L ─ head (tied)

Source: Junczys-Dowmunt et al. 2018; Tiedemann and Thottingal 2020.
"""

from __future__ import annotations

from glassformer.core import HalvedSinusoidalSpec
from glassformer.models import bart
from glassformer.models._family import Family, architectures
from glassformer.models._keys import Values
from glassformer.models._seq2seq import Seq2SeqModel

KEYS = bart.sibling_keys(norm_first=False, embedding_norm=False, sinusoidal=True).extend(
    fixed={"share_encoder_decoder_embeddings": True}
)


@KEYS.spec
def spec(c: Values) -> bart.BartSpec:
    """config.json → spec."""
    c.reader.fixed("decoder_vocab_size", c.vocabulary)
    return bart.encoder_decoder_spec(c, sinusoidal_positions(c))


def sinusoidal_positions(c: Values) -> HalvedSinusoidalSpec:
    """Sinusoidal positions: sines in the first half of the dimensions, cosines in the second."""
    return HalvedSinusoidalSpec(count=c.max_tokens)


FAMILY = Family(
    model_type="marian",
    distinction="sinusoidal positions in halves, sines then cosines; scaled embeddings",
    architectures=architectures("Marian", "Model MTModel"),
    spec=spec,
    build=Seq2SeqModel,
    names=bart.SINUSOIDAL_NAMES,
    tiny=KEYS.tiny("marian", **bart.TINY, activation_function="swish", scale_embedding=True),
)
