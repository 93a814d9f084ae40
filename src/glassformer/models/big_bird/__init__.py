"""BigBird: an encoder for long texts with block-sparse attention.

block_sparse.py    attention of each block of queries to a few blocks of keys
random_blocks.py   which blocks are drawn in training, by the paper's rules and seeds
network.py         another embedding than BERT's, and other heads
recipe.py          config keys, weight names, architectures
"""

from glassformer.models.big_bird.block_sparse import BlockSparseAttention, BlockSparseAttentionSpec
from glassformer.models.big_bird.network import BigBird, BigBirdSpec, build
from glassformer.models.big_bird.recipe import FAMILY, KEYS, NAMES, spec

__all__ = [
    "FAMILY",
    "KEYS",
    "NAMES",
    "BigBird",
    "BigBirdSpec",
    "BlockSparseAttention",
    "BlockSparseAttentionSpec",
    "build",
    "spec",
]
