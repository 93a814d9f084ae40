"""Text generation: prompts to token ids (or audio features), and generated ids back to text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from glassformer.edge import prompts_of
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.generation.decoding import Generated, Interrupted
from glassformer.generation.defaults import GenerationDefaults
from glassformer.generation.detokenizer import IncrementalDetokenizer
from glassformer.generation.generator import Generator
from glassformer.generation.options import GenerationOptions
from glassformer.models import Family, Network
from glassformer.text.chat import as_prompt, is_chat
from glassformer.text.tokenizer import Tokenizer

ANSWERING_TASKS = ("translation", "automatic-speech-recognition")


class GenerativeModel(Protocol):
    """What text generation needs of a `Model`."""

    network: Network
    family: Family
    task: str
    config: dict[str, Any]
    generation_config: dict[str, Any]

    @property
    def has_tokenizer(self) -> bool: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def processor(self) -> Any: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def vocabulary(self) -> int: ...


def is_encoder_decoder(model: GenerativeModel) -> bool:
    """Whether the model generates an answer to what it reads, instead of continuing it."""
    return model.task in ANSWERING_TASKS and "decoder_input_ids" in model.network.READS


def generates_text(model: GenerativeModel) -> bool:
    """Whether the model has a language-model head on text."""
    return is_encoder_decoder(model) or (model.task == "text-generation" and model.family.modality is None)


def generation_defaults(model: GenerativeModel) -> GenerationDefaults:
    """The defaults in generation_config.json and config.json."""
    return GenerationDefaults(model.generation_config, model.config, model.vocabulary)


def resolve_options(model: GenerativeModel, options: Mapping[str, Any]) -> GenerationOptions:
    """A caller's options completed with the model's defaults. Raises: ConfigError: unknown or out of range."""
    return GenerationOptions.resolve(options, generation_defaults(model))


def generate(
    model: GenerativeModel, prompt: Any, attention_mask: Tensor | None, options: Mapping[str, Any]
) -> Any:
    """Generate from texts, conversations, sounds or ids; `Model.generate` documents it."""
    resolved = resolve_options(model, options)
    texts = None if isinstance(prompt, Tensor) else prompts_of(prompt)
    if texts is not None and not texts:
        return []
    inputs, mask = encode_prompts(model, texts or prompt, attention_mask)
    try:
        generated = make_generator(model, resolved).generate(inputs, mask, resolved)
    except Interrupted as interrupt:
        if texts is not None:
            interrupt.partial.texts = decode_texts(model, interrupt.partial)
        raise
    if texts is not None:
        generated.texts = decode_texts(model, generated)
    if resolved.return_scores or resolved.top:
        return generated
    if generated.texts is None:
        return generated.ids
    single = isinstance(prompt, str) or is_chat(prompt)
    return generated.texts[0] if single and len(generated.texts) == 1 else generated.texts


def stream(
    model: GenerativeModel, prompt: Any, attention_mask: Tensor | None, options: Mapping[str, Any]
) -> Iterator[Any]:
    """Generate one token at a time, as pieces of text or as ids; `Model.stream` documents it."""
    resolved = resolve_options(model, options)
    if resolved.num_beams > 1 or resolved.return_scores or resolved.top:
        raise ConfigError(
            "stream(…) gives tokens as they are chosen, without scores and without beams; use generate(…)"
        )
    if not isinstance(prompt, (str, Tensor)) and not is_chat(prompt):
        raise DataError(
            f"the prompt is {safe_repr(prompt)}; stream(…) takes one text or conversation, or token ids [B, T]"
        )
    if not isinstance(prompt, Tensor) and resolved.num_return_sequences > 1:
        raise ConfigError("stream(…) continues one text once; leave num_return_sequences out")
    prompts = prompt if isinstance(prompt, Tensor) else prompts_of(prompt)
    inputs, mask = encode_prompts(model, prompts, attention_mask)
    tokens = (step.tokens for step in make_generator(model, resolved).decoding(inputs, mask, resolved))
    if isinstance(prompt, Tensor):
        return tokens
    return IncrementalDetokenizer(model.tokenizer).stream(int(token) for token in tokens)


def greedy_ids(model: GenerativeModel, inputs: Tensor, max_new_tokens: int) -> Tensor:
    """The ids that greedy decoding gives, with the prompt or the start token. [B, T]"""
    options = resolve_options(model, {"max_new_tokens": max_new_tokens, "use_cache": True})
    return make_generator(model, options).generate(inputs, None, options).ids


def target_prefix(model: GenerativeModel, inputs: Tensor) -> list[int]:
    """The ids with which every target of an encoder-decoder begins: the start token, and forced tokens."""
    forced = max(generation_defaults(model).forced_tokens, default=0)
    # One token more than is used, because some folders also force the last token.
    prefix: list[int] = greedy_ids(model, inputs, forced + 1)[0, : forced + 1].tolist()
    return prefix


def encode_prompts(
    model: GenerativeModel, prompt: Sequence[Any] | Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Encode prompts as ids [B, T], or sounds as features [B, M, frames]; with the attention mask."""
    if isinstance(prompt, Tensor):
        return prompt, mask
    if mask is not None:
        raise ConfigError("attention_mask says which ids are padding, and the prompt is text; leave it out")
    if model.family.modality:
        if not is_encoder_decoder(model):
            raise UnsupportedError(
                f"a {model.family.model_type!r} model loaded for {model.task!r} generates no text about a "
                f"{model.family.modality}; call it, model(**model.processor(file)), or give token ids"
            )
        features: Tensor = model.processor(prompt)["input_features"]
        return features.to(model.device), None
    several = len(prompt) > 1  # one text needs no padding, for which not every tokenizer has a token
    chat = is_chat(prompt[0])  # its template adds the special tokens itself
    encoded = model.tokenizer(
        [as_prompt(model.tokenizer, conversation) for conversation in prompt] if chat else prompt,
        add_special_tokens=not chat,
        padding=several,
        padding_side="left",
        return_tensors="pt",
    )
    return encoded["input_ids"].to(model.device), encoded["attention_mask"].to(model.device)


