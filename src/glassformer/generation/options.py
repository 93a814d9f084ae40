"""Generation options under their Hugging Face names: their allowed values, and which of them go together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from glassformer.errors import ConfigError, UnknownOptionError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.files.schema import Allowed, Doc, above, at_least, check, field_types

if TYPE_CHECKING:
    from glassformer.generation.defaults import GenerationDefaults

NEW_TOKENS = 20  # where neither the call nor the model sets a length; the reference library's default

# ── the types of options, with their allowed values ───

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
Seed = Annotated[
    int, Allowed("a whole number", lambda x: -(2**63) <= x <= 2**63, {"minimum": -(2**63), "maximum": 2**63})
]
Filters = Annotated[Sequence[Callable[..., Any]], Allowed("a list of callables: (ids, logits) → logits")]
StoppingCriteria = Annotated[Sequence[Callable[..., Any]], Allowed("a list of callables: (ids, scores) → ended")]
AllowedTokens = Annotated[
    Callable[..., Any], Allowed("a function (number of the prompt, ids) → allowed token ids", callable)
]
DraftModel = Annotated[
    Any,
    Allowed(
        "a smaller Model of the same vocabulary: glassformer.load(…)",
        lambda x: _is_network(getattr(x, "network", None)),
    ),
]


def _is_network(value: Any) -> bool:
    from glassformer.models import Network  # imported late: a command line reads these options without torch

    return isinstance(value, Network)


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


# ── the options ───


@dataclass(frozen=True)
class Served:
    """What a request to a server may ask of an option, where its memory and time are shared.

    most: the largest number
    default: in place of the library's
    """

    most: int
    default: int | None = None


LENGTH = "Text generation"
TOKENS = "Special tokens"
PROCESSORS = "Logits processors"
CONSTRAINED = "Constrained decoding"
SAMPLED = "Sampling"
BEAM_SEARCH = "Beam search"
CONTRASTIVE = "Contrastive search"
SPECULATIVE = "Speculative decoding: the same text, faster"
RESULT = "Result"

RULES = (
    *("repetition_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids"),
    "exponential_decay_length_penalty",
)
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")
CONSTRAINTS = ("regex", "json_schema", "choices")
BEAMS = ("length_penalty", "early_stopping", "diversity_penalty")


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """Options of text generation; None = not given.

    The method is the caller's alone: greedy search unless options say otherwise, whatever generation_config.json
    recommends. Other values of that file (or config.json) hold where the caller gives none: lengths and rules always,
    sampling and beam options when sampling or beam search is on.
    """

    max_new_tokens: Annotated[
        AtLeastZero | None,
        Doc("Maximum number of new tokens.", LENGTH),
        Served(most=1024, default=40),
    ] = None
    max_length: Annotated[
        AtLeastOne | None,
        Doc(
            "Maximum length, prompt or start token counted. Default: that of generation_config.json, else "
            "20 new tokens.",
            LENGTH,
        ),
    ] = None
    min_new_tokens: Annotated[
        AtLeastZero | None,
        Doc("Minimum number of new tokens: no end of text before.", LENGTH),
    ] = None
    min_length: Annotated[AtLeastZero | None, Doc("Minimum length, prompt counted.", LENGTH)] = None
    max_time: Annotated[
        Annotated[float, above(0, words="a number of seconds above 0")] | None,
        Doc("Time limit in seconds, after which all rows end.", LENGTH),
    ] = None
    stop_strings: Annotated[
        Texts | None,
        Doc(
            "Stop string: end when the text holds it; repeatable. It stays in the text, and may be or hold "
            "special tokens.",
            LENGTH,
        ),
    ] = None
    truncation: Annotated[
        Annotated[bool | Literal["left", "right"], Allowed("True, False, 'left' or 'right'")] | None,
        Doc(
            "Truncate a prompt that is too long, instead of an error: on the left where it is continued, on "
            "the right where it is an encoder input.",
            LENGTH,
        ),
    ] = None
    stopping_criteria: Annotated[
        StoppingCriteria | None,
        Doc("Functions (ids [R, T], None) → ended: a bool, or one of each row [R].", LENGTH),
    ] = None
    num_return_sequences: Annotated[
        AtLeastOne,
        Doc("Number of returned sequences for each prompt, of several beams or samples.", LENGTH),
        Served(most=32),
    ] = 1

    eos_token_id: Annotated[Tokens | None, Doc("Stop tokens.", TOKENS)] = None
    pad_token_id: Annotated[Token | None, Doc("Padding token: fills a row after its end.", TOKENS)] = None
    bos_token_id: Annotated[Token | None, Doc("Start token: the prompt if there is none.", TOKENS)] = None
    decoder_start_token_id: Annotated[
        Token | None,
        Doc("Start token of the answer of an encoder-decoder.", TOKENS),
    ] = None
    forced_bos_token_id: Annotated[
        Token | None,
        Doc("First token of an answer, such as a language code.", TOKENS),
    ] = None
    forced_eos_token_id: Annotated[
        Tokens | None,
        Doc("Last token of a row that the maximum length ends.", TOKENS),
    ] = None
    language: Annotated[
        Annotated[str, Allowed("a language's code or English name, such as 'en'", bool)] | None,
        Doc("Language of the speech that is transcribed: en or English.", TOKENS),
    ] = None
    task: Annotated[
        Annotated[Literal["transcribe", "translate"], Allowed("'transcribe' or 'translate'")] | None,
        Doc("Task of a speech model: transcribe, or translate to English.", TOKENS),
    ] = None

    repetition_penalty: Annotated[
        Penalty | None,
        Doc("Repetition penalty: above 1 makes tokens of the text so far less likely.", PROCESSORS),
    ] = None
    no_repeat_ngram_size: Annotated[
        AtLeastZero | None,
        Doc("N-gram blocking: never repeat n tokens in a row.", PROCESSORS),
    ] = None
    encoder_no_repeat_ngram_size: Annotated[
        AtLeastZero | None,
        Doc("N-gram blocking of the encoder input: never copy n tokens in a row.", PROCESSORS),
    ] = None
    bad_words_ids: Annotated[Words | None, Doc("Bad words as rows of token ids.", PROCESSORS)] = None
    bad_words: Annotated[
        Texts | None,
        Doc("Bad word: a text never to generate; repeatable. It is encoded alone and after a space.", PROCESSORS),
    ] = None
    encoder_repetition_penalty: Annotated[
        Penalty | None,
        Doc("Encoder repetition penalty: above 1 makes tokens of the input more likely.", PROCESSORS),
    ] = None
    sequence_bias: Annotated[
        Biases | None,
        Doc("Sequence bias: numbers added to the logits of words, given as token ids.", PROCESSORS),
    ] = None
    renormalize_logits: Annotated[
        bool,
        Doc("Renormalise: log-probabilities of the tokens that the filters leave.", PROCESSORS),
    ] = False
    exponential_decay_length_penalty: Annotated[
        Decay | None,
        Doc(
            "Exponential length penalty (start, factor): after start new tokens, the end gets likelier at each step.",
            PROCESSORS,
        ),
    ] = None
    suppress_tokens: Annotated[TokenList | None, Doc("Suppressed tokens: never generated.", PROCESSORS)] = None
    begin_suppress_tokens: Annotated[
        TokenList | None,
        Doc("Tokens that are suppressed as the first of an answer.", PROCESSORS),
    ] = None
    logits_processor: Annotated[
        Filters | None,
        Doc("Custom filters: functions (ids [R, T], logits [R, V]) → logits (`generation.filters`).", PROCESSORS),
    ] = None
    prefix_allowed_tokens_fn: Annotated[
        AllowedTokens | None,
        Doc("Function (number of the prompt, ids [T]) → token ids that are allowed next.", PROCESSORS),
    ] = None

    regex: Annotated[
        Annotated[str, Allowed("a regular expression")] | None,
        Doc("Regular expression that the whole answer matches.", CONSTRAINED),
    ] = None
    json_schema: Annotated[
        Annotated[Mapping[Any, Any] | str, Allowed("a JSON schema: a dict, or JSON text")] | None,
        Doc("JSON schema that the answer conforms to: a file, or {…}.", CONSTRAINED),
    ] = None
    choices: Annotated[
        Annotated[Sequence[Text], Allowed("a list of texts, none of them empty", len)] | None,
        Doc("One of the allowed answers; give it several times.", CONSTRAINED),
    ] = None
    scorers: Annotated[
        Scorers | None,
        Doc("Shallow fusion: pairs (scorer, weight) (`generation.scorer`).", CONSTRAINED),
    ] = None

    do_sample: Annotated[
        bool,
        Doc("Sample tokens instead of greedy decoding; any sampling option implies it.", SAMPLED),
    ] = False
    temperature: Annotated[
        Temperature | None,
        Doc("Sampling temperature: below 1 sharpens the distribution, above 1 flattens it.", SAMPLED),
    ] = None
    top_k: Annotated[
        Annotated[int, at_least(0, LARGEST, "a whole number from 1 up, or 0 to keep all tokens")] | None,
        Doc("Top-k sampling: sample from the k most likely tokens.", SAMPLED),
    ] = None
    top_p: Annotated[
        Probability | None,
        Doc("Top-p (nucleus) sampling: from the most likely tokens whose probabilities sum to p.", SAMPLED),
    ] = None
    min_p: Annotated[
        Annotated[float, at_least(0.0, 1.0, "a number from 0 to 1; 0 keeps all tokens")] | None,
        Doc("Min-p sampling: from tokens at least this fraction as likely as the most likely one.", SAMPLED),
    ] = None
    typical_p: Annotated[
        Probability | None,
        Doc("Locally typical sampling: from tokens whose surprisal is closest to the entropy, up to mass p.", SAMPLED),
    ] = None
    epsilon_cutoff: Annotated[Cutoff | None, Doc("Epsilon sampling: from tokens at least this likely.", SAMPLED)] = None
    eta_cutoff: Annotated[
        Cutoff | None,
        Doc("Eta sampling: as epsilon, lower where the entropy is high.", SAMPLED),
    ] = None
    seed: Annotated[Seed | None, Doc("Random seed: the same seed draws the same text.", SAMPLED)] = None

    num_beams: Annotated[
        AtLeastOne,
        Doc("Beam width: number of beams of a beam search.", BEAM_SEARCH),
        Served(most=32),
    ] = 1
    length_penalty: Annotated[
        Annotated[float, at_least(-10.0, 10.0, "a number from -10 to 10; 0 compares sums of log-probabilities")] | None,
        Doc(
            "Length penalty: scores are divided by the length to this power (1 by default); larger favours long texts.",
            BEAM_SEARCH,
        ),
    ] = None
    early_stopping: Annotated[
        Annotated[bool | Literal["never"], Allowed("True, False or 'never'")] | None,
        Doc("Early stopping: end once there are as many finished beams as the beam width.", BEAM_SEARCH),
    ] = None
    num_beam_groups: Annotated[
        AtLeastOne,
        Doc("Diverse beam search: number of groups of beams.", BEAM_SEARCH),
    ] = 1
    diversity_penalty: Annotated[
        Annotated[float, at_least(0.0, 1e30, "a number from 0 up")] | None,
        Doc("Diversity penalty: how much a group avoids the tokens of the groups before it.", BEAM_SEARCH),
    ] = None

    penalty_alpha: Annotated[
        Annotated[float, at_least(0.0, 1.0, "a number from 0 to 1; 0 is greedy search")] | None,
        Doc(
            "Degeneration penalty, 0 to 1: how much to avoid similarity with the text so far; needs top_k.",
            CONTRASTIVE,
        ),
    ] = None

    prompt_lookup_num_tokens: Annotated[
        AtLeastOne | None,
        Doc("Prompt lookup decoding: propose this many tokens at a time, copied from the text so far.", SPECULATIVE),
    ] = None
    max_matching_ngram_size: Annotated[
        AtLeastOne | None,
        Doc("Maximum n-gram size of the prompt lookup. Default: 3.", SPECULATIVE),
    ] = None
    assistant_model: Annotated[
        DraftModel | None,
        Doc("Draft model: a smaller model of the same vocabulary that proposes tokens.", SPECULATIVE),
    ] = None
    num_assistant_tokens: Annotated[
        AtLeastOne | None,
        Doc("Number of tokens the draft model proposes. Default: 5.", SPECULATIVE),
    ] = None

    return_scores: Annotated[bool, Doc("Return a `Generated` with log-probabilities and stop reasons.", RESULT)] = False
    top: Annotated[AtLeastZero, Doc("Number of most likely tokens to return at each step.", RESULT)] = 0
    use_cache: Annotated[bool, Doc("Key-value cache between steps: the same tokens either way, faster.", RESULT)] = True

    @classmethod
    def resolve(cls, given: Mapping[str, Any], defaults: GenerationDefaults) -> GenerationOptions:
        """Options as given, completed with the model's generation defaults.

        Raises: ConfigError: unknown names, values out of range, options that exclude each other.
        """
        explicit = without_foreign(given, [x.name for x in fields(cls)])
        for name, value in explicit.items():
            check_value(name, value, defaults.vocabulary)
        options = cls(**explicit)
        check_combinations(options, defaults.vocabulary)
        inherited = RULES + SAMPLING * options.do_sample + BEAMS * (options.num_beams > 1)
        from_files = {name: defaults.get(name) for name in inherited if name not in explicit}
        from_files = {name: value for name, value in from_files.items() if value is not None}
        for name, value in from_files.items():
            check_value(name, value, defaults.vocabulary, defaults.file_of(name))
        defaults.warn_of_unread(field_types(cls), {*explicit, *inherited})
        return cls(**explicit, **from_files)

    def new_tokens(self, prompt_length: int, defaults: GenerationDefaults, room: int | None = None) -> tuple[int, int]:
        """Maximum and minimum number of new tokens after a prompt of this length.

        Args:
            room: how many the model has positions for; lengths that only its files name give way to it
        Raises: ConfigError: `max_length` is no longer than the prompt, or the minimum is larger than the maximum.
        """
        if self.max_new_tokens is not None:
            maximum = self.max_new_tokens
        elif self.max_length is None:
            maximum = _length_of(defaults, "max", prompt_length) or NEW_TOKENS
            if maximum != NEW_TOKENS and room is not None:
                maximum = max(1, min(maximum, room))
        elif self.max_length <= prompt_length:
            raise ConfigError(
                f"max_length is {self.max_length}, and the rows begin with {prompt_length} tokens; max_length counts "
                "them too: give more, or say max_new_tokens"
            )
        else:
            maximum = self.max_length - prompt_length
        minimum = max(self.min_new_tokens or 0, (self.min_length or 0) - prompt_length)
        if minimum > maximum:
            raise ConfigError(
                f"min_new_tokens is {minimum}, and at most {maximum} new tokens are generated; raise max_new_tokens"
            )
        if self.min_new_tokens is None and self.min_length is None:
            minimum = min(_length_of(defaults, "min", prompt_length), maximum)
        return maximum, minimum

    @property
    def is_constrained(self) -> bool:
        """Whether the text must match something (constrained decoding)."""
        return any(getattr(self, name) is not None for name in CONSTRAINTS)

    def stop_ids(self, defaults: GenerationDefaults) -> tuple[int, ...]:
        """Stop tokens."""
        ids = self.eos_token_id
        return defaults.stop_ids if ids is None else (ids,) if isinstance(ids, int) else tuple(ids)


def as_texts(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """An option that is one text, several, or not given."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def _length_of(defaults: GenerationDefaults, which: str, prompt_length: int) -> int:
    """The "max" or "min" number of new tokens that the model's files name, 0 where they name none."""
    new, whole = (defaults.get(f"{which}_{name}") for name in ("new_tokens", "length"))
    for name, value in ((f"{which}_new_tokens", new), (f"{which}_length", whole)):
        if value is not None:
            check_value(name, value, defaults.vocabulary, defaults.file_of(name))
    return int(new) if new is not None else max(0, (whole or 0) - prompt_length)


