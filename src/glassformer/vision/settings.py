"""preprocessor_config.json → checked settings: every key is read, known to be harmless, or refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, UnsupportedError, nearest

FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""`resample`: a number in the file, Pillow's own."""

MOST_EDGE = 8192
"""No published model reads larger pictures."""

MOST_COLOURS = 65_536

HALF = (0.5, 0.5, 0.5)
KINDS: Mapping[str, Mapping[str, Any]] = {
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
"""What a processor does where its file is silent."""

NAMES = {"ViT": "vit", "CLIP": "clip", "ImageGPT": "imagegpt"}
HARMLESS = frozenset(
    """image_processor_type feature_extractor_type processor_class auto_map model_input_names
    _valid_processor_keys do_convert_rgb default_to_square return_tensors data_format input_data_format
    disable_grouping device image_seq_length transformers_version""".split()
)
"""Keys that change no number: pictures are RGB here whatever the file says, and channels come first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What is done to a picture, in this order; what is None is left out.

    size: (height, width), or the length of the shorter edge · resample: the filter · crop: (height, width), from the
    centre · scale: what a byte is multiplied by · mean, std: of each channel, subtracted and divided by
    colours: [colours, 3], of which each pixel becomes the number of the nearest
    """

    size: tuple[int, int] | int | None
    resample: int
    crop: tuple[int, int] | None
    scale: float | None
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    colours: np.ndarray | None


def read_settings(config: Mapping[str, Any], model_type: str = "") -> Settings:
    """The settings of a preprocessor_config.json, in any spelling since 2021.

    Args:
        model_type: of the model it belongs to, for files that do not say what kind they are.
    Raises: ConfigError: a value of the wrong kind. UnsupportedError: a kind or a key that is not supported.
    """
    kind = _kind(config, model_type)
    given = {key: value for key, value in config.items() if value is not None}
    unread = dict(given)

    def get(key: str, default: Any) -> Any:
        unread.pop(key, None)
        return given.get(key, KINDS[kind].get(key, default))

    def flag(key: str, default: bool) -> bool:
        value = get(key, default)
        if not isinstance(value, bool):
            raise _wrong(key, value, "true or false")
        return value

    resample = get("resample", None)
    if isinstance(resample, bool) or not isinstance(resample, int) or not 0 <= resample < len(FILTERS):
        raise _wrong("resample", resample, f"a number from 0 to 5 ({', '.join(FILTERS)})")
    size = _size("size", get("size", None), square=kind != "clip")
    crop, cropped = get("crop_size", None), flag("do_center_crop", False)
    factor, rescaled = _number("rescale_factor", get("rescale_factor", 1 / 255)), flag("do_rescale", True)
    mean, std = (_channels(key, get(key, None)) for key in ("image_mean", "image_std"))
    if 0 in std:
        raise _wrong("image_std", list(std), "numbers other than 0")
    normalised = flag("do_normalize", True)
    clusters = counted = None
    if kind == "imagegpt":
        clusters, counted = get("clusters", None), flag("do_color_quantize", True)
    settings = Settings(
        size=size if flag("do_resize", True) else None,
        resample=resample,
        crop=_crop(crop) if cropped else None,
        scale=factor if rescaled else None,
        mean=mean if normalised else None,
        std=std if normalised else None,
        colours=_colours(clusters) if counted else None,
    )
    for key, value in unread.items():
        if key not in HARMLESS and value not in (False, [], {}):
            raise UnsupportedError(
                f"{_PLACE}{_short(key)[1:-1]} = {_short(value)} is not supported for pictures of kind {kind!r}; "
                f"remove the key if it changes no pixel{nearest(key, (*KINDS['clip'], 'do_resize', 'do_rescale'))}"
            )
    return settings


_PLACE = "preprocessor_config.json: "


def _kind(config: Mapping[str, Any], model_type: str) -> str:
    """Which family's processor it is, by its class name of any release, else by the model's type."""
    named = config.get("image_processor_type") or config.get("feature_extractor_type")
    if named is None and model_type in KINDS:
        return model_type
    for name, kind in NAMES.items():
        if isinstance(named, str) and named in {
            f"{name}{end}" for end in ("ImageProcessor", "ImageProcessorFast", "FeatureExtractor")
        }:
            return kind
    supported = ", ".join(f"{name}ImageProcessor" for name in NAMES)
    raise UnsupportedError(
        f"{_PLACE}image_processor_type is {_short(named)}; supported: {supported}, or the older names of these"
    )


def _size(key: str, value: Any, *, square: bool) -> tuple[int, int] | int:
    """Both edges, or the shorter alone. An integer means a square, except to CLIP, where it is the shorter edge."""
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
    raise _wrong(key, value, "an integer, {'height': …, 'width': …} or {'shortest_edge': …}")


def _crop(value: Any) -> tuple[int, int]:
    if value is None:
        raise ConfigError(f"{_PLACE}do_center_crop is true, and there is no crop_size; add one")
    found = _size("crop_size", value, square=True)
    if isinstance(found, int):
        raise _wrong("crop_size", value, "an integer or {'height': …, 'width': …}")
    return found


def _edge(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_EDGE:
        raise _wrong(key, value, f"whole numbers from 1 to {MOST_EDGE}")
    return value


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e30:
        raise _wrong(key, value, "a number")
    return float(value)


def _channels(key: str, value: Any) -> tuple[float, ...]:
    """A number for each of R, G, B; one number stands for all."""
    found = value if isinstance(value, (list, tuple)) else [value] * 3
    if len(found) != 3:
        raise _wrong(key, value, "three numbers, for red, green and blue")
    return tuple(_number(key, number) for number in found)


def _colours(value: Any) -> np.ndarray:
    if value is None:
        raise ConfigError(f"{_PLACE}has no clusters, the colours that pixels are counted among")
    rows = value if isinstance(value, (list, tuple)) else []
    if not 1 <= len(rows) <= MOST_COLOURS or not all(
        isinstance(row, (list, tuple)) and len(row) == 3 for row in rows
    ):
        raise _wrong("clusters", value, f"1 to {MOST_COLOURS} colours of three numbers")
    return np.array([[_number("clusters", number) for number in row] for row in rows])


def _wrong(key: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(f"{_PLACE}{key} is {_short(value)}; it must be {allowed}")


def _short(value: object) -> str:
    quoted = repr(value)
    return quoted if len(quoted) <= 120 else quoted[:100] + "…"
