"""token-classification pipeline: named entities of a text, or a tag for each word.

    text      Jeff Dean arbeitet bei Google.
    tokens    Jeff De ##an arbeitet bei Goo ##gle .
    tags      B-PER I-PER · O O B-ORG · O      a word has the tag of its first token, as in training
    entities  PER Jeff Dean 0-9 · ORG Google 23-29

What a word is does not depend on the tokenizer (`words_in`), and a long text is read in sliding windows, so a name is
found whole wherever its tokens are split or a window ends.
Source: Devlin et al. 2019, section 5.3; runs of tags as in `metrics/entities.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.model import Model
from glassformer.tasks.metrics.entities import EntityRuns
from glassformer.tasks.pipelines import PackedPipeline, logits_of
from glassformer.tasks.results import Entity, Results, TaggedToken
from glassformer.tasks.tag.task import Tag, first_tokens
from glassformer.text.batches import span_indices, text_token_limit, word_spans
from glassformer.text.windows import windows

STRATEGIES = {
    "first": "a word has the tag of its first token, as it was trained",
    "average": "the likeliest tag by the mean of its tokens' probabilities",
    "max": "the tag of the token with the highest score",
    "simple": "entities are made of tokens, not of words",
    "none": "each token has its own",
}
IGNORED = ("O",)
SHARED = 4
"""Windows share the fourth part of their tokens."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text as it is read: its words, its tokens without special ones, and the word of each token.

    words: where each is in the text
    came_as_words: places are numbers of words, not of characters
    ids, offsets, owners: a token's number, its characters, its word (-1 for none)
    first: the first token of each word that has one → the word
    """

    text: str
    words: Sequence[Word]
    came_as_words: bool
    ids: list[int]
    offsets: list[tuple[int, int]]
    owners: list[int]
    first: dict[int, int]

    def word_scores(self, scores: Tensor, strategy: str) -> Tensor:
        """The probabilities of the tags of each word. [tokens, tags] → [words, tags]"""
        if strategy == "first":
            return scores[list(self.first)]
        owners = torch.tensor(self.owners)
        of_words = [scores[owners == word] for word in self.first.values()]
        if strategy == "average":
            return torch.stack([own.mean(0) for own in of_words])
        return torch.stack([own[own.max(-1).values.argmax()] for own in of_words])

    def of_tokens(self) -> Tokens:
        """The same text, with each token in the place of a word."""
        numbers = range(len(self.ids))
        words = [Word(*span) for span in self.offsets]
        return replace(self, words=words, came_as_words=False, owners=[*numbers], first={i: i for i in numbers})


class TokenClassification(PackedPipeline):
    """The entities of a text, by its words; or a tag for each word, where the tags are not those of entities.

    aggregation_strategy: "first": words have the tag of their first token, and entities are made of words; "average",
        "max": by all tokens of a word; "simple": entities are made of tokens; "none": each token with its tag
    ignore_labels: tags that are not told (default "O")

    A text may come as its words, {"tokens": [...]}; then places are numbers of words.

    by_tokens: whether the words of an entity are the text of its tokens (in lower case where the tokenizer's are, and
        of an unknown token what was given), as in the reference library, or as they are in what was given
    """

    HEAD = "token-classification"
    WHY = "it has no head that gives tags to tokens; an encoder such as BERT has one, once it is trained for that"
    OWN = ("aggregation_strategy", "ignore_labels")
    EMPTY = "no entities"

    def __init__(self, model: Model, task: str, **options: Any) -> None:
        self.by_tokens = False
        self.task_object = Tag(model)
        self._runs = EntityRuns(self.task_object.kind.names) if self.task_object.kind.marks_entities else None
        super().__init__(model, task, **options)

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        strategy = options.get("aggregation_strategy", "first")
        if strategy not in STRATEGIES:
            listed = "; ".join(f"{name!r}: {meaning}" for name, meaning in STRATEGIES.items())
            raise ConfigError(f"aggregation_strategy is {safe_repr(strategy)}; it must be one of these. {listed}")
        ignored = options.get("ignore_labels", IGNORED)
        if not isinstance(ignored, (list, tuple)) or not all(isinstance(name, str) for name in ignored):
            raise ConfigError(f"ignore_labels is {safe_repr(ignored)}; it must be a list of tags, such as ['O']")

    def is_one(self, given: Any) -> bool:
        return isinstance(given, (str, Mapping))

    def check_input(self, given: Any) -> None:
        _text_and_words(given)

    def in_words(self, answer: Any) -> str:
        return ", ".join(result.text for result in answer)

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        texts = list(self._read(batch))
        before, after = self.model.tokenizer.prefix_and_suffix
        room = text_token_limit(self.limit, len(before) + len(after))
        stride = 0 if room is None else room // SHARED
        parts = [windows(len(text.ids), room, stride, begins_word=text.first.__contains__) for text in texts]
        examples = [
            {"input_ids": [*before, *text.ids[window.start : window.end], *after]}
            for text, its in zip(texts, parts, strict=True)
            for window in its
        ]
        logits = iter(logits_of(self.task_object, examples))
        results_of_texts: list[Any] = []
        for text, its in zip(texts, parts, strict=True):
            if not text.ids:
                results_of_texts.append(Results())
                continue
            inner = [(window, next(logits)[len(before) :]) for window in its]
            scores = torch.cat([window.own(output) for window, output in inner]).softmax(-1)
            strategy = options.get("aggregation_strategy", "first")
            results: Iterator[Any]
            if strategy == "none":
                results = self._tokens(text, scores)
            elif strategy == "simple":
                results = self._entities(text.of_tokens(), scores)
            else:
                results = self._entities(text, text.word_scores(scores, strategy))
            ignored = options.get("ignore_labels", IGNORED)
            results_of_texts.append(Results(each for each in results if _tag(each) not in ignored))
        return results_of_texts

    def _read(self, batch: list[Any]) -> Iterator[Tokens]:
        given = [_text_and_words(each) for each in batch]
        rows = self.model.tokenizer([text for text, _ in given], add_special_tokens=False).rows
        for (text, words), row in zip(given, rows, strict=True):
            spans = words_in(text) if words is None else [Word(*span) for span in word_spans(words)]
            owners = span_indices([span[:2] for span in spans], row.offsets)
            if words is None:
                spans, owners = join_unspaced(spans, owners)
            seen, first = (numbers.tolist() for numbers in first_tokens(np.array(owners, dtype=np.int64)))
            first_of = dict(zip(first, seen, strict=True))
            yield Tokens(text, spans, words is not None, row.ids, row.offsets, owners, first_of)

    def _entities(self, text: Tokens, scores: Tensor) -> Iterator[Entity]:
        """Entities from the scores of each word [words, tags]."""
        words = list(text.first.values())
        best = scores.max(-1)
        tags, shares = best.indices.numpy(), best.values.tolist()
        for kind, begin, last in self._spans(tags):
            share = sum(shares[begin : last + 1]) / (last + 1 - begin)
            start, end = text.words[words[begin]].start, text.words[words[last]].end
            place = (words[begin], words[last] + 1) if text.came_as_words else (start, end)
            yield Entity(kind, share, self._words(text, start, end), *place)

    def _words(self, text: Tokens, start: int, end: int) -> str:
        """What is between two characters."""
        if not self.by_tokens:
            return text.text[start:end]
        inside = [i for i, (first, last) in enumerate(text.offsets) if first < end and last > start]
        pieces = self._pieces(text)
        return self.model.tokenizer.convert_tokens_to_string([pieces[i] for i in inside])

    def _pieces(self, text: Tokens) -> list[str]:
        """The tokens of a text, as written in the vocabulary."""
        tokenizer = self.model.tokenizer
        pieces: list[str] = tokenizer.convert_ids_to_tokens(text.ids)
        if not self.by_tokens:
            return pieces
        places = zip(text.ids, pieces, text.offsets, strict=True)
        return [text.text[start:end] if id == tokenizer.unk_token_id else piece for id, piece, (start, end) in places]

    def _spans(self, tags: np.ndarray) -> Iterator[tuple[str, int, int]]:
        """What the tags of words make: a name, the first word and the last."""
        if self._runs is None:
            names = self.task_object.kind.names
            yield from ((names[tag], i, i) for i, tag in enumerate(tags))
            return
        begins, kinds, ends = self._runs.of(tags, np.zeros(len(tags)))  # all of one text
        for i in np.flatnonzero(begins).tolist():
            yield self._runs.types[kinds[i]], i, int(ends[i])

    def _tokens(self, text: Tokens, scores: Tensor) -> Iterator[TaggedToken]:
        """Tokens with their labels, from scores [tokens, tags]."""
        pieces = self._pieces(text)
        special = len(self.model.tokenizer.prefix_and_suffix[0])
        best = scores.max(-1)
        for i, (tag, share) in enumerate(zip(best.indices.tolist(), best.values.tolist(), strict=True)):
            place = (text.owners[i], text.owners[i] + 1) if text.came_as_words else text.offsets[i]
            yield TaggedToken(self.task_object.kind.names[tag], share, special + i, pieces[i], *place)


def _text_and_words(given: Any) -> tuple[str, list[str] | None]:
    """The text, and its words where it came as these.

    Raises: DataError: neither.
    """
    if isinstance(given, str):
        return given, None
    words = given.get("tokens") if isinstance(given, Mapping) and len(given) == 1 else None
    if isinstance(words, (list, tuple)) and all(isinstance(word, str) for word in words):
        return " ".join(words), list(words)
    raise DataError(
        f"the input is {safe_repr(given)}; it must be a text, or its words: {{'tokens': ['Time', 'flies']}}"
    )


def _tag(result: Entity | TaggedToken) -> str:
    return result.entity_group if isinstance(result, Entity) else result.entity


# ------------------------------------------------------------------------------------------------ words of a text

UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""How the names of letters begin whose scripts put no space between words. Source: the Unicode Character Database."""

