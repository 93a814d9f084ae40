"""The types of generation options, with their allowed values; other libraries' options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from glassformer.errors import ConfigError, UnknownOptionError, nearest
from glassformer.files import safe_repr
from glassformer.files.schema import Allowed, at_least, check
from glassformer.models import Network

LARGEST = 2**31 - 1
"""No number of tokens, beams or steps is larger; what counts them is of 32 bits somewhere."""


def _number(words: str, test: Callable[[float], bool] = lambda x: True, **schema: float) -> Allowed:
    """Numbers that float32 can hold and compute with; NaN is none."""
    return Allowed(words, lambda x: abs(x) <= 1e30 and test(x), schema)


AtLeastOne = Annotated[int, at_least(1, LARGEST, "a whole number from 1 up")]
AtLeastZero = Annotated[int, at_least(0, LARGEST, "a whole number from 0 up")]
Token = Annotated[int, Allowed("a token id", lambda x: 0 <= x <= LARGEST, {"minimum": 0})]
TokenList = Annotated[Sequence[Token], Allowed("a list of token ids", len)]
Tokens = Annotated[Token | TokenList, Allowed("a token id, or a list of them")]
Words = Annotated[Sequence[TokenList], Allowed("a list of words, each a list of token ids, none of them empty", len)]
Text = Annotated[str, Allowed("a text that is not empty", bool)]
Texts = Annotated[Text | Sequence[Text], Allowed("a text or a list of texts, none of them empty", lambda x: x != [])]
Number = Annotated[float, _number("a number")]
Penalty = Annotated[float, _number("a number above 0; 1 changes nothing", lambda x: x >= 1e-30, exclusiveMinimum=0)]
Probability = Annotated[
    float,
    _number("a number above 0 and up to 1; 1 keeps all tokens", lambda x: 0 < x <= 1, exclusiveMinimum=0, maximum=1),
]
Cutoff = Annotated[
    float,
    _number("a probability below 1; 0 keeps all tokens", lambda x: 0 <= x < 1, minimum=0, exclusiveMaximum=1),
]
Temperature = Annotated[
    float,
    _number(
        "a number above 0; 1 changes nothing, and do_sample=False takes the most likely token",
        lambda x: x >= 1e-30,
        exclusiveMinimum=0,
    ),
]
Seed = Annotated[int, Allowed("a whole number", lambda x: -(2**63) <= x <= 2**63)]
Filters = Annotated[Sequence[Callable[..., Any]], Allowed("a list of callables: (ids, logits) → logits")]
StoppingCriteria = Annotated[Sequence[Callable[..., Any]], Allowed("a list of callables: (ids, scores) → ended")]
AllowedTokens = Annotated[
    Callable[..., Any], Allowed("a function (number of the prompt, ids) → allowed token ids", callable)
]
DraftModel = Annotated[
    Any,
    Allowed(
        "a smaller Model of the same vocabulary: glassformer.load(…)",
        lambda x: isinstance(getattr(x, "network", None), Network),
    ),
]


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


def is_valid(hint: Any, value: Any) -> bool:
    """Whether a value is of a type, and allowed."""
    try:
        check(hint, value, "")
    except ConfigError:
        return False
    return True


def are_biases(x: Any) -> bool:
    pairs = list(x.items()) if isinstance(x, Mapping) else x
    whole = isinstance(pairs, (list, tuple)) and bool(pairs)
    return whole and all(
        isinstance(p, (list, tuple)) and len(p) == 2 and is_valid(TokenList, p[0]) and is_valid(Number, p[1])
        for p in pairs
    )


def is_decay(x: Any) -> bool:
    return len(x) == 2 and is_valid(AtLeastZero, x[0]) and is_valid(Number, x[1]) and 0 < x[1] <= 100


def are_scorers(x: Any) -> bool:
    pairs = isinstance(x, (list, tuple)) and all(isinstance(p, (list, tuple)) and len(p) == 2 for p in x)
    return pairs and all(callable(scorer) and is_valid(Number, weight) for scorer, weight in x)


Biases = Annotated[Any, Allowed("words with a bias each: {(token, …): number}", are_biases)]
Decay = Annotated[Sequence[Any], Allowed("a pair (start, factor)", is_decay)]
Scorers = Annotated[Sequence[Any], Allowed("a list of pairs (a scorer, its weight)", are_scorers)]

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
