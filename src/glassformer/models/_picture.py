"""What the recipes of encoders of pictures share: reading sizes, and naming patches."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.core.patches import Patches
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError
from glassformer.files import shown
from glassformer.models._family import Network, Reader, needed

MOST_EDGE = 8192
MOST_CHANNELS = 1024
"""No published model reads larger pictures, or more numbers a pixel."""


def edges(reader: Reader, key: str, default: int) -> tuple[int, int]:
    """Height and width in pixels; one number is both."""
    value: Any = reader.get(key, default=default)
    pair = value if isinstance(value, (list, tuple)) else (value, value)
    if len(pair) != 2 or not all(type(edge) is int and 1 <= edge <= MOST_EDGE for edge in pair):
        raise ConfigError(
            f"{reader.place}{key} is {shown(value)}; it must be a whole number from 1 to {MOST_EDGE}, or two of them: "
            "height and width"
        )
    return pair[0], pair[1]


def reads_pixels(batch: Batch) -> Tensor:
    """The batch's `pixel_values`. [B, channels, height, width]"""
    return needed(batch.pixel_values, "pixel_values [B, channels, height, width]")


class PictureEncoder(Network):
    """pixels ─ `embed` ─ `blocks` ─ …; a recipe's constructor makes both."""

    READS = ("pixel_values",)

    embed: Patches
    blocks: Stack

    @property
    def width(self) -> int:
        return self.blocks.spec.width

    @property
    def max_tokens(self) -> int:
        return self.embed.spec.tokens

    def sides(self) -> dict[str, Stack]:
        return {"image": self.blocks}

    def places(self, batch: Batch) -> dict[str, list[str]]:
        return {"image": self.embed.places()}
