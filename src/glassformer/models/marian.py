"""Marian: the encoder-decoder of 2017, as the OPUS-MT translators were trained: waves, norms after every addition.

    source ids · √D + waves ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ memory
    target ids · √D + waves ─ [ causal attention … cross-attention … feed-forward … ] × L ─ head (tied)

Source: Junczys-Dowmunt et al. 2018; Tiedemann and Thottingal 2020.
"""

from __future__ import annotations

from glassformer.core.specs import HalvedSinusoidalSpec
from glassformer.models import bart
from glassformer.models._family import MOST_ROWS, Family, Reader
from glassformer.models._seq2seq import Translator


def spec(reader: Reader) -> bart.BartSpec:
    """config.json → spec."""
    reader.fixed("share_encoder_decoder_embeddings", True)
    reader.fixed("decoder_vocab_size", reader.integer("vocab_size", most=MOST_ROWS))
    return bart.pair(reader, waves(reader), embedding_norm=False, norm_first=False)


def waves(reader: Reader) -> HalvedSinusoidalSpec:
    """As many positions as the config says, none of them learned."""
    return HalvedSinusoidalSpec(count=reader.integer("max_position_embeddings", most=MOST_ROWS))


FAMILY = Family(
    model_type="marian",
    oddity="waves in halves, sines then cosines; scaled embeddings",
    architectures={"MarianModel": "feature-extraction", "MarianMTModel": "translation"},
    spec=spec,
    build=Translator,
    names=bart.names,
    tiny={
        **bart.FAMILY.tiny,
        "model_type": "marian",
        "activation_function": "swish",
        "scale_embedding": True,
    },
)
