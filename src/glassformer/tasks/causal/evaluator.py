"""Judging a language model: how surprised it is by texts that it has not seen, every character of them accounted for.

A window is as long as the model's blocks in training, and moves on by less than that; only tokens that no window has
said yet count, so that nearly each has much before it:

    tokens     t0 t1 t2 t3 t4 t5 t6 t7 t8 t9
    window 1   ── t1 t2 t3 t4 t5                   read t0 … t5, said t1 … t5
    window 2            ·  ·  ·  t6 t7 t8          block 6, stride 3: read t3 … t8, said t6 … t8
    window 3                     ·  ·  ·  t9

Nothing stands before t0: it is counted as one of V that are all as likely. So the surprises of all tokens are what it
takes to write the text down, and divided by its characters they can be compared whatever the tokens are.

Source: bits a character: Shannon 1951, "Prediction and entropy of printed English".
"""

from __future__ import annotations

import lzma
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.tasks.base import Objective, Rows
from glassformer.tasks.causal.ngrams import Ngrams
from glassformer.tasks.causal.task import Answers, Causal
from glassformer.tasks.causal.token_losses import surprises
from glassformer.tasks.columns import check_columns, chunks, placed, text_of
from glassformer.tasks.evaluator import Baseline, Judge
from glassformer.tasks.metrics.bootstrap import Counted, Sampled
from glassformer.tasks.microbatch import HIDDEN, Example
from glassformer.tasks.predictions import Record
from glassformer.tasks.windows import bare_ids, encoded
from glassformer.text.engine import around_one_text

STRETCH = 1_000
"""A longer text is judged in stretches of about so many characters, of which samples are drawn."""
TRIGRAM = 3
LEARNT_TOKENS = 2_000_000
"""A table of runs learns from so many tokens at most: it lies in memory."""
LEARNT_CHARACTERS = 2**22
"""And compression from so many characters, the last ones."""


@dataclass(frozen=True)
class Document:
    """A text as it is judged.

    ids: with what stands around it in training · counted: which of them are of the text, or say that it ends. [n] each
    stretch: of which stretch each is. [n] · bounds: where stretches begin and end, in characters
    """

    ids: np.ndarray
    counted: np.ndarray
    stretch: np.ndarray
    bounds: list[int]


