"""Domain adaptation: masked language modelling on unlabelled texts of the same kind, and then fine-tuning.

    labelled + unlabelled ──masked language model──> encoder that knows the domain ──fine-tuning──> classifier

All texts are read without their labels, so one adapted encoder serves every number of labels and every seed of a study;
each cell is charged for it.
Source: Howard and Ruder 2018, "Universal Language Model Fine-tuning for Text Classification"; Gururangan et al. 2020,
"Don't Stop Pretraining".
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from glassformer.data.sequence import InMemoryRows
from glassformer.errors import DataError
from glassformer.few_labels.fine_tuning import ONE_STEP, FineTuning, FineTuningOptions
from glassformer.few_labels.method import Method
from glassformer.few_labels.rows import LabelledTexts
from glassformer.files import read_json_object
from glassformer.files.atomic import write_json
from glassformer.files.schema import Count, Doc, Positive
from glassformer.model import load
from glassformer.reports.table import Table, number
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.classify.task import Classify
from glassformer.tasks.masked import Masked
from glassformer.training.trainer import Trainer

SECONDS = "seconds.json"


@dataclass(frozen=True, kw_only=True)
class AdaptationOptions(FineTuningOptions):
    """Length and rate of both trainings."""

    adaptation_steps: Annotated[Count, Doc("Steps of masked language modelling, at most.")] = 200
    adaptation_epochs: Annotated[Count, Doc("How often it reads each text, at most.")] = 3
    adaptation_batch_size: Annotated[Count, Doc("Texts a step.")] = 16
    adaptation_rate: Annotated[Positive, Doc("Peak learning rate of masked language modelling.")] = 5e-5


class DomainAdaptation(Method[AdaptationOptions]):
    """Fine-tuning of an encoder that was adapted to the domain."""

    OPTIONS = AdaptationOptions
    NEEDS = ("labels", "unlabelled")
    BRIEF: ClassVar[dict[str, Any]] = {**ONE_STEP, "adaptation_steps": 1}

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> np.ndarray | None:
        texts = sorted({*labelled.texts, *unlabelled})
        settings = f"{self._begin} {self.setting.max_tokens} {self.options}"
        digest = hashlib.sha256("\0".join([settings, *texts]).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        with tempfile.TemporaryDirectory() as own:
            work = self.setting.work or Path(own)
            folder = work / f"adapted-{digest}"
            if (folder / SECONDS).is_file():
                self.setting.vectors.borrowed += float(read_json_object(folder / SECONDS, DataError)["seconds"])
            else:
                self._adapt(texts, folder)
            adapted = copy(self.setting)
            adapted.model, adapted.recent = str(folder), {}
            self._tuned = FineTuning(self.options, adapted)
            self._tuned.fit(labelled)
        self.thresholds, self.withheld = self._tuned.thresholds, self._tuned.withheld
        return None

    @property
    def roles(self) -> set[str]:
        return {"masked"} & self.setting.models.keys()

    @property
    def _begin(self) -> str:
        """The model to adapt: a masked language model where one is named; else the encoder, with a new head."""
        return self.setting.models.get("masked", self.setting.model)

    def _adapt(self, texts: Sequence[str], folder: Path) -> None:
        start, options = time.perf_counter(), self.options
        model = load(self._begin, task="fill-mask")
        task = Masked(model, max_tokens=self.setting.tokens_of(model))
        examples = task.encode(InMemoryRows([{"text": text} for text in texts], name="the texts"))
        size = min(options.adaptation_batch_size, len(examples))
        steps = min(options.adaptation_steps, -(-options.adaptation_epochs * len(examples) // size))
        training = TrainingOptions(steps=steps, batch_size=size, learning_rate=options.adaptation_rate, seed=0)
        Trainer(model, task, training, train=examples).train()
        folder.parent.mkdir(parents=True, exist_ok=True)
        # In place only when it is complete: an interrupted adaptation begins again.
        made = Path(tempfile.mkdtemp(prefix=".adapting-", dir=folder.parent))
        model.save_pretrained(made)
        write_json(made / SECONDS, {"seconds": time.perf_counter() - start}, DataError)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(made, folder)

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        return self._tuned.scores(texts)

    def saved(self) -> Classify:
        return self._tuned.saved()

    def tables(self) -> list[Table]:
        """Those of the fine-tuning."""
        return [
            *self._tuned.tables(),
            Table(["", "adaptation"], [["rate", number(self.options.adaptation_rate)]], folded=True),
        ]
