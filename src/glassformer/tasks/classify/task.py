"""Text classification: a label for each text, or for each pair of texts.

    row        {"text": "i feel cranky", "label": "anger"}        {"text": "a", "text_pair": "b", "label": 3.8}
    example    [CLS] i feel cranky [SEP]                          [CLS] a [SEP] b [SEP], segments 0 0 0 1 1
    labels     0            its number among anger, joy, …        3.8
               [0. 1. 1.]   where a text may have several

A head needs its config before it is made; from then on the config alone says which number a label has:

    kind = labels_of(rows, "label")
    config = relabelled(config, kind, own=…)        and then the model, by this config

Source: Devlin et al. 2019, section 4.1.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from glassformer.data.findings import spelling_message, spelling_variants
from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.tasks.classify.kinds import (
    PROBLEMS,
    LabelKind,
    MultiLabel,
    RegressionTarget,
    SingleLabel,
    labels_in,
    name_of,
    number_of,
    sorted_names,
)
from glassformer.tasks.columns import (
    RowTask,
    check_columns,
    columns_of,
    limit_of,
    placed,
    reads_segments,
    row_chunks,
    tell_cut,
    text_of,
)
from glassformer.tasks.metrics.metric import Bootstrap, Metric
from glassformer.tasks.microbatch import text_labels
from glassformer.tasks.types import Dataset, Example, Examples, Prediction


def labels_of(
    rows: Dataset, column: str, *, problem: str | None = None, separator: str | None = None
) -> SingleLabel | MultiLabel | RegressionTarget:
    """What the rows that are learned from are labelled with; a class with a single row is warned about.

    Classes are numbered in sorted order, whole numbers by size. So the order of the rows changes nothing.

    Args:
        column: of the labels
        problem: "single", "multi" or "regression"; None = multi for lists or where a separator is given, regression
            for numbers of which one at least is not whole, else single
        separator: what is between several labels in a text, such as "|"
    Raises: DataError: a row without a label or with one of another kind, or nothing to tell apart. ConfigError: a
        problem that there is not.
    """
    if problem is not None and problem not in PROBLEMS:
        raise ConfigError(f"problem is {safe_repr(problem)}; it must be one of: {', '.join(PROBLEMS)}")
    if separator is not None and (separator == "" or problem not in (None, "multi")):
        raise ConfigError(f"separator={separator!r} is what is between labels; it needs problem='multi'")
    check_columns(rows, {"label": column})
    values = [row.get(column) for row in iter(rows)]
    kind = problem or ("multi" if separator else _problem_of(values))
    if kind == "regression":
        target = RegressionTarget([column])
        for index, value in enumerate(values):
            with placed(rows, index):
                target.read(value)
        return target
    if kind == "multi":
        names = _names(rows, column, values, lambda value: labels_in(value, separator), least=1)
        return MultiLabel(names, separator)
    return SingleLabel(_names(rows, column, values, lambda value: [name_of(value)], least=2))


def count_names(
    rows: Dataset, values: Iterable[Any], read: Callable[[Any], list[str]]
) -> tuple[Counter[str], dict[str, int]]:
    """How often each name occurs in rows, and the first row that has it; warns of names that differ in spelling alone.

    Args:
        values: of each row
        read: the names in one
    """
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for index, value in enumerate(values):
        with placed(rows, index):
            names = read(value)
        counts.update(names)
        for name in names:
            first.setdefault(name, index)
    if renamed := spelling_variants(counts):
        warnings.warn(spelling_message(renamed), stacklevel=4)
    return counts, first


def _names(rows: Dataset, column: str, values: list[Any], read: Callable[[Any], list[str]], *, least: int) -> list[str]:
    """The names of all labels that rows have, in order; at least this many."""
    counts, where = count_names(rows, values, read)
    names = sorted_names(counts)
    if len(names) < least:
        only = f"has the label {safe_repr(names[0])}" if names else "is without a label"
        raise DataError(f"every row of {column!r} {only}; there is nothing to tell apart ({rows.where(0)})")
    if single := [name for name in names if counts[name] == 1]:
        listed = ", ".join(f"{safe_repr(name)} ({rows.where(where[name])})" for name in single[:5])
        more = " …" if len(single) > 5 else ""
        warnings.warn(f"{len(single)} of {len(names)} labels have a single row: {listed}{more}", stacklevel=3)
    return names


def _problem_of(values: Sequence[object]) -> str:
    if any(isinstance(value, (list, tuple, np.ndarray)) for value in values):
        return "multi"
    numbers = [number_of(value) for value in values]
    fractions = any(number is not None and not number.is_integer() for number in numbers)
    return "regression" if fractions and None not in numbers else "single"


def label_names(config: Mapping[str, Any]) -> list[str]:
    """The names of a head's outputs, by number; LABEL_0, … where the config has none.

    Raises: ConfigError: names that leave a number out, or are duplicated.
    """
    named = config.get("id2label")
    if not isinstance(named, Mapping) or not named:
        return [f"LABEL_{number}" for number in range(int(config.get("num_labels") or 2))]
    numbers = {str(number): str(name) for number, name in named.items()}
    missing = [number for number in range(len(numbers)) if str(number) not in numbers]
    names = [numbers[str(number)] for number in range(len(numbers)) if str(number) in numbers]
    if missing or len(set(names)) < len(names):
        what = f"has no name for {missing[0]}" if missing else "gives two numbers one name"
        raise ConfigError(f"config.json: id2label {what}; it must name 0 to {len(numbers) - 1}, each by its own")
    return names


def label_kind_of(
    config: Mapping[str, Any], *, separator: str | None = None
) -> SingleLabel | MultiLabel | RegressionTarget:
    """The kind of labels that a config speaks of; without `problem_type`, a single output says a number.

    Raises: ConfigError: a problem that there is not.
    """
    names = label_names(config)
    problem_type = config.get("problem_type") or PROBLEMS["regression" if len(names) == 1 else "single"]
    if problem_type == PROBLEMS["regression"]:
        if len(names) > 1:
            raise ConfigError(
                f"config.json: a regression says one number, and id2label names {len(names)}: {', '.join(names[:5])}"
            )
        return RegressionTarget(names)
    if problem_type not in PROBLEMS.values():
        raise ConfigError(
            f"config.json: problem_type is {safe_repr(problem_type)}; it must be one of: {', '.join(PROBLEMS.values())}"
        )
    return MultiLabel(names, separator) if problem_type == PROBLEMS["multi"] else SingleLabel(names)


def relabelled(config: Mapping[str, Any], kind: LabelKind, *, own: bool) -> dict[str, Any]:
    """A model's config, by which its head says labels of this kind.

    Args:
        own: whether the checkpoint has a head for this very task; if that can say all these labels, it is kept with the
            names that it has. Any other head is new, and as large as there are labels.
    """
    head_fits = own and kind.fits(label_names(config))
    return {**config, **(kind.problem_config() if head_fits else kind.config())}


class ClassificationTask(RowTask):
    """A label for each example, whatever its inputs are: one class, several labels, or a number, as the config says.

    A subclass names its head and columns, the label's among them, and makes examples of rows.

    kind: of the labels, which decides the loss, the predictions and the metrics (`kinds.py`)

    Args:
        columns: role → column
        separator: what is between several labels in a text
    Raises: ConfigError: the model has no head, or its config does not say what the head predicts.
    """

    TARGETS: ClassVar[tuple[str, ...]] = ("label",)
    kind: LabelKind

    def __init__(
        self, model: LoadedModel, *, columns: Mapping[str, str] | None = None, separator: str | None = None
    ) -> None:
        super().__init__(model, columns)
        self.separator = separator
        self.kind = self.kind_of_config(model.config, separator)
        self.METRIC, self.VALIDATION_METRIC = self.kind.METRIC, self.kind.VALIDATION_METRIC

    @staticmethod
    def kind_of_config(config: Mapping[str, Any], separator: str | None) -> LabelKind:
        """The kind of labels that the model's config speaks of."""
        return label_kind_of(config, separator=separator)

    @staticmethod
    def kind_of_rows(rows: Dataset, columns: Mapping[str, str], separator: str | None) -> LabelKind:
        """The kind of labels that rows have."""
        return labels_of(rows, columns["label"], separator=separator)

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
        kind = cls.kind_of_rows(rows, columns_of(cls.COLUMNS, columns), options.get("separator"))
        return relabelled(config, kind, own=own)

    def labels(self, examples: Sequence[Example], flow: Any) -> Tensor:
        return text_labels(examples, self.kind.DTYPE)

    def decode(self, logits: Tensor, example: Example) -> dict[str, Any]:
        return self.kind.decode(logits, np.asarray(example["labels"]))

    def metric(self) -> Metric:
        return self.kind.metric(self.head)

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        return self.kind.metrics(predictions)


