"""ModernBERT: an encoder for long texts, with alternating global and local attention.

attention.py  which layers see a window, and their rotary positions
heads.py      heads whose states go through BERT's transform of the masked language model first
network.py    which head belongs to a task
recipe.py     config keys, weight names, architectures
"""

from glassformer.models.modernbert.heads import (
    TransformPooler,
    TransformSpanClassifier,
    TransformTokenClassifier,
)
from glassformer.models.modernbert.network import ModernBert, ModernBertSpec
from glassformer.models.modernbert.recipe import FAMILY, KEYS, NAMES, spec

__all__ = [
    "FAMILY",
    "KEYS",
    "NAMES",
    "ModernBert",
    "ModernBertSpec",
    "TransformPooler",
    "TransformSpanClassifier",
    "TransformTokenClassifier",
    "spec",
]
