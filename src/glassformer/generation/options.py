"""What a caller of `generate` asks for, under the names that Hugging Face uses: checked, and made into filters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import shown
from glassformer.generation import constrain
from glassformer.generation import filters as change
from glassformer.generation.constrain import Constraint, Grammar
from glassformer.generation.filters import Filter
from glassformer.generation.scorer import Scorer, fused
from glassformer.generation.settings import Settings
from glassformer.models import Network
from glassformer.text.tokenizer import Tokenizer

NEW_TOKENS = 20
ASSISTANT_TOKENS = 5
MATCHING_NGRAM = 3


@dataclass(frozen=True, kw_only=True)
class Options:
    """How rows are continued; None = not asked for.

    The method and the lengths are the caller's alone: greedy search unless options below say otherwise, whatever
    generation_config.json recommends. What that file (or config.json) says beside them holds where the
    caller names nothing: the rules always, the settings of sampling and of beams once these are asked for.

    How far
        max_new_tokens: default 20 · max_length: the same with prompt or start token counted
        min_new_tokens: no end token before · max_time: seconds, after which all rows end
        eos_token_id: what ends a row, instead of the folder's · stop_strings: texts that end a row; they stay in it
        truncation: a prompt that is longer than the context is cut, with a warning, on the "left" or the "right"; True
            cuts the left of what is continued and the right of what is answered
        forced_bos_token_id: what an answer begins with, a language's code say, instead of the folder's
    Rules
        repetition_penalty: above 1 what was said becomes less likely · no_repeat_ngram_size: no run of so many twice
        encoder_no_repeat_ngram_size: none that stands in the source · bad_words_ids: words, as rows of token ids
        bad_words: the same as texts, each as the tokenizer writes it alone and after a space
        regex, json_schema, choices: what is said matches an expression, or a schema (a dict, or JSON), or is one of
            these; they need the package llguidance (`generation.constrain`)
        scorers: pairs (a scorer, its weight) that add their opinion to the model's (`generation.scorer`)
    Sampling
        do_sample: draw · temperature, top_k, top_p, min_p, typical_p: from a distribution of this shape, in this order
        seed: the same draws each time; None = from torch's own generator
    Beams
        num_beams: how many are searched · length_penalty: above 0 favours long ones · early_stopping: True, False,
            "never" · num_beam_groups, diversity_penalty: groups that avoid each other's words (`generation.beam`)
    Contrast
        penalty_alpha: of the top_k likeliest tokens the one that is least like what was said; from 0, which is greedy
            search, to 1 (`generation.contrastive`)
    Speculation: guesses make it faster and change nothing that is said (`generation.speculative`)
        prompt_lookup_num_tokens: so many at a time, from what was said and read · max_matching_ngram_size: by at most
            so many of the last tokens; default 3
        assistant_model: by a smaller Model of the same vocabulary · num_assistant_tokens: so many; default 5
    Answer
        num_return_sequences: so many for each prompt, side by side
        return_scores: a `Generated` with log-probabilities, and why rows ended · top: and as many of the likeliest
        use_cache: keep keys and values between steps; the same tokens either way, faster
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
    def read(cls, given: Mapping[str, Any], settings: Settings) -> Options:
        """What was given, and what the folder says where nothing was.

        Raises: ConfigError: unknown names, values out of range, options that do not go together.
        """
        names = [field.name for field in fields(cls)]
        for name in given:
            if name not in names:
                hint = f"; {INSTEAD[name]}" if name in INSTEAD else nearest(name, names)
                raise ConfigError(f"generate(…) takes no {shown(name)}{hint}")
        asked = {name: value for name, value in given.items() if value is not None}
        for name, value in asked.items():
            _check(name, value, settings.vocabulary)
        options = cls(**asked)
        options._check_together(settings.vocabulary)
        inherited = RULES + SAMPLING * options.do_sample + BEAMS * (options.num_beams > 1)
        own = {name: settings.get(name) for name in inherited if name not in asked}
        for name, value in own.items():
            if value is not None:
                _check(name, value, settings.vocabulary, "generation_config.json: ")
        return cls(**asked, **{name: value for name, value in own.items() if value is not None})

    def _check_together(self, vocabulary: int) -> None:
        """Raises: ConfigError: one option needs another, or excludes it."""
        named = {field.name for field in fields(self) if getattr(self, field.name) is not None}
        self._check_methods(named)
        shaping = [name for name in SAMPLING if not (name == "top_k" and self.penalty_alpha is not None)]
        if not self.do_sample and (lost := [name for name in shaping if name in named]):
            raise ConfigError(
                f"{lost[0]} shapes what is drawn from, and greedy search draws nothing; add do_sample=True"
            )
        if self.num_beams == 1 and (lost := [name for name in BEAMS if name in named]):
            raise ConfigError(
                f"{lost[0]} compares beams, and num_beams is 1; ask for more, such as num_beams=4"
            )
        if self.num_beams > max(1, vocabulary):
            raise ConfigError(
                f"num_beams is {self.num_beams}, and the vocabulary has {vocabulary} tokens; ask for fewer beams"
            )
        if len(several := [name for name in CONSTRAINTS if name in named]) > 1:
            raise ConfigError(
                f"{' and '.join(several)} are given; one text matches one of them: leave the others out"
            )
        if self.num_beams % self.num_beam_groups:
            raise ConfigError(
                f"num_beam_groups is {self.num_beam_groups}, and num_beams is {self.num_beams}; it must be a multiple"
            )
        if self.num_beams > 1 and self.top:
            raise UnsupportedError(
                f"top shows the choice of one row, and num_beams is {self.num_beams}; leave one out"
            )
        most = self.num_beams if self.num_beams > 1 else math.inf if self.do_sample else 1
        if self.num_return_sequences > most:
            raise ConfigError(
                f"num_return_sequences is {self.num_return_sequences}, and "
                + (
                    f"num_beams is {most}; there are no more answers than beams"
                    if most > 1
                    else "greedy search has one answer; add do_sample=True, or num_beams"
                )
            )
        if self.truncation and self.max_length is not None:
            raise ConfigError(
                f"max_length is {self.max_length} and counts the prompt, which truncation cuts to what room there is; "
                "say max_new_tokens instead"
            )
        if {"max_length", "max_new_tokens"} <= named:
            raise ConfigError(
                f"max_new_tokens is {self.max_new_tokens} and max_length {self.max_length}; give one of them: "
                "max_length counts the prompt too"
            )

    def _check_methods(self, named: set[str]) -> None:
        """Raises: ConfigError, UnsupportedError: two methods at once, or half of one."""
        halves = {
            "max_matching_ngram_size": "prompt_lookup_num_tokens",
            "num_assistant_tokens": "assistant_model",
        }
        for name, whole in halves.items():
            if name in named and whole not in named:
                raise ConfigError(
                    f"{name} belongs to {whole}, which is not given; add it, or leave {name} out"
                )
        if self.penalty_alpha is not None and not self.top_k:
            raise ConfigError(
                f"penalty_alpha compares the top_k likeliest tokens, and top_k is {self.top_k}; add it, such as top_k=4"
            )
        methods = {
            "prompt_lookup_num_tokens": self.prompt_lookup_num_tokens,
            "assistant_model": self.assistant_model,
            "penalty_alpha": self.penalty_alpha,
            f"num_beams={self.num_beams}": self.num_beams > 1 or None,
        }
        if len(asked := [name for name, value in methods.items() if value is not None]) > 1:
            raise UnsupportedError(
                f"{asked[0]} does not go with {asked[1]}: they are two methods; leave one out"
            )
        if self.penalty_alpha is not None and self.do_sample:
            raise UnsupportedError(
                "penalty_alpha does not go with do_sample=True: contrastive search draws nothing; leave one out"
            )

    def new_tokens(self, begun: int) -> int:
        """How many tokens may be appended to rows of `begun` tokens.

        Raises: ConfigError: `max_length` is no longer than the prompt, or `min_new_tokens` cannot be reached.
        """
        if self.max_length is None:
            most = NEW_TOKENS if self.max_new_tokens is None else self.max_new_tokens
        elif self.max_length <= begun:
            raise ConfigError(
                f"max_length is {self.max_length}, and the rows begin with {begun} tokens; max_length counts them "
                "too: give more, or say max_new_tokens"
            )
        else:
            most = self.max_length - begun
        if (self.min_new_tokens or 0) > most:
            raise ConfigError(
                f"min_new_tokens is {self.min_new_tokens}, and at most {most} new tokens are generated; "
                "raise max_new_tokens"
            )
        return most

    @property
    def strings(self) -> tuple[str, ...]:
        """The stop strings."""
        return _texts(self.stop_strings)

    def stop_ids(self, settings: Settings) -> tuple[int, ...]:
        """The tokens that end a row."""
        named = self.eos_token_id
        return settings.stop_ids if named is None else (named,) if isinstance(named, int) else tuple(named)

    def filters(
        self,
        settings: Settings,
        *,
        begun: int,
        new_tokens: int,
        source: Tensor | None = None,
        forced: Sequence[Filter] = (),
        tokenizer: Callable[[], Tokenizer],
    ) -> list[Filter]:
        """What becomes of the logits, in order: rules, what the folder forces, then the shape of a draw.

        Args:
            begun, new_tokens: how many tokens rows begin with, and how many may come.
            source: what an encoder reads, -1 where it is padding. [R, S]
            forced: what the folder suppresses and forces.
        """
        ends = self.stop_ids(settings)
        words = [list(word) for word in self.bad_words_ids or ()]
        for text in _texts(self.bad_words):
            spelled = [tokenizer().encode(before + text, add_special_tokens=False) for before in ("", " ")]
            words += [word for word in spelled if word and word not in words]
        found = [fused(scorer, weight, begun=begun) for scorer, weight in self.scorers or () if weight]
        if self.repetition_penalty not in (None, 1):
            found.append(change.repetition_penalty(float(self.repetition_penalty or 1)))
        if self.no_repeat_ngram_size:
            found.append(change.unrepeated(self.no_repeat_ngram_size))
        if self.encoder_no_repeat_ngram_size and source is not None:
            found.append(change.unrepeated(self.encoder_no_repeat_ngram_size, source=source))
        if words:
            found.append(change.without(words))
        if self.min_new_tokens and ends:
            found.append(change.suppress(ends, before=begun + self.min_new_tokens))
        if grammar := self._grammar():
            made = Constraint(
                grammar,
                tokenizer(),
                vocabulary=settings.vocabulary,
                begun=begun,
                ends=self.stop_ids(settings),
            )
            found.append(made)
        found += forced
        # An end that is forced would belie a constraint: it is said where a text matches.
        if (last := settings.ids("forced_eos_token_id")) and not grammar:
            found.append(change.only(last, at=begun + new_tokens - 1))
        if self.do_sample:
            # A beam search must be able to go on where one of its choices is an end token.
            least = 1 + len(ends) if self.num_beams > 1 else 1
            found += self.shape(least)
        return found

    def _grammar(self) -> Grammar | None:
        """What the text is constrained to."""
        if self.regex is not None:
            return constrain.regex(self.regex)
        if self.json_schema is not None:
            return constrain.json_schema(self.json_schema)
        return None if self.choices is None else constrain.choices(self.choices)

    def shape(self, least: int = 1) -> list[Filter]:
        """What shapes the distribution of a draw, keeping at least so many tokens; it comes after all rules."""
        shape: list[Filter] = []
        if self.temperature not in (None, 1):
            shape.append(change.temperature(float(self.temperature or 1)))
        if self.top_k:
            shape.append(change.top_k(self.top_k, least=least))
        if self.top_p is not None and self.top_p < 1:
            shape.append(change.top_p(self.top_p, least=least))
        if self.min_p:
            shape.append(change.min_p(self.min_p, least=least))
        if self.typical_p is not None and self.typical_p < 1:
            shape.append(change.typical(self.typical_p, least=least))
        return shape

    def first_seed(self) -> int:
        """The seed that was asked for, or one from torch's generator, which `torch.manual_seed` makes repeat."""
        return int(torch.randint(2**62, ())) if self.seed is None else self.seed


