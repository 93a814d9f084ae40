"""Tokenizer files that would make terabytes of a text are refused before the engine runs."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import DataError
from glassformer.text import Tokenizer, growth


def replace(pattern: str, content: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def normalizers(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"normalizer": {"type": "Sequence", "normalizers": list(steps)}}


def charsmap(*texts: str) -> dict[str, Any]:
    table = b"\x04\0\0\0trie" + "\0".join(texts).encode()
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}


def template(*, ids: int = 0, texts: int = 1) -> dict[str, Any]:
    single = [{"Sequence": {"id": "A", "type_id": 0}}] * texts + [{"SpecialToken": {"id": "[S]", "type_id": 0}}]
    pair = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    special = {"[S]": {"id": "[S]", "ids": [1] * ids, "tokens": ["[S]"] * ids}}
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}


METASPACES = [{"type": "Metaspace", "replacement": mark, "prepend_scheme": "always"} for mark in "▁#" * 10]
THRICE = [replace("o", "o" * 1000)] * 3

BOMBS: dict[str, tuple[dict[str, Any], str]] = {
    "replaced": (normalizers(*THRICE), r"normalizer and pre_tokenizer can make 1e\+09 characters"),
    "one after the other": (normalizers(*[replace(a, b * 9) for a, b in zip("abcd", "bcde", strict=True)]), "6.56e"),
    "in another case": (normalizers(replace("a", "B" * 20), replace("b", "C" * 20)), "400"),
    "across a border": (normalizers(replace("a", "bx" * 20), replace("xy", "zz" * 40)), r"1.6e\+03"),
    "in sequences of sequences": (normalizers(normalizers(*THRICE)["normalizer"]), "1e"),
    "by a regular expression": (normalizers(*[replace("", "ab", "Regex")] * 9), "characters of one"),
    "by one step": ({"normalizer": replace("o", "o" * 1000)}, "can make 1e"),
    "by Unicode": (normalizers(replace("o", "\ufdfa"), {"type": "NFKC"}, replace("\u0644", "\ufdfa")), "324"),
    "before each word": (normalizers({"type": "Prepend", "prepend": "a" * 500}), "501"),
    "bytes of bytes": (normalizers(*[{"type": "ByteLevel"}] * 20), "characters of one"),
    "marks of marks": ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": METASPACES}}, "characters of one"),
    "a table": (normalizers(charsmap("o", "o" * 300)), "300"),
    "decoded": ({"decoder": {"type": "Sequence", "decoders": THRICE}}, "decoder can make"),
    "special tokens": ({"post_processor": template(ids=1001)}, "puts 1001 special tokens"),
    "special tokens by the step": (
        {"post_processor": {"type": "Sequence", "processors": [template(ids=600)] * 2}}, "puts 1200 special"),
    "texts": ({"post_processor": template(texts=500)}, "repeats it 500 times"),
    "an affix": ({"model": {"type": "BPE", "continuing_subword_prefix": "#" * 99}}, "prefix has 99"),
    "long words": ({"model": {"type": "WordPiece", "max_input_chars_per_word": 10**9}}, "max_input_chars"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_by_step(minilm: Path, tmp_path: Path, name: str) -> None:
    parts, message = BOMBS[name]
    content = json.loads((minilm / "tokenizer.json").read_text("utf-8"))
    parts = {**parts, "model": {**content["model"], **parts.get("model", {})}}
    (tmp_path / "tokenizer.json").write_text(json.dumps({**content, **parts}), encoding="utf-8")
    with pytest.raises(DataError, match=message) as caught:
        Tokenizer.from_folder(tmp_path)
    assert "tokenizer.json" in str(caught.value)


def test_too_many_values_are_refused_before_they_are_read(tmp_path: Path) -> None:
    merges = b",".join([b'"a b"'] * 2_100_000)
    (tmp_path / "tokenizer.json").write_bytes(b'{"model": {"type": "BPE", "vocab": {}, "merges": [' + merges + b"]}}")
    with pytest.raises(DataError, match="about 2100005 JSON values"):
        Tokenizer.from_folder(tmp_path)


@pytest.mark.parametrize(
    "part",
    [5, [], {}, {"type": 5}, {"type": "Sequence"}, {"type": "Sequence", "normalizers": 5}, replace("o", ""),
     {"type": "Replace"}, {"type": "Replace", "pattern": {"String": 5}, "content": None},
     {"type": "Precompiled", "precompiled_charsmap": "?"}, {"type": "Precompiled", "precompiled_charsmap": None},
     {"type": "TemplateProcessing", "single": [5, {"Sequence": 5}], "special_tokens": {"a": 5}},
     {"type": "TemplateProcessing", "pair": [{"SpecialToken": {"id": {}}}, {"Sequence": {"id": [1]}}],
      "special_tokens": {"a": {}}}],
)  # fmt: skip
def test_malformed_parts_are_left_to_the_engine(part: Any) -> None:
    for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "model"):
        growth.check_growth({name: part}, "the file")


def test_steps_that_do_not_read_each_other_do_not_multiply() -> None:
    """As the capitals of a character vocabulary: ß is SS."""
    letters = [chr(number) for number in range(0x100, 0x180)]
    growth.check_growth(normalizers(*[replace(letter, "SS") for letter in letters]), "the file")


@pytest.mark.parametrize("family", ["albert", "xlm-roberta", "t5", "llama", "deberta-v2", "pegasus", "mbart"])
def test_every_family_stays_far_below(
    family: str, family_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "MAX_GROWTH", 100)
    Tokenizer.from_folder(family_folder(family)).save(folder := family_folder(family).parent / f"{family} saved")
    Tokenizer.from_folder(folder)
