"""WordPiece vocabularies of other families than BERT's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.errors import UnsupportedError
from glassformer.text import Tokenizer

TOKENS = "[PAD] [UNK] [CLS] [SEP] [MASK] [EMPTY] a time [ ] empty".split()


def write(folder: Path, family: str, tokens: list[str] = TOKENS) -> Path:
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    return folder


@pytest.mark.parametrize("family", ["bert", "big_bird", "layoutlm", "lxmert", "tapas"])
def test_the_frame_is_that_of_bert(tmp_path: Path, family: str) -> None:
    ours = Tokenizer.from_folder(write(tmp_path, family))
    assert ours.encode("A time!") == [2, 6, 7, 1, 3]
    assert ours("a", "time")["input_ids"] == [2, 6, 3, 7, 3]
    assert (ours.unk_token_id, ours.pad_token_id, ours.mask_token_id) == (1, 0, 4)


def test_tapas_has_a_token_for_an_empty_cell(tmp_path: Path) -> None:
    assert Tokenizer.from_folder(write(tmp_path, "tapas")).encode("a [EMPTY]") == [2, 6, 5, 3]
    assert Tokenizer.from_folder(write(tmp_path, "bert")).encode("a [EMPTY]") == [2, 6, 8, 10, 9, 3]


@pytest.mark.parametrize("family", ["mpnet", "funnel"])
def test_families_with_another_frame(tmp_path: Path, family: str) -> None:
    with pytest.raises(UnsupportedError, match=f"of a '{family}' model cannot be built from .*vocab.txt"):
        Tokenizer.from_folder(write(tmp_path, family))
