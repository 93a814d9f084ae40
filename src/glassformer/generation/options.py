"""Generation options under their Hugging Face names, and the defaults that a model's generation_config.json gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch

from glassformer.deprecation import former_names
from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr
from glassformer.generation import constrain, filters
from glassformer.generation.constrain import Grammar
from glassformer.generation.filters import Filter, allow_only, suppress
from glassformer.generation.option_checks import (
    BEAMS,
    INSTEAD,
    RULES,
    SAMPLING,
    check_combinations,
    check_value,
)
from glassformer.generation.scorer import Scorer

NEW_TOKENS = 20
ASSISTANT_TOKENS = 5
MATCHING_NGRAM = 3


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


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """Options of text generation; None = not given.

    Method and length are the caller's alone: greedy search for 20 tokens unless options say otherwise, whatever
    generation_config.json recommends. Other values of that file (or config.json) hold where the caller gives none:
    rules always, sampling and beam options when sampling or beam search is on.

    Length
        max_new_tokens: maximum number of new tokens, default 20 · max_length: the same, prompt or start token counted
        min_new_tokens: no end token before · max_time: time limit in seconds, after which all rows end
        eos_token_id: stop tokens, instead of the model's · stop_strings: texts that end a row; they stay in it
        truncation: truncate a prompt that is longer than the context, with a warning, on the "left" or the "right";
            True: on the left where it is continued, on the right where it is an encoder input
        forced_bos_token_id: first token of an answer, such as a language code, instead of the model's
    Rules
        repetition_penalty: above 1, tokens in the row become less likely · no_repeat_ngram_size: no n-gram twice
        encoder_no_repeat_ngram_size: no n-gram of the encoder input · bad_words_ids: banned words, as rows of token ids
        bad_words: the same as texts, each encoded alone and after a space
        regex, json_schema, choices: constrained decoding: the text matches an expression, or a schema (a dict, or
            JSON), or is one of these; it needs the package llguidance (`generation.constrain`)
        scorers: shallow fusion: pairs (scorer, weight) (`generation.scorer`)
    Sampling
        do_sample: sample · temperature, top_k, top_p, min_p, typical_p: filters of the distribution, in this order
        seed: random seed; None = from torch's own generator
    Beam search
        num_beams: number of beams · length_penalty: above 0 favours long texts · early_stopping: True, False, "never"
        num_beam_groups, diversity_penalty: diverse beam search (`generation.beam`)
    Contrastive search
        penalty_alpha: weight of similarity among the top_k candidates; from 0, which is greedy search, to 1
            (`generation.contrastive`)
    Speculative decoding: faster, with the same text (`generation.speculative`)
        prompt_lookup_num_tokens: draft so many tokens from the text itself
        max_matching_ngram_size: maximum n-gram size of the look-up, default 3
        assistant_model: draft with a smaller Model of the same vocabulary · num_assistant_tokens: so many; default 5
    Result
        num_return_sequences: number of answers for each prompt, side by side
        return_scores: return a `Generated` with log-probabilities and stop reasons · top: and the most likely tokens
        use_cache: cache keys and values between steps; the same tokens either way, faster
    """

    max_new_tokens: int | None = None
    max_length: int | None = None
    min_new_tokens: int | None = None
    max_time: float | None = None
    eos_token_id: int | Sequence[int] | None = None
    stop_strings: str | Sequence[str] | None = None
    truncation: bool | str | None = None
    forced_bos_token_id: int | None = None

    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    encoder_no_repeat_ngram_size: int | None = None
    bad_words_ids: Sequence[Sequence[int]] | None = None
    bad_words: str | Sequence[str] | None = None

    regex: str | None = None
    json_schema: Mapping[str, Any] | str | None = None
    choices: Sequence[str] | None = None
    scorers: Sequence[tuple[Scorer, float]] | None = None

    do_sample: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    seed: int | None = None

    num_beams: int = 1
    length_penalty: float | None = None
    early_stopping: bool | str | None = None
    num_beam_groups: int = 1
    diversity_penalty: float | None = None

    penalty_alpha: float | None = None

    prompt_lookup_num_tokens: int | None = None
    max_matching_ngram_size: int | None = None
    assistant_model: Any = None
    num_assistant_tokens: int | None = None

    num_return_sequences: int = 1
    return_scores: bool = False
    top: int = 0
    use_cache: bool = True

    @classmethod
    def resolve(cls, given: Mapping[str, Any], defaults: GenerationDefaults) -> GenerationOptions:
        """Options as given, completed with the model's generation defaults.

        Raises: ConfigError: unknown names, values out of range, options that exclude each other.
        """
        names = [field.name for field in fields(cls)]
        for name in given:
            if name not in names:
                hint = f"; {INSTEAD[name]}" if name in INSTEAD else nearest(name, names)
                raise ConfigError(f"generate(…) takes no {safe_repr(name)}{hint}")
        explicit = {name: value for name, value in given.items() if value is not None}
        for name, value in explicit.items():
            check_value(name, value, defaults.vocabulary)
        options = cls(**explicit)
        check_combinations(options, defaults.vocabulary)
        inherited = RULES + SAMPLING * options.do_sample + BEAMS * (options.num_beams > 1)
        values = {name: defaults.get(name) for name in inherited if name not in explicit}
        values = {name: value for name, value in values.items() if value is not None}
        for name, value in values.items():
            check_value(name, value, defaults.vocabulary, "generation_config.json: ")
        return cls(**explicit, **values)

    def new_tokens(self, prompt_length: int) -> int:
        """Maximum number of new tokens after a prompt of this length.

        Raises: ConfigError: `max_length` is no longer than the prompt, or `min_new_tokens` is larger than the maximum.
        """
        if self.max_length is None:
            maximum = NEW_TOKENS if self.max_new_tokens is None else self.max_new_tokens
        elif self.max_length <= prompt_length:
            raise ConfigError(
                f"max_length is {self.max_length}, and the rows begin with {prompt_length} tokens; max_length counts "
                "them too: give more, or say max_new_tokens"
            )
        else:
            maximum = self.max_length - prompt_length
        if (self.min_new_tokens or 0) > maximum:
            raise ConfigError(
                f"min_new_tokens is {self.min_new_tokens}, and at most {maximum} new tokens are generated; "
                "raise max_new_tokens"
            )
        return maximum

    @property
    def strings(self) -> tuple[str, ...]:
        """Stop strings."""
        return as_texts(self.stop_strings)

    def stop_ids(self, defaults: GenerationDefaults) -> tuple[int, ...]:
        """Stop tokens."""
        ids = self.eos_token_id
        return defaults.stop_ids if ids is None else (ids,) if isinstance(ids, int) else tuple(ids)

    def grammar(self) -> Grammar | None:
        """The grammar of constrained decoding."""
        if self.regex is not None:
            return constrain.regex(self.regex)
        if self.json_schema is not None:
            return constrain.json_schema(self.json_schema)
        return None if self.choices is None else constrain.choices(self.choices)

    def sampling_filters(self, min_keep: int = 1) -> list[Filter]:
        """Logit filters of the sampling distribution, which keep at least so many tokens; they come after all rules."""
        result: list[Filter] = []
        if self.temperature not in (None, 1):
            result.append(filters.temperature(float(self.temperature or 1)))
        if self.top_k:
            result.append(filters.top_k(self.top_k, min_keep=min_keep))
        if self.top_p is not None and self.top_p < 1:
            result.append(filters.top_p(self.top_p, min_keep=min_keep))
        if self.min_p:
            result.append(filters.min_p(self.min_p, min_keep=min_keep))
        if self.typical_p is not None and self.typical_p < 1:
            result.append(filters.typical_p(self.typical_p, min_keep=min_keep))
        return result

    def resolved_seed(self) -> int:
        """The random seed, or one from torch's generator, which `torch.manual_seed` makes reproducible."""
        return int(torch.randint(2**62, ())) if self.seed is None else self.seed


def as_texts(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """An option that is one text, several, or not given."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


__getattr__ = former_names(__name__)
