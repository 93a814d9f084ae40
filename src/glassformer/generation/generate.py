"""Text generation: prompts to token ids (or audio features), and generated ids back to text."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.generation.arguments import GenerateArguments, feed, placeholders, stand_in
from glassformer.generation.decoding import Decoding, Generated, Interrupted, StoppingCriteria
from glassformer.generation.defaults import GenerationDefaults
from glassformer.generation.detokenizer import IncrementalDetokenizer
from glassformer.generation.filters import Filter
from glassformer.generation.generator import Generator
from glassformer.generation.options import CONSTRAINTS, GenerationOptions
from glassformer.generation.rows import Rows
from glassformer.loaded_model import LoadedModel
from glassformer.models import Network, eval_mode
from glassformer.text.chat import is_chat

WRITING_TASKS = ("translation", "text-generation", "automatic-speech-recognition")
"""Tasks for which a network has a language-model head that continues or answers."""


def generation_defaults(model: LoadedModel) -> GenerationDefaults:
    """The defaults in generation_config.json and config.json, and those of the model's class."""
    generation = {**model.GENERATION_CONFIG, **model.generation_config}
    return GenerationDefaults(generation, model.config, model.network.target_vocabulary)


def resolve_options(model: LoadedModel, options: Mapping[str, Any]) -> GenerationOptions:
    """A caller's options completed with the model's defaults. Raises: ConfigError: unknown or out of range."""
    return GenerationOptions.resolve(options, generation_defaults(model))


def generate(model: LoadedModel, prompt: Any, attention_mask: Tensor | None, given: Mapping[str, Any]) -> Any:
    """Generate from texts, conversations, sounds or ids; `Model.generate` documents it."""
    call = GenerateArguments.read(prompt, attention_mask, given, lambda: generation_defaults(model))
    resolved = resolve_options(model, call.options)
    call.check(resolved)
    prompts = None if call.prompt is None else prompts_for(model, call.prompt)
    if prompts is not None and not prompts:
        return []
    advice = "shorten them, or give fewer at once; truncation=True with max_length=… shortens a prompt"
    with _evaluating(model, resolved), _within_memory("these prompts", advice):
        generated, rows = _run(model, call, prompts, resolved)
    if call.recorder is not None:
        return call.recorder.output(generated, rows)
    if resolved.return_scores or resolved.top:
        return generated
    if generated.texts is None:
        return generated.ids
    return generated.texts[0] if _is_one(call.prompt) and len(generated.texts) == 1 else generated.texts


