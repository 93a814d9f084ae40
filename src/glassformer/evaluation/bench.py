"""Benchmark of encoding: the speed of each precision on this machine, and the error of its vectors.

The reference is the plain network in fp32, one text at a time: no packing, no packed weights. Every precision encodes
the same texts, in turn, so that a drifting clock speed affects all of them equally; the medians are compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glassformer.engine.encoder import BatchTokenizer, encode
from glassformer.engine.prepare import PRECISIONS, prepare, unprepare
from glassformer.models import Network
from glassformer.reports.report import Report
from glassformer.reports.table import Table

PLAIN_TEXTS = 64  # of the slow plain network, one at a time; its time is scaled up to all texts

# Sentences of our own, from two words to a paragraph, in the proportions of everyday text.
SAMPLE = (
    "Thank you.",
    "The kettle is on.",
    "Time flies like an arrow.",
    "Fruit flies like a banana.",
    "The bell rang twice, and the door stayed shut.",
    "A model is small enough to read when its author can draw it from memory.",
    "The bridge opens at noon, so the ferry leaves ten minutes early on Sundays.",
    "She measured the table twice, wrote both numbers down, and cut the cloth to the larger one.",
    "When the orchestra had tuned, the hall fell so quiet that you could hear the rain on the roof.",
    "Prices of potatoes rose for the third month in a row, while those of onions hardly moved at all.",
    "My grandfather repaired clocks; he said that a clock which is right twice a day is still a bad clock.",
    "The committee agreed on the date, the place, the speakers and the lunch, and then, an hour later, discovered that "
    "no one had booked the room, which by that time had been given to a choir.",
    "To find out whether a word is used in one sense or in another, look at the words around it: a bank with a river "
    "near it is rarely the kind that keeps money, although some towns have been unlucky enough to build one there.",
    "We walked along the old railway for most of the afternoon. The rails were gone, but the stations still stood, one "
    "of them a cafe, another a private house with a platform for a garden, and the last one empty, its clock stopped "
    "at twenty past four, its timetable, under glass, promising trains to the coast until a summer long ago.",
)


@dataclass(frozen=True, kw_only=True)
class PrecisionRow:
    """One precision: its median speed, and the difference of its vectors from the reference."""

    precision: str
    seconds: float
    sentences_per_second: float
    tokens_per_second: float
    speedup: float  # over the plain network with one text at a time
    largest_difference: float
    smallest_cosine: float


@dataclass(frozen=True, kw_only=True, repr=False)
class EncodingBench(Report, kind="encoding-bench"):
    """Throughput of `encode` in each precision.

    model, about: as it was named; its family, size and device
    sentences: how many were encoded
    rows: the plain network's first
    """

    model: str
    about: str
    sentences: int
    rows: list[PrecisionRow]

    notes = ("plain: one text at a time, the network as loaded; differences are from its vectors.",)

    @property
    def caption(self) -> str:
        return f"{self.model} ({self.about}): {self.sentences:,} sentences"

    def tables(self) -> list[Table]:
        headings = ["precision", "sentences/s", "tokens/s", "speed", "largest difference", "smallest cosine"]
        rows = [
            [
                row.precision,
                f"{row.sentences_per_second:,.0f}",
                f"{row.tokens_per_second:,.0f}",
                f"{row.speedup:.1f} ×",
                f"{row.largest_difference:.1e}",
                f"{row.smallest_cosine:.6f}",
            ]
            for row in self.rows
        ]
        return [Table(headings, rows)]


def sample_texts(count: int) -> list[str]:
    """Sample sentences of realistic lengths."""
    return [SAMPLE[i % len(SAMPLE)] for i in range(count)]


def compare_precisions(
    network: Network,
    tokenizer: BatchTokenizer,
    texts: Sequence[str],
    folder: Path | None = None,
    *,
    precisions: Sequence[str] = PRECISIONS,
    repeats: int = 3,
    progress: Callable[[int], None] = lambda done: None,
) -> list[PrecisionRow]:
    """Encode the texts with the plain network and in each precision; the network is plain again afterwards.

    Args:
        texts: what to encode. [N]
        repeats: timed runs of each, after a warm-up run
        progress: called with how many more runs are done
    Returns: a row for the plain network ("plain"), then one for each precision.
    """
    tokens = sum(map(len, tokenizer.batch_ids(texts, network.max_tokens)[0]))
    single = [[text] for text in texts[:PLAIN_TEXTS]]
    seconds: dict[str, list[float]] = {name: [] for name in ("plain", *precisions)}
    vectors: dict[str, np.ndarray] = {}
    for run in range(repeats + 1):
        for name in seconds:
            if name == "plain":
                unprepare(network)
            else:
                prepare(network, name)
            batches = single if name == "plain" else [texts]
            start = time.perf_counter()
            encoded = [encode(network, tokenizer, batch, folder, progress=False) for batch in batches]
            elapsed = (time.perf_counter() - start) * len(texts) / sum(map(len, batches))
            vectors[name] = np.concatenate(encoded)
            if run > 0:  # the first warms up
                seconds[name].append(elapsed)
            progress(1)
    unprepare(network)
    reference = vectors["plain"]
    plain = statistics.median(seconds["plain"])
    return [
        PrecisionRow(
            precision=name,
            seconds=(median := statistics.median(seconds[name])),
            sentences_per_second=len(texts) / median,
            tokens_per_second=tokens / median,
            speedup=plain / median,
            largest_difference=float(np.abs(vectors[name][: len(reference)] - reference).max()),
            smallest_cosine=_smallest_cosine(vectors[name][: len(reference)], reference),
        )
        for name in seconds
    ]


def _smallest_cosine(a: np.ndarray, b: np.ndarray) -> float:
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(((a * b).sum(axis=1) / np.maximum(lengths, 1e-12)).min())
