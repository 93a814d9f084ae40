"""Options of the tour of sound: the riff, and what is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from glassformer.files.schema import Doc, NonNegativeInt, Schema, at_least

GUITAR = "Riff"
Seconds = Annotated[float, at_least(0.1, 120.0)]


@dataclass(frozen=True, kw_only=True)
class RiffOptions(Schema):
    """The riff of `glassformer guitar`."""

    seed: Annotated[NonNegativeInt, Doc("Random seed of the riff, its pedals, and how it is played on.", GUITAR)] = 0
    seconds: Annotated[Seconds, Doc("How long it is played on, in seconds.", GUITAR)] = 10.0
    recordings: Annotated[Path | None, Doc("Folder of dry recordings, in place of the synthetic guitar.", GUITAR)] = (
        None
    )
    models: Annotated[Path | None, Doc("Folder of the models of examples/guitar-own.yaml.", GUITAR)] = None
