"""PEGASUS: an encoder-decoder that learned to write the sentences left out of a text; norms before every sub-layer.

    source ids · √D + waves ─ [ norm ─ attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ memory
    target ids · √D + waves ─ [ … causal … cross-attention … feed-forward … ] × L ─ norm ─ head (tied)

Source: Zhang et al. 2020, section 3.
"""

from __future__ import annotations

from glassformer.models import bart, marian
from glassformer.models._family import Family, Reader
from glassformer.models._seq2seq import Translator


def spec(reader: Reader) -> bart.BartSpec:
    """config.json → spec."""
    return bart.pair(reader, marian.waves(reader), embedding_norm=False, norm_first=True)


FAMILY = Family(
    model_type="pegasus",
    oddity="as mBART, with waves, and no norm after the embedding",
    architectures={"PegasusModel": "feature-extraction", "PegasusForConditionalGeneration": "translation"},
    spec=spec,
    build=Translator,
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
