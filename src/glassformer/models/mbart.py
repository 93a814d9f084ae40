"""mBART: multilingual BART, pre-norm, with a final norm in encoder and decoder.

    source ids + positions ─ norm ─ [ norm ─ attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ memory
    target ids + positions ─ norm ─ [ … causal … cross-attention … feed-forward … ] × L ─ norm ─ head (tied)

A text has a language token: in the source at its end or start, in the target before the first word.
Source: Liu et al. 2020, section 2; mBART-50: Tang et al. 2020.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glassformer.models._family import Family, architectures
from glassformer.models._seq2seq import Seq2SeqModel, shift_right
from glassformer.models.bart import recipe as bart
from glassformer.models.bart.names import NAMES, with_decoder_alone
from glassformer.models.bart.network import build

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

KEYS = bart.sibling_keys(norm_first=True, embedding_norm=True, sinusoidal=False)


class MBart(Seq2SeqModel):
    """mBART's network: what a text ends with, its language, the decoder begins with."""

    source_as_labels = True

    def decoder_inputs(self, labels: Int[Tensor, "B T"], start_id: int | None, pad_id: int) -> Int[Tensor, "B T"]:
        ids = labels.masked_fill(labels == -100, pad_id)
        ends = (ids != pad_id).sum(-1, keepdim=True).clamp(min=1) - 1
        inputs = shift_right(labels, pad_id, pad_id)
        inputs[:, :1] = ids.gather(1, ends)
        return inputs


FAMILY = Family(
    model_type="mbart",
    distinction="a norm after the embedding and another after the last layer; languages are tokens",
    architectures=architectures("MBart", "Model ForConditionalGeneration ForCausalLM"),
    spec=KEYS.spec(bart.sibling_spec),
    build=build(MBart),
    names=with_decoder_alone(NAMES),
    tiny=KEYS.tiny("mbart", **bart.TINY),
)
