"""Attributions add up: parts to the logit, a head's tokens to the head, integrated gradients to the logit's change."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer.core.flow import Flow
from glassformer.core.linearised import linearised
from glassformer.engine.prepare import prepare
from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.inspect import Session, SessionInput
from glassformer.inspect.attribution.attribute import direct_parts
from glassformer.inspect.attribution.attribution import ROUGH
from glassformer.inspect.attribution.target import TargetRequest
from glassformer.inspect.outputs import OutputNames, OutputTable, output_table
from glassformer.inspect.tokens import Token, find_token
from tests.inspect.passes import network_of, reading_of
from tests.inspect.test_lens import SHAKESPEARE, heads, session_of

STORY = "ROMEO: O, she doth teach the torches"


def request_of(session: Session) -> TargetRequest:
    """An output in the middle of the text, where the head has one for each token."""
    columns = session.lens(top=1).about.columns
    return TargetRequest(at=4) if columns == "tokens" else TargetRequest()


@heads
def test_parts_add_up_to_the_logit(family: str, task: str) -> None:
    session = _double(session_of(family, task))
    request, network, streams = request_of(session), session.network, session.streams
    with torch.inference_mode():
        target = request.resolve(network, network(session.batch, Flow()), streams, OutputNames())
    parts, gradients = direct_parts(
        session,
        lambda output: target.of(output_table(network, output, streams, OutputNames())[0]),
        Flow(last=target.last),
    )
    constant = getattr(network.head, "constant", None)  # BART's bias of each logit is data
    rest = 0.0 if constant is None else float(constant.values.detach()[target.cells[0][1]])
    assert sum(part.value for part in parts) + rest == pytest.approx(target.score, abs=1e-6, rel=1e-6)
    layers = len(network.stacks()[target.stream])
    kinds = {part.kind for part in parts}
    crosses = any(m.keys != m.queries == target.stream for m in session.maps.values())
    assert {"embedding", "head", "feed-forward", "biases"} <= kinds
    assert ("cross head" in kinds) == crosses
    assert {part.layer for part in parts if part.kind == "feed-forward"} == set(range(layers))
    assert len(gradients) == layers * (1 + crosses)


def _double(session: Session) -> Session:
    given = {f.name: getattr(session.batch, f.name) for f in fields(session.batch)}
    wide = {name: x.double() for name, x in given.items() if x is not None and x.is_floating_point()}
    reading = SessionInput(session.texts, replace(session.batch, **wide), session.streams)
    return Session(session.network.double(), reading)


@pytest.mark.parametrize(
    ("family", "task"),
    [
        ("gpt2", "text-generation"),
        ("gpt_neox", "text-generation"),
        ("gemma2", "text-generation"),
        ("mixtral", "text-generation"),
        ("bert", "text-classification"),
        ("bert", "question-answering"),
        ("deberta-v2", "token-classification"),
        ("t5", "translation"),
        ("bart", "text-classification"),
        ("whisper", "automatic-speech-recognition"),
        ("vit", "image-classification"),
    ],
)
def test_an_attribution_is_complete(family: str, task: str) -> None:
    session = session_of(family, task)
    zero = None if task == "image-classification" else "zero"
    found = session.attribute(at=request_of(session).at, baseline=zero, steps=64)
    assert abs(found.remainder) < 1e-3 * max(1.0, abs(found.target.score))
    inputs = set(session.network.stream_taps())
    assert set(found.shares) == set(found.gradient_input) == inputs
    for stream in inputs:
        assert found.shares[stream].shape == (len(session.streams[stream]),)
    by_kind = {"head": found.target.stream, "cross head": "source"}
    for name, shares in found.by_token.items():
        kind = "cross head" if session.maps[name].keys != session.maps[name].queries else "head"
        assert shares.shape[-1] == len(session.streams[by_kind[kind]])
        for part in found.parts:
            if part.kind == kind:
                assert float(shares[part.layer, part.head].sum()) == pytest.approx(part.value, abs=2e-4)
    assert sum(found.by_layer()["feed-forward"].values()) == pytest.approx(
        sum(part.value for part in found.parts if part.kind == "feed-forward")
    )
    assert found.norms.shape[1] == len(session.streams[found.target.stream])


def test_a_linearised_network_gives_the_same_output_and_leaves_the_network_alone() -> None:
    network, reading = network_of("gemma2", task="text-generation"), reading_of("gemma2")
    before = {name: id(x) for name, x in network.named_parameters()}
    twin = linearised(network)
    with torch.inference_mode():
        mine, theirs = (each(reading.batch, Flow()).logits for each in (network, twin))
    assert torch.allclose(mine, theirs, atol=1e-5)
    assert {name: id(x) for name, x in network.named_parameters()} == before
    assert twin.blocks[0].attn.qkv.weight is network.blocks[0].attn.qkv.weight  # type: ignore[index,union-attr]


def test_integrated_gradients_add_up_and_the_text_says_where_they_begin() -> None:
    model = glassformer.load(SHAKESPEARE)
    found = model.attribute(STORY, target=" of")
    assert found.gap < 0.01 and found.steps == 16 and abs(found.remainder) < 1e-4
    assert found.target.title == "“of” after “s”"
    assert [word for word, _ in found.words["text"]][-2:] == ["the", "torches"]
    assert found.how.startswith("Integrated gradients, 16 steps, which miss 0.") and found.notes[0] == found.how
    change = found.target.score - found.baseline_score
    assert float(found.shares["text"].sum()) == pytest.approx(change, rel=0.01)
    rough = model.attribute(STORY, target=" of", baseline="zero", steps=1)
    assert rough.gap > 0.01 and any("read them with care" in note for note in rough.notes)
    assert abs(found.to_dict()["gap"]) < 0.01


def test_a_finding_names_a_word_only_where_the_words_are_known_well_enough() -> None:
    found = glassformer.load(SHAKESPEARE).attribute(STORY, target=" of")
    word, value = max(found.words["text"], key=lambda each: each[1])
    part = found.strongest(1)[0].name
    assert found.finding.startswith(
        f"The word that speaks most for it is “{word.strip()}” (+{value:.3g}). The strongest part is {part} ("
    )
    change = found.target.score - found.baseline_score
    for gap, named in ((ROUGH - 0.01, True), (ROUGH + 0.01, False), (5.78, False)):
        scale = change * (1 + gap) / float(found.shares["text"].double().sum())
        rough = replace(found, shares={"text": found.shares["text"] * scale})
        assert rough.gap == pytest.approx(gap, abs=1e-4) and f"The strongest part is {part}" in found.finding
        assert ("speaks most" in rough.finding) is named
    assert f"All {len(found.parts)} parts add up to the logit; the strongest is {part} (" in rough.finding
    assert (
        "16 gradients miss 578% of the change, so none is named here; up to 512 gradients are more exact."
        in rough.finding
    )
    assert rough.finding in rough._repr_html_() and rough.finding in rough.above


def test_a_finding_names_another_word_than_the_one_right_before_the_answer() -> None:
    found = glassformer.load(SHAKESPEARE).attribute(STORY)
    values = torch.arange(1.0, 1.0 + len(found.tokens["text"]))
    scale = (found.target.score - found.baseline_score) / values.sum()
    found = replace(found, shares={"text": values * scale * (1 if scale > 0 else -1)}, method="leave one out")
    ranked = sorted(found.words["text"], key=lambda each: -each[1])
    last = found.words["text"][-1]
    (first, _), (second, value) = ranked[:2]
    assert found.target.follows and last == ranked[0]
    assert f"speaks most for it is “{first}” (" in found.finding
    assert (
        f"), which comes right before it and speaks for many words; of the others it is “{second}” (+{value:.3g})"
        in (found.finding)
    )
    against = replace(found, target=replace(found.target, against="“a”"))
    assert "right before" not in against.finding


def test_pieces_of_the_line_where_the_score_jumps_get_most_gradients() -> None:
    network = network_of("gpt2", task="text-generation")
    with torch.no_grad():
        for block in network.blocks:  # type: ignore[union-attr]
            block.attn.qkv.weight.mul_(3)  # a softmax that is nearly a choice of one token
    session = Session(network, reading_of("gpt2"))
    found = session.attribute(7, baseline="zero")
    even = session.attribute(7, baseline="zero", steps=found.steps)
    assert found.steps > 16 and found.gap < 0.01 < even.gap / 3


def test_gradient_by_input_is_the_derivative_along_the_input() -> None:
    session = Session(network_of("gpt2", torch.float64, task="text-generation"), reading_of("gpt2"))
    found = session.attribute(7, baseline="zero", steps=1)
    with torch.no_grad():
        x = session.states(0)[None].clone()
        scores = []
        for step in (1e-5, -1e-5):
            tape = glassformer.Tape(edit={"blocks.0.before": x * (1 + step)}).attach(session.network)
            scores.append(float(session.network(session.batch, Flow(tape=tape)).logits[0, -1, 7]))
    assert float(found.gradient_input["text"].sum()) == pytest.approx((scores[0] - scores[1]) / 2e-5, rel=1e-4)


def test_one_output_rather_than_another() -> None:
    model = glassformer.load(SHAKESPEARE)
    a, b = (model.attribute(STORY, target=each, steps=4) for each in (" of", ","))
    both = model.attribute(STORY, target=" of", against=",", steps=4)
    assert both.target.score == pytest.approx(a.target.score - b.target.score, abs=1e-4)
    assert both.target.title == "“of” rather than “,” after “s”"
    assert both.heading.startswith("“of” rather than “,” after “s”: difference of logits ")
    twins = model.attribute(STORY, target="the", against=" the", steps=0)  # two tokens that read the same
    assert twins.target.title == "“the” rather than “ the” after “s”"
    for one, other, difference in zip(a.parts, b.parts, both.parts, strict=True):
        assert difference.value == pytest.approx(one.value - other.value, abs=1e-4)


def test_targets_that_are_not_there() -> None:
    model = glassformer.load(SHAKESPEARE)
    for options, message in (
        ({"target": "unfathomable"}, "tokens"),
        ({"target": 99_999}, "there is no output"),
        ({"at": 99}, "there is no token 99"),
        ({"at": "Hamlet"}, "the text has no word"),
        ({"target": " of", "against": " of"}, "are both"),
    ):
        with pytest.raises(DataError, match=message):
            model.attribute(STORY, **options)  # type: ignore[arg-type]
    for options in ({"steps": -1}, {"steps": 10_001}, {"baseline": "noise"}):
        with pytest.raises(ConfigError):
            model.attribute(STORY, **options)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="characters"):
        model.attribute("x" * 4_000_000)


def test_what_cannot_be_attributed_says_why(minilm: Path) -> None:
    with pytest.raises(UnsupportedError, match="no logits"):
        glassformer.load(minilm).attribute("time flies")
    network = network_of("gpt2", task="text-generation")
    with torch.no_grad():
        network.blocks[0].ffn.down.weight[0] = torch.nan  # type: ignore[index,union-attr]
    with pytest.raises(WeightsError, match=r"blocks\.0\.ffn\.down"):
        Session(network, reading_of("gpt2")).attribute(baseline="zero")
    narrow = network_of("gpt2", task="text-generation")
    prepare(narrow, "bf16")
    with pytest.raises(ConfigError, match="gradients"):
        Session(narrow, reading_of("gpt2")).attribute(baseline="zero")


def test_where_one_looks_if_nothing_is_said() -> None:
    tokens = [
        Token("[CLS]", "[CLS]", 1, special=True),
        *(Token(w, w, i) for i, w in enumerate("Ada met Grace".split(), 5)),
    ]
    names = OutputNames(labels=("O", "B-PER", "I-PER"))
    table = OutputTable(kind="labels", columns="tokens", stream="text", tokens=tokens, names=names)
    logits = torch.tensor([[0.0, 9.0, 0], [1, 2, 0], [5, 0, 0], [0, 4, 1]])
    request = TargetRequest()
    assert request._cell(table, logits) == (3, 1)  # Grace, a person; not [CLS], and no O
    assert TargetRequest(target="O")._cell(table, logits) == (2, 0)
    assert TargetRequest(at="Ada")._cell(table, logits) == (1, 1)
    with pytest.raises(DataError, match="there is no label 'B-ORG'"):
        TargetRequest(target="B-ORG")._cell(table, logits)
    pieces = [Token("un", "un", 1), Token("believ", "##b", 2, continues=True), Token("able", "##a", 3, continues=True)]
    assert find_token("unbelievable", pieces) == find_token(0, pieces) == 0
    assert find_token(-1, pieces) == 2
    assert find_token(pieces[1].text, pieces) == 1, "a piece within a word, as views show it"
    masked = Token("[MASK]", "[MASK]", 9, special=True)
    gap = OutputTable(
        kind="vocabulary", columns="tokens", stream="text", tokens=tokens, names=OutputNames(blank=masked)
    )
    with pytest.raises(DataError, match="fills gaps"):
        request._cell(gap, logits)


def test_what_is_exact_is_to_be_had_without_integrated_gradients() -> None:
    session = glassformer.load(SHAKESPEARE).inspect("ROMEO: O, she doth teach the torches")
    whole, exact = session.attribute(" of"), session.attribute(" of", steps=0)
    assert [part.value for part in exact.parts] == [part.value for part in whole.parts]
    assert torch.equal(exact.gradient_input["text"], whole.gradient_input["text"])
    assert exact.shares == {} and exact.rough and not whole.rough and exact.steps == 0
    assert "not computed" in exact.notes[0] and "add up to the logit" in exact.finding
    assert [table.headings[0] for table in exact.tables()] == ["part", "layer"]
    with pytest.raises(ConfigError, match=r"steps is -1; it must be from 0 to 10,000"):
        session.attribute(" of", steps=-1)


def test_words_that_are_rough_have_no_colours() -> None:
    session = glassformer.load(SHAKESPEARE).inspect("ROMEO: O, she doth teach the torches")
    found = session.attribute(" of")
    off = replace(found, shares={stream: 2 * x for stream, x in found.shares.items()})
    assert off.rough and off.tables()[0].shades is None and found.tables()[0].shades is not None
