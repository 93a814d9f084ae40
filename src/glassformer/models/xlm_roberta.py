"""XLM-RoBERTa: RoBERTa trained on a hundred languages, with one vocabulary for all of them.

    ids + positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Conneau et al. 2020. The same recipe under another name.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.models import roberta

FAMILY = replace(
    roberta.FAMILY,
    model_type="xlm-roberta",
    oddity="RoBERTa with 250,000 pieces of a hundred languages",
    architectures={f"XLM{name}": task for name, task in roberta.FAMILY.architectures.items()},
    tiny={**roberta.FAMILY.tiny, "model_type": "xlm-roberta"},
)
