"""A question and a table as the tokens of one text, each with seven token types.

    token      [CLS] who won ? [SEP]   year winner   1896 spiridon louis   1900 …
    segment      0    0   0  0   0       1    1        1      1      1       1
    column       0    0   0  0   0       1    2        1      2      2       1       from 1
    row          0    0   0  0   0       0    0        1      1      1       2       0 = the names of the columns
    previous     0    0   0  0   0       0    0        0      0      0       0       1 = answered the question before
    rank         0    0   0  0   0       0    0        1      0      0       2       of numbers and dates, from 1
    inverse      0    0   0  0   0       0    0        2      0      0       1       rank from the largest
    relation     0    0   0  0   0       0    0        0      0      0       0       question's number =: 1, <: 2, >: 4

Source: Herzig et al. 2020, section 2, "Additional embeddings"; truncation: the released code.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.text.encoding import Encoding
from glassformer.text.tables.table import TextTable
from glassformer.text.tables.values import column_values, sort_key, values_in

TYPES = 7
"""Token types of TAPAS, each with an embedding table: Herzig et al. 2020, section 3."""
SEGMENT, COLUMN, ROW, PREVIOUS, RANK, INVERSE_RANK, RELATION = range(TYPES)
EQUAL, LESS, GREATER = 1, 2, 4
EMPTY_TOKEN = "[EMPTY]"
NOTHING = ("n/a", "?", "nan")
"""Cells that hold no text."""

DROP_ROWS = (True, "drop_rows_to_fit")
NO_TRUNCATION = (None, False, "do_not_truncate")


@dataclass(frozen=True, slots=True)
class EncodedTable:
    """A table as tokens.

    ids: of the tokens [T]
    types: token types [T, 7]
    cut: cells were cut, or rows dropped
    """

    ids: list[int]
    types: np.ndarray
    cut: bool = False


class TableTokenizer:
    """Encodes questions about tables; what it does not have is the tokenizer's.

    Args:
        tokenizer: of a TAPAS model
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "tokenizer":
            raise AttributeError(name)
        return getattr(self.tokenizer, name)

    def __len__(self) -> int:
        return len(self.tokenizer)

    def __call__(
        self,
        table: Any,
        queries: str | Sequence[str] | None = None,
        *,
        padding: bool | str = False,
        truncation: bool | str | None = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
        **options: Any,
    ) -> Encoding:
        """Encode one question about a table, or several about the same one.

        Args:
            table: see `TextTable.of`
            queries: the question or questions
            padding: to the longest, or "max_length"
            truncation: True or "drop_rows_to_fit": cells are cut, and then rows dropped
            max_length: in tokens; None = what the model takes
            return_tensors: "np", "pt" or None for lists
        Returns: input_ids, attention_mask and token_type_ids, of which a token has seven.
        Raises: DataError: no question, a table that does not fit. ConfigError: options that there are not.
        """
        for name in options:
            raise ConfigError(
                f"a table's tokenizer takes no {name!r}; it takes padding, truncation, max_length, return_tensors"
            )
        if truncation not in (*DROP_ROWS, *NO_TRUNCATION):
            raise ConfigError(f"truncation is {truncation!r}; a table takes 'drop_rows_to_fit', or False")
        questions = [queries] if isinstance(queries, str) else list(queries or ())
        if not questions or not all(isinstance(each, str) for each in questions):
            raise DataError(f"queries is {queries!r:.60}; it must be a question, or a list of them")
        limit = max_length or self.tokenizer.model_max_length or 512
        read = TextTable.of(table)
        encoded = [self.encode(read, each, limit if truncation in DROP_ROWS else None) for each in questions]
        width = limit if padding == "max_length" else max(len(each.ids) for each in encoded) if padding else None
        data = _columns(encoded, width, self.tokenizer.pad_token_id or 0)
        if return_tensors is not None:
            if len({len(row) for row in data["input_ids"]}) > 1:
                raise ConfigError("questions of unequal length do not make one tensor; add padding=True")
            data = {name: np.asarray(values, dtype=np.int64) for name, values in data.items()}
            if return_tensors == "pt":
                import torch  # only here: text works without it

                data = {name: torch.from_numpy(values) for name, values in data.items()}
        elif isinstance(queries, str):
            data = {name: values[0] for name, values in data.items()}
        return Encoding(data, [], [])

    def encode(self, table: TextTable, question: str, limit: int | None = None) -> EncodedTable:
        """The tokens of a question and a table.

        Args:
            limit: cells are cut, and then rows dropped, so that they fit

        Raises: DataError: the question, or a single row, does not fit.
        """
        if (begin := self.tokenizer.cls_token) is None or (end := self.tokenizer.sep_token) is None:
            raise DataError("a table's tokenizer needs the tokens [CLS] and [SEP]; take the one of a TAPAS model")
        asked = self.tokenizer.tokenize(question)
        cells = [[self._pieces(cell) for cell in row] for row in (table.columns, *table.rows)]
        whole = cells
        if limit is not None:
            cells = _fitted(whole, limit - len(asked) - 2)
        tokens = [begin, *asked, end]
        types = [[0] * TYPES for _ in tokens]
        places: dict[tuple[int, int], list[int]] = defaultdict(list)
        for row, pieces_of_row in enumerate(cells):
            for column, pieces in enumerate(pieces_of_row):
                places[column, row - 1] += range(len(tokens), len(tokens) + len(pieces))
                tokens += pieces
                types += [[1, column + 1, row, 0, 0, 0, 0] for _ in pieces]
        of_tokens = np.array(types, dtype=np.int64)
        _add_values(of_tokens, table, question, places)
        return EncodedTable(self.tokenizer.convert_tokens_to_ids(tokens), of_tokens, cut=cells != whole)

    def _pieces(self, cell: str) -> list[str]:
        if not cell:
            return []
        text = cell.lower().strip()
        words = "" if text in NOTHING else re.sub(r"[\W_]+", " ", text).strip()
        return self.tokenizer.tokenize(cell) if words and words != "EMPTY" else [EMPTY_TOKEN]

    def convert_logits_to_predictions(
        self, data: Mapping[str, Any], logits: Any, logits_agg: Any = None, cell_classification_threshold: float = 0.5
    ) -> tuple[Any, ...]:
        """The coordinates (row, column) of the cells that answer each question; with `logits_agg` also the operators.

        Args:
            data: as the call gave it, as tensors or arrays
            logits: [B, T]
            logits_agg: [B, operators]
        """
        types, mask = np.asarray(data["token_type_ids"]), np.asarray(data["attention_mask"])
        chosen = [
            answer_cells(
                cell_probabilities(np.asarray(_detached(row)), types[i], mask[i]), cell_classification_threshold
            )
            for i, row in enumerate(logits)
        ]
        operators = () if logits_agg is None else (np.asarray(_detached(logits_agg)).argmax(-1).tolist(),)
        return (chosen, *operators)


