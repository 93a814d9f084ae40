"""Causal language modelling and instruction tuning: predict every token from those before it.

    read   Fruit flies like a banana          the labels are the ids themselves; the head compares position t with
    say          flies like a banana ·        token t + 1, the first token has no context and is not predicted

Source: Radford et al. 2018, section 3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from glassformer.core.flow import Flow
from glassformer.core.losses import IGNORE_INDEX
from glassformer.data.packing import document_starts, pack
from glassformer.errors import DataError
from glassformer.loaded_model import LoadedModel
from glassformer.tasks.base import Progress
from glassformer.tasks.causal.evaluation import LanguageModelTask, score_prediction, token_losses
from glassformer.tasks.columns import tell_cut, text_of
from glassformer.tasks.metrics.metric import Metric, PerplexityMetric
from glassformer.tasks.types import Dataset, Example, Examples, MicroBatch, Prediction
from glassformer.tasks.windows import (
    encode_texts,
    max_example_tokens,
    split_stretches,
    token_labels,
    tokens_beside_special,
)
from glassformer.text.engine import prefix_and_suffix


class Causal(LanguageModelTask):
    """Texts, packed into blocks of one length, every token of them learnt.

    A validation scores these blocks, whose first tokens have little before them, and calls it `block_perplexity`: the
    report's windows, which overlap, give a lower perplexity, and take twice the time.

    Args:
        block: in tokens; None = as many as the model takes.
        isolated: texts of one block do not see each other; False = they do, as GPT-2 was trained.
        rest: the last block, which is shorter: "keep" or "drop" it.
        columns: role → column, where a column has another name.
    """

    HEAD = "text-generation"
    VALIDATION_METRIC = "block_perplexity"
    CACHE_KEY = "causal"
    REQUIRES = "a text of two tokens at least is needed, and with rest='drop' a whole block"

    def __init__(
        self,
        model: LoadedModel,
        *,
        block: int | None = None,
        isolated: bool = True,
        rest: str = "keep",
        columns: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model, columns)
        self.block = max_example_tokens(model, block)
        self.isolated = isolated
        self.rest = rest
        self.how = {"block": self.block, "isolated": isolated, "rest": rest}

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        tokenizer = self.model.tokenizer
        documents = encode_texts(rows, self.columns["text"], lambda texts: tokenizer.batch_ids(texts, None)[0])
        blocks = pack(documents, self.block, end=tokenizer.eos_token_id, isolated=self.isolated, rest=self.rest)
        return (block for block in blocks if (_labels(block) != IGNORE_INDEX).any())

    def collate(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> MicroBatch:
        # A rectangle holds a stretch a row: there is nothing else in it that could keep them apart.
        stretches = examples if self.packs else [part for example in examples for part in _stretches(example)]
        return super().collate(stretches, indices)

    def labels(self, examples: Sequence[Example], flow: Flow) -> Tensor:
        return token_labels([_labels(example) for example in examples], flow)

    def metric(self) -> Metric:
        return PerplexityMetric(self.head, prefix=self.VALIDATION_METRIC.removesuffix("perplexity"))


class Answers(Causal):
    """Instruction tuning: prompts with their answers, of which the answers alone are learnt.

        prompt   Name a fruit:            labels   -100 -100 -100 -100
        answer    a banana                           a banana </s>

    Prompt and answer are cut into tokens as one text, so a space between them stays where it is put. What does not fit
    is taken from the beginning of the prompt.

    Args:
        between: what ends every prompt, such as a new line.
        max_tokens: of prompt and answer together; None = as many as the model takes.
        prompts: the prompts are learnt too
        columns: role → column, where a column has another name.
    Source: Ouyang et al. 2022, appendix C.
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {"prompt": "prompt", "answer": "answer"}
    TARGETS = ("answer",)
    SCORED_ROLE = "answer"
    VALIDATION_METRIC = "perplexity"  # of answers alone, as in the report
    CACHE_KEY = "answers"
    REQUIRES = ""

    def __init__(
        self,
        model: LoadedModel,
        *,
        between: str = "",
        max_tokens: int | None = None,
        prompts: bool = False,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model, block=max_tokens, columns=columns)
        self.between = between
        self.prompts = prompts
        if prompts:
            self.VALIDATION_METRIC = "prompt_and_answer_perplexity"
        self.how = {"between": between, "room": self.block, "prompts": prompts}

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        prompt, answer = self.columns["prompt"], self.columns["answer"]
        cut = 0

        def read(row: Mapping[str, Any], column: str) -> tuple[str, str]:
            return text_of(row, prompt) + self.between, text_of(row, answer)

        for example, whole in encode_texts(rows, answer, self._answered, read):
            cut += not whole
            yield example
        tell_cut("prompts with their answers", cut, len(rows), self.block)

    def _answered(self, pairs: list[tuple[str, str]]) -> Iterator[tuple[Example, bool]]:
        """The examples of prompts and answers, and whether each is whole."""
        tokenizer = self.model.tokenizer
        before, after = prefix_and_suffix(tokenizer.engine)
        end = tokenizer.eos_token_id
        if end is not None and end not in after:
            after = [*after, end]
        room = tokens_beside_special(self.block, len(before) + len(after))
        encoding = tokenizer([prompt + answer for prompt, answer in pairs], add_special_tokens=False)
        for number, (prompt, answer) in enumerate(pairs):
            ids = encoding["input_ids"][number]
            # A token across the seam is of the answer.
            seam = sum(1 for _, end in encoding.offsets(number) if end <= len(prompt))
            if seam == len(ids):
                raise DataError(f"the answer {answer!r} has no token; it needs one to be learnt")
            answer_ids = ids[seam:][:room]
            prompt_ids = ids[max(seam - (room - len(answer_ids)), 0) : seam]
            example_ids = np.array([*before, *prompt_ids, *answer_ids, *after], dtype=np.int32)
            labels = example_ids.copy()
            if not self.prompts:
                labels[: len(before) + len(prompt_ids)] = IGNORE_INDEX
            whole = len(prompt_ids) + len(answer_ids) == len(ids)
            yield {"input_ids": example_ids, "labels": labels}, whole

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """The losses of each answer, given its prompt; whatever was learnt, answers alone are scored."""
        examples = self._answers(rows)
        prompt, answer = self.columns["prompt"], self.columns["answer"]
        for index, losses in enumerate(token_losses(self, examples, progress)):
            row = rows[index]
            text = row[answer]
            if len(examples[index]["input_ids"]) >= self.block:  # it may have been cut
                scored = self.model.tokenizer.decode(losses.true.tolist(), skip_special_tokens=True)
                text = text[: len(scored)]
            yield score_prediction(
                index=index,
                where=rows.where(index),
                row={"prompt": row[prompt], "answer": text},
                ids=losses.true,
                losses=losses.losses,
                alone=0,
                details={"start": 0},
            )

    def training_ids(self, rows: Dataset) -> Iterator[list[int]]:
        examples = self._answers(rows)
        for index in range(len(examples)):
            labels = np.array(examples[index]["labels"])
            yield labels[labels != IGNORE_INDEX].tolist()

    def _answers(self, rows: Dataset) -> Examples:
        """Examples of which the answers alone are labels."""
        task = copy(self)  # training may learn prompts too, and its own examples stay as they are
        task.prompts = False
        return task.encode(rows)

    @property
    def context(self) -> str:
        return f"answers alone, each given its prompt, together of at most {self.block:,} tokens"

    @property
    def loss_description(self) -> str:
        return "all losses / ln 2 / characters (Unicode code points) of the answers, their ends counted too"


def _labels(example: Example) -> np.ndarray:
    """The labels of an example: its ids but for those that are hidden, and the first of each stretch."""
    labels = np.array(example.get("labels", example["input_ids"]))
    labels[document_starts(_lengths(example))] = IGNORE_INDEX
    return labels


def _stretches(example: Example) -> list[dict[str, Any]]:
    """The stretches of an example that see each other, each an example of its own."""
    lengths = _lengths(example)
    parts = {name: split_stretches(example[name], lengths) for name in ("input_ids", "labels") if name in example}
    return [dict(zip(parts, columns, strict=True)) for columns in zip(*parts.values(), strict=True)]


def _lengths(example: Example) -> np.ndarray:
    return np.asarray(example.get("documents", [len(example["input_ids"])]))
