"""Byte-pair encoding as each family begins it, by hand; what does not belong together is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.errors import DataError, UnsupportedError
from glassformer.text import Tokenizer
from tests.text.conftest import wild_texts


def write(folder: Path, family: str, tokens: list[str], merges: str, **settings: object) -> Path:
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    (folder / "vocab.json").write_text(json.dumps({token: n for n, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}", encoding="utf-8")
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


ROBERTA = "<s> <pad> </s> <unk> l o w Ġ lo low Ġlow <mask>".split()
LOW = "l o\nlo w\nĠ low\n"


def test_roberta_frames_a_text(tmp_path: Path) -> None:
    ours = Tokenizer.from_folder(write(tmp_path, "roberta", ROBERTA, LOW))
    assert ours.encode("low low") == [0, 9, 10, 2]
    assert ours("low", "low")["input_ids"] == [0, 9, 2, 2, 9, 2]
    assert ours("low low").offsets() == [(0, 0), (0, 3), (4, 7), (0, 0)]  # without the space
    assert ours.encode("low <mask>") == [0, 9, 11, 2]  # the mask takes it
    assert ours.special_tokens == {
        "bos": "<s>",
        "eos": "</s>",
        "unk": "<unk>",
        "sep": "</s>",
        "pad": "<pad>",
        "cls": "<s>",
        "mask": "<mask>",
    }
    write(tmp_path, "roberta", ROBERTA, LOW, add_prefix_space=True)
    assert Tokenizer.from_folder(tmp_path).encode("low") == [0, 10, 2]


def test_the_class_that_the_files_name_decides(tmp_path: Path) -> None:
    """A RoBERTa with GPT-2's tokenizer has no frame."""
    write(tmp_path, "roberta", ROBERTA, LOW, tokenizer_class="GPT2TokenizerFast")
    assert Tokenizer.from_folder(tmp_path).encode("low") == [9]


def test_gpt_neox_composes_accents_first(tmp_path: Path) -> None:
    tokens = [*"Ã©e", "Ã©", "<|endoftext|>", "<|padding|>"]
    ours = Tokenizer.from_folder(write(tmp_path, "gpt_neox", tokens, "Ã ©\n"))
    assert ours.encode("é") == ours.encode("e\N{COMBINING ACUTE ACCENT}") == [3]
    assert ours.special_tokens == {**dict.fromkeys(("bos", "eos", "unk"), "<|endoftext|>"), "pad": "<|padding|>"}
    write(tmp_path, "gpt_neox", tokens, "Ã ©\n", add_bos_token=True)
    assert Tokenizer.from_folder(tmp_path).encode("e") == [4, 2]


def test_clip_closes_words(tmp_path: Path) -> None:
    """Lower case, no spaces, `</w>` at the end of a word, digits one by one, English endings apart."""
    letters = [*"lows2'", *(f"{letter}</w>" for letter in "lows2'")]
    tokens = [*letters, "lo", "low</w>", "'s</w>", "<|startoftext|>", "<|endoftext|>"]
    ours = Tokenizer.from_folder(write(tmp_path, "clip", tokens, "l o\nlo w</w>\n' s</w>\n"))
    encoding = ours("  LOW's\tlow2 2low")
    assert encoding.tokens()[1:-1] == ["low</w>", "'s</w>", "low</w>", "2</w>", "2</w>", "low</w>"]
    assert encoding["input_ids"][:1] + encoding["input_ids"][-1:] == [15, 16]
    assert ours.decode(encoding["input_ids"], skip_special_tokens=True) == "low 's low 2 2 low"
    assert ours("low", "low")["input_ids"] == [15, 13, 16, 16, 13, 16]
    assert ours.pad_token_id == 16
    assert ours.encode("é") == [15, 16, 16, 16]  # two bytes, neither in this vocabulary: unknown, twice


