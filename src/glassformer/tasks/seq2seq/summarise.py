"""Summarisation: ROUGE, beside the first sentences of the source (lead-1, lead-3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from glassformer.tasks.base import Baseline, Dataset
from glassformer.tasks.generate.lead import Lead
from glassformer.tasks.metrics.rouge import KINDS, RougeMetric
from glassformer.tasks.metrics.text_metric import TextMetric
from glassformer.tasks.predictions import Prediction
from glassformer.tasks.seq2seq.generated import ReferenceTask, with_texts


class Summarise(ReferenceTask):
    """Summaries of sources. Args: as of `SequenceToSequence`"""

    METRIC = "ROUGE-L f"
    BEAMS = 4

    def text_metrics(self) -> list[tuple[TextMetric, tuple[str, ...]]]:
        return [(RougeMetric(language=self.evaluation.language), tuple(f"{kind} f" for kind in KINDS))]

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        sources = [x.row["source"] for x in predictions]
        for sentences, about in ((1, "the first sentence"), (3, "the first three sentences")):
            summaries = Lead(sentences, self.evaluation.language)(sources)
            yield Baseline(f"lead-{sentences}", about, with_texts(predictions, summaries))