def check_value(name: str, value: Any, vocabulary: int, where: str = "") -> None:
    """Check one option.

    Args:
        where: prefix of the message
    Raises: ConfigError: the value is invalid, or names a token outside the vocabulary.
    """
    check(field_types(GenerationOptions)[name], value, f"{where}{name}")
    for token in tokens_in(name, value):
        if token >= vocabulary:
            raise ConfigError(f"{where}{name} names the token {token}; allowed: 0 to {vocabulary - 1}")


def check_combinations(options: GenerationOptions, vocabulary: int) -> None:
    """Check options against each other.

    Raises: ConfigError, UnsupportedError: one option needs another, or excludes it.
    """
    given = {x.name for x in fields(options) if getattr(options, x.name) is not None}
    _check_methods(options, given)
    _check_sampling_and_beams(options, given, vocabulary)
    if {"min_length", "min_new_tokens"} <= given:
        raise ConfigError(
            f"min_new_tokens is {options.min_new_tokens} and min_length {options.min_length}; give one of them: "
            "min_length counts the prompt too"
        )
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


# ── options of other libraries ───

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
    "prompt_ids": "model.transcribe(sound, initial_prompt=text) continues from an earlier text",
    "return_timestamps": "model.transcribe(sound).segments have timestamps",
    "return_token_timestamps": "model.transcribe(sound, word_timestamps=True).words have timestamps",
}
"""Options of Hugging Face transformers that `generate` does not take → what to write instead of each."""


def without_foreign(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The options that have a value; other libraries' options may be there, as long as they are off.

    Args:
        names: all options that there are.
    Raises: ConfigError: another option.
    """
    for name, value in given.items():
        off = value is None or value is False or (isinstance(value, (int, str)) and not value)
        if name not in names and not (name in INSTEAD and off):
            hint = f"; {INSTEAD[name]}" if name in INSTEAD else nearest(str(name), names)
            raise UnknownOptionError(f"generate(…) takes no {safe_repr(name)}{hint}")
    return {name: value for name, value in given.items() if value is not None and name in names}
