"""Example corpora: a word with two meanings, sentences with two structures.

    examples("adoption")    twenty sentences; in fifteen the word *adoption* itself, of a child or of something new
    examples("flies")       flies that pass, and flies that like bananas

Contextual embeddings tell the meanings apart; static word vectors cannot. The sentences are in `examples.csv`.
"""

from __future__ import annotations

import csv
from pathlib import Path

from glassformer.data.sequence import InMemoryRows, RowSequence
from glassformer.errors import DataError, nearest


def examples(name: str) -> RowSequence:
    """Load an example corpus: a sentence in `text`, its meaning in `label`.

    Raises: DataError: an unknown corpus, with the names of all.
    """
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    corpora = list(dict.fromkeys(row["corpus"] for row in rows))
    if name not in corpora:
        raise DataError(f"no examples {name!r}{nearest(name, corpora)}; there are: {', '.join(corpora)}")
    chosen = [{"text": row["text"], "label": row["label"]} for row in rows if row["corpus"] == name]
    return InMemoryRows(chosen, name=name)
