"""AutoProcessor, AutoImageProcessor, AutoFeatureExtractor: images and sounds to tensors, texts with them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from glassformer.audio import AudioProcessor
from glassformer.audio.features import LogMel, Waveform
from glassformer.errors import ConfigError, DataError
from glassformer.files import as_path, read_json_object
from glassformer.hf.configs import options_of
from glassformer.hf.reference_tokenizer import ReferenceTokenizer, as_reference_tokenizer
from glassformer.hub.push import push_saved
from glassformer.models import find_family, text_part
from glassformer.text.encoding import Encoding
from glassformer.text.tokenizer import Tokenizer
from glassformer.vision import ImageProcessor
from glassformer.vision.settings import PreprocessorSettings

PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
"""Where the settings of a processor are; in the second, which release 5 writes, by its parts."""


def _encoding(tensors: dict[str, Any], kind: Any = None) -> Encoding:
    """Tensors by name, as PyTorch's or as NumPy's; None = a list of each row's array. Raises: ConfigError: another."""
    if kind not in (None, "pt", "np"):
        raise ConfigError(f"return_tensors is {kind!r}; it must be 'pt' for PyTorch tensors, or 'np' for NumPy arrays")
    converted = tensors if kind == "pt" else {name: x.numpy() for name, x in tensors.items()}
    return Encoding({name: x if kind else list(x) for name, x in converted.items()}, [], [])


def _settings(inner: ImageProcessor | AudioProcessor) -> dict[str, Any]:
    """The keys of preprocessor_config.json."""
    with TemporaryDirectory() as folder:
        inner.save(folder)
        return read_json_object(Path(folder) / "preprocessor_config.json", ConfigError)


def _printed(reader: ImageReader | SoundReader, kind: str, names: Iterable[str]) -> str:
    """The class that the settings name, and the settings, those left out with their defaults, as there."""
    settings = {**{name: getattr(reader, name) for name in names}, **_settings(reader.inner)}
    return (
        f"{settings.get(kind, type(reader).__name__)} {json.dumps(settings, indent=2, sort_keys=True, default=str)}\n"
    )


def _setting(inner: ImageProcessor | AudioProcessor, name: str) -> Any:
    """A key of preprocessor_config.json. Raises: AttributeError: it has no such key."""
    settings = _settings(inner)
    if name not in settings:
        raise AttributeError(f"preprocessor_config.json has no {name!r}; it has: {', '.join(sorted(settings))}")
    return settings[name]


STEPS: Mapping[str, Callable[[PreprocessorSettings], Any]] = {
    "image_mean": lambda settings: list(settings.mean or ()),
    "image_std": lambda settings: list(settings.std or ()),
    "do_normalize": lambda settings: settings.mean is not None,
    "do_rescale": lambda settings: settings.scale is not None,
    "rescale_factor": lambda settings: settings.scale,
    "do_resize": lambda settings: settings.size is not None,
    "resample": lambda settings: settings.resample,
}
"""Names of the reference library → the settings, which hold defaults too."""


SOUND_STEPS: Mapping[str, Callable[[LogMel | Waveform], Any]] = {
    "do_normalize": lambda extractor: isinstance(extractor, Waveform) and extractor.normalised,
    "return_attention_mask": lambda extractor: isinstance(extractor, Waveform) and extractor.masked,
    "padding_value": lambda extractor: extractor.padding_value,
    "feature_size": lambda extractor: extractor.bins if isinstance(extractor, LogMel) else 1,
}
"""The same of sounds."""


