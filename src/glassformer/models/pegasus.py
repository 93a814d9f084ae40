"""PEGASUS: a pre-norm encoder-decoder for summarization, pre-trained to generate gap sentences.

    source ids · √D + sinusoids ─ [ norm ─ attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ memory
    target ids · √D + sinusoids ─ [ … causal … cross-attention … feed-forward … ] × L ─ norm ─ head (tied)

Source: Zhang et al. 2020, section 3.
"""

from __future__ import annotations

from glassformer.models import bart, marian
from glassformer.models._family import Family, architectures
from glassformer.models._keys import Values
from glassformer.models._seq2seq import Seq2SeqModel

KEYS = bart.sibling_keys(norm_first=True, embedding_norm=False, sinusoidal=True)


@KEYS.spec
def spec(c: Values) -> bart.BartSpec:
    """config.json → spec."""
    return bart.encoder_decoder_spec(c, marian.sinusoidal_positions(c))


FAMILY = Family(
    model_type="pegasus",
    distinction="as mBART, with sinusoidal positions, and no norm after the embedding",
    architectures=architectures("Pegasus", "Model ForConditionalGeneration"),
    spec=spec,
    build=Seq2SeqModel,
    names=bart.SINUSOIDAL_NAMES,
    tiny=KEYS.tiny(
        "pegasus",
        **{**bart.TINY, "decoder_start_token_id": 0, "eos_token_id": 1},
        activation_function="relu",
        scale_embedding=True,
    ),
)
