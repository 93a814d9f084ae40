"""The character vocabulary of speech recognisers: `vocab.json` alone, letters, and `|` between words.

    "HI THERE"  ->  H I | T H E R E
    H H _ E L L _ L O O | | _ Y O U  ->  "HELLO YOU"      decoding: runs to one, blanks (_) out, | to space

A recogniser answers a letter for every stretch of sound. Connectionist temporal classification reads that: what
is repeated counts once, and a blank (the pad token) between two equal letters keeps them two.

Source: Graves et al. 2006, section 3.1; Baevski et al. 2020, section 4.2.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from glassformer.errors import DataError, UnsupportedError
from glassformer.text.engine import AT_THE_ENDS, check_ids, check_one_id_each, guarded
from glassformer.text.files import read_json_object
from glassformer.text.special import SPEECH, SPEECH_ROLES, Settings, option

FILES = ("vocab.json",)
FAMILIES = SPEECH

MOST_LETTERS = 2**16
"""Chinese has a few thousand; each is a step of its own where letters change their case."""


def build(path: Path, settings: Settings) -> tokenizers.Tokenizer:
    """Spaces to `|` -> words -> characters; decoding as connectionist temporal classification.

    Raises:
        DataError: the vocabulary is damaged or lacks the unknown token, the blank or the word delimiter.
        UnsupportedError: the file holds a vocabulary for each of several languages.
    """
    vocabulary = read_json_object(path)
    if vocabulary and all(isinstance(part, dict) for part in vocabulary.values()):
        raise UnsupportedError(
            f"{path} holds a vocabulary for each of {len(vocabulary)} languages; "
            "put the one you need in its place"
        )
    check_ids(vocabulary, str(path))
    check_one_id_each(vocabulary, str(path))
    if len(vocabulary) > MOST_LETTERS:
        raise DataError(
            f"{path} has {len(vocabulary):,} entries, more than the {MOST_LETTERS:,} that a vocabulary of letters may "
            "have; check that it is the right file"
        )
    config, config_path = settings.config, path.with_name("tokenizer_config.json")
    delimiter = option(config, "word_delimiter_token", str, "|", config_path)
    roles = {**SPEECH_ROLES, **settings.roles}
    needed = {
        roles["unk"]: "stands for what is unknown",
        roles["pad"]: "is the blank between letters",
        delimiter: "stands between words",
    }
    for token, use in needed.items():
        if token not in vocabulary:
            raise DataError(f"{path} lacks {token!r}, which {use}; check the file")

    # Byte-pair encoding without merges: the characters themselves.
    model = guarded(f"{path} is not usable", models.BPE, vocab=vocabulary, merges=[], unk_token=roles["unk"])
    engine = tokenizers.Tokenizer(model)
    in_capitals = option(config, "do_lower_case", bool, False, config_path)
    capitals = _capitals(vocabulary) if in_capitals else {}
    small = {token: token.lower() for token in vocabulary if in_capitals and token != token.lower()}
    engine.normalizer = normalizers.Sequence(
        [normalizers.Replace(old, new) for old, new in {" ": delimiter, **capitals}.items()]
    )
    engine.pre_tokenizer = pre_tokenizers.Split(delimiter, behavior="isolated")
    engine.decoder = decoders.Sequence(
        [
            decoders.CTC(pad_token=roles["pad"], word_delimiter_token=delimiter, cleanup=False),
            *(decoders.Replace(old, new) for old, new in {delimiter: " ", **small}.items()),
            decoders.Fuse(),
            decoders.Replace(AT_THE_ENDS, ""),
        ]
    )
    flags = {"lstrip": True, "rstrip": True, "normalized": False}
    whole = [token for token in vocabulary if len(token) > 1]
    engine.add_tokens([AddedToken(token, special=token in roles.values(), **flags) for token in whole])
    return engine


def _capitals(vocabulary: dict[str, int]) -> dict[str, str]:
    """The letters whose capital the vocabulary holds, or that become several: ß is SS."""
    pairs = ((letter, letter.upper()) for letter in map(chr, range(sys.maxunicode + 1)))
    return {
        small: capital
        for small, capital in pairs
        if small != capital and (len(capital) > 1 or capital in vocabulary)
    }
