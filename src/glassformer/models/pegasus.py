"""PEGASUS: a pre-norm encoder-decoder for summarization, pre-trained to generate gap sentences.

    source ids · √D + sinusoids ─ [ norm ─ attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ memory
    target ids · √D + sinusoids ─ [ … causal … cross-attention … feed-forward … ] × L ─ norm ─ head (tied)

Source: Zhang et al. 2020, section 3.
"""

from __future__ import annotations

from glassformer.models import bart, marian
from glassformer.models._config import ConfigReader
from glassformer.models._family import Family
from glassformer.models._seq2seq import Seq2SeqModel


def spec(reader: ConfigReader) -> bart.BartSpec:
    """config.json → spec."""
    return bart.encoder_decoder_spec(
        reader, marian.sinusoidal_positions(reader), embedding_norm=False, norm_first=True
    )


FAMILY = Family(
    model_type="pegasus",
    distinction="as mBART, with sinusoidal positions, and no norm after the embedding",
    architectures={"PegasusModel": "feature-extraction", "PegasusForConditionalGeneration": "translation"},
    spec=spec,
    build=Seq2SeqModel,
    names=bart.names,
    tiny={
        **bart.FAMILY.tiny,
        "model_type": "pegasus",
        "activation_function": "relu",
        "scale_embedding": True,
        "decoder_start_token_id": 0,
        "eos_token_id": 1,
    },
)
