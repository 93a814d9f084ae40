"""Settings of an image preprocessor, from preprocessor_config.json: every key is read, ignored by name, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.files.schema import Allowed, at_least, check

FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""Resampling filters by their number in `resample`, which is Pillow's."""

MAX_EDGE = 8192
"""In pixels; no published model reads larger images."""

MAX_COLOURS = 65_536  # of a palette; Image GPT's has 512

Edge = Annotated[int, at_least(1, MAX_EDGE, f"whole numbers from 1 to {MAX_EDGE:,}")]
Number = Annotated[float, Allowed("a number", lambda x: abs(x) < 1e30)]
Flag = Annotated[bool, Allowed("true or false")]
FilterNumber = Annotated[int, at_least(0, len(FILTERS) - 1, f"a number from 0 to 5 ({', '.join(FILTERS)})")]

HALF = (0.5, 0.5, 0.5)
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "vit": {"size": 224, "resample": 2, "image_mean": HALF, "image_std": HALF},
    "clip": {
        "size": 224,
        "resample": 3,
        "do_center_crop": True,
        "crop_size": 224,
        "image_mean": (0.48145466, 0.4578275, 0.40821073),
        "image_std": (0.26862954, 0.26130258, 0.27577711),
    },
    "imagegpt": {"size": 256, "resample": 2, "image_mean": HALF, "image_std": HALF},
}
"""Default settings of each kind of processor."""

