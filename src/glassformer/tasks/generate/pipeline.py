"""Text generation pipelines: text-generation, text2text-generation, summarization, translation.

text-generation                               a decoder continues a text, or answers in a conversation
text2text-generation, summarization, translation     an encoder-decoder reads a text and answers it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import fields
from typing import Any, ClassVar

import torch

from glassformer.errors import ConfigError, DataError, UnknownOptionError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.generation.arguments import override
from glassformer.generation.options import INSTEAD, GenerationOptions
from glassformer.model import Model
from glassformer.tasks.generate.settings import (
    LENGTHS,
    check_prefix,
    completed,
    direction,
    limits,
    recommended,
    split_task,
)
from glassformer.tasks.pipelines import Pipeline
from glassformer.tasks.results import GeneratedText, Result, Results, Summary, Translation
from glassformer.text.chat import ends_with_assistant, is_chat

GENERATE = {field.name for field in fields(GenerationOptions)} - {"return_scores", "top"}


OF_TEMPLATES = ("continue_final_message", "template_variables")
RENDERING = frozenset(("tokenize", "add_generation_prompt", "continue_final_message", "continued"))
"""Options of how a conversation is rendered, which are no variables of its template."""


class Writing(Pipeline):
    """What tasks of writing have in common: recommended options, a prefix, and draws that repeat."""

    OWN: ClassVar[tuple[str, ...]] = ("prefix", "min_length")

    def check(self, options: Mapping[str, Any]) -> None:
        known = {*GENERATE, *self.OWN}
        for name in options:
            if name not in known:
                hint = f"; {INSTEAD[name]}" if name in INSTEAD else nearest(name, known)
                raise UnknownOptionError(f"the task {self.task!r} takes no {safe_repr(name)}{hint}")
        if options.get("prefix") is not None:
            check_prefix(options["prefix"])

    def merged(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in override(options, self.options).items() if value is not None}

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        settings = completed(self.model, self.task, options)
        if settings.get("do_sample") and settings.get("seed") is not None and (len(batch) > 1 or first):
            # A draw belongs to a text, not to its place in a batch, so text i has a seed of its own.
            seeds = range(settings["seed"] + first, settings["seed"] + first + len(batch))
            return [
                self.write([text], options, {**settings, "seed": seed})[0]
                for text, seed in zip(batch, seeds, strict=True)
            ]
        return self.write(batch, options, settings)

    def write(self, batch: list[Any], options: Mapping[str, Any], settings: dict[str, Any]) -> list[Any]:
        """The answers to a batch; `settings` are `options` with what is recommended."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it writes")

    def generate_options(
        self, settings: Mapping[str, Any], options: Mapping[str, Any], *, begun: int
    ) -> dict[str, Any]:
        """Generation options for a batch with prompts of this length."""
        most, least = limits(settings, options, begun=begun, room=self.model.network.max_tokens)
        known = {name: value for name, value in settings.items() if name in GENERATE and name not in LENGTHS}
        return {**known, "max_new_tokens": most, "min_new_tokens": least or None}


class Text2TextGeneration(Writing):
    """Read a text, and answer it."""

    HEAD = "translation"
    WHY = (
        "that takes an encoder which reads and a decoder which answers; a decoder alone continues texts: "
        "'text-generation', with a prompt that asks for the answer"
    )
    RESULT: ClassVar[type[Result]] = GeneratedText
    reader: Model | None = None  # reads the texts, where that is not the model as it is

    def write(self, batch: list[Any], options: Mapping[str, Any], settings: dict[str, Any]) -> list[Any]:
        prefix = settings.get("prefix", "")
        texts = [prefix + text for text in batch]
        generate_kwargs = self.generate_options(settings, options, begun=1)
        texts_written: list[str] = (self.reader or self.model).generate(texts, **generate_kwargs)
        each = len(texts_written) // len(batch)
        return [
            Results(self.RESULT(text) for text in texts_written[start : start + each])  # type: ignore[arg-type]
            for start in range(0, len(texts_written), each)
        ]


class Summarization(Text2TextGeneration):
    """Say what a text says, shorter."""

    RESULT = Summary


class TranslationPipeline(Text2TextGeneration):
    """Say what a text says, in another language.

    src_lang, tgt_lang: "en", "de_DE", …, where the model knows several
    """

    OWN = (*Writing.OWN, "src_lang", "tgt_lang")
    RESULT = Translation

    def __init__(
        self,
        model: Model,
        task: str,
        *,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        **options: Any,
    ) -> None:
        named = split_task(task)
        if task == "translation" and src_lang is not None and tgt_lang is not None:
            task = f"translation_{src_lang}_to_{tgt_lang}"  # what its config.json may know
        super().__init__(model, task, **options)
        source, target = named or (None, None)
        known = "prefix" in recommended(model, task) or "prefix" in options
        strict = not known and (src_lang is not None or tgt_lang is not None)
        self._direction = direction(model, src_lang or source, tgt_lang or target, strict=strict)
        if self._direction.source is not None:
            self.reader = copy(model)
            self.reader._tokenizer = model.tokenizer.in_language(self._direction.source)

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        if named := [name for name in ("src_lang", "tgt_lang") if name in options]:
            raise ConfigError(
                f"{named[0]} is set when the pipeline is made: pipeline('translation', model, src_lang=…, tgt_lang=…)"
            )

    def write(self, batch: list[Any], options: Mapping[str, Any], settings: dict[str, Any]) -> list[Any]:
        if self._direction.first is not None:
            settings.setdefault("forced_bos_token_id", self._direction.first)
        settings["prefix"] = settings.get("prefix", "") + self._direction.prefix
        return super().write(batch, options, settings)


