"""Texts as a pass reads them: ids for the network, and tokens for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.errors import DataError, nearest
from glassformer.files import shown
from glassformer.models import Network
from glassformer.text.encoding import Encoding
from glassformer.text.tokenizer import Tokenizer

MOST_CHARACTERS = 1_000_000
"""No model that can be looked at reads more, and a tokenizer should not have to find that out."""

DRAWN = str.maketrans({" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "↵"})


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text as the model sees it.

    text: the characters it stands for, without space around them; a special token's own name
    piece: as the vocabulary spells it: `##ana`, `Ġflies`
    segment: which text it comes from; None where the tokenizer added it
    continues: it goes on in the word that the token before it began
    """

    text: str
    piece: str
    id: int
    segment: int | None = None
    special: bool = False
    continues: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What a pass reads: a batch of one row without padding, and its tokens by side.

    sides: `text`, `image` or `sound` where there is one stack; `source` and `target` where one reads the other
    """

    texts: tuple[str, ...]
    batch: Batch
    sides: dict[str, list[Token]]


def read_texts(
    tokenizer: Tokenizer, texts: Sequence[str], *, segments: int, limit: int | None = None
) -> Reading:
    """One text, or two as a pair in one row, for a network of one stack.

    Where the tokenizer puts nothing between the two, a line break goes there, lest two words run into one.

    Args:
        segments: how many segments the network knows.
        limit: how many tokens it reads.
    Raises: DataError: not one or two texts, no token in them, or far too long.
    """
    first, second = _checked(texts)
    encoding = tokenizer(first) if second is None else tokenizer(first, second)
    if second is not None and _touching(encoding.sequence_ids()):
        second = "\n" + second
        encoding = tokenizer(first, second)
    ids = encoding["input_ids"]
    if not ids:
        raise DataError("the text is empty, and the tokenizer adds nothing to it; give at least one word")
    check_length(len(ids), "text", limit)
    types = encoding.get("token_type_ids") if segments else None
    batch = Batch(
        input_ids=torch.tensor([ids]), token_type_ids=None if types is None else torch.tensor([types])
    )
    given = (first,) if second is None else (first, second)
    return Reading(tuple(texts), batch, {"text": tokens_of(tokenizer, encoding, given)})


def read_translation(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    begun: Callable[[Tensor], Sequence[int]],
    limit: int | None,
    answer: Callable[[Tensor], Tensor],
) -> Reading:
    """A source, and a target as the decoder reads it.

    Args:
        texts: source and target; a target that is not given is the model's own answer.
        begun: source ids [1, S] → what every target begins with: the start token, and those that are forced.
        limit: how many tokens the model reads; a longer source is refused before it is answered.
        answer: source ids [1, S] → target ids [1, T], begun so.
    Raises: DataError: as `read_texts`.
    """
    source, target = _checked(texts)
    read = read_source(tokenizer, source, limit=limit)
    ids = read.batch.input_ids
    assert ids is not None  # which it has just been given
    return answered(
        read, tokenizer, target, begun=lambda: begun(ids), limit=limit, answer=lambda: answer(ids)
    )


def read_source(tokenizer: Tokenizer, source: str, *, limit: int | None) -> Reading:
    """What an encoder reads, before anything is written about it.

    Raises: DataError: as `read_texts`.
    """
    source, _ = _checked((source,))
    encoding = tokenizer(source)
    ids = torch.tensor([encoding["input_ids"]])
    if not ids.numel():
        raise DataError("the source is empty, and the tokenizer adds nothing to it; give at least one word")
    check_length(ids.shape[1], "source", limit)
    return Reading((source,), Batch(input_ids=ids), {"source": tokens_of(tokenizer, encoding, (source,))})


def answered(
    read: Reading,
    tokenizer: Tokenizer,
    target: str | None,
    *,
    begun: Callable[[], Sequence[int]],
    limit: int | None,
    answer: Callable[[], Tensor],
) -> Reading:
    """What was read, and the target beside it: the one given, or the model's own answer."""
    if target is None:
        written = answer()[0].tolist()
        tokens = _written(tokenizer, written)
    else:
        encoded = tokenizer(target, add_special_tokens=False)
        first = begun()
        written = [*first, *encoded["input_ids"]]
        check_length(len(written), "target", limit)
        tokens = [
            *(special_token(tokenizer, number) for number in first),
            *tokens_of(tokenizer, encoded, (target,)),
        ]
    batch = replace(read.batch, decoder_input_ids=torch.tensor([written]))
    given = read.texts if target is None else (*read.texts, target)
    return Reading(given, batch, {**read.sides, "target": tokens})


