"""Guitar clips by number: each a function of the seed and its number, made when it is asked for.

    rows = read_rows("synthetic guitar", kind="guitar", clips=2000, seconds=2.0, pedals={"delay": 0.5})
    rows[7]        {"file": {"array": …, "sampling_rate": 16000}, "notes": […], "pedals": ["delay"]}
    rows.clip(7)   ((waveform, rate), notes, pedals, recipe)

Nothing is written to a disk unless `write` is called, which makes a folder that `read_rows` reads again.
"""

from __future__ import annotations

import json
import math
import wave
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from glassformer.data.sequence import ColumnNames, Row, RowSchema, RowSequence, RowSource
from glassformer.errors import DataError
from glassformer.files import error_reason
from glassformer.files.atomic import removed_on_failure
from glassformer.files.schema import Allowed, Schema, Seed, at_least, parse
from glassformer_guitar.pedals import (
    PROBABILITIES,
    apply_pedals,
    check_pedals,
    draw_chain,
    full_scale,
)
from glassformer_guitar.playing import Content, Note, Part, play
from glassformer_guitar.strings import Guitar, body, pluck, soften

LEVELS = (0.4, 0.9)
"""The range of the peak of a clip; full scale is 1."""
RELEASE_S = 0.03
"""How long a note fades that is stopped."""
SOME_CONTENTS = Allowed(f"a list of {', '.join(get_args(Content))}", len)


@dataclass(frozen=True, kw_only=True)
class GuitarOptions(Schema):
    """What the clips of a synthetic guitar are like, or those of a folder of recordings.

    clips: how many
    seconds: of each
    sample_rate_hz: samples a second
    seed: another one gives other clips
    contents: of what kinds: note, chord, riff; recordings have none
    pedals: pedal → probability, or both it and settings that are fixed: {overdrive: {probability: 1, gain: 8}}; null:
        none, all dry
    part: "train" and "test" share no note, chord or place on the neck, or no second of a recording; "all" has both
    dry: rows have a column `dry` too, the sound before the pedals
    """

    clips: Annotated[int, at_least(1, 10**9)] = 1_000
    seconds: Annotated[float, at_least(0.1, 600.0)] = 2.0
    sample_rate_hz: Annotated[int, at_least(8_000, 96_000)] = 16_000
    seed: Seed = 0
    contents: Annotated[Sequence[Content], SOME_CONTENTS] = ("note", "chord", "riff")
    pedals: Mapping[str, Any] | None = field(default_factory=lambda: dict(PROBABILITIES))
    part: Part = "all"
    dry: bool = False

    def validate(self) -> None:
        """Raises: ConfigError: unknown pedals, or settings that they do not have."""
        object.__setattr__(self, "pedals", check_pedals(self.pedals or {}))

    def fingerprint(self) -> str:
        """Of two guitars with the same one, all clips are the same."""
        return json.dumps(asdict(self), default=list, sort_keys=True)


class GuitarClip(NamedTuple):
    """A clip of a guitar.

    sound: (waveform [samples] float32, sample rate in Hz)
    notes: what is played
    pedals: their names, in order
    recipe: all that it was made of, JSON data: of a synthetic guitar, `render(recipe)` gives the sound again
    """

    sound: tuple[NDArray[np.float32], int]
    notes: list[dict[str, Any]]
    pedals: list[str]
    recipe: dict[str, Any]


