"""Tokenizer folders that the tests of this package share, and wild text."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from tests.text import families


@pytest.fixture(scope="session")
def words() -> list[str]:
    """A small WordPiece vocabulary in which `time flies like an arrow` has pieces."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    plain = "time flies like an arrow fruit a banana fl ##ies ##s ! , . ' the un ##aff ##able ca ##fe don t".split()
    return [*special, *plain]


@pytest.fixture
def bert_folder(tmp_path: Path, words: list[str]) -> Path:
    """A BERT tokenizer as vocabulary file alone."""
    folder = tmp_path / "bert"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


STORY = "Once upon a time, there was a little girl named Lily. She didn't like rain, but the sun came out!\n"


@pytest.fixture(scope="session")
def gpt2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE tokenizer, trained here: vocab.json and merges.txt alone."""
    folder = tmp_path_factory.mktemp("gpt2")
    stories = Path(__file__).resolve().parents[3] / "shared" / "data" / "tinystories" / "stories.txt.gz"
    if stories.is_file():
        with gzip.open(stories, "rt", encoding="utf-8") as file:
            lines = [file.readline() for _ in range(3000)]
    else:
        lines = [STORY] * 50
    engine = tokenizers.Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    engine.train_from_iterator(lines, trainer)
    engine.model.save(str(folder))
    config = {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 1024}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def family_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The vocabulary files of a family (`model_type`), made once; to be read, not written."""
    root = tmp_path_factory.mktemp("families")
    return cache(lambda family: families.make(family, root / family))


@pytest.fixture
def family_copy(family_folder: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    """The same in a folder of one's own, with settings for `tokenizer_config.json`."""

    def copy(family: str, **settings: Any) -> Path:
        folder = shutil.copytree(family_folder(family), tmp_path / family, dirs_exist_ok=True)
        if settings:
            (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        return folder

    return copy


def wild_texts(count: int, seed: int) -> list[str]:
    """Random text: words, punctuation, accents, many scripts, controls, emoji, unassigned code points."""
    rng = random.Random(seed)
    common = ["the ", "time", " flies", "don't", "'ll", "  ", "\n\n", "\t", "İstanbul", "ﬁne", "2024", "…"]
    special = ["[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", "<unk>", "<|endoftext|>", "[UNK]", " [PAD] "]
    blocks = [
        lambda: chr(rng.randint(0x20, 0x7E)),
        lambda: chr(rng.randint(0x00, 0x17F)),
        lambda: chr(rng.randint(0x300, 0x36F)),
        lambda: chr(rng.randint(0x370, 0x1FFF)),
        lambda: chr(rng.randint(0x2000, 0x206F)),
        lambda: chr(rng.randint(0x4E00, 0x9FFF)),
        lambda: chr(rng.randint(0xAC00, 0xD7A3)),
        lambda: chr(rng.randint(0xE000, 0xFFFF)),
        lambda: chr(rng.randint(0x1F300, 0x1FAFF)),
        lambda: chr(rng.randint(0x10000, 0x10FFFF)),
        lambda: rng.choice(common),
        lambda: rng.choice(special),
    ]
    weights = [8, 3, 1, 2, 1, 1, 1, 1, 1, 1, 8, 0.3]
    return ["".join(draw() for draw in rng.choices(blocks, weights, k=rng.randint(0, 24))) for _ in range(count)]
