"""Evaluate a language model: perplexity and bits per character of texts, by a sliding window over all their tokens.

A window is as long as the model's blocks in training, and shares `stride` tokens with the one before it; only tokens
that no window has scored yet count, so that nearly each has much context before it:

    tokens     t0 t1 t2 t3 t4 t5 t6 t7 t8 t9
    window 1   ── t1 t2 t3 t4 t5                   reads t0 … t5, scores t1 … t5
    window 2            ·  ·  ·  t6 t7 t8          block 6, stride 3: reads t3 … t8, scores t6 … t8
    window 3                     ·  ·  ·  t9

The loss of a token is -ln p, in nats; its mean over tokens is the loss, whose exponential is the perplexity. Nothing
is before t0: it counts as one of V tokens that are all as likely. So the losses of all tokens are what it takes to
write the text down, and divided by its characters they can be compared between tokenizers.

Source: bits per character: Shannon 1951, "Prediction and entropy of printed English".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from glassformer.core.flow import Output
from glassformer.core.heads import not_none
from glassformer.core.language_heads import TokenPrediction
from glassformer.core.losses import CHUNK_LOGITS, IGNORE_INDEX
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.tasks.base import EvaluationOptions, Progress, Task
from glassformer.tasks.columns import check_columns, text_of
from glassformer.tasks.metrics.metric import BootstrapSums, perplexity
from glassformer.tasks.microbatch import TOKENS, run_examples
from glassformer.tasks.types import Dataset, Example, Examples, MicroBatch, Prediction
from glassformer.tasks.windows import LanguageTask, encode_texts, ids_without_special_tokens
from glassformer.text.engine import prefix_and_suffix
from glassformer.text.windows import TextWindow, windows


@dataclass(frozen=True)
class TokenLosses:
    """The loss of each label of an example that counts, in their order.

    losses: in nats
    true, top_token: the token that is there, and the one that the model finds most likely. [n]
    """

    losses: np.ndarray
    true: np.ndarray
    top_token: np.ndarray


def token_losses(
    task: Task, examples: Examples | Sequence[Example], progress: Progress | None = None
) -> Iterator[TokenLosses]:
    """The losses of the labels of each example.

    Logits are held for one micro-batch, of as many tokens as `CHUNK_LOGITS` numbers do for, but never less than an
    example.

    Args:
        progress: called with how many more examples are done
    Raises: UnsupportedError: the head says no words.
    """
    head = task.model.network.head
    if not isinstance(head, TokenPrediction):
        raise UnsupportedError(
            f"{type(head).__name__} gives no probability for each word of a vocabulary, so there is no perplexity"
        )
    tokens = min(TOKENS, max(1, CHUNK_LOGITS // head.decoder.out_features))
    return run_examples(task, examples, read=partial(_read, head), tokens=tokens, progress=progress)


def _read(head: TokenPrediction, output: Output, item: MicroBatch) -> list[TokenLosses]:
    every = not_none(output.logits)
    labels = head.labels_of(item.labels, every.shape)
    counted = labels != IGNORE_INDEX
    logits, true = every[counted].float(), labels[counted]
    losses = logits.logsumexp(-1) - logits.gather(-1, true[:, None])[:, 0]
    of_rows = list(counted) if item.flow.packing is None else counted[0].split(list(item.flow.packing.lengths))
    ends = np.cumsum([0, *(int(row.sum()) for row in of_rows)])
    columns = [x.cpu().numpy() for x in (losses.double(), true, logits.argmax(-1))]
    return [TokenLosses(*(column[start:end] for column in columns)) for start, end in pairwise(ends)]


def score_prediction(
    *,
    index: int,
    where: str,
    row: dict[str, Any],
    ids: np.ndarray,
    losses: np.ndarray,
    alone: int,
    details: dict[str, Any],
) -> Prediction:
    """The prediction of a stretch: its tokens, the loss of each, and how many have no context before them."""
    tokens = len(ids) - alone
    return Prediction(
        index=index,
        where=where,
        row=row,
        label=None,
        predicted=None,
        loss=float(losses[alone:].mean()) if tokens else None,
        details={
            **details,
            "characters": len(row.get("answer", row.get("text", ""))),
            "tokens": tokens,
            "nats": float(losses.sum()),
            "ids": [int(number) for number in ids],
            "losses": [round(float(loss), 4) for loss in losses],
        },
    )


def loss_sums(predictions: Sequence[Prediction], *details: str) -> np.ndarray:
    """The sum of the losses of each row, how many tokens these are of, and further details. [N, 2 + K]"""
    rows = [
        [(x.loss or 0.0) * x.details["tokens"], x.details["tokens"], *(x.details[name] for name in details)]
        for x in predictions
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 2 + len(details))


STRETCH = 1_000
"""A longer text is scored in stretches of about this many characters, which are resampled for intervals."""


@dataclass(frozen=True)
class CausalEvaluation(EvaluationOptions):
    """stride: tokens that neighbouring windows share; None = half of the block."""

    stride: int | None = None


@dataclass(frozen=True)
class ScoredText:
    """The tokens of a text as they are scored.

    ids: with what is around it in training
    counted: which of them are of the text, or say that it ends. [n] each
    stretch: of which stretch each is. [n]
    bounds: where stretches begin and end, in characters
    """

    ids: np.ndarray
    counted: np.ndarray
    stretch: np.ndarray
    bounds: list[int]


class LanguageModelTask(LanguageTask):
    """Perplexity, bits per token and bits per character of texts, and their baselines.

    SCORED_ROLE: the role of the scored text
    block: tokens of a window
    isolated: whether each text is read alone
    """

    SCORED_ROLE: ClassVar[str] = "text"
    METRIC = "bits_per_character"
    BASELINES = "glassformer.tasks.causal.baselines:language_baselines"
    EVALUATION = CausalEvaluation
    block: int
    isolated: bool

    def check_evaluation(self) -> None:
        if not 1 <= self.stride < self.block:
            raise ConfigError(
                f"stride is {self.stride}; windows of {self.block} tokens share 1 to {self.block - 1} of them, so that "
                "each is scored with one before it"
            )

    @property
    def stride(self) -> int:
        """Tokens that neighbouring windows share."""
        stride: int | None = self.evaluation.stride
        return self.block - self.block // 2 if stride is None else stride

    @property
    def vocabulary(self) -> int:
        return self.model.network.vocabulary

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        documents = list(self.documents(rows))
        if all(len(document.ids) < 2 for document in documents):
            raise DataError(f"{rows.where(0)}: no text has two tokens, one to read and one to predict")
        number = 0
        for index, (document, losses) in enumerate(zip(documents, self.losses(documents), strict=True)):
            text = text_of(rows[index], self.columns["text"])
            for part, (start, end) in enumerate(pairwise(document.bounds)):
                here = document.counted & (document.stretch == part)
                yield score_prediction(
                    index=number,
                    where=rows.where(index)
                    + ("" if (start, end) == (0, len(text)) else f", characters {start:,} to {end:,}"),
                    row={"text": text[start:end]},
                    ids=document.ids[here],
                    losses=losses[here],
                    # Nothing is before the first token of a text that is read alone, so it has no probability.
                    alone=int(here[:1].sum()) if self.isolated or not index else 0,
                    details={"start": start, "row": index},
                )
                number += 1
            if progress is not None:
                progress(1)

    def documents(self, rows: Dataset) -> Iterator[ScoredText]:
        """The texts of rows as tokens, as training reads them."""
        check_columns(rows, {"text": self.columns["text"]})
        return encode_texts(rows, self.columns["text"], self._documents)

    def _documents(self, texts: list[str]) -> Iterator[ScoredText]:
        tokenizer = self.model.tokenizer
        before, end = len(prefix_and_suffix(tokenizer.engine)[0]), tokenizer.eos_token_id
        with_special, _ = tokenizer.batch_ids(texts, None)
        encoding = tokenizer(texts, add_special_tokens=False)
        for number, (text, ids) in enumerate(zip(texts, with_special, strict=True)):
            whole = [*ids, end] if ids and end is not None and ids[-1] != end else list(ids)
            parts = max(1, round(len(text) / STRETCH))
            bounds = [len(text) * part // parts for part in range(parts + 1)]
            begins = [start for start, _ in encoding.offsets(number)]
            stretch = np.full(len(whole), parts - 1)
            stretch[:before] = 0
            stretch[before : before + len(begins)] = np.searchsorted(bounds[1:-1], begins, side="right")
            counted = np.arange(len(whole)) >= before
            yield ScoredText(np.array(whole, dtype=np.int32), counted, stretch, bounds)

    def losses(self, documents: Sequence[ScoredText]) -> Iterator[np.ndarray]:
        """The loss of each token of each document; ln V where nothing is before it."""
        if self.isolated:
            streams = [(document.ids, document.counted) for document in documents]
        else:  # texts that saw each other in training do so here
            ids, counted = (np.concatenate(x) for x in zip(*((d.ids, d.counted) for d in documents), strict=True))
            streams = [(ids, counted)]
        # The first token of all has none before it, so a text of a single token makes no window.
        parts = [
            windows(len(ids), self.block, self.stride, keep="context") if len(ids) > 1 else [] for ids, _ in streams
        ]
        examples = [
            _window(ids, counted, window)
            for (ids, counted), of_stream in zip(streams, parts, strict=True)
            for window in of_stream
        ]
        losses_of_windows = token_losses(self, examples)
        for (ids, counted), of_stream in zip(streams, parts, strict=True):
            losses = np.full(len(ids), math.log(self.vocabulary))
            for window in of_stream:
                scored = _scored(window)
                losses[scored][counted[scored]] = next(losses_of_windows).losses
            if self.isolated:
                yield losses
            else:
                yield from np.split(losses, np.cumsum([len(d.ids) for d in documents])[:-1])

    def metrics(self, predictions: Sequence[Prediction]) -> BootstrapSums:
        by = f"numpy {version('numpy')}"
        tokens = f"{self.context}; of tokens with something before them; {by}"
        methods = {
            "bits_per_character": f"{self.loss_description}; {self.context}; {by}",
            "bits_per_token": f"mean loss / ln 2; {tokens}",
            "perplexity": f"exp(mean loss); {tokens}",
        }
        sums = loss_sums(predictions, "nats", "characters")
        return BootstrapSums(sums, _scores, methods, {"characters": float(sums[:, 3].sum())})

    @property
    def context(self) -> str:
        """The context of each prediction, for the report's methods."""
        block = self.block
        texts = "each text alone" if self.isolated else "texts one behind the other, seeing each other"
        return (
            f"windows of {block:,} tokens that share {self.stride:,}, each token scored once, "
            f"with {self.stride:,} before it where there are this many; {texts}"
        )

    @property
    def loss_description(self) -> str:
        """What bits per character divide by what, for the methods."""
        return (
            f"all losses / ln 2 / characters (Unicode code points); a token before which nothing is is one of "
            f"{self.vocabulary:,}, and that a text ends is counted too"
        )

    def training_ids(self, rows: Dataset) -> Iterator[list[int]]:
        """The token ids that n-gram baselines are counted on, text by text."""
        tokenizer = self.model.tokenizer
        ends = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
        texts = encode_texts(
            rows, self.columns[self.SCORED_ROLE], lambda texts: ids_without_special_tokens(tokenizer, texts)
        )
        return ([*ids, *ends] for ids in texts)

    def notes(self, predictions: Sequence[Prediction]) -> list[str]:
        notes = []
        if any(r.details["start"] for r in predictions):
            notes.append(f"long texts are scored in stretches of about {STRETCH:,} characters; intervals resample them")
        unknown = self.model.tokenizer.unk_token_id
        if unknown is not None and unknown != self.model.tokenizer.eos_token_id:
            lost = sum(r.details["ids"].count(unknown) for r in predictions)
            if lost:
                notes.append(
                    f"{lost:,} tokens are the unknown token, whose characters were not predicted: "
                    "bits per character are too few"
                )
        return notes


def _scored(window: TextWindow) -> slice:
    """The tokens that a window keeps, but for the first of all, which has none before it."""
    return slice(max(window.keep.start, 1), window.keep.stop)


def _window(ids: np.ndarray, counted: np.ndarray, window: TextWindow) -> Example:
    """A window as an example: the tokens that it scores are its labels."""
    here = slice(window.start, window.end)
    scored = counted[here] & (np.arange(window.start, window.end) >= _scored(window).start)
    return {"input_ids": ids[here], "labels": np.where(scored, ids[here], IGNORE_INDEX)}


def _scores(sums: np.ndarray) -> dict[str, np.ndarray]:
    nats, tokens, all_nats, characters = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):  # no token, no character: there is no score
        loss = nats / tokens
        return {
            "bits_per_character": all_nats / math.log(2) / characters,
            "bits_per_token": loss / math.log(2),
            "perplexity": perplexity(loss),
        }
