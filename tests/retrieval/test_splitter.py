"""Passages: their size in tokens, where they begin and end, and what they say of their place."""

from __future__ import annotations

import re
import time
import tracemalloc
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import tokenizers
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from glassformer.errors import ConfigError, DataError
from glassformer.retrieval.document import Document, DocumentPart
from glassformer.retrieval.options import PassageOptions
from glassformer.retrieval.passage import Passage
from glassformer.retrieval.splitter import split
from glassformer.text.sentences import sentence_spans
from glassformer.text.settings import TokenizerSettings
from glassformer.text.tokenizer import Tokenizer

DOCS = Path(__file__).parents[2] / "docs"
PROSE = (
    "The tower was built in 1889. It is made of iron, and 330 metres high. Dr. Smith says that it grows by 15 cm in "
    "summer. Why does it grow? Iron expands when it is warm! Visitors climb 674 steps. The U.S. engineer liked it. "
)


@cache
def tokenizer(kind: str = "words", limit: int | None = 512) -> Tokenizer:
    corpus = [PROSE, (DOCS / "architecture.md").read_text("utf-8"), "人人生而自由,在尊严和权利上一律平等。"]
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    if kind == "words":
        engine = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        engine.normalizer, engine.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer: object = trainers.WordPieceTrainer(vocab_size=1_000, special_tokens=special)
    elif kind == "bytes":
        engine = tokenizers.Tokenizer(models.BPE())
        engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=1_000, special_tokens=special, initial_alphabet=alphabet)
    else:
        engine = tokenizers.Tokenizer(models.Unigram())
        engine.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=1_000, special_tokens=special, unk_token="[UNK]")
    engine.train_from_iterator(corpus, trainer)
    ends = [(token, engine.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    engine.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return Tokenizer(engine, TokenizerSettings(model_max_length=limit))


def document(text: str, headings: tuple[str, ...] = ()) -> Document:
    return Document(text, (DocumentPart(0, headings, 1),), verbatim=True)


def passages(text: str, size: int | None = 64, overlap: int = 0, kind: str = "words") -> list[Passage]:
    return list(split(document(text), tokenizer(kind), PassageOptions(size=size, overlap=overlap)))


def tokens_of(passage: Passage, kind: str = "words", prompt: str = "") -> int:
    return len(tokenizer(kind).encode(prompt + passage.embedded()))


def check(text: str, cut: list[Passage]) -> None:
    """Passages are what the text has there, in order, without white space around them; nothing is lost."""
    reached = 0
    for passage in cut:
        assert passage.text == text[passage.start : passage.stop] == passage.text.strip() != ""
        assert not text[reached : passage.start].strip()
        reached = max(reached, passage.stop)
    assert not text[reached:].strip()
    assert all(a.start < b.start and a.stop < b.stop for a, b in pairwise(cut))


def test_a_short_text_is_one_passage_and_a_blank_one_is_no_document() -> None:
    (passage,) = passages("  One sentence.\n")
    assert passage == Passage(text="One sentence.", start=2, stop=15, line=1, verbatim=True)
    with pytest.raises(DataError, match="it holds no text"):
        passages(" \n\t ")


@pytest.mark.parametrize("kind", ["words", "bytes", "unigram"])
@pytest.mark.parametrize(("size", "overlap"), [(32, 0), (64, 16), (100, 99), (256, 32)])
def test_passages_of_real_text_fit_and_lose_nothing(kind: str, size: int, overlap: int) -> None:
    text = (DOCS / "errors.md").read_text("utf-8")[:20_000]
    cut = passages(text, size, overlap, kind)
    check(text, cut)
    counts = [tokens_of(passage, kind) for passage in cut]
    assert max(counts) <= size
    assert sum(counts) / len(counts) > 0.6 * size
    for passage in cut[1:]:  # never inside a word, unless it alone is longer than a passage
        if not text[passage.start - 1].isspace():
            word = next(match[0] for match in re.finditer(r"\S+", text) if match.end() > passage.start)
            assert len(tokenizer(kind).encode(word)) > size, word


def test_prose_is_cut_where_sentences_end() -> None:
    text = PROSE * 20
    starts = {start for start, _ in sentence_spans(text)}
    cut = passages(text, 64, 16)
    check(text, cut)
    assert len(cut) > 15 and {passage.start for passage in cut} <= starts
    assert all(passage.text.endswith((".", "?", "!")) for passage in cut)


def test_neighbours_share_whole_sentences() -> None:
    text = PROSE * 20
    shared = [text[b.start : a.stop] for a, b in pairwise(passages(text, 64, 24))]
    assert all(len(tokenizer().encode(part, add_special_tokens=False)) <= 24 for part in shared)
    assert sum(part != "" for part in shared) > 0.8 * len(shared)
    assert all(part == "" or (part[0].isupper() and part[-1] in ".?!") for part in shared)
    assert all(b.start >= a.stop for a, b in pairwise(passages(text, 64, 0)))


def test_the_last_passages_are_about_equally_long() -> None:
    text = PROSE * 3
    whole = len(tokenizer().encode(text))
    counts = [tokens_of(passage) for passage in passages(text, whole - 10)]
    assert len(counts) == 2 and min(counts) > 0.35 * whole


def test_a_sentence_longer_than_a_passage_is_cut_between_words() -> None:
    text = "so the iron tower grows and " * 100
    cut = passages(text, 32, 8)
    check(text, cut)
    words = set(text.split())
    assert len(cut) > 20 and all(set(passage.text.split()) <= words for passage in cut)
    assert max(map(tokens_of, cut)) <= 32
    assert all(b.start < a.stop for a, b in pairwise(cut))  # words are shared where no sentence ends


@pytest.mark.parametrize("kind", ["words", "bytes", "unigram"])
@pytest.mark.parametrize("word", ["x" * 5_000, "ab1-" * 2_000, "人生" * 2_000, "🦒" * 1_000, "é" * 3_000])
def test_a_word_longer_than_a_passage_is_cut(kind: str, word: str) -> None:
    text = f"The word {word} is long."
    cut = passages(text, 32, 8, kind)
    check(text, cut)
    assert 1 < len(cut) < 5_000 and max(tokens_of(passage, kind) for passage in cut) <= 32


def test_an_unknown_word_of_one_token_is_no_passage_of_any_length() -> None:
    cut = passages("y" * 100_000, 32)
    assert max(len(passage.text) for passage in cut) <= 20 * 32


def test_chinese_is_cut_at_its_full_stops() -> None:
    text = "人人生而自由,在尊严和权利上一律平等。" * 50
    cut = passages(text, 64, 0)
    check(text, cut)
    assert all(passage.text.endswith("。") for passage in cut)


def test_rows_and_items_are_not_cut_apart() -> None:
    text = "\n".join(f"| row {n} | Some text. More text of the row | {n} |" for n in range(100))
    assert all(passage.text.startswith("| row") for passage in passages(text, 64, 0))
    text = "\n".join(f"- item {n} of the list, which has no end" for n in range(100))
    assert all(passage.text.startswith("- item") for passage in passages(text, 64, 16))


def test_no_passage_crosses_a_part() -> None:
    text = "# One\nFirst part.\n# Two\n\n\n# Three\nThird part. It has two sentences.\n"
    parts = tuple(
        DocumentPart(text.index(f"# {name}"), (name,), line, {"n": line})
        for name, line in (("One", 1), ("Two", 3), ("Three", 6))
    )
    cut = list(split(Document(text, parts, verbatim=True), tokenizer()))
    check(text, cut)
    assert [(passage.headings, passage.line, passage.metadata) for passage in cut] == [
        (("One",), 1, {"n": 1}), (("Two",), 3, {"n": 3}), (("Three",), 6, {"n": 6})
    ]  # fmt: skip


def test_many_small_parts_are_tokenised_in_batches() -> None:
    text = "".join(f"row {n} of a table\n" for n in range(3_000))
    starts = [at for at in range(len(text)) if at == 0 or text[at - 1] == "\n"]
    parts = tuple(DocumentPart(start, line=row + 2) for row, start in enumerate(starts))
    cut = list(split(Document(text, parts), tokenizer()))
    assert [passage.text for passage in cut] == text.splitlines()
    assert [passage.line for passage in cut] == list(range(2, 3_002))


def test_lines_and_pages_are_those_where_a_passage_begins() -> None:
    text = "".join(f"Sentence {n} is here.\n" for n in range(200))
    pages = (0, 1_000, 2_000)
    cut = list(split(Document(text, (DocumentPart(0, line=5),), pages, verbatim=True), tokenizer(), PassageOptions(
        size=32, overlap=12)))  # fmt: skip
    check(text, cut)
    assert [passage.line for passage in cut] == [5 + text.count("\n", 0, passage.start) for passage in cut]
    assert [passage.page for passage in cut] == [1 + sum(passage.start >= x for x in pages[1:]) for passage in cut]
    (extracted,) = split(Document("a\nb", (DocumentPart(0, line=9),)), tokenizer())
    assert extracted.line == 9 and extracted.page == 0


def test_headings_and_the_prompt_count() -> None:
    headings = ("A manual of towers", "How towers are built")
    cut = list(split(document(PROSE * 10, headings), tokenizer(), PassageOptions(size=48), prompt="passage: "))
    counts = [tokens_of(passage, prompt="passage: ") for passage in cut]
    assert max(counts) <= 48 and sum(counts) / len(counts) > 30
    assert all(passage.headings == headings for passage in cut)


def test_headings_too_long_for_a_passage_are_left_out_from_the_outermost() -> None:
    for passage in split(document(PROSE, ("word " * 1_000, "Inner")), tokenizer(), PassageOptions(size=48)):
        assert passage.headings == ("Inner",) and tokens_of(passage) <= 48
    assert all(not p.headings for p in split(document(PROSE, ("word " * 1_000,)), tokenizer()))


def test_sizes_that_the_model_cannot_read_are_refused() -> None:
    with pytest.raises(ConfigError, match="size=1000 is more than the 512 tokens"):
        passages(PROSE, 1_000)
    with pytest.raises(ConfigError, match=r"size=5 leaves 3 tokens for text.*give at least 10"):
        passages(PROSE, 5)
    with pytest.raises(ConfigError, match="overlap=64 must be less than size=64"):
        PassageOptions(size=64, overlap=64)
    short = tokenizer(limit=128)
    assert max(len(short.encode(x.embedded())) for x in split(document(PROSE * 9), short)) <= 128


def test_a_language_without_rules_has_those_of_english() -> None:
    cut = list(split(document(PROSE * 5), tokenizer(), PassageOptions(size=64, language="sv")))
    assert [passage.text for passage in cut] == [passage.text for passage in passages(PROSE * 5, 64, 32)]


@settings(max_examples=60, deadline=None)
@given(
    st.text(st.sampled_from("ab .!?\n\t-|1。人é🦒x"), max_size=600),
    st.integers(10, 40),
    st.integers(0, 9),
    st.sampled_from(["words", "bytes", "unigram"]),
)
def test_any_text_is_cut_to_size(text: str, size: int, overlap: int, kind: str) -> None:
    assume(text.strip())
    cut = passages(text, size, overlap, kind)
    check(text, cut)
    assert all(tokens_of(passage, kind) <= size for passage in cut)


def test_one_long_line_takes_linear_time_and_bounded_memory() -> None:
    """A line of 100 MB is 100 of these, and behaves as one: only a stretch of it is held as tokens."""
    seconds, peaks = [], []
    for count in (250_000, 1_000_000):
        text = ("lorem ipsum dolor sit amet " * (count // 27 + 1))[:count]
        start = time.process_time()
        for passage in split(document(text), tokenizer()):
            assert passage.text
        seconds.append(time.process_time() - start)
        tracemalloc.start()
        for passage in split(document(text), tokenizer()):
            assert passage.text
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert seconds[1] < 8 * seconds[0] + 0.5
    assert peaks[1] < 1.5 * peaks[0] + (1 << 20)
