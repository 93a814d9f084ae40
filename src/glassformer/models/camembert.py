"""CamemBERT: a RoBERTa of French.

    ids + positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Martin et al. 2020. RoBERTa under another name, with SentencePiece tokens.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.models import roberta

FAMILY = replace(
    roberta.FAMILY,
    model_type="camembert",
    distinction="RoBERTa with SentencePiece tokens of French",
    architectures={name.replace("Roberta", "Camembert"): task for name, task in roberta.FAMILY.architectures.items()},
    tiny={**roberta.FAMILY.tiny, "model_type": "camembert"},
)
