"""Tokenizers that are learned: the same at every run, the same ids here and in the reference library."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import glassformer
from glassformer.errors import ConfigError, DataError
from glassformer.text import Tokenizer
from glassformer.text.train import train_tokenizer
from glassformer.text.untrained import DEFAULT_FAMILIES
from tests.text.conftest import wild_texts
from tests.text.families import lines

LINES = lines()[:250]

EVERY: list[dict[str, Any]] = [
    *({"kind": kind} for kind in DEFAULT_FAMILIES),
    {"kind": "wordpiece", "lower": True, "special": ("<user>",)},
    {"kind": "wordpiece", "lower": True, "strip_accents": True},
    {"kind": "byte-bpe", "family": "roberta"},
    {"kind": "byte-bpe", "family": "llama", "lower": True},
    {"kind": "unigram", "family": "t5", "lower": True},
    {"kind": "unigram", "family": "marian"},
    {"kind": "byte-bpe", "lower": True, "strip_accents": True},
    {"kind": "words", "lower": True, "min_frequency": 2},
    {"kind": "words", "family": "t5"},
    {"kind": "characters", "lower": True, "strip_accents": True},
    {"kind": "characters", "family": "bert"},
]


@cache
def trained(**options: Any) -> Tokenizer:
    return train_tokenizer(LINES, size=600, **options)


def named(options: dict[str, Any]) -> str:
    return "-".join(map(str, options.values()))


@pytest.mark.parametrize("options", EVERY, ids=named)
def test_the_same_ids_here_saved_and_in_the_reference_library(tmp_path: Path, options: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers", reason="compares with it: pip install 'glassformer[reference]'")
    tokenizer = trained(**options)
    tokenizer.save(tmp_path)
    again, reference = Tokenizer.from_folder(tmp_path), transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in [*LINES[:60], *wild_texts(60, seed=1)]:
        ids = tokenizer.encode(text)
        assert again.encode(text) == ids == reference(text)["input_ids"], text
    pair = tokenizer("fruit flies", "like a banana")
    assert dict(reference("fruit flies", "like a banana")) == dict(pair)
    full = 600 + 100 * (options.get("family") == "t5")
    assert len(tokenizer) == full or (len(tokenizer) < full and options["kind"] in ("words", "characters"))
    for role in ("cls", "sep", "pad", "mask", "unk", "eos"):
        if token := tokenizer.vocabulary.token_of(role):
            assert getattr(again, f"{role}_token") == token and again.convert_tokens_to_ids(
                token
            ) == tokenizer.vocabulary.id_of(role)


@pytest.mark.parametrize("kind", DEFAULT_FAMILIES)
def test_lower_case_keeps_accents_unless_they_are_stripped(kind: str) -> None:
    texts = ["Zoë ate crème brûlée in a café", "Zoe's creme"] * 20
    size = 270 if kind == "byte-bpe" else 40
    for strip_accents, words in ((False, "zoë café"), (True, "zoe cafe")):
        tokenizer = train_tokenizer(texts, kind=kind, size=size, lower=True, strip_accents=strip_accents)
        assert tokenizer.decode(tokenizer.encode("ZOË CAFÉ"), skip_special_tokens=True).strip() == words


def test_special_tokens_stand_where_the_families_have_them() -> None:
    def tokens_of(text: str, **options: Any) -> list[str]:
        return [piece.token for piece in trained(**options).explain(text).final]

    def first(count: int, **options: Any) -> list[str]:
        return list(trained(**options).convert_ids_to_tokens(range(count)))

    assert first(5, kind="wordpiece") == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert first(1, kind="byte-bpe") == ["<|endoftext|>"]
    assert first(5, kind="unigram") == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    assert first(3, kind="unigram", family="t5", lower=True) == ["<pad>", "</s>", "<unk>"]
    assert first(6, kind="wordpiece", special=("<user>", "[MASK]"))[-1] == "<user>"
    assert tokens_of("the", kind="wordpiece") == ["[CLS]", "the", "[SEP]"]
    assert tokens_of(" the", kind="byte-bpe") == ["Ġthe"]
    assert tokens_of("the", kind="unigram") == ["<s>", "▁the", "</s>"]
    assert tokens_of("the", kind="unigram", family="t5", lower=True) == ["▁the", "</s>"]
    t5 = trained(kind="unigram", family="t5", lower=True)
    assert t5.convert_tokens_to_ids(["<extra_id_99>", "<extra_id_0>"]) == [600, 699]


@pytest.mark.parametrize("kind", DEFAULT_FAMILIES)
def test_another_process_learns_the_same_file(tmp_path: Path, kind: str) -> None:
    """Within one process, the engine's hash tables might happen to agree."""
    program = (
        "import sys; from glassformer.text.train import train_tokenizer; from tests.text.test_train import LINES\n"
        f"train_tokenizer(LINES, kind={kind!r}, size=600).save(sys.argv[1])"
    )
    trained(kind=kind).save(tmp_path / "here")
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "there")], check=True, cwd=root, timeout=120)
    here, there = (tmp_path / name / "tokenizer.json" for name in ("here", "there"))
    assert here.read_bytes() == there.read_bytes()


