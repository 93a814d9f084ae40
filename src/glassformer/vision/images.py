"""Read untrusted images: size-limited, decoded by Pillow, converted to RGB.

    file, its bytes    rotated by its EXIF orientation, transparency dropped
    PIL image, array   as it is; transparent pixels become white

Both are what the reference library does with a path and with an image.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from glassformer.errors import DataError, import_optional
from glassformer.files import read_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

ImageInput = Any
"""A path, the bytes of a file, a PIL image, or uint8 [H, W], [H, W, 3] or [H, W, 4] (numpy or torch)."""

FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are decoded; Pillow's others are rare, and some start other programs."""

MAX_BYTES = 256 * 2**20  # read as a whole
MAX_PIXELS = 64_000_000
"""A small file can decode to any number of pixels (decompression bomb); few cameras give more."""
_MILLIONS = MAX_PIXELS // 10**6


def pillow() -> ModuleType:
    """`PIL.Image`.

    Raises: MissingExtraError: Pillow is not installed.
    """
    module: ModuleType = import_optional("PIL.Image", "pillow", "vision", "reading images")
    return module


def as_image_list(images: ImageInput | Sequence[ImageInput]) -> list[ImageInput]:
    """One image or several, as a list.

    Raises: DataError: none at all.
    """
    as_list = list(images) if isinstance(images, (list, tuple)) else [images]
    if not as_list:
        raise DataError("the list of images is empty; give at least one")
    return as_list


def open_rgb(image: ImageInput) -> Image:
    """Read an image as RGB, one byte a channel.

    Raises: DataError: not an image, a damaged one, or more than `MOST_PIXELS` pixels; the file is named.
    """
    if isinstance(image, (str, Path)):
        pillow()  # missing, it is named before the file is read
        return _from_file(str(image), read_bytes(Path(image), DataError, MAX_BYTES))
    if isinstance(image, bytes):
        return _from_file("the image", image)
    if isinstance(image, (np.ndarray, Tensor)):
        return _from_array(image)
    if isinstance(image, pillow().Image):
        return _decode("the image", image, _opaque)
    raise DataError(
        f"an image is {type(image).__name__}; give a path, the bytes of a file, a PIL image, or an array of "
        "bytes [H, W, 3]"
    )


def check_pixels(what: str, height: int, width: int) -> None:
    """Check the number of pixels, before anything is allocated for them.

    Raises: DataError: none, or more than `MAX_PIXELS`.
    """
    if height < 1 or width < 1 or height * width > MAX_PIXELS:
        raise DataError(
            f"{what} has {height} × {width} pixels; it must have at least one, and at most {_MILLIONS} million"
        )


def _from_file(name: str, content: bytes) -> Image:
    """Decode the content of a file.

    Args:
        name: for errors
    """
    module = pillow()
    try:
        opened = module.open(io.BytesIO(content), formats=FORMATS)
    except module.DecompressionBombError:
        raise DataError(f"{name}: has more than {_MILLIONS} million pixels; give a smaller image") from None
    except module.UnidentifiedImageError:
        raise DataError(
            f"{name}: is not an image in a supported format: {', '.join(FORMATS)}; convert it to one of them"
        ) from None
    except Exception as error:  # decoders may raise anything on damaged files
        raise _damaged_error(name, error) from error
    with opened:
        return _decode(name, opened, _upright)


def _decode(what: str, image: Image, finish: Any) -> Image:
    """Decode the pixels (until here the file is only opened), and convert them to RGB."""
    check_pixels(what, image.height, image.width)
    if image.mode in ("I", "F"):
        raise DataError(
            f"{what} has pixels of mode {image.mode}, whose range of values is unknown; convert them to 0 … 255 first"
        )
    try:
        rgb: Image = finish(_to_8_bit(image))
    except Exception as error:
        raise _damaged_error(what, error) from error
    return rgb


def _to_8_bit(image: Image) -> Image:
    """A 16-bit greyscale image in 8 bits, by scaling; Pillow's conversion clips all above 255 to white."""
    if not image.mode.startswith("I;16"):
        return image
    grey = np.asarray(image).astype(np.uint32)
    reduced: Image = pillow().fromarray(((grey + 128) // 257).astype(np.uint8))
    reduced.info = dict(image.info)
    return reduced


def _upright(image: Image) -> Image:
    from PIL import ImageOps

    return ImageOps.exif_transpose(image).convert("RGB")


def _opaque(image: Image) -> Image:
    if "A" not in image.getbands() and image.info.get("transparency") is None:
        return image.convert("RGB")
    module = pillow()
    background: Image = module.new("RGBA", image.size, "white")
    background.alpha_composite(image.convert("RGBA"))
    return background.convert("RGB")


def _from_array(array: np.ndarray | Tensor) -> Image:
    values = array.detach().cpu().numpy() if isinstance(array, Tensor) else array
    colours = values.ndim == 2 or (values.ndim == 3 and values.shape[2] in (3, 4))
    if values.dtype != np.uint8 or not colours:
        raise DataError(
            f"an image array is {values.dtype} of shape {list(values.shape)}; it must be uint8 [H, W], "
            "[H, W, 3] or [H, W, 4]; several images are a list of them"
        )
    check_pixels("the array", *values.shape[:2])
    return _opaque(pillow().fromarray(np.ascontiguousarray(values)))


def _damaged_error(what: str, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return DataError(f"{what}: is damaged or not an image: {reason}; open it in a viewer, or fetch it again")