CLASS_PREFIXES = {"ViT": "vit", "CLIP": "clip", "ImageGPT": "imagegpt"}
IGNORED_KEYS = frozenset(
    """image_processor_type feature_extractor_type processor_class auto_map model_input_names
    _valid_processor_keys do_convert_rgb default_to_square return_tensors data_format input_data_format
    disable_grouping device image_seq_length transformers_version""".split()
)
"""Keys that change no pixel: images are always RGB here, channels first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreprocessorSettings:
    """The preprocessing steps of an image, in this order; None leaves a step out.

    size: (height, width), or the length of the shorter edge
    resample: the filter
    crop: center crop (height, width)
    scale: the factor of each byte
    mean, std: of each channel, for normalisation
    colours: [clusters, 3], colour clusters, of which each pixel becomes the index of the nearest
    """

    size: tuple[int, int] | int | None
    resample: int
    crop: tuple[int, int] | None
    scale: float | None
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    colours: np.ndarray | None


def read_settings(config: Mapping[str, Any], model_type: str = "") -> PreprocessorSettings:
    """Read the settings of a preprocessor_config.json, of any version since 2021.

    Args:
        model_type: of the model it belongs to, for files that do not name a processor class.
    Raises: ConfigError: a value of the wrong kind. UnsupportedError: a kind or a key that is not supported.
    """
    kind = _kind(config, model_type)
    values = {key: value for key, value in config.items() if value is not None}
    unused = dict(values)

    def get(key: str, default: Any) -> Any:
        unused.pop(key, None)
        return values.get(key, DEFAULTS[kind].get(key, default))

    def flag(key: str, default: bool) -> bool:
        value = get(key, default)
        check(Flag, value, f"{_PREFIX}{key}")
        return bool(value)

    resample = get("resample", None)
    check(FilterNumber, resample, f"{_PREFIX}resample")
    size = _size("size", get("size", None), square=kind != "clip")
    crop, cropped = get("crop_size", None), flag("do_center_crop", False)
    factor, rescaled = _number("rescale_factor", get("rescale_factor", 1 / 255)), flag("do_rescale", True)
    mean, std = (_channels(key, get(key, None)) for key in ("image_mean", "image_std"))
    if 0 in std:
        raise _value_error("image_std", list(std), "numbers other than 0")
    normalised = flag("do_normalize", True)
    clusters = quantised = None
    if kind == "imagegpt":
        clusters, quantised = get("clusters", None), flag("do_color_quantize", True)
    settings = PreprocessorSettings(
        size=size if flag("do_resize", True) else None,
        resample=resample,
        crop=_crop(crop) if cropped else None,
        scale=factor if rescaled else None,
        mean=mean if normalised else None,
        std=std if normalised else None,
        colours=_colours(clusters) if quantised else None,
    )
    for key, value in unused.items():
        if key not in IGNORED_KEYS and value not in (False, [], {}):
            raise UnsupportedError(
                f"{_PREFIX}{safe_repr(key)[1:-1]} = {safe_repr(value)} is not supported for images of kind {kind!r}; "
                f"remove the key if it changes no pixel{nearest(key, (*DEFAULTS['clip'], 'do_resize', 'do_rescale'))}"
            )
    return settings


_PREFIX = "preprocessor_config.json: "


def _kind(config: Mapping[str, Any], model_type: str) -> str:
    """The kind of processor, by its class name in any release, else by the model type."""
    class_name = config.get("image_processor_type") or config.get("feature_extractor_type")
    if class_name is None and model_type in DEFAULTS:
        return model_type
    for name, kind in CLASS_PREFIXES.items():
        if isinstance(class_name, str) and class_name in {
            f"{name}{end}" for end in ("ImageProcessor", "ImageProcessorFast", "FeatureExtractor")
        }:
            return kind
    supported = ", ".join(f"{name}ImageProcessor" for name in CLASS_PREFIXES)
    raise UnsupportedError(
        f"{_PREFIX}image_processor_type is {safe_repr(class_name)}; supported: {supported}, or the older names of these"
    )


def _size(key: str, value: Any, *, square: bool) -> tuple[int, int] | int:
    """Height and width, or the shorter edge. An integer means a square, but for CLIP the shorter edge."""
    if isinstance(value, Mapping):
        if set(value) == {"shortest_edge"}:
            return _edge(key, value["shortest_edge"])
        if set(value) == {"height", "width"}:
            return _edge(key, value["height"]), _edge(key, value["width"])
    elif isinstance(value, (list, tuple)) and len(value) == 2:
        return _edge(key, value[0]), _edge(key, value[1])
    elif isinstance(value, int):
        edge = _edge(key, value)
        return (edge, edge) if square else edge
    raise _value_error(key, value, "an integer, {'height': …, 'width': …} or {'shortest_edge': …}")


def _crop(value: Any) -> tuple[int, int]:
    if value is None:
        raise ConfigError(f"{_PREFIX}do_center_crop is true, and there is no crop_size; add one")
    size = _size("crop_size", value, square=True)
    if isinstance(size, int):
        raise _value_error("crop_size", value, "an integer or {'height': …, 'width': …}")
    return size


def _edge(key: str, value: Any) -> int:
    check(Edge, value, f"{_PREFIX}{key}")
    return int(value)


def _number(key: str, value: Any) -> float:
    check(Number, value, f"{_PREFIX}{key}")
    return float(value)


def _channels(key: str, value: Any) -> tuple[float, ...]:
    """A number per channel (R, G, B); one number stands for all three."""
    numbers = value if isinstance(value, (list, tuple)) else [value] * 3
    if len(numbers) != 3:
        raise _value_error(key, value, "three numbers, for red, green and blue")
    return tuple(_number(key, number) for number in numbers)


def _colours(value: Any) -> np.ndarray:
    if value is None:
        raise ConfigError(f"{_PREFIX}has no clusters, the colours to which pixels are quantised")
    rows = value if isinstance(value, (list, tuple)) else []
    if not 1 <= len(rows) <= MAX_COLOURS or not all(isinstance(row, (list, tuple)) and len(row) == 3 for row in rows):
        raise _value_error("clusters", value, f"1 to {MAX_COLOURS} colours of three numbers")
    return np.array([[_number("clusters", number) for number in row] for row in rows])


def _value_error(key: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(f"{_PREFIX}{key} is {safe_repr(value)}; it must be {allowed}")
