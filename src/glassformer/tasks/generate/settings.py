"""Default generation settings of a task: recommended options (task_specific_params), lengths, and languages.

generation_config.json, or config.json           how it usually writes
  < config.json: task_specific_params[task]      how it writes for this task, and what it then reads before each text
  < the pipeline's own options < those of a call

`generate` alone searches greedily unless told otherwise; a pipeline does what is recommended, as Hugging Face's does.

mBART-50, NLLB, M2M-100    the source's code is around the text, the target's begins the answer
Marian of many languages   >>de<< before the text names the target
T5                         "translate English to German: " before the text; its config.json knows (task_specific_params)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glassformer.errors import ConfigError, nearest
from glassformer.files import check_count, safe_repr
from glassformer.generation.arguments import without_unused
from glassformer.generation.generate import generation_defaults
from glassformer.generation.options import BEAMS, RULES, SAMPLING, check_value
from glassformer.loaded_model import LoadedModel
from glassformer.text.tokenizer import Tokenizer

LENGTHS = ("max_new_tokens", "max_length", "min_new_tokens", "min_length")
METHOD = ("do_sample", "num_beams", "num_beam_groups", "prefix")
NEW_TOKENS = 256
"""Default `max_new_tokens` of a pipeline."""
_TRANSLATION = re.compile(r"translation_([\w-]+?)_to_([\w-]+)")


def recommended(model: LoadedModel, task: str) -> dict[str, Any]:
    """What the files of a model say of a task.

    Raises: ConfigError: `task_specific_params` is not what it should be.
    """
    settings = generation_defaults(model)
    names = (*LENGTHS, *METHOD, *RULES, *SAMPLING, *BEAMS)
    settings_of_task = {name: settings.get(name) for name in names}
    own = model.config.get("task_specific_params") or {}
    own = own.get(task) or {} if isinstance(own, Mapping) else None
    if not isinstance(own, Mapping):
        raise ConfigError("config.json: task_specific_params must be an object of objects, one for each task")
    settings_of_task |= {name: value for name, value in own.items() if name in settings_of_task}
    return {name: value for name, value in settings_of_task.items() if value is not None}


def completed(model: LoadedModel, task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call, and what the files recommend where it says nothing.

    Raises: ConfigError: a recommendation that is no value of its option, with its file.
    """
    settings, defaults = without_unused(options, recommended(model, task)), generation_defaults(model)
    own = (model.config.get("task_specific_params") or {}).get(task) or {}
    for name, value in settings.items():
        where = "config.json: task_specific_params: " if name in own else defaults.file_of(name)
        if name in options:
            pass  # checked by `generate`
        elif name == "prefix":
            check_prefix(value, where)
        elif name in LENGTHS:
            check_count(f"{where}{name}", value, 0)
        else:
            check_value(name, value, defaults.vocabulary, where)
    return settings


def check_prefix(prefix: Any, where: str = "") -> None:
    """Raises: ConfigError: no text.

    Args:
        where: prefix of the message
    """
    if not isinstance(prefix, str):
        raise ConfigError(f"{where}prefix is {safe_repr(prefix)}; it must be a text, which is before each input")


def limits(
    options: Mapping[str, Any], requested: Mapping[str, Any], *, begun: int, room: int | None
) -> tuple[int, int]:
    """How many new tokens there may and must be.

    Lengths count what a row begins with: the prompt, or an answer's start token. What is recommended gives way to the
    room that there is; what is asked for does not, and is an error where it does not fit.

    Args:
        begun: how many tokens a row begins with
        room: how many positions the model has; None = no end
    """
    lengths = {name: options[name] for name in LENGTHS if name in options}
    for name, value in lengths.items():
        check_count(name, value, 0)
    if {"max_new_tokens", "max_length"} <= requested.keys():
        raise ConfigError("max_new_tokens and max_length were both given; give one of them")
    most = lengths.get("max_new_tokens", NEW_TOKENS)
    if "max_length" in lengths and "max_new_tokens" not in lengths:
        most = lengths["max_length"] - begun
        if most <= 0 and "max_length" in requested:
            raise ConfigError(
                f"max_length is {lengths['max_length']}, and it counts the {begun} tokens that the row begins with; "
                "give more, or say max_new_tokens"
            )
        most = most if most > 0 else NEW_TOKENS
    if room is not None and not {"max_new_tokens", "max_length"} & requested.keys():
        most = max(1, min(most, room + 1 - begun))
    least = lengths.get("min_new_tokens", max(0, lengths.get("min_length", begun) - begun))
    if least > most and {"min_new_tokens", "min_length"} & requested.keys():
        raise ConfigError(
            f"at least {least} new tokens are asked for and at most {most} allowed; "
            "min_length and max_length count what the row begins with"
        )
    return most, min(least, most)


def split_task(task: str) -> tuple[str, str] | None:
    """ "translation_en_to_de" → ("en", "de")"""
    match = _TRANSLATION.fullmatch(task)
    return None if match is None else (match[1], match[2])


def code_of(tokenizer: Tokenizer, language: str) -> str | None:
    """The token that stands for a language, by its full code, or by the part before the country: "de" for "de_DE"."""
    added = _added_tokens(tokenizer)
    for spelled in (language, f"__{language}__", f">>{language}<<"):
        if spelled in added or (spelled.startswith(">>") and tokenizer.engine.token_to_id(spelled) is not None):
            return spelled
    longer = [token for token in added if token.startswith(f"{language}_")]
    return longer[0] if len(longer) == 1 else None


@dataclass(frozen=True)
class Direction:
    """Translation direction as language tokens or a text prefix.

    source: its code, among the special tokens around a text
    first: the token with which an answer begins
    prefix: what is before a text
    """

    source: str | None = None
    first: int | None = None
    prefix: str = ""


def direction(model: LoadedModel, source: str | None, target: str | None, *, strict: bool) -> Direction:
    """The options that set two languages.

    Args:
        strict: a language that it does not know is an error.
    Raises: ConfigError: that error.
    """
    tokenizer = model.tokenizer
    languages = {"src_lang": source, "tgt_lang": target}
    codes = {name: None if language is None else code_of(tokenizer, language) for name, language in languages.items()}
    to = codes["tgt_lang"]
    if to is not None and to.startswith(">>"):
        return Direction(prefix=f"{to} ")  # such models know the source by itself
    for name, language in languages.items():
        if strict and language is not None and codes[name] is None:
            raise ConfigError(
                f"{name} is {language!r}, and this tokenizer has no token for that language"
                f"{nearest(language, _added_tokens(tokenizer))}; "
                "leave it out for a model of two languages; T5 takes prefix='translate English to German: '"
            )
    return Direction(codes["src_lang"], None if to is None else tokenizer.engine.token_to_id(to))


def _added_tokens(tokenizer: Tokenizer) -> list[str]:
    return [token.content for token in tokenizer.engine.get_added_tokens_decoder().values()]
