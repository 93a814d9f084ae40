"""DAC, the Descript Audio Codec: sound as a few integers a frame, and back.

convolutions.py  Snake activations, residual units, the encoder and decoder of waveforms
quantizer.py     codebooks of factorised, normalised codes
network.py       the codec, at once and in chunks
names.py         weight names, and those of the original files
recipe.py        config keys, architectures
"""

from glassformer.models._codec_losses import CodecLoss, spectral_distance
from glassformer.models._quantizer import Quantized, ResidualQuantizer
from glassformer.models.dac.names import NAMES
from glassformer.models.dac.network import Codec, CodecSpec
from glassformer.models.dac.recipe import FAMILY, KEYS, spec

__all__ = [
    "FAMILY",
    "KEYS",
    "NAMES",
    "Codec",
    "CodecLoss",
    "CodecSpec",
    "Quantized",
    "ResidualQuantizer",
    "spec",
    "spectral_distance",
]
