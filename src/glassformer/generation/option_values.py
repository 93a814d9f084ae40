"""What generation options may be: tests of their values, with the words of the error; other libraries' options."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from glassformer.errors import UnknownOptionError, nearest
from glassformer.files import safe_repr

LARGEST = 2**31 - 1
"""No number of tokens, beams or steps is larger; what counts them is of 32 bits somewhere."""


def is_integer(x: Any, minimum: float = -math.inf, maximum: float = LARGEST) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and minimum <= x <= maximum


def is_number(x: Any, largest: float = 1e30) -> bool:
    """Whether it is a number that float32 can hold, and compute with."""
    return isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) <= largest  # NaN is not


def are_ids(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and bool(x) and all(is_integer(token, 0) for token in x)


def is_decay(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and len(x) == 2 and is_integer(x[0], 0) and is_number(x[1], 100) and x[1] > 0


def tokens_in(name: str, value: Any) -> list[int]:
    """The token ids that the value of an option names."""
    if name == "sequence_bias":
        words: Any = [word for word, _ in as_biases(value)]
    else:
        words = value if name == "bad_words_ids" else [value] if name.endswith(("_token_id", "suppress_tokens")) else []
    return [token for word in words for token in ([word] if isinstance(word, int) else word)]


def as_biases(x: Any) -> list[tuple[tuple[int, ...], float]]:
    """Words with a bias each: of a dict {(5, 9): -2.0}, or of a list [[[5, 9], -2.0]]."""
    return [(tuple(word), float(bias)) for word, bias in (x.items() if isinstance(x, Mapping) else x)]


def are_biases(x: Any) -> bool:
    pairs = list(x.items()) if isinstance(x, Mapping) else x
    whole = isinstance(pairs, (list, tuple)) and bool(pairs)
    return whole and all(
        isinstance(p, (list, tuple)) and len(p) == 2 and are_ids(p[0]) and is_number(p[1]) for p in pairs
    )


def are_words(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and bool(x) and all(are_ids(word) for word in x)


def are_texts(x: Any) -> bool:
    texts = (x,) if isinstance(x, str) else x
    return isinstance(texts, (list, tuple)) and bool(texts) and all(isinstance(t, str) and t for t in texts)


def are_scorers(x: Any) -> bool:
    pairs = isinstance(x, (list, tuple)) and all(isinstance(p, (list, tuple)) and len(p) == 2 for p in x)
    return pairs and all(callable(scorer) and is_number(weight) for scorer, weight in x)


def are_callables(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and all(callable(each) for each in x)


def option(allowed: str, test: Callable[[Any], bool], default: Any = None) -> Any:
    """A field of the options: its allowed values in words, as its error says them, and a test of a value."""
    return field(default=default, metadata={"allowed": allowed, "test": test})


def integer_from(minimum: int, default: int | None = None) -> Any:
    return option(f"a whole number from {minimum} up", lambda x: is_integer(x, minimum), default)


def number(allowed: str, test: Callable[[float], bool] = lambda x: True) -> Any:
    return option(allowed, lambda x: is_number(x) and test(x))


def boolean(default: bool) -> Any:
    return option("True or False", lambda x: isinstance(x, bool), default)


def probability() -> Any:
    return number("a number above 0 and up to 1; 1 keeps all tokens", lambda x: 0 < x <= 1)


def cutoff() -> Any:
    return number("a probability below 1; 0 keeps all tokens", lambda x: 0 <= x < 1)


def texts() -> Any:
    return option("a text or a list of texts, none of them empty", are_texts)


def token() -> Any:
    return option("a token id", lambda x: is_integer(x, 0))


def tokens() -> Any:
    return option("a token id, or a list of them", lambda x: is_integer(x, 0) or are_ids(x))


def callables(form: str) -> Any:
    return option(f"a list of callables: {form}", are_callables)


INSTEAD = {
    "stream": "model.stream(…) yields pieces of text",
    "streamer": "model.generate(…) takes it, and model.stream(…) yields pieces of text",
    "return_dict_in_generate": "model.generate(…) takes it",
    "output_scores": "model.generate(…) takes it",
    "output_logits": "model.generate(…) takes it",
    "generator": "seed makes sampling reproducible",
    "assistant_tokenizer": "the assistant_model must have the same vocabulary",
    "output_attentions": "model.generate(…) takes it",
    "output_hidden_states": "model.generate(…) takes it",
    "past_key_values": "give all ids: the cache is generate's own",
    "cache_implementation": "there is one kind of cache",
    "decoder_attention_mask": "give one row at a time, without padding",
    "position_ids": "positions are counted, without padding",
    "constraints": "regex, choices or json_schema say what the text must match",
    "force_words_ids": "regex, choices or json_schema say what the text must match",
    "guidance_scale": "a logits_processor changes the logits",
    "watermarking_config": "a logits_processor changes the logits",
    "remove_invalid_values": "logits that are NaN are an error, which names the damaged parameters",
    "top_h": "top_p or typical_p",
    "dola_layers": "contrastive search: penalty_alpha=0.6, top_k=4",
    "forced_decoder_ids": "language and task say what a transcript begins with, forced_bos_token_id any first token",
    "prompt_ids": "model.transcribe(sound, initial_prompt=text) goes on from an earlier text",
    "return_timestamps": "model.transcribe(sound).segments have timestamps",
    "return_token_timestamps": "model.transcribe(sound, word_timestamps=True).words have timestamps",
}
"""Options of Hugging Face transformers that `generate` does not take → what to write instead of each."""


def without_foreign(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The options that have a value; other libraries' options may be there, as long as they are off.

    Args: names: all options that there are.
    Raises: ConfigError: another option.
    """
    for name, value in given.items():
        off = value is None or value is False or (isinstance(value, (int, str)) and not value)
        if name not in names and not (name in INSTEAD and off):
            hint = f"; {INSTEAD[name]}" if name in INSTEAD else nearest(str(name), names)
            raise UnknownOptionError(f"generate(…) takes no {safe_repr(name)}{hint}")
    return {name: value for name, value in given.items() if value is not None and name in names}
