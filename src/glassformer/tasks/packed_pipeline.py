"""What tasks that read have in common: many texts at once, without padding, and word of those that were cut.

    texts ──tokenise──> examples ──by length──> passes of about 1,000 tokens ──head──> logits ──> back in order

As in training: the same examples, the same layout (`Objective.laid_out`), so a text gets the same answer alone, among
thousands, and from whoever judges the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from glassformer.engine.encoder import PASS_TOKENS, WORTH_PACKING
from glassformer.engine.modes import evaluating
from glassformer.engine.prepare import prepare_plain
from glassformer.errors import ConfigError, DataError
from glassformer.files import shown
from glassformer.model import Model
from glassformer.tasks.base import Objective
from glassformer.tasks.columns import limit_of, tell_cut
from glassformer.tasks.microbatch import Example, Pass, lay_out
from glassformer.tasks.pipeline import Pipeline, check_names, check_text


@dataclass
class Count:
    """How many texts of a call were read, and how many of them not to their end."""

    read: int = 0
    cut: int = 0


class Reading(Pipeline):
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
                f"truncation is {shown(options['truncation'])}; it must be True (long texts are cut) or False "
                "(they are an error)"
            )

    def check_input(self, given: Any) -> None:
        check_text(given)

    def merged(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"truncation": True, **super().merged(options), "count": Count()}

    def told(self, answers: Iterator[Any], options: Mapping[str, Any]) -> Iterator[Any]:
        try:
            yield from answers
        finally:
            count = options["count"]
            tell_cut("texts", count.cut, count.read, self.limit)

    def counted(self, rows: Sequence[Sequence[int]], cut: int, options: Mapping[str, Any]) -> None:
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


def said(objective: Objective, examples: Sequence[Example], pass_tokens: int = PASS_TOKENS) -> list[Tensor]:
    """What the head says to each example, in their order: logits of 32 bits or more. [labels] or [tokens, labels]"""
    network, device = objective.model.network, objective.model.device
    if len(examples) >= WORTH_PACKING:
        prepare_plain(network)
    found: dict[int, Tensor] = {}
    with evaluating(network), torch.inference_mode():
        for chosen in lay_out([objective.length(example) for example in examples], pass_tokens):
            item = Pass(*objective.laid_out([examples[i] for i in chosen]), {}, tuple(chosen)).to(device)
            answers = objective.answers(network(item.batch, item.flow), item)
            for index, logits in zip(chosen, answers, strict=True):
                found[index] = logits.to("cpu", torch.promote_types(logits.dtype, torch.float32))
    return [found[i] for i in range(len(examples))]
