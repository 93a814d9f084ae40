"""XLM-RoBERTa: multilingual RoBERTa, with one vocabulary for a hundred languages.

    ids + positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Conneau et al. 2020. RoBERTa under another name.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.models import roberta

FAMILY = replace(
    roberta.FAMILY,
    model_type="xlm-roberta",
    distinction="RoBERTa with 250,000 tokens of a hundred languages",
    architectures={f"XLM{name}": task for name, task in roberta.FAMILY.architectures.items()},
    tiny={**roberta.FAMILY.tiny, "model_type": "xlm-roberta"},
)
