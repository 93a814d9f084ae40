"""Machine translation: BLEU and chrF, beside copying, a word-by-word lexicon and the nearest training pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from glassformer.errors import MissingExtraError
from glassformer.tasks.base import Baseline, Dataset
from glassformer.tasks.metrics.bleu import BleuMetric, ChrfMetric
from glassformer.tasks.metrics.text_metric import TextMetric
from glassformer.tasks.predictions import Prediction
from glassformer.tasks.seq2seq.generated import ReferenceTask, with_texts
from glassformer.tasks.seq2seq.lexicon import Lexicon


class Translate(ReferenceTask):
    """Translations of sources. Args: as of `SequenceToSequence`"""

    METRIC = "BLEU"
    BEAMS = 5

    def text_metrics(self) -> list[tuple[TextMetric, tuple[str, ...]]]:
        return [(BleuMetric(), ("BLEU",)), (ChrfMetric(), ("chrF",))]

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        sources = [x.row["source"] for x in predictions]
        yield Baseline("copy", "the source as it stands", with_texts(predictions, sources))
        if train is None:
            return
        pairs = self.training_pairs(train)
        about = "each word by its most likely translation, learnt from the training pairs (IBM model 1)"
        yield Baseline("word by word", about, with_texts(predictions, list(map(Lexicon(pairs), sources))))
        about = "the translation of the training source that is most like it (TF-IDF of its words)"
        yield Baseline("nearest", about, with_texts(predictions, nearest(pairs, sources)))


def nearest(pairs: Sequence[tuple[str, str]], sources: Sequence[str]) -> list[str]:
    """The target whose source is most like each of these.

    Raises: MissingExtraError: without scikit-learn.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "evaluate", "the nearest pair") from error
    vectors = TfidfVectorizer(token_pattern=r"(?u)\w+|[^\w\s]", sublinear_tf=True, dtype=np.float32)
    known = vectors.fit_transform([source for source, _ in pairs])
    targets: list[str] = []
    for start in range(0, len(sources), 128):
        alike = vectors.transform(sources[start : start + 128]) @ known.T  # unit vectors: their cosines
        targets += [pairs[int(i)][1] for i in np.asarray(alike.argmax(axis=1)).ravel()]
    return targets
