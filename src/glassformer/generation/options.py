"""Generation options under their Hugging Face names: their allowed values, and which of them go together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from glassformer.deprecation import former_names
from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.generation.scorer import Scorer
from glassformer.models import Network

if TYPE_CHECKING:
    from glassformer.generation.generate import GenerationDefaults

NEW_TOKENS = 20

RULES = ("repetition_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids")
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p")
CONSTRAINTS = ("regex", "json_schema", "choices")
BEAMS = ("length_penalty", "early_stopping", "diversity_penalty")

INSTEAD = {  # options of other libraries, or of old versions → what to use here
    "return_dict_in_generate": "return_scores=True gives a Generated",
    "output_scores": "return_scores=True gives log-probabilities",
    "output_logits": "return_scores=True gives log-probabilities",
    "min_length": "say min_new_tokens, which does not count the prompt",
    "streamer": "model.stream(…) yields pieces of text",
    "stream": "model.stream(…) yields pieces of text",
    "generator": "seed makes sampling reproducible",
    "assistant_tokenizer": "the assistant_model must have the same vocabulary",
}


def _is_integer(x: Any, minimum: float = -math.inf) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x >= minimum


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x)


def _are_ids(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and bool(x) and all(_is_integer(token, 0) for token in x)


def _are_texts(x: Any) -> bool:
    texts = (x,) if isinstance(x, str) else x
    return isinstance(texts, (list, tuple)) and bool(texts) and all(isinstance(t, str) and t for t in texts)


def _are_scorers(x: Any) -> bool:
    pairs = isinstance(x, (list, tuple)) and all(isinstance(p, (list, tuple)) and len(p) == 2 for p in x)
    return pairs and all(callable(scorer) and _is_number(weight) for scorer, weight in x)


def option(allowed: str, test: Callable[[Any], bool], default: Any = None) -> Any:
    """A field of the options: its allowed values in words, as its error says them, and a test of a value."""
    return field(default=default, metadata={"allowed": allowed, "test": test})


def _integer_from(minimum: int, default: int | None = None) -> Any:
    return option(f"a whole number from {minimum} up", lambda x: _is_integer(x, minimum), default)


def _number(allowed: str, test: Callable[[float], bool] = lambda x: True) -> Any:
    return option(allowed, lambda x: _is_number(x) and test(x))


def _boolean(default: bool) -> Any:
    return option("True or False", lambda x: isinstance(x, bool), default)


_PROBABILITY = "a number above 0 and up to 1; 1 keeps all tokens", lambda x: 0 < x <= 1
_STRINGS = "a text or a list of texts, none of them empty", _are_texts


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

    max_new_tokens: int | None = _integer_from(0)
    max_length: int | None = _integer_from(1)
    min_new_tokens: int | None = _integer_from(0)
    max_time: float | None = _number("a number of seconds above 0", lambda x: x > 0)
    eos_token_id: int | Sequence[int] | None = option(
        "a token id, or a list of them", lambda x: _is_integer(x, 0) or _are_ids(x)
    )
    stop_strings: str | Sequence[str] | None = option(*_STRINGS)
    truncation: bool | str | None = option(
        "True, False, 'left' or 'right'", lambda x: isinstance(x, bool) or x in ("left", "right")
    )
    forced_bos_token_id: int | None = option("a token id", lambda x: _is_integer(x, 0))

    repetition_penalty: float | None = _number("a number above 0; 1 changes nothing", lambda x: x > 0)
    no_repeat_ngram_size: int | None = _integer_from(0)
    encoder_no_repeat_ngram_size: int | None = _integer_from(0)
    bad_words_ids: Sequence[Sequence[int]] | None = option(
        "a list of words, each a list of token ids, none of them empty",
        lambda x: isinstance(x, (list, tuple)) and bool(x) and all(_are_ids(word) for word in x),
    )
    bad_words: str | Sequence[str] | None = option(*_STRINGS)

    regex: str | None = option("a regular expression", lambda x: isinstance(x, str))
    json_schema: Mapping[str, Any] | str | None = option(
        "a JSON schema: a dict, or JSON text", lambda x: isinstance(x, (str, Mapping))
    )
    choices: Sequence[str] | None = option(
        "a list of texts, none of them empty", lambda x: not isinstance(x, str) and _are_texts(x)
    )
    scorers: Sequence[tuple[Scorer, float]] | None = option("a list of pairs (a scorer, its weight)", _are_scorers)

    do_sample: bool = _boolean(False)
    temperature: float | None = _number(
        "a number above 0; 1 changes nothing, and do_sample=False takes the most likely token",
        lambda x: x > 0,
    )
    top_k: int | None = option("a whole number from 1 up, or 0 to keep all tokens", lambda x: _is_integer(x, 0))
    top_p: float | None = _number(*_PROBABILITY)
    min_p: float | None = _number("a number from 0 to 1; 0 keeps all tokens", lambda x: 0 <= x <= 1)
    typical_p: float | None = _number(*_PROBABILITY)
    seed: int | None = option("a whole number", _is_integer)

    num_beams: int = _integer_from(1, 1)
    length_penalty: float | None = _number("a number; 0 compares sums of log-probabilities")
    early_stopping: bool | str | None = option("True, False or 'never'", lambda x: isinstance(x, bool) or x == "never")
    num_beam_groups: int = _integer_from(1, 1)
    diversity_penalty: float | None = _number("a number from 0 up", lambda x: x >= 0)

    penalty_alpha: float | None = _number("a number from 0 to 1; 0 is greedy search", lambda x: 0 <= x <= 1)

    prompt_lookup_num_tokens: int | None = _integer_from(1)
    max_matching_ngram_size: int | None = _integer_from(1)
    assistant_model: Any = option(
        "a smaller Model of the same vocabulary: glassformer.load(…)",
        lambda x: isinstance(getattr(x, "network", None), Network),
    )
    num_assistant_tokens: int | None = _integer_from(1)

    num_return_sequences: int = _integer_from(1, 1)
    return_scores: bool = _boolean(False)
    top: int = _integer_from(0, 0)
    use_cache: bool = _boolean(True)

    @classmethod
    def resolve(cls, given: Mapping[str, Any], defaults: GenerationDefaults) -> GenerationOptions:
        """Options as given, completed with the model's generation defaults.

        Raises: ConfigError: unknown names, values out of range, options that exclude each other.
        """
        names = [x.name for x in fields(cls)]
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
    def is_constrained(self) -> bool:
        """Whether the text must match something (constrained decoding)."""
        return any(getattr(self, name) is not None for name in CONSTRAINTS)

    def stop_ids(self, defaults: GenerationDefaults) -> tuple[int, ...]:
        """Stop tokens."""
        ids = self.eos_token_id
        return defaults.stop_ids if ids is None else (ids,) if isinstance(ids, int) else tuple(ids)


def check_value(name: str, value: Any, vocabulary: int, where: str = "") -> None:
    """Check one option.

    Args: where: prefix of the message
    Raises: ConfigError: the value is invalid, or names a token outside the vocabulary.
    """
    rule = GenerationOptions.__dataclass_fields__[name].metadata
    if not rule["test"](value):
        raise ConfigError(f"{where}{name} is {safe_repr(value)}; it must be {rule['allowed']}")
    words = value if name == "bad_words_ids" else [value] if name.endswith("_token_id") else []
    for token in (token for word in words for token in ([word] if isinstance(word, int) else word)):
        if token >= vocabulary:
            raise ConfigError(f"{where}{name} names the token {token}; allowed: 0 to {vocabulary - 1}")


def check_combinations(options: GenerationOptions, vocabulary: int) -> None:
    """Check options against each other.

    Raises: ConfigError, UnsupportedError: one option needs another, or excludes it.
    """
    given = {x.name for x in fields(options) if getattr(options, x.name) is not None}
    _check_methods(options, given)
    _check_sampling_and_beams(options, given, vocabulary)
    if options.truncation and options.max_length is not None:
        raise ConfigError(
            f"max_length is {options.max_length} and counts the prompt, which truncation cuts to what room there is; "
            "say max_new_tokens instead"
        )
    if {"max_length", "max_new_tokens"} <= given:
        raise ConfigError(
            f"max_new_tokens is {options.max_new_tokens} and max_length {options.max_length}; give one of them: "
            "max_length counts the prompt too"
        )
    if len(constraints := [name for name in CONSTRAINTS if name in given]) > 1:
        raise ConfigError(f"{' and '.join(constraints)} are given; one text matches one of them: leave the others out")


def _check_sampling_and_beams(options: GenerationOptions, given: set[str], vocabulary: int) -> None:
    # top_k is also the number of candidates of contrastive search.
    sampling = [name for name in SAMPLING if not (name == "top_k" and options.penalty_alpha is not None)]
    if not options.do_sample and (unused := [name for name in sampling if name in given]):
        raise ConfigError(
            f"{unused[0]} changes the sampling distribution, and greedy search does not sample; add do_sample=True"
        )
    if options.num_beams == 1 and (unused := [name for name in BEAMS if name in given]):
        raise ConfigError(f"{unused[0]} compares beams, and num_beams is 1; ask for more, such as num_beams=4")
    if options.num_beams > max(1, vocabulary):
        raise ConfigError(
            f"num_beams is {options.num_beams}, and the vocabulary has {vocabulary} tokens; ask for fewer beams"
        )
    if options.num_beams % options.num_beam_groups:
        raise ConfigError(
            f"num_beam_groups is {options.num_beam_groups}, and num_beams is {options.num_beams}; it must be a multiple"
        )
    if options.num_beams > 1 and options.top:
        raise UnsupportedError(f"top shows the choice of one row, and num_beams is {options.num_beams}; leave one out")
    limit = options.num_beams if options.num_beams > 1 else math.inf if options.do_sample else 1
    if options.num_return_sequences > limit:
        raise ConfigError(
            f"num_return_sequences is {options.num_return_sequences}, and "
            + (
                f"num_beams is {limit}; there are no more answers than beams"
                if limit > 1
                else "greedy search has one answer; add do_sample=True, or num_beams"
            )
        )


def _check_methods(options: GenerationOptions, given: set[str]) -> None:
    """Raises: ConfigError, UnsupportedError: two methods at once, or an option without its method."""
    needed = {
        "max_matching_ngram_size": "prompt_lookup_num_tokens",
        "num_assistant_tokens": "assistant_model",
    }
    for name, method in needed.items():
        if name in given and method not in given:
            raise ConfigError(f"{name} belongs to {method}, which is not given; add it, or leave {name} out")
    if options.penalty_alpha is not None and not options.top_k:
        raise ConfigError(
            f"penalty_alpha compares the top_k most likely tokens, and top_k is {options.top_k}; add it, such as "
            "top_k=4"
        )
    methods = {
        "prompt_lookup_num_tokens": options.prompt_lookup_num_tokens,
        "assistant_model": options.assistant_model,
        "penalty_alpha": options.penalty_alpha,
        f"num_beams={options.num_beams}": options.num_beams > 1 or None,
    }
    if len(chosen := [name for name, value in methods.items() if value is not None]) > 1:
        raise UnsupportedError(f"{chosen[0]} does not go with {chosen[1]}: they are two methods; leave one out")
    if options.penalty_alpha is not None and options.do_sample:
        raise UnsupportedError(
            "penalty_alpha does not go with do_sample=True: contrastive search does not sample; leave one out"
        )


__getattr__ = former_names(__name__)
