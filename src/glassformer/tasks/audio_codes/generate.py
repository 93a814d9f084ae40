"""Audio generation: a decoder learns to predict the next codes of recordings.

recording ─ codec ─ codes [T, K] ─ a window, another each time ─ delayed ids ─ decoder ─ the codes one step on
evaluated: bits a code of whole recordings, compared with n-grams of codes
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.audio.listening import Sound, SoundExample, SoundMark
from glassformer.generation.audio_codes import continue_codes
from glassformer.models import eval_mode
from glassformer.tasks.audio_codes.codes_task import CodesTask
from glassformer.tasks.base import Progress
from glassformer.tasks.causal.baselines import Ngrams
from glassformer.tasks.columns import placed, training_sample
from glassformer.tasks.metrics.metric import Bootstrap, BootstrapSums
from glassformer.tasks.transcribe.sounds import note_marks, sound_title
from glassformer.tasks.types import Baseline, Dataset, Example, Prediction


class GenerateAudio(CodesTask):
    """Recordings, of which every code is learnt. Args, Raises: as of `CodesTask`"""

    COLUMNS: ClassVar[Mapping[str, str]] = {"file": "file"}
    SOUNDS = ("file",)
    METRIC = "bits_per_code"
    CACHE_KEY = "codes"

    # -------------------------------------------------------------------------------------------- training

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        sounds = self.sounds(rows, "file")
        for index in range(len(rows)):
            with placed(rows, index):
                yield {"labels": self.codes_of(sounds.read(index))}

    def listen(self, rows: Dataset) -> Iterator[SoundExample]:
        """Each recording, and the model's continuation of its first part: for twice as long as the window."""
        sounds = self.sounds(rows, "file")
        for index in range(len(rows)):
            with placed(rows, index):
                samples = sounds.read(index)
                codes = torch.from_numpy(self.codes_of(samples)).T
            prompt = codes[:, : max(min(codes.shape[1], self.window) // 2, 1)]
            longer = continue_codes(self.model.network, prompt, 2 * self.window, seed=index)
            begin = prompt.shape[1] / self.frame_rate_hz
            marks = [SoundMark("continued from here", begin)]
            about = f"{begin:.1f} seconds are the recording's; the rest is drawn by their probabilities (seed {index})"
            yield SoundExample(
                sound_title(rows, index),
                [
                    Sound("recording", samples, self.rate_hz, marks=note_marks(rows[index])),
                    self.decoded("continued", longer, marks=marks, about=about),
                ],
            )

    # ------------------------------------------------------------------------------------------ evaluation

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """How many bits each recording takes; one longer than the window is read in windows."""
        sounds, evaluated = self.sounds(rows, "file"), list[np.ndarray]()
        self._evaluated = evaluated
        for index in range(len(rows)):
            with placed(rows, index):
                codes = self.codes_of(sounds.read(index))
            evaluated.append(codes)
            bits = np.sum([self._bits(codes[at : at + self.window]) for at in range(0, len(codes), self.window)], 0)
            yield self._prediction(index, rows, bits.tolist(), len(codes))
            if progress is not None:
                progress(1)

    def _prediction(self, index: int, rows: Dataset, bits: Sequence[float], frames: int) -> Prediction:
        return Prediction(
            index=index,
            where=rows.where(index),
            row={},
            label=None,
            predicted=None,
            loss=sum(bits) * math.log(2) / (frames * len(bits)),
            details={"bits": list(bits), "frames": frames},
        )

    @torch.inference_mode()
    def _bits(self, codes: np.ndarray) -> list[float]:
        """-log2 p of a window's codes, summed in each codebook. [T, K] → K"""
        network, batch = self.model.network, self.collate([{"labels": codes}]).to(self.model.device)
        with eval_mode(network):
            logits = network(batch.batch, batch.flow).logits
        labels = batch.labels
        assert logits is not None and isinstance(labels, Tensor)
        losses = F.cross_entropy(logits.float().flatten(0, 2), labels.flatten(), reduction="none", ignore_index=-100)
        bits: list[float] = (losses.double().view_as(labels).sum((0, 1)) / math.log(2)).tolist()
        return bits

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        books = self.pattern.books
        rows = np.array([[*one.details["bits"], one.details["frames"]] for one in predictions])

        def of(sums: np.ndarray) -> dict[str, np.ndarray]:
            each = sums[:, :-1] / sums[:, -1:]  # bits a code of each codebook
            mean = each.mean(1)
            scores = {"bits_per_code": mean, "perplexity": 2.0**mean}
            return scores | {f"bits_of_codebook_{book}": each[:, book] for book in range(books)}

        about = {
            "bits_per_code": "mean -log2 of the probability of each code, given all before it",
            "perplexity": "2 to the power of bits_per_code: among how many codes the model is undecided",
        }
        return BootstrapSums(rows, of, about)

    _evaluated: Sequence[np.ndarray] = ()
    """The codes of the rows that `predict` has read, for baselines."""

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        if train is None or not self._evaluated:
            return
        numbers, note = training_sample(train)
        if self.train_examples is not None:
            examples = self.train_examples()
            learnt = [np.asarray(examples[number]["labels"]) for number in numbers]
        else:
            sounds = self.sounds(train, "file")
            learnt = [self.codes_of(sounds.read(number)) for number in numbers]
        evaluated = [self._evaluated[one.index] for one in predictions]
        for name, order, about in (
            ("bigrams", 2, "the code before it in its codebook, Witten-Bell smoothing"),
            ("unigrams", 1, "how often each code of a codebook occurs"),
        ):
            model = CodeNgrams(learnt, order, self.pattern.books, self.pattern.entries)
            rows = [
                one.by_baseline(None, None, bits=model.bits(codes), frames=len(codes))
                for one, codes in zip(predictions, evaluated, strict=True)
            ]
            yield Baseline(name, about + note, rows)


class CodeNgrams:
    """An n-gram language model of each codebook.

    Args:
        recordings: codes of each [T, K]
        order: 1 or 2
    """

    def __init__(self, recordings: Iterable[np.ndarray], order: int, books: int, entries: int) -> None:
        learnt = list(recordings)
        self.order = order
        self.books = [Ngrams((codes[:, book].tolist() for codes in learnt), order, entries) for book in range(books)]

    def bits(self, codes: np.ndarray) -> list[float]:
        """-log2 p of a recording's codes, summed in each codebook. [T, K] → K"""
        return [self._bits(model, codes[:, book].tolist()) for book, model in enumerate(self.books)]

    def _bits(self, model: Ngrams, codes: Sequence[int]) -> float:
        return -sum(
            math.log2(model.probability(code, codes[max(at - self.order + 1, 0) : at])) for at, code in enumerate(codes)
        )
