"""Texts of a million characters: the same result as in one piece, in bounded time."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Engine

from glassformer.text import Tokenizer, encoding, long_text
from glassformer.text.engine import sharing_copy


@pytest.fixture(scope="module")
def shakespeare(shared: Path) -> str:
    with gzip.open(shared / "data" / "tinyshakespeare" / "input.txt.gz", "rt", encoding="utf-8") as file:
        return file.read()


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "MAX_UNSPLIT_CHARS", 2000)
    monkeypatch.setattr(long_text, "CHUNK_CHARS", 500)


def everything(tokenizer: Tokenizer, text: str, pair: str | None, **options: object) -> list[object]:
    encoding = tokenizer(text, pair, **options)  # type: ignore[arg-type]
    rows = range(len(encoding.rows))
    methods = (encoding.tokens, encoding.offsets, encoding.word_ids, encoding.sequence_ids)
    return [dict(encoding), encoding.overflow_to_sample, *([method(i) for i in rows] for method in methods)]


def bare(tokenizer: Tokenizer) -> Engine:
    engine = sharing_copy(tokenizer.engine)
    engine.post_processor = None
    return engine


def tokenizers_of(minilm: Path, gpt2_folder: Path, shared: Path) -> list[Tokenizer]:
    return [Tokenizer.from_folder(f) for f in (minilm, gpt2_folder, shared / "models" / "stories260k")]


def test_chunks_change_nothing(
    minilm: Path, gpt2_folder: Path, shared: Path, shakespeare: str, request: pytest.FixtureRequest
) -> None:
    """Ids, offsets, words and windows of a text in chunks are those of the unsplit text."""
    tokenizers = tokenizers_of(minilm, gpt2_folder, shared)
    cases: list[tuple[str, str | None, dict[str, object]]] = [
        (shakespeare[:20_000], None, {}),
        (shakespeare[5_000:9_000] + " ☃ é don't [SEP] <|endoftext|> " * 60 + "x" * 3000, None, {}),
        ("one two", shakespeare[:8_000], {"truncation": "only_second", "max_length": 99, "stride": 9}),
        (shakespeare[:3000], shakespeare[3000:9000], {"truncation": True, "max_length": 300}),
    ]
    for _, pair, options in cases:
        if pair is not None:
            options["return_overflowing_tokens"] = True
    unsplit = [[everything(t, a, b, **w) for a, b, w in cases] for t in tokenizers]
    request.getfixturevalue("small_chunks")
    assert all(len(long_text.encode_in_chunks(bare(t), cases[0][0]).chunk_starts) > 20 for t in tokenizers[:2])
    assert [[everything(t, a, b, **w) for a, b, w in cases] for t in tokenizers] == unsplit
    assert tokenizers[1].batch_ids([cases[0][0], "a"], None)[0][0] == unsplit[1][0][0]["input_ids"]  # type: ignore[index]


def test_a_tokenizer_that_marks_beginnings_is_never_cut(shared: Path, shakespeare: str, small_chunks: None) -> None:
    llama = Tokenizer.from_folder(shared / "models" / "stories260k")
    assert long_text.encode_in_chunks(bare(llama), shakespeare[:8_000]).chunk_starts == [0]


def test_a_megabyte(minilm: Path, gpt2_folder: Path, shakespeare: str) -> None:
    text = (shakespeare + shakespeare)[:1_200_000]
    assert len(text) > long_text.MAX_UNSPLIT_CHARS
    for folder in (minilm, gpt2_folder):
        tokenizer = Tokenizer.from_folder(folder)
        direct = tokenizer.engine.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text, add_special_tokens=False) == direct
        rows, cut = tokenizer.batch_ids([text[: 2**20 + 1], "short"], 512)
        special = tokenizer.engine.num_special_tokens_to_add(False)
        inner = rows[0][1:-1] if special else rows[0]
        assert (cut, len(rows[0]), inner) == (1, 512, direct[: 512 - special])


@pytest.mark.representative("a", " ", "😀", " x")
@pytest.mark.parametrize("unit", ["a", " ", "\n", "😀", "é", "漢", "'", "0", " x"])
def test_monotonous_text_ends_in_time(minilm: Path, gpt2_folder: Path, unit: str) -> None:
    """No pre-tokeniser of ours may take more than linear time on its worst text."""
    for folder in (minilm, gpt2_folder):
        tokenizer = Tokenizer.from_folder(folder)
        start = time.process_time()
        tokenizer.batch_ids([(unit * 300_000)[:300_000] + "x"], 512)
        assert time.process_time() - start < 5