def decode_texts(model: GenerativeModel, generated: Generated) -> list[str]:
    """The new ids of each row as text, without special tokens."""
    texts = [model.tokenizer.decode(row, skip_special_tokens=True) for row in generated.new_ids.tolist()]
    # A transcript begins with the space of its first word.
    return [text.strip() for text in texts] if model.family.modality else texts


def make_generator(model: GenerativeModel, options: GenerationOptions) -> Generator:
    """The generator of a model, with the draft model of the options.

    Raises: UnsupportedError: the model, or the draft model, has no language-model head.
    """
    answers = is_encoder_decoder(model)
    if not answers and model.task != "text-generation":
        able = "text-generation" in model.family.tasks
        raise UnsupportedError(
            f"generate needs a language-model head; this model was loaded for {model.task!r}; "
            + (
                "load it with task='text-generation'"
                if able
                else f"no {model.family.model_type!r} model has one"
            )
        )
    draft: GenerativeModel | None = options.assistant_model
    if draft is not None:
        _check_vocabulary(model, draft)
    return Generator(
        model.network,
        generation_defaults(model),
        answers,
        lambda: model.tokenizer,
        model.tokenizer.special_ids if model.has_tokenizer else frozenset(),
        None if draft is None else make_generator(draft, GenerationOptions()),
    )


def _check_vocabulary(model: GenerativeModel, draft: GenerativeModel) -> None:
    """Raises: ConfigError: the tokenizers of model and draft model differ in a token."""
    if not model.has_tokenizer or not draft.has_tokenizer:
        return
    ours, theirs = (tokenizer.engine.get_vocab() for tokenizer in (model.tokenizer, draft.tokenizer))
    if ours != theirs:
        word = next(word for word in (*ours, *theirs) if ours.get(word) != theirs.get(word))
        here, there = (f"token {words[word]}" if word in words else "none" for words in (ours, theirs))
        raise ConfigError(
            f"the assistant_model has another vocabulary: {safe_repr(word)} is {there} there, {here} here; take a "
            "smaller model of the same vocabulary"
        )