WITHIN = "-.'’‐‑_&@·"
BETWEEN_DIGITS = ",:/"

# Of the kinds below: a character of an unspaced script with its marks; a word; anything else that is no space.
_WORD = re.compile(r"um*|[wd](?:[wdm]|j(?=[wd])|(?<=d)n(?=d))*|[^ ]")
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\Z", re.IGNORECASE)


class Word(NamedTuple):
    """Where a word is in its text, in characters; and whether its script puts no space between words."""

    start: int
    end: int
    unspaced: bool = False


class _Kinds(dict[int, str]):
    """Of each character, as many as are met: a letter for what it does to words."""

    def __missing__(self, code: int) -> str:
        self[code] = spans = _kind(chr(code))
        return spans


def _kind(character: str) -> str:
    category = unicodedata.category(character)
    if character.isspace() or category in ("Cc", "Zs", "Zl", "Zp"):
        return " "
    if character in WITHIN:
        return "j"
    if character in BETWEEN_DIGITS:
        return "n"
    if category[0] == "M" or category == "Cf":  # marks above and below letters; joiners that are not seen
        return "m"
    if category == "Nd":
        return "d"
    if category[0] in "LN":
        return "u" if unicodedata.name(character, "").startswith(UNSPACED) else "w"
    return "p"


