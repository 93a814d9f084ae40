"""Session inputs: texts, pictures and sounds as one batch row, with the tokens of each stream for display."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.errors import DataError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.generation.generate import greedy_ids, target_prefix
from glassformer.inspect.outputs import OutputNames
from glassformer.inspect.tokens import Token, generated_tokens, special_token, tokens_of
from glassformer.loaded_model import LoadedModel
from glassformer.models import Network
from glassformer.text.encoding import Encoding
from glassformer.text.tokenizer import Tokenizer

MAX_CHARACTERS = 1_000_000
"""Longer than the context of every supported model; a longer text is refused before it is tokenized."""

ANSWER_TOKENS = 40
"""Length of an encoder-decoder's answer that is inspected when no target is given."""


@dataclass(frozen=True, slots=True)
class SessionInput:
    """Input of a session: a batch of one row without padding, and its tokens by stream.

    streams: `text`, `image` or `sound`; of an encoder-decoder `source` and `target`
    names: of the head's outputs
    """

    texts: tuple[str, ...]
    batch: Batch
    streams: dict[str, list[Token]]
    names: Callable[[], OutputNames] = OutputNames


def open_inputs(
    model: LoadedModel,
    texts: Sequence[str],
    fields: Mapping[str, Tensor],
    *,
    truncation: bool = False,
    codec: Any = None,
) -> SessionInput:
    """Texts, or a file and texts, as one row without padding.

    Args:
        fields: inputs besides texts and files, such as `bbox`
        truncation: cut texts that are too long
        codec: the audio codec (a model) that makes what a model over codes reads
    Raises: DataError: empty, too long, or not what the model reads. UnsupportedError: it lacks its head.
    """
    limit = model.network.max_tokens
    if model.network.sizes.codebooks:
        from glassformer.inspect.codes_input import codes_input  # which imports this module

        return codes_input(model.network, texts, codec.network)
    if model.family.modality:
        opened = _open_media(model, texts, truncation)
    elif model.is_encoder_decoder:
        opened = translation_input(
            model.tokenizer,
            texts,
            decoder_prefix=lambda ids: target_prefix(model, ids.to(model.device)),
            limit=limit,
            generate=lambda ids: greedy_ids(model, ids.to(model.device), _answer_tokens(limit)),
            truncation=truncation,
        )
    else:
        types = kinds if isinstance(kinds := model.network.token_types, int) else 0
        opened = text_input(model.tokenizer, texts, token_types=types, limit=limit, truncation=truncation)
        opened = _source_read_again(opened, model)
    if fields:
        opened = with_fields(opened, fields, model.network)
    model.network.check_reads(opened.batch, model.family.model_type)
    return replace(opened, names=partial(OutputNames.of, model))


def _source_read_again(inputs: SessionInput, model: LoadedModel) -> SessionInput:
    """Source and target of a classifier whose decoder reads the source again, shifted by one (BART)."""
    batch = model.network.completed(inputs.batch)
    if batch.decoder_input_ids is None:
        return inputs
    source = inputs.streams["text"]
    start = special_token(model.tokenizer, int(batch.decoder_input_ids[0, 0]))
    return SessionInput(inputs.texts, batch, {"source": source, "target": [start, *source[:-1]]})


def open_prompt(model: LoadedModel, prompt: str, *, truncation: bool = False) -> SessionInput:
    """The prompt of a generation that is traced: a text, or the file of a sound."""
    limit, names = model.network.max_tokens, partial(OutputNames.of, model)
    if limit is not None and truncation and not model.is_encoder_decoder:
        limit = max(limit - ANSWER_TOKENS, limit // 2)  # room for what is generated
    if model.family.modality:
        return replace(_features_input(model, prompt, model.processor(prompt)), names=names)
    if model.is_encoder_decoder:
        return replace(source_input(model.tokenizer, prompt, limit=limit, truncation=truncation), names=names)
    return replace(
        text_input(model.tokenizer, [prompt], token_types=0, limit=limit, truncation=truncation), names=names
    )


def _features_input(model: LoadedModel, file: str, features: Mapping[str, Any]) -> SessionInput:
    """The features of a picture or a sound, as far as the network reads them."""
    read = {name: x.to(model.device) for name, x in features.items() if name in model.network.READS}
    batch = Batch(**read)
    return media_input(file, batch, model.network.token_labels(batch))


def _open_media(model: LoadedModel, texts: Sequence[str], truncation: bool) -> SessionInput:
    """A picture or a sound from its file, and the text that is read with it."""
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
            truncation=truncation,
        )
    if reads_text:
        return with_text(
            media, text_input(model.tokenizer, texts[1:], token_types=0, limit=limit, truncation=truncation)
        )
    return media


