"""Post-processors: the special tokens around a text or a pair, as each family's model was trained.

    BERT      [CLS] A [SEP]        [CLS] A [SEP] B [SEP]       B and what follows have token type 1
    RoBERTa   <s> A </s>           <s> A </s> </s> B </s>
    T5        A </s>               A </s> B </s>
    Llama     <s> A                <s> A <s> B

A `tokenizer.json` holds its post-processor; these are for folders of vocabulary files.
"""

from __future__ import annotations

from pathlib import Path

import tokenizers
from tokenizers import processors

from glassformer.errors import DataError
from glassformer.text.engine import guarded
from glassformer.text.settings import DEFAULT_SPECIAL_TOKENS, TokenizerSettings, option

BERT = ("cls A sep", "cls A sep B:1 sep:1")
ROBERTA = ("cls A sep", "cls A sep sep B sep")
CLIP = ("bos A eos", "bos A eos eos B eos")
T5 = ("A eos", "A eos B eos")
PEGASUS = ("A eos", "A B eos")

TEMPLATES = {
    **dict.fromkeys("albert bert bigbird convbert distilbert electra layoutlm lxmert mobilebert tapas".split(), BERT),
    **dict.fromkeys("bart data2vectext led longformer roberta xlmroberta".split(), ROBERTA),
    **dict.fromkeys(("clip", "clipseg"), CLIP),
    **dict.fromkeys("t5 mt5 longt5".split(), T5),
    **dict.fromkeys(("pegasus", "marian"), PEGASUS),
}
"""Templates of one text and of a pair: roles of special tokens, A and B for the texts; `:1` marks token type 1."""

BOS_BY_DEFAULT = {"llama": True, "mistral": True, "mixtral": True, "phi3": True, "gpt2": False}
"""Whether a family's texts begin with its bos token where `add_bos_token` does not say."""


def add_post_processor(engine: tokenizers.Tokenizer, settings: TokenizerSettings, folder: Path) -> None:
    """Set the post-processor that puts the family's special tokens around each text.

    Raises: DataError: a token that belongs there is not in the vocabulary.
    """
    config, config_path = settings.config, folder / "tokenizer_config.json"
    roles = {**DEFAULT_SPECIAL_TOKENS.get(settings.family, {}), **settings.roles}
    if settings.family in TEMPLATES:
        single, pair = TEMPLATES[settings.family]
    elif settings.family in BOS_BY_DEFAULT:
        before = "bos" if option(config, "add_bos_token", bool, BOS_BY_DEFAULT[settings.family], config_path) else ""
        after = "eos" if option(config, "add_eos_token", bool, False, config_path) else ""
        single = f"{before} A {after}"
        pair = f"{single} {before and 'bos:1'} B:1 {after and 'eos:1'}"
    elif settings.family == "mbart":
        roles["language"] = option(config, "src_lang", str, "en_XX", config_path)
        single, pair = "A eos language", "A B eos language"
    elif settings.family == "whisper":
        prompt = _whisper_prompt(settings, config_path)
        roles |= prompt
        single, pair = f"{' '.join(prompt)} A eos", f"{' '.join(prompt)} A B:1 eos:1"
    else:
        return
    _set_template(engine, single.split(), pair.split(), roles, folder)


def _whisper_prompt(settings: TokenizerSettings, config_path: Path) -> dict[str, str]:
    """Whisper's first tokens by role: start, language and task if the settings name them, no timestamps."""
    config = settings.config
    language = option(config, "language", str, "", config_path)
    task = option(config, "task", str, "", config_path)
    names = {"start": "startoftranscript", "language": language, "task": task, "timestamps": "notimestamps"}
    if option(config, "predict_timestamps", bool, False, config_path):
        del names["timestamps"]
    return {role: f"<|{name}|>" for role, name in names.items() if name}


def _set_template(
    engine: tokenizers.Tokenizer, single: list[str], pair: list[str], roles: dict[str, str], folder: Path
) -> None:
    used = {part.partition(":")[0] for part in single + pair} - {"A", "B"}
    if not used:
        return
    for role in sorted(used):
        if role not in roles or engine.token_to_id(roles[role]) is None:
            raise DataError(
                f"{folder}: the vocabulary lacks {roles.get(role)!r}, the {role} token, which every text needs; "
                "check the vocabulary and tokenizer_config.json"
            )
    template = guarded(
        f"{folder}: its special tokens do not make a post-processor",
        processors.TemplateProcessing,
        single=_template_pieces(single, roles),
        pair=_template_pieces(pair, roles),
        special_tokens=[(roles[role], engine.token_to_id(roles[role])) for role in sorted(used)],
    )
    before = engine.post_processor  # byte-level BPE has one that trims offsets; it runs first
    engine.post_processor = processors.Sequence([before, template]) if before is not None else template


def _template_pieces(parts: list[str], roles: dict[str, str]) -> list[str]:
    """The engine's spelling of a template: "cls A sep B:1" -> "[CLS]:0", "$A:0", "[SEP]:0", "$B:1" """
    pieces = []
    for part in parts:
        role, _, token_type = part.partition(":")
        pieces.append(f"{roles.get(role, '$' + role)}:{token_type or 0}")
    return pieces
