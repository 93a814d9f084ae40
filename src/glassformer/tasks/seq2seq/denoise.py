"""Denoising pre-training (BART, T5, PEGASUS): reconstruct a corrupted text; the noise is in `data/noise.py`.

                     the encoder reads                       the decoder says
    Denoising        B. A _ .                                A x y. B.                         as BART
    SpanCorruption   Thank you <X> me to your party <Y> .    <X> for inviting <Y> last <Z>     as T5
    GapSentences     A. _ C.                                 B.                                as PEGASUS

Texts that are longer than the model's limit go on in further examples.
Source: Lewis et al. 2020, section 2.2; Raffel et al. 2020, section 3.1.4; Zhang et al. 2020, section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Unpack

import numpy as np

from glassformer.data.noise import (
    corrupt_spans,
    delete_tokens,
    gap_sentences,
    infill,
    mask_tokens,
    permute_sentences,
    rotate,
)
from glassformer.errors import ConfigError, nearest
from glassformer.loaded_model import LoadedModel
from glassformer.tasks.columns import tell_cut
from glassformer.tasks.seq2seq.task import Sides, TwoSided
from glassformer.tasks.types import Dataset, Example
from glassformer.tasks.windows import (
    encode_texts,
    ids_without_special_tokens,
    joined_window,
    sentence_windows,
    split_stretches,
    windows,
)
from glassformer.text.tokenizer import Tokenizer

Spoil = Callable[[np.ndarray, np.random.Generator, int], np.ndarray]

NOISES: Mapping[str, Spoil] = {
    "infill": lambda ids, draw, mask: infill(ids, draw, mask=mask),
    "hide": lambda ids, draw, mask: mask_tokens(ids, draw, mask=mask),
    "delete": lambda ids, draw, mask: delete_tokens(ids, draw),
    "rotate": lambda ids, draw, mask: rotate(ids, draw),
}
"""What can be done to a text, by name; "permute", which is done to its sentences, comes before all of them."""


class Denoising(TwoSided):
    """Texts spoilt by one noise or several, one after another; the whole text is the target.

    Args:
        noises: of "permute", "infill", "hide", "delete", "rotate"; BART's own are the first two
        language: of the texts, for finding sentences
        options: see `Sides`
    """

    CACHE_KEY = "denoise"

    def __init__(
        self,
        model: LoadedModel,
        *,
        noises: Sequence[str] = ("permute", "infill"),
        language: str = "en",
        **options: Unpack[Sides],
    ) -> None:
        super().__init__(model, **options)
        allowed = ("permute", *NOISES)
        for noise in noises:
            if noise not in allowed:
                raise ConfigError(
                    f"noises names {noise!r}{nearest(noise, allowed)}; allowed: {', '.join(map(repr, allowed))}"
                )
        self.noises = tuple(noises)
        self.language = language
        self.mask = mask_of(model.tokenizer) if {"infill", "hide"} & set(noises) else 0
        self.how |= {"permuted": "permute" in noises, "language": language}

    def augment(self, example: Example, draw: np.random.Generator) -> Example:
        sentences = split_stretches(example["input_ids"], example["sentences"])
        if "permute" in self.noises:
            sentences = permute_sentences(sentences, draw)
        spoilt = np.concatenate(sentences)
        for noise in self.noises:
            if noise in NOISES:
                spoilt = NOISES[noise](spoilt, draw, self.mask)
        # Masks that stand for nothing can make it longer than it was: what then has no room is left out.
        return self.example(spoilt, example["input_ids"])

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        room, column = min(self.source.room, self.target.room), self.columns["text"]
        if "permute" in self.noises:
            for _, window in sentence_windows(rows, column, self.reader, self.language, room):
                yield joined_window(window)
        else:  # a text is one sentence
            for ids in encode_texts(rows, column, lambda texts: ids_without_special_tokens(self.reader, texts)):
                yield from map(joined_window, windows([np.array(ids, dtype=np.int32)], room))


class SpanCorruption(TwoSided):
    """Texts of which stretches are cut out; the target is what was cut out, each behind its sentinel.

    Args:
        rate: how many tokens are cut out
        mean: tokens of a stretch, on average
        options: see `Sides`
    """

    CACHE_KEY = "spans"
    REQUIRES = "a text of two tokens at least is needed"

    def __init__(self, model: LoadedModel, *, rate: float = 0.15, mean: float = 3.0, **options: Unpack[Sides]) -> None:
        super().__init__(model, **options)
        self.rate, self.mean = rate, mean
        self.sentinels = sentinels_of(model.tokenizer)
        self._corrupted(np.arange(2), np.random.default_rng(0))  # numbers out of range are errors now

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        room = self.source.room
        for text in encode_texts(
            rows, self.columns["text"], lambda texts: ids_without_special_tokens(self.reader, texts)
        ):
            for start in range(0, len(text), room):
                if len(ids := np.array(text[start : start + room], dtype=np.int32)) > 1:
                    yield {"input_ids": ids}

    def augment(self, example: Example, draw: np.random.Generator) -> Example:
        return self.example(*self._corrupted(example["input_ids"], draw))

    def _corrupted(self, ids: np.ndarray, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return corrupt_spans(ids, draw, sentinels=self.sentinels, rate=self.rate, mean=self.mean)


class GapSentences(TwoSided):
    """Texts whose principal sentences are left out; they are the target. The same each time a text is shown.

    Args:
        rate: how many of the sentences are left out
        language: of the texts, for finding sentences
        options: see `Sides`
    """

    CACHE_KEY = "gaps"
    REQUIRES = "a text of two sentences at least is needed"

    def __init__(
        self, model: LoadedModel, *, rate: float = 0.3, language: str = "en", **options: Unpack[Sides]
    ) -> None:
        super().__init__(model, **options)
        if not 0 < rate < 1:
            raise ConfigError(f"rate is {rate}; it must be between 0 and 1")
        self.rate = rate
        self.language = language
        self.mask = mask_of(model.tokenizer, "<mask_1>")
        self.how |= {"rate": rate, "language": language}

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        made = cut = 0
        column, room = self.columns["text"], self.source.room
        for _, window in sentence_windows(rows, column, self.reader, self.language, room):
            if len(window) > 1:
                read, gap = gap_sentences(window, mask=self.mask, rate=self.rate)
                made, cut = made + 1, cut + (len(gap) > self.target.room)
                yield self.example(read, gap)
        tell_cut("targets", cut, made, self.max_target)


def mask_of(tokenizer: Tokenizer, preferred: str = "") -> int:
    """The id of the mask; `preferred` where the vocabulary has it: PEGASUS masks sentences by another than words.

    Raises: ConfigError: there is none.
    """
    number = tokenizer.engine.token_to_id(preferred)
    number = tokenizer.mask_token_id if number is None else number
    if number is None:
        raise ConfigError("this tokenizer has no mask token, which stands for what is left out of a text")
    return number


def sentinels_of(tokenizer: Tokenizer) -> list[int]:
    """The ids of <extra_id_0>, <extra_id_1>, …

    Raises: ConfigError: there are not two of them.
    """
    sentinels: list[int] = []
    while (number := tokenizer.engine.token_to_id(f"<extra_id_{len(sentinels)}>")) is not None:
        sentinels.append(number)
    if len(sentinels) < 2:
        raise ConfigError(
            f"this tokenizer has {len(sentinels)} of the tokens <extra_id_0>, <extra_id_1>, … that stand for what "
            "is cut out of a text; span corruption needs at least 2: T5 has 100"
        )
    return sentinels
