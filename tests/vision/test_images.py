"""Images of every kind, and files that are none: RGB, or an error that names the file."""

from __future__ import annotations

import io
import os
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from glassformer.errors import DataError, MissingExtraError
from glassformer.vision import images
from glassformer.vision.images import FORMATS, as_image_list, open_rgb


def noise(height: int = 5, width: int = 7, channels: int = 3, seed: int = 0) -> np.ndarray:
    """A image without any symmetry."""
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def pixels(image: object) -> np.ndarray:
    opened = open_rgb(image)
    assert opened.mode == "RGB"
    return np.asarray(opened)


# ------------------------------------------------------------------------------------------------ what is taken


@pytest.mark.parametrize("end", ["png", "bmp", "tiff", "webp", "ppm", "jp2"])
def test_a_file_of_any_common_format(tmp_path: Path, end: str) -> None:
    path = tmp_path / f"a.{end}"
    lossless = {"lossless": True} if end == "webp" else {}
    Image.fromarray(noise(40, 50)).save(path, **lossless)
    assert np.array_equal(pixels(path), noise(40, 50))
    assert np.array_equal(pixels(str(path)), noise(40, 50))


@pytest.mark.parametrize("end", ["jpg", "gif", "avif"])
def test_a_file_of_a_format_that_rounds(tmp_path: Path, end: str) -> None:
    path = tmp_path / f"a.{end}"
    Image.new("RGB", (30, 20), (200, 100, 50)).save(path)
    assert pixels(path).shape == (20, 30, 3)
    assert np.abs(pixels(path).astype(int) - (200, 100, 50)).max() < 12


def test_arrays_tensors_and_opened_pictures_are_the_same() -> None:
    array = noise()
    for image in (array, torch.from_numpy(array), Image.fromarray(array), np.asfortranarray(array)):
        assert np.array_equal(pixels(image), array)


def test_grey_becomes_three_equal_channels(tmp_path: Path) -> None:
    grey = noise(channels=1)
    Image.fromarray(grey).save(tmp_path / "grey.png")
    for image in (grey, tmp_path / "grey.png", Image.fromarray(grey)):
        assert np.array_equal(pixels(image), np.stack([grey] * 3, axis=-1))


def test_a_palette_is_looked_up(tmp_path: Path) -> None:
    coloured = Image.fromarray(noise()).quantize(16)
    coloured.save(tmp_path / "palette.png")
    assert np.array_equal(pixels(tmp_path / "palette.png"), np.asarray(coloured.convert("RGB")))


def test_grey_of_16_bits_keeps_its_shades(tmp_path: Path) -> None:
    shades = np.array([[0, 128, 129, 257, 32768, 65535]], dtype=np.uint16)
    Image.fromarray(shades).save(tmp_path / "deep.png")
    assert pixels(tmp_path / "deep.png")[0, :, 0].tolist() == [0, 0, 1, 1, 128, 255]


def test_transparency_lies_on_white_and_is_dropped_from_a_file(tmp_path: Path) -> None:
    """What the reference library does with an opened image, and with a path."""
    array = np.zeros((2, 2, 4), dtype=np.uint8)
    array[..., 0] = 100
    array[0, :, 3] = 255  # the upper row is opaque
    Image.fromarray(array).save(tmp_path / "clear.png")
    for image in (array, Image.fromarray(array)):
        assert pixels(image)[:, 0].tolist() == [[100, 0, 0], [255, 255, 255]]
    assert pixels(tmp_path / "clear.png")[:, 0].tolist() == [[100, 0, 0], [100, 0, 0]]


@pytest.mark.parametrize("tag", range(1, 9))
def test_a_file_is_turned_upright(tmp_path: Path, tag: int) -> None:
    """EXIF tag 274 says how the camera was held."""
    stored = noise(4, 6)
    turns = {1: 0, 3: 2, 6: 3, 8: 1}  # quarter turns to the left; the others are mirrored too
    exif = Image.Exif()
    exif[274] = tag
    Image.fromarray(stored).save(tmp_path / "held.png", exif=exif)
    upright = pixels(tmp_path / "held.png")
    if tag in turns:
        assert np.array_equal(upright, np.rot90(stored, turns[tag]))
    else:
        mirrored = [np.rot90(stored[:, ::-1], turn) for turn in range(4)]
        assert any(np.array_equal(upright, image) for image in mirrored)
    assert np.array_equal(pixels(Image.open(tmp_path / "held.png")), stored)  # an opened one is taken as it stands


def test_one_picture_or_several() -> None:
    assert as_image_list("a.png") == ["a.png"]
    assert as_image_list(("a.png", "b.png")) == ["a.png", "b.png"]
    with pytest.raises(DataError, match="at least one"):
        as_image_list([])