class TextGeneration(Writing):
    """Continue a text, or answer in a conversation.

    return_full_text: with the prompt (the default), or the new part alone; of a conversation, with its messages or not
    continue_final_message: whether the answer continues the last message; None = where that is the assistant's
    template_variables: of the chat template: {"enable_thinking": False}, "tools", "documents", …
    from_start: whether an empty text is one that begins with the start token, or an error
    """

    HEAD = "text-generation"
    WHY = (
        "it does not continue a text; an encoder-decoder answers one: 'text2text-generation'; an encoder fills gaps: "
        "'fill-mask'"
    )
    OWN = (*Writing.OWN, "return_full_text", "continue_final_message", "template_variables")
    from_start = False

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        variables = options.get("template_variables") or {}
        if not isinstance(variables, Mapping) or not RENDERING.isdisjoint(variables):
            raise ConfigError(
                f"template_variables is {safe_repr(variables)}; it must map variables of the chat template to values, "
                f"and none is {', '.join(sorted(RENDERING))}"
            )

    def is_one(self, given: Any) -> bool:
        return isinstance(given, str) or is_chat(given)

    def check_input(self, given: Any) -> None:
        if not is_chat(given):
            super().check_input(given)

    def texts(self, texts: Any, **options: Any) -> list[str]:
        return super().texts(texts, **{"return_full_text": False, **options})

    def stream(self, text: Any, **options: Any) -> Iterator[str]:
        """The new part of one text, or the answer in one conversation, as it comes."""
        self.check(options)
        if given := [name for name in OF_TEMPLATES if name in {**self.options, **options}]:
            raise UnsupportedError(f"stream(…) takes no {given[0]}; the pipeline itself does")
        self.check_input(text)
        options = self.merged(options)
        settings = completed(self.model, self.task, options)
        ids = self._ids(text, settings)
        generate_kwargs = self.generate_options(settings, options, begun=len(ids))
        prompt = text if is_chat(text) else settings.get("prefix", "") + text
        pieces: Iterator[str] = self.model.stream(prompt, **generate_kwargs)
        return pieces

    def write(self, batch: list[Any], options: Mapping[str, Any], settings: dict[str, Any]) -> list[Any]:
        prompts = [self._ids(text, settings) for text in batch]
        generate_kwargs = [self.generate_options(settings, options, begun=len(ids)) for ids in prompts]
        if any(each != generate_kwargs[0] for each in generate_kwargs):
            # Lengths that count the prompt are those of its own row, whatever its neighbours are.
            return [self.write([text], options, settings)[0] for text in batch]
        answers = [is_chat(text) and not self._continues(text, settings) for text in batch]
        texts_written = self._continued(prompts, answers, generate_kwargs[0])
        whole = settings.get("return_full_text", True)
        return [
            Results(GeneratedText(_joined(text, new, answer) if whole else new) for new in continuations)
            for text, answer, continuations in zip(batch, answers, texts_written, strict=True)
        ]

    @staticmethod
    def _continues(chat: Any, settings: Mapping[str, Any]) -> bool:
        """Whether the answer in a conversation continues its last message."""
        continued = settings.get("continue_final_message")
        return ends_with_assistant(chat) if continued is None else bool(continued)

    def _ids(self, text: Any, settings: Mapping[str, Any]) -> list[int]:
        tokenizer = self.model.tokenizer
        if is_chat(text):
            prompt = tokenizer.chat_prompt(
                text, continued=self._continues(text, settings), **settings.get("template_variables") or {}
            )
            return list(tokenizer.encode(prompt, add_special_tokens=False))
        ids = list(tokenizer.encode(settings.get("prefix", "") + text))
        return [tokenizer.bos_token_id] if not ids and self.from_start and tokenizer.bos_token_id is not None else ids

    def _continued(
        self, prompts: list[list[int]], answers: list[bool], generate_kwargs: Mapping[str, Any]
    ) -> list[list[str]]:
        """The new texts of each prompt: with the space before a first word, but for answers in conversations."""
        tokenizer = self.model.tokenizer
        width = max(map(len, prompts))
        if not min(map(len, prompts)):
            raise DataError("the text is empty, and nothing can be continued; give at least one word")
        ids = torch.tensor([[0] * (width - len(row)) + row for row in prompts])  # any id: the mask hides it
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts])
        # With its scores comes how long the prompts are, once they are truncated.
        known = {"return_scores": True} if generate_kwargs.get("truncation") else {}
        generated = self.model.generate(
            ids.to(self.model.device), attention_mask=mask.to(self.model.device), **generate_kwargs, **known
        )
        texts_written = (generated.new_ids if known else generated[:, width:]).tolist()
        each = len(texts_written) // len(prompts)
        continuations = []
        for number, prompt in enumerate(prompts):
            rows = texts_written[number * each : (number + 1) * each]
            begun = [] if answers[number] else prompt
            continuations.append([tokenizer.decode_continuation(begun, row) for row in rows])
        return continuations


def _joined(text: Any, new: str, answer: bool) -> Any:
    """The prompt and what continues it: a text, or the messages with one more, or with more of the last."""
    if isinstance(text, str):
        return text + new
    messages = [dict(message) for message in text]
    if answer:
        return [*messages, {"role": "assistant", "content": new}]
    *earlier, last = messages
    content = last["content"]
    more = content + new if isinstance(content, str) else [*content, {"type": "text", "text": new}]
    return [*earlier, {**last, "content": more}]
