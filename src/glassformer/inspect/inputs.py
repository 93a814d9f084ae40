"""Session inputs: texts, pictures and sounds as one batch row, with the tokens of each stream for display."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.edge import check_read
from glassformer.errors import DataError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.generation.generate import greedy_ids, target_prefix
from glassformer.models import Network
from glassformer.pretrained import PretrainedModel
from glassformer.text.encoding import Encoding
from glassformer.text.tokenizer import Tokenizer

MAX_CHARACTERS = 1_000_000
"""Longer than the context of every supported model; a longer text is refused before it is tokenized."""

ANSWER_TOKENS = 40
"""Length of an encoder-decoder's answer that is inspected when no target is given."""

VISIBLE_SPACE = str.maketrans({" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "↵"})


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a stream.

    text: its characters, without space around them; of a special token its name
    piece: its vocabulary entry: `##ana`, `Ġflies`
    segment: index of the text that it comes from; None where the tokenizer added it
    continues: whether it belongs to the same word as the token before it
    """

    text: str
    piece: str
    id: int
    segment: int | None = None  # the key in the explorer's JSON, so the name stays
    special: bool = False
    continues: bool = False


@dataclass(frozen=True, slots=True)
class SessionInput:
    """Input of a session: a batch of one row without padding, and its tokens by stream.

    streams: `text`, `image` or `sound`; of an encoder-decoder `source` and `target`
    """

    texts: tuple[str, ...]
    batch: Batch
    streams: dict[str, list[Token]]


def open_inputs(model: PretrainedModel, texts: Sequence[str], fields: Mapping[str, Tensor]) -> SessionInput:
    """Texts, or a file and texts, as one row without padding.

    Args: fields: what is read beside texts and files, such as `bbox`
    Raises: DataError: empty, too long, or not what the model reads. UnsupportedError: it lacks its head.
    """
    limit = model.network.max_tokens
    if model.family.modality:
        opened = _open_media(model, texts)
    elif model.is_encoder_decoder:
        opened = translation_input(
            model.tokenizer,
            texts,
            decoder_prefix=lambda ids: target_prefix(model, ids.to(model.device)),
            limit=limit,
            generate=lambda ids: greedy_ids(model, ids.to(model.device), _answer_tokens(limit)),
        )
    else:
        kinds = model.network.token_types
        opened = text_input(model.tokenizer, texts, token_types=kinds if isinstance(kinds, int) else 0, limit=limit)
    if fields:
        opened = with_fields(opened, fields, model.network)
    check_read(opened.batch, model.network.READS, model.family.model_type)
    return opened


def open_prompt(model: PretrainedModel, prompt: str) -> SessionInput:
    """The prompt of a generation that is traced: a text, or the file of a sound."""
    limit = model.network.max_tokens
    if model.family.modality:
        return _features_input(model, prompt, model.processor(prompt))
    if model.is_encoder_decoder:
        return source_input(model.tokenizer, prompt, limit=limit)
    return text_input(model.tokenizer, [prompt], token_types=0, limit=limit)


def _features_input(model: PretrainedModel, file: str, features: Mapping[str, Any]) -> SessionInput:
    """The features of a picture or a sound, as far as the network reads them."""
    read = {name: x.to(model.device) for name, x in features.items() if name in model.network.READS}
    batch = Batch(**read)
    return media_input(file, batch, model.network.token_labels(batch))


def _open_media(model: PretrainedModel, texts: Sequence[str]) -> SessionInput:
    """A picture or a sound from its file, and the text that is read beside it."""
    features = model.processor(texts[0]) if texts else {}
    features = {name: x.to(model.device) for name, x in features.items()}
    decodes = "decoder_input_ids" in model.network.READS
    if decodes and not model.is_encoder_decoder:
        raise UnsupportedError(
            "this model was loaded without its language-model head, so there is no answer to inspect; load it with "
            "task='automatic-speech-recognition'"
        )
    reads_text = "input_ids" in model.network.READS and "input_ids" not in features
    if not (len(texts) == 1 + reads_text or (decodes and len(texts) == 2)):
        allowed = f"the file of a {model.family.modality}" + " and a text" * reads_text
        raise DataError(f"this model is inspected on {allowed}{' (and a text)' * decodes}; got {safe_repr(texts)}")
    media = _features_input(model, str(texts[0]), features)
    limit = model.network.max_tokens
    if decodes:
        sound = features["input_features"]
        return with_target(
            media,
            model.tokenizer,
            texts[1] if len(texts) == 2 else None,
            decoder_prefix=lambda: target_prefix(model, sound),
            limit=limit,
            generate=lambda: greedy_ids(model, sound, _answer_tokens(limit)),
        )
    if reads_text:
        return with_text(media, text_input(model.tokenizer, texts[1:], token_types=0, limit=limit))
    return media


def _answer_tokens(limit: int | None) -> int:
    """How many tokens an answer may have: the start token takes a position too."""
    return ANSWER_TOKENS if limit is None else min(ANSWER_TOKENS, limit - 1)


def text_input(
    tokenizer: Tokenizer, texts: Sequence[str], *, token_types: int, limit: int | None = None
) -> SessionInput:
    """One text, or a pair of texts in one row, for a network with one stack.

    Args:
        token_types: number of token types (segment embeddings) of the network, or 0.
        limit: maximum number of tokens.
    Raises: DataError: not one or two texts, no token in them, or too long.
    """
    first, second = _check_texts(texts)
    encoding = tokenizer(first) if second is None else tokenizer(first, second)
    if second is not None and (0, 1) in pairwise(encoding.sequence_ids()):
        # The tokenizer puts nothing between the texts: a line break, so that two words do not become one.
        second = "\n" + second
        encoding = tokenizer(first, second)
    ids = encoding["input_ids"]
    if not ids:
        raise DataError("the text is empty, and the tokenizer adds nothing to it; give at least one word")
    check_length(len(ids), "text", limit)
    types = encoding.get("token_type_ids") if token_types else None
    batch = Batch(input_ids=torch.tensor([ids]), token_type_ids=None if types is None else torch.tensor([types]))
    encoded = (first,) if second is None else (first, second)
    return SessionInput(tuple(texts), batch, {"text": tokens_of(tokenizer, encoding, encoded)})


def translation_input(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    decoder_prefix: Callable[[Tensor], Sequence[int]],
    limit: int | None,
    generate: Callable[[Tensor], Tensor],
) -> SessionInput:
    """Source and target of an encoder-decoder.

    Args:
        texts: source and target; without a target, the model's own answer.
        decoder_prefix: source ids [1, S] → first ids of every target: the start token, and forced tokens.
        limit: maximum number of tokens; a longer source is refused before generation.
        generate: source ids [1, S] → target ids [1, T], with the prefix.
    Raises: DataError: as `text_input`.
    """
    source, target = _check_texts(texts)
    inputs = source_input(tokenizer, source, limit=limit)
    ids = inputs.batch.input_ids
    assert ids is not None  # source_input sets them
    return with_target(
        inputs,
        tokenizer.target,
        target,
        decoder_prefix=lambda: decoder_prefix(ids),
        limit=limit,
        generate=lambda: generate(ids),
    )


def source_input(tokenizer: Tokenizer, source: str, *, limit: int | None) -> SessionInput:
    """Encoder input of an encoder-decoder, without a target.

    Raises: DataError: as `text_input`.
    """
    source, _ = _check_texts((source,))
    encoding = tokenizer(source)
    ids = torch.tensor([encoding["input_ids"]])
    if not ids.numel():
        raise DataError("the source is empty, and the tokenizer adds nothing to it; give at least one word")
    check_length(ids.shape[1], "source", limit)
    return SessionInput((source,), Batch(input_ids=ids), {"source": tokens_of(tokenizer, encoding, (source,))})


def with_target(
    inputs: SessionInput,
    tokenizer: Tokenizer,
    target: str | None,
    *,
    decoder_prefix: Callable[[], Sequence[int]],
    limit: int | None,
    generate: Callable[[], Tensor],
) -> SessionInput:
    """Add a target to an encoder input: the given one, or else the model's own answer."""
    if target is None:
        ids = generate()[0].tolist()
        tokens = _generated_tokens(tokenizer, ids)
    else:
        encoding = tokenizer(target, add_special_tokens=False)
        prefix = decoder_prefix()
        ids = [*prefix, *encoding["input_ids"]]
        check_length(len(ids), "target", limit)
        tokens = [
            *(special_token(tokenizer, token) for token in prefix),
            *tokens_of(tokenizer, encoding, (target,)),
        ]
    batch = replace(inputs.batch, decoder_input_ids=torch.tensor([ids]))
    texts = inputs.texts if target is None else (*inputs.texts, target)
    return SessionInput(texts, batch, {**inputs.streams, "target": tokens})


def media_input(name: str, batch: Batch, labels: Mapping[str, Sequence[str]]) -> SessionInput:
    """A picture or a sound; its tokens are shown by their labels, and a label in brackets is a special token."""
    streams = {
        stream: [
            Token(label, label, index, None if label.startswith("[") else 0, label.startswith("["))
            for index, label in enumerate(names)
        ]
        for stream, names in labels.items()
    }
    return SessionInput((name,), batch, streams)


def with_text(media: SessionInput, text: SessionInput) -> SessionInput:
    """Join a picture or a sound with a text."""
    batch = replace(media.batch, input_ids=text.batch.input_ids)
    return SessionInput(media.texts + text.texts, batch, {**text.streams, **media.streams})


def with_fields(inputs: SessionInput, extra: Mapping[str, Tensor], network: Network) -> SessionInput:
    """Add batch fields that come from no file or text, such as bounding boxes or regions of a picture.

    Raises: DataError: there is no such field.
    """
    names = [field.name for field in fields(Batch)]
    for name in extra:
        if name not in names:
            raise DataError(f"inspect takes no {safe_repr(name)}{nearest(name, names)}; a batch has {', '.join(names)}")
    batch = replace(inputs.batch, **dict(extra))
    media = media_input("", batch, network.token_labels(batch))
    return SessionInput(inputs.texts, batch, {**inputs.streams, **media.streams})


def tokens_of(tokenizer: Tokenizer, encoding: Encoding, texts: Sequence[str]) -> list[Token]:
    """Tokens of an encoding's first row, aligned with the characters of `texts`."""
    columns: Any = (
        encoding.rows[0].ids,
        encoding.tokens(),
        encoding.offsets(),
        encoding.word_ids(),
        encoding.sequence_ids(),
    )
    tokens: list[Token] = []
    previous: tuple[int, int] | None = None
    for token, piece, (start, end), word, sequence in zip(*columns, strict=True):
        if sequence is None:
            tokens.append(special_token(tokenizer, token))
        else:
            text = texts[sequence][start:end]
            continues = word is not None and previous == (sequence, word)
            special = token in tokenizer.special_ids
            tokens.append(Token(_readable(text) or piece, piece, token, sequence, special, continues))
        previous = None if sequence is None or word is None else (sequence, word)
    return tokens


def _generated_tokens(tokenizer: Tokenizer, ids: list[int]) -> list[Token]:
    """Tokens that the model generated; each is decoded alone, since there is no text to align them with."""
    tokens = []
    for token in ids:
        if token in tokenizer.special_ids:
            tokens.append(special_token(tokenizer, token))
        else:
            piece = vocabulary_entry(tokenizer, token)
            tokens.append(Token(_readable(tokenizer.decode([token])) or piece, piece, token, 0))
    return tokens


def _readable(text: str) -> str:
    """The text without space around it; white space alone is made visible."""
    return text.strip() or text.translate(VISIBLE_SPACE)


def special_token(tokenizer: Tokenizer, token: int) -> Token:
    """A special token, shown by its name."""
    piece = vocabulary_entry(tokenizer, token)
    return Token(piece, piece, token, special=True)


def vocabulary_entry(tokenizer: Tokenizer, token: int) -> str:
    """The vocabulary entry of a token, or its number: an embedding may have more rows than the vocabulary entries."""
    piece: str | None = tokenizer.engine.id_to_token(token)
    return f"[{token}]" if piece is None else piece


def _check_texts(texts: Sequence[str]) -> tuple[str, str | None]:
    if isinstance(texts, str) or len(texts) not in (1, 2) or not all(isinstance(t, str) for t in texts):
        raise DataError(f"the texts are {safe_repr(texts)}; give one text or two")
    for text in texts:
        if len(text) > MAX_CHARACTERS:
            raise DataError(
                f"the text has {len(text):,} characters, more than any model here reads at once "
                f"({MAX_CHARACTERS:,}); give a part of it"
            )
    return texts[0], texts[1] if len(texts) == 2 else None


def check_length(tokens: int, stream: str, limit: int | None) -> None:
    """Raises: DataError: a stream is longer than the model can read."""
    if limit is not None and tokens > limit:
        raise DataError(
            f"the {stream} has {tokens:,} tokens and the model reads at most {limit:,}; shorten the {stream}"
        )
