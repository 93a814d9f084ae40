"""Validation of generation options: allowed values, and combinations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.models import Network

if TYPE_CHECKING:
    from glassformer.generation.options import GenerationOptions

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


def check_combinations(options: GenerationOptions, vocabulary: int) -> None:
    """Check options against each other.

    Raises: ConfigError, UnsupportedError: one option needs another, or excludes it.
    """
    given = {field.name for field in fields(options) if getattr(options, field.name) is not None}
    _check_methods(options, given)
    _check_sampling_and_beams(options, given, vocabulary)
    _check_lengths(options, given)
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


def _check_lengths(options: GenerationOptions, given: set[str]) -> None:
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


def _check_methods(options: GenerationOptions, given: set[str]) -> None:
    """Raises: ConfigError, UnsupportedError: two methods at once, or an option without its method."""
    method_of = {
        "max_matching_ngram_size": "prompt_lookup_num_tokens",
        "num_assistant_tokens": "assistant_model",
    }
    for name, method in method_of.items():
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


# ------------------------------------------------------------------------------------------------------------- values


def check_value(name: str, value: Any, vocabulary: int, where: str = "") -> None:
    """Check one option.

    Args: where: prefix of the message
    Raises: ConfigError: the value is invalid, or names a token outside the vocabulary.
    """
    allowed, test = VALUES[name]
    if not test(value):
        raise ConfigError(f"{where}{name} is {safe_repr(value)}; it must be {allowed}")
    for token in _ids_in(name, value):
        if token >= vocabulary:
            raise ConfigError(f"{where}{name} names the token {token}; allowed: 0 to {vocabulary - 1}")


def _ids_in(name: str, value: Any) -> list[int]:
    if name in ("eos_token_id", "forced_bos_token_id"):
        return [value] if isinstance(value, int) else list(value)
    return [token for word in value for token in word] if name == "bad_words_ids" else []


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


def _integer_from(minimum: int) -> tuple[str, Callable[[Any], bool]]:
    return f"a whole number from {minimum} up", lambda x: _is_integer(x, minimum)


PROBABILITY = "a number above 0 and up to 1; 1 keeps all tokens", lambda x: _is_number(x) and 0 < x <= 1
STRINGS = "a text or a list of texts, none of them empty", _are_texts
BOOLEAN = "True or False", lambda x: isinstance(x, bool)

VALUES: dict[str, tuple[str, Callable[[Any], bool]]] = {  # option → (allowed values in words, test)
    "max_new_tokens": _integer_from(0),
    "max_length": _integer_from(1),
    "min_new_tokens": _integer_from(0),
    "max_time": ("a number of seconds above 0", lambda x: _is_number(x) and x > 0),
    "eos_token_id": ("a token id, or a list of them", lambda x: _is_integer(x, 0) or _are_ids(x)),
    "stop_strings": STRINGS,
    "truncation": ("True, False, 'left' or 'right'", lambda x: isinstance(x, bool) or x in ("left", "right")),
    "forced_bos_token_id": ("a token id", lambda x: _is_integer(x, 0)),
    "repetition_penalty": ("a number above 0; 1 changes nothing", lambda x: _is_number(x) and x > 0),
    "no_repeat_ngram_size": _integer_from(0),
    "encoder_no_repeat_ngram_size": _integer_from(0),
    "bad_words_ids": (
        "a list of words, each a list of token ids, none of them empty",
        lambda x: isinstance(x, (list, tuple)) and bool(x) and all(_are_ids(word) for word in x),
    ),
    "bad_words": STRINGS,
    "regex": ("a regular expression", lambda x: isinstance(x, str)),
    "json_schema": ("a JSON schema: a dict, or JSON text", lambda x: isinstance(x, (str, Mapping))),
    "choices": ("a list of texts, none of them empty", lambda x: not isinstance(x, str) and _are_texts(x)),
    "scorers": ("a list of pairs (a scorer, its weight)", _are_scorers),
    "do_sample": BOOLEAN,
    "temperature": (
        "a number above 0; 1 changes nothing, and do_sample=False takes the most likely token",
        lambda x: _is_number(x) and x > 0,
    ),
    "top_k": ("a whole number from 1 up, or 0 to keep all tokens", lambda x: _is_integer(x, 0)),
    "top_p": PROBABILITY,
    "min_p": ("a number from 0 to 1; 0 keeps all tokens", lambda x: _is_number(x) and 0 <= x <= 1),
    "typical_p": PROBABILITY,
    "seed": ("a whole number", _is_integer),
    "num_beams": _integer_from(1),
    "length_penalty": ("a number; 0 compares sums of log-probabilities", _is_number),
    "early_stopping": ("True, False or 'never'", lambda x: isinstance(x, bool) or x == "never"),
    "num_beam_groups": _integer_from(1),
    "diversity_penalty": ("a number from 0 up", lambda x: _is_number(x) and x >= 0),
    "penalty_alpha": ("a number from 0 to 1; 0 is greedy search", lambda x: _is_number(x) and 0 <= x <= 1),
    "prompt_lookup_num_tokens": _integer_from(1),
    "max_matching_ngram_size": _integer_from(1),
    "assistant_model": (
        "a smaller Model of the same vocabulary: glassformer.load(…)",
        lambda x: isinstance(getattr(x, "network", None), Network),
    ),
    "num_assistant_tokens": _integer_from(1),
    "num_return_sequences": _integer_from(1),
    "return_scores": BOOLEAN,
    "top": _integer_from(0),
    "use_cache": BOOLEAN,
}
