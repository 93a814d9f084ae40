"""MusicGen's decoder: a language model over the codes of an audio codec.

network.py  sinusoids as there, the decoder
recipe.py   config keys, weight names, architectures
"""

from glassformer.models.musicgen_decoder.network import MusicgenDecoder, MusicgenSpec
from glassformer.models.musicgen_decoder.recipe import FAMILY, KEYS, names, spec

__all__ = ["FAMILY", "KEYS", "MusicgenDecoder", "MusicgenSpec", "names", "spec"]
