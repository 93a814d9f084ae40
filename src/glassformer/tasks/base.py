"""What a model is to learn from rows: which examples they make, how those are laid out, and how answers are judged.

row ──examples──> Example ──varied──> (masked, noised) ──passed──> Pass ──network──> losses
                                                                      └──meter──> figures
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Batch, Flow, Output
from glassformer.tasks.microbatch import Example, Pass, packed_texts, padded_texts

if TYPE_CHECKING:
    from glassformer.model import Model


class Examples(Protocol):
    """Examples by number: in memory, or mapped from files (`data/store.py`).

    lengths: tokens of each, which decide who shares a pass. [N] · fingerprint: another for other content
    """

    lengths: np.ndarray
    fingerprint: str

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Example: ...


class Rows(Protocol):
    """Rows by number, each a mapping from column to value (`data/rows.py`)."""

    columns: Sequence[str]
    fingerprint: str

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    def where(self, index: int) -> str:
        """Where a row stands, for messages: `train.csv: line 17`."""


class Meter(Protocol):
    """Figures that are added up pass by pass, so that memory does not grow with the data.

    The state is additive: processes add theirs, and `figures` reads them off the sum.
    """

    state: dict[str, Tensor]  # float64

    def add(self, output: Output, item: Pass) -> None:
        """What was said to one pass."""

    def figures(self) -> dict[str, float]:
        """What the state says: `accuracy`, `f1`, …"""


class Objective(ABC):
    """A task as training sees it. One is made for a model and the rows it learns from.

    TASK: whose head it needs · COLUMNS: what it reads of a row, by role: role → the column's usual name
    SAID: the roles of what the model shall say; the others are what it is shown
    METRIC: the figure that says which model is best, of the class or, where labels decide it, of the instance
    HIGHER: whether more of it is better
    columns: what this one reads: role → column
    """

    TASK: ClassVar[str]
    COLUMNS: ClassVar[Mapping[str, str]]
    SAID: ClassVar[tuple[str, ...]] = ()
    METRIC: str = "loss"
    HIGHER: bool = False
    columns: Mapping[str, str]

    def __init__(self, model: Model) -> None:
        self.model = model
        # One stack for text keeps the texts of a packed row apart; two, or pictures and sounds, need rectangles.
        self.packs = list(model.network.sides()) == ["text"]

    @classmethod
    def options(cls) -> list[str]:
        """The names of its own options, beside the model and the columns."""
        own = inspect.signature(cls).parameters.values()
        return [p.name for p in own if p.kind is not p.VAR_KEYWORD and p.name not in ("model", "columns")]

    @classmethod
    def head_config(
        cls,
        rows: Rows,
        config: Mapping[str, Any],
        *,
        own: bool,
        columns: Mapping[str, str] | None,
        options: Any,
    ) -> dict[str, Any]:
        """A model's config as the head needs it that is to learn from these rows.

        Args:
            config: of the checkpoint · own: whether it has a head for this very task
            columns, options: as the objective will be made with
        """
        return dict(config)

    @abstractmethod
    def examples(self, rows: Rows, *, cache: Path | None = None) -> Examples:
        """The examples that rows make; `cache`: a folder to keep them in, found there the next time.

        Raises: DataError: a row that makes none, with its file and line.
        """

    def length(self, example: Example) -> int:
        """How many tokens an example takes of a pass."""
        if "length" in example:
            return int(example["length"])
        return len(example["input_ids"]) + len(example.get("decoder_input_ids", ()))

    def varied(self, example: Example, draw: np.random.Generator) -> Example:
        """An example as it is shown this time; `draw` depends on (seed, epoch, example) alone."""
        return example

    def laid_out(self, examples: Sequence[Example]) -> tuple[Batch, Flow]:
        """Examples of like length as one call reads them."""
        pad = self.model._tokenizer.pad_token_id if self.model._tokenizer else None
        return packed_texts(examples) if self.packs else padded_texts(examples, pad or 0)

    def passed(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> Pass:
        """The same, with what should be said of them."""
        batch, flow = self.laid_out(examples)
        tokens = sum(len(e["input_ids"]) for e in examples)
        return Pass(batch, flow, self.labels(examples, flow), tuple(indices), tokens)

    @abstractmethod
    def labels(self, examples: Sequence[Example], flow: Any) -> Tensor | dict[str, Tensor]:
        """What the head should say of these examples, in the layout of their batch."""

    def answers(self, output: Output, item: Pass) -> list[Any]:
        """What the head says to each example of a pass: its logits, [labels] or [tokens, labels]."""
        logits = output.logits
        assert logits is not None  # heads that say something else have objectives that read it
        if item.flow.segments is not None and logits.dim() == 3:
            return list(logits[0].split(list(item.flow.segments.lengths)))
        if item.flow.keep is not None and logits.dim() == 3:
            return [row[: int(n)] for row, n in zip(logits, item.flow.keep[:, -1].sum(-1), strict=True)]
        return list(logits)

    @abstractmethod
    def meter(self) -> Meter:
        """A fresh one for a validation."""


def text_labels(examples: Sequence[Example], dtype: torch.dtype = torch.int64) -> Tensor:
    """A label a text. [texts], or [texts, labels]"""
    return torch.from_numpy(np.stack([np.asarray(e["labels"]) for e in examples])).to(dtype)
