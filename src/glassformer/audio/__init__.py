"""Audio preprocessing: any file or array, resampled, as log-mel spectrograms or waveforms.

Read in this order:

    processor.py   AudioProcessor: call it, `windows`, find, save
    read.py        files and arrays → mono samples at one rate
    features.py    log-mel spectrograms (Whisper), normalised waveforms (wav2vec 2.0)
    code_patterns.py   codes of an audio codec as tokens: flattened, delayed, parallel
"""

from __future__ import annotations

from glassformer.audio.code_patterns import CodePattern
from glassformer.audio.processor import AudioProcessor
from glassformer.audio.read import read_audio

__all__ = ["AudioProcessor", "CodePattern", "read_audio"]
