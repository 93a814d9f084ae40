"""Translation and summarisation: texts are generated from sources and scored against references (BLEU, chrF, ROUGE).

A model reads sources as in training, cut where they were cut there, and generates by beam search. Each row has one
reference or several. The loss of the first of them, token by token, is scored too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar

import numpy as np
import torch

from glassformer.files import check_count
from glassformer.generation.generate import generate, generation_defaults
from glassformer.loaded_model import LoadedModel
from glassformer.models.model_config import StoredGenerationConfig
from glassformer.tasks.base import EvaluationOptions, Progress
from glassformer.tasks.causal.evaluation import loss_sums, token_losses
from glassformer.tasks.columns import check_columns, parts_of
from glassformer.tasks.metrics.bleu import BleuMetric, ChrfMetric
from glassformer.tasks.metrics.metric import Bootstrap, BootstrapSums, BootstrapUnion, perplexity
from glassformer.tasks.metrics.rouge import KINDS, RougeMetric
from glassformer.tasks.metrics.text_metric import TextMetric
from glassformer.tasks.seq2seq.baselines import Lead, Lexicon, nearest_targets
from glassformer.tasks.seq2seq.task import SequenceToSequence, source_of, target_of
from glassformer.tasks.types import Baseline, Dataset, Prediction

TextMetrics = list[tuple[TextMetric, tuple[str, ...]]]
"""Text metrics, and those of the scores of each that are reported."""

NEW_TOKENS = 128
"""Longer than most summaries and translated sentences; bounds the time of a model that never ends."""
TRAINING_PAIRS = 100_000
"""Baselines learn from this many pairs at most: they lie in memory."""


@dataclass(frozen=True)
class GenerationEvaluation(EvaluationOptions):
    """How texts are generated for an evaluation.

    beams: beam width; None = that of the task
    max_new_tokens: of a text, and never more than the model has room for
    length_penalty: above 0 favours long texts; None = as the model's makers say
    no_repeat_ngram_size: n-grams of this size are not repeated; None = as the model's makers say
    batch: rows that are generated together
    language: of the texts, by which the sentences of summaries are found
    """

    beams: int | None = None
    max_new_tokens: int = NEW_TOKENS
    length_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    batch: int = 16
    language: str = "en"

    def __post_init__(self) -> None:
        for name in ("beams", "max_new_tokens", "batch", "no_repeat_ngram_size"):
            value = getattr(self, name)
            if value is None and name in ("beams", "no_repeat_ngram_size"):
                continue
            check_count(name, value)


class ReferenceTask(SequenceToSequence):
    """A text that is generated from a source, and compared with references.

    BEAMS: the usual beam width
    """

    BEAMS: ClassVar[int]
    EVALUATION = GenerationEvaluation
    evaluation: GenerationEvaluation

    @property
    def training_identity(self) -> str:
        # Trained the same way, and so called in checkpoints from before it was divided.
        return SequenceToSequence.__name__

    @abstractmethod
    def text_metrics(self) -> TextMetrics:
        """Fresh text metrics of an evaluation."""

    @property
    def beams(self) -> int:
        """The beam width of an evaluation."""
        return self.evaluation.beams or self.BEAMS

    @property
    def max_new_tokens(self) -> int:
        """How many tokens of a text are generated at most."""
        room = self.model.network.max_tokens
        asked = self.evaluation.max_new_tokens
        return asked if room is None else min(asked, room - 1)

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """What the model generates for each source, with its references."""
        source, target = self.columns["source"], self.columns["target"]
        check_columns(rows, {"source": source, "target": target})
        pairs = list(self.pairs(rows))
        examples = [self.example(source_ids, target_ids) for source_ids, target_ids in pairs]
        losses = list(token_losses(self, examples))
        texts = self.generate([example["input_ids"] for example in examples], progress)
        metrics = self.text_metrics()
        for index, ((text, ended), of_target) in enumerate(zip(texts, losses, strict=True)):
            references = parts_of(rows[index], target)
            counts = [list(metric.add(text, references)) for metric, _ in metrics]
            yield Prediction(
                index=index,
                where=rows.where(index),
                row={"source": source_of(rows[index], source)},
                label=references,
                predicted=text,
                loss=float(of_target.losses.mean()),
                details={
                    "tokens": len(of_target.losses),
                    "cut": len(pairs[index][0]) > self.source.room,
                    "ended": ended,
                    "metrics": {
                        name: round(float(metric.scores(np.array([row]), 1)[name][0]), 4)
                        for (metric, names), row in zip(metrics, counts, strict=True)
                        for name in names
                    },
                    "counts": counts,
                },
            )

    def generate(self, sources: Sequence[np.ndarray], progress: Progress | None = None) -> list[tuple[str, bool]]:
        """The text that the model generates for each source, and whether it came to its end there.

        The longest are first: rows of like lengths share a batch, and what needs most memory fails at once.
        """
        names = ("length_penalty", "no_repeat_ngram_size")
        options = {name: value for name in names if (value := getattr(self.evaluation, name)) is not None}
        options |= {"num_beams": self.beams, "max_new_tokens": self.max_new_tokens}
        model = with_decoder_start(self)
        stops = set(generation_defaults(model).stop_ids)
        order = sorted(range(len(sources)), key=lambda i: (-len(sources[i]), i))
        texts = [("", True)] * len(sources)
        for start in range(0, len(order), self.evaluation.batch):
            batch = order[start : start + self.evaluation.batch]
            ids = torch.full((len(batch), len(sources[batch[0]])), self.padding)
            mask = torch.zeros_like(ids)
            for row, index in enumerate(batch):
                ids[row, -len(sources[index]) :] = torch.from_numpy(sources[index]).long()
                mask[row, -len(sources[index]) :] = 1
            generated = generate(model, ids.to(model.device), mask.to(model.device), options)
            # The first token is the one that the decoder was given to begin with.
            for index, tokens in zip(batch, generated[:, 1:].tolist(), strict=True):
                text = self.writer.decode(tokens, skip_special_tokens=True).strip()
                texts[index] = text, not stops or bool(stops & set(tokens))
            if progress is not None:
                progress(len(batch))
        return texts

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        parts: list[Bootstrap] = []
        for number, (metric, names) in enumerate(self.text_metrics()):
            for x in predictions:
                # A baseline has no counts yet, and neither have predictions that an earlier version saved.
                counts = x.details.get("counts")
                metric.add(x.predicted, x.label, counts[number] if counts else None)
            parts.append(metric.bootstrap(dict.fromkeys(names, metric.method)))
        if all(x.loss is not None for x in predictions):
            parts.append(perplexity_of_targets(predictions))
        return BootstrapUnion(*parts)

    def notes(self, predictions: Sequence[Prediction]) -> list[str]:
        asked = self.evaluation
        penalty = "" if asked.length_penalty is None else f", length penalty {asked.length_penalty:g}"
        method = "greedy search" if self.beams == 1 else f"beam search with {self.beams} beams{penalty}"
        ngram = asked.no_repeat_ngram_size
        no_repeat = "" if ngram is None else f", no {ngram}-gram twice"
        notes = [f"texts are generated by {method}, at most {self.max_new_tokens} tokens{no_repeat}"]
        cut = sum(x.details.get("cut") is True for x in predictions)
        unfinished = sum(x.details.get("ended") is False for x in predictions)
        of = f"of {len(predictions):,}"
        if cut:
            notes.append(f"{cut:,} {of} sources were cut to {self.max_source} tokens, as in training")
        if unfinished:
            notes.append(f"{unfinished:,} {of} texts were not at their end after this many")
        return notes


class Translate(ReferenceTask):
    """Translations of sources; arguments as of `SequenceToSequence`."""

    METRIC = "BLEU"
    BEAMS = 5

    def text_metrics(self) -> TextMetrics:
        return translation_metrics()

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        sources = [x.row["source"] for x in predictions]
        yield Baseline("copy", "the source as it is", with_texts(predictions, sources))
        if train is None:
            return
        source, target = self.columns["source"], self.columns["target"]
        rows = (train[index] for index in range(min(len(train), TRAINING_PAIRS)))
        pairs = [(source_of(row, source), target_of(row, target)) for row in rows]
        about = "each word by its most likely translation, learnt from the training pairs (IBM model 1)"
        yield Baseline("word by word", about, with_texts(predictions, list(map(Lexicon(pairs), sources))))
        about = "the translation of the training source that is most like it (TF-IDF of its words)"
        yield Baseline("nearest", about, with_texts(predictions, nearest_targets(pairs, sources)))


class Summarise(ReferenceTask):
    """Summaries of sources; arguments as of `SequenceToSequence`."""

    METRIC = "ROUGE-L f"
    BEAMS = 4

    def text_metrics(self) -> TextMetrics:
        return summary_metrics(language=self.evaluation.language)

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        sources = [x.row["source"] for x in predictions]
        for sentences, about in ((1, "the first sentence"), (3, "the first three sentences")):
            summaries = Lead(sentences, self.evaluation.language)(sources)
            yield Baseline(f"lead-{sentences}", about, with_texts(predictions, summaries))


def translation_metrics() -> TextMetrics:
    """BLEU and chrF. Raises: MissingExtraError: without sacrebleu."""
    return [(BleuMetric(), ("BLEU",)), (ChrfMetric(), ("chrF",))]


def summary_metrics(*, stemming: bool = False, language: str = "en") -> TextMetrics:
    """ROUGE, of which F is reported. Raises: MissingExtraError: without rouge-score."""
    return [(RougeMetric(stemming=stemming, language=language), tuple(f"{kind} f" for kind in KINDS))]


def with_decoder_start(task: SequenceToSequence) -> LoadedModel:
    """The model, whose decoder begins with the tokens that it was taught to begin with."""
    model = copy(task.model)
    start: dict[str, Any] = {"decoder_start_token_id": task.start}
    if task.target.before:
        start["forced_bos_token_id"] = task.target.before[0]
    model.generation_config = StoredGenerationConfig({**model.generation_config, **start})
    return model


def perplexity_of_targets(predictions: Sequence[Prediction]) -> BootstrapSums:
    """The perplexity of the first reference, given the source."""
    how = f"exp(mean loss of the tokens of the first reference, teacher forcing); numpy {version('numpy')}"
    return BootstrapSums(
        loss_sums(predictions),
        lambda sums: {"perplexity": perplexity(sums[:, 0] / sums[:, 1])},
        {"perplexity": how},
    )


def with_texts(predictions: Sequence[Prediction], texts: Sequence[str]) -> list[Prediction]:
    """The same rows with the texts of a baseline."""
    return [x.by_baseline(text, None) for x, text in zip(predictions, texts, strict=True)]