class ImageReader:
    """An image processor, called as one of the reference library."""

    def __init__(self, inner: ImageProcessor) -> None:
        self.inner = inner

    def preprocess(self, images: Any, return_tensors: Any = None) -> Encoding:
        return self(images, return_tensors)

    def __call__(self, images: Any, return_tensors: Any = None) -> Encoding:
        """Images to `pixel_values` [N, channels, H, W]."""
        return _encoding(self.inner(images), return_tensors)

    @property
    def model_input_names(self) -> list[str]:
        return ["pixel_values"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "inner":
            raise AttributeError(name)
        return STEPS[name](self.inner.settings) if name in STEPS else _setting(self.inner, name)

    def __repr__(self) -> str:
        return _printed(self, "image_processor_type", STEPS)

    def save_pretrained(self, folder: str | Path) -> None:
        as_path(folder, "folder").mkdir(parents=True, exist_ok=True)
        self.inner.save(folder)

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Upload preprocessor_config.json to the Hub. Returns: the address of the commit."""
        return push_saved(self.save_pretrained, name, **options)


def _sounds(given: Any) -> Any:
    """Sounds that are lists of numbers as arrays."""
    if not isinstance(given, (list, tuple)) or not given:
        return given
    numbers = isinstance(given[0], (int, float, np.number))
    return np.asarray(given, dtype=np.float32) if numbers else [_sounds(each) for each in given]


class SoundReader:
    """A feature extractor of sounds, called as one of the reference library."""

    def __init__(self, inner: AudioProcessor) -> None:
        self.inner = inner

    @property
    def sampling_rate(self) -> int:
        return self.inner.sample_rate_hz

    @property
    def model_input_names(self) -> list[str]:
        return ["input_features"] if self._has_windows else ["input_values", "attention_mask"]

    @property
    def _has_windows(self) -> bool:
        """Whether sounds are padded to one length, as Whisper's."""
        return isinstance(self.inner.extractor, LogMel)

    def __call__(
        self,
        raw_speech: Any,
        sampling_rate: int | None = None,
        return_tensors: Any = None,
        padding: Any = None,
        max_length: int | None = None,
        truncation: bool | None = None,
        return_attention_mask: bool | None = None,
    ) -> Encoding:
        """Samples to `input_values` [N, samples] or `input_features` [N, M, frames].

        Args:
            raw_speech: a sound or a list of them, each a file, an array, a tensor or a list of numbers
            sampling_rate: of the samples, which are converted to the model's; None = the model's, with a warning
            return_tensors: "pt", "np"; None = a list with the array of each sound
            padding: to the longest, True; "max_length"; None = none in a list, to the longest in a tensor
            truncation: to `max_length` samples
            return_attention_mask: None = as the folder says
        Raises: ConfigError: a length that is none.
        """
        if max_length is not None and (type(max_length) is not int or max_length < 1):
            raise ConfigError(f"max_length is {max_length!r}; it must be a number of samples from 1 up")
        if truncation and max_length is None and not self._has_windows:
            raise ConfigError("truncation=True needs max_length: how many samples of a sound are read")
        cut, raw_speech = max_length if truncation else None, _sounds(raw_speech)
        first = raw_speech[0] if isinstance(raw_speech, list) and raw_speech else raw_speech
        if sampling_rate is None and isinstance(first, (np.ndarray, Tensor)):
            sampling_rate = self.sampling_rate
            warnings.warn(f"sampling_rate is not given: {sampling_rate:,} Hz is assumed, the model's", stacklevel=2)
        if self._has_windows:
            return _encoding(self.inner(raw_speech, sampling_rate, cut), return_tensors)
        length = max_length or 0 if padding == "max_length" else 0
        masked = self.return_attention_mask if return_attention_mask is None else return_attention_mask
        batches = [raw_speech]
        if return_tensors is None and padding in (None, False, "do_not_pad") and isinstance(raw_speech, list):
            batches = raw_speech or batches  # each by itself, without padding
        read = [
            _encoding(self._waveforms(batch, sampling_rate, cut, length, masked), return_tensors) for batch in batches
        ]
        if len(read) == 1:
            return read[0]
        return Encoding({name: [row for part in read for row in part[name]] for name in read[0]}, [], [])

    def _waveforms(
        self, sounds: Any, rate: int | None, cut: int | None, length: int, masked: bool
    ) -> dict[str, Tensor]:
        """Waveforms, padded to at least a length.

        Where the folder gives no mask, a recording and its padding have mean 0 and variance 1 together, as there.
        """
        extractor = self.inner.extractor
        assert isinstance(extractor, Waveform)  # sounds with windows are log-mel spectrograms
        if extractor.channels > 1:
            x = self.inner(sounds, rate, cut)["input_values"]
            return {"input_values": pad(x, (0, max(length - x.shape[-1], 0)))}
        plain = AudioProcessor(replace(extractor, normalised=False, masked=True), {})(sounds, rate, cut)
        x, keep = (pad(plain[name], (0, max(length - plain[name].shape[1], 0))) for name in plain)
        x = x.masked_fill(keep == 0, extractor.padding_value)
        if extractor.normalised and masked:
            lengths, read = keep.sum(1, keepdim=True), x * keep
            x = read - read.sum(1, keepdim=True) / lengths * keep
            x = x / (x.square().sum(1, keepdim=True) / lengths + 1e-7).sqrt()
            x = x.masked_fill(keep == 0, extractor.padding_value)
        elif extractor.normalised:
            x = (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, correction=0) + 1e-7).sqrt()
        return {"input_values": x, "attention_mask": keep} if masked else {"input_values": x}

    def pad(
        self,
        processed_features: Any,
        padding: Any = True,
        max_length: int | None = None,
        return_tensors: Any = None,
        **_: Any,
    ) -> Encoding:
        """Sounds that were read before, as one batch: waveforms padded to the longest, or to `max_length`."""
        rows = processed_features
        if isinstance(rows, Mapping):
            rows = [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
        name = self.model_input_names[0]
        if not isinstance(rows, (list, tuple)) or not rows or any(name not in row for row in rows):
            raise DataError(f"sounds to pad have {name!r}, each of them; got {type(processed_features).__name__}")
        sounds = [torch.as_tensor(row[name]) for row in rows]
        if self._has_windows:
            return _encoding({name: torch.stack(sounds)}, return_tensors)
        length = max([*map(len, sounds), max_length or 0 if padding == "max_length" else 0])
        fill = self.inner.extractor.padding_value
        tensors = {name: torch.stack([pad(x, (0, length - len(x)), value=fill) for x in sounds])}
        if self.return_attention_mask:
            tensors["attention_mask"] = torch.stack([(torch.arange(length) < len(x)).int() for x in sounds])
        return _encoding(tensors, return_tensors)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "inner":
            raise AttributeError(name)
        return SOUND_STEPS[name](self.inner.extractor) if name in SOUND_STEPS else _setting(self.inner, name)

    def __repr__(self) -> str:
        return _printed(self, "feature_extractor_type", (*SOUND_STEPS, "sampling_rate"))

    def save_pretrained(self, folder: str | Path) -> None:
        as_path(folder, "folder").mkdir(parents=True, exist_ok=True)
        self.inner.save(folder)

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Upload preprocessor_config.json to the Hub. Returns: the address of the commit."""
        return push_saved(self.save_pretrained, name, **options)


class Processor:
    """A tokenizer with an image processor or a feature extractor.

    tokenizer, image_processor, feature_extractor: None where the folder has none
    """

    def __init__(
        self, tokenizer: Tokenizer | ReferenceTokenizer | None, senses: ImageReader | SoundReader | None
    ) -> None:
        self.tokenizer = None if tokenizer is None else as_reference_tokenizer(tokenizer)
        self.image_processor = senses if isinstance(senses, ImageReader) else None
        self.feature_extractor = senses if isinstance(senses, SoundReader) else self.image_processor

    def __call__(
        self,
        first: Any = None,
        *,
        text: Any = None,
        images: Any = None,
        audio: Any = None,
        return_tensors: Any = None,
        **options: Any,
    ) -> Encoding:
        """Texts, images or sounds to the inputs of the model; what comes first without a name is a text or a sound."""
        if first is not None and self.image_processor is None:
            audio = first
        elif first is not None:
            text = first
        inputs: dict[str, Any] = {}
        if text is not None:
            ids = dict(self._tokenizer(text, return_tensors=return_tensors, padding=options.get("padding", False)))
            inputs |= ids
        if images is not None and self.image_processor is not None:
            inputs |= dict(self.image_processor(images, return_tensors))
        if audio is not None and isinstance(self.feature_extractor, SoundReader):
            inputs = dict(self.feature_extractor(audio, options.get("sampling_rate"), return_tensors))
            inputs |= {} if text is None else {"labels": ids["input_ids"]}
        if not inputs:
            raise DataError("a processor needs text=, images= or audio= that its folder can read; got none")
        return Encoding(inputs, [], [])

    def pad(self, input_features: Any = None, *, labels: Any = None, **options: Any) -> Encoding:
        """Sounds that were read before, and rows of ids, as one batch each; of both, the ids are its labels."""
        if not isinstance(self.feature_extractor, SoundReader):
            return self._tokenizer.pad(labels if input_features is None else input_features, **options)
        rows = None if labels is None else self._tokenizer.pad(labels, **options)
        if input_features is None and rows is not None:
            return rows
        batch = self.feature_extractor.pad(input_features, **options)
        if rows is not None:
            batch["labels"] = rows["input_ids"]
        return batch

    @property
    def _tokenizer(self) -> ReferenceTokenizer:
        if self.tokenizer is None:
            raise DataError(
                "this processor has no tokenizer: its folder holds no tokenizer.json and no vocabulary files"
            )
        return self.tokenizer

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the files of the tokenizer and of what reads images or sounds."""
        for part in (self.tokenizer, self.feature_extractor):
            if part is not None:
                part.save_pretrained(folder)

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Upload these files to the Hub. Returns: the address of the commit."""
        return push_saved(self.save_pretrained, name, **options)

    @property
    def model_input_names(self) -> list[str]:
        """The inputs that it makes."""
        parts = (self.tokenizer, self.feature_extractor)
        return [name for part in parts if part is not None for name in part.model_input_names]

    def decode(self, *args: Any, **options: Any) -> Any:
        return self._tokenizer.decode(*args, **options)

    def batch_decode(self, *args: Any, **options: Any) -> Any:
        return self._tokenizer.batch_decode(*args, **options)


def _senses(folder: Path) -> ImageReader | SoundReader | None:
    """What reads the pictures or sounds of the folder's family; None where it reads text alone.

    A folder without a model, as `save_pretrained` of a processor makes it, holds what its own file says.
    """
    if (folder / "config.json").is_file():
        modality = find_family(text_part(read_json_object(folder / "config.json", ConfigError)), folder).modality
    else:
        file = next((name for name in PROCESSOR_FILES if (folder / name).is_file()), PROCESSOR_FILES[0])
        settings = read_json_object(folder / file, ConfigError)
        modality = "picture" if {"image_processor_type", "image_processor"} & settings.keys() else "sound"
    if modality == "picture" and (images := ImageProcessor.find(folder)) is not None:
        return ImageReader(images)
    if modality == "sound" and (sounds := AudioProcessor.find(folder)) is not None:
        return SoundReader(sounds.unnested())
    return None


def _folder(name_or_folder: str | Path, keywords: dict[str, Any]) -> Path:
    keywords.pop("use_fast", None)
    revision = keywords.pop("revision", None)
    if isinstance(name_or_folder, (str, Path)):
        folder = Path(name_or_folder)
        if any((folder / name).is_file() for name in PROCESSOR_FILES):
            return folder
    return options_of(keywords).find_folder(name_or_folder, revision, allow_pickle=False)


class AutoProcessor:
    """The processor of a model: what turns pictures, sounds and texts into its inputs."""

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, **keywords: Any) -> Any:
        """Read a processor. Returns: a `Processor`, or the tokenizer of a model that reads text alone."""
        folder = _folder(name_or_folder, keywords)
        tokenizer, senses = Tokenizer.find(folder), _senses(folder)
        if senses is None and tokenizer is not None:
            return as_reference_tokenizer(tokenizer)
        return Processor(tokenizer, senses)


class AutoFeatureExtractor:
    """The feature extractor of a model of sounds, or the image processor of one of pictures."""

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, **keywords: Any) -> Any:
        """Read it. Raises: DataError: the folder has none."""
        folder = _folder(name_or_folder, keywords)
        if (senses := _senses(folder)) is None:
            raise DataError(
                f"{folder}: holds no preprocessor_config.json; a model of text has a tokenizer: AutoTokenizer"
            )
        return senses


class AutoImageProcessor(AutoFeatureExtractor):
    """The image processor of a model."""
