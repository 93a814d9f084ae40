"""Instruction tuning: prompts with their answers, of which the answers alone are learnt.

    prompt   Name a fruit:            labels   -100 -100 -100 -100
    answer    a banana                           a banana </s>

Source: Ouyang et al. 2022, appendix C.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from glassformer.errors import DataError
from glassformer.tasks.base import Dataset, Examples, Progress
from glassformer.tasks.causal.evaluation import score_prediction
from glassformer.tasks.causal.task import Causal
from glassformer.tasks.causal.token_losses import token_losses
from glassformer.tasks.columns import check_columns, chunks, placed, store_examples, tell_cut, text_of
from glassformer.tasks.microbatch import IGNORE_INDEX
from glassformer.tasks.predictions import Prediction
from glassformer.tasks.windows import room_for
from glassformer.text.engine import prefix_and_suffix

if TYPE_CHECKING:
    from glassformer.model import Model


class Answers(Causal):
    """Prompts with their answers, of which the answers alone are learnt.

    Prompt and answer are cut into tokens as one text, so a space between them stays where it is put. What does not fit
    is taken from the beginning of the prompt.

    Args:
        between: what ends every prompt, such as a new line.
        max_tokens: of prompt and answer together; None = as many as the model takes.
        prompts: the prompts are learnt too · columns: role → column, where a column has another name.
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {"prompt": "prompt", "answer": "answer"}
    TARGETS = ("answer",)
    SCORED = "answer"

    def __init__(
        self,
        model: Model,
        *,
        between: str = "",
        max_tokens: int | None = None,
        prompts: bool = False,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model, block=max_tokens, columns=columns)
        self.between = between
        self.prompts = prompts

    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        check_columns(rows, list(self.columns.values()))
        how = {"between": self.between, "room": self.block, "prompts": self.prompts}
        return store_examples(
            self._answered(rows), rows, self.model, cache, made="answers", columns=self.columns, **how
        )

    def _answered(self, rows: Dataset) -> Iterator[dict[str, np.ndarray]]:
        tokenizer = self.model.tokenizer
        before, after = prefix_and_suffix(tokenizer.engine)
        end = tokenizer.eos_token_id
        if end is not None and end not in after:
            after = [*after, end]
        room = room_for(self.block, len(before) + len(after))
        cut = 0
        for numbers, held in chunks(rows):
            pairs: list[tuple[str, str]] = []
            for index, row in zip(numbers, held, strict=True):
                with placed(rows, index):
                    prompt, answer = (text_of(row, column) for column in self.columns.values())
                    pairs.append((prompt + self.between, answer))
            encoding = tokenizer([prompt + answer for prompt, answer in pairs], add_special_tokens=False)
            for place, (prompt, answer) in enumerate(pairs):
                ids = encoding["input_ids"][place]
                # A token across the seam is of the answer.
                seam = sum(1 for _, end in encoding.offsets(place) if end <= len(prompt))
                if seam == len(ids):
                    raise DataError(
                        f"{rows.where(numbers[place])}: the answer {answer!r} has no token; it needs one to be learnt"
                    )
                answer_ids = ids[seam:][:room]
                prompt_ids = ids[max(seam - (room - len(answer_ids)), 0) : seam]
                cut += len(prompt_ids) + len(answer_ids) < len(ids)
                whole = np.array([*before, *prompt_ids, *answer_ids, *after], dtype=np.int32)
                labels = whole.copy()
                if not self.prompts:
                    labels[: len(before) + len(prompt_ids)] = IGNORE_INDEX
                yield {"input_ids": whole, "labels": labels}
        tell_cut("prompts with their answers", cut, len(rows), self.block)

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """The losses of each answer, given its prompt; whatever was learnt, answers alone are scored."""
        task = copy(self)
        task.prompts = False
        examples = task.encode(rows)
        prompt, answer = self.columns["prompt"], self.columns["answer"]
        for index, losses in enumerate(token_losses(task, examples, progress)):
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
        task = copy(self)
        task.prompts = False
        examples = task.encode(rows)
        for index in range(len(examples)):
            labels = np.array(examples[index]["labels"])
            yield labels[labels != IGNORE_INDEX].tolist()

    @property
    def context(self) -> str:
        return f"answers alone, each given its prompt, together of at most {self.block:,} tokens"

    @property
    def everything(self) -> str:
        return "all losses / ln 2 / characters (Unicode code points) of the answers, their ends counted too"
