"""Masked language modelling, and the fill-mask pipeline: some tokens are masked, and predicted from both sides.

    text     [CLS] fruit flies like a  banana [SEP]         15% are chosen, others each time a text is read; of them
    read     [CLS] fruit [MASK] like a stone  [SEP]         80% become [MASK], 10% any word, 10% stay
    say        ·     ·   flies   ·   ·  banana  ·           and only they count
    fill       Time [MASK] like an arrow.                   flies 0.41 · goes 0.07 · …

Source: Devlin et al. 2019, section 3.1; others each time: Liu et al. 2019, section 4.1; whole words: the code that was
released with the first of them, in 2019.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.core.losses import IGNORE_INDEX
from glassformer.data.noise import sample_count
from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.tasks.base import Progress
from glassformer.tasks.causal.baselines import Ngrams
from glassformer.tasks.causal.evaluation import loss_sums, token_losses
from glassformer.tasks.columns import check_columns, text_of
from glassformer.tasks.metrics.metric import BootstrapSums, perplexity
from glassformer.tasks.pipelines import Pipeline
from glassformer.tasks.results import Filling, Results
from glassformer.tasks.types import Baseline, Dataset, Example, Prediction
from glassformer.tasks.windows import (
    Frame,
    LanguageTask,
    encode_texts,
    ids_without_special_tokens,
    max_example_tokens,
)
from glassformer.text.engine import prefix_and_suffix
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.windows import windows

MASKED, REPLACED = 0.8, 0.1
"""BERT's shares: 80% masked, 10% another token, 10% unchanged."""
TOP_K = 5
"""Predictions of a mask, as in the reference library."""

NO_WORD = -1
"""The number of the word of a token that is of none."""


