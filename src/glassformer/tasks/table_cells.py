"""Table question answering by cell selection (TAPAS): the cells of a table that answer a question, and an operator.

    question     how many games were in the 1900s ?        labels     1 for each token of 1900, 1904 and 1908, else 0
    table        year  city                                operator   COUNT, of a model with operators
                 1896  Athens …

What is learned is the selection and the operator themselves (strong supervision), not the number that they make.
Source: Herzig et al. 2020, sections 2 and 3; truncation: the released code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.core.heads import Head, not_none
from glassformer.data.rows import read_rows
from glassformer.errors import DataError, UnsupportedError
from glassformer.files import is_int, safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.models.tapas.cells import CellSelection, CellSelectionOutput, CellSelectionWithAggregation
from glassformer.tasks.base import Progress
from glassformer.tasks.columns import RowTask, check_columns, columns_of, limit_of, listed, placed, tell_cut, text_of
from glassformer.tasks.metrics.classes import precision_recall_f1, ratio
from glassformer.tasks.metrics.metric import Bootstrap, BootstrapSums, Metric
from glassformer.tasks.microbatch import padded, run_examples
from glassformer.tasks.row_files import RowFiles
from glassformer.tasks.tables import THRESHOLD, operator_names, table_answer
from glassformer.tasks.types import Baseline, Dataset, Example, MicroBatch, Prediction
from glassformer.text.tables.encode import COLUMN, ROW, SEGMENT, TableTokenizer, answer_cells, cell_probabilities
from glassformer.text.tables.table import TextTable

NO_OPERATOR = "NONE"
OPERATORS = (NO_OPERATOR, "SUM", "AVERAGE", "COUNT")
"""The operators of the published models, in their order; a new head has these where rows name no others."""
MAX_TOKENS = 512
"""Tokens of a question and its table where neither model nor tokenizer has a limit."""

Cells = set[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class TableQuestion:
    """What a row asks.

    cells: row and column of each cell that answers, from 0
    operator: its number
    """

    question: str
    table: TextTable
    cells: Cells
    operator: int


class AnswerTable(RowTask):
    """The cells of a table that answer a question, and with a column of operators, what to make of them.

    `table` is a list of rows, an object of columns, or the path of a CSV file. `cells` is a list of [row, column], both
    from 0 without the header, or a text with such pairs: "[(0, 1), (2, 1)]". `operator` is a name such as SUM.

    Args:
        columns: role → column; `operator` is read where the rows have it
        max_tokens: of longer questions with their tables, cells are cut and rows dropped; None = what the model takes
        folder: of CSV files; None = that of the rows' own file
    Raises: ConfigError: the model has another head. UnsupportedError: a head that selects no cells.
    """

    HEAD = "table-question-answering"
    COLUMNS: ClassVar[Mapping[str, str]] = {
        "question": "question",
        "table": "table",
        "cells": "cells",
        "operator": "operator",
    }
    TARGETS: ClassVar[tuple[str, ...]] = ("cells", "operator")
    METRIC = VALIDATION_METRIC = "exact_match"
    REQUIRES = "a question with its table is needed"

    def __init__(
        self,
        model: LoadedModel,
        *,
        columns: Mapping[str, str] | None = None,
        max_tokens: int | None = None,
        folder: str | None = None,
    ) -> None:
        super().__init__(model, columns)
        if not isinstance(self.head, CellSelection):
            raise UnsupportedError(f"{type(self.head).__name__} selects no cells of a table; TAPAS's head does")
        self.selection = self.head
        self.operators: list[str] = []
        if isinstance(self.head, CellSelectionWithAggregation):
            numbers = range(self.head.operator.classifier.out_features)
            self.operators = operator_names(model.config) or list(map(str, numbers))
        self.max_tokens = limit_of(model, max_tokens) or MAX_TOKENS
        self.folder = folder
        self.packs = False  # cells of several tables in one row could not be told apart
        self.how = {"cut": self.max_tokens, "operators": self.operators}
        self._evaluated: Dataset | None = None

    @classmethod
    def head_config(
        cls,
        rows: Dataset,
        config: Mapping[str, Any],
        *,
        own: bool,
        columns: Mapping[str, str] | None,
        options: Any,
    ) -> dict[str, Any]:
        column = columns_of(cls.COLUMNS, columns)["operator"]
        if column not in rows.columns and "operator" not in (columns or {}):
            return {**config, "num_aggregation_labels": 0, "aggregation_labels": None}
        check_columns(rows, {"operator": column})
        names = {_operator(row, column) for row in iter(rows)}
        if own and names <= set(operator_names(config)):
            return {**config, "use_answer_as_supervision": False}
        usual = names <= set(OPERATORS)
        ordered = OPERATORS if usual else (NO_OPERATOR, *sorted(names - {NO_OPERATOR}))
        return {
            **config,
            "num_aggregation_labels": len(ordered),
            "aggregation_labels": {str(number): name for number, name in enumerate(ordered)},
            "no_aggregation_label_index": 0,
            "use_answer_as_supervision": False,
        }

    def columns_read(self) -> dict[str, str]:
        return {role: column for role, column in self.columns.items() if role != "operator" or self.operators}

    def inputs(self) -> list[str]:
        return [self.columns["question"]]

    def files(self, rows: Dataset) -> list[RowFiles]:
        return [RowFiles(rows, self.columns["table"], self.folder)]

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        reader, cut, lost = TableTokenizer(self.model.tokenizer), 0, 0
        for index, row in enumerate(self._read(rows)):
            with placed(rows, index):
                encoded = reader.encode(row.table, row.question, self.max_tokens)
                types = encoded.types
                self._check_size(types)
            of_table = types[:, SEGMENT] == 1
            places = [(r - 1, c - 1) for r, c in types[:, [ROW, COLUMN]].tolist()]
            chosen = of_table & np.array([place in row.cells for place in places])
            cut += encoded.cut
            lost += not row.cells <= {place for place, inside in zip(places, of_table, strict=True) if inside}
            yield {
                "input_ids": np.array(encoded.ids, dtype=np.int32),
                "token_type_ids": types.astype(np.int32),
                "labels": chosen.astype(np.int64),
                "operator": row.operator,
            }
        tell_cut("tables", cut, len(rows), self.max_tokens)
        if lost:
            tell_cut("answers", lost, len(rows), "the cells that their tables were cut to")

    def _check_size(self, types: np.ndarray) -> None:
        """Raises: DataError: more rows or columns than the model has embeddings for."""
        for kind, what in ((ROW, "rows"), (COLUMN, "columns")):
            sizes: Any = self.model.network.token_types
            if (count := int(types[:, kind].max())) >= sizes[kind]:
                raise DataError(
                    f"the table has {count} {what}, and the model tells {sizes[kind] - 1} apart; give a smaller table"
                )

    def _read(self, rows: Dataset) -> Iterator[TableQuestion]:
        (files,) = self.files(rows)
        for index in range(len(rows)):
            with placed(rows, index):
                row = rows[index]
                question = text_of(row, self.columns["question"])
                given = row.get(self.columns["table"])
                if isinstance(given, str):
                    given = [dict(line) for line in read_rows(files.path(index, given))]
                table = TextTable.of(listed(given) or given)
                operator = self._operator_number(row) if self.operators else 0
                cells = cells_of(row, self.columns["cells"], table)
                self._check_cells(cells)
            yield TableQuestion(question, table, cells, operator)

    def _check_cells(self, cells: Cells) -> None:
        spec = self.selection.spec
        if not cells and spec.one_column and not spec.may_be_empty:
            raise DataError(
                f"{self.columns['cells']!r} is empty, and this model always selects a column; leave the row out, or "
                "train with overrides: {allow_empty_column_selection: true}"
            )

    def _operator_number(self, row: Mapping[str, Any]) -> int:
        name = _operator(row, self.columns["operator"])
        if name not in self.operators:
            raise DataError(
                f"{self.columns['operator']!r} is {safe_repr(name)}; the model has: {', '.join(self.operators)}"
            )
        return self.operators.index(name)

    def labels(self, examples: Sequence[Example], flow: Any) -> Tensor | dict[str, Tensor]:
        cells = padded([example["labels"] for example in examples], 0)
        if not self.operators:
            return cells
        return {"labels": cells, "aggregation_labels": torch.tensor([int(x["operator"]) for x in examples])}

    def unbatch(self, output: Output, batch: MicroBatch) -> list[Any]:
        """For each table its tokens' logits [T], those of operators, if there are any [operators], and its loss."""
        assert isinstance(output, CellSelectionOutput)  # from the head
        tensors = {name: x for name in ROW_FIELDS if (x := getattr(output, name)) is not None}
        parts: list[Any] = []
        for row in range(len(output.visible)):
            one = replace(output, **{name: x[row : row + 1] for name, x in tensors.items()})
            own = {name: x[row : row + 1] for name, x in self._label_parts(batch).items()}
            loss = float(self.head.loss(one, own if self.operators else own["labels"]))
            length = int(output.visible[row].sum())
            operators = None if output.logits_aggregation is None else output.logits_aggregation[row]
            parts.append((not_none(output.logits)[row, :length], operators, loss))
        return parts

    def _label_parts(self, batch: MicroBatch) -> dict[str, Tensor]:
        return batch.labels if isinstance(batch.labels, dict) else {"labels": batch.labels}

    def metric(self) -> Metric:
        return CellMetric(self.head, with_operators=bool(self.operators))

    # ------------------------------------------------------------------------------------------ evaluation

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """The cells of each table whose probability is above a half, and the most likely operator."""
        self._evaluated, examples = rows, self.encode(rows)
        outputs = run_examples(self, examples, tokens=self.evaluation.tokens, progress=progress)
        for index, (row, (logits, operators, loss)) in enumerate(zip(self._read(rows), outputs, strict=True)):
            types = np.asarray(examples[index]["token_type_ids"])
            cells = selected_cells(logits.float().cpu().numpy(), types)
            operator = 0 if operators is None else int(operators.argmax())
            yield Prediction(
                index=index,
                where=rows.where(index),
                row={"question": row.question},
                label=[self._text(row.table, row.cells, row.operator)],
                loss=loss,
                **self._answered(row, cells, operator),
            )

    def _text(self, table: TextTable, cells: Cells, operator: int) -> str:
        return str(table_answer(self.model.config, table, sorted(cells), operator if self.operators else None).answer)

    def _answered(self, row: TableQuestion, cells: Cells, operator: int) -> dict[str, Any]:
        """The fields of a prediction that depend on the answer, of the model or of a baseline."""
        counts = [len(cells & row.cells), len(cells), len(row.cells)]
        return {
            "predicted": self._text(row.table, cells, operator),
            "correct": cells == row.cells and operator == row.operator,
            "details": {
                "cells": sorted(map(list, cells)),
                "counts": counts,
                "cells_match": cells == row.cells,
                "operator_match": operator == row.operator,
            },
        }

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        rows = np.array(
            [
                [bool(x.correct), x.details["cells_match"], x.details["operator_match"], 1, *x.details["counts"]]
                for x in predictions
            ],
            dtype=np.float64,
        )
        how = {
            "exact_match": "share of questions with exactly the right cells"
            + (" and operator" if self.operators else ""),
            **dict.fromkeys(("cell_precision", "cell_recall", "cell_f1"), "of all cells of all tables"),
        }
        if self.operators:
            how |= {"cells_match": "share of questions with exactly the right cells"}
            how |= {"operator_accuracy": "share of questions with the right operator"}
        methods = {name: f"{text}; numpy {np.__version__}" for name, text in how.items()}
        return BootstrapSums(rows, lambda sums: {name: scores_of(sums)[name] for name in methods}, methods)

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        if self._evaluated is None:
            return
        questions = list(self._read(self._evaluated))
        operator = 0
        if self.operators and train is not None:
            counts = np.bincount([row.operator for row in self._read(train)], minlength=len(self.operators))
            operator = int(counts.argmax())
        about = "the cells of the column that has most words of the question in its name, in the rows that have most"
        if self.operators:
            about += f"; the most frequent operator, {self.operators[operator]}"
        matched = []
        for x in predictions:
            answer = self._answered(questions[x.index], word_match(questions[x.index]), operator)
            matched.append(x.by_baseline(answer["predicted"], answer["correct"], **answer["details"]))
        yield Baseline("word match", about, matched)


