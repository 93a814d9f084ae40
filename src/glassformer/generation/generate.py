"""Text generation: prompts to token ids (or audio features), and generated ids back to text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.edge import prompts_of
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.generation.decoding import Decoding, Generated, Interrupted, StoppingCriteria
from glassformer.generation.detokenizer import IncrementalDetokenizer
from glassformer.generation.filters import Filter, allow_only, suppress
from glassformer.generation.generator import Generator
from glassformer.generation.options import GenerationOptions
from glassformer.generation.rows import Rows
from glassformer.models import Network
from glassformer.pretrained import PretrainedModel
from glassformer.text.chat import as_prompt, is_chat


class GenerationDefaults:
    """Keys of `generation_config.json`, or of `config.json`, which older folders have instead.

    Args:
        generation, config: contents of the two files; either may be empty.
        vocabulary: vocabulary size; an id outside it (-1 is usual) means none.
    Raises: ConfigError: on access, when a value is not a token id.
    """

    def __init__(self, generation: Mapping[str, Any], config: Mapping[str, Any], vocabulary: int) -> None:
        self._generation = generation
        self._config = config
        self.vocabulary = vocabulary

    @property
    def start_id(self) -> int:
        """Decoder start token of an encoder-decoder.

        Raises: ConfigError: the files name none.
        """
        start = self.token_ids("decoder_start_token_id") or self.token_ids("bos_token_id")
        if not start:
            raise ConfigError("config.json has no decoder_start_token_id; an encoder-decoder needs one to generate")
        return start[0]

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """End-of-sequence tokens."""
        return self.token_ids("eos_token_id")

    @property
    def context(self) -> int | None:
        """Context length in tokens, where config.json names it; models without a position table can read more."""
        length = self._config.get("max_position_embeddings")
        return length if isinstance(length, int) and length > 0 else None

    @property
    def pad_id(self) -> int:
        """Padding token, which fills a row after its end."""
        return next(iter(self.token_ids("pad_token_id") + self.stop_ids), 0)

    @property
    def forced_tokens(self) -> dict[int, tuple[int, ...]]:
        """Forced decoder tokens: position in the answer, from 1 → token ids of which one must stand there.

        A null token id allows any language token (language detection). Where timestamps are off, the no-timestamps
        token follows. A multilingual model (Whisper) transcribes, unless its files say otherwise.
        """
        pairs, tasks = self.get("forced_decoder_ids"), self.get("task_to_id")
        if pairs is None and isinstance(tasks, dict) and self.get("lang_to_id"):
            pairs = [[1, None], [2, tasks.get("transcribe")]]
        elif pairs is None:
            pairs = [[1, token] for token in self.token_ids("forced_bos_token_id")[:1]]
        invalid = ConfigError(
            f"forced_decoder_ids is {safe_repr(pairs)}; it must be a list of [position, token id], "
            "positions from 1 up; "
            "a token id may be null: the model detects the language"
        )
        try:
            token_at = {int(position): token for position, token in pairs}
        except (TypeError, ValueError):
            raise invalid from None
        if sorted(token_at) != list(range(1, len(token_at) + 1)):
            raise invalid
        languages = self.get("lang_to_id")
        any_language = tuple(languages.values()) if isinstance(languages, dict) else ()
        forced = {
            position: any_language if token_at[position] is None else (token_at[position],)
            for position in sorted(token_at)
        }
        no_timestamps = self.token_ids("no_timestamps_token_id")[:1]
        if no_timestamps and no_timestamps not in forced.values():
            forced[len(forced) + 1] = no_timestamps
        if not all(isinstance(n, int) and 0 <= n < self.vocabulary for ids in forced.values() for n in ids):
            raise invalid
        return {position: ids for position, ids in forced.items() if ids}

    def with_forced_bos(self, token: int) -> GenerationDefaults:
        """A copy that forces another first token of every answer."""
        return GenerationDefaults(
            {**self._generation, "forced_decoder_ids": [[1, token]]}, self._config, self.vocabulary
        )

    def filters(self) -> list[Filter]:
        """Logit filters for suppressed tokens, tokens suppressed at the beginning, and forced tokens."""
        forced = self.forced_tokens
        always, at_begin = self.token_ids("suppress_tokens"), self.token_ids("begin_suppress_tokens")
        filters = [suppress(always)] if always else []
        # The beginning is the first token that is not forced.
        filters += [suppress(at_begin, at=1 + max(forced, default=0))] if at_begin else []
        return filters + [allow_only(ids, at=position) for position, ids in forced.items()]

    def get(self, key: str) -> Any:
        """A value of generation_config.json, else of config.json."""
        value = self._generation.get(key)
        return self._config.get(key) if value is None else value

    def token_ids(self, key: str) -> tuple[int, ...]:
        """A value that is one token id or a list of them, without ids outside the vocabulary."""
        value = self.get(key)
        ids = [] if value is None else value if isinstance(value, list) else [value]
        if not all(isinstance(number, int) and not isinstance(number, bool) for number in ids):
            raise ConfigError(
                f"config.json: {key} is {safe_repr(value)}; it must be a token id, a list of them, or null"
            )
        return tuple(number for number in ids if 0 <= number < self.vocabulary)


def generation_defaults(model: PretrainedModel) -> GenerationDefaults:
    """The defaults in generation_config.json and config.json."""
    return GenerationDefaults(model.generation_config, model.config, model.network.target_vocabulary)


def resolve_options(model: PretrainedModel, options: Mapping[str, Any]) -> GenerationOptions:
    """A caller's options completed with the model's defaults. Raises: ConfigError: unknown or out of range."""
    return GenerationOptions.resolve(options, generation_defaults(model))


def generate(model: PretrainedModel, prompt: Any, attention_mask: Tensor | None, options: Mapping[str, Any]) -> Any:
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
    model: PretrainedModel, prompt: Any, attention_mask: Tensor | None, options: Mapping[str, Any]
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
    return IncrementalDetokenizer(model.tokenizer.target).stream(int(token) for token in tokens)


def greedy_search(
    network: Network,
    ids: Tensor,
    *,
    keep: Tensor | None = None,
    encoder_batch: Batch | None = None,
    encoder_keep: Tensor | None = None,
    max_new_tokens: int = 20,
    stop_ids: tuple[int, ...] = (),
    pad_id: int = 0,
    cached: bool = True,
    filters: Sequence[Filter] = (),
) -> Tensor:
    """Greedy search on a bare network: append the most likely token to each row until all rows have stopped.

        ids ──> logits of the last position ──> argmax ──> ids + 1 token ──> …

    Args:
        ids, keep, encoder_batch, encoder_keep, cached: as in `Rows`. [B, T]
        stop_ids: stop tokens; after one of them a row is filled with `pad_id`.
        filters: logit filters, applied before the most likely token is taken.
    Returns: prompts and their continuations. [B, T + new], new ≤ max_new_tokens
    """
    rows = Rows(network, ids, keep=keep, encoder_batch=encoder_batch, encoder_keep=encoder_keep, cached=cached)
    stop = StoppingCriteria(len(rows), ids=stop_ids, device=ids.device)
    return Decoding(rows, max_new_tokens=max_new_tokens, stop=stop, pad_id=pad_id, filters=filters).run().ids


def greedy_ids(model: PretrainedModel, inputs: Tensor, max_new_tokens: int) -> Tensor:
    """The ids that greedy decoding gives, with the prompt or the start token. [B, T]"""
    options = resolve_options(model, {"max_new_tokens": max_new_tokens, "use_cache": True})
    return make_generator(model, options).generate(inputs, None, options).ids


def target_prefix(model: PretrainedModel, inputs: Tensor) -> list[int]:
    """The ids with which every target of an encoder-decoder begins: the start token, and forced tokens."""
    forced = max(generation_defaults(model).forced_tokens, default=0)
    # One token more than is used, because some folders also force the last token.
    prefix: list[int] = greedy_ids(model, inputs, forced + 1)[0, : forced + 1].tolist()
    return prefix


def encode_prompts(
    model: PretrainedModel, prompt: Sequence[Any] | Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Encode prompts as ids [B, T], or sounds as features [B, M, frames]; with the attention mask."""
    if isinstance(prompt, Tensor):
        return prompt, mask
    if mask is not None:
        raise ConfigError("attention_mask says which ids are padding, and the prompt is text; leave it out")
    if model.family.modality:
        if not model.is_encoder_decoder:
            raise UnsupportedError(
                f"a {model.family.model_type!r} model loaded for {model.task!r} generates no text about a "
                f"{model.family.modality}; call it, model(**model.processor(file)), or give token ids"
            )
        features: Tensor = model.processor(prompt)["input_features"]
        return features.to(model.device), None
    several = len(prompt) > 1  # one text needs no padding, for which not every tokenizer has a token
    chat = not isinstance(prompt[0], str) and is_chat(prompt[0])  # its template adds the special tokens itself
    encoded = model.tokenizer(
        [as_prompt(model.tokenizer, conversation) for conversation in prompt] if chat else prompt,
        add_special_tokens=not chat,
        padding=several,
        padding_side="left",
        return_tensors="pt",
    )
    mask = encoded["attention_mask"].to(model.device) if several else None
    return encoded["input_ids"].to(model.device), mask


