"""Generation options, under the names that Hugging Face uses, and the logit filters that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from glassformer.deprecation import former_names
from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr
from glassformer.generation import constrain, filters
from glassformer.generation.constrain import Constraint, Grammar
from glassformer.generation.defaults import GenerationDefaults
from glassformer.generation.filters import Filter
from glassformer.generation.option_checks import (
    BEAMS,
    INSTEAD,
    RULES,
    SAMPLING,
    check_combinations,
    check_value,
)
from glassformer.generation.scorer import Scorer, shallow_fusion
from glassformer.text.tokenizer import Tokenizer

NEW_TOKENS = 20
ASSISTANT_TOKENS = 5
MATCHING_NGRAM = 3


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
        return _texts(self.stop_strings)

    def stop_ids(self, defaults: GenerationDefaults) -> tuple[int, ...]:
        """Stop tokens."""
        ids = self.eos_token_id
        return defaults.stop_ids if ids is None else (ids,) if isinstance(ids, int) else tuple(ids)

    def filters(
        self,
        defaults: GenerationDefaults,
        *,
        prompt_length: int,
        new_tokens: int,
        source: Tensor | None = None,
        forced: Sequence[Filter] = (),
        tokenizer: Callable[[], Tokenizer],
    ) -> list[Filter]:
        """Logit filters in order of application: scorers, rules, forced tokens, then sampling filters.

        Args:
            prompt_length, new_tokens: number of prompt tokens, and maximum number of new ones.
            source: encoder input, -1 where it is padding. [R, S]
            forced: filters for the model's suppressed and forced tokens.
        """
        stop_ids = self.stop_ids(defaults)
        result = [
            shallow_fusion(scorer, weight, prompt_length=prompt_length)
            for scorer, weight in self.scorers or ()
            if weight
        ]
        result += self._rules(source, tokenizer)
        if self.min_new_tokens and stop_ids:
            result.append(filters.suppress(stop_ids, before=prompt_length + self.min_new_tokens))
        grammar = self._grammar()
        if grammar is not None:
            size, text = defaults.vocabulary, tokenizer()
            result.append(
                Constraint(grammar, text, vocabulary=size, prompt_length=prompt_length, stop_ids=stop_ids)
            )
        result += forced
        # A forced end would contradict a grammar, which allows the end only where the text matches.
        if (last := defaults.token_ids("forced_eos_token_id")) and grammar is None:
            result.append(filters.allow_only(last, at=prompt_length + new_tokens - 1))
        if self.do_sample:
            # Beam sampling needs a candidate that is not a stop token.
            result += self.sampling_filters(1 + len(stop_ids) if self.num_beams > 1 else 1)
        return result

    def _rules(self, source: Tensor | None, tokenizer: Callable[[], Tokenizer]) -> list[Filter]:
        words = [list(word) for word in self.bad_words_ids or ()]
        for text in _texts(self.bad_words):
            encoded = [tokenizer().encode(space + text, add_special_tokens=False) for space in ("", " ")]
            words += [word for word in encoded if word and word not in words]
        rules: list[Filter] = []
        if self.repetition_penalty not in (None, 1):
            rules.append(filters.repetition_penalty(float(self.repetition_penalty or 1)))
        if self.no_repeat_ngram_size:
            rules.append(filters.no_repeat_ngrams(self.no_repeat_ngram_size))
        if self.encoder_no_repeat_ngram_size and source is not None:
            rules.append(filters.no_repeat_ngrams(self.encoder_no_repeat_ngram_size, source=source))
        if words:
            rules.append(filters.ban_words(words))
        return rules

    def _grammar(self) -> Grammar | None:
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


def _texts(value: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


__getattr__ = former_names(__name__)
