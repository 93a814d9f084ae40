"""ImageProcessor: images to input tensors, configured by the files of a model folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import ConfigError, DataError
from glassformer.files import as_path, read_json_object
from glassformer.files.atomic import write_json
from glassformer.vision.images import ImageInput, as_image_list, check_pixels, open_rgb
from glassformer.vision.settings import read_settings

if TYPE_CHECKING:
    from PIL.Image import Image


class ImageProcessor:
    """Turns images into `pixel_values`, or into the indices of their colour clusters as `input_ids` (ImageGPT).

        image ─ RGB ─ resize ─ center crop ─ rescale ─ normalise ─┬─> pixel_values [N, 3, H, W]
                                                                  └─ nearest colour ─> input_ids [N, H · W]

    The steps and their numbers are `settings`. They never change, so threads may share one processor.

    Differs from the reference library: greyscale images always become RGB; 16-bit greyscale is scaled, where Pillow's
    conversion clips all above 255 to white; an array of floats is an error, its range is not guessed.
    """

    def __init__(self, config: Mapping[str, Any], *, model_type: str = "") -> None:
        self.config = dict(config)
        self.settings = read_settings(config, model_type)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, model_type: str = "") -> Self:
        """A processor with the settings of a preprocessor_config.json.

        Args:
            model_type: of the model it belongs to ("vit"), for a config that does not name its processor class.
        Raises: ConfigError, UnsupportedError: as `read_settings`.
        """
        return cls(config, model_type=model_type)

    @classmethod
    def find(cls, folder: Path | str) -> Self | None:
        """The image processor of a model folder; None where it has none.

        Newer folders have it within processor_config.json, older ones in preprocessor_config.json.

        Raises: DataError: a damaged file. ConfigError, UnsupportedError: as `read_settings`.
        """
        folder = as_path(folder, "folder")
        config = read_json_object(folder / "processor_config.json", DataError, strict=False, optional=True).get(
            "image_processor"
        )
        if config is None:
            if not (folder / "preprocessor_config.json").is_file():
                return None
            config = read_json_object(folder / "preprocessor_config.json", DataError, strict=False)
        if not isinstance(config, Mapping):
            raise ConfigError(f"{folder / 'processor_config.json'}: image_processor must be an object")
        kind = read_json_object(folder / "config.json", DataError, strict=False, optional=True).get("model_type")
        return cls.from_config(config, model_type=kind if isinstance(kind, str) else "")

    def save(self, folder: Path | str) -> None:
        """Write preprocessor_config.json as it was read.

        Raises: DataError: the folder cannot be written.
        """
        write_json(as_path(folder, "folder") / "preprocessor_config.json", self.config, DataError)

    def __call__(self, images: ImageInput | Sequence[ImageInput]) -> dict[str, Tensor]:
        """Preprocess images into the input tensors of the model.

        Args:
            images: one or a list of: paths, PIL images, arrays or tensors of bytes [H, W], [H, W, 3].
        Returns: {"pixel_values": [N, 3, H, W] float32}, or {"input_ids": [N, H · W] int64} with colour clusters.
        Raises: DataError: not an image, a damaged or too large one; the file is named. MissingExtraError: no Pillow.
        """
        arrays = [self._normalised(self._resized_and_cropped(open_rgb(image))) for image in as_image_list(images)]
        sizes = sorted({array.shape[1:] for array in arrays})
        if len(sizes) > 1:
            raise DataError(
                f"after resizing the images have different sizes {sizes}, which cannot be one batch; "
                "give them one by one"
            )
        if self.settings.colours is None:
            return {"pixel_values": torch.from_numpy(np.stack(arrays))}
        return {"input_ids": torch.from_numpy(np.stack([self._nearest_colours(array) for array in arrays]))}

    def images_from_ids(self, ids: Tensor) -> np.ndarray:
        """Decode `input_ids` (indices of colour clusters) back into images.

        Args:
            ids: indices of colour clusters, row by row of an image. [N, H · W]
        Returns: uint8 [N, H, W, 3]
        Raises: ConfigError: the processor has no colour clusters. DataError: ids out of range or of another shape.
        """
        colours, size = self.settings.colours, self.settings.size
        if colours is None or not isinstance(size, tuple):
            raise ConfigError(
                "this processor makes no ids of colour clusters (preprocessor_config.json: clusters, size)"
            )
        height, width = size
        if ids.dim() != 2 or ids.shape[1] != height * width:
            raise DataError(
                f"ids have shape {list(ids.shape)}; an image of {height} × {width} has [N, {height * width}]"
            )
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < len(colours):
            raise DataError(
                f"ids hold numbers from {int(ids.min())} to {int(ids.max())}; there are {len(colours)} colours"
            )
        pixels = colours[ids.cpu().numpy()]  # [N, H · W, 3]
        if self.settings.mean is not None and self.settings.std is not None:
            pixels = pixels * np.array(self.settings.std) + np.array(self.settings.mean)
        if self.settings.scale:
            pixels = pixels / self.settings.scale
        images: np.ndarray = np.rint(pixels).clip(0, 255).astype(np.uint8).reshape(-1, height, width, 3)
        return images

    # ----------------------------------------------------------------------------------------------- the steps

    def _resized_and_cropped(self, image: Image) -> np.ndarray:
        """The image resized and cropped. [H, W, 3] uint8"""
        size = self.settings.size
        if size is not None:
            height, width = size if isinstance(size, tuple) else _scaled_size(image, size)
            check_pixels("the resized image", height, width)
            image = image.resize((width, height), resample=self.settings.resample)
        pixels = np.asarray(image)
        if self.settings.crop is not None:
            for axis, length in enumerate(self.settings.crop):
                pixels = _center_crop(pixels, axis, length)
        return pixels

    def _normalised(self, pixels: np.ndarray) -> np.ndarray:
        """The pixels rescaled and normalised, channels first. [3, H, W] float32"""
        settings = self.settings
        scale = 1.0 if settings.scale is None else settings.scale
        scaled: np.ndarray = (pixels * scale).astype(np.float32)
        if settings.mean is not None and settings.std is not None:
            scaled = (scaled - np.array(settings.mean, np.float32)) / np.array(settings.std, np.float32)
        return np.ascontiguousarray(scaled.transpose(2, 0, 1), np.float32)

    def _nearest_colours(self, scaled: np.ndarray) -> np.ndarray:
        """The index of the nearest colour cluster of each pixel, row by row. [3, H, W] → [H · W]"""
        colours = self.settings.colours
        assert colours is not None  # the caller checks
        pixels = scaled.reshape(3, -1).T.astype(np.float64)  # [H · W, 3]
        rows = [  # |pixel - colour|² without |pixel|², which does not change the argmin
            np.argmin((colours**2).sum(axis=1) - 2 * part @ colours.T, axis=1)
            for part in np.array_split(pixels, max(1, len(pixels) // 4096))
        ]
        return np.concatenate(rows).astype(np.int64)


def _scaled_size(image: Image, shorter: int) -> tuple[int, int]:
    """Height and width of the image scaled so that its shorter edge has this length."""
    longer = int(shorter * max(image.size) / min(image.size))
    return (longer, shorter) if image.width <= image.height else (shorter, longer)


def _center_crop(pixels: np.ndarray, axis: int, length: int) -> np.ndarray:
    """Center crop of an axis to `length`; padded with black on both sides where it is shorter."""
    start = (pixels.shape[axis] - length) // 2
    if start >= 0:
        return pixels.take(range(start, start + length), axis=axis)
    padding = [(0, 0)] * pixels.ndim
    padding[axis] = (-start, length - pixels.shape[axis] + start)
    return np.pad(pixels, padding)
