"""BART: a denoising encoder-decoder; mBART, Marian, PEGASUS and Whisper extend its keys and names.

network.py   the decoder that reads the source again, and the classifier of its end token: T5's too; the decoder alone
names.py     weight names
recipe.py    config keys, architectures
"""

from glassformer.models.bart.names import NAMES
from glassformer.models.bart.network import Bart, BartDecoder, EndTokenClassifier
from glassformer.models.bart.recipe import FAMILY, KEYS, spec

__all__ = ["FAMILY", "KEYS", "NAMES", "Bart", "BartDecoder", "EndTokenClassifier", "spec"]
