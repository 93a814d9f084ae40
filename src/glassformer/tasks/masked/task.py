"""Masked language modelling: some tokens are hidden, and have to be found from both sides.

    text     [CLS] fruit flies like a  banana [SEP]         15 % are chosen, anew each time a text is shown; of them
    read     [CLS] fruit [MASK] like a stone  [SEP]         80 % become [MASK], 10 % any word, 10 % stay
    say        ·     ·   flies   ·   ·  banana  ·           and only they count

Source: Devlin et al. 2019, section 3.1; anew each time: Liu et al. 2019, section 4.1; whole words: the code that was
released with the former, in 2019.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from torch import Tensor

from glassformer.core.flow import Flow
from glassformer.data.noise import share
from glassformer.errors import ConfigError
from glassformer.tasks.base import Examples, Objective, Rows
from glassformer.tasks.columns import check_columns, columns_of, head_of, kept
from glassformer.tasks.metrics.meters import Perplexity
from glassformer.tasks.microbatch import HIDDEN, Example
from glassformer.tasks.windows import (
    Frame,
    bare_ids,
    encoded,
    room_of,
    some,
    token_labels,
)
from glassformer.text.engine import around_one_text
from glassformer.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from glassformer.model import Model

MASKED, REPLACED = 0.8, 0.1

NO_WORD = -1
"""The number of the word of a token that is of none."""


@dataclass(frozen=True)
class Masking:
    """How tokens are hidden.

    mask: the id of the mask · words: ids of which any may stand in a token's place · special: ids that are never chosen
    rate: how many of the others are chosen
    """

    mask: int
    words: np.ndarray
    special: np.ndarray
    rate: float = 0.15

    @classmethod
    def of(cls, tokenizer: Tokenizer, rate: float = 0.15) -> Masking:
        """As a tokenizer has it.

        Raises: ConfigError: it has no mask, or the rate is no share.
        """
        if tokenizer.mask_token_id is None:
            raise ConfigError(
                "this tokenizer has no mask token, so its model was not made for masked language modelling; learn the "
                "next token instead, with task 'text-generation'"
            )
        if not 0 < rate < 1:
            raise ConfigError(f"rate is {rate}; it must be between 0 and 1")
        special = np.array(sorted(tokenizer.special_ids), dtype=np.int64)
        words = np.setdiff1d(np.array(list(tokenizer.engine.get_vocab().values()), dtype=np.int64), special)
        return cls(tokenizer.mask_token_id, words, special, rate)

    def __call__(
        self, ids: np.ndarray, draw: np.random.Generator, words: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """What is read of a text, and what is to be said of it: the chosen tokens, all others hidden.

        Args:
            words: the number of each token's word: then all tokens of a word are chosen, or none. [n]
        """
        units = np.where(np.isin(ids, self.special), NO_WORD, np.arange(len(ids)) if words is None else words)
        choices = np.unique(units[units != NO_WORD])
        chosen = draw.choice(choices, share(len(choices), self.rate, draw), replace=False)
        places = np.flatnonzero(np.isin(units, chosen))
        fate = draw.random(len(places))
        read, said = np.array(ids), np.full(len(ids), HIDDEN, dtype=np.int64)
        said[places] = ids[places]
        read[places[fate < MASKED]] = self.mask
        other = places[(fate >= MASKED) & (fate < MASKED + REPLACED)]
        read[other] = draw.choice(self.words, len(other))
        return read, said


class Masked(Objective):
    """Texts of which some tokens are hidden; one that is longer than the model's limit goes on in further examples.

    Args:
        rate: how many tokens are chosen · whole_words: all tokens of a word are chosen, or none
        max_tokens: of an example; None = as many as the model takes
        columns: role → column, where a column has another name
    """

    TASK = "fill-mask"
    COLUMNS: ClassVar[Mapping[str, str]] = {"text": "text"}
    METRIC = "perplexity"

    def __init__(
        self,
        model: Model,
        *,
        rate: float = 0.15,
        whole_words: bool = False,
        max_tokens: int | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model)
        self.head = head_of(model, self.TASK)
        self.columns = columns_of(self.COLUMNS, columns)
        self.masking = Masking.of(model.tokenizer, rate)
        self.whole_words = whole_words
        self.frame = Frame.within(*around_one_text(model.tokenizer.engine), room_of(model, max_tokens))

    def examples(self, rows: Rows, *, cache: Path | None = None) -> Examples:
        check_columns(rows, list(self.columns.values()))
        texts = encoded(rows, self.columns["text"], self.read)
        found = (example for text in texts for example in self.windows(*text))
        how = {"room": self.frame.room, "whole_words": self.whole_words}
        return kept(
            some(found, "texts must not be blank"),
            rows,
            self.model,
            cache,
            made="masked",
            columns=self.columns,
            **how,
        )

    def varied(self, example: Example, draw: np.random.Generator) -> Example:
        read, said = self.masking(example["input_ids"], draw, example.get("words"))
        return {"input_ids": read, "labels": said}

    def labels(self, examples: Sequence[Example], flow: Flow) -> Tensor:
        return token_labels([example["labels"] for example in examples], flow)

    def meter(self) -> Perplexity:
        return Perplexity(self.head)

    def read(self, texts: list[str]) -> Iterator[tuple[list[int], list[int]]]:
        """The ids of each text and, where whole words are hidden, the number of each one's word."""
        if not self.whole_words:
            yield from ((ids, []) for ids in bare_ids(self.model.tokenizer, texts))
            return
        encoding = self.model.tokenizer(texts, add_special_tokens=False)
        for row, ids in enumerate(encoding["input_ids"]):
            yield ids, [NO_WORD if word is None else word for word in encoding.word_ids(row)]

    def windows(self, ids: list[int], words: list[int]) -> Iterator[dict[str, np.ndarray]]:
        """The examples that a text makes."""
        for start in range(0, len(ids), self.frame.room):
            stretch = slice(start, start + self.frame.room)
            example = {"input_ids": self.frame.around(ids[stretch])}
            if self.whole_words:
                before, after = ([NO_WORD] * len(part) for part in (self.frame.before, self.frame.after))
                example["words"] = np.array([*before, *words[stretch], *after], dtype=np.int32)
            yield example
