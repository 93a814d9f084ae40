"""ELECTRA: BERT whose embedding may be narrower, pre-trained to tell replaced tokens from original ones.

    ids + positions + token types ─ norm ─ (projection) ─ [ BERT's block ] × L ─ head

The small generator fills masks; the discriminator, which is fine-tuned, says of each token whether it was replaced.
Source: Clark et al. 2020, section 2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core import Flow, Head, LayerNormSpec, Output, Pooler, SequenceClassifier
from glassformer.core.feed_forward import make_activation
from glassformer.core.heads import Labels, not_none, single_tensor
from glassformer.core.language_heads import MaskedLMHead
from glassformer.core.losses import IGNORE_INDEX, refuse_smoothing, shaped_labels
from glassformer.models import bert
from glassformer.models._config import Values, size
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models._network import AS_DECODER, Encoder, TextSpec

if TYPE_CHECKING:
    from jaxtyping import Float

KEYS = bert.KEYS.extend(
    embedding_width=size("embedding_size", 128),
    fixed={"tie_word_embeddings": (True, False)},
    tied=("tie_word_embeddings", True),
    unused="summary_type summary_use_proj summary_activation summary_last_dropout",
)


def factorized(c: Values, like_bert: bert.AnySpec, *, projection: int | None) -> bert.AnySpec:
    """BERT's spec with embedding tables of width `embedding_width`."""
    norm = LayerNormSpec(width=c.embedding_width, eps=c.eps)
    embed = replace(like_bert.embed, width=norm.width, norm=norm, projection=projection)
    return replace(like_bert, embed=embed)


@KEYS.extend(**AS_DECODER).spec
def spec(c: Values) -> TextSpec:
    projection = c.width if c.embedding_width != c.width else None
    return replace(factorized(c, bert.text_spec(c, TextSpec), projection=projection), tied=c.tied)


class ReplacedTokenHead(Head):
    """Replaced-token detection: is a token the original one, or did the generator put it there?

        logits = W₂ activation(W₁ x),      above 0: replaced

    Labels are 0 or 1 [B, T]; those of -100 do not count.
    Source: Clark et al. 2020, section 2.
    """

    LOGIT_A_TOKEN = True

    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.activation = make_activation(activation)
        self.classifier = nn.Linear(width, 1)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.classifier(self.activation(self.dense(x))).squeeze(-1))

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        refuse_smoothing(smoothing, "a token is replaced or not")
        logits = not_none(output.logits)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        wanted = shaped_labels(single_tensor(labels), (*logits.shape, 1))
        counted = wanted != IGNORE_INDEX
        loss = F.binary_cross_entropy_with_logits(logits[counted], wanted[counted].to(logits), reduction="sum")
        return {"loss": loss}


class Electra(Encoder):
    """ELECTRA: BERT with another sequence classifier, and the discriminator's head."""

    def make_head(self, spec: TextSpec, task: str) -> Head | None:
        width, dropout = spec.blocks.width, spec.classifier_dropout
        if task == "replaced-token-detection":
            return ReplacedTokenHead(width, spec.activation)
        if task == "text-classification":
            pooler = Pooler(width, "gelu", dropout)
            return SequenceClassifier(width, spec.labels, pooler=pooler, dropout=dropout, problem=spec.problem)
        return super().make_head(spec, task) if task != "feature-extraction" else None

    def make_transformed_head(self, spec: TextSpec, kind: type[MaskedLMHead]) -> MaskedLMHead:
        # The head's activation is gelu, whatever the blocks have.
        return super().make_transformed_head(replace(spec, activation="gelu"), kind)


NAMES = bert.NAMES.extend(
    """
    embed.projection                embeddings_project
    [head]
    head.transform                  generator_predictions.dense
    head.norm                       generator_predictions.LayerNorm
    head.decoder.weight             generator_lm_head.weight            =?
    head.decoder.bias               generator_lm_head.bias
    [replaced-token-detection]
    head.dense                      discriminator_predictions.dense
    head.classifier                 discriminator_predictions.dense_prediction
    [text-classification]
    head.pooler.dense               classifier.dense
    head.classifier                 classifier.out_proj
    """,
    prefix="electra",
    ignored=("embeddings.position_ids",),
)

FAMILY = Family(
    model_type="electra",
    distinction="a projection behind a narrow embedding; pre-trained to detect replaced tokens",
    architectures=architectures(
        "Electra",
        f"Model ForMaskedLM ForPreTraining {CLASSIFIERS} ForCausalLM",
        ForPreTraining="replaced-token-detection",
    ),
    requires={"text-generation": {"is_decoder": True}},
    spec=spec,
    build=Electra,
    names=NAMES,
    tiny=KEYS.tiny("electra", embedding_size=12),
)
