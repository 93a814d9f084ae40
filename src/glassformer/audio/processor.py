"""SoundProcessor: from sounds to what a network reads, as the folder of its model says."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.audio.log_mel import LogMel
from glassformer.audio.read import RATES_HZ, Sound, read_sound
from glassformer.audio.wave import Wave
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import reason, shown
from glassformer.files.strict_json import read_object
from glassformer.weights.write import atomic_file

FILE, NESTED_FILE = "preprocessor_config.json", "processor_config.json"
NESTED = "feature_extractor"

HARMLESS = frozenset(
    """feature_extractor_type processor_class tokenizer_class _processor_class auto_map name_or_path
    mel_filters n_samples nb_max_frames""".split()
)
"""Keys that say what something is called, or what follows from the others."""


class SoundProcessor:
    """Turns sounds into the tensors that a model takes.

        processor("speech.flac")                             {"input_features": [1, 80, 3000]}
        processor([samples, other], sample_rate_hz=44_100)   {"input_values": [2, samples], "attention_mask": …}
        model(**processor("speech.flac"), …)

    A log-mel spectrogram has a window of one length: of a longer sound, the call reads the first window and warns;
    `windows` gives all of it. A processor never changes, so threads may share one.

    Raises: DataError: a sound that cannot be read (see `read_sound`), or none at all.
    """

    def __init__(self, front: LogMel | Wave, document: Mapping[str, Any], file: str = FILE) -> None:
        """`from_config` and `find` are the usual ways in.

        Args:
            front: what computes the tensors.
            document, file: the JSON object that it was made from, and the file that holds it.
        """
        self.front = front
        self._document = dict(document)
        self._file = file

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> SoundProcessor:
        """The processor that a `preprocessor_config.json`, or the one nested in a `processor_config.json`, describes.

        Raises: ConfigError: a value of the wrong kind. UnsupportedError: another kind of processor, or a feature.
        """
        nested = config.get(NESTED)
        file = FILE if nested is None else NESTED_FILE
        described = config if nested is None else nested
        if not isinstance(described, Mapping):
            raise ConfigError(f"{file}: {NESTED} is {shown(described)}; it must be an object")
        return cls(_front(described, file), config, file)

    @classmethod
    def find(cls, folder: Path | str) -> SoundProcessor | None:
        """The processor of a model folder; None where the folder has none."""
        folder = Path(folder)
        nested = folder / NESTED_FILE
        if nested.is_file() and (config := read_object(nested, ConfigError)).get(NESTED) is not None:
            return cls.from_config(config)
        path = folder / FILE
        return cls.from_config(read_object(path, ConfigError)) if path.is_file() else None

    def save(self, folder: Path | str) -> None:
        """Write the file that the processor was made from.

        Raises: DataError: the folder cannot be written.
        """
        folder = Path(folder)
        text = json.dumps(self._document, indent=2, ensure_ascii=False) + "\n"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_file(folder / self._file) as stream:
                stream.write(text.encode())
        except OSError as problem:
            raise DataError(f"{folder / self._file} cannot be written: {reason(problem)}") from problem

    @property
    def sample_rate_hz(self) -> int:
        """The rate that the model was trained with; sounds of another are resampled."""
        return self.front.sample_rate_hz

    def __call__(
        self, sounds: Sound | Iterable[Sound], sample_rate_hz: int | None = None
    ) -> dict[str, Tensor]:
        """Read one sound or several.

        Args:
            sounds: a file, samples [samples], or several of these.
            sample_rate_hz: the rate of samples; files know their own.
        Returns: `input_features` [N, M, frames], or `input_values` [N, samples] with its `attention_mask`.
        """
        read = [self.read(sound, sample_rate_hz) for sound in _each(sounds)]
        if isinstance(self.front, LogMel):
            read = [self._first_window(samples, number) for number, samples in enumerate(read)]
        return self.front(read)

    def windows(self, sound: Sound, sample_rate_hz: int | None = None) -> dict[str, Tensor]:
        """All of one sound, however long: a row for each window, one after another, the last one padded.

        A wave has no window: it is one row.
        """
        samples = self.read(sound, sample_rate_hz)
        return self.front(samples.split(self.front.samples) if isinstance(self.front, LogMel) else [samples])

    def read(self, sound: Sound, sample_rate_hz: int | None = None) -> Tensor:
        """One sound as mono float32 [samples] at the model's rate."""
        return torch.from_numpy(read_sound(sound, self.sample_rate_hz, sample_rate_hz))

    def _first_window(self, samples: Tensor, number: int) -> Tensor:
        assert isinstance(self.front, LogMel)
        if len(samples) > self.front.samples:
            seconds = len(samples) / self.sample_rate_hz
            warnings.warn(
                f"sound {number} lasts {seconds:.1f} s, of which the first {self.front.seconds} s are read; "
                "processor.windows(sound) gives all of it",
                stacklevel=3,
            )
        return samples[: self.front.samples]

    def __repr__(self) -> str:
        return f"SoundProcessor({self.front})"


