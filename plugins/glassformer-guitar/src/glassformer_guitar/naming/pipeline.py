"""Pipeline that names the pedals of a sound: of any format, sample rate and length.

pipeline("pedals", model)("riff.wav")     [{"label": "overdrive", "score": 0.98}, {"label": "delay", "score": 0.91}]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from glassformer.errors import DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.model import Model
from glassformer.tasks.media import SoundInputs, sound_samples
from glassformer.tasks.results import Label, Results
from glassformer_guitar.naming.chains import chain_text, write_chains, writes_pedals
from glassformer_guitar.naming.windows import QUIETEST, Windows

SHORTEST_SECONDS = 0.1
"""A note of less has no decay to recognise an effect by."""


class PedalNames(SoundInputs):
    """The pedals that a sound went through, in their order, each with its probability; none: an empty list.

    A longer sound is read in windows, whose log-probabilities are averaged; silent windows are left out.
    """

    HEAD = "automatic-speech-recognition"
    WHY = "it does not name pedals; an encoder-decoder over spectrograms does, trained by examples/guitar-pedals.yaml"
    EMPTY = "no pedals"

    def __init__(self, model: Model, task: str, **options: Any) -> None:
        if not writes_pedals(model):
            raise UnsupportedError(f"this {model.family.model_type!r} model cannot do {task!r}: {self.WHY}")
        super().__init__(model, task, **options)
        self.windows = Windows(model)

    def in_words(self, answer: Any) -> str:
        return chain_text([pedal.label for pedal in answer]) if answer else self.EMPTY

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        processor: Any = self.model.processor
        rate = processor.sample_rate_hz
        features = []
        for given in batch:
            wave = processor.read(*sound_samples(given, rate))
            if len(wave) < SHORTEST_SECONDS * rate:
                raise DataError(
                    f"{safe_repr(given)} has {len(wave)} samples at {rate:,} Hz; pedals need "
                    f"{SHORTEST_SECONDS} s and more: {int(SHORTEST_SECONDS * rate):,} samples"
                )
            if float(wave.abs().max()) < QUIETEST:
                raise DataError(f"{safe_repr(given)} is silent: its peak is below -80 dB; there is no pedal to hear")
            features.append(self.windows.all_features(wave))
        chains = write_chains(self.model, torch.cat(features), [len(own) for own in features])
        return [Results(Label(*pedal) for pedal in chain) for chain in chains]
