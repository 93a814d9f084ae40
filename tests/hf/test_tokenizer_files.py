"""Tokenizers of vocabulary files, by the classes of families: the same ids as in the reference library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import transformers

from glassformer import hf
from glassformer.errors import ConfigError, DataError

PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] time flies fly ##ing un ##want ##ed , .".split()
SYMBOLS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "t", "i", "m", "e", "Ġ", "f", "ti", "me", "time", "Ġf"]
MERGES = ["t i", "m e", "ti me", "Ġ f"]
TEXTS = ["time flies, unwanted.", "Flying time", "[MASK] fly"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "words.txt").write_text("\n".join(PIECES) + "\n")
    (tmp_path / "symbols.json").write_text(json.dumps({token: i for i, token in enumerate(SYMBOLS)}))
    (tmp_path / "pairs.txt").write_text("\n".join(["#version: 0.2", *MERGES]) + "\n")
    return {name.partition(".")[0]: str(tmp_path / name) for name in ("words.txt", "symbols.json", "pairs.txt")}


@pytest.mark.parametrize("name", ["BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizer"])
@pytest.mark.parametrize("options", [{}, {"do_lower_case": False}, {"unk_token": "[PAD]"}], ids=str)
def test_wordpiece(name: str, options: dict[str, Any], files: dict[str, str]) -> None:
    own = getattr(hf, name)(files["words"], **options)
    theirs = getattr(transformers, name)(files["words"], **options)
    for text in TEXTS:
        assert own(text)["input_ids"] == theirs(text)["input_ids"]
    assert own.special_tokens_map == theirs.special_tokens_map
    of_dict = getattr(hf, name)(vocab={token: i for i, token in enumerate(PIECES)}, **options)
    assert of_dict(TEXTS[0])["input_ids"] == own(TEXTS[0])["input_ids"]


@pytest.mark.parametrize("name", ["RobertaTokenizer", "BartTokenizer"])
def test_byte_pairs(name: str, files: dict[str, str]) -> None:
    theirs = getattr(transformers, name)(files["symbols"], files["pairs"])
    expected = theirs("time f")["input_ids"]
    vocab, pairs = {token: i for i, token in enumerate(SYMBOLS)}, [tuple(pair.split()) for pair in MERGES]
    assert getattr(hf, name)(files["symbols"], files["pairs"])("time f")["input_ids"] == expected
    named = getattr(hf, name)(vocab_file=files["symbols"], merges_file=files["pairs"])
    assert named("time f")["input_ids"] == expected
    assert getattr(hf, name)(vocab, pairs)("time f")["input_ids"] == expected


def test_what_makes_no_tokenizer_says_what_to_give(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give one of them"):
        hf.BertTokenizer()
    with pytest.raises(ConfigError, match="0, 1, … 1, each once"):
        hf.BertTokenizer({"[UNK]": 3, "a": 4})
    with pytest.raises(ConfigError, match="a file, or a dict"):
        hf.BertTokenizer(["a"])
    with pytest.raises(DataError, match=r"missing\.txt"):
        hf.BertTokenizer(tmp_path / "missing.txt")
    (tmp_path / "few.txt").write_text("a\n")
    with pytest.raises(DataError, match=f"^{tmp_path}/few.txt lacks"):
        hf.BertTokenizer(str(tmp_path / "few.txt"))


def test_a_tokenizers_own_class_reads_what_it_saved(files: dict[str, str], tmp_path: Path) -> None:
    tokenizer = hf.BertTokenizer(files["words"])
    tokenizer.save_pretrained(tmp_path / "saved")
    again = type(tokenizer).from_pretrained(tmp_path / "saved", model_max_length=43)
    assert again.model_max_length == 43 and again(TEXTS[0])["input_ids"] == tokenizer(TEXTS[0])["input_ids"]
