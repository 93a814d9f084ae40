"""Open what a model is to be inspected on: texts, pictures and sounds, as its network reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.edge import check_read
from glassformer.errors import DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.generation.generate import GenerativeModel, greedy_ids, is_encoder_decoder, target_prefix
from glassformer.inspect.inputs import (
    SessionInput,
    media_input,
    source_input,
    text_input,
    translation_input,
    with_fields,
    with_target,
    with_text,
)

ANSWER_TOKENS = 40
"""Length of an encoder-decoder's answer that is inspected when no target is given."""


def open_inputs(model: GenerativeModel, texts: Sequence[str], fields: Mapping[str, Tensor]) -> SessionInput:
    """Texts, or a file and texts, as one row without padding.

    Args: fields: what is read beside texts and files, such as `bbox`
    Raises: DataError: empty, too long, or not what the model reads. UnsupportedError: it lacks its head.
    """
    limit = model.network.max_tokens
    if model.family.modality:
        opened = _open_media(model, texts)
    elif is_encoder_decoder(model):
        opened = translation_input(
            model.tokenizer,
            texts,
            decoder_prefix=lambda ids: target_prefix(model, ids.to(model.device)),
            limit=limit,
            generate=lambda ids: greedy_ids(model, ids.to(model.device), _answer_tokens(limit)),
        )
    else:
        kinds = model.network.token_types
        opened = text_input(
            model.tokenizer, texts, token_types=kinds if isinstance(kinds, int) else 0, limit=limit
        )
    if fields:
        opened = with_fields(opened, fields, model.network)
    check_read(opened.batch, model.network.READS, model.family.model_type)
    return opened


def open_prompt(model: GenerativeModel, prompt: str) -> SessionInput:
    """The prompt of a generation that is traced: a text, or the file of a sound."""
    limit = model.network.max_tokens
    if model.family.modality:
        return _features_input(model, prompt, model.processor(prompt))
    if is_encoder_decoder(model):
        return source_input(model.tokenizer, prompt, limit=limit)
    return text_input(model.tokenizer, [prompt], token_types=0, limit=limit)


def _features_input(model: GenerativeModel, file: str, features: Mapping[str, Any]) -> SessionInput:
    """The features of a picture or a sound, as far as the network reads them."""
    read = {name: x.to(model.device) for name, x in features.items() if name in model.network.READS}
    batch = Batch(**read)
    return media_input(file, batch, model.network.token_labels(batch))


def _open_media(model: GenerativeModel, texts: Sequence[str]) -> SessionInput:
    """A picture or a sound from its file, and the text that is read beside it."""
    features = model.processor(texts[0]) if texts else {}
    features = {name: x.to(model.device) for name, x in features.items()}
    decodes = "decoder_input_ids" in model.network.READS
    if decodes and not is_encoder_decoder(model):
        raise UnsupportedError(
            "this model was loaded without its language-model head, so there is no answer to inspect; load it with "
            "task='automatic-speech-recognition'"
        )
    reads_text = "input_ids" in model.network.READS and "input_ids" not in features
    if not (len(texts) == 1 + reads_text or (decodes and len(texts) == 2)):
        allowed = f"the file of a {model.family.modality}" + " and a text" * reads_text
        raise DataError(
            f"this model is inspected on {allowed}{' (and a text)' * decodes}; got {safe_repr(texts)}"
        )
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
