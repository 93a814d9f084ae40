"""What is said of a model in a lesson is true of that model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer.explorer.describe import model_facts
from glassformer.explorer.facts import PassFacts, PassPlace, opening_link
from glassformer.explorer.model_words import alike, grid_shows, guesses, kinds_of, list_guesses
from glassformer.explorer.tour import tell
from glassformer.inspect.lens import Lens
from glassformer.inspect.outputs import OutputNames, OutputTable
from glassformer.inspect.session import Session
from glassformer.inspect.tokens import Token
from tests.explorer.test_tour import PAIR, facts_of, place, words
from tests.inspect.passes import network_of, reading_of, session_of

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


LABELS = ("anger", "fear", "joy", "love", "sadness", "surprise")


def lens_of(*rows: tuple[str, float], labels: tuple[str, ...] = LABELS) -> Lens:
    """The lens of a text with one of some labels, from the likeliest label of each row and its probability."""
    table = OutputTable(kind="labels", columns="text", stream="text", tokens=[], names=OutputNames(labels=labels))
    ids = torch.tensor([[[labels.index(name)]] for name, _ in rows])
    logprobs, nothing = torch.tensor([[[share]] for _, share in rows]).log(), torch.zeros(len(rows), 1)
    return Lens(
        about=table, ids=ids, logits=logprobs, logprobs=logprobs, entropy=nothing, kl=nothing, targets=ids[-1, :, 0],
        ranks=nothing, target_logprobs=nothing, choices=len(labels),
    )  # fmt: skip


def test_a_first_guess_near_chance_is_called_so_and_a_later_return_to_it_too() -> None:
    lens = lens_of(("joy", 0.20), ("fear", 0.21), ("fear", 0.20), ("joy", 0.30), ("joy", 0.82))
    assert guesses(lens, 0) == (
        "It would say “joy” (20%, hardly better than the 17% of chance) after the embedding, and “joy” (82%) after "
        "layer 3. “joy” is the first choice after the embedding, and again from layer 2 on."
    )
    other = guesses(lens_of(("fear", 0.6), ("joy", 0.5), ("joy", 0.9)), 0)
    assert "chance" not in other and "“joy” is the first choice from layer 0 on" in other


def test_levels_of_one_answer_have_the_range_of_their_probabilities() -> None:
    rows = ("fear", 0.3), ("joy", 0.21), ("joy", 0.26), ("joy", 0.82), ("fear", 0.9), ("fear", 0.4), ("fear", 0.6)
    assert list_guesses(lens_of(*rows)) == [
        ("embedding", "“fear” 30%", pytest.approx(0.3)),
        ("layer 0 to 2", "“joy” 21% to 82%", pytest.approx(0.82)),
        ("layer 3 to 5", "“fear” 90% to 40%", pytest.approx(0.6)),
    ]
    assert list_guesses(lens_of(("joy", 0.301), ("joy", 0.302)))[0][:2] == ("embedding to layer 0", "“joy” 30%")


def test_the_grid_of_a_lens_has_columns_of_classes_or_of_tokens() -> None:
    assert "a column for each class" in grid_shows(lens_of(("joy", 0.5)))
    decoder = Session(network_of("gpt2", task="text-generation"), reading_of("gpt2"))
    assert "for all tokens" in grid_shows(decoder.lens(top=1, count=1))


def test_the_lens_step_of_a_classifier_boxes_the_class_that_is_answered() -> None:
    reader = replace(facts_of("bert"), reads=True)
    for seed in range(8):
        network = network_of("bert", task="text-classification", num_labels=6)
        torch.manual_seed(seed)
        with torch.no_grad():
            network.head.classifier.bias.normal_(0, 2)
        session = Session(network, reading_of("bert"))
        step = next(step for step in tell(session, reader).steps if place(step)["view"] == "lens")
        lens = session.lens()
        assert place(step)["r.cell"] == f"{len(lens.rows) - 1}.{int(lens.ids[-1, 0, 0])}"
        assert "a column for each class" in words(step.text) and "for all tokens" not in words(step.text)


def test_the_tour_has_no_lens_of_a_number() -> None:
    session = Session(network_of("bert", task="text-classification", num_labels=1), reading_of("bert"))
    assert session.lens().about.regression
    assert all(place(step)["view"] != "lens" for step in tell(session, replace(facts_of("bert"), reads=True)).steps)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (
            "whisper",
            "as every moment, offers|moments that “|for each token it|of this token",
            "token, offers|tokens that",
        ),
        ("wav2vec2", "as every moment, offers|moments that “|other moments|of this moment", "token"),
        ("vit", "as every piece, offers|pieces that “|for each piece it|other pieces|of this piece", "token"),
        ("bert", "as every token, offers|tokens that “|for each token it|other tokens|of this token", "moment|piece "),
    ],
)
def test_the_tour_calls_moments_and_pieces_of_pictures_no_tokens(kind: str, right: str, wrong: str) -> None:
    text = " ".join(words(step.text) for step in tell(session_of(kind), facts_of(kind)).steps)
    assert not [each for each in right.split("|") if each not in text], text
    assert not [each for each in wrong.split("|") if each in text], text