class LanguageJudge(Judge):
    """Perplexity, bits a token, and bits a character of texts.

    Args: stride: tokens that a window moves on by; None = half of the block
    """

    METRIC = "bits_per_character"
    HIGHER = False
    objective: Causal

    def __init__(self, objective: Objective, *, stride: int | None = None) -> None:
        super().__init__(objective)
        block = self.objective.block
        self.stride = block // 2 if stride is None else stride
        if not 1 <= self.stride < block:
            raise ConfigError(
                f"stride is {stride}; a window of {block} tokens moves on by 1 to {block - 1}, so that none is left out"
            )

    @property
    def vocabulary(self) -> int:
        return self.model.network.vocabulary

    def records(self, rows: Rows, progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        documents = list(self.documents(rows))
        if all(len(document.ids) < 2 for document in documents):
            raise DataError(f"{rows.where(0)}: no text has two tokens, one to read and one to say")
        number = 0
        for index, (document, losses) in enumerate(zip(documents, self.losses(documents), strict=True)):
            text = text_of(rows[index], self.objective.columns["text"])
            for part, (start, end) in enumerate(pairwise(document.bounds)):
                here = document.counted & (document.stretch == part)
                whole = (start, end) == (0, len(text))
                yield _record(
                    index=number,
                    where=rows.where(index) + ("" if whole else f", characters {start:,} to {end:,}"),
                    row={"text": text[start:end]},
                    ids=document.ids[here],
                    losses=losses[here],
                    # Of the first token of a text that is judged alone nothing is known.
                    alone=int(here[:1].sum()) if self.objective.isolated or not index else 0,
                    details={"start": start},
                )
                number += 1
            if progress is not None:
                progress(1)

    def documents(self, rows: Rows) -> Iterator[Document]:
        """The texts of rows as tokens, as training reads them."""
        column, tokenizer = self.objective.columns["text"], self.model.tokenizer
        check_columns(rows, [column])
        before, end = len(around_one_text(tokenizer.engine)[0]), tokenizer.eos_token_id
        for numbers, held in chunks(rows):
            texts = []
            for index, row in zip(numbers, held, strict=True):
                with placed(rows, index):
                    texts.append(text_of(row, column))
            framed, _ = tokenizer.batch_ids(texts, None)
            encoding = tokenizer(texts, add_special_tokens=False)
            for place, (text, ids) in enumerate(zip(texts, framed, strict=True)):
                whole = [*ids, end] if ids and end is not None and ids[-1] != end else list(ids)
                parts = max(1, round(len(text) / STRETCH))
                bounds = [len(text) * part // parts for part in range(parts + 1)]
                begins = [start for start, _ in encoding.offsets(place)]
                stretch = np.full(len(whole), parts - 1)
                stretch[:before] = 0
                stretch[before : before + len(begins)] = np.searchsorted(bounds[1:-1], begins, side="right")
                counted = np.arange(len(whole)) >= before
                yield Document(np.array(whole, dtype=np.int32), counted, stretch, bounds)

    def losses(self, documents: Sequence[Document]) -> Iterator[np.ndarray]:
        """The surprise at each token of each document; ln V where nothing stands before it."""
        if self.objective.isolated:
            streams = [(document.ids, document.counted) for document in documents]
        else:  # texts that saw each other in training do so here
            joined = (
                np.concatenate([d.ids for d in documents]),
                np.concatenate([d.counted for d in documents]),
            )
            streams = [joined]
        windows = [list(self.windows(len(ids))) for ids, _ in streams]
        examples = [
            _window(ids, counted, *window)
            for (ids, counted), of_stream in zip(streams, windows, strict=True)
            for window in of_stream
        ]
        found = surprises(self.objective, examples)
        for (ids, counted), of_stream in zip(streams, windows, strict=True):
            losses = np.full(len(ids), math.log(self.vocabulary))
            for _, first, end in of_stream:
                losses[first:end][counted[first:end]] = next(found).losses
            if self.objective.isolated:
                yield losses
            else:
                yield from np.split(losses, np.cumsum([len(d.ids) for d in documents])[:-1])

    def windows(self, tokens: int) -> Iterator[tuple[int, int, int]]:
        """Where each window over so many tokens begins, from where on they count, and where it ends."""
        first, start = 1, 0
        while first < tokens:
            end = min(start + self.objective.block, tokens)
            yield start, first, end
            first, start = end, start + self.stride

    def judged(self, records: Sequence[Record]) -> Sampled:
        rows = np.array(
            [
                [
                    (r.loss or 0.0) * r.details["tokens"],
                    r.details["tokens"],
                    r.details["nats"],
                    r.details["characters"],
                ]
                for r in records
            ],
            dtype=np.float64,
        ).reshape(-1, 4)
        by = f"numpy {version('numpy')}"
        tokens = f"{self.context}; of tokens with something before them; {by}"
        methods = {
            "bits_per_character": f"{self.everything}; {self.context}; {by}",
            "bits_per_token": f"mean loss / ln 2; {tokens}",
            "perplexity": f"exp(mean loss); {tokens}",
        }
        return Counted(rows, _figures, methods)

    @property
    def context(self) -> str:
        """What is read before a token is said."""
        block = self.objective.block
        seen = (
            "each text alone" if self.objective.isolated else "texts one behind the other, seeing each other"
        )
        return (
            f"windows of {block:,} tokens that move on by {self.stride:,}, each token said once, "
            f"with {block - self.stride:,} before it where there are so many; {seen}"
        )

    @property
    def everything(self) -> str:
        """What is divided by what."""
        return (
            f"all surprise / ln 2 / characters (Unicode code points); a token before which nothing stands is one of "
            f"{self.vocabulary:,}, and that a text ends is counted too"
        )

    def baselines(self, train: Rows | None, records: Sequence[Record]) -> Iterator[Baseline]:
        known = self.vocabulary
        flat = [np.full(len(r.details["ids"]), math.log(known)) for r in records]
        yield Baseline("uniform", f"each of {known:,} tokens is as likely", _instead(records, flat))
        if train is None:
            return
        table = Ngrams(_first(self.learnt_ids(train), LEARNT_TOKENS), TRIGRAM, known)
        shares = f"among {table.seen[0][()]:,} tokens of the training rows"
        for name, order, about in (
            ("unigram", 1, f"how frequent a token is {shares}, each counted once more"),
            ("trigram", TRIGRAM, f"and after the two before it, {shares} (Witten-Bell)"),
        ):
            yield Baseline(name, about, _instead(records, list(self.said_by(table, order, records))))
        said = "".join("\n" * (r.details["start"] == 0) + self.text(r) for r in records)
        nats = 8 * math.log(2) * compressed(self.learnt_text(train), said)
        each = nats / max(sum(r.details["characters"] for r in records), 1)
        spread = [
            np.full(len(r.details["ids"]), each * r.details["characters"] / max(len(r.details["ids"]), 1))
            for r in records
        ]
        about = "how much longer xz makes the training rows with these behind them; spread evenly over the characters"
        yield Baseline("xz", about, _instead(records, spread))

    def said_by(self, table: Ngrams, order: int, records: Sequence[Record]) -> Iterator[np.ndarray]:
        """The surprise of a table at each token of records, which goes on from one stretch of a text to the next."""
        before: list[int] = []
        for record in records:
            if not record.details["start"]:
                before = []
            yield table.losses(record.details["ids"], before, order)
            before = [*before, *record.details["ids"]][-TRIGRAM:]

    def learnt_ids(self, rows: Rows) -> Iterator[list[int]]:
        """What a table of runs learns from."""
        tokenizer = self.model.tokenizer
        ends = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
        texts = encoded(rows, self.objective.columns["text"], lambda texts: bare_ids(tokenizer, texts))
        return ([*ids, *ends] for ids in texts)

    def learnt_text(self, rows: Rows) -> str:
        """What compression learns from: the end of it, if it is long."""
        return _last(rows, self.objective.columns["text"], LEARNT_CHARACTERS)

    def text(self, record: Record) -> str:
        """What was judged of a record."""
        text: str = record.row["text"]
        return text

    def notes(self, records: Sequence[Record]) -> list[str]:
        found = []
        if any(r.details["start"] for r in records):
            found.append(
                f"long texts are judged in stretches of about {STRETCH:,} characters; intervals are of samples of them"
            )
        unknown = self.model.tokenizer.unk_token_id
        if unknown is not None and unknown != self.model.tokenizer.eos_token_id:
            lost = sum(r.details["ids"].count(unknown) for r in records)
            if lost:
                found.append(
                    f"{lost:,} tokens stand for something unknown, whose letters nobody had to say: "
                    "bits a character are too few"
                )
        return found


class AnswersJudge(LanguageJudge):
    """Perplexity and bits a character of answers, each given its prompt."""

    objective: Answers

    def __init__(self, objective: Objective) -> None:
        alone = copy(objective)
        alone.prompts = False  # type: ignore[attr-defined]  # whatever was learnt, answers are judged
        super().__init__(alone)

    def records(self, rows: Rows, progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        examples = self.objective.examples(rows)
        prompt, answer = self.objective.columns["prompt"], self.objective.columns["answer"]
        for index, found in enumerate(surprises(self.objective, examples, progress)):
            row = rows[index]
            said = row[answer]
            if len(examples[index]["input_ids"]) >= self.objective.block:  # it may have been cut
                read = self.model.tokenizer.decode(found.true.tolist(), skip_special_tokens=True)
                said = said[: len(read)]
            yield _record(
                index=index,
                where=rows.where(index),
                row={"prompt": row[prompt], "answer": said},
                ids=found.true,
                losses=found.losses,
                alone=0,
                details={"start": 0},
            )

    def learnt_ids(self, rows: Rows) -> Iterator[list[int]]:
        examples = self.objective.examples(rows)
        for index in range(len(examples)):
            labels = np.array(examples[index]["labels"])
            yield labels[labels != HIDDEN].tolist()

    def learnt_text(self, rows: Rows) -> str:
        return _last(rows, self.objective.columns["answer"], LEARNT_CHARACTERS)

    def text(self, record: Record) -> str:
        text: str = record.row["answer"]
        return text

    @property
    def context(self) -> str:
        return f"answers alone, each given its prompt, together of at most {self.objective.block:,} tokens"

    @property
    def everything(self) -> str:
        return "all surprise / ln 2 / characters (Unicode code points) of the answers, their ends counted too"


def compressed(before: str, text: str) -> int:
    """How many bytes more xz needs for a text, when it has seen another before."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 4 * LEARNT_CHARACTERS}]

    def size(raw: str) -> int:
        return len(lzma.compress(raw.encode("utf-8", "replace"), lzma.FORMAT_RAW, filters=filters))

    return size(before + text) - size(before)


def _window(ids: np.ndarray, counted: np.ndarray, start: int, first: int, end: int) -> Example:
    """What is read, and of it what is to be said."""
    says = counted[start:end] & (np.arange(start, end) >= first)
    return {"input_ids": ids[start:end], "labels": np.where(says, ids[start:end], HIDDEN)}


def _first(documents: Iterable[list[int]], tokens: int) -> Iterator[list[int]]:
    """The first documents, of so many tokens at most; the last of them may be cut."""
    for document in documents:
        if tokens <= 0:
            return
        yield document[:tokens]
        tokens -= len(document)


def _last(rows: Rows, column: str, characters: int) -> str:
    """The end of the texts of rows."""
    held: list[str] = []
    for index in reversed(range(len(rows))):
        held.append(text_of(rows[index], column))
        if sum(map(len, held)) >= characters:
            break
    return "\n".join(reversed(held))[-characters:]


def _record(
    *,
    index: int,
    where: str,
    row: dict[str, Any],
    ids: np.ndarray,
    losses: np.ndarray,
    alone: int,
    details: dict[str, Any],
) -> Record:
    """What became of a stretch: its tokens, how surprising each was, and how many have nothing before them."""
    tokens = len(ids) - alone
    return Record(
        index=index,
        where=where,
        row=row,
        label=None,
        said=None,
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


def _instead(records: Sequence[Record], losses: Sequence[np.ndarray]) -> list[Record]:
    """The same records, had something else been asked."""
    return [
        _record(
            index=r.index,
            where=r.where,
            row=r.row,
            ids=np.array(r.details["ids"], dtype=np.int64),
            losses=found,
            alone=len(r.details["ids"]) - r.details["tokens"],
            details=r.details,
        )
        for r, found in zip(records, losses, strict=True)
    ]


def _figures(sums: np.ndarray) -> dict[str, np.ndarray]:
    nats, tokens, everything, characters = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):  # no token, no character: there is no figure
        loss = nats / tokens
        return {
            "bits_per_character": everything / math.log(2) / characters,
            "bits_per_token": loss / math.log(2),
            "perplexity": np.exp(np.minimum(loss, 700.0)),
        }