def _answer_tokens(limit: int | None) -> int:
    """How many tokens an answer may have: the start token takes a position too."""
    return ANSWER_TOKENS if limit is None else min(ANSWER_TOKENS, limit - 1)


def text_input(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    token_types: int,
    limit: int | None = None,
    truncation: bool = False,
) -> SessionInput:
    """One text, or a pair of texts in one row, for a network with one stack.

    Args:
        token_types: number of token types (segment embeddings) of the network, or 0.
        limit: maximum number of tokens
        truncation: cut what is beyond
    Raises: DataError: not one or two texts, no token in them, or too long.
    """
    first, second = _check_texts(texts)
    if second is not None and (0, 1) in pairwise(tokenizer(first, second).sequence_ids()):
        # The tokenizer puts nothing between the texts: a line break, so that two words do not become one.
        second = "\n" + second
    encoded = (first,) if second is None else (first, second)
    encoding = _encode(tokenizer, encoded, "text", limit, truncation)
    ids = encoding["input_ids"]
    if not ids:
        raise DataError("the text is empty, and the tokenizer adds nothing to it; give at least one word")
    types = encoding.get("token_type_ids") if token_types else None
    batch = Batch(input_ids=torch.tensor([ids]), token_type_ids=None if types is None else torch.tensor([types]))
    return SessionInput(tuple(texts), batch, {"text": tokens_of(tokenizer, encoding, encoded)})


def translation_input(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    decoder_prefix: Callable[[Tensor], Sequence[int]],
    limit: int | None,
    generate: Callable[[Tensor], Tensor],
    truncation: bool = False,
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
    inputs = source_input(tokenizer, source, limit=limit, truncation=truncation)
    ids = inputs.batch.input_ids
    assert ids is not None  # source_input sets them
    return with_target(
        inputs,
        tokenizer.target,
        target,
        decoder_prefix=lambda: decoder_prefix(ids),
        limit=limit,
        generate=lambda: generate(ids),
        truncation=truncation,
    )


def source_input(tokenizer: Tokenizer, source: str, *, limit: int | None, truncation: bool = False) -> SessionInput:
    """Encoder input of an encoder-decoder, without a target.

    Raises: DataError: as `text_input`.
    """
    source, _ = _check_texts((source,))
    encoding = _encode(tokenizer, (source,), "source", limit, truncation)
    ids = torch.tensor([encoding["input_ids"]])
    if not ids.numel():
        raise DataError("the source is empty, and the tokenizer adds nothing to it; give at least one word")
    return SessionInput((source,), Batch(input_ids=ids), {"source": tokens_of(tokenizer, encoding, (source,))})


def with_target(
    inputs: SessionInput,
    tokenizer: Tokenizer,
    target: str | None,
    *,
    decoder_prefix: Callable[[], Sequence[int]],
    limit: int | None,
    generate: Callable[[], Tensor],
    truncation: bool = False,
) -> SessionInput:
    """Add a target to an encoder input: the given one, or else the model's own answer, as far as it read it itself:
    without the end, which it wrote last.
    """
    if target is None:
        ids = generate()[0].tolist()
        if len(ids) > 1 and ids[-1] == tokenizer.eos_token_id:
            del ids[-1]
        tokens = generated_tokens(tokenizer, ids)
    else:
        prefix = decoder_prefix()
        room = None if limit is None else limit - len(prefix)
        encoding = _encode(tokenizer, (target,), "target", room, truncation, add_special_tokens=False)
        ids = [*prefix, *encoding["input_ids"]]
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


def _encode(
    tokenizer: Tokenizer, texts: Sequence[str], stream: str, limit: int | None, truncation: bool, **options: Any
) -> Encoding:
    """A text or a pair as one row of at most `limit` tokens.

    Raises: DataError: it is longer than the model can read, and shall not be cut.
    """
    encoding = tokenizer(*texts, **options)
    tokens = len(encoding["input_ids"])
    if limit is None or tokens <= limit:
        return encoding
    if not truncation:
        raise DataError(
            f"the {stream} has {tokens:,} tokens and the model reads at most {limit:,}; shorten the {stream}, or let "
            "truncation=True (--truncate) cut it"
        )
    warnings.warn(f"the {stream} has {tokens:,} tokens and is cut to {limit:,}", stacklevel=2)
    return tokenizer(*texts, truncation=True, max_length=limit, **options)
