"""The same numbers as the reference library's processors, on photographs and on odd images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.imagegpt.image_processing_pil_imagegpt import ImageGPTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.vision import ImageProcessor

COLOURS = np.random.default_rng(1).uniform(-1, 1, (512, 3)).round(4).tolist()

KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "vit": (ViTImageProcessorPil, {}),
    "vit, small": (ViTImageProcessorPil, {"size": {"height": 30, "width": 44}}),
    "vit, as it is": (ViTImageProcessorPil, {"do_normalize": False, "size": 32}),
    "vit, not rescaled": (ViTImageProcessorPil, {"do_rescale": False, "size": 32}),
    "vit, other numbers": (
        ViTImageProcessorPil,
        {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.25, 2.0], "rescale_factor": 0.01, "size": 32},
    ),
    "vit, nearest": (ViTImageProcessorPil, {"resample": 0, "size": 32}),
    "vit, lanczos": (ViTImageProcessorPil, {"resample": 1, "size": 32}),
    "vit, box": (ViTImageProcessorPil, {"resample": 4, "size": 32}),
    "clip": (CLIPImageProcessorPil, {}),
    "clip, crop larger than the image": (
        CLIPImageProcessorPil,
        {"size": {"shortest_edge": 31}, "crop_size": {"height": 40, "width": 64}},
    ),
    "clip, odd crop": (CLIPImageProcessorPil, {"size": 50, "crop_size": {"height": 33, "width": 28}}),
    "clip, not cropped": (CLIPImageProcessorPil, {"size": 50, "do_center_crop": False}),
    "imagegpt": (ImageGPTImageProcessorPil, {"clusters": COLOURS, "size": 32}),
    "imagegpt, not counted": (
        ImageGPTImageProcessorPil,
        {"clusters": COLOURS, "size": 32, "do_color_quantize": False},
    ),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def both(kind: str) -> tuple[Any, ImageProcessor]:
    """Theirs, and ours from the config that theirs writes."""
    theirs, changes = KINDS[kind]
    reference = theirs(**changes)
    return reference, ImageProcessor.from_config(json.loads(reference.to_json_string()))


def check_equal(kind: str, image: Any, for_them: Any = None) -> None:
    theirs, ours = both(kind)
    expected = theirs(image if for_them is None else for_them, return_tensors="pt")
    batch = ours(image)
    assert list(batch) == list(expected)
    for name, x in batch.items():
        assert x.shape == expected[name].shape
        assert (x.double() - expected[name].double()).abs().max() <= 1e-4
        assert x.dtype == (torch.int64 if name == "input_ids" else torch.float32)


@pytest.fixture(scope="session")
def photographs(shared: Path) -> list[Path]:
    paths = sorted((shared / "data" / "photos").glob("*.[jp][pn]g"))
    if not paths:
        pytest.skip("needs ../shared/data/photos (a few photographs) next to the repository")
    return paths


# ------------------------------------------------------------------------------------------------- photographs


@kinds
def test_photographs(photographs: list[Path], kind: str) -> None:
    for photograph in photographs:
        check_equal(kind, photograph, str(photograph))


def test_photographs_in_one_batch(photographs: list[Path]) -> None:
    theirs, ours = both("clip")
    batch = ours(photographs)["pixel_values"]
    assert batch.shape == (len(photographs), 3, 224, 224)
    assert torch.equal(batch, theirs([str(path) for path in photographs], return_tensors="pt")["pixel_values"])
    assert torch.equal(batch[2:3], ours(photographs[2])["pixel_values"])


# -------------------------------------------------------------------------------------------------- odd images


def random_image(height: int, width: int, mode: str = "RGB") -> Image.Image:
    channels = len(Image.new(mode, (1, 1)).getbands())
    shape = (height, width, channels) if channels > 1 else (height, width)
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)).convert(mode)


@pytest.mark.parametrize(
    "image",
    [
        random_image(1, 1),
        random_image(3, 2),
        random_image(400, 20),
        random_image(21, 301),
        random_image(224, 224),
        random_image(40, 50, "L"),
        random_image(40, 50, "RGBA"),
        random_image(40, 50).quantize(8),
        random_image(40, 50, "CMYK"),
        random_image(40, 50, "L").convert("1"),
    ],
    ids=[
        "a pixel",
        "tiny",
        "tall",
        "wide",
        "as large as it should be",
        "grey",
        "transparent",
        "palette",
        "cmyk",
        "bits",
    ],
)
@kinds
def test_odd_pictures_from_files(kind: str, image: Image.Image, tmp_path: Path) -> None:
    path = tmp_path / ("odd.tiff" if image.mode == "CMYK" else "odd.png")
    image.save(path)
    check_equal(kind, path, str(path))


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA", "P"])
def test_opened_pictures(mode: str) -> None:
    """Only CLIP's processor of theirs takes other modes; ours takes them everywhere."""
    check_equal("clip", random_image(40, 50, mode))