@contextmanager
def _within_memory(what: str, instead: str) -> Iterator[None]:
    """Say what to do where memory does not suffice.

    Raises: DataError: this machine, or its accelerator, has too little for it.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch's is a RuntimeError, on the CPU without a class of its own
        known = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
        if not known and "can't allocate memory" not in str(error):
            raise
        raise DataError(f"there is not enough memory for {what}; {instead}") from error


def _run(
    model: LoadedModel, call: GenerateArguments, prompts: list[Any] | None, resolved: GenerationOptions
) -> tuple[Generated, Rows]:
    """Encode the prompts, generate, and decode the texts; a streamer learns of the end whatever happens."""
    try:
        generator = make_generator(model, resolved)
        if (given := stand_in(model, call)) is not None:
            inputs, mask = placeholders(given, call.prompt), call.attention_mask
        else:
            inputs, mask = encode_prompts(model, prompts or call.prompt, call.attention_mask, call.sample_rate_hz)
        tape = None if call.recorder is None else call.recorder.tape(model.network)
        prepared = generator.prepare(inputs, mask, resolved, call.decoder_input_ids, given=given, tape=tape)
        if call.recorder is not None:
            prepared = replace(prepared, filters=call.recorder.around(prepared.filters))
            prepared.rows.retires = False
        begun = prepared.rows.ids[:, int((prepared.rows.ids < 0).sum()) :]  # vectors have no ids to show
        on_step = None if call.streamer is None else feed(call.streamer, begun)
        generated = generator.run(prepared, resolved, on_step)
    except Interrupted as interrupt:
        if prompts is not None:
            interrupt.partial.texts = decode_texts(model, interrupt.partial, resolved)
        raise
    finally:
        if call.streamer is not None:
            call.streamer.end()
    _warn_of_cut(resolved, generated.reasons)
    if prompts is not None:
        generated.texts = decode_texts(model, generated, resolved)
    if call.prompt is None and not model.is_encoder_decoder:  # the ids of the prompt are unknown
        generated.ids, generated.prompt_length = generated.new_ids, 0
    return generated, prepared.rows


def stream(model: LoadedModel, prompt: Any, attention_mask: Tensor | None, given: Mapping[str, Any]) -> Iterator[Any]:
    """Generate one token at a time, as pieces of text or as ids; `Model.stream` documents it."""
    call = GenerateArguments.read(prompt, attention_mask, given, lambda: generation_defaults(model))
    resolved = resolve_options(model, call.options)
    call.check_stream(resolved)
    if not _is_one(call.prompt) and not isinstance(call.prompt, Tensor):
        raise DataError(
            f"the prompt is {safe_repr(call.prompt)}; stream(…) takes one text or conversation, or token ids [B, T]"
        )
    prompts = prompts_for(model, call.prompt)
    if prompts is not None and resolved.num_return_sequences > 1:
        raise ConfigError("stream(…) continues one text once; leave num_return_sequences out")
    inputs, mask = encode_prompts(model, prompts or call.prompt, call.attention_mask, call.sample_rate_hz)
    with _evaluating(model, resolved):
        generator = make_generator(model, resolved)
        prepared = generator.prepare(inputs, mask, resolved, call.decoder_input_ids)
    tokens = _tokens(model, resolved, generator.decode(prepared, resolved))
    if prompts is None:
        return tokens
    before = [] if _stands_alone(model, resolved) else inputs[0].tolist()
    pieces = IncrementalDetokenizer(model.tokenizer.target, before).stream(int(token) for token in tokens)
    return _strip_pieces(pieces) if model.family.modality else pieces


def _tokens(model: LoadedModel, options: GenerationOptions, decoding: Decoding) -> Iterator[Tensor]:
    """The tokens of each step. [R] each"""
    steps = iter(decoding)
    while True:
        with _evaluating(model, options):  # not while the consumer has the network
            step = next(steps, None)
        if step is None:
            return _warn_of_cut(options, decoding.stop.reasons())
        yield step.tokens.clone()


@contextmanager
def _evaluating(model: LoadedModel, options: GenerationOptions) -> Iterator[None]:
    """Evaluation mode, without dropout, for the model and its draft model."""
    networks = [each.network for each in (model, options.assistant_model) if each is not None]
    with ExitStack() as stack:
        for network in networks:
            if network.training:
                stack.enter_context(eval_mode(network))
        yield


def _warn_of_cut(options: GenerationOptions, reasons: Sequence[str]) -> None:
    """Warn where constrained decoding ended before the text matched."""
    cut = sum(reason != "end_token" for reason in reasons)
    if options.is_constrained and cut:
        warnings.warn(
            f"{cut} of {len(reasons)} texts ended before their end token, by {', '.join(sorted({*reasons}))}: they may "
            "be only the beginning of a match; raise max_new_tokens",
            stacklevel=4,
        )


def prompts_for(model: LoadedModel, prompt: Any) -> list[Any] | None:
    """Texts, conversations or sounds as a list; None for token ids and features."""
    if isinstance(prompt, Tensor) and not (model.family.modality and prompt.dim() == 1):
        return None
    if model.family.modality and (hasattr(prompt, "__fspath__") or hasattr(prompt, "ndim")):
        return [prompt]
    if hasattr(prompt, "ndim"):
        raise DataError(
            f"the prompt is an array {safe_repr(prompt)}; token ids are a tensor, torch.tensor(ids) [B, T], and texts "
            "a list"
        )
    if isinstance(prompt, str) or is_chat(prompt):
        return [prompt]
    if isinstance(prompt, (bytes, Mapping)) or not isinstance(prompt, Iterable):
        raise DataError(
            f"the prompt is {safe_repr(prompt)}; it must be a text or a conversation, several of them, or a tensor of "
            "token ids [B, T]"
        )
    return list(prompt)  # the tokenizer checks each of them


def _is_one(prompt: Any) -> bool:
    """Whether it is one text, conversation or sound."""
    single_sound = hasattr(prompt, "__fspath__") or getattr(prompt, "ndim", 0) == 1
    return isinstance(prompt, str) or is_chat(prompt) or single_sound


def _stands_alone(model: LoadedModel, options: GenerationOptions) -> bool:
    """Whether the new text is one of its own: an answer, or one that matches a constraint from its first character."""
    return model.is_encoder_decoder or any(getattr(options, name) is not None for name in CONSTRAINTS)


def _strip_pieces(pieces: Iterator[str]) -> Iterator[str]:
    """Pieces of text without the white space at the beginning and the end of all of them together."""
    held: str | None = None  # white space that goes out with the next word; None: before the first one
    for piece in pieces:
        text = piece.lstrip() if held is None else held + piece
        if text.strip():
            yield text.rstrip()
            held = text[len(text.rstrip()) :]
        elif held is not None:
            held = text


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


def greedy_ids(model: LoadedModel, inputs: Tensor, max_new_tokens: int) -> Tensor:
    """The ids that greedy decoding gives, with the prompt or the start token. [B, T]"""
    options = resolve_options(model, {"max_new_tokens": max_new_tokens, "use_cache": True})
    return make_generator(model, options).generate(inputs, None, options).ids


def target_prefix(model: LoadedModel, inputs: Tensor) -> list[int]:
    """The ids with which every target of an encoder-decoder begins: the start token, and forced tokens."""
    forced = max(generation_defaults(model).forced_tokens, default=0)
    # One token more than is used, because some folders also force the last token.
    prefix: list[int] = greedy_ids(model, inputs, forced + 1)[0, : forced + 1].tolist()
    return prefix


def encode_prompts(
    model: LoadedModel, prompt: Sequence[Any] | Tensor, mask: Tensor | None, sample_rate_hz: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """Encode prompts as ids [B, T], or sounds as features [B, M, frames]; with the attention mask.

    Args:
        sample_rate_hz: of sounds that are arrays
    """
    if sample_rate_hz is not None and (isinstance(prompt, Tensor) or not model.family.modality):
        raise ConfigError("sample_rate_hz is that of sounds that are arrays, and the prompt is none; leave it out")
    if isinstance(prompt, Tensor):
        return prompt, mask
    if mask is not None:
        raise ConfigError("attention_mask says which ids are padding, and the prompt is text; leave it out")
    if model.family.modality:
        if not model.is_encoder_decoder:
            raise _no_text(model)
        processor: Any = model.processor
        features: Tensor = processor(prompt, sample_rate_hz)["input_features"]
        return features.to(model.device), None
    several = len(prompt) > 1  # one text needs no padding, for which not every tokenizer has a token
    chat = not isinstance(prompt[0], str) and is_chat(prompt[0])  # its template adds the special tokens itself
    encoded = model.tokenizer(
        [model.tokenizer.chat_prompt(conversation) for conversation in prompt] if chat else prompt,
        add_special_tokens=not chat,
        padding=several,
        padding_side="left",
        return_tensors="pt",
    )
    mask = encoded["attention_mask"].to(model.device) if several else None
    return encoded["input_ids"].to(model.device), mask


def decode_texts(model: LoadedModel, generated: Generated, options: GenerationOptions) -> list[str]:
    """The new ids of each row as text, without special tokens."""
    end, tokenizer = generated.prompt_length, model.tokenizer.target
    begin = end if _stands_alone(model, options) else 0
    texts = [tokenizer.decode_continuation(row[begin:end], row[end:]) for row in generated.ids.tolist()]
    # A transcript begins with the space of its first word.
    return [text.strip() for text in texts] if model.family.modality else texts


def make_generator(model: LoadedModel, options: GenerationOptions) -> Generator:
    """The generator of a model, with the draft model of the options.

    Raises: UnsupportedError: the model, or the draft model, has no language-model head.
    """
    answers = model.is_encoder_decoder
    if not answers and model.task != "text-generation":
        able = [task for task in WRITING_TASKS if task in model.family.tasks and task != model.task]
        if model.family.modality and not able:
            raise _no_text(model)
        required = dict(model.family.requires.get("text-generation", {}))
        raise UnsupportedError(
            f"generate needs a language-model head; this model was loaded for {model.task!r}; "
            + (
                "take a decoder, such as openai-community/gpt2; or, if this checkpoint was trained to write, load it "
                f"with task={able[0]!r}, overrides={required}"
                if able and required
                else f"load it with task={able[0]!r}, if its checkpoint has that head"
                if able
                else f"no {model.family.model_type!r} model has one"
            )
        )
    draft: LoadedModel | None = options.assistant_model
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


def _no_text(model: LoadedModel) -> UnsupportedError:
    return UnsupportedError(
        f"a {model.family.model_type!r} model loaded for {model.task!r} generates no text about a "
        f"{model.family.modality}; call it, model(**model.processor(file)), or give token ids"
    )


def _check_draft(model: LoadedModel, draft: LoadedModel) -> None:
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
