"""What is said of a model in a lesson is true of that model."""

from __future__ import annotations

from pathlib import Path

import pytest

import glassformer
from glassformer.explorer.describe import model_facts
from glassformer.explorer.facts import PassFacts, PassPlace, opening_link
from glassformer.explorer.model_words import alike, kinds_of
from glassformer.explorer.tour import tell
from glassformer.inspect.tokens import Token
from tests.explorer.test_tour import PAIR, facts_of, words
from tests.inspect.passes import session_of

PARTS = ("place in the text, one of", "which of two texts", "common scale", "waves that say its place", "times")


def facts(kind: str, map: str | None = None) -> PassFacts:
    session = session_of(kind)
    return PassFacts(session, opening_link(session), PassPlace(map=map))


@pytest.mark.parametrize(
    ("kind", "vector", "elsewhere"),
    [
        ("bert", ["place in the text, one of", "which of two texts", "common scale"], False),
        ("gpt2", ["place in the text, one of"], False),
        ("transformer", ["waves that say its place", "times"], False),
        ("llama", [], True),
        ("gemma2", ["times"], True),
        ("t5", [], True),
    ],
)
def test_what_a_vector_is_made_of(kind: str, vector: list[str], elsewhere: bool) -> None:
    here = facts(kind)
    assert [part for part in PARTS if part in here.made_of] == vector
    assert bool(here.not_in_it) == elsewhere


def test_what_makes_a_score() -> None:
    assert facts("bert").made_ready == ""
    assert "rotary" in facts("llama").made_ready and "rotary" not in facts("t5").made_ready
    assert "one length" in facts("qwen3").made_ready
    assert facts("bert").to_score == f"Times {facts('bert').scale:.4g}, which is 1/√8, that is"
    t5 = facts("t5", "decoder")
    assert t5.scale == 1 and ("for the distance" in t5.to_score) == bool(t5.position_bias)
    assert "held below" in facts("gemma2").to_score
    assert facts("bert").norms_between and not facts("llama").norms_between


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "t5", "transformer"])
def test_no_step_of_the_tour_speaks_of_other_models(kind: str) -> None:
    for step in tell(session_of(kind), facts_of(kind)).steps:
        assert "some models" not in words(step.text) and "such as adding" not in words(step.text)


def test_kinds_of_tokens() -> None:
    word, piece = Token("time", "time", 1), Token("ly", "##ly", 2, continues=True)
    sign = Token("[CLS]", "[CLS]", 0, special=True)
    assert kinds_of([word]) == "words"
    assert kinds_of([word, piece]) == "words and pieces of words"
    assert kinds_of([sign, word, piece]) == "words, pieces of words and signs of its own, such as [CLS]"
    assert kinds_of([sign]) == "signs of its own, such as [CLS]"


def test_the_tour_of_two_texts_ends_in_their_cosine_and_what_it_means(minilm: Path) -> None:
    model = glassformer.load(minilm)
    last = tell(model.inspect(*PAIR), model_facts(model), compare=model.explain_similarity).steps[-1]
    cosine = float(model.similarity(*(model.encode([text]) for text in PAIR)))
    assert f"{cosine:.2f}" in words(last.text) and alike(cosine) in words(last.text)
    assert "“flies” of the first and “flies” of the second" in words(last.text) and last.items[0][0] == "flies · flies"
    one = tell(model.inspect(PAIR[0]), model_facts(model), compare=model.explain_similarity).steps[-1]
    assert "came closer" in words(one.text) and len(one.items) == 7


def test_alike_is_ordered() -> None:
    said = [alike(cosine) for cosine in (0.95, 0.6, 0.3, 0.1, -1.0)]
    assert said == ["nearly the same", "closely related", "somewhat related", "hardly related", "hardly related"]


@pytest.mark.parametrize(
    ("text", "instead"),
    [("ROMEO: I will not speak of love and", "“will” was followed here"), ("KING HENRY: long live the", "")],
)
def test_an_answer_says_where_it_is_read_and_why_another_token_was_followed(text: str, instead: str) -> None:
    model = glassformer.load("package:glassformer/checkpoints/shakespeare")
    last = words(tell(model.inspect(text), model_facts(model)).steps[-1].text)
    assert f"turns the last vector of “{text.split()[-1]}” into an answer" in last
    assert instead in last and ("was followed here" in last) == bool(instead)