def test_the_first_gpt_closes_words_of_characters(tmp_path: Path) -> None:
    tokens = ["<unk>", *"low", "o</w>", "w</w>", "!</w>", "lo", "low</w>"]
    ours = Tokenizer.from_folder(write(tmp_path, "openai-gpt", tokens, "l o\nlo w</w>\n"))
    assert ours("Löw, low!").tokens() == ["low</w>", "<unk>", "low</w>", "!</w>"]
    assert ours.decode(ours.encode("low low!")) == "low low !"


WHISPER = "l o w Ġ lo low Ġlow <|endoftext|>".split()
PROMPT = "<|startoftranscript|> <|de|> <|transcribe|> <|notimestamps|>".split()


@pytest.mark.parametrize(
    ("settings", "prompt"),
    [
        ({}, [8, 11]),
        ({"language": "de", "task": "transcribe"}, [8, 9, 10, 11]),
        ({"predict_timestamps": True}, [8]),
    ],
)
def test_whisper_begins_with_its_prompt(tmp_path: Path, settings: dict[str, object], prompt: list[int]) -> None:
    added = {token: len(WHISPER) + n for n, token in enumerate(PROMPT)}
    (tmp_path / "added_tokens.json").write_text(json.dumps(added))
    ours = Tokenizer.from_folder(write(tmp_path, "whisper", WHISPER, LOW, **settings))
    assert ours.encode("low low") == [*prompt, 5, 6, 7]
    assert ours("low", "low")["input_ids"] == [*prompt, 5, 5, 7]


@pytest.mark.parametrize("family", ["roberta", "whisper"])
def test_every_text_comes_back_from_bytes(family_folder: Callable[[str], Path], family: str) -> None:
    ours = Tokenizer.from_folder(family_folder(family))
    for text in wild_texts(1000, seed=31):
        ids = ours(text, special_tokens_as_text=True, add_special_tokens=False)["input_ids"]
        assert ours.decode(ids) == text


@pytest.mark.parametrize(
    ("family", "tokens", "merges", "settings", "message"),
    [
        ("roberta", ROBERTA, "l x\n", {}, "vocab.json and merges.txt do not fit each other"),
        ("roberta", ROBERTA, "l w\n", {}, "vocab.json and merges.txt do not fit each other"),
        ("roberta", ROBERTA[3:], LOW, {}, "lacks '<s>', the cls token, which every text needs"),
        ("clip", WHISPER, "l o\n", {}, "lacks '<|startoftext|>', the bos token"),
        ("clip", WHISPER[:-1], "l o\n", {}, "lacks '<|endoftext|>', the unknown token"),
        ("openai-gpt", WHISPER, "l o\n", {}, "lacks '<unk>', the unknown token"),
        ("whisper", WHISPER, LOW, {}, "lacks '<|startoftranscript|>', the start token"),
        ("whisper", WHISPER + PROMPT, LOW, {"language": "german"}, "lacks '<|german|>', the language token"),
    ],
)
def test_files_that_do_not_fit(
    tmp_path: Path, family: str, tokens: list[str], merges: str, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError) as caught:
        Tokenizer.from_folder(write(tmp_path, family, tokens, merges, **settings))
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_two_tokens_with_one_id(tmp_path: Path) -> None:
    write(tmp_path, "roberta", ROBERTA, LOW)
    (tmp_path / "vocab.json").write_text('{"l": 0, "o": 1, "w": 1}')
    with pytest.raises(DataError, match="'o' and 'w' both have the id 1"):
        Tokenizer.from_folder(tmp_path)


@pytest.mark.parametrize("family", ["xlm", "flaubert", "ctrl", "qwen2"])
def test_families_that_mean_something_else_by_these_files(tmp_path: Path, family: str) -> None:
    """XLM, for one, first rewrites the text with the rules of another tool."""
    with pytest.raises(UnsupportedError, match=f"of a '{family}' model cannot be built from"):
        Tokenizer.from_folder(write(tmp_path, family, WHISPER, LOW))
