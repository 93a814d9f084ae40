"""Visual question answering (LXMERT): the answer to a question about an image, one of those that are known.

    features, boxes   of the regions that an object detector finds ───┐
    question          what colour is the cat ?                        ├─ encoders, cross-attention ─ scores of answers
    answer            black: its number among all answers

Source: Tan and Bansal 2019, sections 2 and 3.1.3; regions: Anderson et al. 2018, section 3.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from glassformer.core.flow import Batch, Flow, Output
from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.tasks.classify.kinds import LabelKind, SingleLabel
from glassformer.tasks.classify.task import ClassificationTask, label_names, labels_of
from glassformer.tasks.columns import limit_of, placed, tokenised_texts
from glassformer.tasks.regions import RegionReader, with_regions
from glassformer.tasks.row_files import RowFiles
from glassformer.tasks.types import Dataset, Example, MicroBatch


class AnswerImage(ClassificationTask):
    """Questions about images whose regions an object detector has described.

    `features` [regions, width] and `boxes` [regions, 4] are lists, arrays, or the paths of NumPy files (.npy). Boxes
    are fractions of the image's width and height. Rows may have different numbers of regions.

    Args:
        columns: role → column, where a column has another name
        folder: of the files; None = that of the table
        max_tokens: longer questions are cut, and counted; None = what the model can take
    Raises: ConfigError: the model has another head. UnsupportedError: it reads no regions.
    """

    HEAD = "visual-question-answering"
    BASELINES = "glassformer.tasks.classify.baselines:class_baselines"  # what the question alone gives away
    COLUMNS: ClassVar[Mapping[str, str]] = {
        "text": "question",
        "features": "features",
        "boxes": "boxes",
        "label": "answer",
    }

    def __init__(
        self,
        model: LoadedModel,
        *,
        columns: Mapping[str, str] | None = None,
        folder: str | None = None,
        max_tokens: int | None = None,
    ) -> None:
        super().__init__(model, columns=columns)
        self.regions = RegionReader(model, self.columns, folder)
        self.max_tokens = limit_of(model, max_tokens)
        self.how = {"cut": self.max_tokens, "labels": self.kind.config()}

    @staticmethod
    def kind_of_config(config: Mapping[str, Any], separator: str | None) -> LabelKind:
        return SingleLabel(label_names(named_answers(config)))

    @staticmethod
    def kind_of_rows(rows: Dataset, columns: Mapping[str, str], separator: str | None) -> LabelKind:
        return labels_of(rows, columns["label"], problem="single")

    @classmethod
    def head_config(cls, rows: Dataset, config: Mapping[str, Any], **given: Any) -> dict[str, Any]:
        fitted = super().head_config(rows, named_answers(config), **given)
        return {**fitted, "num_qa_labels": len(label_names(fitted))}

    def inputs(self) -> list[str]:
        return [self.columns["text"]]

    def files(self, rows: Dataset) -> list[RowFiles]:
        return self.regions.files(rows)

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        questions = tokenised_texts(rows, self.columns["text"], self.model, self.max_tokens, "questions")
        for index, question, ids in questions:
            with placed(rows, index):
                label = self.kind.read(rows[index].get(self.columns["label"]))
                regions = self.regions.read(rows, index)
                if not len(ids):
                    raise DataError(f"the question {safe_repr(question)} has no token")
            yield {**regions, "input_ids": ids, "labels": label, "length": len(ids) + len(regions["visual_feats"])}

    def collate_inputs(self, examples: Sequence[Example]) -> tuple[Batch, Flow]:
        batch, flow = super().collate_inputs(examples)
        return with_regions(batch, examples), flow

    def split_packed(self, output: Output, batch: MicroBatch) -> Output:
        return replace(output, logits=output.question_answering_score)


def named_answers(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config by which its answers have names: LABEL_0, … where it has none."""
    return {**config, "num_labels": config.get("num_qa_labels", 9_500)} if not config.get("id2label") else dict(config)
