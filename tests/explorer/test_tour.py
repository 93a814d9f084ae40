"""The steps of a tour, next to the numbers of the session; and what a pass becomes without a part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import torch

import glassformer
from glassformer.core.flow import Flow
from glassformer.errors import ConfigError, DataError
from glassformer.explorer.describe import ModelFacts, model_facts
from glassformer.explorer.lesson import Lesson
from glassformer.explorer.model_words import MOST_LEVELS, Item, between_turns
from glassformer.explorer.tour import Run, TourStep, tell, without
from glassformer.files.schema import parse
from glassformer.inspect.numbers import level_names
from glassformer.inspect.opening import findings
from glassformer.inspect.session import Session
from tests.inspect.passes import session_of

PAIR = ("time flies like an arrow", "fruit flies like a banana")


def words(runs: list[Run]) -> str:
    return "".join(text for _, text in runs)


def place(step: TourStep) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(step.address).items()}


@pytest.fixture(scope="module")
def minilm_pass(minilm: Path) -> tuple[Session, ModelFacts]:
    model = glassformer.load(minilm)
    return model.inspect(*PAIR), model_facts(model)


def facts_of(kind: str) -> ModelFacts:
    """Facts of a network without a model around it: it has the views that every model has."""
    has_none = dict.fromkeys(("can_generate", "can_transcribe", "can_compare", "reads", "is_encoder_decoder"), False)
    nothing = dict.fromkeys(("max_tokens", "modality", "predicts", "mask_token"))
    return ModelFacts(
        name=kind, cli_arguments=[kind], family=kind, task="", revision="", dtype="float32", parameters=1, layers=2,
        precisions=[], heads=2, **has_none, **nothing,  # type: ignore[arg-type]
    )  # fmt: skip


def one_step(session: Session, facts: ModelFacts, **step: object) -> TourStep:
    """A lesson of one step on a pass."""
    values = {"title": "A lesson", "texts": list(session.texts), "steps": [{"title": "One", "text": "-", **step}]}
    (made,) = tell(session, facts, parse(Lesson, values)).steps
    return made


def test_the_steps_follow_the_opening_link_with_the_numbers_of_the_session(
    minilm_pass: tuple[Session, ModelFacts],
) -> None:
    session, facts = minilm_pass
    best = next(iter(session.findings), None)
    assert best is not None
    tokens, vector, head, arithmetic, adding, layers, output = tell(session, facts).steps
    for step in (tokens, vector, head, arithmetic, adding, layers, output):
        where = {"map": "self", "l": "4", "h": "9", "q": str(best.query), "k": str(best.key)}
        assert {name: place(step)[name] for name in where} == where
    assert [place(step)["view"] for step in (tokens, head, arithmetic, output)] == [
        "embedding", "head", "neuron", "similarity"
    ]  # fmt: skip
    assert [(name, number) for name, number, _ in tokens.items] == [
        (token.text, str(token.id)) for token in session.streams["text"]
    ]
    assert [value for _, value, _ in vector.items] == [f"{x:.3f}" for x in session.states(0)[1, :6].tolist()]
    assert words(head.text).startswith(best.sentence)
    one = session.head(4, 9)
    dot, score, share = float(one.q[1] @ one.k[2]), float(one.scores([1])[0, 2]), float(one.probs([1])[0, 2])
    shown = {name: value for name, value, _ in arithmetic.items}
    assert (shown["q · k"], shown["score"], shown["share"]) == (f"{dot:.4g}", f"{score:.4g}", f"{share:.1%}")
    assert "+ positions" not in shown and words(arithmetic.text).count(f"{share:.1%}") == 2
    end = torch.nn.functional.cosine_similarity(session.states(6)[1], session.states(0)[1], dim=0)
    assert layers.items[0][1] == "1.000" and layers.items[-1][:2] == ("layer 5", f"{float(end):.3f}")


def test_what_a_layer_adds_is_what_its_parts_compute(minilm_pass: tuple[Session, ModelFacts]) -> None:
    session, facts = minilm_pass
    step = one_step(session, facts, text="{length_attention:.6f} {length_feed_forward:.6f}", list="residual")
    before, after = session.states(4)[1], session.states(5)[1]
    listed = {name: value for name, value, _ in step.items}
    assert listed["enters"] == f"length {float(before.norm()):.3g}, cosines are with this"
    cosine = float(torch.nn.functional.cosine_similarity(before, after, dim=0))
    assert listed["leaves"] == f"length {float(after.norm()):.3g}, cosine {cosine:.3f}"
    block = session.network.get_submodule("blocks.4")
    with torch.no_grad():
        mid = block.attn_residual(session.states(4)[None], lambda y: block.attn(y, Flow()))  # type: ignore[operator]
        added = block.ffn(mid, Flow())[0, 1], block.attn(session.states(4)[None], Flow())[0, 1]  # type: ignore[operator]
    assert [float(x) for x in words(step.text).split()] == pytest.approx(
        [float(added[1].norm()), float(added[0].norm())], rel=1e-4
    )


@pytest.mark.parametrize("kind", ["bert", "gpt2", "transformer", "t5", "clip", "whisper", "mistral"])
def test_every_kind_of_model_has_the_steps_within_it(kind: str) -> None:
    session = session_of(kind)
    steps = tell(session, facts_of(kind)).steps
    assert len(steps) == 7
    for step in steps:
        where = place(step)
        about = session.maps[where["map"]]
        assert int(where["l"]) < about.layers and int(where["h"]) < about.heads
        assert int(where["q"]) < len(session.streams[about.queries])
        assert int(where["k"]) < len(session.streams[about.keys])
        assert step.title and step.text and step.items


def test_a_tour_along_cross_attention_says_so_and_goes_around_a_transcript_that_is_not_there() -> None:
    session, facts = session_of("whisper"), replace(facts_of("whisper"), can_transcribe=True)
    assert place(tell(session, facts).steps[0])["view"] == "sound"
    first, *_, adds, _layers, _output = tell(session, facts, missing={"sound"}).steps
    assert (place(first)["view"], place(first)["map"]) == ("matrix", "cross")
    text = words(adds.text)
    assert "Cross-attention adds what all" in text and "have read from the source" in text
    own = words(tell(session_of("bert"), facts_of("bert")).steps[4].text)
    assert "Attention adds what all" in own and "have read from other tokens" in own


def test_the_tour_of_a_decoder_follows_the_token_that_its_answer_is_read_from() -> None:
    model = glassformer.load("package:glassformer/checkpoints/shakespeare")
    session = model.inspect("KING HENRY: the king is dead, long live the")
    last = len(session.streams["text"]) - 1
    assert all(found.query != last for found in findings(session)), "else any rule would do"
    first, *others = session.findings
    assert first.query == last and all({each.query, each.key} != {first.query, first.key} for each in others)
    steps = tell(session, model_facts(model)).steps
    assert {place(step)["q"] for step in steps} == {str(last)}


def test_a_part_left_out_changes_the_vector_and_the_prediction() -> None:
    session = glassformer.load("package:glassformer/checkpoints/shakespeare").inspect("ROMEO: I will")
    left_out = without(session, components=["blocks.0.attn.z[1]"], stream="text", token=3)
    result = session.patch("blocks.0.attn.z[1]")
    name, shown, share = left_out["items"][1]
    change = result.top(3)[0]
    assert (name, shown) == (change.name, f"{change.probability_before:.1%} → {change.probability_after:.1%}")
    assert share == change.probability_after and 0 < left_out["cosine"] < 1
    whole = without(session, components=["attn.out", "ffn.out"], stream="text", token=3)
    own, end = session.states(0)[3], session.states(len(session.stream_taps()) - 1)[3]  # nothing was added to it
    assert whole["cosine"] == pytest.approx(float(torch.nn.functional.cosine_similarity(own, end, dim=0)), abs=1e-5)
    with pytest.raises(ConfigError, match=r"no tap matches 'blocks\.9\.attn\.z'"):
        without(session, components=["blocks.9.attn.z"], stream="text", token=3)
    with pytest.raises(DataError, match="there is no head 99"):
        without(session, components=["blocks.0.attn.z[99]"], stream="text", token=3)
    with pytest.raises(DataError, match="there is no token 99"):
        without(session, components=["blocks.0.attn.z"], stream="text", token=99)


def test_what_is_left_out_is_told_in_a_sentence() -> None:
    session = glassformer.load("package:glassformer/checkpoints/shakespeare").inspect("ROMEO: I will")
    head = without(session, components=["blocks.0.attn.z[1]"], stream="text", token=3)
    top = max(session.patch("blocks.0.attn.z[1]").top(3), key=lambda change: change.probability_before or 0)
    assert head["sentence"].startswith("Without head 1 of layer 0 the vector of ")
    assert f"is {head['cosine']:.3f}, where 1 is unchanged." in head["sentence"]
    assert f"“{top.name}”" in head["sentence"] and f"instead of {top.probability_before:.1%}." in head["sentence"]
    every = without(session, components=["attn.out", "ffn.out"], stream="text", token=3)
    assert "the attention of all layers, the feed-forward part of all layers" in every["sentence"]
    assert " The answer becomes “" in every["sentence"]


def test_what_the_lens_step_quotes_is_in_the_lens(shared: Path) -> None:
    session = glassformer.load(shared / "models" / "stories260k").inspect("Once upon a time there was a")
    facts = model_facts(glassformer.load(shared / "models" / "stories260k"))
    steps = tell(session, facts).steps
    (step,) = (step for step in steps if place(step)["view"] == "lens")
    at = int(place(step)["r.cell"].split(".")[1])
    lens = session.lens(top=1)
    (first, share), (last, end) = lens.top(0, at)[0], lens.top(-1, at)[0]
    assert f"It would say “{first}” ({share:.0%}) after the embedding, and “{last}” ({end:.0%})" in words(step.text)
    for row in range(lens.settled(at)):
        if f"after {lens.rows[row]}," in words(step.text).partition("answers")[2]:
            assert f"number {int(lens.ranks[row, at]):,} after {lens.rows[row]}" in words(step.text)
    assert f"the first from {lens.rows[lens.settled(at)]} on" in words(step.text)
    assert step.items[0][0] in ("embedding", "embedding to layer 1") and f"“{last}”" in step.items[-1][1]


def test_a_saved_page_without_words_does_not_speak_of_them(shared: Path) -> None:
    model = glassformer.load(shared / "models" / "stories260k")
    session, facts = model.inspect("Once upon a time"), model_facts(model)

    def last(*missing: str) -> tuple[str, str]:
        step = tell(session, facts, missing=missing).steps[-1]
        return place(step)["view"], words(step.text)

    assert last()[0] == "attribution" and "orange" in last()[1]
    for missing, view in (["words"], "attribution"), (["attribution"], "lens"), (["attribution", "lens"], "model"):
        assert last(*missing)[0] == view and "not in this saved page" in last(*missing)[1]


def test_of_many_levels_the_first_the_last_and_the_turns_are_listed() -> None:
    values = [1.0, -0.1, *[-0.12 + 0.001 * i for i in range(20)], 0.5, 0.51, 0.4]
    items: list[Item] = [(name, f"{x:.3f}", max(0.0, x)) for name, x in zip(level_names(25), values, strict=True)]
    assert len(items) > MOST_LEVELS
    assert [(name, words) for name, words, _ in between_turns(items, values)] == [
        ("embedding", "1.000"),
        ("layer 0", "-0.100"),
        ("layer 1 to 20", "-0.120 to -0.101"),
        ("layer 21", "0.500"),
        ("layer 22", "0.510"),
        ("layer 23", "0.400"),
    ]
