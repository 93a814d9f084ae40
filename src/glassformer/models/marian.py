"""Marian (OPUS-MT): the post-norm encoder-decoder of 2017 with sinusoidal positions, for translation.

    source ids · √D + sinusoids ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ memory
    target ids · √D + sinusoids ─ [ causal attention … cross-attention … feed-forward … ] × L ─ head (tied)

Source: Junczys-Dowmunt et al. 2018; Tiedemann and Thottingal 2020.
"""

from __future__ import annotations

from glassformer.core.specs import HalvedSinusoidalSpec
from glassformer.models import bart
from glassformer.models._config import MAX_ROWS, ConfigReader
from glassformer.models._family import Family
from glassformer.models._seq2seq import Seq2SeqModel


def spec(reader: ConfigReader) -> bart.BartSpec:
    """config.json → spec."""
    reader.fixed("share_encoder_decoder_embeddings", True)
    reader.fixed("decoder_vocab_size", reader.integer("vocab_size", maximum=MAX_ROWS))
    return bart.encoder_decoder_spec(
        reader, sinusoidal_positions(reader), embedding_norm=False, norm_first=False
    )


def sinusoidal_positions(reader: ConfigReader) -> HalvedSinusoidalSpec:
    """Sinusoidal positions: sines in the first half of the dimensions, cosines in the second."""
    return HalvedSinusoidalSpec(count=reader.integer("max_position_embeddings", maximum=MAX_ROWS))


FAMILY = Family(
    model_type="marian",
    distinction="sinusoidal positions in halves, sines then cosines; scaled embeddings",
    architectures={"MarianModel": "feature-extraction", "MarianMTModel": "translation"},
    spec=spec,
    build=Seq2SeqModel,
    names=bart.names,
    tiny={
        **bart.FAMILY.tiny,
        "model_type": "marian",
        "activation_function": "swish",
        "scale_embedding": True,
    },
)
