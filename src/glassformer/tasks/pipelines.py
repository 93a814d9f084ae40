"""Pipeline base class: batching of inputs (one text, a list, a stream), options, and the shape of the answers.

one text            its answer, as Hugging Face gives it: a list of results
a list of texts     a list with the answer to each
anything else       a generator, a data set, an open file: a stream of the answers, as they come

The last class is the simplest: feature-extraction, the states that everything else is read off.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.core.masks import Packing
from glassformer.engine.encoder import BATCH_TOKENS, column_as_list, run_final_states
from glassformer.engine.pooling import POOLINGS
from glassformer.engine.prepare import prepare_for_texts
from glassformer.errors import ConfigError, DataError, UnknownOptionError, UnsupportedError, nearest
from glassformer.files import check_count, safe_repr
from glassformer.model import Model
from glassformer.models import eval_mode
from glassformer.progress import with_bar
from glassformer.tasks.base import Task
from glassformer.tasks.columns import limit_of, tell_cut
from glassformer.tasks.microbatch import run_examples
from glassformer.tasks.results import Results
from glassformer.tasks.types import Example

LONG = 20
"""A list of this many texts has a progress bar, where there is a terminal to show it in."""


class Pipeline(ABC):
    """A model put to a task.

    HEAD: what the model has to be loaded for
    WHY: what a model lacks that has no such head
    BODY: the body is enough, whatever head it has
    BATCH: how many texts go through the model together
    OWN: its options
    EMPTY: what a list of no results says, where that is an answer
    INPUT: what an error calls one of its inputs
    ROLES: the parts of an input that has several, and what each is: a "text", a "table", or "json"; else empty
    task: by its full name, languages included
    options: what holds where a call says nothing
    """

    HEAD: ClassVar[str]
    WHY: ClassVar[str]
    BODY: ClassVar[bool] = False
    BATCH: ClassVar[int] = 8
    OWN: ClassVar[tuple[str, ...]] = ()
    EMPTY: ClassVar[str] = ""
    INPUT: ClassVar[str] = "text"
    ROLES: ClassVar[Mapping[str, str]] = {}

    def __init__(self, model: Model, task: str, *, batch_size: int | None = None, **options: Any) -> None:
        self.model = model
        self.task = task
        self.batch_size = self.BATCH if batch_size is None else batch_size
        self.options = options
        check_count("batch_size", self.batch_size)
        self.check(options)

    def check(self, options: Mapping[str, Any]) -> None:
        """Raises: ConfigError: options that this task does not know, or does not take so."""
        for name in options:
            if name not in self.OWN:
                raise UnknownOptionError(f"the task {self.task!r} takes no {safe_repr(name)}{nearest(name, self.OWN)}")
        top_k = options.get("top_k")  # None = as many results as there usually are, or all
        if top_k is not None:
            check_count("top_k", top_k)

    @abstractmethod
    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        """The answer to each text of a batch; `first` is the number of its first text among all."""

    def merged(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a call, over those of the pipeline."""
        return {**self.options, **options}

    def is_one(self, given: Any) -> bool:
        """Is this one input, and not several?"""
        return isinstance(given, str)

    def check_input(self, given: Any) -> None:
        """Raises: DataError: no input for this task; what a task does not say here, its answer finds out."""
        if not isinstance(given, str):
            raise DataError(f"the input is {safe_repr(given)}; it must be a text")

    def wrap_answers(self, answers: Iterator[Any], options: Mapping[str, Any]) -> Iterator[Any]:
        """Yields results as they are computed; warnings that concern the whole call come last."""
        return answers

    def in_words(self, answer: Any) -> str:
        """An answer in a line of words alone; of several, the first."""
        return first_text(answer)

    def __call__(
        self, texts: Any, *, batch_size: int | None = None, progress: bool | None = None, **options: Any
    ) -> Any:
        """Answer a text, a list of them, or a stream.

        Args:
            texts: one text, a list, or anything else that gives texts one after the other.
            batch_size: how many go through the model together.
            progress: show a bar; None = of long lists, in a terminal.
            options: as when the pipeline was made; these win.
        Returns: of one text its results, of a list a list of them, else an iterator of them.
        Raises: DataError: something that is no text, or that the model cannot take. ConfigError: unknown options.
        """
        self.check(options)
        options = self.merged(options)
        size = self.batch_size if batch_size is None else batch_size
        check_count("batch_size", size)
        if self.is_one(texts):
            self.check_input(texts)
            (answer,) = self.wrap_answers(iter(self.answer([texts], options, 0)), options)
            return answer
        texts = column_as_list(texts)
        if isinstance(texts, (bytes, Mapping)) or not isinstance(texts, Iterable):
            raise DataError(f"the input is {safe_repr(texts)}; it must be a text, or several")
        answers = self.wrap_answers(self._answers(texts, options, size), options)
        if not isinstance(texts, Sequence):
            return answers
        bar = len(texts) >= LONG and sys.stderr.isatty() if progress is None else progress
        return Results(with_bar(answers, self.task, len(texts), shown=True) if bar else answers)

    def texts(self, texts: Sequence[Any], **options: Any) -> list[str]:
        """The first answer to each text, in words alone: what a comparison of systems takes.

        Raises: DataError: as a call; and one text that is no list.
        """
        if isinstance(texts, str) or not isinstance(texts, Sequence):
            raise DataError(f"texts(…) takes a list of texts, got {safe_repr(texts)}")
        return [self.in_words(answer) for answer in self(texts, **options)]

    def _answers(self, texts: Iterable[Any], options: Mapping[str, Any], size: int) -> Iterator[Any]:
        done, rest = 0, iter(texts)
        while batch := list(islice(rest, size)):
            for number, given in enumerate(batch, done):
                with _placed(f"{self.INPUT} {number}"):
                    self.check_input(given)
            last = done + len(batch) - 1
            with _placed(f"{self.INPUT} {done}" if last == done else f"{self.INPUT}s {done} to {last}"):
                answers = self.answer(batch, options, done)
            yield from answers
            done += len(batch)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.task!r}, {self.model!r})"


