"""What image encoders share: image sizes in a config, `pixel_values` of a batch, and labels of patches."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from glassformer.core import Batch, Flow, Head, NormSpec, Patches, PatchesSpec, Stack, StackSpec, make_norm
from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.models._config import ConfigReader
from glassformer.models._network import Network, Sizes, require

MAX_IMAGE_SIZE = 8192
"""A config of more asks for billions of pixels per image; models read 224 to 1,024."""
MAX_CHANNELS = 1024
"""Limits: no published model reads larger images, or more channels."""


def image_size(reader: ConfigReader, key: str, default: int) -> tuple[int, int]:
    """Read height and width in pixels from a config; one number is both.

    Raises: ConfigError: neither a whole number nor two.
    """
    value: Any = reader.get(key, default=default)
    pair = value if isinstance(value, (list, tuple)) else (value, value)
    if len(pair) != 2 or not all(type(edge) is int and 1 <= edge <= MAX_IMAGE_SIZE for edge in pair):
        raise ConfigError(
            f"{reader.location}{key} is {safe_repr(value)}; it must be a whole number from 1 to {MAX_IMAGE_SIZE}, "
            "or two of them: height and width"
        )
    return pair[0], pair[1]


class ImageEncoder(Network):
    """Image encoder: pixels ─ patches ─ blocks ─ head; where the final norm acts is the family's."""

    READS = ("pixel_values",)
    NORMED_LAST = False

    def __init__(self, embed: PatchesSpec, blocks: StackSpec, final_norm: NormSpec, head: Head | None) -> None:
        super().__init__(Sizes(width=blocks.width, max_tokens=embed.tokens))
        self.embed = Patches(embed)
        self.blocks = Stack(blocks)
        self.final_norm = make_norm(final_norm)
        self.head = head
        self.name_nodes()

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        pixels = require(batch.pixel_values, "pixel_values [B, channels, height, width]")
        x: Tensor = self.blocks(self.embed(pixels, flow), flow)
        return x

    def stacks(self) -> dict[str, Stack]:
        return {"image": self.blocks}

    def token_labels(self, batch: Batch) -> dict[str, list[str]]:
        return {"image": self.embed.token_labels()}
