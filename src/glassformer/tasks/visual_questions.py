"""visual-question-answering pipeline: answers to a question about an image, of LXMERT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from glassformer.data.rows import read_rows
from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.model import Model
from glassformer.models import eval_mode
from glassformer.tasks.answer_image import named_answers
from glassformer.tasks.classify.task import label_names
from glassformer.tasks.columns import limit_of
from glassformer.tasks.label_options import ranked
from glassformer.tasks.pipelines import Pipeline
from glassformer.tasks.regions import RegionReader
from glassformer.tasks.results import ImageAnswer, Results

TOP_K = 5
"""Answers to a question, as in the reference library; LXMERT knows 9,500."""


class VisualQuestionAnswering(Pipeline):
    """The most probable answers to a question about an image, whose regions an object detector has described.

        ask({"question": "what colour is the cat ?", "features": "cat-features.npy", "boxes": "cat-boxes.npy"})

    features, boxes: as in training (`AnswerImage`): arrays, lists, or the paths of NumPy files
    top_k: how many answers (default 5); None = all
    """

    HEAD = "visual-question-answering"
    WHY = "it answers no questions about images; LXMERT does"
    OWN = ("top_k",)
    INPUT = "question"
    ROLES: ClassVar[Mapping[str, str]] = {"question": "text", "features": "file", "boxes": "file"}

    def __init__(self, model: Model, task: str, **options: Any) -> None:
        super().__init__(model, task, **options)
        self.names = label_names(named_answers(model.config))
        self.regions = RegionReader(model, {"features": "features", "boxes": "boxes"}, None)

    def is_one(self, given: Any) -> bool:
        return isinstance(given, Mapping)

    def check_input(self, given: Any) -> None:
        asked = given.get("question") if isinstance(given, Mapping) else None
        if not isinstance(asked, str) or not asked.strip() or not all(name in given for name in ("features", "boxes")):
            raise DataError(
                f"the input is {safe_repr(given)}; it must be {{'question': 'a text', 'features': …, 'boxes': …}}, the "
                "latter as an object detector describes the image"
            )

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        with eval_mode(self.model.network), torch.inference_mode():
            return [self._answers_to(given, options.get("top_k", TOP_K)) for given in batch]

    def _answers_to(self, given: Mapping[str, Any], top_k: int | None) -> Results[ImageAnswer]:
        row = {name: given[name] for name in self.ROLES}
        regions = self.regions.read(read_rows([row]), 0)
        limit = limit_of(self.model, None)
        ids = self.model.tokenizer([row["question"]], truncation=True, max_length=limit, return_tensors="pt")
        inputs: dict[str, Any] = {**ids, **{name: torch.from_numpy(numbers)[None] for name, numbers in regions.items()}}
        output: Any = self.model(**{name: x.to(self.model.device) for name, x in inputs.items()})
        scores = output.question_answering_score[0].float().softmax(-1).cpu()
        return Results(ImageAnswer(answer, score) for answer, score in ranked(self.names, scores, top_k))