def decode_texts(model: PretrainedModel, generated: Generated) -> list[str]:
    """The new ids of each row as text, without special tokens."""
    texts = [model.tokenizer.target.decode(row, skip_special_tokens=True) for row in generated.new_ids.tolist()]
    # A transcript begins with the space of its first word.
    return [text.strip() for text in texts] if model.family.modality else texts


def make_generator(model: PretrainedModel, options: GenerationOptions) -> Generator:
    """The generator of a model, with the draft model of the options.

    Raises: UnsupportedError: the model, or the draft model, has no language-model head.
    """
    answers = model.is_encoder_decoder
    if not answers and model.task != "text-generation":
        able = "text-generation" in model.family.tasks
        required = dict(model.family.requires.get("text-generation", {}))
        raise UnsupportedError(
            f"generate needs a language-model head; this model was loaded for {model.task!r}; "
            + (
                "load it with task='text-generation'" + (f", overrides={required}" if required else "")
                if able
                else f"no {model.family.model_type!r} model has one"
            )
        )
    draft: PretrainedModel | None = options.assistant_model
    if draft is not None:
        _check_draft(model, draft)
    return Generator(
        model.network,
        generation_defaults(model),
        answers,
        lambda: model.tokenizer.target,
        lambda: model.tokenizer.target.special_ids if model.has_tokenizer else frozenset(),
        None if draft is None else make_generator(draft, GenerationOptions()),
    )