RULES = ("repetition_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids")
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p")
CONSTRAINTS = ("regex", "json_schema", "choices")
BEAMS = ("length_penalty", "early_stopping", "diversity_penalty")

INSTEAD = {
    "return_dict_in_generate": "return_scores=True gives a Generated",
    "output_scores": "return_scores=True gives log-probabilities",
    "output_logits": "return_scores=True gives log-probabilities",
    "min_length": "say min_new_tokens, which does not count the prompt",
    "streamer": "model.stream(…) yields pieces as they come",
    "stream": "model.stream(…) yields pieces as they come",
    "generator": "seed makes draws repeat",
    "assistant_tokenizer": "the assistant_model must have the same vocabulary",
}


# --------------------------------------------------------------------------------------------------------- one value


def _check(name: str, value: Any, vocabulary: int, where: str = "") -> None:
    """Raises: ConfigError: the value is not one that the option can have."""
    allowed, test = VALUES[name]
    if not test(value):
        raise ConfigError(f"{where}{name} is {shown(value)}; it must be {allowed}")
    for token in _ids_in(name, value):
        if token >= vocabulary:
            raise ConfigError(f"{where}{name} names the token {token}; allowed: 0 to {vocabulary - 1}")


def _ids_in(name: str, value: Any) -> list[int]:
    if name in ("eos_token_id", "forced_bos_token_id"):
        return [value] if isinstance(value, int) else list(value)
    return [token for word in value for token in word] if name == "bad_words_ids" else []


