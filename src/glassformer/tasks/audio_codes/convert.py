"""Audio to audio: a decoder makes one recording of another, both as codes: dry → wet, or wet → dry.

source ─ codec ─ codes [T, K] ─┐
target ─ codec ─ codes [T, K] ─┴─ side by side [T, 2 K] ─ delayed ids ─ decoder ─ the target's codes one step on
evaluated: the target that it writes, decoded, compared with the true one, by the distance of log-mel spectrograms
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.audio.listening import Sound, SoundExample
from glassformer.core.flow import Flow
from glassformer.core.losses import IGNORE_INDEX
from glassformer.engine.codec import decode_audio, require_codec
from glassformer.errors import DataError
from glassformer.files.schema import BelowOne, check
from glassformer.generation.audio_codes import convert_codes
from glassformer.loaded_model import LoadedModel
from glassformer.model import load
from glassformer.tasks.audio_codes.codes_task import CodesTask
from glassformer.tasks.base import Progress
from glassformer.tasks.codec.scores import METHODS, chroma_correlation, mel_distance
from glassformer.tasks.columns import placed
from glassformer.tasks.metrics.metric import Bootstrap, BootstrapMeans
from glassformer.tasks.transcribe.sounds import note_marks, sound_title
from glassformer.tasks.types import Baseline, Dataset, Example, Prediction

INITIAL_STD = 0.3
"""Of the embeddings of codes in the beginning: the sum of a few is about as large as the sinusoids of positions."""


class AudioToAudio(CodesTask):
    """Pairs of recordings of one length, the second of which is made of the first.

    Args:
        word_dropout: in training, the share of frames whose target codes the decoder does not read, although it learns
            them: what it then predicts rests on the source (Bowman et al. 2016)
            others: as of `CodesTask`
    Raises: as `CodesTask`; ConfigError: a share that is none.
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {"source": "source", "target": "target"}
    TARGETS = ("target",)
    SOUNDS = ("source", "target")
    METRIC = "mel_distance"
    CACHE_KEY = "pairs of codes"
    REQUIRES = "a pair of recordings is needed"

    def __init__(
        self,
        model: LoadedModel,
        *,
        codec: str,
        seconds: float | None = None,
        word_dropout: float = 0.0,
        folder: str | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model, codec=codec, seconds=seconds, folder=folder, columns=columns)
        check(BelowOne, word_dropout, "word_dropout")
        self.word_dropout = word_dropout

    @classmethod
    @torch.no_grad()
    def initialise(cls, model: LoadedModel, options: Mapping[str, Any]) -> None:
        """Embeddings of codes begin as the codec's vectors for them, in a random projection: like codes are similar."""
        quantizer = require_codec(load(options["codec"]).network).quantizer
        books: Any = quantizer.books
        vectors = torch.cat([book.out_proj(book.codebook.weight.T[None])[0].T for book in books])  # [K · V, Z]
        network: Any = model.network
        projection = torch.randn(vectors.shape[1], network.width)
        projected = (vectors - vectors.mean(0)) @ projection
        projected *= INITIAL_STD / projected.std()
        table: Tensor = network.embed.tokens.weight  # with an id of padding behind each codebook's
        for recording in table.unflatten(0, (len(cls.SOUNDS), -1)):
            rotation = torch.linalg.qr(torch.randn(len(projection[0]), len(projection[0]))).Q  # another of each
            codes = (projected @ rotation).unflatten(0, (quantizer.spec.books, -1))
            recording.unflatten(0, (quantizer.spec.books, -1))[:, :-1] = codes
        head: Tensor = network.head.decoder.weight
        head[: len(head) // 2] = 0.0  # no loss is computed on the source, and zeros take little room in a file

    # -------------------------------------------------------------------------------------------- training

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        for _, source, target in self._pairs(rows):
            yield {"source": self.codes_of(source), "labels": self.codes_of(target)}

    def _pairs(self, rows: Dataset) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """The number of each row, and its two recordings. Raises: DataError: of different lengths."""
        sources, targets = (self.sounds(rows, role) for role in self.SOUNDS)
        for index in range(len(rows)):
            with placed(rows, index):
                source, target = sources.read(index), targets.read(index)
                if abs(len(source) - len(target)) > 0.05 * self.rate_hz:
                    raise DataError(
                        f"the source has {len(source) / self.rate_hz:.2f} seconds and the target "
                        f"{len(target) / self.rate_hz:.2f}; they must be as long"
                    )
            samples = min(len(source), len(target))
            yield index, source[:samples], target[:samples]

    def all_codes(self, example: Example) -> np.ndarray:
        return np.concatenate([example["source"], example["labels"]], 1)

    def perturb(self, example: Example, draw: np.random.Generator) -> Example:
        if not self.word_dropout:
            return example
        return {**example, "hidden": draw.random(len(example["labels"])) < self.word_dropout}

    def delayed_inputs(self, examples: Sequence[Example]) -> Tensor:
        ids = super().delayed_inputs(examples)
        for row, example in zip(ids, examples, strict=True):
            frames = torch.from_numpy(np.flatnonzero(example.get("hidden", [])))
            for book in range(self.pattern.books // 2, self.pattern.books):
                row[frames + book, book] = self.pattern.padding
        return ids

    def labels(self, examples: Sequence[Example], flow: Flow) -> Tensor:
        """The target's codes as labels; those of the source are not learnt. [B, T + 2 K - 1, 2 K]"""
        labels = super().labels(examples, flow)
        labels[..., : self.pattern.books // 2] = IGNORE_INDEX
        return labels

    def listen(self, rows: Dataset) -> Iterator[SoundExample]:
        """The source, what the model makes of it, and the true target where rows have one: before, after, truth."""
        if len(rows) and rows[0].get(self.columns["target"]) is None:
            sources = self.sounds(rows, "source")
            for index in range(len(rows)):
                with placed(rows, index):
                    source = sources.read(index)
                yield SoundExample(sound_title(rows, index, self.columns["source"]), self._converted(source, index))
            return
        for index, source, target in self._pairs(rows):
            before, made = self._converted(source, index)
            distances = {
                sound.name: f"{self._distance(torch.as_tensor(sound.samples), target):.2f} dB from the truth"
                for sound in (made, before)
            }
            truth = Sound("truth", target, self.rate_hz, marks=note_marks(rows[index]))
            title = sound_title(rows, index, self.columns["source"])
            yield SoundExample(title, [before, made, truth], facts=distances)

    def _converted(self, source: np.ndarray, seed: int) -> list[Sound]:
        """A recording before and after the model."""
        codes = torch.from_numpy(self.codes_of(source)).T
        before = Sound("before", source, self.rate_hz, codes=codes, frame_rate_hz=self.frame_rate_hz)
        made = convert_codes(self.model.network, codes, seed=seed)
        return [before, self.decoded("after", made, about="by the model")]

    # ------------------------------------------------------------------------------------------ evaluation

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """What the model makes of each source, drawn by its probabilities; the seed is the number of the row."""
        self._evaluated, codes = rows, dict[int, tuple[Tensor, Tensor]]()
        self._codes = codes
        for index, source, target in self._pairs(rows):
            own, true = (torch.from_numpy(self.codes_of(samples)).T for samples in (source, target))
            made = convert_codes(self.model.network, own, seed=index)
            codes[index] = own, true
            same = float((made == true).float().mean())
            yield Prediction(
                index=index,
                where=rows.where(index),
                row={},
                label=None,
                predicted=None,
                details={**self._scores(decode_audio(self.codec, made), target), "code_accuracy": same},
            )
            if progress is not None:
                progress(1)

    def _scores(self, made: Tensor, target: np.ndarray) -> dict[str, float]:
        ours, theirs = made[None, : len(target)], torch.from_numpy(target)[None, : len(made)]
        chroma = float(chroma_correlation(ours, theirs, self.rate_hz))
        return {"mel_distance": self._distance(made, target), "chroma": chroma}

    def _distance(self, made: Tensor, target: np.ndarray) -> float:
        return float(mel_distance(made[None, : len(target)], torch.from_numpy(target)[None, : len(made)], self.rate_hz))

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        about = {
            "mel_distance": "mean difference of log-mel spectrograms to the true target, in dB",
            "chroma": METHODS["chroma"] + ": whether the notes are the target's",
            "code_accuracy": "share of codes that are those of the true target",
        }
        names = [name for name in about if all(name in one.details for one in predictions)]
        values = {name: np.array([one.details[name] for one in predictions]) for name in names}
        return BootstrapMeans(values, {name: about[name] for name in names})

    _evaluated: Dataset | None = None
    _codes: Mapping[int, tuple[Tensor, Tensor]] = {}
    """The rows that `predict` has read, and the codes of source and target of each: for baselines."""

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        if self._evaluated is None:
            return
        scores: dict[int, list[dict[str, float]]] = {}
        for index, source, target in self._pairs(self._evaluated):
            sounds = torch.from_numpy(source), *(decode_audio(self.codec, codes) for codes in self._codes[index])
            scores[index] = [self._scores(sound, target) for sound in sounds]
        for number, (name, about) in enumerate(
            (
                ("source", "the source as it is"),
                ("source codes", "the source through the codec"),
                ("target codes", "the true target through the codec: no model over its codes is nearer, but by chance"),
            )
        ):
            rows = [one.by_baseline(None, None, **scores[one.index][number]) for one in predictions]
            yield Baseline(name, about, rows)
