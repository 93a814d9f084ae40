"""AudioProcessor: audio to input tensors, configured by the files of a model folder."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from glassformer.audio.features import LogMel, Waveform
from glassformer.audio.read import RATES_HZ, AudioInput, read_audio
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import as_path, read_json_object, safe_repr
from glassformer.files.atomic import write_json
from glassformer.files.schema import Allowed, at_least, check

CONFIG_FILE, PROCESSOR_FILE = "preprocessor_config.json", "processor_config.json"
NESTED_KEY = "feature_extractor"

IGNORED_KEYS = frozenset(
    """feature_extractor_type processor_class tokenizer_class _processor_class auto_map name_or_path
    mel_filters n_samples nb_max_frames""".split()
)
"""Keys that are names, or follow from other keys."""


class AudioProcessor:
    """Turns audio into the input tensors of a model.

        processor("speech.flac")                             {"input_features": [1, 80, 3000]}
        processor([samples, other], sample_rate_hz=44_100)   {"input_values": [2, samples], "attention_mask": …}
        model(**processor("speech.flac"), …)

    A log-mel spectrogram has a window of one length: of a longer recording, the call reads the first window and warns;
    `windows` gives all of it. A processor never changes, so threads may share one.

    Raises: DataError: audio that cannot be read (see `read_audio`), or none at all.
    """

    def __init__(self, extractor: LogMel | Waveform, document: Mapping[str, Any], file: str = CONFIG_FILE) -> None:
        """`from_config` and `find` are the usual ways in.

        Args:
            extractor: computes the tensors.
            document, file: the JSON object that configures it, and the file that holds it.
        """
        self.extractor = extractor
        self._document = dict(document)
        self._file = file

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> AudioProcessor:
        """The processor that a `preprocessor_config.json`, or the one nested in a `processor_config.json`, describes.

        Raises: ConfigError: a value of the wrong kind. UnsupportedError: another kind of processor, or a feature.
        """
        nested = config.get(NESTED_KEY)
        file = CONFIG_FILE if nested is None else PROCESSOR_FILE
        settings = config if nested is None else nested
        if not isinstance(settings, Mapping):
            raise ConfigError(f"{file}: {NESTED_KEY} is {safe_repr(settings)}; it must be an object")
        return cls(_build_extractor(settings, file), config, file)

    @classmethod
    def find(cls, folder: Path | str) -> AudioProcessor | None:
        """The processor of a model folder; None where the folder has none."""
        folder = as_path(folder, "folder")
        nested = folder / PROCESSOR_FILE
        if nested.is_file() and (config := read_json_object(nested, ConfigError)).get(NESTED_KEY) is not None:
            return cls.from_config(config)
        path = folder / CONFIG_FILE
        return cls.from_config(read_json_object(path, ConfigError)) if path.is_file() else None

    def unnested(self) -> AudioProcessor:
        """The same processor, with a `preprocessor_config.json` of its own."""
        return AudioProcessor(self.extractor, self._document.get(NESTED_KEY) or self._document, CONFIG_FILE)

    def save(self, folder: Path | str) -> None:
        """Write the configuration file that the processor was read from.

        Raises: DataError: the folder cannot be written.
        """
        write_json(as_path(folder, "folder") / self._file, self._document, DataError)

    @property
    def sample_rate_hz(self) -> int:
        """The sample rate that the model was trained with; other audio is resampled."""
        return self.extractor.sample_rate_hz

    def __call__(
        self,
        sounds: AudioInput | Iterable[AudioInput],
        sample_rate_hz: int | None = None,
        max_samples: int | None = None,
    ) -> dict[str, Tensor]:
        """Read one recording or several.

        Args:
            sounds: a file, samples [samples], or several of these.
            sample_rate_hz: the sample rate of arrays; files state their own.
            max_samples: only the first this many of each, at the model's sample rate.
        Returns: `input_features` [N, M, frames], or `input_values` [N, samples] with its `attention_mask`.
        """
        waves = [self.read(sound, sample_rate_hz)[:max_samples] for sound in _as_list(sounds)]
        if isinstance(self.extractor, LogMel):
            waves = [self._first_window(samples, number) for number, samples in enumerate(waves)]
        return self.extractor(waves)

    def windows(self, sound: AudioInput, sample_rate_hz: int | None = None) -> dict[str, Tensor]:
        """All of one recording, however long: a row per window, in order, the last one padded.

        A waveform has no windows: it is one row.
        """
        samples = self.read(sound, sample_rate_hz)
        return self.extractor(
            samples.split(self.extractor.samples) if isinstance(self.extractor, LogMel) else [samples]
        )

    def read(self, sound: AudioInput, sample_rate_hz: int | None = None) -> Tensor:
        """One recording as float32 at the model's sample rate: mono [samples], of a model of stereo [samples, 2]."""
        channels = self.extractor.channels if isinstance(self.extractor, Waveform) else 1
        return torch.from_numpy(read_audio(sound, self.sample_rate_hz, sample_rate_hz, channels))

    def _first_window(self, samples: Tensor, number: int) -> Tensor:
        assert isinstance(self.extractor, LogMel)
        if len(samples) > self.extractor.samples:
            seconds = len(samples) / self.sample_rate_hz
            warnings.warn(
                f"audio {number} is {seconds:.1f} s long, of which the first {self.extractor.seconds} s are read; "
                "processor.windows(sound) gives all of it",
                stacklevel=3,
            )
        return samples[: self.extractor.samples]

    def __repr__(self) -> str:
        return f"AudioProcessor({self.extractor})"


