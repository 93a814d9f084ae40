"""Whisper: an encoder-decoder for speech recognition over log-mel spectrograms.

stem.py      the convolutions from spectrograms to frames, the spec, initial weights
network.py   the encoder-decoder, and its encoder alone with a classifier
recipe.py    config keys, weight names, architectures
"""

from glassformer.models.whisper.network import Whisper, WhisperClassifier
from glassformer.models.whisper.recipe import FAMILY, KEYS, NAMES, spec
from glassformer.models.whisper.stem import SpectrogramStem, WhisperSpec

__all__ = ["FAMILY", "KEYS", "NAMES", "SpectrogramStem", "Whisper", "WhisperClassifier", "WhisperSpec", "spec"]
