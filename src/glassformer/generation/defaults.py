"""Generation defaults of a model: `generation_config.json`, and what options put in the place of its settings."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from glassformer.audio.languages import CODES
from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.files.schema import check
from glassformer.generation.filters import Filter, allow_only, suppress

if TYPE_CHECKING:
    from glassformer.generation.options import GenerationOptions

OF_THE_MODEL = (
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
    *("forced_bos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens"),
    *("language", "task"),
)
"""Options that replace the model's own settings."""


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
            raise ConfigError(
                "config.json has no decoder_start_token_id; an encoder-decoder needs one to generate: load it with "
                "overrides={'decoder_start_token_id': …}, which is the padding token of T5, Marian and PEGASUS"
            )
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
        """Forced decoder tokens: position in the answer, from 1 → token ids of which one must be there.

        A null token id allows any language token (language detection). Where timestamps are off, the no-timestamps
        token follows. A multilingual model (Whisper) transcribes, unless its files say otherwise.
        """
        pairs, tasks = self.get("forced_decoder_ids"), self.get("task_to_id")
        if pairs is None and isinstance(tasks, dict) and self.get("lang_to_id"):
            pairs = [[1, None], [2, tasks.get("transcribe")]]
        elif pairs is None:
            pairs = [[1, token] for token in self.token_ids("forced_bos_token_id")[:1]]
        invalid = ConfigError(
            f"{self.file_of('forced_decoder_ids')}forced_decoder_ids is {safe_repr(pairs)}; it must be a list of "
            "[position, token id], positions from 1 up; a token id may be null: the model detects the language"
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

    def with_options(self, options: GenerationOptions) -> GenerationDefaults:
        """A copy in which the options that replace the model's own settings do so.

        Raises: ConfigError: a language or a task that the model does not know.
        """
        given = {name: getattr(options, name) for name in OF_THE_MODEL}
        given = {name: value for name, value in given.items() if value is not None}
        if (first := given.pop("forced_bos_token_id", None)) is not None:
            given["forced_decoder_ids"] = [[1, first]]
        language, task = given.pop("language", None), given.pop("task", None)
        if language is not None or task is not None:
            given["forced_decoder_ids"] = self._speech_prompt(language, task or "transcribe")
        return GenerationDefaults({**self._generation, **given}, self._config, self.vocabulary) if given else self

    def _speech_prompt(self, language: str | None, task: str) -> list[list[int | None]]:
        """The tokens of a language and a task, at their positions; language None = the model detects it."""
        languages, tasks = self.get("lang_to_id"), self.get("task_to_id")
        if not isinstance(languages, dict) or not isinstance(tasks, dict):
            raise ConfigError("language and task are options of speech models that know several; leave them out")
        codes = {str(code).strip("<|>"): token for code, token in languages.items()}
        code = None if language is None else language.lower().strip("<|>")
        code = CODES.get(code, code) if code is not None and code not in codes else code
        for name, value, allowed in (("language", code, codes), ("task", task, tasks)):
            if value is not None and value not in allowed:
                raise ConfigError(f"{name} is {safe_repr(value)}; this model knows {', '.join(sorted(allowed))}")
        return [[1, None if code is None else codes[code]], [2, tasks[task]]]

    def filters(self, prompt_length: int = 1, *, answers: bool = True) -> list[Filter]:
        """Logit filters for suppressed tokens, tokens suppressed at the beginning, and forced tokens.

        Args:
            prompt_length: number of tokens that rows begin with
            answers: whether a model answers, or continues
        """
        forced = self.forced_tokens if answers else {}
        always, at_begin = self.token_ids("suppress_tokens"), self.token_ids("begin_suppress_tokens")
        filters = [suppress(always)] if always else []
        # The beginning is the first token that is not forced.
        filters += [suppress(at_begin, at=max(prompt_length, 1 + max(forced, default=0)))] if at_begin else []
        return filters + [allow_only(ids, at=position) for position, ids in forced.items()]

    def get(self, key: str) -> Any:
        """A value of generation_config.json, else of config.json."""
        value = self._generation.get(key)
        return self._config.get(key) if value is None else value

    def warn_of_unread(self, options: Mapping[str, Any], read: set[str]) -> None:
        """Warn of values that a call does not read and that none could, such as a temperature "hot".

        Args:
            options: the type of each field of `GenerationOptions`
            read: those that the call reads, or gives
        """
        read = {*read, *OF_THE_MODEL, "min_new_tokens", "min_length"}
        if not read & {"max_new_tokens", "max_length"}:
            read |= {"max_new_tokens", "max_length"}
        for name, hint in options.items():
            value = self.get(name)
            off = value is None or (not value and not isinstance(value, (int, float)))  # such as an empty list
            if off or name in read:
                continue
            try:
                check(hint, value, f"{self.file_of(name)}{name}")
            except ConfigError as error:
                unread = str(error).replace("; it must", ", and this call does not read it; it must")
                warnings.warn(unread, stacklevel=6)

    def file_of(self, key: str) -> str:
        """The file that `get` reads a value from, as an error begins."""
        return "config.json: " if self._generation.get(key) is None else "generation_config.json: "

    def token_ids(self, key: str) -> tuple[int, ...]:
        """A value that is one token id or a list of them, without ids outside the vocabulary."""
        value = self.get(key)
        ids = [] if value is None else value if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(number, int) and not isinstance(number, bool) for number in ids):
            raise ConfigError(
                f"{self.file_of(key)}{key} is {safe_repr(value)}; it must be a token id, a list of them, or null"
            )
        return tuple(number for number in ids if 0 <= number < self.vocabulary)
