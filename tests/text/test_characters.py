"""The character vocabulary of speech recognisers: encoding, and decoding as connectionist temporal classification."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.errors import DataError, UnsupportedError
from glassformer.text import Tokenizer

TOKENS = ["<pad>", "<s>", "</s>", "<unk>", "|", *"EHLOUY'"]
Copy = Callable[..., Path]


def write(folder: Path, vocabulary: dict[str, object], **settings: object) -> Path:
    (folder / "config.json").write_text('{"model_type": "wav2vec2"}')
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture
def hello(tmp_path: Path) -> Tokenizer:
    return Tokenizer.from_folder(write(tmp_path, {token: n for n, token in enumerate(TOKENS)}))


def ids(letters: str) -> list[int]:
    return [TOKENS.index("<pad>" if letter == "_" else letter) for letter in letters]


def test_letters_and_the_bar_between_words(hello: Tokenizer) -> None:
    assert hello.encode("HELLO YOU") == ids("HELLO|YOU")
    assert hello.encode("HEz") == [6, 5, 3]
    assert [word.text for word in hello.explain("HE YOU").words] == ["HE", "|", "YOU"]
    assert hello(["HE", "HELLO"], padding=True)["input_ids"][0] == [6, 5, 0, 0, 0]
    assert (hello.pad_token_id, hello.unk_token_id) == (0, 3)


@pytest.mark.parametrize(
    ("heard", "text"),
    [
        ("HH_ELL_LOO||_YOU", "HELLO YOU"),
        ("HELLO", "HELO"),  # no blank between: one L, long
        ("||HE||", "HE"),
        ("_|_|_HE|_|", "HE"),
        ("HE|_|YOU", "HE  YOU"),
        ("____", ""),
        ("", ""),
    ],
)
def test_what_is_heard_is_collapsed(hello: Tokenizer, heard: str, text: str) -> None:
    assert hello.decode(ids(heard)) == text


def test_decoding_as_the_reference(family_copy: Copy) -> None:
    transformers = pytest.importorskip("transformers", reason="pip install 'glassformer[dev]'")
    rng = random.Random(40)
    heard = [[rng.choice((0, 0, 4, 5, 6, 7, rng.randrange(32))) for _ in range(rng.randrange(30))] for _ in range(2000)]
    for settings in ({}, {"do_lower_case": True}):
        folder = family_copy("wav2vec2", **settings)
        ours = Tokenizer.from_folder(folder)
        reference = transformers.Wav2Vec2CTCTokenizer.from_pretrained(folder)
        for row in heard:
            assert ours.decode(row) == reference.decode(row)
            assert ours.decode(row, skip_special_tokens=True) == reference.decode(row, skip_special_tokens=True)


def test_capitals_where_the_vocabulary_has_only_them(family_copy: Copy) -> None:
    transformers = pytest.importorskip("transformers", reason="pip install 'glassformer[dev]'")
    folder = family_copy("wav2vec2", do_lower_case=True)
    ours = Tokenizer.from_folder(folder)
    reference = transformers.Wav2Vec2CTCTokenizer.from_pretrained(folder)
    texts = ["hello you", "Straße", "ﬁne ıſ", "don't ŉ", "<pad>a <s> b"]
    assert ours(texts)["input_ids"] == reference(texts)["input_ids"]
    assert ours.decode(ours.encode("hi you")) == "hi you"


def test_save_and_read_back(hello: Tokenizer, tmp_path: Path) -> None:
    hello.save(tmp_path / "saved")
    again = Tokenizer.from_folder(tmp_path / "saved")
    assert again.encode("HELLO YOU") == ids("HELLO|YOU")
    assert again.decode(ids("HH_ELL_LO||YOU")) == "HELLO YOU"


@pytest.mark.parametrize(
    ("vocabulary", "settings", "error", "message"),
    [
        ({"<pad>": 0, "|": 1}, {}, DataError, "lacks '<unk>', the unknown token"),
        ({"<unk>": 0, "|": 1}, {}, DataError, "lacks '<pad>', the CTC blank"),
        ({"<unk>": 0, "<pad>": 1}, {}, DataError, "lacks '|', the word delimiter"),
        ({"<unk>": 0, "<pad>": 0}, {}, DataError, "'<unk>' and '<pad>' both have the id 0"),
        (
            {"<unk>": 0, "<pad>": 1},
            {"word_delimiter_token": 7},
            DataError,
            "word_delimiter_token must be str",
        ),
        ({"eng": {"a": 0}, "deu": {"b": 0}}, {}, UnsupportedError, "for each of 2 languages"),
        ({}, {}, DataError, "empty vocabulary"),
        ({"a": {"b": 0}, "c": 1}, {}, DataError, "'a' has the id {'b': 0}"),
    ],
)
def test_files_that_do_not_fit(
    tmp_path: Path,
    vocabulary: dict[str, object],
    settings: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error) as caught:
        Tokenizer.from_folder(write(tmp_path, vocabulary, **settings))
    assert message in str(caught.value)