def _check_draft(model: PretrainedModel, draft: PretrainedModel) -> None:
    """Raises: ConfigError: another vocabulary, or device. UnsupportedError: only one is an encoder-decoder."""
    if model.has_tokenizer and draft.has_tokenizer:
        ours, theirs = (tokenizer.engine.get_vocab() for tokenizer in (model.tokenizer, draft.tokenizer))
        if ours != theirs:
            word = next(word for word in (*ours, *theirs) if ours.get(word) != theirs.get(word))
            here, there = (f"token {words[word]}" if word in words else "none" for words in (ours, theirs))
            raise ConfigError(
                f"the assistant_model has another vocabulary: {safe_repr(word)} is {there} there, {here} here; take a "
                "smaller model of the same vocabulary"
            )
    for side in ("vocabulary", "target_vocabulary"):
        size, drafted = getattr(model.network, side), getattr(draft.network, side)
        if size != drafted:
            raise ConfigError(
                f"the assistant_model has a vocabulary of {drafted} tokens, the model one of {size}; take a smaller "
                "model of the same vocabulary"
            )
    if model.device != draft.device:
        raise ConfigError(
            f"the assistant_model is on {draft.device}, the model on {model.device}; move it: "
            f"model.to('{model.device}')"
        )
    if model.is_encoder_decoder != draft.is_encoder_decoder:
        kinds = {True: "answers what it reads (an encoder-decoder)", False: "continues it"}
        raise UnsupportedError(
            f"the model {kinds[model.is_encoder_decoder]}, the assistant_model {kinds[draft.is_encoder_decoder]}; "
            "take a smaller model of the same kind"
        )