def _as_list(sounds: Any) -> list[AudioInput]:
    """One recording or several, as a list; `read_audio` checks each."""
    if isinstance(sounds, (str, Path, np.ndarray, Tensor)):
        return [sounds]
    if isinstance(sounds, (bytes, Mapping)) or not isinstance(sounds, Iterable):
        raise DataError(f"sounds is {safe_repr(sounds)}; give a file, samples, or a list of these")
    recordings = list(sounds)
    if not recordings:
        raise DataError("the list of audio is empty; give at least one recording")
    return recordings


# ------------------------------------------------------------------------------------------------------------ config


def _build_extractor(config: Mapping[str, Any], file: str) -> LogMel | Waveform:
    """The feature extractor of the kind that the config names, or of whose kind its keys are (in old files)."""
    kind = config.get("feature_extractor_type")
    if kind is None:
        kind = "WhisperFeatureExtractor" if "n_fft" in config else None
        kind = "Wav2Vec2FeatureExtractor" if config.get("feature_size") == 1 else kind
    if not isinstance(kind, str) or kind not in EXTRACTORS:
        raise UnsupportedError(
            f"{file}: feature_extractor_type = {safe_repr(kind)} is not supported; supported: {', '.join(EXTRACTORS)}"
        )
    keys = _ConfigKeys(config, file)
    keys.fixed("padding_side", "right")
    extractor = EXTRACTORS[kind](keys)
    keys.warn_about_unknown()
    return extractor


def _log_mel(keys: _ConfigKeys) -> LogMel:
    keys.fixed("dither", 0.0)
    keys.fixed("do_normalize", False)
    keys.get("return_attention_mask", False)  # ignored: the network reads padding as silence
    extractor = LogMel(
        bins=keys.integer("feature_size", 80, 1024),
        sample_rate_hz=keys.integer("sampling_rate", 16_000, RATES_HZ[1], minimum=RATES_HZ[0]),
        window_samples=keys.integer("n_fft", 400, 1 << 16),
        hop_samples=keys.integer("hop_length", 160, 1 << 16),
        seconds=keys.integer("chunk_length", 30, 3600),
        padding_value=keys.number("padding_value", 0.0),
    )
    if extractor.window_samples >= 2 * extractor.samples or extractor.hop_samples > extractor.samples:
        raise ConfigError(
            f"{keys.file}: n_fft {extractor.window_samples} and hop_length {extractor.hop_samples} exceed the "
            f"{extractor.samples} samples of chunk_length {extractor.seconds} s at {extractor.sample_rate_hz} Hz; make "
            "them shorter"
        )
    return extractor


