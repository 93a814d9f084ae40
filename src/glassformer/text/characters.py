"""CTC character tokenizers of speech recognisers: `vocab.json` alone, letters, and `|` between words.

    "HI THERE"  ->  H I | T H E R E
    H H _ E L L _ L O O | | _ Y O U  ->  "HELLO YOU"      decoding: runs to one, blanks (_) out, | to space

A recogniser predicts a letter for every frame of audio. Connectionist temporal classification (CTC) decodes that:
repeats count once, and a blank (the pad token) between two equal letters keeps them two.

Source: Graves et al. 2006, section 3.1; Baevski et al. 2020, section 4.2.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from glassformer.errors import DataError, UnsupportedError
from glassformer.files import read_json_object
from glassformer.text.engine import OUTER_WHITESPACE, check_ids, check_unique_ids, guarded
from glassformer.text.settings import SPEECH_FAMILIES, SPEECH_ROLES, TokenizerSettings, option

FILES = ("vocab.json",)
FAMILIES = SPEECH_FAMILIES

MAX_CHARACTERS = 2**16
"""Chinese has a few thousand; where case is changed, each character costs a normalisation step of its own."""


def build(path: Path, settings: TokenizerSettings) -> tokenizers.Tokenizer:
    """Build the engine: spaces to `|` -> words -> characters; CTC decoding.

    Raises:
        DataError: the vocabulary is damaged or lacks the unknown token, the blank or the word delimiter.
        UnsupportedError: the file holds a vocabulary for each of several languages.
    """
    vocabulary = read_json_object(path, DataError, strict=False)
    if vocabulary and all(isinstance(part, dict) for part in vocabulary.values()):
        raise UnsupportedError(
            f"{path} holds a vocabulary for each of {len(vocabulary)} languages; put the one you need in its place"
        )
    check_ids(vocabulary, str(path))
    check_unique_ids(vocabulary, str(path))
    if len(vocabulary) > MAX_CHARACTERS:
        raise DataError(
            f"{path} has {len(vocabulary):,} entries; a character vocabulary has at most {MAX_CHARACTERS:,}; "
            "check that it is the right file"
        )
    config, config_path = settings.config, path.with_name("tokenizer_config.json")
    delimiter = option(config, "word_delimiter_token", str, "|", config_path)
    roles = {**SPEECH_ROLES, **settings.roles}
    _check_special_tokens(path, vocabulary, roles, delimiter)
    # Byte-pair encoding without merges is a vocabulary of characters.
    model = guarded(f"{path} is not usable", models.BPE, vocab=vocabulary, merges=[], unk_token=roles["unk"])
    engine = tokenizers.Tokenizer(model)
    # `do_lower_case` of these tokenizers: text to upper case on encoding, to lower case on decoding.
    changes_case = option(config, "do_lower_case", bool, False, config_path)
    to_upper = _upper_case(vocabulary) if changes_case else {}
    to_lower = {token: token.lower() for token in vocabulary if changes_case and token != token.lower()}
    engine.normalizer = normalizers.Sequence(
        [normalizers.Replace(old, new) for old, new in {" ": delimiter, **to_upper}.items()]
    )
    engine.pre_tokenizer = pre_tokenizers.Split(delimiter, behavior="isolated")
    engine.decoder = decoders.Sequence(
        [
            decoders.CTC(pad_token=roles["pad"], word_delimiter_token=delimiter, cleanup=False),
            *(decoders.Replace(old, new) for old, new in {delimiter: " ", **to_lower}.items()),
            decoders.Fuse(),
            decoders.Replace(OUTER_WHITESPACE, ""),
        ]
    )
    flags = {"lstrip": True, "rstrip": True, "normalized": False}
    unsplit = [token for token in vocabulary if len(token) > 1]
    engine.add_tokens([AddedToken(token, special=token in roles.values(), **flags) for token in unsplit])
    return engine


def _check_special_tokens(path: Path, vocabulary: dict[str, int], roles: dict[str, str], delimiter: str) -> None:
    needed = {
        roles["unk"]: "the unknown token",
        roles["pad"]: "the CTC blank",
        delimiter: "the word delimiter",
    }
    for token, use in needed.items():
        if token not in vocabulary:
            raise DataError(f"{path} lacks {token!r}, {use}; check the file")


def _upper_case(vocabulary: dict[str, int]) -> dict[str, str]:
    """Letter → upper case, where the vocabulary holds that, or it is several letters: ß is SS."""
    pairs = ((letter, letter.upper()) for letter in map(chr, range(sys.maxunicode + 1)))
    return {lower: upper for lower, upper in pairs if lower != upper and (len(upper) > 1 or upper in vocabulary)}
