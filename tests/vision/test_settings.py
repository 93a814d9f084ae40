"""preprocessor_config.json in every spelling, and with every mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.vision.settings import PreprocessorSettings, read_settings

VIT = {"image_processor_type": "ViTImageProcessor"}
CLIP = {"image_processor_type": "CLIPImageProcessor"}
IMAGEGPT = {"image_processor_type": "ImageGPTImageProcessor", "clusters": [[0, 0, 0], [1.0, -1, 0.5]]}


def test_what_is_done_where_the_file_is_silent() -> None:
    half = (0.5, 0.5, 0.5)
    assert read_settings(VIT) == PreprocessorSettings(
        size=(224, 224), resample=2, crop=None, scale=1 / 255, mean=half, std=half, colours=None
    )
    clip = read_settings(CLIP)
    assert (clip.size, clip.resample, clip.crop) == (224, 3, (224, 224))
    assert clip.mean == (0.48145466, 0.4578275, 0.40821073)
    assert clip.std == (0.26862954, 0.26130258, 0.27577711)
    colours = read_settings(IMAGEGPT)
    assert (colours.size, colours.mean) == ((256, 256), half)
    assert np.array_equal(colours.colours, IMAGEGPT["clusters"])


@pytest.mark.parametrize(
    ("kind", "size", "read"),
    [
        (VIT, 32, (32, 32)),
        (CLIP, 32, 32),
        (IMAGEGPT, 32, (32, 32)),
        (VIT, {"height": 8, "width": 6}, (8, 6)),
        (CLIP, {"height": 8, "width": 6}, (8, 6)),
        (VIT, {"shortest_edge": 9}, 9),
        (CLIP, {"shortest_edge": 9}, 9),
        (VIT, [8, 6], (8, 6)),
    ],
)
def test_sizes(kind: dict[str, Any], size: Any, read: Any) -> None:
    assert read_settings({**kind, "size": size}).size == read


@pytest.mark.parametrize("crop", [20, {"height": 20, "width": 20}, [20, 20]])
def test_crops(crop: Any) -> None:
    assert read_settings({**CLIP, "crop_size": crop}).crop == (20, 20)
    assert read_settings({**CLIP, "crop_size": crop, "do_center_crop": False}).crop is None
    assert read_settings({**VIT, "crop_size": crop}).crop is None
    assert read_settings({**VIT, "crop_size": crop, "do_center_crop": True}).crop == (20, 20)


@pytest.mark.parametrize("end", ["ImageProcessor", "ImageProcessorFast", "FeatureExtractor"])
@pytest.mark.parametrize("key", ["image_processor_type", "feature_extractor_type"])
def test_names_of_any_release(key: str, end: str) -> None:
    assert read_settings({key: f"CLIP{end}"}) == read_settings(CLIP)


def test_a_file_without_a_kind_is_of_its_model() -> None:
    assert read_settings({"size": 32}, "clip").size == 32
    assert read_settings({"size": 32}, "vit").size == (32, 32)
    assert read_settings({**CLIP, "size": 32}, "vit").size == 32  # the file knows better
    with pytest.raises(UnsupportedError, match="image_processor_type is None; supported: ViTImageProcessor"):
        read_settings({"size": 32}, "bert")


def test_steps_are_left_out_one_by_one() -> None:
    assert read_settings({**VIT, "do_resize": False}).size is None
    assert read_settings({**VIT, "do_rescale": False}).scale is None
    assert read_settings({**VIT, "do_normalize": False}).mean is None
    assert read_settings({**IMAGEGPT, "do_color_quantize": False}).colours is None
    assert read_settings({**VIT, "rescale_factor": 0.5}).scale == 0.5
    assert read_settings({**VIT, "image_mean": 0.25}).mean == (0.25, 0.25, 0.25)


@pytest.mark.parametrize("key", ["processor_class", "do_convert_rgb", "return_tensors", "_valid_processor_keys"])
def test_harmless_keys(key: str) -> None:
    assert read_settings({**VIT, key: True}) == read_settings(VIT)


@pytest.mark.parametrize("config", [{"do_pad": None}, {"do_pad": False}, {"pad_size": None}])
def test_what_is_off(config: dict[str, Any]) -> None:
    assert read_settings({**VIT, **config}) == read_settings(VIT)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("do_pad", True),
        ("use_square_size", True),
        ("reducing_gap", 3),
        ("do_centre_crop", True),
        ("clusters", [[0] * 3]),
    ],
)
def test_a_key_that_might_change_pixels_is_refused(key: str, value: Any) -> None:
    with pytest.raises(UnsupportedError, match=rf"{key} = .* is not supported"):
        read_settings({**VIT, key: value})


@pytest.mark.parametrize(
    "kind", ["BitImageProcessor", "ViTImageProcessorPil", 3, ["CLIPImageProcessor"], "", "x" * 999]
)
def test_another_kind_is_refused(kind: Any) -> None:
    with pytest.raises(UnsupportedError, match="image_processor_type is"):
        read_settings({"image_processor_type": kind})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("size", 0),
        ("size", 10**9),
        ("size", True),
        ("size", 2.5),
        ("size", "224"),
        ("size", {"height": 8}),
        ("size", {"height": 8, "width": -1}),
        ("size", {"shortest_edge": 8, "longest_edge": 9}),
        ("size", [1, 2, 3]),
        ("crop_size", {"shortest_edge": 8}),
        ("crop_size", "8"),
        ("resample", 6),
        ("resample", -1),
        ("resample", True),
        ("resample", "bicubic"),
        ("rescale_factor", "1/255"),
        ("rescale_factor", float("nan")),
        ("image_mean", [0.5, 0.5]),
        ("image_mean", ["a", "b", "c"]),
        ("image_std", [0.5, 0, 0.5]),
        ("image_std", None.__class__),
        ("do_resize", "yes"),
        ("do_normalize", 1),
    ],
)
def test_a_wrong_value_is_named(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"preprocessor_config.json: {key} is .*must be"):
        read_settings({**CLIP, key: value})


@pytest.mark.parametrize("clusters", [[], [[1, 2]], [[1, 2, "3"]], 5, [[[0, 0, 0]]], [[0, 0, 0]] * 70_000])
def test_wrong_colours(clusters: Any) -> None:
    with pytest.raises(ConfigError, match=r"clusters is .*must be"):
        read_settings({**IMAGEGPT, "clusters": clusters})


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="has no clusters"):
        read_settings({"image_processor_type": "ImageGPTImageProcessor"})
    with pytest.raises(ConfigError, match="there is no crop_size"):
        read_settings({**VIT, "do_center_crop": True})
