"""Sound to what a network reads: any file or array, resampled, as log-mel spectrograms or as waves.

Read in this order:

    processor.py   SoundProcessor, the face: call it, `windows`, find, save
    read.py        files and arrays → mono samples at one rate
    log_mel.py     loudness by moment and band of pitch
    wave.py        the samples themselves, made equally loud
"""

from __future__ import annotations

from glassformer.audio.processor import SoundProcessor
from glassformer.audio.read import read_sound

__all__ = ["SoundProcessor", "read_sound"]