def test_words_are_the_frequent_ones_and_every_other_is_unknown() -> None:
    texts = ["time flies like an arrow", "fruit flies like a banana", "flies fly"]
    tokenizer = train_tokenizer(iter(texts), kind="words", size=8, special=["<user>"])
    # Special tokens first, then by count, then in the order of the alphabet.
    assert tokenizer.convert_ids_to_tokens(range(8)) == [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "<user>",
        "flies",
        "like",
    ]
    assert tokenizer.tokenize("Bananas flies <user>") == ["[UNK]", "flies", "<user>"]
    every = train_tokenizer(texts, kind="words", lower=True)
    assert len(every) == 5 + len({word for text in texts for word in text.split()})
    assert len(train_tokenizer(texts, kind="words", min_frequency=2)) == 5 + 2
    assert every.decode(every.encode("An arrow flies"), skip_special_tokens=True) == "an arrow flies"


def test_characters_are_lossless_and_those_of_the_texts_alone() -> None:
    texts = [f"{line}\n\tä {line}" for line in LINES[:50]]
    tokenizer = train_tokenizer(texts, kind="characters")
    alphabet = {character for text in texts for character in text}
    assert len(tokenizer) == 3 + len(alphabet) and set(tokenizer.get_vocab()) == {"<unk>", "<s>", "</s>"} | alphabet
    for text in [*texts, " \n\n  \t ", "".join(sorted(alphabet))]:
        assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) == text
        assert len(tokenizer.encode(text, add_special_tokens=False)) == len(text)
    assert tokenizer.tokenize("a☃") == ["a", "<unk>"] and tokenizer.encode("☃", add_special_tokens=False) == [0]


def test_letters_of_a_recogniser_are_asked_for_by_its_family() -> None:
    letters = train_tokenizer(["HELLO YOU"], kind="characters", family="wav2vec2")
    assert letters.tokenize("HELLO YOU") == [*"HELLO|YOU"] and letters.pad_token == "<pad>"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "words", "size": 5}, "size leaves no room"),
        ({"kind": "words", "min_frequency": 99}, "occurs 99 times"),
        ({"kind": "words", "min_frequency": 0}, "min_frequency is 0"),
        ({"kind": "unigram", "min_frequency": 3, "size": 30}, "not for unigram"),
        ({"kind": "words", "family": "gpt2"}, "needs an unknown token"),
        ({"kind": "word"}, "nearest: 'words'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        train_tokenizer(["time flies like an arrow"], **options)


def test_no_text_has_no_words() -> None:
    for kind in ("words", "characters"):
        with pytest.raises(DataError, match="no text to train on"):
            train_tokenizer([""], kind=kind)


def test_like_a_model_learns_its_tokenizer_anew(tmp_path: Path, minilm: Path) -> None:
    tokenizer = train_tokenizer(LINES, like=minilm, size=600)
    plain = train_tokenizer(iter(LINES), kind="wordpiece", lower=True, strip_accents=True, size=600)
    assert tokenizer.engine.get_vocab(True) == plain.engine.get_vocab(True)
    assert tokenizer.model_max_length == 512 and tokenizer.special_tokens == plain.special_tokens
    tokenizer.save(tmp_path)
    transformers = pytest.importorskip("transformers", reason="compares with it: pip install 'glassformer[reference]'")
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert type(reference).__name__.startswith("BertTokenizer")
    for text in [*LINES[:20], "[MASK] İstanbul"]:
        assert reference(text)["input_ids"] == tokenizer.encode(text) == plain.encode(text)


@pytest.mark.parametrize("options", EVERY[:6], ids=named)
def test_like_what_was_learned_here_gives_the_same_again(tmp_path: Path, options: dict[str, Any]) -> None:
    train_tokenizer(LINES[150:], size=450, **options).save(tmp_path)
    for like in (tmp_path, Tokenizer.from_folder(tmp_path)):
        again = train_tokenizer(LINES, size=600, like=like)
        assert again.engine.to_str() == trained(**options).engine.to_str()


def test_like_leaves_out_the_list_of_old_ids(tmp_path: Path) -> None:
    trained(kind="wordpiece").save(tmp_path / "old")
    path = tmp_path / "old" / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**config, "added_tokens_decoder": {"103": {"content": "[MASK]"}}}))
    train_tokenizer(LINES, size=600, like=tmp_path / "old").save(tmp_path / "new")
    assert json.loads((tmp_path / "new" / "tokenizer_config.json").read_text("utf-8")) == config