def _each(sounds: Any) -> list[Sound]:
    """One sound or several, as a list; whether each is a sound, `read_sound` says."""
    if isinstance(sounds, (str, Path, np.ndarray, Tensor)):
        return [sounds]
    if isinstance(sounds, (bytes, Mapping)) or not isinstance(sounds, Iterable):
        raise DataError(f"sounds is {shown(sounds)}; give a file, samples, or a list of these")
    found = list(sounds)
    if not found:
        raise DataError("there is no sound in the list; give at least one")
    return found


# ------------------------------------------------------------------------------------------------------------ config


def _front(config: Mapping[str, Any], file: str) -> LogMel | Wave:
    """What computes the tensors, of the kind that the config names or, in old files, has the keys of."""
    kind = config.get("feature_extractor_type")
    if kind is None:
        kind = "WhisperFeatureExtractor" if "n_fft" in config else None
        kind = "Wav2Vec2FeatureExtractor" if config.get("feature_size") == 1 else kind
    if not isinstance(kind, str) or kind not in FRONTS:
        raise UnsupportedError(
            f"{file}: feature_extractor_type = {shown(kind)} is not supported; supported: {', '.join(FRONTS)}"
        )
    keys = _Keys(config, file)
    keys.fixed("padding_side", "right")
    front = FRONTS[kind](keys)
    keys.warn_of_others()
    return front


def _log_mel(keys: _Keys) -> LogMel:
    keys.fixed("dither", 0.0)
    keys.fixed("do_normalize", False)
    keys.get("return_attention_mask", False)  # the network reads silence like sound
    front = LogMel(
        bins=keys.whole("feature_size", 80, 1024),
        sample_rate_hz=keys.whole("sampling_rate", 16_000, RATES_HZ[1], least=RATES_HZ[0]),
        window_samples=keys.whole("n_fft", 400, 1 << 16),
        hop_samples=keys.whole("hop_length", 160, 1 << 16),
        seconds=keys.whole("chunk_length", 30, 3600),
        padding_value=keys.number("padding_value", 0.0),
    )
    if front.window_samples >= 2 * front.samples or front.hop_samples > front.samples:
        raise ConfigError(
            f"{keys.file}: n_fft {front.window_samples} and hop_length {front.hop_samples} are longer than the "
            f"{front.samples} samples of chunk_length {front.seconds} s at {front.sample_rate_hz} Hz; make them shorter"
        )
    return front


def _wave(keys: _Keys) -> Wave:
    keys.fixed("feature_size", 1)
    return Wave(
        sample_rate_hz=keys.whole("sampling_rate", 16_000, RATES_HZ[1], least=RATES_HZ[0]),
        normalised=keys.flag("do_normalize", True),
        masked=keys.flag("return_attention_mask", False),
        padding_value=keys.number("padding_value", 0.0),
    )


FRONTS: dict[str, Callable[[_Keys], LogMel | Wave]] = {
    "WhisperFeatureExtractor": _log_mel,
    "Wav2Vec2FeatureExtractor": _wave,
}


class _Keys:
    """Reads a config, and remembers which keys were read."""

    def __init__(self, config: Mapping[str, Any], file: str) -> None:
        self.config, self.file = config, file
        self.used: set[str] = set()

    def get(self, key: str, default: Any) -> Any:
        self.used.add(key)
        value = self.config.get(key)
        return default if value is None else value

    def whole(self, key: str, default: int, most: int, least: int = 1) -> int:
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ConfigError(
                f"{self.file}: {key} is {shown(value)}; it must be a whole number from {least} to {most}"
            )
        return value

    def number(self, key: str, default: float) -> float:
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigError(f"{self.file}: {key} is {shown(value)}; it must be a number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.file}: {key} is {shown(value)}; it must be true or false")
        return value

    def fixed(self, key: str, allowed: Any) -> None:
        value = self.get(key, allowed)
        if value != allowed:
            raise UnsupportedError(
                f"{self.file}: {key} = {shown(value)} is not supported; supported: {allowed!r}"
            )

    def warn_of_others(self) -> None:
        """Keys that nobody knows are named, as those of a config.json are."""
        for key in self.config.keys() - self.used - HARMLESS:
            warnings.warn(f"{self.file}: {shown(key)} = {shown(self.config[key])} is not read", stacklevel=5)
