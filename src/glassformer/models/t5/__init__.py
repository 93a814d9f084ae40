"""T5: a text-to-text encoder-decoder with relative position biases.

network.py   the encoder-decoder, its encoder alone, initial weights
names.py     weight names
recipe.py    config keys, architectures
"""

from glassformer.models.t5.names import NAMES, names
from glassformer.models.t5.network import T5, T5Encoder
from glassformer.models.t5.recipe import FAMILY, KEYS, spec

__all__ = ["FAMILY", "KEYS", "NAMES", "T5", "T5Encoder", "names", "spec"]
