"""Chunks are the document; rounds end; nothing is left out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from glassformer import ConfigError, DataError
from glassformer.tasks.generate.long import ChunkAndMerge, chunks
from glassformer.text import Tokenizer


def byte_tokenizer(stripping: bool = False) -> Tokenizer:
    """A token a byte, between a beginning and an end: the hardest case, for a letter may take four."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    engine = tokenizers.Tokenizer(models.BPE({x: i for i, x in enumerate([*letters, "<s>", "</s>"])}, []))
    if stripping:
        engine.normalizer = normalizers.Strip()
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    engine.post_processor = processors.TemplateProcessing(
        single=["<s>", "$A", "</s>"], special_tokens=[("<s>", 256), ("</s>", 257)]
    )
    engine.add_special_tokens(["<s>", "</s>"])
    return Tokenizer(engine)


BYTES = byte_tokenizer()


def tokens(text: str) -> int:
    return len(BYTES.encode(text))


def first_words(texts: Sequence[str]) -> list[str]:
    return [" ".join(text.split()[:2]) + "." for text in texts]


@given(
    st.lists(st.sampled_from(["He ran. ", "Why? ", "\n", "äöü€🙂", " ", "a" * 40, "Mr. Smith left. "]), max_size=30),
    st.integers(8, 60),
)
@settings(max_examples=80, deadline=None)
def test_chunks_fit_and_are_the_document(pieces: list[str], room: int) -> None:
    text = "".join(pieces)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sentences that are cut
        found = chunks(text, BYTES, room)
    assert "".join(found) == text
    assert all(chunk and tokens(chunk) <= room for chunk in found)


def test_chunks_end_where_sentences_end_and_are_full() -> None:
    text = "One two. Three four. Five six. Seven eight nine ten. "
    assert chunks(text, BYTES, 24) == ["One two. Three four. ", "Five six. ", "Seven eight nine ten. "]


def test_sentences_with_more_tokens_together_than_alone() -> None:
    """White space around a text is no token to this one, white space in it is."""
    stripping = byte_tokenizer(stripping=True)
    text = "One.    Two.    Three.    "
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no sentence is cut
        found = chunks(text, stripping, 2 + 8)
    assert found == ["One.    ", "Two.    ", "Three.    "]


def test_a_sentence_without_end_is_cut_between_tokens_and_said() -> None:
    with pytest.warns(UserWarning, match="a sentence has 40 tokens and there is room for 8; it is cut"):
        found = chunks("x" * 40, BYTES, 10)
    assert found == ["x" * 8] * 5


def test_no_letter_is_cut_in_two() -> None:
    with pytest.warns(UserWarning, match="cut between tokens"):
        assert chunks("🙂" * 5, BYTES, 9) == ["🙂"] * 5  # four bytes each, seven fit


def test_room_for_nothing() -> None:
    with pytest.raises(ConfigError, match="'🙂' does not fit"), pytest.warns(UserWarning):
        chunks("🙂", BYTES, 5)
    with pytest.raises(ConfigError, match="room is 2 tokens"), pytest.warns(UserWarning):
        chunks("a", BYTES, 2)


def test_rounds_until_it_fits() -> None:
    document = "".join(f"Sentence number {i} says something new. " for i in range(60))
    seen: list[str] = []
    steps: list[tuple[int, int, int]] = []

    def summarise(texts: Sequence[str]) -> list[str]:
        assert len(texts) <= 4 and all(tokens(text) <= 100 for text in texts)
        seen.extend(texts)
        return [text[:20].strip() + "." for text in texts]

    merged = ChunkAndMerge(summarise, BYTES, room=100, batch=4, progress=lambda *step: steps.append(step)).merge(
        document
    )
    assert len(merged.rounds) >= 2
    assert "".join(merged.rounds[0].chunks) == document
    for before, after in zip(merged.rounds, merged.rounds[1:], strict=False):
        assert "".join(after.chunks) == "\n".join(before.summaries)
    assert seen == [chunk for made in merged.rounds for chunk in made.chunks] + ["\n".join(merged.rounds[-1].summaries)]
    assert merged.summary == seen[-1][:20].strip() + "."
    number = len(merged.rounds[0].chunks)
    assert steps[0] == (1, 4, number) and (1, number, number) in steps and steps[-1][0] == len(merged.rounds)


def test_what_fits_is_summarised_together_and_at_once() -> None:
    calls: list[list[str]] = []

    def summarise(texts: Sequence[str]) -> list[str]:
        calls.append(list(texts))
        return first_words(texts)

    long = "A b c. " * 20
    assert ChunkAndMerge(summarise, BYTES, room=50)(["One two three.", long, "Four five six."]) == [
        "One two.",
        "A b..",
        "Four five.",
    ]
    assert calls[0] == ["One two three.", "Four five six."]
    assert ChunkAndMerge(summarise, BYTES, room=50)([]) == []


@pytest.mark.parametrize("echo", [lambda text: text, lambda text: text * 2])
def test_a_summariser_that_does_not_shorten_ends_too(echo: object) -> None:
    def summarise(texts: Sequence[str]) -> list[str]:
        return [echo(text) for text in texts]  # type: ignore[operator]

    document = "One two three four. " * 20
    with pytest.warns(UserWarning, match="further rounds would not end"):
        merged = ChunkAndMerge(summarise, BYTES, room=50).merge(document)
    assert len(merged.rounds) == 1 and merged.summary.count("three") >= 20


def test_a_summariser_that_says_nothing() -> None:
    silent = ChunkAndMerge(lambda texts: [""] * len(texts), BYTES, room=50)
    assert silent(["One two three four. " * 20]) == [""]


def test_blank_parts_are_no_texts_to_summarise() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a sentence that is cut, and of summaries as long as the text
        found = ChunkAndMerge(first_words, BYTES, room=20).merge("One two three." + " " * 60 + "Four five six.")
    assert all(summary != "." for summary in found.rounds[0].summaries)
    assert "".join(found.rounds[0].chunks) == "One two three." + " " * 60 + "Four five six."


def test_what_cannot_be_summarised() -> None:
    with pytest.raises(DataError, match="the document is blank"):
        ChunkAndMerge(first_words, BYTES, room=50).merge(" \n")
    for wrong in (lambda texts: "one", lambda texts: [], lambda texts: [None]):
        with pytest.raises(DataError, match=r"the summariser gave .* for 1 texts"):
            ChunkAndMerge(wrong, BYTES, room=50).merge("A text.")  # type: ignore[arg-type,return-value]
