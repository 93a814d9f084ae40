"""The special tokens that stand around a text, or around two, as each family's model was trained.

    BERT      [CLS] A [SEP]        [CLS] A [SEP] B [SEP]       B and what follows are segment 1
    RoBERTa   <s> A </s>           <s> A </s> </s> B </s>
    T5        A </s>               A </s> B </s>
    Llama     <s> A                <s> A <s> B

A `tokenizer.json` says this itself; here it is for families that come as vocabulary files.
"""

from __future__ import annotations

from pathlib import Path

import tokenizers
from tokenizers import processors

from glassformer.errors import DataError
from glassformer.text.engine import guarded
from glassformer.text.special import CONVENTIONS, Settings, option

BERT = ("cls A sep", "cls A sep B:1 sep:1")
ROBERTA = ("cls A sep", "cls A sep sep B sep")
CLIP = ("bos A eos", "bos A eos eos B eos")
T5 = ("A eos", "A eos B eos")
PEGASUS = ("A eos", "A B eos")

FRAMES = {
    **dict.fromkeys(
        "albert bert bigbird convbert distilbert electra layoutlm lxmert mobilebert tapas".split(), BERT
    ),
    **dict.fromkeys("bart data2vectext led longformer roberta xlmroberta".split(), ROBERTA),
    **dict.fromkeys(("clip", "clipseg"), CLIP),
    **dict.fromkeys("t5 mt5 longt5".split(), T5),
    **dict.fromkeys(("pegasus", "marian"), PEGASUS),
}
"""One text, and two: the roles of special tokens, A and B for the texts; `:1` is what segment 1 begins to be."""

BEGUN = {"llama": True, "mistral": True, "mixtral": True, "phi3": True, "gpt2": False}
"""Families that begin with their bos token, unless `add_bos_token` says otherwise; GPT-2 only where it says so."""


def frame(engine: tokenizers.Tokenizer, settings: Settings, folder: Path) -> None:
    """Have the engine put the family's special tokens around each text.

    Raises: DataError: a token that belongs there is not in the vocabulary.
    """
    config, config_path = settings.config, folder / "tokenizer_config.json"
    roles = {**CONVENTIONS.get(settings.family, {}), **settings.roles}
    if settings.family in FRAMES:
        single, pair = FRAMES[settings.family]
    elif settings.family in BEGUN:
        before = "bos" if option(config, "add_bos_token", bool, BEGUN[settings.family], config_path) else ""
        after = "eos" if option(config, "add_eos_token", bool, False, config_path) else ""
        single = f"{before} A {after}"
        pair = f"{single} {before and 'bos:1'} B:1 {after and 'eos:1'}"
    elif settings.family == "mbart":
        roles["language"] = option(config, "src_lang", str, "en_XX", config_path)
        single, pair = "A eos language", "A B eos language"
    elif settings.family == "whisper":
        prompt = _prompt(settings, config_path)
        roles |= prompt
        single, pair = f"{' '.join(prompt)} A eos", f"{' '.join(prompt)} A B:1 eos:1"
    else:
        return
    _set_template(engine, single.split(), pair.split(), roles, folder)


def _prompt(settings: Settings, config_path: Path) -> dict[str, str]:
    """Whisper's first tokens: start, the language and the task if the settings name them, without times."""
    config = settings.config
    language = option(config, "language", str, "", config_path)
    task = option(config, "task", str, "", config_path)
    names = {"start": "startoftranscript", "spoken": language, "task": task, "times": "notimestamps"}
    if option(config, "predict_timestamps", bool, False, config_path):
        del names["times"]
    return {place: f"<|{name}|>" for place, name in names.items() if name}


def _set_template(
    engine: tokenizers.Tokenizer, single: list[str], pair: list[str], roles: dict[str, str], folder: Path
) -> None:
    used = {part.partition(":")[0] for part in single + pair} - {"A", "B"}
    if not used:
        return
    for role in sorted(used):
        if role not in roles or engine.token_to_id(roles[role]) is None:
            raise DataError(
                f"{folder}: the vocabulary lacks {roles.get(role)!r}, the {role} token that stands around every text; "
                "check the vocabulary and tokenizer_config.json"
            )
    template = guarded(
        f"{folder}: its special tokens cannot stand around a text",
        processors.TemplateProcessing,
        single=_parts(single, roles),
        pair=_parts(pair, roles),
        special_tokens=[(roles[role], engine.token_to_id(roles[role])) for role in sorted(used)],
    )
    before = engine.post_processor  # one that trims the places of the pieces
    engine.post_processor = processors.Sequence([before, template]) if before is not None else template


def _parts(places: list[str], roles: dict[str, str]) -> list[str]:
    """ "cls A sep B:1" -> "[CLS]:0", "$A:0", "[SEP]:0", "$B:1" """
    parts = []
    for place in places:
        role, _, segment = place.partition(":")
        parts.append(f"{roles.get(role, '$' + role)}:{segment or 0}")
    return parts
