"""Hard-negative mining: for each text, the nearest of the other texts that do not belong to it.

    question      its passage      the nearest passages, by the vectors of a sentence encoder
    who … ?       Emma was …       Emma was …    Jane was …    A novel …
                                   own: left out ─┘   └─ a hard negative, where it is less near than its own by a margin

A text that is nearer than the row's own is often right as well, and was only not labelled: the margin leaves it out.
Source: Karpukhin et al. 2020, section 3.2; by a margin: Moreira et al. 2024, "NV-Retriever", section 4.1.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.options import MiningOptions, ReadingOptions
from glassformer.data.rows import output_format, read_rows, write_rows
from glassformer.errors import ConfigError, DataError
from glassformer.loaded_model import LoadedModel
from glassformer.model import load
from glassformer.sentence_embeddings import SentenceEmbedder
from glassformer.tasks.columns import check_columns, columns_of, parse_rows, rows_with, text_of
from glassformer.tasks.types import Dataset

TEXTS = {"text": "text", "text_pair": "text_pair"}
QUERIES_AT_ONCE = 512
"""Texts whose similarities with all others are in memory together."""


@dataclass(frozen=True)
class MinedNegatives:
    """What was written, and how many rows have fewer negatives than asked for.

    rows: as they were, with a list `negative`; or pairs with a `label`
    short: rows without enough texts that are far enough from their own
    """

    rows: list[dict[str, Any]]
    short: int


def mine_file(file: Path, options: MiningOptions, reading: ReadingOptions | None = None) -> MinedNegatives:
    """Write the rows of a file with hard negatives.

    Raises: DataError: rows without the texts, or too few texts. UnsupportedError: the model gives no vectors.
    """
    if output_format(options.output) != "jsonl" and not options.labelled:
        raise ConfigError(f"{options.output}: a list of negatives needs JSON Lines: let its name end in .jsonl")
    reading = reading or ReadingOptions()
    rows = read_rows(file, **reading.keywords())
    if reading.skip_bad_rows:
        names = columns_of(TEXTS, options.columns)
        rows = rows_with(rows, dict.fromkeys(names.values(), "text"))
    mined = mine_negatives(rows, load(options.model), options)
    write_rows(options.output, mined.rows, list(mined.rows[0]))
    return mined


def mine_negatives(rows: Dataset, model: LoadedModel, options: MiningOptions) -> MinedNegatives:
    """The rows with hard negatives, from the nearest neighbours of each text by the model's vectors.

    Raises: DataError: rows without the texts, or fewer than two different ones.
    """
    columns = columns_of(TEXTS, options.columns)
    check_columns(rows, columns)
    pairs = list(parse_rows(rows, lambda row: (text_of(row, columns["text"]), text_of(row, columns["text_pair"]))))
    own: dict[str, set[str]] = defaultdict(set)
    for text, pair in pairs:
        own[text].add(pair)
    candidates = list(dict.fromkeys(pair for _, pair in pairs))
    if len(candidates) < 2:
        raise DataError(
            f"{rows.where(0)}: {columns['text_pair']!r} is the same text in every row; there is no negative to find"
        )
    negatives = dict(_nearest(SentenceEmbedder(model), own, candidates, options))
    short = sum(len(negatives[pair]) < options.count for pair in pairs)
    if short:
        warnings.warn(
            f"{short:,} of {len(pairs):,} rows have fewer than {options.count} negatives: others are too near; lower "
            "margin, or raise depth",
            stacklevel=2,
        )
    if not options.labelled:
        every = zip(iter(rows), pairs, strict=True)
        return MinedNegatives([{**row, "negative": negatives[pair]} for row, pair in every], short)
    labelled = [
        {columns["text"]: pair[0], columns["text_pair"]: text, "label": label}
        for pair in dict.fromkeys(pairs)
        for text, label in [(pair[1], 1), *((text, 0) for text in negatives[pair])]
    ]
    return MinedNegatives(labelled, short)


def _nearest(
    embedder: SentenceEmbedder, own: Mapping[str, set[str]], candidates: list[str], options: MiningOptions
) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """For each pair, the nearest candidates that do not belong to its text, and are further away than its own."""
    texts, places = list(own), {text: place for place, text in enumerate(candidates)}
    vectors = embedder.encode_document(candidates)
    for start in range(0, len(texts), QUERIES_AT_ONCE):
        chunk = texts[start : start + QUERIES_AT_ONCE]
        similarities = np.asarray(embedder.similarity(embedder.encode_query(chunk), vectors))
        for text, row in zip(chunk, similarities, strict=True):
            right = own[text] | {text}  # a text is no negative of itself
            nearest = _largest(row, options.skip + options.depth + len(right))
            order = [place for place in nearest if candidates[place] not in right]
            considered = order[options.skip : options.skip + options.depth]
            for pair in own[text]:
                most = row[places[pair]] - options.margin
                yield (text, pair), [candidates[place] for place in considered if row[place] <= most][: options.count]


def _largest(values: np.ndarray, count: int) -> list[int]:
    """The places of the largest values, the largest first; of equal ones, the first. Only these are sorted."""
    places = np.arange(len(values))
    if count < len(values):
        places = np.flatnonzero(values >= np.partition(values, len(values) - count)[len(values) - count])
    ranked: list[int] = places[np.argsort(-values[places], kind="stable")][:count].tolist()
    return ranked