ROW_FIELDS = ("token_logits", "column_logits", "cells", "visible", "logits", "logits_aggregation")
"""Fields of the output of cell selection that have a row for each table."""


class CellMetric(Metric):
    """Exact match of the cells (and the operator), and precision, recall and F1 of cells.

    Args:
        with_operators: the head has operators too
    """

    COUNTS = ("right", "cells_right", "operators_right", "tables", "hits", "predicted", "true")

    def __init__(self, head: Head, *, with_operators: bool) -> None:
        super().__init__(head, ("cells", "operator") if with_operators else ("loss",))
        self.add_state("counts", len(self.COUNTS))
        self.with_operators = with_operators

    def update(self, output: Output, batch: MicroBatch) -> None:
        super().update(output, batch)
        given = batch.labels if isinstance(batch.labels, dict) else {"labels": batch.labels}
        labels, operators = given["labels"], given.get("aggregation_labels")
        assert isinstance(output, CellSelectionOutput) and batch.batch.token_type_ids is not None
        logits, visible = not_none(output.logits).float().cpu().numpy(), output.visible.sum(-1).int().tolist()
        all_types = batch.batch.token_type_ids.cpu().numpy()
        right = None if operators is None else not_none(output.logits_aggregation).argmax(-1).eq(operators).tolist()
        for row, (own, length) in enumerate(zip(labels.cpu().numpy(), visible, strict=True)):
            types = all_types[row, :length]
            cells = selected_cells(logits[row, :length], types)
            true = {(int(r) - 1, int(c) - 1) for r, c in types[own[:length] == 1][:, [ROW, COLUMN]]}
            same, operator = cells == true, right is None or right[row]
            counts = [same and operator, same, operator, 1, len(cells & true), len(cells), len(true)]
            self.state["counts"] += torch.tensor(counts, dtype=torch.float64)

    def compute(self) -> dict[str, float]:
        scores = scores_of(self.state["counts"].numpy()[None])
        extra = () if self.with_operators else ("cells_match", "operator_accuracy")
        own = {name: float(score[0]) for name, score in scores.items() if name not in extra}
        return {**super().compute(), **own}


