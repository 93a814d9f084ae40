"""Pipelines that read a text in one pass of the network: many texts at once, without padding, and cut ones counted.

    texts ──tokenise──> examples ──by length──> micro-batches of about 1,000 tokens ──head──> logits ──> back in order

As in training and evaluation: the same examples, collated by the same task, so a text gets the same answer alone, among
thousands, and in a report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from glassformer.engine.encoder import BATCH_TOKENS, MIN_TEXTS_TO_PREPARE
from glassformer.engine.prepare import prepare_plain
from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.model import Model
from glassformer.tasks.base import Task
from glassformer.tasks.columns import limit_of, tell_cut
from glassformer.tasks.loop import run_examples
from glassformer.tasks.microbatch import Example
from glassformer.tasks.pipelines import Pipeline, check_names, check_text


@dataclass
class TruncationCount:
    """How many texts of a call were read, and how many of them not to their end."""

    read: int = 0
    cut: int = 0


class PackedPipeline(Pipeline):
    """A task whose answer is read off a text in one pass.

    OWN: its options
    truncation: a text beyond what the model reads is cut, with a warning that counts all of them (the default);
        False = it is an error
    """

    BATCH = 256
    OWN: ClassVar[tuple[str, ...]] = ("truncation",)

    def __init__(self, model: Model, task: str, **options: Any) -> None:
        self.limit = limit_of(model, None)
        super().__init__(model, task, **options)

    def check(self, options: Mapping[str, Any]) -> None:
        check_names(self.task, options, self.OWN)
        if not isinstance(options.get("truncation", True), bool):
            raise ConfigError(
                f"truncation is {safe_repr(options['truncation'])}; it must be True (long texts are cut) or False "
                "(they are an error)"
            )

    def check_input(self, given: Any) -> None:
        check_text(given)

    def merged(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"truncation": True, **super().merged(options), "count": TruncationCount()}

    def wrap_answers(self, answers: Iterator[Any], options: Mapping[str, Any]) -> Iterator[Any]:
        try:
            yield from answers
        finally:
            count = options["count"]
            tell_cut("texts", count.cut, count.read, self.limit)

    def count_truncated(self, rows: Sequence[Sequence[int]], cut: int, options: Mapping[str, Any]) -> None:
        """Take note of the token ids of some texts, of which so many were cut.

        Raises: DataError: a text was cut and should not be, or one has no token at all.
        """
        if cut and not options["truncation"]:
            raise DataError(
                f"{cut} of {len(rows)} texts have more than {self.limit} tokens; shorten or split them, or let them be "
                "cut with truncation=True"
            )
        if not all(map(len, rows)):
            raise DataError("a text is empty, and makes no token; leave it out")
        options["count"].read += len(rows)
        options["count"].cut += cut


def logits_of(task: Task, examples: Sequence[Example], tokens: int = BATCH_TOKENS) -> list[Tensor]:
    """The head's logits for each example, in their order, of 32 bits or more. [labels] or [tokens, labels]"""
    if len(examples) >= MIN_TEXTS_TO_PREPARE:
        prepare_plain(task.model.network)
    outputs = run_examples(task, examples, tokens=tokens, labelled=False)
    return [logits.to("cpu", torch.promote_types(logits.dtype, torch.float32)) for logits in outputs]