def cell_probabilities(logits: np.ndarray, types: np.ndarray, mask: np.ndarray) -> dict[tuple[int, int], float]:
    """(row, column) → the mean probability of the cell's tokens.

    Args:
        logits, mask: [T]
        types: [T, 7]
    """
    probabilities = mask / (1 + np.exp(-np.clip(logits.astype(np.float64), -700, 700)))
    of_cells: dict[tuple[int, int], list[float]] = defaultdict(list)
    for probability, each in zip(probabilities.tolist(), types.tolist(), strict=True):
        if each[SEGMENT] == 1 and each[COLUMN] > 0 and each[ROW] > 0:
            of_cells[each[ROW] - 1, each[COLUMN] - 1].append(probability)
    return {cell: sum(values) / len(values) for cell, values in of_cells.items()}


def answer_cells(probabilities: Mapping[tuple[int, int], float], threshold: float = 0.5) -> list[tuple[int, int]]:
    """The cells that are more probable than the threshold, by row and column."""
    return sorted(cell for cell, probability in probabilities.items() if probability > threshold)


def _detached(x: Any) -> Any:
    return x.detach().cpu() if hasattr(x, "detach") else x


def _fitted(cells: list[list[list[str]]], budget: int) -> list[list[list[str]]]:
    """Cells of as many tokens as fit, the same number in each but for the rest of a word; if need be fewer rows."""
    longest = max(len(cell) for row in cells for cell in row)
    for rows in range(len(cells), 0, -1):
        fitting = None
        for tokens in range(1, longest + 1 if rows > 1 else 2):  # names alone are as short as they can be
            cut = [[_cut(cell, tokens) for cell in row] for row in cells[:rows]]
            if sum(len(cell) for row in cut for cell in row) > budget:
                break
            fitting = cut
        if fitting is not None:
            return fitting
    raise DataError(
        f"the question leaves {max(budget, 0)} tokens for the table, whose {len(cells[0])} columns need more for "
        "their names; ask a shorter question, or give fewer columns"
    )


def _cut(cell: list[str], tokens: int) -> list[str]:
    """The first tokens of a cell, and the rest of their last word."""
    while tokens < len(cell) and cell[tokens].startswith("##"):
        tokens += 1
    return cell[:tokens]


def _add_values(
    types: np.ndarray, table: TextTable, question: str, places: Mapping[tuple[int, int], list[int]]
) -> None:
    """Ranks within each column, and relations of its values to those of the question."""
    asked = values_in(question)
    for column in range(len(table.columns)):
        values = column_values([row[column] for row in table.rows])
        key = sort_key(list(values.values())) if values else None
        if key is not None:
            ordered = sorted({key(value) for value in values.values()})
            for row, value in values.items():
                rank = ordered.index(key(value))
                types[places.get((column, row), []), RANK] = rank + 1
                types[places.get((column, row), []), INVERSE_RANK] = len(ordered) - rank
        for wanted in asked:
            compare = sort_key([*values.values(), wanted]) if values else None
            if compare is None:
                continue
            for row, value in values.items():
                left, right = compare(wanted), compare(value)
                types[places.get((column, row), []), RELATION] |= (
                    EQUAL if left == right else LESS if left < right else GREATER
                )


def _columns(encoded: Sequence[EncodedTable], width: int | None, pad: int) -> dict[str, Any]:
    def filled(values: list[Any], by: Any) -> list[Any]:
        return values + [by] * ((width or 0) - len(values))

    return {
        "input_ids": [filled(each.ids, pad) for each in encoded],
        "attention_mask": [filled([1] * len(each.ids), 0) for each in encoded],
        "token_type_ids": [filled(each.types.tolist(), [0] * TYPES) for each in encoded],
    }