def read_sense(name: str, batch: Batch, places: Mapping[str, Sequence[str]]) -> Reading:
    """A picture or a sound, whose tokens are called by their `places`; a place in brackets is a special token."""
    sides = {
        side: [
            Token(place, place, number, None if place.startswith("[") else 0, place.startswith("["))
            for number, place in enumerate(names)
        ]
        for side, names in places.items()
    }
    return Reading((name,), batch, sides)


def beside(sense: Reading, text: Reading) -> Reading:
    """A picture or a sound, and a text that is read with it."""
    batch = replace(sense.batch, input_ids=text.batch.input_ids)
    return Reading(sense.texts + text.texts, batch, {**text.sides, **sense.sides})


def with_fields(reading: Reading, given: Mapping[str, Tensor], network: Network) -> Reading:
    """A reading with fields that no file or text holds: boxes of words, regions of a picture.

    Raises: DataError: there is no such field.
    """
    known = [field.name for field in fields(Batch)]
    for name in given:
        if name not in known:
            raise DataError(
                f"inspect takes no {shown(name)}{nearest(name, known)}; a batch has {', '.join(known)}"
            )
    batch = replace(reading.batch, **dict(given))
    sense = read_sense("", batch, network.places(batch))
    return Reading(reading.texts, batch, {**reading.sides, **sense.sides})


def tokens_of(tokenizer: Tokenizer, encoding: Encoding, texts: Sequence[str]) -> list[Token]:
    """The tokens of an encoding's first row, with the characters of `texts` that each stands for."""
    columns: Any = (
        encoding.rows[0].ids,
        encoding.tokens(),
        encoding.offsets(),
        encoding.word_ids(),
        encoding.sequence_ids(),
    )
    found: list[Token] = []
    before: tuple[int, int] | None = None
    for number, piece, (start, end), word, segment in zip(*columns, strict=True):
        if segment is None:
            found.append(special_token(tokenizer, number))
        else:
            text = texts[segment][start:end]
            continues = word is not None and before == (segment, word)
            special = number in tokenizer.special_ids
            found.append(Token(_readable(text) or piece, piece, number, segment, special, continues))
        before = None if segment is None or word is None else (segment, word)
    return found


def _written(tokenizer: Tokenizer, ids: list[int]) -> list[Token]:
    """Tokens that a model wrote itself; no text says which characters they stand for."""
    found = []
    for number in ids:
        if number in tokenizer.special_ids:
            found.append(special_token(tokenizer, number))
        else:
            piece = _piece(tokenizer, number)
            found.append(Token(_readable(tokenizer.decode([number])) or piece, piece, number, 0))
    return found


def _readable(text: str) -> str:
    """The characters without space around them; nothing but space is drawn."""
    return text.strip() or text.translate(DRAWN)


def special_token(tokenizer: Tokenizer, number: int) -> Token:
    """A token that people see by its own name."""
    piece = _piece(tokenizer, number)
    return Token(piece, piece, number, special=True)


def _piece(tokenizer: Tokenizer, number: int) -> str:
    """As the vocabulary spells it; an embedding may have more rows than the vocabulary has entries."""
    piece: str | None = tokenizer.engine.id_to_token(number)
    return f"[{number}]" if piece is None else piece


def _touching(segments: Sequence[int | None]) -> bool:
    """Does the second text follow the first with nothing between them?"""
    return (0, 1) in pairwise(segments)


def _checked(texts: Sequence[str]) -> tuple[str, str | None]:
    if isinstance(texts, str) or len(texts) not in (1, 2) or not all(isinstance(t, str) for t in texts):
        raise DataError(f"the texts are {shown(texts)}; give one text or two")
    for text in texts:
        if len(text) > MOST_CHARACTERS:
            raise DataError(
                f"the text has {len(text):,} characters, more than any model here reads at once "
                f"({MOST_CHARACTERS:,}); give a part of it"
            )
    return texts[0], texts[1] if len(texts) == 2 else None


def check_length(tokens: int, side: str, limit: int | None) -> None:
    """The position table must hold a side.

    Raises: DataError: it does not.
    """
    if limit is not None and tokens > limit:
        raise DataError(
            f"the {side} has {tokens:,} tokens and the model reads at most {limit:,}; shorten the {side}"
        )
