"""Damaged, hostile and unfit tokenizer files: one clear error that names the file, or a working tokenizer."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.errors import DataError, GlassformerError, UnsupportedError
from glassformer.files import MAX_FILE_BYTES
from glassformer.text import Tokenizer
from tests.text import families


def write(folder: Path, **contents: str | bytes) -> Path:
    for name, content in contents.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


WORDLEVEL = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"},
}


def test_the_plain_file_works(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_folder(write(tmp_path, tokenizer__json=json.dumps(WORDLEVEL)))
    assert tokenizer.encode("a b") == [0, 1]


def hostile_files() -> dict[str, tuple[dict[str, str | bytes], str]]:
    merges = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a" * 70_000 + " b"]}
    template = {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}
    bert = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"
    return {
        "nothing": ({}, "holds no tokenizer: no tokenizer.json, no vocab.txt"),
        "sentencepiece alone": (
            {"tokenizer.model": b"\x00"},
            "tokenizer.model does not say which ids its pieces have",
        ),
        "empty": ({"tokenizer.json": ""}, "tokenizer.json is not a usable tokenizer"),
        "not json": ({"tokenizer.json": "{"}, "tokenizer.json is not a usable tokenizer"),
        "not utf-8": ({"tokenizer.json": b"\xff\xfe{}"}, "tokenizer.json is not a usable tokenizer"),
        "a list": ({"tokenizer.json": "[]"}, "tokenizer.json is not a usable tokenizer"),
        "deep": ({"tokenizer.json": "[" * 100_000}, "tokenizer.json is not a usable tokenizer"),
        "deep settings": (
            {"tokenizer_config.json": "[" * 100_000},
            "tokenizer_config.json is nested too deeply",
        ),
        "settings are a list": ({"tokenizer_config.json": "[]"}, "must be a JSON object, got list"),
        "settings are cut": ({"tokenizer_config.json": '{"a": '}, "tokenizer_config.json is not valid JSON"),
        "huge number": ({"tokenizer_config.json": '{"a": ' + "9" * 5000 + "}"}, "is not valid JSON"),
        "odd side": (
            {"tokenizer_config.json": '{"padding_side": "up"}'},
            "must be 'left' or 'right', got 'up'",
        ),
        "odd length": ({"tokenizer_config.json": '{"model_max_length": "x"}'}, "model_max_length must be"),
        "nan length": ({"tokenizer_config.json": '{"model_max_length": NaN}'}, "model_max_length must be"),
        "odd token": ({"tokenizer_config.json": '{"cls_token": 7}'}, "cls_token must be text"),
        "odd map": ({"special_tokens_map.json": '{"pad_token": {"x": 1}}'}, "pad_token must be text"),
        "half a pair": ({"tokenizer_config.json": r'{"cls_token": "\udc00"}'}, "half of a surrogate pair"),
        "half a pair added": (
            {"vocab.json": '{"a": 0}', "merges.txt": "", "added_tokens.json": r'{"\ud800": 1}'},
            "half of a surrogate pair",
        ),
        "odd ids": (
            {"tokenizer_config.json": '{"added_tokens_decoder": {"x": "a"}}'},
            "keys of added_tokens_decoder",
        ),
        "bomb id": (
            {"tokenizer.json": json.dumps({**WORDLEVEL, "model": {**WORDLEVEL["model"], "vocab": {"a": 2**32 - 1}}})},  # type: ignore[dict-item]
            "'a' has the id 4294967295, but the vocabulary has only 1",
        ),
        "long merge": (
            {"tokenizer.json": json.dumps({**WORDLEVEL, "model": merges})},
            "tokenizer.json is not a usable",
        ),
        "no place for text": (
            {"tokenizer.json": json.dumps({**WORDLEVEL, "post_processor": template})},
            "tokenizer",
        ),
        "vocabulary without [UNK]": ({"vocab.txt": "a\nb\n[CLS]\n[SEP]\n"}, r"vocab.txt lacks '\[UNK\]'"),
        "empty vocabulary": ({"vocab.txt": ""}, "vocab.txt has an empty vocabulary"),
        "vocabulary not utf-8": ({"vocab.txt": b"\xff\n"}, "vocab.txt is not UTF-8 text"),
        "odd switch": (
            {"vocab.txt": bert, "tokenizer_config.json": '{"do_lower_case": "yes"}'},
            "do_lower_case must be bool, got 'yes'",
        ),
        "no merges": ({"vocab.json": '{"a": 0}'}, "merges.txt is missing"),
        "odd merge": (
            {"vocab.json": '{"a": 0}', "merges.txt": "#version\na b c\n"},
            "line 2: a merge is two",
        ),
        "merge of strangers": ({"vocab.json": '{"a": 0}', "merges.txt": "x y\n"}, "do not fit each other"),
        "text as id": ({"vocab.json": '{"a": "0"}', "merges.txt": ""}, "'a' has the id '0'"),
        "negative id": ({"vocab.json": '{"a": -1}', "merges.txt": ""}, "'a' has the id -1"),
        "truth as id": ({"vocab.json": '{"a": true}', "merges.txt": ""}, "'a' has the id True"),
        "far id": ({"vocab.json": '{"a": 99}', "merges.txt": ""}, "'a' has the id 99"),
        "bos missing": (
            {"vocab.json": '{"a": 0}', "merges.txt": "", "tokenizer_config.json": '{"add_bos_token": true}'},
            "the bos token, which every text needs",
        ),
    }


@pytest.mark.parametrize("name", hostile_files())
def test_hostile_files(tmp_path: Path, name: str) -> None:
    contents, message = hostile_files()[name]
    for file, content in contents.items():
        (tmp_path / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises((DataError, UnsupportedError), match=message):
        Tokenizer.from_folder(tmp_path)


def test_missing_folder_and_odd_paths(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere is not a folder"):
        Tokenizer.from_folder(tmp_path / "nowhere")
    (tmp_path / "tokenizer.json").mkdir()
    with pytest.raises(DataError, match=r"tokenizer.json: is not a regular file"):
        Tokenizer.from_folder(tmp_path)


def test_a_file_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)  # sparse: takes no room
    with pytest.raises(DataError, match=f"a file of this kind may have {MAX_FILE_BYTES}"):
        Tokenizer.from_folder(tmp_path)


def test_a_kind_that_vocabulary_files_do_not_describe(tmp_path: Path) -> None:
    config = '{"tokenizer_class": "BlenderbotTokenizer"}'
    write(tmp_path, vocab__json='{"a": 0}', merges__txt="", tokenizer_config__json=config)
    with pytest.raises(
        UnsupportedError, match=r"'BlenderbotTokenizer' cannot be built from .*put its tokenizer.json next to"
    ):
        Tokenizer.from_folder(tmp_path)


def test_the_family_chooses_among_files_of_one_name(tmp_path: Path) -> None:
    """The same `vocab.json` and `merges.txt`: GPT-2 has no frame, RoBERTa one, CLIP closes words."""
    tokens = ["a", "a</w>", "<s>", "</s>", "<|startoftext|>", "<|endoftext|>"]
    write(tmp_path, vocab__json=json.dumps({t: n for n, t in enumerate(tokens)}), merges__txt="")
    built = {"gpt2": [0], "roberta": [2, 0, 3], "clip": [4, 1, 5]}
    assert {family: Tokenizer.from_folder(tmp_path, model_type=family).encode("a") for family in built} == built
    assert Tokenizer.from_folder(tmp_path).encode("a") == built["gpt2"]  # as without any name


def test_find(tmp_path: Path) -> None:
    """A folder without any tokenizer file has none; one with a file that cannot be read is an error."""
    assert Tokenizer.find(tmp_path, model_type="t5") is None
    (tmp_path / "spiece.model").write_bytes(b"\x00")
    with pytest.raises(DataError, match=r"spiece.model is not a SentencePiece model"):
        Tokenizer.find(tmp_path, model_type="t5")


def test_a_pattern_that_explodes(tmp_path: Path) -> None:
    """The engine gives up on exponential backtracking by a panic, which must come out as our error."""
    for pattern in (r"(a+)+$", r"(.*a){25}", r"(a|a)*b"):
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        write(tmp_path, tokenizer__json=json.dumps({**WORDLEVEL, "pre_tokenizer": split}))
        tokenizer = Tokenizer.from_folder(tmp_path)
        start = time.process_time()
        try:
            tokenizer.encode("a" * 30 + "!")
        except DataError as error:
            assert "text cannot be tokenised" in str(error)
        assert time.process_time() - start < 5


def test_vocabulary_lines_split_at_line_feeds_alone(tmp_path: Path) -> None:
    lines = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\u2028", "\x85", "b"]
    for ending in ("\n", "\r\n"):
        (tmp_path / "vocab.txt").write_bytes(ending.join(lines).encode())
        assert Tokenizer.from_folder(tmp_path).convert_tokens_to_ids("b") == 7


TOKENS = (
    b"null",
    b"-1",
    b"4294967295",
    b"1e99",
    b"[",
    b'{"',
    b"\\ud800",
    b"\x00",
    b'"',
    b",",
    b"true",
    b" \n",
)


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Flip, cut, repeat, insert or swap: what transfers and attackers do to files."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0 if data:
                data[place % len(data)] ^= 1 << rng.randrange(8)
            case 1:
                del data[place : place + rng.randrange(1, 40)]
            case 2:
                data[place:place] = data[place : place + rng.randrange(1, 200)]
            case 3:
                data[place:place] = rng.choice(TOKENS)
            case 4:
                del data[place:]
            case 5:
                other = rng.randrange(len(data) + 1)
                data[place : place + 8], data[other : other + 8] = (
                    data[other : other + 8],
                    data[place : place + 8],
                )
    return bytes(data)


def seeds(bert_folder: Path, gpt2_folder: Path, family_folder: Callable[[str], Path]) -> list[dict[str, bytes]]:
    Tokenizer.from_folder(bert_folder).save(bert_folder / "saved")
    small = {
        "vocab.json": b'{"l": 0, "o": 1, "lo": 2, "w": 3, "low": 4}',
        "merges.txt": b"#version: 0.2\nl o\nlo w\n",
    }
    saved_files = ("tokenizer.json", "tokenizer_config.json")
    return [
        {name: (bert_folder / "saved" / name).read_bytes() for name in saved_files},
        {"tokenizer.json": json.dumps(WORDLEVEL).encode()},
        {name: (bert_folder / name).read_bytes() for name in ("vocab.txt", "tokenizer_config.json")},
        small,
        {name: (gpt2_folder / name).read_bytes() for name in ("vocab.json", "merges.txt")},
        *({path.name: path.read_bytes() for path in family_folder(name).iterdir()} for name in families.FAMILIES),
    ]


def fuzz(folder: Path, contents: list[dict[str, bytes]], count: int, seed: int) -> tuple[int, int]:
    """Change one file a time; only our errors or a tokenizer that works may come of it."""
    rng = random.Random(seed)
    refused = slowest = 0.0
    for _ in range(count):
        files_now = rng.choice(contents)
        victim = rng.choice(list(files_now))
        for path in folder.iterdir():
            path.unlink()
        for name, content in files_now.items():
            (folder / name).write_bytes(mutated(content, rng) if name == victim else content)
        start = time.process_time()
        try:
            tokenizer = Tokenizer.from_folder(folder)
            tokenizer(["Time flies, low [SEP]", "é"], truncation=True, max_length=12, padding=True)
            tokenizer.batch_ids(["Time flies"], 16)
            tokenizer.decode(tokenizer.explain("low time").to_dict()["pieces"][:1] and [0, 1])
        except GlassformerError:
            refused += 1
        slowest = max(slowest, time.process_time() - start)
    assert slowest < 5
    return int(refused), count


def test_fuzzed_files(
    bert_folder: Path, gpt2_folder: Path, family_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tmp_path / "fuzz"
    folder.mkdir()
    refused, count = fuzz(folder, seeds(bert_folder, gpt2_folder, family_folder), 1_000, seed=8)
    assert count * 0.2 < refused < count  # the changes bite, and do not all end at the first check


@pytest.mark.soak
def test_fuzzed_files_for_long(
    bert_folder: Path, gpt2_folder: Path, family_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tmp_path / "fuzz"
    folder.mkdir()
    fuzz(folder, seeds(bert_folder, gpt2_folder, family_folder), 200_000, seed=9)


# ── WordPiece vocabularies of other families than BERT's own ──

WORDPIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] [EMPTY] a time [ ] empty".split()


def write_vocabulary(folder: Path, family: str, tokens: list[str] = WORDPIECES) -> Path:
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    return folder


@pytest.mark.parametrize("family", ["bert", "big_bird", "layoutlm", "lxmert", "tapas"])
def test_the_frame_is_that_of_bert(tmp_path: Path, family: str) -> None:
    ours = Tokenizer.from_folder(write_vocabulary(tmp_path, family))
    assert ours.encode("A time!") == [2, 6, 7, 1, 3]
    assert ours("a", "time")["input_ids"] == [2, 6, 3, 7, 3]
    assert (ours.unk_token_id, ours.pad_token_id, ours.mask_token_id) == (1, 0, 4)


def test_tapas_has_a_token_for_an_empty_cell(tmp_path: Path) -> None:
    assert Tokenizer.from_folder(write_vocabulary(tmp_path, "tapas")).encode("a [EMPTY]") == [2, 6, 5, 3]
    assert Tokenizer.from_folder(write_vocabulary(tmp_path, "bert")).encode("a [EMPTY]") == [
        2,
        6,
        8,
        10,
        9,
        3,
    ]


@pytest.mark.parametrize("family", ["mpnet", "funnel"])
def test_families_with_another_frame(tmp_path: Path, family: str) -> None:
    with pytest.raises(UnsupportedError, match=f"of a '{family}' model cannot be built from .*vocab.txt"):
        Tokenizer.from_folder(write_vocabulary(tmp_path, family))