class Classify(ClassificationTask):
    """The class, labels or number of a text or a pair of texts.

    Args:
        columns: role → column; `text_pair` is read where it is named, or where the first rows have its usual column
        max_tokens: longer texts are cut, of a pair the longer first, and counted; None = what the model can take
        separator: as of `ClassificationTask`
    """

    HEAD = "text-classification"
    BASELINES = "glassformer.tasks.classify.baselines:baselines_of_task"
    COLUMNS: ClassVar[Mapping[str, str]] = {"text": "text", "text_pair": "text_pair", "label": "label"}

    def __init__(
        self,
        model: LoadedModel,
        *,
        columns: Mapping[str, str] | None = None,
        max_tokens: int | None = None,
        separator: str | None = None,
    ) -> None:
        super().__init__(model, columns=columns, separator=separator)
        self.max_tokens = limit_of(model, max_tokens)
        self._reads_pair = True if {"pair", "text_pair"} & (columns or {}).keys() else None
        self.how = {"cut": self.max_tokens, "labels": self.kind.config(), "separator": separator}

    def columns_read(self) -> dict[str, str]:
        return {role: column for role, column in self.columns.items() if role != "text_pair" or self._reads_pair}

    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        if self._reads_pair is None:  # the rows that come first are those that are learned from
            self._reads_pair = self.columns["text_pair"] in rows.columns
        self.how["pair"] = self._reads_pair
        return super().encode(rows, cache=cache)

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        sides = [self.columns[role] for role in ("text", "text_pair") if role == "text" or self._reads_pair]
        cut = 0

        def parse(row: Mapping[str, Any]) -> tuple[list[str], np.ndarray]:
            return [text_of(row, side) for side in sides], self.kind.read(row.get(self.columns["label"]))

        for numbers, parsed in row_chunks(rows, parse):
            texts, *pairs = (list(side) for side in zip(*(texts for texts, _ in parsed), strict=True))
            made, too_long = self.encoded(texts, pairs[0] if pairs else None)
            cut += too_long
            if numbers.start == 0:
                self.look_for_first_token(made[0]["input_ids"])
            for index, example, (own, label) in zip(numbers, made, parsed, strict=True):
                if not len(example["input_ids"]):
                    raise DataError(f"{rows.where(index)}: the text {own[0]!r} has no token")
                yield {**example, "labels": label}
        tell_cut("pairs of texts" if self._reads_pair else "texts", cut, len(rows), self.max_tokens)

    def encoded(self, texts: list[str], pairs: list[str] | None) -> tuple[list[dict[str, Any]], int]:
        """Texts, or pairs of them, as examples without labels; and how many were cut."""
        if pairs is not None:
            return pair_examples(self.model, texts, pairs, self.max_tokens)
        ids, cut = self.model.tokenizer.batch_ids(texts, self.max_tokens)
        return [{"input_ids": np.array(row, dtype=np.int32)} for row in ids], cut

    def look_for_first_token(self, ids: np.ndarray) -> None:
        """Warn where the head evaluates texts by their first token, and the tokenizer puts none there for it."""
        tokenizer = self.model.tokenizer
        marker = tokenizer.cls_token_id
        if self.head.reads_first_token and marker is not None and ids[:1].tolist() != [marker]:
            warnings.warn(
                f"the head reads each text's first token, which should be {tokenizer.cls_token!r}, and this tokenizer "
                "does not put it there; give its tokenizer.json a post-processor that does",
                stacklevel=2,
            )


def pair_examples(
    model: LoadedModel, texts: list[str], pairs: list[str], limit: int | None
) -> tuple[list[dict[str, Any]], int]:
    """Pairs of texts as examples without labels, with segments where the model has some; and how many were cut."""
    rows, cut = model.tokenizer.batch_pairs(texts, pairs, limit)
    segments = reads_segments(model)
    examples: list[dict[str, Any]] = []
    for row in rows:
        examples.append({"input_ids": np.array(row.ids, dtype=np.int32)})
        if segments:
            examples[-1]["token_type_ids"] = np.array(row.token_types, dtype=np.int8)
    return examples, cut