def test_like_llama_pieces_do_not_reach_over_spaces(shared: Path) -> None:
    tokenizer = train_tokenizer(LINES, like=shared / "models" / "stories260k", size=600)
    pieces = [piece for piece in tokenizer.engine.get_vocab(False) if "▁" in piece.strip("▁")]
    assert not pieces and tokenizer.convert_ids_to_tokens(range(3)) == ["<unk>", "<s>", "</s>"]
    assert tokenizer.decode(tokenizer.encode("Once upon a time ✓"), skip_special_tokens=True) == "Once upon a time ✓"


def test_special_tokens_in_texts_are_not_learned_from() -> None:
    clean = train_tokenizer(LINES, size=400)
    marked = train_tokenizer([f"{line}<|endoftext|>" for line in LINES], size=400)
    assert not [piece for piece in marked.engine.get_vocab(False) if "endof" in piece and piece[0] != "<"]
    assert len(clean) == len(marked) == 400


def test_it_is_a_name_of_the_package() -> None:
    assert glassformer.train_tokenizer is train_tokenizer


@pytest.mark.parametrize(
    ("texts", "options", "error", "message"),
    [
        ([], {}, DataError, "has no text to train on"),
        (["", " \n"], {}, DataError, "has no text to train on"),
        ([" "], {"kind": "wordpiece"}, DataError, "has no text to train on"),
        ([""], {"kind": "unigram"}, DataError, "has no text to train on"),
        ("one text", {}, DataError, "several texts, not one"),
        (["a", 5], {}, DataError, "text 1 is int"),
        (["ab \ud800"], {}, DataError, "text 0 holds '\\\\ud800' at character 3"),
        (["abc"], {"size": 100}, ConfigError, r"size is 100, but the alphabet has 256 .* a size above 257"),
        (["abc"], {"kind": "wordpiece", "size": 9}, ConfigError, "give a size above 10"),
        (["abc"], {"kind": "unigram", "size": 8}, ConfigError, "there are 5 special tokens"),
        (["abc abc"], {"size": 500}, DataError, "makes 259 tokens, not 500.* or size 259"),
        (["abc abc"], {"kind": "unigram", "size": 50}, DataError, "makes 15 tokens, not 50"),
        (["a"], {"kind": "wordpeice"}, ConfigError, "nearest: 'wordpiece'"),
        (["a"], {"family": "bort"}, ConfigError, "nearest: 'bert'"),
        (["a"], {"kind": "unigram", "family": "gpt2"}, ConfigError, "use byte-bpe"),
        (["a"], {"like": "x", "kind": "unigram"}, ConfigError, "like= already determines kind"),
        (["a"], {"like": "no/such/folder"}, DataError, "no/such/folder"),
    ],
)
def test_what_cannot_be_learned(texts: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        train_tokenizer(texts, **options)


def test_like_a_vocabulary_of_whole_words_learns_words(tmp_path: Path) -> None:
    from tests.e2e.tiny_models import word_tokenizer

    word_tokenizer().save(str(tmp_path / "tokenizer.json"))
    tokenizer = train_tokenizer(["a rhinoceros flies"], like=tmp_path)
    assert tokenizer.tokenize("a rhinoceros") == ["a", "rhinoceros"]
