"""Similarity of two texts as a sum over pairs of their tokens.

    a text's vector = Σ_i a_i, what token i adds to it (its state / T for mean pooling; + the constant of a Dense layer)

    cosine(a, b) = Σ_i Σ_j  a_i · b_j / (|Σ a_i| |Σ b_j|)          a cell for each pair of tokens

The sum is exact. What a token adds is its *contextual* state, which holds much of the words around it: a cell says
where the similarity lies in the last layer, and not what it would be without a word (for that, leave the word out).

Source: the product of mean-pooled states as a sum over token pairs: common practice, as in BiLRP (Eberle et al. 2020,
"Building and Interpreting Deep Similarity Models"), which goes further back, through the layers.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from glassformer.engine.encoder import BATCH_TOKENS, run_final_states
from glassformer.engine.pooling import PoolingSettings
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.inspect.outputs import check_numbers
from glassformer.inspect.tokens import Token, tokens_of
from glassformer.models import Network, eval_mode
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.text.tokenizer import Tokenizer

MEASURES = ("cosine", "dot")
MAX_TOKENS = 4_096
"""Tokens of a text at most: the cells of two such texts are 134 MB."""
CONSTANT = Token("(constant)", "(constant)", -1, special=True)
"""The row or column of what no token adds: the bias of layers after pooling."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SimilarityMap(Report, kind="similarity", keys=("measure", "similarity", "texts", "tokens", "cells", "notes")):
    """The similarity of two texts, distributed over pairs of their tokens.

        found = model.explain_similarity("a man plays guitar", "someone plays an instrument")
        found.similarity                        0.68, as `model.similarity` of their vectors
        found.cells                             a number for each pair of tokens; their sum is the similarity [A, B]
        found.shares[0]                         what each token of the first text has of it [A]
        found.words()                           the same for whole words
        found.top(5)                            the pairs with the largest numbers

    measure: "cosine" or "dot"
    texts: both, as they were read
    tokens: of each, special ones included
    notes: what was held fixed, cut, or left to a single token
    listed: pairs that are shown in a table of their own
    """

    measure: str
    texts: tuple[str, str]
    tokens: tuple[tuple[Token, ...], tuple[Token, ...]]
    cells: np.ndarray
    notes: tuple[str, ...]
    listed: int = 10

    @property
    def similarity(self) -> float:
        """The sum of all cells."""
        return float(self.cells.sum())

    @property
    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """What each token of the first text, and of the second, has of the similarity. [A], [B]"""
        return self.cells.sum(axis=1), self.cells.sum(axis=0)

    def top(self, count: int = 10) -> list[tuple[int, int, float]]:
        """The pairs with the largest absolute numbers, as row, column, number."""
        order = np.argsort(-np.abs(self.cells), axis=None, kind="stable")[:count]
        rows, columns = np.unravel_index(order, self.cells.shape)
        return [(int(i), int(j), float(self.cells[i, j])) for i, j in zip(rows, columns, strict=True)]

    def words(self) -> SimilarityMap:
        """The same with the tokens of a word put together: their cells are summed."""
        sides = [_word_starts(tokens) for tokens in self.tokens]
        cells = np.add.reduceat(np.add.reduceat(self.cells, sides[0], axis=0), sides[1], axis=1)
        first, second = (_joined(tokens, starts) for tokens, starts in zip(self.tokens, sides, strict=True))
        return replace(self, tokens=(first, second), cells=cells)

    @property
    def heading(self) -> str:
        return f"{self.measure} {self.similarity:.4f}: the sum of all cells, {self.cells.size:,} pairs of tokens"

    def tables(self) -> list[Table]:
        """A cell for each pair of tokens; what each token has of the sum; the largest pairs."""
        names = [[token.text for token in tokens] for tokens in self.tokens]
        shown = [_signed(["", *names[1]], names[0], self.cells, ".3f")]
        for which, tokens, shares in zip(("first", "second"), names, self.shares, strict=True):
            shown.append(_signed([f"{which} text", "share"], tokens, shares[:, None], "+z.4f"))
        pairs = [[names[0][i], names[1][j], f"{number:+z.4f}"] for i, j, number in self.top(self.listed)]
        return [*shown, Table(["first", "second", "of the sum"], pairs, left=2)]

    def remarks(self) -> list[str]:
        return [*self.notes, "a token's state has gathered its neighbours: cells say where the similarity lies"]


def _signed(headings: list[str], names: list[str], values: np.ndarray, form: str) -> Table:
    """A table of numbers on their colours."""
    shades = values / (float(np.abs(values).max(initial=0.0)) or 1.0)
    rows = [[name, *(f"{x:{form}}" for x in row)] for name, row in zip(names, values.tolist(), strict=True)]
    return Table(headings, rows, shades=shades.tolist())


@dataclass(frozen=True, kw_only=True, repr=False)
class SimilarityTable(Report, kind="similarities"):
    """The similarity of each text to each.

    similarities: a row a text, in the order of the texts
    """

    measure: str
    texts: list[str]
    similarities: list[list[float]]

    def tables(self) -> list[Table]:
        numbers = [str(i) for i in range(1, len(self.texts) + 1)]
        rows = [[i, *(f"{x:z.3f}" for x in row)] for i, row in zip(numbers, self.similarities, strict=True)]
        texts = [[i, text] for i, text in zip(numbers, self.texts, strict=True)]
        return [Table(["", "text"], texts, left=2), Table([self.measure, *numbers], rows)]