@contextmanager
def _placed(where: str) -> Iterator[None]:
    """Errors within say which of the inputs they are about."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def first_text(answer: Any) -> str:
    """The words of the first of some results."""
    result = answer[0] if isinstance(answer, list) else answer
    return first_text(result) if isinstance(result, list) else str(result.text)


# ------------------------------------------------------------------------------------- one pass of the network


class PackedPipeline(Pipeline):
    """A task whose answer is read off a text in one pass of the network: many texts at once, without padding.

        texts ──tokenise──> examples ──by length──> micro-batches of about 1,000 tokens ──head──> logits

    As in training and evaluation: the same examples, collated by the same task, so a text gets the same answer alone,
    among thousands, and in a report.

    truncation: a text beyond what the model reads is cut, with a warning that counts all of them (the default);
        False = it is an error
    """

    BATCH = 256
    OWN: ClassVar[tuple[str, ...]] = ("truncation",)

    def __init__(self, model: Model, task: str, **options: Any) -> None:
        self.limit = limit_of(model, None)
        super().__init__(model, task, **options)

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        if not isinstance(options.get("truncation", True), bool):
            raise ConfigError(
                f"truncation is {safe_repr(options['truncation'])}; it must be True (long texts are cut) or False "
                "(they are an error)"
            )

    def merged(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"truncation": True, **super().merged(options), "count": Counter()}

    def wrap_answers(self, answers: Iterator[Any], options: Mapping[str, Any]) -> Iterator[Any]:
        try:
            yield from answers
        finally:
            count = options["count"]
            tell_cut("texts", count["cut"], count["read"], self.limit)

    def count_truncated(self, rows: Sequence[Sequence[int]], cut: int, options: Mapping[str, Any]) -> None:
        """Take note of the token ids of some texts, of which this many were cut.

        Raises: DataError: a text was cut and should not be, or one has no token at all.
        """
        if cut and not options["truncation"]:
            raise DataError(
                f"{cut} of {len(rows)} texts have more than {self.limit} tokens; shorten or split them, or let them be "
                "cut with truncation=True"
            )
        if not all(map(len, rows)):
            raise DataError("a text is empty, and makes no token; leave it out")
        options["count"].update(read=len(rows), cut=cut)


def logits_of(task: Task, examples: Sequence[Example], tokens: int = BATCH_TOKENS) -> list[Tensor]:
    """The head's logits for each example, in their order, of 32 bits or more. [labels] or [tokens, labels]"""
    prepare_for_texts(task.model.network, len(examples))
    outputs = run_examples(task, examples, tokens=tokens, labelled=False)
    return [logits.to("cpu", torch.promote_types(logits.dtype, torch.float32)) for logits in outputs]


class FeatureExtraction(PackedPipeline):
    """feature-extraction pipeline: the vectors of a text's tokens, special ones included: an array [tokens, D] a text.

    One vector a text, pooled and normalised as the model's folder says, is `model.encode`.

    pooling: one vector of them, [D]: "cls" (the first), "lasttoken", "mean", "max", …
    truncation: as `PackedPipeline`
    """

    HEAD = "feature-extraction"
    WHY = "its states are not those of one text; call the model itself for what it makes of its inputs"
    BODY = True
    OWN = ("pooling", *PackedPipeline.OWN)

    def __init__(self, model: Model, task: str, **options: Any) -> None:
        if (sides := list(model.network.stacks())) != ["text"]:
            raise UnsupportedError(
                f"'feature-extraction' gives the states of one stack for text; this model has {' and '.join(sides)}: "
                "call the model itself"
            )
        super().__init__(model, task, **options)

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        pooling = options.get("pooling")
        if pooling is not None and pooling not in POOLINGS:
            raise ConfigError(f"pooling is {safe_repr(pooling)}; it must be None, or one of: {', '.join(POOLINGS)}")

    def in_words(self, answer: Any) -> str:
        return " × ".join(map(str, answer.shape)) + " numbers"

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        network = self.model.network
        pooling = options.get("pooling")
        rows, cut = self.model.tokenizer.batch_ids(batch, self.limit)
        self.count_truncated(rows, cut, options)
        vectors_of: dict[int, np.ndarray] = {}

        def read(states: Tensor, packing: Packing) -> list[np.ndarray]:
            texts = states.split(list(packing.lengths))
            pooled = texts if pooling is None else [POOLINGS[pooling](own[None])[0] for own in texts]
            return [vectors.float().cpu().numpy() for vectors in pooled]

        with eval_mode(network):
            for indices, vectors in run_final_states(network, rows, BATCH_TOKENS, read):
                vectors_of.update(zip(indices, vectors, strict=True))
        return [vectors_of[i] for i in range(len(batch))]
