"""Long-document summarisation: summarise chunks, join the summaries, and again until they fit the context.

    document  ████████████████████████
    chunks    ██████ █████ ██████ ████     cut where sentences end, each as long as the model can read
    summaries ▄▄ ▄ ▄▄ ▄                    one a chunk
    joined    ▄▄▄▄▄▄                       fits: the summary of these is the answer; if not, chunks of these, …

Source: the map and reduce of Dean and Ghemawat (2004), as Wu et al. summarise books, Recursively (2021).
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.text.sentences import sentence_spans
from glassformer.text.tokenizer import Tokenizer

Summariser = Callable[[Sequence[str]], list[str]]
"""Any function from texts to a summary of each."""

WORTH_A_ROUND = 0.9
"""A round that leaves more than this share of the tokens would be followed by too many others."""


@dataclass(frozen=True)
class Round:
    """What one round made of a text: its chunks, which together are the text, and the summary of each."""

    chunks: list[str]
    summaries: list[str]


@dataclass(frozen=True)
class Merged:
    """The summary of a long document, and the rounds that led to it; none where it fitted at once."""

    summary: str
    rounds: list[Round]


@dataclass(frozen=True)
class ChunkAndMerge:
    """A summariser of documents of any length, made from one that reads this many tokens.

        summarise = ChunkAndMerge(lambda texts: model.generate(texts, num_beams=4), model.tokenizer, room=1024)
        summarise([book])

    Args:
        summarise: what summarises the chunks.
        tokenizer: the model's, which says how long a chunk is.
        room: how many tokens the model reads, special ones included.
        language: of the texts, for finding sentences.
        batch: how many chunks are handed over at once.
        progress: called with the round from 1, and how many of its chunks are done, of all.
    """

    summarise: Summariser
    tokenizer: Tokenizer
    room: int
    language: str = "en"
    batch: int = 8
    progress: Callable[[int, int, int], None] | None = None

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """A summary of each text; those that fit are handed over together."""
        lengths = _lengths(self.tokenizer, texts)
        short = [text for text, length in zip(texts, lengths, strict=True) if length <= self.room]
        summaries = iter(self._summarise_batch(short) if short else [])
        return [
            next(summaries) if length <= self.room else self.merge(text).summary
            for text, length in zip(texts, lengths, strict=True)
        ]

    def merge(self, document: str) -> Merged:
        """The summary of one document, with what each round made.

        It always ends: where a round shortens the text by less than a tenth, what it made is the summary, with a
        warning.

        Raises: DataError: a blank document, or not one summary a chunk. ConfigError: room for nothing.
        """
        if not document.strip():
            raise DataError("the document is blank; there is nothing to summarise")
        rounds: list[Round] = []
        text, length = document, self._length(document)
        while length > self.room:
            made = self._round(text, len(rounds) + 1)
            rounds.append(made)
            text = "\n".join(summary.strip() for summary in made.summaries if summary.strip())
            before, length = length, self._length(text)
            if not text:
                return Merged("", rounds)
            if length > max(self.room, WORTH_A_ROUND * before):
                warnings.warn(
                    f"the summaries of {len(made.chunks)} chunks have {length:,} tokens together, what they "
                    f"summarise has {before:,}; further rounds would not end, so these summaries, joined, are the "
                    "answer",
                    stacklevel=2,
                )
                return Merged(text, rounds)
        return Merged(self._summarise_batch([text])[0], rounds)

    def _round(self, text: str, number: int) -> Round:
        parts = chunks(text, self.tokenizer, self.room, self.language)
        nonblank = [part for part in parts if part.strip()]
        summaries: list[str] = []
        for start in range(0, len(nonblank), self.batch):
            summaries += self._summarise_batch(nonblank[start : start + self.batch])
            if self.progress is not None:
                self.progress(number, len(summaries), len(nonblank))
        return Round(parts, summaries)

    def _summarise_batch(self, texts: Sequence[str]) -> list[str]:
        return check_written(self.summarise(texts), len(texts), "the summariser")

    def _length(self, text: str) -> int:
        return _lengths(self.tokenizer, [text])[0]


def check_written(outputs: Any, count: int, who: str) -> list[str]:
    """What a function wrote about this many texts, one text each.

    Raises: DataError: something else.
    """
    if not isinstance(outputs, list) or len(outputs) != count or not all(isinstance(x, str) for x in outputs):
        raise DataError(f"{who} gave {safe_repr(outputs)} for {count} texts; it must give a list of as many texts")
    return outputs


def chunks(text: str, tokenizer: Tokenizer, room: int, language: str = "en") -> list[str]:
    """Cut a text where sentences end into chunks of at most `room` tokens; together they are the text.

    A sentence that is longer is cut between tokens, with a warning.

    Args:
        room: in tokens, special ones included.
    Raises: ConfigError: not even a letter fits.
    """
    sentences = [text[start:end] for start, end in sentence_spans(text, language)]
    special = _lengths(tokenizer, [""])[0]
    lengths = [length - special for length in _lengths(tokenizer, sentences)]
    fitting: list[str] = []
    start = 0
    while start < len(sentences):
        end, free = start + 1, room - special - lengths[start]
        while end < len(sentences) and lengths[end] <= free:
            free -= lengths[end]
            end += 1
        # Sentences may have more tokens together than alone.
        while end > start + 1 and not _fits(tokenizer, "".join(sentences[start:end]), room):
            end -= 1
        chunk = "".join(sentences[start:end])
        if _fits(tokenizer, chunk, room):
            fitting.append(chunk)
        else:
            warnings.warn(
                f"a sentence has {lengths[start]:,} tokens and there is room for {room - special:,}; "
                "it is cut between tokens",
                stacklevel=2,
            )
            fitting += _cut(chunk, tokenizer, room, room - special)
        start = end
    return fitting


def _cut(sentence: str, tokenizer: Tokenizer, room: int, free: int) -> Iterator[str]:
    """Parts of a sentence, each as many of its tokens as fit."""
    offsets = tokenizer(sentence, add_special_tokens=False).offsets()
    starts = [start for start, _ in offsets] + [len(sentence)]
    begin = 0
    while begin < len(sentence):
        token = bisect_left(starts, begin)
        # A part starts a new text, so it may have a token or two more than it had in the sentence.
        ends = (starts[min(token + count, len(offsets))] for count in range(free, 0, -1))
        end = next((end for end in ends if end > begin and _fits(tokenizer, sentence[begin:end], room)), None)
        if end is None:
            raise ConfigError(
                f"room is {room} tokens, and {sentence[begin : begin + 20]!r} does not fit in that; give more"
            )
        yield sentence[begin:end]
        begin = end


def _fits(tokenizer: Tokenizer, text: str, room: int) -> bool:
    return _lengths(tokenizer, [text])[0] <= room


def _lengths(tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
    """How many tokens each text has, special ones included."""
    return [len(ids) for ids in tokenizer.batch_ids(texts, None)[0]] if texts else []
