"""What is played: a note, a strummed chord or a riff, as notes on strings with their times.

Drawn by a random generator alone. Some places on the neck and some chords are kept for tests: `is_held_out`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from glassformer.audio.listening import NOTE_NAMES, note_name
from glassformer_guitar.strings import FRETS, TUNING

Content = Literal["note", "chord", "riff"]
Part = Literal["all", "train", "test"]

OPEN_CHORDS = {
    "E": "022100",
    "Em": "022000",
    "A": "x02220",
    "Am": "x02210",
    "D": "xx0232",
    "Dm": "xx0231",
    "G": "320003",
    "C": "x32010",
    "F": "133211",
    "E7": "020100",
    "A7": "x02020",
    "D7": "xx0212",
    "G7": "320001",
    "C7": "x32310",
    "B7": "x21202",
}
"""Chord → the fret of each string from the lowest, x = not played."""
BARRE_SHAPES = {"": "022100", "m": "022000", "7": "020100", "5": "022xxx"}
"""Chords on the lowest string, moved up the neck by a barre: their kind → the shape."""
PENTATONIC = (0, 3, 5, 7, 10)  # semitones above the root of the minor pentatonic scale, which rock riffs are made of


@dataclass(frozen=True, slots=True)
class Note:
    """A note: which string (0 = the lowest) at which fret, its MIDI number, when, how long, how hard, how damped."""

    string: int
    fret: int
    midi: int
    start_s: float
    seconds: float
    velocity: float = 1.0
    damped: float = 1.0


def play(content: Content, seconds: float, part: Part, draw: np.random.Generator) -> tuple[list[Note], str]:
    """The notes of a clip, and what they are called: "A2", "Em", "riff in G"."""
    return {"note": _note, "chord": _chord, "riff": _riff}[content](seconds, part, draw)


def is_held_out(name: str) -> bool:
    """Whether a note or chord belongs to the test part: a fixed fifth of all."""
    return zlib.crc32(name.encode()) % 5 == 0


def _belongs(name: str, part: Part) -> bool:
    return part == "all" or is_held_out(name) == (part == "test")


def _note(seconds: float, part: Part, draw: np.random.Generator) -> tuple[list[Note], str]:
    places = [
        (string, fret)
        for string in range(len(TUNING))
        for fret in range(FRETS + 1)
        if _belongs(f"string {string} fret {fret}", part)
    ]
    string, fret = places[int(draw.integers(len(places)))]
    midi = TUNING[string] + fret
    return [Note(string, fret, midi, 0.0, seconds, float(draw.uniform(0.6, 1.0)))], note_name(midi)


def _chord(seconds: float, part: Part, draw: np.random.Generator) -> tuple[list[Note], str]:
    names = [name for name in chord_names() if _belongs(name, part)]
    name = names[int(draw.integers(len(names)))]
    frets = chord_frets(name)
    down, gap = draw.random() < 0.7, float(draw.uniform(0.006, 0.03))
    notes = strum(frets, 0.0, seconds, down=bool(down), gap=gap, velocity=float(draw.uniform(0.6, 1.0)))
    return notes, name


def chord_names() -> list[str]:
    """The chords there are: open ones by name, barred ones with their fret, `A#m @6`."""
    barred = [f"{NOTE_NAMES[(TUNING[0] + fret) % 12]}{kind} @{fret}" for kind in BARRE_SHAPES for fret in range(1, 11)]
    return [*OPEN_CHORDS, *barred]


def chord_frets(name: str) -> list[int | None]:
    """The fret of each string; None = not played."""
    root, _, barre = name.partition(" @")
    if not barre:
        return [None if fret == "x" else int(fret) for fret in OPEN_CHORDS[name]]
    kind = root.lstrip("ABCDEFG").lstrip("#")
    return [None if fret == "x" else int(fret) + int(barre) for fret in BARRE_SHAPES[kind]]


def strum(
    frets: Sequence[int | None],
    start_s: float,
    seconds: float,
    *,
    down: bool = True,
    gap: float = 0.015,
    velocity: float = 0.8,
) -> list[Note]:
    """A chord, string after string, `gap` seconds apart; downwards from the lowest."""
    played = [(string, fret) for string, fret in enumerate(frets) if fret is not None]
    return [
        Note(string, fret, TUNING[string] + fret, start_s + order * gap, max(seconds - order * gap, gap), velocity)
        for order, (string, fret) in enumerate(played if down else played[::-1])
    ]


def _riff(seconds: float, part: Part, draw: np.random.Generator) -> tuple[list[Note], str]:
    """Eighths of a pentatonic scale around a fret, with rests, longer notes and a power chord here and there."""
    root = int(draw.integers(12))
    starts = [fret for fret in range(1, 11) if _belongs(f"riff {root} at {fret}", part)] or [5]
    base, beat = starts[int(draw.integers(len(starts)))], 30.0 / float(draw.uniform(80, 150))  # an eighth
    scale = [
        (string, fret)
        for string in range(6)
        for fret in range(base, base + 5)
        if (TUNING[string] + fret - root) % 12 in PENTATONIC
    ]
    notes: list[Note] = []
    at, now = int(draw.integers(len(scale))), 0.0
    while now < seconds - 0.05:
        eighths = int(draw.choice([1, 1, 1, 2, 2, 4]))
        length, kind = min(eighths * beat, seconds - now), draw.random()
        if kind < 0.12:  # a power chord
            frets = [base, base + 2, base + 2, None, None, None]
            notes += strum(frets, now, length, gap=0.008, velocity=float(draw.uniform(0.6, 1.0)))
        elif kind < 0.9:
            at = int(np.clip(at + draw.integers(-2, 3), 0, len(scale) - 1))
            string, fret = scale[at]
            damped = 0.15 if draw.random() < 0.15 else 1.0
            velocity = float(draw.uniform(0.5, 1.0))
            notes.append(Note(string, fret, TUNING[string] + fret, now, length, velocity, damped))
        now += eighths * beat
    if not notes:
        string, fret = scale[at]
        notes = [Note(string, fret, TUNING[string] + fret, 0.0, seconds)]
    return notes, f"riff in {NOTE_NAMES[root]}"
