"""A tour of sound: a riff is made up, its pedals are named, it becomes codes, is overdriven, is played on.

    demo = GuitarDemo(GuitarModels.load(), seed=3)
    page_of(list(demo.sections(no_bar)), demo).save("guitar.html")

`glassformer guitar` prints its parts and shows the page.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import log2
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Any, cast

from glassformer.errors import DataError
from glassformer.files import nearest_path

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.audio.listening import Sound, SoundExample, SoundMark
    from glassformer.explorer.listening_page import ListeningPage
    from glassformer.model import Model
    from glassformer_guitar.clips import ClipRows, GuitarClip

Progress = Callable[[int, int], None]
"""Called with how many of how many are done."""
CHECKPOINTS = "package:glassformer_guitar/checkpoints/"
CODEC = "package:glassformer/checkpoints/guitar_codec"
RIFF_SECONDS = 3.0
"""One bar at 80 beats per minute: long enough to hear a delay, short enough for a page with audio."""
SECONDS = 10.0
"""How long a riff is played on."""
PEDALS = (1, 3)
"""Fewest and most pedals of the riff."""
OVERDRIVE = {"overdrive": {"gain": 10, "tone_hz": 4_250}}
"""The pedal that a model has learnt to stand in for: that of examples/guitar-wet.yaml."""
SAMPLING = {"temperature": 0.9, "top_k": 64}
NEXT = (
    f"glassformer listen {CODEC} --task reconstruct --data my-riff.wav",
    "glassformer train examples/guitar-codec.yaml",
    "glassformer train examples/guitar-own.yaml --data recordings/",
)
ABOUT = (
    "A riff that a synthetic guitar makes up; what models of sound hear in it, write it as, and play on from it. "
    "All of it was computed on this computer."
)
ABOUT_RECORDINGS = (
    "A recording of a guitar; what models of sound hear in it, write it as, and play on from it. "
    "All of it was computed on this computer."
)


@dataclass(frozen=True)
class GuitarModels:
    """The models of the demo: of pedals from sound; a codec; decoders over its codes, that overdrive and play on."""

    pedals: Model
    codec: Model
    wet: Model
    player: Model
    folder: Path | None = None

    @classmethod
    def load(cls, folder: Path | None = None) -> GuitarModels:
        """The checkpoints that are part of this package; or the runs of examples/guitar-own.yaml, in their folder."""
        from glassformer.model import load

        if folder is not None and not folder.is_dir():
            raise DataError(f"{folder}: no such folder of models{nearest_path(folder)}")
        start = CHECKPOINTS if folder is None else f"{folder}/"
        names = [f"{start}{name}" for name in ("pedals", "codec", "wet", "player")]
        names[1] = CODEC if folder is None else names[1]
        pedals, codec, wet, player = (load(name, offline=True) for name in names)
        return cls(pedals, codec, wet, player, folder)


@dataclass(frozen=True)
class Section:
    """A part of the demo: what it is, and what was made, with the facts that are printed."""

    title: str
    example: SoundExample


class GuitarDemo:
    """The demo: a riff, and what the models make of it.

    Args:
        seed: of the riff and of what is drawn
        seconds: how long it is played on
        recordings: a folder, whose clips take the place of riff and chord
    """

    def __init__(
        self, models: GuitarModels, seed: int = 0, seconds: float = SECONDS, recordings: Path | None = None
    ) -> None:
        self.models, self.seed, self.seconds, self.recordings = models, seed, seconds, recordings
        if recordings is not None and not recordings.exists():
            raise DataError(f"{recordings}: no such folder of recordings{nearest_path(recordings)}")
        rows = self._clips("riff")
        low, high = PEDALS
        number = next((x for x in range(len(rows)) if low <= len(rows.recipe(x)["pedals"]) <= high), 0)
        self.clip, self.dry = rows.clip(number), rows.clip(number, dry=True)
        chords = self._clips("chord", pedals=OVERDRIVE)
        self.chord, self.driven = chords.clip(0, dry=True), chords.clip(0)

    def command(self, seed: int, path: Callable[[object], str] = str) -> str:
        """The command that makes it, with this seed.

        Args:
            path: how a folder is shown
        """
        words = ["glassformer", "guitar", "--seed", str(seed)]
        words += ["--seconds", f"{self.seconds:g}"] if self.seconds != SECONDS else []
        words += ["--recordings", path(self.recordings)] if self.recordings else []
        words += ["--models", path(self.models.folder)] if self.models.folder else []
        return join(words)

    def _clips(self, content: str, **options: Any) -> ClipRows:
        from glassformer.data.rows import read_rows

        options |= {"clips": 100, "seconds": RIFF_SECONDS, "seed": self.seed, "part": "test"}
        if self.recordings is None:
            options["contents"] = [content]
        rows: Any = read_rows(self.recordings or "a guitar", kind="guitar", **options)
        return cast("ClipRows", rows)

    def sections(self, bar: Callable[[str], AbstractContextManager[Progress]]) -> Iterator[Section]:
        """Its parts, each when it is made.

        Args:
            bar: shows how many frames of codes are made, under a name
        """
        yield self._pedals()
        yield self._codes()
        with bar("overdriving") as progress:
            section = self._converted(progress)
        yield section
        with bar("playing on") as progress:
            section = self._plays_on(progress)
        yield section

    def _pedals(self) -> Section:
        from glassformer.audio.listening import SoundExample
        from glassformer_guitar.naming.pipeline import PedalNames

        samples, rate = self.clip.sound
        named = PedalNames(self.models.pedals, "pedals")({"array": samples, "sampling_rate": rate})
        chain = [label.label for label in named]
        facts = {
            **({"notes": " ".join(mark.label for mark in notes)} if (notes := self._notes()) else {}),
            "pedals named": " → ".join(chain) or "none",
            "truly": " → ".join(self.clip.pedals) or "none",
        }
        played = "A synthetic guitar plays it" if self.recordings is None else "It was recorded"
        about = f"{played}, and goes through pedals; a model names them from the sound alone."
        sounds = [self._sound("dry", self.dry, marks=self._notes()), self._sound("through its pedals", self.clip)]
        title = self.clip.recipe["title"]
        title = title if self.recordings else title[0].upper() + title[1:]
        return Section(title, SoundExample(title, sounds, about, facts))

    def _codes(self) -> Section:
        from glassformer.audio.listening import SoundExample

        samples, rate = self.dry.sound
        encoded = self.models.codec.encode_audio(samples, sample_rate_hz=rate)
        decoded = self._decoded("decoded", encoded.codes, about="from its codes alone")
        books, frames = encoded.codes.shape
        bits = encoded.frame_rate_hz * books * log2(self._entries)
        facts = {
            "codes": f"{books} codebooks × {frames} frames, {encoded.frame_rate_hz:g} a second",
            "bit rate": f"{bits / 1000:.3g} kbit/s, of {16 * rate / 1000:.0f} as 16-bit samples",
            "mel distance": f"{_distance(decoded, self.dry):.1f} dB",
        }
        about = "A neural audio codec writes sound as a few whole numbers a frame: the tokens that a transformer reads."
        sounds = [self._sound("original", self.dry, marks=self._notes()), decoded]
        return Section("Sound as codes", SoundExample("Sound as codes", sounds, about, facts))

    def _converted(self, progress: Progress) -> Section:
        from glassformer.audio.listening import SoundExample

        samples, rate = self.chord.sound
        encoded = self.models.codec.encode_audio(samples, sample_rate_hz=rate)
        frames, began = encoded.codes.shape[1], time.perf_counter()
        shown = _sum_up(progress, frames)
        codes = self.models.wet.convert_codes(encoded.codes, seed=self.seed, progress=shown)
        took = time.perf_counter() - began
        made = self._decoded(
            "by the model", codes, about="from the codes that the model makes of those of the dry sound"
        )
        dry, truth = self._sound("dry", self.chord), self._sound("by the pedal", self.driven)
        facts = {
            "from the truth": (
                f"{_distance(made, self.driven):.1f} dB, and the dry sound {_distance(dry, self.driven):.1f}"
            ),
            "computed in": f"{took:.1f} s: {frames / encoded.frame_rate_hz / took:.2g} × real time",
        }
        about = (
            "A model has learnt what an overdrive pedal does to the codes of a sound; the pedal itself is next to it."
        )
        return Section("Dry to wet", SoundExample("Dry to wet", [dry, made, truth], about, facts))

    def _plays_on(self, progress: Progress) -> Section:
        from glassformer.audio.listening import SoundExample, SoundMark

        samples, rate = self.dry.sound
        encoded = self.models.codec.encode_audio(samples, sample_rate_hz=rate)
        frames = max(round(self.seconds * encoded.frame_rate_hz), 1)
        began = time.perf_counter()
        codes = self.models.player.continue_codes(
            encoded.codes, frames, seed=self.seed, progress=_sum_up(progress, frames), **SAMPLING
        )
        took = time.perf_counter() - began
        made = frames / encoded.frame_rate_hz
        start = encoded.codes.shape[1] / encoded.frame_rate_hz
        here = [*self._notes(), SoundMark("continued from here", start)]
        facts = {
            "from": f"{start:.1f} s",
            "played on": f"{made:.1f} s, in {took:.1f} s of computing: {made / took:.2g} × real time",
        }
        about = "A decoder predicts the next codes, frame by frame, as a language model does the next words."
        sounds = [self._sound("riff", self.dry, marks=self._notes()), self._decoded("played on", codes, marks=here)]
        return Section("Played on", SoundExample("Played on", sounds, about, facts))

    # ------------------------------------------------------------------------------------------------- parts

    @property
    def _entries(self) -> int:
        from glassformer.engine.codec import require_codec

        return require_codec(self.models.codec.network).spec.quantizer.entries

    def _notes(self) -> list[SoundMark]:
        from glassformer.tasks.transcribe.sounds import note_marks

        return note_marks({"notes": self.clip.notes})

    def _sound(self, name: str, clip: GuitarClip, **more: Any) -> Sound:
        from glassformer.audio.listening import Sound

        return Sound(name, *clip.sound, **more)

    def _decoded(self, name: str, codes: Tensor, **more: Any) -> Sound:
        from glassformer.engine.codec import decoded_sound, require_codec

        return decoded_sound(require_codec(self.models.codec.network), name, codes, **more)


def page_of(sections: Sequence[Section], demo: GuitarDemo) -> ListeningPage:
    """The page of the demo."""
    from glassformer.explorer.listening_page import ListeningPage
    from glassformer.reports.page import shown_path

    about = ABOUT if demo.recordings is None else ABOUT_RECORDINGS
    examples = [section.example for section in sections]
    return ListeningPage(examples, "Glassformer plays guitar", about=about, command=demo.command(demo.seed, shown_path))


def no_bar(title: str) -> AbstractContextManager[Progress]:
    """No progress bar, for programs."""
    return nullcontext(lambda done, of: None)


def _sum_up(progress: Progress, of: int) -> Callable[[int], None]:
    """Called with how many more are done, it tells how many are."""
    done = 0

    def advance(more: int) -> None:
        nonlocal done
        done += more
        progress(done, of)

    return advance


def _distance(made: Sound, clip: GuitarClip) -> float:
    """The mel distance of a sound to a clip, in dB."""
    import torch

    from glassformer.tasks.codec.scores import mel_distance

    target, rate = clip.sound
    ours, theirs = torch.as_tensor(made.samples)[None], torch.as_tensor(target)[None]
    return float(mel_distance(ours[:, : len(target)], theirs[:, : ours.shape[1]], rate))