class ClipRows(RowSequence):
    """Clips by number as rows: `file` (samples and rate), `dry` where it is asked for, `notes`, `pedals`."""

    def __init__(self, options: GuitarOptions, name: str, columns: ColumnNames = None) -> None:
        self.options, self.name = options, name
        schema = RowSchema(columns)
        self._project = schema.project
        schema.validate(self._row(0), f"{name}: clip 0")
        self.columns, self.kinds = schema.columns, schema.kinds

    @abstractmethod
    def recipe(self, index: int) -> dict[str, Any]:
        """What a clip is made of, with its `notes` and `pedals`; `through`: pedals that it went through already."""

    @abstractmethod
    def sound(self, recipe: Mapping[str, Any]) -> NDArray[np.float32]:
        """The samples of a recipe. [samples]"""

    def clip(self, index: int, *, dry: bool = False) -> GuitarClip:
        """A clip; `dry`: the same as it was before the pedals."""
        recipe = self.recipe(index)
        if dry:
            recipe["pedals"] = []
        pedals = [*recipe.get("through", ()), *(link["pedal"] for link in recipe["pedals"])]
        return GuitarClip((self.sound(recipe), self.options.sample_rate_hz), recipe["notes"], pedals, recipe)

    def __len__(self) -> int:
        return self.options.clips

    def row(self, index: int) -> Row:
        return self._project(self._row(index))

    def where(self, index: int) -> str:
        return f"{self.name}: clip {index}"

    def items(self) -> Iterator[GuitarClip]:
        """All clips, one after the other, each made when it is its turn."""
        return map(self.clip, range(len(self)))

    def write(self, folder: Path, progress: Callable[[int], None] = lambda done: None) -> None:
        """Write the clips as 16-bit wav files, with a `metadata.jsonl` of their notes, pedals and recipes.

        Raises: DataError: the folder is there already, or cannot be written.
        """
        try:
            folder.mkdir(parents=True)
            with removed_on_failure(folder), (folder / "metadata.jsonl").open("x", encoding="utf-8") as table:
                for index, clip in enumerate(self.items()):
                    name = f"{index:06}.wav"
                    with wave.open(str(folder / name), "wb") as file:
                        file.setparams((1, 2, clip.sound[1], 0, "NONE", "not compressed"))
                        file.writeframes((clip.sound[0] * 32_767).astype("<i2").tobytes())
                    row = {"file_name": name, "notes": clip.notes, "pedals": clip.pedals, "recipe": clip.recipe}
                    table.write(json.dumps(row) + "\n")
                    progress(1)
        except FileExistsError:
            raise DataError(f"{folder}: already exists; move it away, or name another folder") from None
        except OSError as problem:
            raise DataError(f"{folder}: cannot be written: {error_reason(problem)}") from problem

    def _row(self, index: int) -> Row:
        clip, dry = self.clip(index), self.clip(index, dry=True) if self.options.dry else None
        sounds = {"file": clip, "dry": dry} if dry else {"file": clip}
        # What a clip of a recording is called where it is listened to.
        recipe = clip.recipe
        named = {"path": recipe["recording"], "title": recipe["title"]} if "recording" in recipe else {}
        samples = {key: {"array": x.sound[0], "sampling_rate": x.sound[1], **named} for key, x in sounds.items()}
        return {**samples, "notes": clip.notes, "pedals": clip.pedals}


class GuitarRows(ClipRows):
    """Clips of a synthetic guitar as rows."""

    def __init__(self, options: GuitarOptions, name: str = "guitar", columns: ColumnNames = None) -> None:
        super().__init__(options, name, columns)
        self.fingerprint = options.fingerprint()

    def recipe(self, index: int) -> dict[str, Any]:
        """What a clip is made of: the content, the instrument, the notes, the pedals with their settings."""
        options = self.options
        draw = np.random.default_rng([options.seed, index])
        content = options.contents[int(draw.integers(len(options.contents)))]
        notes, title = play(content, options.seconds, options.part, draw)
        guitar = Guitar(
            pick=float(draw.uniform(0.08, 0.3)),
            pickup=float(draw.uniform(0.08, 0.28)),
            brightness=float(draw.uniform(0.4, 0.95)),
            ring=float(draw.uniform(2.5, 6.0)),
            body=float(draw.uniform(0.0, 1.0)),
        )
        return {
            "content": content,
            "title": title,
            "seconds": options.seconds,
            "sample_rate_hz": options.sample_rate_hz,
            "level": float(draw.uniform(*LEVELS)),
            "noise": int(draw.integers(2**31)),
            "guitar": asdict(guitar),
            "notes": list(map(asdict, notes)),
            "pedals": draw_chain(options.pedals or {}, draw),
        }

    def sound(self, recipe: Mapping[str, Any]) -> NDArray[np.float32]:
        return render(recipe)


class GuitarSource(RowSource):
    """A synthetic guitar as a source of rows."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name, self._options = name, parse(GuitarOptions, options, "guitar")

    def indexed(self, columns: ColumnNames, limit: int) -> GuitarRows:
        return GuitarRows(self._options, self.name, columns)

    def stamp(self) -> list[Any]:
        return [self._options.fingerprint()]


def render(recipe: Mapping[str, Any]) -> NDArray[np.float32]:
    """The samples of a recipe: strings, body, pedals. [samples]"""
    rate, seconds = int(recipe["sample_rate_hz"]), float(recipe["seconds"])
    guitar, draw = Guitar(**recipe["guitar"]), np.random.default_rng(recipe["noise"])
    total = math.ceil(seconds * rate)
    sound = np.zeros(total)
    notes = [Note(**note) for note in recipe["notes"]]
    for note in notes:
        start = round(note.start_s * rate)
        length = min(round((note.seconds + RELEASE_S) * rate), total - start)
        if length < 8:
            continue
        string = pluck(guitar, note.midi, length, rate, draw, damped=note.damped)
        fade = min(round(RELEASE_S * rate), length)
        if start + length < total:
            string[-fade:] *= np.linspace(1.0, 0.0, fade)
        sound[start : start + length] += note.velocity * string
    dry = soften(body(guitar, sound, rate), rate)
    wet = full_scale(apply_pedals(full_scale(dry), rate, recipe["pedals"]))
    return (float(recipe["level"]) * wet).astype(np.float32)
