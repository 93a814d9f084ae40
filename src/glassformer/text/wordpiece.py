"""WordPiece tokenizers from `vocab.txt`, one token a line: the id is the line number.

    "Unaffable!"  ->  unaffable · !  ->  un ##aff ##able · !

Source: Devlin et al. 2019, section 3.
"""

from __future__ import annotations

from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from glassformer.errors import DataError
from glassformer.text.engine import check_ids
from glassformer.text.files import read_lines
from glassformer.text.settings import TokenizerSettings, option
from glassformer.text.special_tokens import BERT_ROLES

FILES = ("vocab.txt",)
FAMILIES = frozenset("bert bigbird convbert distilbert electra layoutlm lxmert mobilebert tapas".split())


def build(path: Path, settings: TokenizerSettings) -> tokenizers.Tokenizer:
    """Build the engine: clean, lower-case, strip accents -> split at space and punctuation -> longest match first."""
    vocabulary = {token: number for number, token in enumerate(read_lines(path))}
    check_ids(vocabulary, str(path))
    roles = {**BERT_ROLES, **settings.roles}
    for role in ("unk", "cls", "sep"):
        if roles[role] not in vocabulary:
            raise DataError(f"{path} lacks {roles[role]!r}, which every WordPiece text needs; check the file")
    config, config_path = settings.config, path.with_name("tokenizer_config.json")
    engine = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=roles["unk"]))
    engine.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=option(config, "tokenize_chinese_chars", bool, True, config_path),
        strip_accents=option(config, "strip_accents", bool, None, config_path),  # None: as lower-casing
        lowercase=option(config, "do_lower_case", bool, True, config_path),
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(prefix="##")
    return engine