def _texts(value: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def _whole(x: Any, least: float = -math.inf) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x >= least


def _number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x)


def _ids(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and bool(x) and all(_whole(token, 0) for token in x)


def _some_texts(x: Any) -> bool:
    texts = (x,) if isinstance(x, str) else x
    return isinstance(texts, (list, tuple)) and bool(texts) and all(isinstance(t, str) and t for t in texts)


def _pairs(x: Any) -> bool:
    pairs = isinstance(x, (list, tuple)) and all(isinstance(p, (list, tuple)) and len(p) == 2 for p in x)
    return pairs and all(callable(scorer) and _number(weight) for scorer, weight in x)


def _from(least: int) -> tuple[str, Callable[[Any], bool]]:
    return f"a whole number from {least} up", lambda x: _whole(x, least)


SHARE = "a number above 0 and up to 1; 1 keeps all tokens", lambda x: _number(x) and 0 < x <= 1
TEXTS = "a text or a list of texts, none of them empty", _some_texts
SWITCH = "True or False", lambda x: isinstance(x, bool)

VALUES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "max_new_tokens": _from(0),
    "max_length": _from(1),
    "min_new_tokens": _from(0),
    "max_time": ("a number of seconds above 0", lambda x: _number(x) and x > 0),
    "eos_token_id": ("a token id, or a list of them", lambda x: _whole(x, 0) or _ids(x)),
    "stop_strings": TEXTS,
    "truncation": ("True, False, 'left' or 'right'", lambda x: isinstance(x, bool) or x in ("left", "right")),
    "forced_bos_token_id": ("a token id", lambda x: _whole(x, 0)),
    "repetition_penalty": ("a number above 0; 1 changes nothing", lambda x: _number(x) and x > 0),
    "no_repeat_ngram_size": _from(0),
    "encoder_no_repeat_ngram_size": _from(0),
    "bad_words_ids": (
        "a list of words, each a list of token ids, none of them empty",
        lambda x: isinstance(x, (list, tuple)) and bool(x) and all(_ids(word) for word in x),
    ),
    "bad_words": TEXTS,
    "regex": ("a regular expression", lambda x: isinstance(x, str)),
    "json_schema": ("a JSON schema: a dict, or JSON text", lambda x: isinstance(x, (str, Mapping))),
    "choices": ("a list of texts, none of them empty", lambda x: not isinstance(x, str) and _some_texts(x)),
    "scorers": ("a list of pairs (a scorer, its weight)", _pairs),
    "do_sample": SWITCH,
    "temperature": (
        "a number above 0; 1 changes nothing, and do_sample=False takes the likeliest token",
        lambda x: _number(x) and x > 0,
    ),
    "top_k": ("a whole number from 1 up, or 0 to keep all tokens", lambda x: _whole(x, 0)),
    "top_p": SHARE,
    "min_p": ("a number from 0 to 1; 0 keeps all tokens", lambda x: _number(x) and 0 <= x <= 1),
    "typical_p": SHARE,
    "seed": ("a whole number", _whole),
    "num_beams": _from(1),
    "length_penalty": ("a number; 0 compares sums of log-probabilities", _number),
    "early_stopping": ("True, False or 'never'", lambda x: isinstance(x, bool) or x == "never"),
    "num_beam_groups": _from(1),
    "diversity_penalty": ("a number from 0 up", lambda x: _number(x) and x >= 0),
    "penalty_alpha": ("a number from 0 to 1; 0 is greedy search", lambda x: _number(x) and 0 <= x <= 1),
    "prompt_lookup_num_tokens": _from(1),
    "max_matching_ngram_size": _from(1),
    "assistant_model": (
        "a smaller Model of the same vocabulary: glassformer.load(…)",
        lambda x: isinstance(getattr(x, "network", None), Network),
    ),
    "num_assistant_tokens": _from(1),
    "num_return_sequences": _from(1),
    "return_scores": SWITCH,
    "top": _from(0),
    "use_cache": SWITCH,
}
