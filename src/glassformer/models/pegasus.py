"""PEGASUS: a pre-norm encoder-decoder for summarization, pre-trained to generate gap sentences.

    source ids · √D + sinusoids ─ [ norm ─ attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ memory
    target ids · √D + sinusoids ─ [ … causal … cross-attention … feed-forward … ] × L ─ norm ─ head (tied)

Source: Zhang et al. 2020, section 3.
"""

from __future__ import annotations

from glassformer.models import marian
from glassformer.models._family import Family, architectures
from glassformer.models._seq2seq import Seq2SeqModel
from glassformer.models.bart import recipe as bart
from glassformer.models.bart.names import with_decoder_alone
from glassformer.models.bart.network import build

KEYS = bart.sibling_keys(norm_first=True, embedding_norm=False, sinusoidal=True).extend(
    positions=marian.SINUSOIDS, padding=("pad_token_id", 0)
)

FAMILY = Family(
    model_type="pegasus",
    distinction="as mBART, with sinusoidal positions, and no norm after the embedding",
    architectures=architectures("Pegasus", "Model ForConditionalGeneration ForCausalLM"),
    spec=KEYS.spec(bart.sibling_spec),
    build=build(Seq2SeqModel),
    names=with_decoder_alone(marian.NAMES),
    tiny=KEYS.tiny(
        "pegasus",
        **{**bart.TINY, "decoder_start_token_id": 0, "eos_token_id": 1},
        activation_function="relu",
        scale_embedding=True,
    ),
)
