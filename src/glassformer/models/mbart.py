"""mBART: multilingual BART, pre-norm, with a final norm in encoder and decoder.

    source ids + positions ─ norm ─ [ norm ─ attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ memory
    target ids + positions ─ norm ─ [ … causal … cross-attention … feed-forward … ] × L ─ norm ─ head (tied)

A text has a language token: in the source at its end or start, in the target before the first word.
Source: Liu et al. 2020, section 2; mBART-50: Tang et al. 2020.
"""

from __future__ import annotations

from glassformer.models import bart
from glassformer.models._family import Family, architectures
from glassformer.models._keys import Values
from glassformer.models._seq2seq import Seq2SeqModel

KEYS = bart.sibling_keys(norm_first=True, embedding_norm=True, sinusoidal=False)


@KEYS.spec
def spec(c: Values) -> bart.BartSpec:
    """config.json → spec."""
    return bart.encoder_decoder_spec(c, bart.learned_positions(c))


FAMILY = Family(
    model_type="mbart",
    distinction="a norm after the embedding and another after the last layer; languages are tokens",
    architectures=architectures("MBart", "Model ForConditionalGeneration"),
    spec=spec,
    build=Seq2SeqModel,
    names=bart.NAMES,
    tiny=KEYS.tiny("mbart", **bart.TINY),
)
