"""wav2vec 2.0: a speech encoder over waveforms; HuBERT extends its recipe.

waveform.py  the convolutions from samples to frames, and the input embedding of frames
positions.py convolutional position encoding of frames
network.py   which head belongs to a task, initial weights
names.py     weight names
recipe.py    config keys, architectures
"""

from glassformer.models.wav2vec2.names import NAMES
from glassformer.models.wav2vec2.network import SpeechEncoder, SpeechEncoderSpec
from glassformer.models.wav2vec2.positions import ConvolvedPositions, ConvolvedPositionsSpec
from glassformer.models.wav2vec2.recipe import FAMILY, KEYS, spec
from glassformer.models.wav2vec2.waveform import FrameEmbedding, WaveformEncoder

__all__ = [
    "FAMILY",
    "KEYS",
    "NAMES",
    "ConvolvedPositions",
    "ConvolvedPositionsSpec",
    "FrameEmbedding",
    "SpeechEncoder",
    "SpeechEncoderSpec",
    "WaveformEncoder",
    "spec",
]