# ---------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "array",
    [
        noise().astype(np.float32),
        noise().transpose(2, 0, 1),
        noise()[None],
        noise(channels=3)[:, :, :2],
        np.zeros((0, 4, 3), np.uint8),
        np.zeros((), np.uint8),
        torch.rand(3, 4, 5),
    ],
    ids=["floats", "channels first", "a batch", "two channels", "empty", "a number", "tensor of floats"],
)
def test_an_array_that_is_no_picture(array: object) -> None:
    with pytest.raises(DataError, match=r"uint8 \[H, W\]|at least one"):
        open_rgb(array)


@pytest.mark.parametrize("mode", ["I", "F"])
def test_numbers_without_a_scale(mode: str) -> None:
    with pytest.raises(DataError, match=f"mode {mode}"):
        open_rgb(Image.new(mode, (2, 2)))


def test_what_is_no_picture_at_all() -> None:
    for value in (3, None, {"path": "a.png"}):
        with pytest.raises(DataError, match="give a path"):
            open_rgb(value)
    for cut in (b"", b"\x89PNG"):
        with pytest.raises(DataError, match="the image: is not an image in a supported format"):
            open_rgb(cut)


def test_the_bytes_of_a_file_are_read_as_the_file(tmp_path: Path) -> None:
    Image.fromarray(noise()).save(tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    assert np.array_equal(np.asarray(open_rgb(content)), np.asarray(open_rgb(tmp_path / "a.png")))
    with pytest.raises(DataError, match=r"the image.*damaged"):
        open_rgb(content[:60])


def test_files_that_are_not_there(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    for name in ("none.png", ".", "pipe.png", "a\0b.png", "https://example.org/a.png", "x" * 5000):
        with pytest.raises(DataError):
            open_rgb(tmp_path / name)


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.png").write_text("not an image at all")
    with pytest.raises(DataError, match=r"notes\.png: is not an image in a supported format: .* PNG"):
        open_rgb(tmp_path / "notes.png")


def test_no_other_program_is_started(tmp_path: Path) -> None:
    """Pillow hands PostScript to an interpreter of it; here it is not even recognised."""
    path = tmp_path / "a.eps"
    Image.fromarray(noise()).save(path)
    assert Image.open(path).format == "EPS"
    with pytest.raises(DataError, match="is not an image in a supported format"):
        open_rgb(path)
    assert "EPS" not in FORMATS


def encoded(end: str, array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(array).save(stream, end)
    return stream.getvalue()


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("end", ["png", "jpeg", "gif", "tiff", "webp", "bmp", "ppm", "jpeg2000", "avif"])
def test_a_truncated_file_is_named(tmp_path: Path, end: str) -> None:
    whole = encoded(end, noise(40, 40))
    path = tmp_path / f"cut.{end}"
    for length in (0, 1, 9, len(whole) // 3, len(whole) // 2):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=rf"cut\.{end}"):
            open_rgb(path)


WHOLE = {end: encoded(end, noise(8, 9)) for end in ("png", "jpeg", "gif", "tiff", "webp", "bmp", "ppm")}


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")  # what it says of odd tags before it decodes
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@given(data=st.data(), end=st.sampled_from(sorted(WHOLE)))
def test_a_damaged_file_is_opened_or_refused(
    data: st.DataObject, end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any bytes changed: an image, or a DataError that names the file; nothing else."""
    content = bytearray(WHOLE[end])
    places = st.integers(0, len(content) - 1)
    for place, byte in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=6)):
        content[place] = byte
    path = tmp_path_factory.getbasetemp() / f"damaged.{end}"
    path.write_bytes(content)
    try:
        assert open_rgb(path).mode == "RGB"
    except DataError as error:
        assert "damaged." in str(error)


def png_of_size(width: int, height: int) -> bytes:
    """A PNG that claims a size and holds next to nothing."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("size", [(8001, 8000), (12_000, 12_000), (60_000, 60_000), (2**31 - 1, 2**31 - 1)])
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, size: tuple[int, int]) -> None:
    (tmp_path / "bomb.png").write_bytes(png_of_size(*size))
    with pytest.raises(DataError, match=r"bomb\.png.* 64 million"):
        open_rgb(tmp_path / "bomb.png")


def test_a_file_of_many_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fat.png").write_bytes(encoded("png", noise(40, 40)))
    monkeypatch.setattr(images, "MAX_BYTES", 1000)
    with pytest.raises(DataError, match=r"fat\.png: has .* bytes; a file of this kind may have"):
        open_rgb(tmp_path / "fat.png")


def test_without_pillow_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'glassformer\[vision\]'"):
        open_rgb("a.png")
