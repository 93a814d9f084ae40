"""Opening pictures that nobody has vetted: bounded, decoded by Pillow, turned into RGB, or refused by name.

    file     turned upright as its EXIF tag says, transparency dropped
    opened   a PIL picture or an array, taken as it stands; what is transparent lies on white

Both are what the reference library does with a path and with a picture.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from glassformer.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from PIL.Image import Image

Picture = Any
"""A path, a PIL picture, or uint8 [H, W], [H, W, 3] or [H, W, 4] (numpy or torch)."""

FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""What is decoded here; others of Pillow's formats are rare, and some start other programs."""

MOST_BYTES = 256 * 2**20
MOST_PIXELS = 64_000_000
"""A small file can unpack to any number of pixels; few cameras give more."""
_MILLIONS = MOST_PIXELS // 10**6


def pillow() -> ModuleType:
    """`PIL.Image`.

    Raises: MissingExtraError: Pillow is not installed.
    """
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise MissingExtraError("pillow", "vision", "reading pictures") from error
    return PIL.Image


def each(pictures: Picture | Sequence[Picture]) -> list[Picture]:
    """One picture or several, as a list.

    Raises: DataError: none at all.
    """
    found = list(pictures) if isinstance(pictures, (list, tuple)) else [pictures]
    if not found:
        raise DataError("no picture was given; give at least one")
    return found


def open_rgb(picture: Picture) -> Image:
    """A picture in RGB, one byte a channel.

    Raises: DataError: it is no picture, is damaged, or has more than `MOST_PIXELS` pixels; the file is named.
    """
    if isinstance(picture, (str, Path)):
        return _from_file(Path(picture))
    if isinstance(picture, (np.ndarray, Tensor)):
        return _from_array(picture)
    if isinstance(picture, pillow().Image):
        return _decoded("the picture", picture, _opaque)
    raise DataError(
        f"a picture is {type(picture).__name__}; give a path, a PIL picture, or an array of bytes [H, W, 3]"
    )


def check_pixels(what: str, height: int, width: int) -> None:
    """Refuse what is empty or too large, before anything is allocated for it."""
    if height < 1 or width < 1 or height * width > MOST_PIXELS:
        raise DataError(
            f"{what} has {height} × {width} pixels; it must have at least one, and at most {_MILLIONS} million"
        )


def _from_file(path: Path) -> Image:
    module = pillow()
    stream = io.BytesIO(_bytes_of(path))
    try:
        opened = module.open(stream, formats=FORMATS)
    except module.DecompressionBombError:
        raise DataError(f"{path}: has more than {_MILLIONS} million pixels; give a smaller picture") from None
    except module.UnidentifiedImageError:
        raise DataError(
            f"{path}: is no picture in a format that is read here: {', '.join(FORMATS)}; convert it to one of them"
        ) from None
    except Exception as error:  # decoders of twenty formats raise what they like on damaged files
        raise _damaged(str(path), error) from error
    with opened:
        return _decoded(str(path), opened, _upright)


def _bytes_of(path: Path) -> bytes:
    try:
        if not path.is_file():  # a pipe that nobody writes to would otherwise wait for ever
            raise DataError(f"{path}: is not a file; give the path of a picture")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise DataError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > MOST_BYTES:
        raise DataError(f"{path}: has more than {MOST_BYTES // 2**20} MB; give a smaller picture")
    return content


def _decoded(what: str, picture: Image, finish: Any) -> Image:
    """The pixels themselves: until here a file has been opened, not decoded."""
    check_pixels(what, picture.height, picture.width)
    if picture.mode in ("I", "F"):
        raise DataError(
            f"{what} has pixels of mode {picture.mode}, numbers whose black and white nobody knows; "
            "bring them to 0 … 255 first"
        )
    try:
        rgb: Image = finish(_in_bytes(picture))
    except Exception as error:
        raise _damaged(what, error) from error
    return rgb


def _in_bytes(picture: Image) -> Image:
    """A grey picture of 16 bits a pixel with 8: shades are kept, where Pillow makes all above 255 white."""
    if not picture.mode.startswith("I;16"):
        return picture
    shades = np.asarray(picture).astype(np.uint32)
    reduced: Image = pillow().fromarray(((shades + 128) // 257).astype(np.uint8))
    reduced.info = dict(picture.info)
    return reduced


def _upright(picture: Image) -> Image:
    from PIL import ImageOps

    return ImageOps.exif_transpose(picture).convert("RGB")


def _opaque(picture: Image) -> Image:
    if "A" not in picture.getbands() and picture.info.get("transparency") is None:
        return picture.convert("RGB")
    module = pillow()
    ground: Image = module.new("RGBA", picture.size, "white")
    ground.alpha_composite(picture.convert("RGBA"))
    return ground.convert("RGB")


def _from_array(array: np.ndarray | Tensor) -> Image:
    values = array.detach().cpu().numpy() if isinstance(array, Tensor) else array
    colours = values.ndim == 2 or (values.ndim == 3 and values.shape[2] in (3, 4))
    if values.dtype != np.uint8 or not colours:
        raise DataError(
            f"an array of a picture is {values.dtype} of shape {list(values.shape)}; it must be uint8 [H, W], "
            "[H, W, 3] or [H, W, 4]; several pictures are a list of them"
        )
    check_pixels("the array", *values.shape[:2])
    return _opaque(pillow().fromarray(np.ascontiguousarray(values)))


def _damaged(what: str, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return DataError(f"{what}: is damaged or no picture: {reason}; open it in a viewer, or fetch it again")