_KINDS = _Kinds()


def words_in(text: str) -> list[Word]:
    """Split a text into words, to which tags are given, whatever the tokenizer makes of them.

        Dr. O'Neil's 3.5-litre car (a Fiat).      Dr . O'Neil 's 3.5-litre car ( a Fiat ) .
        我在 Google 工作                            我 在 Google 工 作

    White space and punctuation separate words; a dot, an apostrophe or a hyphen *within* a word belongs to it, as it
    does in the corpora that taggers are trained on; an English 's is a word of its own. Scripts that put no space
    between words (Chinese, Japanese, Thai, …) fall into characters, and `join_unspaced` joins those that the tokenizer
    reads as one.
    """
    spans: list[Word] = []
    kinds = text.translate(_KINDS)
    for match in _WORD.finditer(kinds):
        start, end = match.span()
        if owned := _POSSESSIVE.search(text, start, end):
            spans.append(Word(start, owned.start()))
            start = owned.start()
        spans.append(Word(start, end, kinds[start] == "u"))
    return spans


def join_unspaced(words: Sequence[Word], owners: Sequence[int]) -> tuple[list[Word], list[int]]:
    """Characters of an unspaced script of which no token is the first go with the one before.

    Args:
        owners: the word of each token, -1 for none
    Returns: fewer words, and the owners among them.
    """
    first = set(owners)
    spans: list[Word] = []
    number: dict[int, int] = {-1: -1}
    for index, word in zip(count(), words, strict=False):
        before = spans[-1] if spans else None
        goes_on = word.unspaced and index not in first
        if goes_on and before is not None and before.unspaced and before.end == word.start:
            spans[-1] = before._replace(end=word.end)
        else:
            spans.append(word)
        number[index] = len(spans) - 1
    return spans, [number[owner] for owner in owners]
