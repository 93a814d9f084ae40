"""StableLM: Llama with layer norms, partial rotary positions and, in its larger sizes, norms for each head.

attention.py   a norm of q and k with weights of its own for each head
recipe.py      config keys, weight names, architectures
"""

from glassformer.models.stablelm.attention import HeadNormAttention, HeadNormAttentionSpec, HeadNorms
from glassformer.models.stablelm.recipe import FAMILY, KEYS, NAMES, spec

__all__ = [
    "FAMILY",
    "KEYS",
    "NAMES",
    "HeadNormAttention",
    "HeadNormAttentionSpec",
    "HeadNorms",
    "spec",
]
