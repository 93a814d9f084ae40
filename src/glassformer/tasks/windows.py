"""Language modelling tasks: texts of rows become token ids, sentences, windows of bounded length, and examples.

rows ──encoded───> ids of each text ──────┬─windows──> stretches that fit ──> LanguageTask.make_examples
     └─sentence_windows─> of sentences ────┘
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, TypeVar

import numpy as np
from torch import Tensor

from glassformer.core.flow import Flow
from glassformer.core.losses import IGNORE_INDEX
from glassformer.errors import ConfigError, DataError
from glassformer.loaded_model import LoadedModel
from glassformer.tasks.columns import RowTask, limit_of, placed, row_chunks, text_of
from glassformer.tasks.metrics.metric import Metric, PerplexityMetric
from glassformer.tasks.microbatch import joined, padded
from glassformer.tasks.types import Dataset, Example
from glassformer.text.engine import prefix_and_suffix
from glassformer.text.sentences import sentence_spans
from glassformer.text.tokenizer import Tokenizer

TOKENS = 1024
"""How long an example is where neither the model nor its tokenizer names a limit."""

Made = TypeVar("Made")


def max_example_tokens(model: LoadedModel, max_tokens: int | None) -> int:
    """How many tokens an example may have: `limit_of`, for objectives that fill what there is."""
    return limit_of(model, max_tokens) or TOKENS


def tokens_beside_special(tokens: int, special: int, least: int = 1) -> int:
    """How many of these tokens are left for text besides the special ones.

    Raises: ConfigError: fewer than `least`.
    """
    if tokens - special < least:
        raise ConfigError(
            f"{tokens} tokens leave no room for text besides {special} special ones; give {special + least} or more"
        )
    return tokens - special


@dataclass(frozen=True)
class Frame:
    """The special tokens around what a model reads or says.

    before, after: their ids
    room: how many tokens of text there may be between them
    """

    before: Sequence[int]
    after: Sequence[int]
    room: int

    @classmethod
    def within(cls, before: Sequence[int], after: Sequence[int], tokens: int) -> Frame:
        """A frame that, with its text, has at most this many tokens.

        Raises: ConfigError: there is no room for text.
        """
        return cls(before, after, tokens_beside_special(tokens, len(before) + len(after)))

    def around(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """A text, cut to the room that there is, with its special tokens."""
        return np.array([*self.before, *ids[: self.room], *self.after], dtype=np.int32)


def encode_texts(
    rows: Dataset,
    column: str,
    encode: Callable[[list[Any]], Iterable[Made]],
    text: Callable[[Mapping[str, Any], str], Any] = text_of,
) -> Iterator[Made]:
    """What `encode` makes of the text of each row, many at a time.

    Args:
        text: the text of a row, or several, from the row and the column
    Raises: DataError: a row without text, or one that cannot be encoded, with its file and line.
    """
    for numbers, texts in row_chunks(rows, lambda row: text(row, column)):
        try:
            made = list(encode(texts))
        except DataError:
            for index, one in zip(numbers, texts, strict=True):  # which of them was it?
                with placed(rows, index):
                    list(encode([one]))
            raise
        yield from made


def ids_without_special_tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """The ids of texts without special tokens around them."""
    before, after = prefix_and_suffix(tokenizer.engine)
    framed, _ = tokenizer.batch_ids(texts, None)
    return [ids[len(before) : len(ids) - len(after)] for ids in framed]


def sentence_windows(
    rows: Dataset, column: str, tokenizer: Tokenizer, language: str, room: int
) -> Iterator[tuple[int, list[np.ndarray]]]:
    """The ids of neighbouring sentences that fit together, and the number of their text among all."""
    texts = encode_texts(rows, column, lambda texts: (sentences(tokenizer, text, language) for text in texts))
    return ((number, window) for number, parts in enumerate(texts) for window in windows(parts, room))


def sentences(tokenizer: Tokenizer, text: str, language: str = "en") -> list[np.ndarray]:
    """The ids of each sentence of a text, which is cut into tokens as a whole: laid end to end they are its ids."""
    encoding = tokenizer([text], add_special_tokens=False)
    ids = np.array(encoding["input_ids"][0], dtype=np.int32)
    # A token is of the sentence in which it ends; it may begin with the space behind the one before.
    ends = [end for _, end in encoding.offsets(0)]
    borders = [end for _, end in sentence_spans(text, language)][:-1]
    return [part for part in np.split(ids, np.searchsorted(ends, borders, side="right")) if len(part)]


def windows(parts: Iterable[np.ndarray], room: int) -> Iterator[list[np.ndarray]]:
    """Neighbouring parts together, as many as there is room for; one that alone is longer is cut."""
    held: list[np.ndarray] = []
    for part in parts:
        for piece in (part[start : start + room] for start in range(0, len(part), room)):
            if sum(map(len, held)) + len(piece) > room:
                yield held
                held = []
            held.append(piece)
    if held:
        yield held


def joined_window(window: Sequence[np.ndarray]) -> dict[str, Any]:
    """A window as an example: its ids, and the length of each sentence, by which `apart` finds them again."""
    lengths = np.array([len(sentence) for sentence in window], dtype=np.int32)
    return {"input_ids": np.concatenate(window), "sentences": lengths}


def split_stretches(ids: np.ndarray, lengths: Iterable[int]) -> list[np.ndarray]:
    """Stretches of these lengths, which lie end to end."""
    return np.split(ids, list(accumulate(lengths))[:-1])


def token_labels(labels: Sequence[Any], flow: Flow) -> Tensor:
    """A label for each token, in the layout of its pass. [1, tokens], or [texts, longest]"""
    return padded(labels, IGNORE_INDEX) if flow.packing is None else joined(labels)


class LanguageTask(RowTask):
    """A task whose examples, labels included, are made of texts: language modelling and pre-training."""

    COLUMNS: ClassVar[Mapping[str, str]] = {"text": "text"}
    VALIDATION_METRIC = "perplexity"
    REQUIRES: ClassVar[str] = "texts must not be blank"

    def labels(self, examples: Sequence[Example], flow: Flow) -> Tensor | dict[str, Tensor]:
        return token_labels([example["labels"] for example in examples], flow)

    def metric(self) -> Metric:
        return PerplexityMetric(self.head)
