"""How transcripts are evaluated: the options of an evaluation, and word and character error rate batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

import numpy as np
import torch

from glassformer.core.flow import Flow, Output
from glassformer.core.heads import Head
from glassformer.ngram.store import load_ngram
from glassformer.speech.options import TranscriptionOptions
from glassformer.tasks.base import EvaluationOptions
from glassformer.tasks.metrics.metric import BootstrapSums, Metric
from glassformer.tasks.metrics.speech import error_counts, error_rates
from glassformer.tasks.types import MicroBatch, Prediction


@dataclass(frozen=True)
class TranscriptionEvaluation(EvaluationOptions):
    """How recordings are transcribed for an evaluation.

    beams: beam width; 1 = greedy search
    language_model: an n-gram model, as `glassformer ngram train` saves it
    alpha, beta: its weight, a bonus a word
    rescore: it orders the texts that the beam search finds, in the place of shallow fusion
    """

    beams: int = 1
    language_model: str | None = None
    alpha: float = 0.5
    beta: float = 0.0
    rescore: bool = False

    def search(self) -> TranscriptionOptions:
        """The options of the search. Raises: ConfigError: out of range. DataError: no such language model."""
        model = None if self.language_model is None else load_ngram(self.language_model)
        return TranscriptionOptions(
            num_beams=self.beams,
            temperature=0.0,
            timestamps=False,
            language_model=model,
            alpha=self.alpha,
            beta=self.beta,
            rescore=self.rescore,
        )


@dataclass(frozen=True, slots=True)
class SpeechBatch(MicroBatch):
    """A micro-batch with its transcripts as the rows have them, by which it is scored."""

    texts: tuple[str, ...] = field(default=(), kw_only=True)


class TranscriptMetric(Metric):
    """Word and character error rate of transcripts, batch by batch, with the loss.

    Args:
        transcripts: gives those of a batch, from the network's output
        normaliser: its name
    """

    def __init__(self, head: Head, transcripts: Callable[[Output, Flow], list[str]], normaliser: str) -> None:
        super().__init__(head)
        self._transcripts, self._normaliser = transcripts, normaliser
        self.add_state("counts", 4)

    def update(self, output: Output, batch: MicroBatch) -> None:
        super().update(output, batch)
        assert isinstance(batch, SpeechBatch)
        for text, reference in zip(self._transcripts(output, batch.flow), batch.texts, strict=True):
            counts = error_counts(reference, text, normaliser=self._normaliser)
            self.state["counts"] += torch.tensor(counts, dtype=torch.float64)

    def compute(self) -> dict[str, float]:
        rates = error_rates(self.state["counts"].numpy()[None])
        return {**super().compute(), **{name: float(rate[0]) for name, rate in rates.items()}}


def scores_of(counts: np.ndarray, predictions: Sequence[Prediction], normaliser: str) -> BootstrapSums:
    """Word and character error rate of transcripts, for any resample.

    Args:
        counts: `error_counts` of each prediction. [N, 4]
    """
    how = f"jiwer {version('jiwer')}, normaliser {normaliser!r}, errors of all rows added up"
    amounts = {"words": float(counts[:, 1].sum())}
    seconds = [x.details.get("seconds") for x in predictions]
    if None not in seconds:  # predictions that were saved before recordings had their length
        amounts["seconds"] = float(sum(x for x in seconds if x is not None))
    return BootstrapSums(counts, error_rates, dict.fromkeys(("wer", "cer"), how), amounts)