@dataclass(frozen=True, kw_only=True)
class NearText:
    """A text of a ranking.

    number: its line of the file, or its place among the texts, from 1
    """

    number: int
    score: float
    text: str


@dataclass(frozen=True, kw_only=True, repr=False)
class NearestTexts(Report, kind="nearest-texts"):
    """The texts nearest to a query, the best first.

    measure: what scores are
    texts: how many were ranked
    """

    measure: str
    query: str
    texts: int
    nearest: list[NearText]

    @property
    def heading(self) -> str:
        return f"{self.texts:,} texts, nearest first, to: {self.query}"

    def tables(self) -> list[Table]:
        rows = [[f"{each.score:.4f}", f"{each.number:,}", each.text] for each in self.nearest]
        return [Table([self.measure, "no.", "text"], rows, left=3)]


def explain_similarity(
    network: Network,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    settings: PoolingSettings,
    *,
    prompt: str = "",
    measure: str | None = None,
) -> SimilarityMap:
    """Distribute the similarity of two texts over pairs of their tokens; see `SentenceEmbedder.explain_similarity`."""
    measure = _check_measure(measure, settings)
    if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
        raise DataError(f"the texts are {safe_repr(texts)}; give two texts")
    read = [prompt + text for text in texts]
    read = [text.lower() for text in read] if settings.lower_case else read
    limits = [MAX_TOKENS if limit is None else limit for limit in (settings.max_tokens, network.max_tokens)]
    encodings = [tokenizer(text, truncation=True, max_length=min(limits)) for text in read]
    notes = _notes(settings)
    for name, text, encoding in zip(("first", "second"), read, encodings, strict=True):
        ids = encoding["input_ids"]
        if not ids:
            raise DataError(f"the {name} text has no token, so it has no vector; give at least one word")
        if len(ids) == min(limits) and len(ids) < len(tokenizer(text)["input_ids"]):
            notes.append(f"the {name} text was cut to {len(ids):,} tokens")
            warnings.warn(notes[-1], stacklevel=4)
    shares = [settings.token_shares(x.double()) for x in _states(network, [e["input_ids"] for e in encodings])]
    check_numbers(shares, "the states of these texts", network)
    if measure == "cosine":
        shares = [x / x.sum(0).norm().clamp(min=1e-12) for x in shares]
    constant = [bool(x[-1].any()) for x in shares]
    tokens = [
        (*tokens_of(tokenizer, encoding, (text,)), *[CONSTANT] * has)
        for encoding, text, has in zip(encodings, read, constant, strict=True)
    ]
    first, second = (x if has else x[:-1] for x, has in zip(shares, constant, strict=True))
    return SimilarityMap(
        measure=measure,
        texts=(read[0], read[1]),
        tokens=(tokens[0], tokens[1]),
        cells=(first @ second.mT).numpy(),
        notes=tuple(notes),
    )


def _states(network: Network, ids: Sequence[Sequence[int]]) -> list[Tensor]:
    """The final states of both texts. [T, D] each"""
    states: dict[int, Tensor] = {}
    with eval_mode(network):
        for indices, rows in run_final_states(
            network, ids, BATCH_TOKENS, lambda row, packing: row.float().cpu().split(list(packing.lengths))
        ):
            states.update(zip(indices, rows, strict=True))
    return [states[0], states[1]]


def _check_measure(measure: str | None, settings: PoolingSettings) -> str:
    """Raises: UnsupportedError: the model's own measure is no sum. ConfigError: an unknown one."""
    chosen = settings.similarity if measure is None else measure
    if measure is None and chosen not in MEASURES:
        raise UnsupportedError(
            f"this model compares vectors by {chosen!r} distance, which is no sum over pairs of tokens; "
            'explain the cosine instead: measure="cosine"'
        )
    if chosen not in MEASURES:
        raise ConfigError(f"measure is {safe_repr(chosen)}; allowed: {', '.join(MEASURES)}")
    return chosen


def _notes(settings: PoolingSettings) -> list[str]:
    """What is not as plain as a mean of states."""
    notes = [f"held fixed: {held}" for held in (layer.held_fixed for layer in settings.layers) if held is not None]
    if "max" in settings.poolings:
        notes.append("max pooling: each dimension belongs to the token that has its maximum")
    for name, which in (("cls", "first"), ("lasttoken", "last")):
        if name in settings.poolings:
            only = "alone" if len(settings.poolings) == 1 else "in its part of the vector"
            notes.append(f"{name} pooling reads the {which} token {only}, whose state has gathered the others")
    return notes


def _word_starts(tokens: Sequence[Token]) -> list[int]:
    return [i for i, token in enumerate(tokens) if not (i and token.continues)]


def _joined(tokens: Sequence[Token], starts: Sequence[int]) -> tuple[Token, ...]:
    words = [tokens[start:end] for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True)]
    return tuple(replace(word[0], text="".join(token.text for token in word)) for word in words)