@dataclass(frozen=True)
class Masking:
    """How tokens are hidden.

    mask: the id of the mask
    words: ids of which any may be in a token's place
    special: ids that are never chosen
    rate: how many of the others are chosen
    """

    mask: int
    words: np.ndarray
    special: np.ndarray
    rate: float = 0.15

    @classmethod
    def of(cls, tokenizer: Tokenizer, rate: float = 0.15) -> Masking:
        """As a tokenizer has it.

        Raises: ConfigError: it has no mask, or the rate is no share.
        """
        if tokenizer.mask_token_id is None:
            raise ConfigError(
                "this tokenizer has no mask token, so its model was not made for masked language modelling; learn the "
                "next token instead, with task 'text-generation'"
            )
        if not 0 < rate < 1:
            raise ConfigError(f"rate is {rate}; it must be between 0 and 1")
        special = np.array(sorted(tokenizer.special_ids), dtype=np.int64)
        words = np.setdiff1d(np.array(list(tokenizer.engine.get_vocab().values()), dtype=np.int64), special)
        return cls(tokenizer.mask_token_id, words, special, rate)

    def __call__(
        self, ids: np.ndarray, draw: np.random.Generator, words: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and labels of a text: the chosen tokens, all others ignored.

        Args:
            words: the number of each token's word: then all tokens of a word are chosen, or none. [n]
        """
        units = np.where(np.isin(ids, self.special), NO_WORD, np.arange(len(ids)) if words is None else words)
        choices = np.unique(units[units != NO_WORD])
        chosen = draw.choice(choices, sample_count(len(choices), self.rate, draw), replace=False)
        return self.hide(ids, np.flatnonzero(np.isin(units, chosen)), draw)

    def hide(self, ids: np.ndarray, places: np.ndarray, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The same for tokens that were chosen already.

        Args:
            places: their indices
        """
        fate = draw.random(len(places))
        read, masked_labels = np.array(ids), np.full(len(ids), IGNORE_INDEX, dtype=np.int64)
        masked_labels[places] = ids[places]
        read[places[fate < MASKED]] = self.mask
        other = places[(fate >= MASKED) & (fate < MASKED + REPLACED)]
        read[other] = draw.choice(self.words, len(other))
        return read, masked_labels


class Masked(LanguageTask):
    """Texts of which some tokens are hidden; one that is longer than the model's limit continues in further examples.

    Args:
        rate: how many tokens are chosen
        whole_words: all tokens of a word are chosen, or none
        max_tokens: of an example; None = as many as the model takes
        columns: role → column, where a column has another name
    """

    HEAD = "fill-mask"
    METRIC = "perplexity"
    CACHE_KEY = "masked"

    def __init__(
        self,
        model: LoadedModel,
        *,
        rate: float = 0.15,
        whole_words: bool = False,
        max_tokens: int | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model, columns)
        self.masking = Masking.of(model.tokenizer, rate)
        self.whole_words = whole_words
        self.frame = Frame.within(*prefix_and_suffix(model.tokenizer.engine), max_example_tokens(model, max_tokens))
        self.how = {"room": self.frame.room, "whole_words": whole_words}

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        for text in encode_texts(rows, self.columns["text"], self.read):
            yield from self.window_examples(*text)

    def augment(self, example: Example, draw: np.random.Generator) -> Example:
        read, masked_labels = self.masking(example["input_ids"], draw, example.get("words"))
        return {"input_ids": read, "labels": masked_labels}

    def read(self, texts: list[str]) -> Iterator[tuple[list[int], list[int]]]:
        """The ids of each text and, where whole words are hidden, the number of each one's word."""
        if not self.whole_words:
            yield from ((ids, []) for ids in ids_without_special_tokens(self.model.tokenizer, texts))
            return
        encoding = self.model.tokenizer(texts, add_special_tokens=False)
        for row, ids in enumerate(encoding["input_ids"]):
            yield ids, [NO_WORD if word is None else word for word in encoding.word_ids(row)]

    def window_examples(self, ids: list[int], words: list[int]) -> Iterator[dict[str, np.ndarray]]:
        """The examples that a text makes."""
        for start, end, _ in windows(len(ids), self.frame.room):
            stretch = slice(start, end)
            example = {"input_ids": self.frame.around(ids[stretch])}
            if self.whole_words:
                before, after = ([NO_WORD] * len(part) for part in (self.frame.before, self.frame.after))
                example["words"] = np.array([*before, *words[stretch], *after], dtype=np.int32)
            yield example

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        column = self.columns["text"]
        check_columns(rows, {"text": column})
        texts = list(encode_texts(rows, column, self.read))
        windows = [list(self.window_examples(*text)) for text in texts]
        if not any(windows):
            raise DataError(f"{rows.where(0)}: no text has a token; texts must not be blank")
        losses = token_losses(self, [example for of_text in windows for example in of_text])
        for index, of_text in enumerate(windows):
            parts = [next(losses) for _ in of_text]
            true, top_token = (
                [int(i) for part in parts for i in getattr(part, name)] for name in ("true", "top_token")
            )
            of_tokens = [float(loss) for part in parts for loss in part.losses]
            yield Prediction(
                index=index,
                where=rows.where(index),
                row={"text": text_of(rows[index], column)},
                **self._scored(true, top_token, of_tokens),
            )
            if progress is not None:
                progress(1)

    def _scored(self, true: list[int], top_token: list[int], losses: Sequence[float] | np.ndarray) -> dict[str, Any]:
        """The fields of the prediction of a text's hidden tokens, with the loss of each."""
        named = self.model.tokenizer.convert_ids_to_tokens
        details = {
            "tokens": len(true),
            "hits": sum(a == b for a, b in zip(true, top_token, strict=True)),
            "ids": true,
            "losses": [round(float(loss), 4) for loss in losses],
        }
        values = {"label": named(true), "predicted": named(top_token), "details": details}
        if not true:  # a text too short for a token of it to be hidden
            return values
        return {**values, "correct": true == top_token, "loss": float(np.mean(losses))}

    def metrics(self, predictions: Sequence[Prediction]) -> BootstrapSums:
        chosen = f"{self.masking.rate:.0%} of the tokens chosen, those of a text always the same"
        how = f"{chosen}; numpy {version('numpy')}"
        methods = {
            "perplexity": f"exp(loss); {how}",
            "accuracy": f"the most likely token is the hidden one; {how}",
            "loss": f"mean over hidden tokens, in nats; {how}",
        }
        return BootstrapSums(loss_sums(predictions, "hits"), _scores, methods)

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        known = self.model.network.vocabulary
        if train is None:
            return
        column = self.columns["text"]
        table = Ngrams((ids for ids, _ in encode_texts(train, column, self.read)), 1, known)
        ((most,), _), *_ = table.runs[0].most_common(1)
        name = str(self.model.tokenizer.convert_ids_to_tokens(most))
        unigram = [
            replace(x, **self._scored(ids, [most] * len(ids), table.losses(ids)))
            for x in predictions
            for ids in [x.details["ids"]]
        ]
        about = f"how frequent a token is in the training rows, each counted once more; it always predicts {name!r}"
        yield Baseline("unigram", about, unigram)

    def notes(self, predictions: Sequence[Prediction]) -> list[str]:
        empty = sum(not r.details["tokens"] for r in predictions)
        return [f"{empty:,} texts are too short for a token of theirs to be hidden"] if empty else []


def _scores(sums: np.ndarray) -> dict[str, np.ndarray]:
    nats, tokens, hits = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):  # nothing hidden: there is no score
        loss = nats / tokens
        return {"perplexity": perplexity(loss), "accuracy": hits / tokens, "loss": loss}


