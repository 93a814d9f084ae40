"""table-question-answering pipeline: the cells of a table that answer a question, and what to make of them.

    question     how many games were in the 1900s ?
    table        year  city          ──>   COUNT > 1900, 1904, 1908      coordinates (1, 0) (2, 0) (3, 0)
                 1896  Athens …

A cell answers if its tokens' mean probability is above a half; a model with operators says whether the cells themselves
are the answer, or their number, sum or average, which is named and not computed.

Source: Herzig et al. 2020, sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import torch

from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.files.schema import at_least, check
from glassformer.models import eval_mode
from glassformer.tasks.pipelines import Pipeline
from glassformer.tasks.results import Results, TableAnswer
from glassformer.text.tables.encode import (
    COLUMN,
    PREVIOUS,
    ROW,
    SEGMENT,
    TableTokenizer,
    answer_cells,
    cell_probabilities,
)
from glassformer.text.tables.table import TextTable

THRESHOLD = 0.5
"""Probability from which a cell is selected, as in the reference library."""


class TableQuestionAnswering(Pipeline):
    """The cells of a table that answer a question.

        ask(table={"year": ["1896", "1900"], "city": ["Athens", "Paris"]}, query="where were the games in 1900?")

    truncation: cells are cut and rows dropped where a table is too long, unless False · max_length: in tokens
    sequential: each question of a list may refer to the answer of the one before

    An input is {"table": …, "query": a question or several}; several are a list of them.
    """

    HEAD = "table-question-answering"
    WHY = "it does not read tables; TAPAS does"
    ROLES: ClassVar[Mapping[str, str]] = {"query": "text", "table": "table"}
    OWN = ("sequential", "truncation", "max_length")

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        words = "a whole number of tokens from 1 up"
        check(Annotated[int, at_least(1, words=words)] | None, options.get("max_length"), "max_length")

    def is_one(self, given: Any) -> bool:
        return isinstance(given, Mapping)

    def check_input(self, given: Any) -> None:
        asked = given.get("query") if isinstance(given, Mapping) else None
        questions = [asked] if isinstance(asked, str) else asked
        if not isinstance(questions, Sequence) or not questions or not all(_is_text(each) for each in questions):
            raise DataError(f"the input is {safe_repr(given)}; it must be {{'table': …, 'query': 'a question'}}")

    def in_words(self, answer: Any) -> str:
        return str((answer[0] if isinstance(answer, list) else answer).answer)

    def __call__(self, texts: Any = None, query: Any = None, *, table: Any = None, **options: Any) -> Any:
        """As any pipeline; a table and a question may also come one after the other, or by name."""
        if query is not None:
            texts = {"table": texts if table is None else table, "query": query}
        return super().__call__(texts, **options)

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        with eval_mode(self.model.network), torch.inference_mode():
            return [self._table(given, options) for given in batch]

    def _table(self, given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
        table, asked = TextTable.of(given.get("table")), given["query"]
        reader, answers = TableTokenizer(self.model.tokenizer), Results[TableAnswer]()
        previous: set[tuple[int, int]] = set()
        for question in [asked] if isinstance(asked, str) else asked:
            encoding = reader(
                table,
                [question],
                truncation=options.get("truncation", True),
                max_length=options.get("max_length"),
                return_tensors="pt",
            )
            inputs = {name: x.to(self.model.device) for name, x in encoding.items()}
            if options.get("sequential"):
                _mark(inputs["token_type_ids"][0], previous)
            output = self.model(**inputs)
            types, mask = (inputs[name][0].cpu().numpy() for name in ("token_type_ids", "attention_mask"))
            cells = answer_cells(cell_probabilities(output["logits"][0].float().cpu().numpy(), types, mask), THRESHOLD)
            previous = set(cells)
            operators = output.get("logits_aggregation")
            operator = None if operators is None else int(operators[0].float().argmax())
            answers.append(table_answer(self.model.config, table, cells, operator))
        return answers[0] if isinstance(asked, str) else answers


def operator_names(config: Mapping[str, Any]) -> list[str]:
    """The names of a model's operators, by number; [] where the config names none."""
    names = config.get("aggregation_labels")
    if not isinstance(names, Mapping):
        return []
    return [str(names.get(str(number), names.get(number, number))) for number in range(len(names))]


def table_answer(
    config: Mapping[str, Any], table: TextTable, cells: Sequence[tuple[int, int]], operator: int | None
) -> TableAnswer:
    """Cells as an answer, after the name of the operator, where it is not the one that means none.

    Args:
        cells: row and column of each
        operator: its number; None = the model has none
    """
    texts, names = [table.rows[row][column] for row, column in cells], operator_names(config)
    name = None if operator is None or not names else names[operator]
    shown = name is not None and operator != config.get("no_aggregation_label_index")
    return TableAnswer((f"{name} > " if shown else "") + ", ".join(texts), list(cells), texts, name)


def _mark(types: torch.Tensor, cells: set[tuple[int, int]]) -> None:
    """Mark the tokens of cells that answered the question before.

    Args:
        types: [T, 7]
    """
    for token in types:
        if int(token[SEGMENT]) == 1 and (int(token[ROW]) - 1, int(token[COLUMN]) - 1) in cells:
            token[PREVIOUS] = 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
