"""SentencePiece vocabularies: which id a piece has in each family, that nothing is lost, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.errors import DataError, UnsupportedError
from glassformer.text import Tokenizer
from glassformer.text.sentencepiece_model import CONTROL, UNKNOWN, USER_DEFINED
from tests.text.conftest import wild_texts
from tests.text.families import lines
from tests.text.test_sentencepiece_model import field, piece

Family = Callable[[str], Path]

BEGIN = piece("<unk>", kind=UNKNOWN) + piece("<s>", kind=CONTROL) + piece("</s>", kind=CONTROL)
PADDED = piece("<pad>", kind=CONTROL) + piece("</s>", kind=CONTROL) + piece("<unk>", kind=UNKNOWN)
PLAIN = b"".join(piece(text, -1.0 - n) for n, text in enumerate("▁a ▁b ▁ a b ab".split()))


def write(folder: Path, family: str, name: str, content: bytes, **settings: object) -> Path:
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    (folder / name).write_bytes(content)
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


# ── which id ─────────────────────────────────────────────────────────────────────────────────────────────


def test_xlm_roberta_is_one_id_on(tmp_path: Path) -> None:
    ours = Tokenizer.from_folder(write(tmp_path, "xlm-roberta", "sentencepiece.bpe.model", BEGIN + PLAIN))
    assert ours.convert_ids_to_tokens(range(11)) == "<s> <pad> </s> <unk> ▁a ▁b ▁ a b ab <mask>".split()
    assert ours.encode("a ☃ b") == [0, 4, 6, 3, 5, 2]  # file ids 3, 5, 0, 4
    assert ours("a", "b")["input_ids"] == [0, 4, 2, 2, 5, 2]
    assert (ours.unk_token_id, ours.mask_token_id, ours.cls_token_id) == (3, 10, 0)


def test_t5_has_sentinels_counted_down(tmp_path: Path) -> None:
    ours = Tokenizer.from_folder(write(tmp_path, "t5", "spiece.model", PADDED + PLAIN))
    assert len(ours) == 9 + 100
    assert ours.convert_tokens_to_ids(["<extra_id_99>", "<extra_id_0>"]) == [9, 108]
    assert ours("a<extra_id_0> b").tokens() == ["▁a", "<extra_id_0>", "▁b", "</s>"]
    assert ours.convert_tokens_to_ids("<extra_id_0>") in ours.special_ids
    few = Tokenizer.from_folder(write(tmp_path, "t5", "spiece.model", PADDED + PLAIN, extra_ids=2))
    assert (len(few), few.largest_id) == (11, 10)


def test_pegasus_is_103_ids_on(tmp_path: Path) -> None:
    ours = Tokenizer.from_folder(write(tmp_path, "pegasus", "spiece.model", PADDED + PLAIN))
    assert ours.convert_ids_to_tokens([0, 1, 2, 3, 4, 104, 105, 106]) == (
        "<pad> </s> <mask_1> <mask_2> <unk_2> <unk_102> <unk> ▁a".split()
    )
    assert ours.encode("a b") == [106, 107, 1]
    assert (ours.mask_token_id, ours.unk_token_id) == (3, 105)
    plain = write(tmp_path, "pegasus", "spiece.model", PADDED + PLAIN, offset=0, mask_token="<pad>")
    assert Tokenizer.from_folder(plain).encode("a b") == [3, 4, 1]


def test_mbart_has_languages(tmp_path: Path) -> None:
    folder = write(tmp_path, "mbart", "sentencepiece.bpe.model", BEGIN + PLAIN)
    ours = Tokenizer.from_folder(folder)
    assert ours("a").tokens() == ["▁a", "</s>", "en_XX"]
    assert ours.convert_tokens_to_ids(["ar_AR", "zh_CN", "<mask>"]) == [10, 34, 35]
    write(tmp_path, "mbart", "sentencepiece.bpe.model", BEGIN + PLAIN, src_lang="ro_RO")
    assert Tokenizer.from_folder(folder)("a", "b").tokens() == ["▁a", "▁b", "</s>", "ro_RO"]
    write(tmp_path, "mbart", "sentencepiece.bpe.model", BEGIN + PLAIN, src_lang="xx")
    with pytest.raises(DataError, match="lacks 'xx', the language token"):
        Tokenizer.from_folder(folder)


def test_llama_merges_in_the_order_of_scores(tmp_path: Path) -> None:
    """`aab`: a+b (score −1) before a+a (score −2). Without byte pieces a snowman is unknown."""
    pieces = [("▁", -9.0), ("a", -9.0), ("b", -9.0), ("aa", -2.0), ("ab", -1.0)]
    content = BEGIN + b"".join(piece(*entry) for entry in pieces) + field(2, field(3, 2))
    ours = Tokenizer.from_folder(write(tmp_path, "llama", "tokenizer.model", content))
    assert ours("aab ☃").tokens() == ["<s>", "▁", "a", "ab", "▁", "<unk>"]
    assert ours("a", "b")["input_ids"] == [1, 3, 4, 1, 3, 5]
    write(tmp_path, "llama", "tokenizer.model", content, add_bos_token=False, add_eos_token=True)
    assert Tokenizer.from_folder(tmp_path)("a").tokens() == ["▁", "a", "</s>"]


def test_symbols_that_users_defined_stay_whole(tmp_path: Path) -> None:
    content = BEGIN + PLAIN + piece("<turn>", kind=USER_DEFINED)
    ours = Tokenizer.from_folder(write(tmp_path, "llama", "tokenizer.model", content))
    assert ours("a<turn>b", add_special_tokens=False).tokens() == ["▁a", "<turn>", "▁b"]
    assert ours.convert_tokens_to_ids("<turn>") not in ours.special_ids


def marian(folder: Path, vocabulary: dict[str, int]) -> Path:
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    return write(folder, "marian", "source.spm", BEGIN + PLAIN)


NUMBERS = {"</s>": 0, "<unk>": 1, "▁b": 2, "▁": 3, "a": 4, "▁aß": 5, "ß": 6, "▁a": 7, ">>de<<": 8, "<pad>": 9}


def test_marian_numbers_come_from_its_own_file(tmp_path: Path) -> None:
    """The target's ▁aß is never cut; its ß is, because the source has nothing for that character."""
    ours = Tokenizer.from_folder(marian(tmp_path, NUMBERS))
    assert ours.encode(">>de<< a b") == [8, 7, 2, 0]
    assert ours.encode("aß ☃") == [7, 6, 3, 1, 0]
    assert ours("a", "b")["input_ids"] == [7, 2, 0]
    assert ours.decode([5, 2, 0], skip_special_tokens=True) == "aß b"
    assert ours.pad_token_id == 9


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ({"▁a": 0, "</s>": 1}, "lacks '<unk>'"),
        ({"<unk>": 0, "</s>": 1, "x": 2}, "no piece of source.spm; they do not belong together"),
        ({**NUMBERS, "y": 12}, "there must be no gaps"),
        ({**NUMBERS, "y": 9}, "'<pad>' and 'y' both have the id 9"),
    ],
)
def test_marian_numbers_that_do_not_fit(tmp_path: Path, vocabulary: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Tokenizer.from_folder(marian(tmp_path, vocabulary))


def test_marian_with_two_vocabularies(tmp_path: Path) -> None:
    marian(tmp_path, NUMBERS)
    (tmp_path / "tokenizer_config.json").write_text('{"separate_vocabs": true}')
    source = Tokenizer.from_folder(tmp_path, model_type="marian")
    assert source.encode("a b") == [7, 2, 0]
    with pytest.raises(DataError, match="no tokenizer for that"):
        source.target.encode("a b")
    (tmp_path / "target.spm").write_bytes((tmp_path / "source.spm").read_bytes())
    with pytest.raises(DataError, match=r"target_vocab\.json"):
        Tokenizer.find_target(tmp_path, model_type="marian")
    target_ids = {"</s>": 0, "<unk>": 1, "▁a": 2, "▁b": 3, "<pad>": 4}
    (tmp_path / "target_vocab.json").write_text(json.dumps(target_ids))
    target = Tokenizer.find_target(tmp_path, model_type="marian")
    assert target is not None and target.encode("a b") == [2, 3, 0] and target.decode([3, 2]) == "b a"
    Tokenizer.from_folder(tmp_path, model_type="marian").save(tmp_path / "saved")
    again = Tokenizer.from_folder(tmp_path / "saved", model_type="marian")
    assert again.encode("a b c") == source.encode("a b c")
    assert again.target.encode("a b c") == target.encode("a b c")


# ── nothing is lost ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("family", ["xlm-roberta", "t5", "pegasus", "marian", "mbart"])
def test_joined_pieces_are_the_text(family_folder: Family, family: str) -> None:
    """Joining the pieces and replacing the marker gives the normalised text, its runs of spaces made one."""
    ours = Tokenizer.from_folder(family_folder(family))
    unknown = 0
    special = [str(ours.engine.id_to_token(number)) for number in ours.special_ids]
    for line in lines():
        if any(token in line for token in special):  # some cannot be written as ordinary text, which is refused
            continue
        encoding = ours(line, add_special_tokens=False, special_tokens_as_text=True)
        normal = " ".join(ours.explain(line).normalized.split())
        joined = "".join(encoding.tokens()).replace("▁", " ")
        if ours.unk_token_id in encoding["input_ids"]:
            unknown += 1
            continue
        assert joined.removeprefix(" ") == normal
        assert ours.decode(encoding["input_ids"]) == normal
    assert unknown < 5


def test_llama_gives_back_every_text(family_folder: Family) -> None:
    """Spaces at the ends, runs of them and characters without a piece included."""
    ours = Tokenizer.from_folder(family_folder("llama"))
    for text in ["  two  spaces  ", "\n\t", "☃", *wild_texts(1000, seed=30)]:
        ids = ours(text, special_tokens_as_text=True)["input_ids"]
        assert ours.decode(ids, skip_special_tokens=True) == text


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("family", "name", "content", "settings", "message"),
    [
        ("t5", "spiece.model", PLAIN, {}, "has 0 unknown tokens"),
        (
            "t5",
            "spiece.model",
            PADDED + PLAIN + piece("x", kind=UNKNOWN),
            {},
            "has 2 unknown tokens",
        ),
        (
            "t5",
            "spiece.model",
            PADDED + piece("<extra_id_3>"),
            {},
            "'<extra_id_3>', which a 't5' tokenizer adds",
        ),
        (
            "t5",
            "spiece.model",
            PADDED + PLAIN,
            {"extra_ids": -1},
            "extra_ids must be from 0 to 10,000, got -1",
        ),
        ("t5", "spiece.model", PADDED + PLAIN, {"extra_ids": 10**9}, "extra_ids must be from 0"),
        (
            "pegasus",
            "spiece.model",
            PADDED + PLAIN,
            {"offset": 10**9},
            "offset must be 0 or from 2 to 10,000",
        ),
        ("t5", "spiece.model", BEGIN[:-8], {}, "not a SentencePiece model, or a damaged one"),
        ("t5", "spiece.model", piece("<unk>", kind=UNKNOWN) + PLAIN, {}, "lacks '</s>', the eos token"),
        ("xlm-roberta", "sentencepiece.bpe.model", PLAIN, {}, "begins with '▁a ▁b ▁' where 3 special tokens"),
        ("pegasus", "spiece.model", PLAIN, {}, "where 2 special tokens must be"),
        (
            "llama",
            "tokenizer.model",
            BEGIN + piece("a" * 300) + field(2, field(3, 2)),
            {},
            "has 300 characters",
        ),
    ],
)
def test_files_that_do_not_fit(
    tmp_path: Path, family: str, name: str, content: bytes, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        Tokenizer.from_folder(write(tmp_path, family, name, content, **settings))


@pytest.mark.parametrize("family", ["reformer", "bert"])
def test_families_whose_ids_are_not_known(tmp_path: Path, family: str) -> None:
    with pytest.raises(UnsupportedError, match=f"of a '{family}' model cannot be built from .*spiece.model"):
        Tokenizer.from_folder(write(tmp_path, family, "spiece.model", BEGIN + PLAIN))