def _waveform(keys: _ConfigKeys) -> Waveform:
    keys.fixed("feature_size", 1)
    return Waveform(
        sample_rate_hz=keys.integer("sampling_rate", 16_000, RATES_HZ[1], minimum=RATES_HZ[0]),
        normalised=keys.flag("do_normalize", True),
        masked=keys.flag("return_attention_mask", False),
        padding_value=keys.number("padding_value", 0.0),
    )


def _codec(keys: _ConfigKeys) -> Waveform:
    keys.fixed("feature_size", 1)
    return Waveform(
        sample_rate_hz=keys.integer("sampling_rate", 16_000, RATES_HZ[1], minimum=RATES_HZ[0]),
        normalised=False,
        masked=keys.flag("return_attention_mask", False),
        padding_value=keys.number("padding_value", 0.0),
        multiple=keys.integer("hop_length", 512, 1 << 16),
    )


def _chunked_codec(keys: _ConfigKeys) -> Waveform:
    """Sounds for EnCodec, whose hop no file states: it pads the last frame itself."""
    rate = keys.integer("sampling_rate", 24_000, RATES_HZ[1], minimum=RATES_HZ[0])
    seconds, overlap = keys.number("chunk_length_s", 0.0), keys.number("overlap", 0.0)
    if not (0.0 <= seconds <= 3600.0 and 0.0 <= overlap < 1.0):
        raise ConfigError(
            f"{keys.file}: chunk_length_s is {seconds} and overlap {overlap}; a chunk has up to 3600 seconds, and a "
            "share from 0 to below 1 of it overlaps with the next"
        )
    keys.get("return_attention_mask", True)  # ignored: padding is silence
    length = int(seconds * rate)
    return Waveform(
        sample_rate_hz=rate,
        normalised=False,
        padding_value=keys.number("padding_value", 0.0),
        channels=keys.integer("feature_size", 1, 2),
        chunk=(length, max(1, int((1.0 - overlap) * length))) if length else None,
    )


EXTRACTORS: dict[str, Callable[[_ConfigKeys], LogMel | Waveform]] = {
    "DacFeatureExtractor": _codec,
    "EncodecFeatureExtractor": _chunked_codec,
    "WhisperFeatureExtractor": _log_mel,
    "Wav2Vec2FeatureExtractor": _waveform,
}


class _ConfigKeys:
    """Typed reading of a config, which remembers the keys that were read."""

    def __init__(self, config: Mapping[str, Any], file: str) -> None:
        self.config, self.file = config, file
        self.used: set[str] = set()

    def get(self, key: str, default: Any) -> Any:
        self.used.add(key)
        value = self.config.get(key)
        return default if value is None else value

    def integer(self, key: str, default: int, maximum: int, minimum: int = 1) -> int:
        value = self.get(key, default)
        check(Annotated[int, at_least(minimum, maximum)], value, f"{self.file}: {key}")
        return int(value)

    def number(self, key: str, default: float) -> float:
        value = self.get(key, default)
        check(float, value, f"{self.file}: {key}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key, default)
        check(Annotated[bool, Allowed("true or false")], value, f"{self.file}: {key}")
        return bool(value)

    def fixed(self, key: str, allowed: Any) -> None:
        value = self.get(key, allowed)
        if value != allowed:
            raise UnsupportedError(f"{self.file}: {key} = {safe_repr(value)} is not supported; supported: {allowed!r}")

    def warn_about_unknown(self) -> None:
        for key in self.config.keys() - self.used - IGNORED_KEYS:
            warnings.warn(f"{self.file}: {safe_repr(key)} = {safe_repr(self.config[key])} is not read", stacklevel=5)