class FillMask(Pipeline):
    """The most likely tokens for each masked position of a text.

    top_k: how many (default 5) · targets: only these words; their probabilities stay those among all words

    One masked place gives a list of results, several give a list of lists, in the order of the places. The places are
    filled each for itself, the others still masked. A word that is no token of the vocabulary stands for its first
    piece, with a warning.
    """

    HEAD = "fill-mask"
    WHY = (
        "a decoder reads from left to right, so at a gap it has not seen what comes after it; a gap is filled by an "
        "encoder, such as BERT or RoBERTa; a decoder continues the text before the gap: 'text-generation'"
    )
    OWN = ("top_k", "targets")

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        targets = options.get("targets")
        words = [targets] if isinstance(targets, str) else targets
        if words is not None and not (
            isinstance(words, (list, tuple)) and words and all(isinstance(w, str) and w for w in words)
        ):
            raise ConfigError(f"targets is {safe_repr(targets)}; it must be a word, or a list of words")

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        tokenizer = self.model.tokenizer
        mask = tokenizer.mask_token_id
        if mask is None:
            raise ConfigError(
                "this tokenizer has no mask token, so no gap can be marked; look at its special_tokens_map.json"
            )
        encoded = tokenizer(batch, padding=len(batch) > 1, return_tensors="pt")
        ids = encoded["input_ids"]
        limit = self.model.network.max_tokens
        if limit is not None and ids.shape[1] > limit:
            raise DataError(
                f"the text has {ids.shape[1]} tokens, and the model reads {limit}; shorten it around the gap"
            )
        missing = (ids == mask).sum(dim=1).eq(0)
        if bool(missing.any()):
            text = batch[int(missing.long().argmax())]
            raise DataError(
                f"the text {safe_repr(text)} has no gap; mark one by {tokenizer.mask_token}: "
                f"'Time flies like an {tokenizer.mask_token}.'"
            )
        with torch.inference_mode():
            output = self.model(**{name: x.to(self.model.device) for name, x in encoded.items()})
        assert output.logits is not None  # its head is that of a masked language model
        targets = self._ids(options.get("targets"))
        top_k = options.get("top_k") or TOP_K
        answers = []
        for row, logits, keep in zip(ids, output.logits, encoded["attention_mask"], strict=True):
            places = (row == mask).nonzero()[:, 0]
            probs = logits[places.to(logits.device)].float().softmax(-1).cpu()  # [gaps, V]
            shown_ids, alone = row[keep == 1], len(places) == 1  # a pad may be on the left
            candidates = [
                self._best(shown_ids, int(place - keep.argmax()), share, targets, top_k, alone=alone)
                for place, share in zip(places, probs, strict=True)
            ]
            answers.append(candidates[0] if len(candidates) == 1 else Results(candidates))
        return answers

    def _best(
        self, ids: Tensor, place: int, probs: Tensor, targets: Tensor | None, top_k: int, *, alone: bool
    ) -> Results[Filling]:
        """The most likely tokens for one position.

        Args:
            ids: [T], without padding
            probs: [V]
            targets: [targets]
        """
        tokenizer = self.model.tokenizer
        shares = probs if targets is None else probs[targets]
        best = shares.topk(min(top_k, len(shares)))
        chosen = best.indices if targets is None else targets[best.indices]
        candidates = Results[Filling]()
        for score, token in zip(best.values.tolist(), chosen.tolist(), strict=True):
            filled = ids.clone()
            filled[place] = token
            # The text as one reads it; next to another gap, which is a special token, all of them.
            sequence = tokenizer.decode(filled, skip_special_tokens=alone)
            candidates.append(Filling(score, token, tokenizer.decode([token]), sequence))
        return candidates

    def _ids(self, targets: str | Sequence[str] | None) -> Tensor | None:
        """The tokens of the words that are allowed. [targets]"""
        if targets is None:
            return None
        tokenizer = self.model.tokenizer
        candidates: dict[int, None] = {}
        for word in [targets] if isinstance(targets, str) else targets:
            number = tokenizer.engine.token_to_id(word)
            if number is None:
                pieces = tokenizer.encode(word, add_special_tokens=False)
                if not pieces:
                    raise DataError(f"the target {safe_repr(word)} is no word that this tokenizer knows; leave it out")
                number = pieces[0]
                warnings.warn(
                    f"the target {safe_repr(word)} is no token of the vocabulary; its first piece "
                    f"{tokenizer.convert_ids_to_tokens(number)!r} stands for it",
                    stacklevel=2,
                )
            candidates[number] = None
        return torch.tensor(list(candidates))