def scores_of(sums: np.ndarray) -> dict[str, np.ndarray]:
    """The scores of sums, by the names of `CellMetric.COUNTS`. [S, counts] → [S] each"""
    right, cells_right, operators_right, tables, hits, predicted, true = sums.T
    of_cells = precision_recall_f1(hits, predicted, true)
    return {
        "exact_match": ratio(right, tables),
        "cells_match": ratio(cells_right, tables),
        "operator_accuracy": ratio(operators_right, tables),
        **{f"cell_{name}": score for name, score in of_cells.items()},
    }


def selected_cells(logits: np.ndarray, types: np.ndarray) -> Cells:
    """The cells that are more probable than a half.

    Args:
        logits: [T]
        types: [T, 7]
    """
    return set(answer_cells(cell_probabilities(logits, types, np.ones(len(types))), THRESHOLD))


def cells_of(row: Mapping[str, Any], column: str, table: TextTable) -> Cells:
    """The cells of a row that answer, as (row, column) from 0.

    Raises: DataError: no list of pairs, or a cell that the table does not have.
    """
    given = row.get(column)
    pairs = _pairs_in(given) if isinstance(given, str) else listed(given)
    pairs = None if pairs is None else [listed(pair) for pair in pairs]
    if pairs is None or not all(pair is not None and len(pair) == 2 and all(map(_is_whole, pair)) for pair in pairs):
        raise DataError(
            f"{column!r} is {safe_repr(given)}; it must be a list of [row, column] of the cells that answer, both from "
            "0: [[0, 1]]"
        )
    cells = {(int(pair[0]), int(pair[1])) for pair in pairs if pair is not None}
    for number, place in cells:
        if not (0 <= number < len(table.rows) and 0 <= place < len(table.columns)):
            raise DataError(
                f"{column!r} names row {number}, column {place}; the table has rows 0 to {len(table.rows) - 1} and "
                f"columns 0 to {len(table.columns) - 1}"
            )
    return cells


def _pairs_in(text: str) -> list[list[int]] | None:
    """The pairs of whole numbers in a text of these, brackets, quotes and commas alone; None where it has more."""
    if re.fullmatch(r"[\s\d,()\[\]'\"]*", text) is None:
        return None
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    return [numbers[i : i + 2] for i in range(0, len(numbers), 2)]


def _is_whole(value: object) -> bool:
    return is_int(value, -math.inf) or isinstance(value, np.integer)


def _operator(row: Mapping[str, Any], column: str) -> str:
    """The name of a row's operator; a missing one is NONE."""
    value = row.get(column)
    missing = value is None or value != value  # NaN differs from itself
    return NO_OPERATOR if missing else str(value).strip() or NO_OPERATOR


def word_match(row: TableQuestion) -> Cells:
    """The cells of the column and the rows that have most words of the question."""
    asked = set(re.findall(r"\w+", row.question.lower()))

    def shared(*texts: str) -> int:
        return len(asked & {word for text in texts for word in re.findall(r"\w+", text.lower())})

    column = max(range(len(row.table.columns)), key=lambda number: shared(row.table.columns[number]))
    scores = [shared(*cells) for cells in row.table.rows]
    return {(number, column) for number, score in enumerate(scores) if score == max(scores)}
