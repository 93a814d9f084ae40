"""Language codes of multilingual models: how a tokenizer spells "de", and where the code goes.

mBART-50, NLLB, M2M-100    the source's code stands around the text, the target's begins the answer
Marian of many languages   >>de<< before the text names the target
T5                         "translate English to German: " before the text; its config.json knows (task_specific_params)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from glassformer.errors import ConfigError, nearest
from glassformer.model import Model
from glassformer.text.tokenizer import Tokenizer

TASK = re.compile(r"translation_([\w-]+?)_to_([\w-]+)")


def split_task(task: str) -> tuple[str, str] | None:
    """ "translation_en_to_de" → ("en", "de")"""
    match = TASK.fullmatch(task)
    return None if match is None else (match[1], match[2])


def code_of(tokenizer: Tokenizer, language: str) -> str | None:
    """The token that stands for a language, by its full code, or by the part before the country: "de" for "de_DE"."""
    added = [token.content for token in tokenizer.engine.get_added_tokens_decoder().values()]
    for spelled in (language, f"__{language}__", f">>{language}<<"):
        if spelled in added or (
            spelled.startswith(">>") and tokenizer.engine.token_to_id(spelled) is not None
        ):
            return spelled
    longer = [token for token in added if token.startswith(f"{language}_")]
    return longer[0] if len(longer) == 1 else None


@dataclass(frozen=True)
class Direction:
    """From one language to another, as a model is told.

    source: its code, among the special tokens around a text · first: the token with which an answer begins
    prefix: what stands before a text
    """

    source: str | None = None
    first: int | None = None
    prefix: str = ""


def direction(model: Model, source: str | None, target: str | None, *, strict: bool) -> Direction:
    """What a model is told of two languages.

    Args:
        strict: a language that it does not know is an error.
    Raises: ConfigError: that error.
    """
    tokenizer = model.tokenizer
    codes = {
        name: None if language is None else code_of(tokenizer, language)
        for name, language in (("src_lang", source), ("tgt_lang", target))
    }
    to = codes["tgt_lang"]
    if to is not None and to.startswith(">>"):
        return Direction(prefix=f"{to} ")  # such models know the source by itself
    for name, language in (("src_lang", source), ("tgt_lang", target)):
        if strict and language is not None and codes[name] is None:
            added = [token.content for token in tokenizer.engine.get_added_tokens_decoder().values()]
            raise ConfigError(
                f"{name} is {language!r}, and this tokenizer has no token for that language{nearest(language, added)}; "
                "leave it out for a model of two languages; T5 is told by prefix='translate English to German: '"
            )
    return Direction(codes["src_lang"], None if to is None else tokenizer.engine.token_to_id(to))


def reading(model: Model, source: str) -> Model:
    """The same model, its tokenizer set to texts of a language."""
    return Model(
        model.network,
        model.family,
        model.spec,
        model.config,
        model.task,
        tokenizer=model.tokenizer.in_language(source),
        report=model.report,
        folder=model.folder,
        own_head=model.own_head,
        generation_config=model.generation_config,
    )
