"""A synthetic guitar as a data source: plucked strings, what is played on them, and pedals, by a seed and a number.

strings.py     plucked strings (Karplus-Strong) with pick position, pickup and body
playing.py     single notes, strummed chords and riffs, drawn by a random generator
pedals.py      effects, and chains of them drawn by probabilities · filters.py: what they are made of
clips.py       clips by number, as rows: read_rows("guitar", kind="guitar", clips=1000)
recordings.py  real recordings in the layouts of the IDMT-SMT data sets
recording_clips.py  clips of recordings, behind pedals as those of the synthetic guitar
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from glassformer.files.lazy import LazyPackage

if TYPE_CHECKING:
    from glassformer_guitar.clips import GuitarClip, GuitarOptions, GuitarRows
    from glassformer_guitar.pedals import PEDALS, apply_pedals

__all__ = ["PEDALS", "GuitarClip", "GuitarOptions", "GuitarRows", "apply_pedals"]

# Imported on first use: the help of its command imports neither NumPy nor torch.
_LAZY = {
    **dict.fromkeys(("GuitarClip", "GuitarOptions", "GuitarRows"), "glassformer_guitar.clips"),
    **dict.fromkeys(("PEDALS", "apply_pedals"), "glassformer_guitar.pedals"),
}
sys.modules[__name__].__class__ = LazyPackage