def test_a_turned_photograph(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[274] = 6
    random_image(30, 60).save(tmp_path / "turned.jpg", exif=exif)
    check_equal("clip", tmp_path / "turned.jpg", str(tmp_path / "turned.jpg"))
    assert both("clip, not cropped")[1](tmp_path / "turned.jpg")["pixel_values"].shape == (1, 3, 100, 50)


def test_grey_of_16_bits_is_as_its_8_bits(tmp_path: Path) -> None:
    """Theirs makes nearly all of it white; it gets the same image in 8 bits."""
    grey = np.asarray(random_image(40, 50, "L"))
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "deep.png")
    Image.fromarray(grey).save(tmp_path / "plain.png")
    check_equal("vit", tmp_path / "deep.png", str(tmp_path / "plain.png"))


def test_arrays(tmp_path: Path) -> None:
    array = np.asarray(random_image(40, 50))
    for image in (array, torch.from_numpy(array.copy())):
        check_equal("vit", image, array)


# ------------------------------------------------------------------------------------------------ colours, back


def test_colours_become_a_picture_again() -> None:
    _, ours = both("imagegpt")
    ids = ours(random_image(64, 64))["input_ids"]
    image = ours.images_from_ids(ids)
    assert image.shape == (1, 32, 32, 3) and image.dtype == np.uint8
    expected = np.rint(127.5 * (np.array(COLOURS)[ids[0].numpy()] + 1)).reshape(32, 32, 3)
    assert np.abs(image[0] - expected).max() <= 1
    again = ours(image[0])["input_ids"]
    assert (again == ids).float().mean() > 0.99  # unless rounding to bytes brought another colour nearer


def test_ids_that_are_no_picture() -> None:
    _, ours = both("imagegpt")
    with pytest.raises(DataError, match=r"an image of 32 × 32 has \[N, 1024\]"):
        ours.images_from_ids(torch.zeros(1, 1000, dtype=torch.long))
    with pytest.raises(DataError, match="numbers from 0 to 512; there are 512 colours"):
        ours.images_from_ids(torch.full((1, 1024), 512).index_fill(1, torch.tensor([0]), 0))
    with pytest.raises(ConfigError, match="makes no ids"):
        both("vit")[1].images_from_ids(torch.zeros(1, 1024, dtype=torch.long))


# --------------------------------------------------------------------------------------------------- refusals


def test_pictures_of_several_sizes_make_no_batch() -> None:
    ours = ImageProcessor.from_config({"image_processor_type": "ViTImageProcessor", "do_resize": False})
    assert ours(random_image(4, 5))["pixel_values"].shape == (1, 3, 4, 5)
    with pytest.raises(DataError, match="cannot be one batch"):
        ours([random_image(4, 5), random_image(5, 4)])


def test_a_strip_does_not_grow_without_end() -> None:
    with pytest.raises(DataError, match="the resized image has 22400000 × 224 pixels"):
        both("clip")[1](np.zeros((100_000, 1, 3), np.uint8))


def test_the_damaged_file_is_named(tmp_path: Path) -> None:
    random_image(4, 5).save(tmp_path / "good.png")
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(DataError, match=r"bad\.png"):
        both("vit")[1]([tmp_path / "good.png", tmp_path / "bad.png"])


# ------------------------------------------------------------------------------------------------------ folders


@kinds
def test_a_folder_that_they_saved(kind: str, tmp_path: Path) -> None:
    theirs, ours = both(kind)
    theirs.save_pretrained(tmp_path)
    processor = ImageProcessor.find(tmp_path)
    assert processor is not None
    image = random_image(40, 50)
    for name, x in processor(image).items():
        assert torch.equal(x, ours(image)[name])


def test_what_is_saved_is_what_was_read(tmp_path: Path) -> None:
    config = {"feature_extractor_type": "CLIPFeatureExtractor", "size": 32, "crop_size": 30, "resample": 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    processor = ImageProcessor.find(tmp_path)
    assert processor is not None
    processor.save(tmp_path / "copy")
    assert json.loads((tmp_path / "copy" / "preprocessor_config.json").read_text()) == config
    assert CLIPImageProcessorPil.from_pretrained(tmp_path / "copy").size["shortest_edge"] == 32
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        processor.save(tmp_path / "file")


def test_where_a_folder_has_it(tmp_path: Path) -> None:
    assert ImageProcessor.find(tmp_path) is None
    (tmp_path / "processor_config.json").write_text('{"processor_class": "CLIPProcessor"}')
    assert ImageProcessor.find(tmp_path) is None
    (tmp_path / "preprocessor_config.json").write_text('{"size": 20}')
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    processor = ImageProcessor.find(tmp_path)
    assert processor is not None and processor.settings.size == 20
    within = {"image_processor": {"image_processor_type": "ViTImageProcessorFast", "size": 30}}
    (tmp_path / "processor_config.json").write_text(json.dumps(within))
    processor = ImageProcessor.find(tmp_path)
    assert processor is not None and processor.settings.size == (30, 30)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"size": 1e999}', '{"resample": {}}', '{"image_processor_type": ["x"]}']
)
def test_a_damaged_config_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    (tmp_path / "preprocessor_config.json").write_text(text)
    with pytest.raises((DataError, ConfigError, UnsupportedError), match=r"preprocessor_config\.json"):
        ImageProcessor.find(tmp_path)
    (tmp_path / "processor_config.json").write_text('{"image_processor": [1]}')
    with pytest.raises(ConfigError, match="must be an object"):
        ImageProcessor.find(tmp_path)
