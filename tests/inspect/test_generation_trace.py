"""Writing, watched: the numbers of `generate`, a tree of its beams, branches, and the attention of what was written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.errors import ConfigError, DataError
from glassformer.inspect.generation_trace import GenerationTrace
from glassformer.inspect.token_tree import TreeStep
from glassformer.inspect.trace_recorder import StopTrace
from glassformer.model import Model, load
from tests.e2e.tiny_models import looked_at, make_folder

FAMILIES = ["gpt2", "llama", "bart", "t5", "whisper"]
DRAWN = {"do_sample": True, "temperature": 1.3, "top_k": 9, "top_p": 0.9, "seed": 4}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    home = tmp_path_factory.mktemp("writers")
    deeper = {"gpt2": {"n_positions": 64}}
    result = {f: load(make_folder(home / f, f, **deeper.get(f, {}))) for f in FAMILIES}
    for model in result.values():  # else all logits are alike
        with torch.no_grad():
            torch.manual_seed(1)
            for parameter in model.parameters():
                parameter.add_(0.4 * torch.randn_like(parameter))
    return result


def prompt_of(model: Model) -> str:
    assert model.folder is not None
    return looked_at(model.folder, model.family.model_type)[0]


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest, models: dict[str, Model]) -> Model:
    return models[request.param]


@pytest.fixture
def trace(model: Model) -> GenerationTrace:
    return model.writing(prompt_of(model))


def along(trace: GenerationTrace, node: int) -> list[Any]:
    return [trace.nodes[each] for each in trace.tree.path(node)]


# ------------------------------------------------------------------------------------------- the same as generate


@pytest.mark.parametrize("options", [{}, DRAWN, {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2}])
def test_tokens_and_probabilities_are_those_of_generate(
    model: Model, trace: GenerationTrace, options: dict[str, Any]
) -> None:
    wanted = model.generate(prompt_of(model), max_new_tokens=8, top=5, **options)
    trace_result = trace.write(max_new_tokens=8, **options)
    (answer,) = trace_result.answers
    path = along(trace, answer.node)
    count = int(wanted.active.sum())
    assert [node.token for node in path] == wanted.new_ids[0, :count].tolist()
    assert [node.logprob for node in path] == wanted.logprobs[0, :count].tolist()
    assert [node.filtered_logprob for node in path] == wanted.filtered_logprobs[0, :count].tolist()
    assert answer.score == pytest.approx(float(wanted.scores[0]), abs=1e-5)
    assert (answer.text, answer.reason) == (wanted.texts[0], wanted.reasons[0])
    for step, node in enumerate(path):
        top = trace.tree.choices[node.parent].top
        assert [each.token for each in top[:5]] == wanted.top_ids[0, step].tolist()
        assert [each.logprob for each in top[:5]] == wanted.top_logprobs[0, step].tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"num_beams": 3, "num_return_sequences": 2},
        {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.7, "length_penalty": 0.5},
        {"num_beams": 3, "do_sample": True, "seed": 3, "temperature": 0.9},
    ],
)
def test_beams_are_those_of_generate(model: Model, trace: GenerationTrace, options: dict[str, Any]) -> None:
    ends = {"eos_token_id": [5, 6]}
    wanted = model.generate(prompt_of(model), max_new_tokens=6, return_scores=True, **ends, **options)
    steps: list[TreeStep] = []
    trace_result = trace.write(max_new_tokens=6, on_step=steps.append, **ends, **options)
    assert [answer.text for answer in trace_result.answers] == wanted.texts
    assert [answer.score for answer in trace_result.answers] == wanted.scores.tolist()
    assert [answer.reason for answer in trace_result.answers] == wanted.reasons
    for answer, ids in zip(trace_result.answers, wanted.new_ids.tolist(), strict=True):
        tokens = trace.tree.tokens(answer.node)
        assert tokens == ids[: len(tokens)]
    assert len(trace_result.ended) <= options["num_beams"]
    assert [place.score for place in trace_result.ended] == sorted(
        (place.score for place in trace_result.ended), key=lambda score: -(score or 0)
    )
    assert all(len(step.live) <= options["num_beams"] for step in steps)
    assert steps[-1].ended == trace_result.ended


def test_the_scores_of_live_beams_are_sums(models: dict[str, Model]) -> None:
    trace = models["gpt2"].writing(prompt_of(models["gpt2"]))
    steps: list[TreeStep] = []
    trace.write(num_beams=3, max_new_tokens=5, on_step=steps.append)
    for step in steps:
        for place in step.live:
            assert place.score == pytest.approx(trace.nodes[place.node].total, abs=1e-5)


def test_several_draws_share_what_they_say_alike(models: dict[str, Model]) -> None:
    model = models["llama"]
    settings = {"do_sample": True, "seed": 1, "top_k": 2, "num_return_sequences": 6, "max_new_tokens": 4}
    trace = model.writing(prompt_of(model))
    trace_result = trace.write(**settings)
    assert [answer.text for answer in trace_result.answers] == model.generate(prompt_of(model), **settings)
    assert len(trace.nodes) < sum(trace.nodes[answer.node].depth for answer in trace_result.answers)
    wanted = model.generate(prompt_of(model), return_scores=True, **settings)
    for answer, logprobs in zip(trace_result.answers, wanted.logprobs, strict=True):
        result = torch.tensor([node.logprob for node in along(trace, answer.node)])
        assert torch.allclose(result, logprobs[: len(result)], atol=1e-5)
    assert len({(node.parent, node.token) for node in trace.nodes.values()}) == len(trace.nodes)


def test_a_seed_is_drawn_and_told(models: dict[str, Model]) -> None:
    trace = models["gpt2"].writing(prompt_of(models["gpt2"]))
    settings = trace.resolve_options(do_sample=True, max_new_tokens=6)
    assert settings.seed is not None and settings.seed < 2**31
    first = trace.write(settings).answers[0].text
    assert first == models["gpt2"].generate(
        prompt_of(models["gpt2"]), do_sample=True, max_new_tokens=6, seed=settings.seed
    )


# --------------------------------------------------------------------------------------------------- the steps


def test_every_step_says_what_is_new_once_and_parents_first(model: Model, trace: GenerationTrace) -> None:
    steps: list[TreeStep] = []
    for options in ({"num_beams": 3}, {}, DRAWN):
        trace.write(max_new_tokens=5, on_step=steps.append, **options)
    sent = [node for step in steps for node in step.nodes]
    assert [node.id for node in sent] == list(range(1, len(trace.nodes) + 1))
    assert all(node.parent < node.id for node in sent)
    read = {choice.at for step in steps for choice in step.choices}
    assert read >= {node.parent for node in sent}
    for step in steps:
        assert all(place.node == 0 or place.node in trace.nodes for place in (*step.live, *step.ended))


def test_choices_say_what_the_options_leave(models: dict[str, Model]) -> None:
    trace = models["gpt2"].writing(prompt_of(models["gpt2"]))
    trace.write(max_new_tokens=2, do_sample=True, top_k=3, seed=0)
    choice = trace.tree.choices[0]
    assert choice.remaining == 3
    assert [each.filtered_logprob is None for each in choice.top] == [False] * 3 + [True] * 7
    remaining = torch.tensor([each.filtered_logprob for each in choice.top[:3]])
    assert float(remaining.exp().sum()) == pytest.approx(1, abs=1e-6)
    model_probs = trace.distribution(0).model.double().exp()
    assert choice.entropy == pytest.approx(float(-(model_probs * model_probs.log2()).sum()), abs=1e-5)


def test_rules_are_told_apart_from_the_shape_of_the_draw(models: dict[str, Model]) -> None:
    trace = models["gpt2"].writing(prompt_of(models["gpt2"]))
    trace.write(max_new_tokens=1, do_sample=True, top_k=3, seed=0, bad_words_ids=[[7]])
    odds = trace.distribution(0)
    assert odds.after_rules[7] == -torch.inf and bool(odds.model.isfinite().all())
    others = [token for token in range(len(odds.model)) if token != 7]
    assert torch.allclose(odds.after_rules[others], odds.model[others], atol=1e-5)
    trace = models["gpt2"].writing(prompt_of(models["gpt2"]))
    trace.write(max_new_tokens=1, do_sample=True, top_k=3, seed=0)
    assert torch.equal(trace.distribution(0).after_rules, trace.distribution(0).model)


def test_texts_join_to_the_text(models: dict[str, Model]) -> None:
    for model in models.values():
        trace = model.writing(prompt_of(model))
        (answer,) = trace.write(max_new_tokens=8).answers
        joined = "".join(node.text for node in along(trace, answer.node))
        assert joined.strip() == answer.text.strip()


def test_a_watcher_ends_it_within_one_step(model: Model, trace: GenerationTrace) -> None:
    for options in ({}, {"num_beams": 3}):
        seen: list[TreeStep] = []

        def watch(step: TreeStep, seen: list[TreeStep] = seen) -> None:
            seen.append(step)
            if len(seen) == 2:
                raise StopTrace

        trace_result = trace.write(max_new_tokens=9, on_step=watch, min_new_tokens=9, **options)
        assert len(seen) == 2
        assert all(trace.nodes[answer.node].depth <= 2 for answer in trace_result.answers)
        assert {answer.reason for answer in trace_result.answers} == {"interrupted"}


# ----------------------------------------------------------------------------------------------------- branches


def test_a_branch_goes_on_as_generate_would_behind_it(models: dict[str, Model]) -> None:
    for family in ("gpt2", "llama"):
        model = models[family]
        trace = model.writing(prompt_of(model))
        trace.write(max_new_tokens=6, min_new_tokens=5)
        other = trace.tree.choices[2].top[3]
        for options in ({}, {"num_beams": 3}):
            steps: list[TreeStep] = []
            trace_result = trace.write(
                after=2,
                tokens=[other.token, 4],
                max_new_tokens=5,
                eos_token_id=[19],
                on_step=steps.append,
                **options,
            )
            begun = [*model.tokenizer(prompt_of(model))["input_ids"], *trace.tree.tokens(2), other.token, 4]
            wanted = model.generate(torch.tensor([begun]), max_new_tokens=5, eos_token_id=[19], **options)
            tokens = trace.tree.tokens(trace_result.answers[0].node)
            assert tokens == wanted[0, len(begun) - 4 :].tolist()
            by_hand = along(trace, trace_result.answers[0].node)[2:4]
            assert [node.chosen for node in by_hand] == ["hand", "hand"]
            assert by_hand[0].logprob == pytest.approx(other.logprob, abs=1e-5)
        assert len([node for node in trace.nodes.values() if node.parent == 2]) == 2


def test_a_branch_of_an_answer_is_what_its_own_prefix_gives(models: dict[str, Model]) -> None:
    model = models["bart"]
    trace = model.writing(prompt_of(model))
    (answer,) = trace.write(max_new_tokens=8, min_new_tokens=8).answers
    path = along(trace, answer.node)
    again = model.writing(prompt_of(model))
    tokens = [node.token for node in path]
    (same,) = again.write(tokens=tokens[:3], max_new_tokens=len(tokens) - 3, min_new_tokens=8).answers
    assert again.tree.tokens(same.node) == tokens
    assert torch.allclose(
        torch.tensor([node.logprob for node in along(again, same.node)]),
        torch.tensor([node.logprob for node in path]),
        atol=1e-5,
    )


def test_going_on_from_a_leaf(models: dict[str, Model]) -> None:
    model = models["llama"]
    trace, whole = model.writing(prompt_of(model)), model.writing(prompt_of(model))
    options = {"eos_token_id": [19], "no_repeat_ngram_size": 3}
    (first,) = trace.write(max_new_tokens=4, **options).answers
    (second,) = trace.write(after=first.node, max_new_tokens=4, **options).answers
    (wanted,) = whole.write(max_new_tokens=8, **options).answers
    assert trace.tree.tokens(second.node) == whole.tree.tokens(wanted.node)
    assert len(trace.nodes) == 8


def test_nothing_comes_behind_an_end(models: dict[str, Model]) -> None:
    trace = models["gpt2"].writing(prompt_of(models["gpt2"]))
    trace_result = trace.write(tokens=[7], eos_token_id=7, max_new_tokens=3)
    assert [(a.node, a.reason) for a in trace_result.answers] == [(1, "end_token")]
    for call in (
        lambda: trace.write(after=1, eos_token_id=7),
        lambda: trace.distribution(1),
    ):
        with pytest.raises(DataError, match="the text ends with node 1"):
            call()


# ------------------------------------------------------------------------------------------------- distributions


def test_numbers_that_are_not_kept_are_computed_again(model: Model, trace: GenerationTrace) -> None:
    (answer,) = trace.write(max_new_tokens=6, repetition_penalty=1.3).answers
    nodes = [0, *trace.tree.path(answer.node)[:-1]]
    remaining = [trace.distribution(node) for node in nodes]
    trace.tree.distributions.limit = 1
    for node, before in zip(nodes, remaining, strict=True):
        trace.tree.distributions.put("other", (torch.zeros(1),))
        again = trace.distribution(node)
        assert again.model is not before.model
        assert torch.allclose(again.model, before.model, atol=1e-5)
        assert torch.allclose(again.after_rules, before.after_rules, atol=1e-5)


def test_what_could_follow_a_leaf(models: dict[str, Model]) -> None:
    trace = models["gpt2"].writing(prompt_of(models["gpt2"]))
    (answer,) = trace.write(max_new_tokens=3, min_new_tokens=3).answers
    (on,) = trace.write(after=answer.node, max_new_tokens=1, min_new_tokens=4).answers
    leaf = trace.nodes[on.node]
    assert trace.distribution(answer.node).model[leaf.token] == pytest.approx(leaf.logprob, abs=1e-5)


# ---------------------------------------------------------------------------------------------------- attention


def test_the_session_of_a_path_holds_prompt_and_text(model: Model, trace: GenerationTrace) -> None:
    (answer,) = trace.write(max_new_tokens=5, min_new_tokens=5).answers
    session = trace.session(answer.node)
    tokens = session.streams[trace.stream]
    assert len(tokens) == len(trace.prefix) + 5
    assert [token.id for token in tokens[-5:]] == trace.tree.tokens(answer.node)
    causal = next(name for name, result in session.maps.items() if result.queries == trace.stream and result.causal)
    probs = session.head(0, 1, causal).probs(len(tokens) - 2)
    assert float(probs.sum()) == pytest.approx(1, abs=1e-5)
    assert probs[0, -1] == 0


def test_white_space_that_was_generated_is_shown_as_a_sign(model: Model, trace: GenerationTrace) -> None:
    (answer,) = trace.write(max_new_tokens=2, min_new_tokens=2).answers
    trace.nodes[answer.node] = replace(trace.nodes[answer.node], text="\n", piece="Ċ")
    assert trace.session(answer.node).streams[trace.stream][-1].text == "↵"


def test_rows_are_those_of_the_model_that_chose(models: dict[str, Model]) -> None:
    """The states of the row above a written token are those from which it was chosen."""
    model = models["gpt2"]
    trace = model.writing(prompt_of(model))
    (answer,) = trace.write(max_new_tokens=4).answers
    session = trace.session(answer.node)
    node = along(trace, answer.node)[2]
    row = trace.row(node.id)
    assert session.streams["text"][row + 1].id == node.token
    with torch.inference_mode():
        ids = torch.tensor([[token.id for token in session.streams["text"]]])
        logits = model(input_ids=ids).logits[0, row]
    assert torch.allclose(logits.log_softmax(-1), trace.distribution(node.parent).model, atol=1e-5)


def test_the_last_token_there_is_room_for_has_no_row(tmp_path: Path) -> None:
    model = load(make_folder(tmp_path / "short", "gpt2", n_positions=8))
    trace = model.writing("time flies like")
    (answer,) = trace.write(max_new_tokens=6, min_new_tokens=5).answers
    assert trace.nodes[answer.node].depth == 6
    assert len(trace.session(answer.node).streams["text"]) == 8


# ----------------------------------------------------------------------------------------------------- bad input


def test_bad_input(models: dict[str, Model]) -> None:
    model = models["gpt2"]
    with pytest.raises(DataError, match="empty"):
        model.writing("")
    with pytest.raises(DataError, match="give one text"):
        model.writing(["a", "b"])  # type: ignore[arg-type]
    trace = model.writing("time flies")
    for options, generated in (
        ({"after": 3}, "no node 3"),
        ({"after": True}, "no node True"),
        ({"tokens": [20]}, "no token 20"),
        ({"tokens": [-1]}, "no token -1"),
        ({"max_new_tokens": 70}, "64 positions"),
    ):
        with pytest.raises(DataError, match=generated):
            trace.write(**options)
    with pytest.raises(ConfigError, match="add do_sample=True"):
        trace.write(temperature=0.5)
    assert not trace.nodes
    with pytest.raises(DataError, match="no node 9"):
        trace.text(9)
    with pytest.raises(DataError, match="which was not generated"):
        trace.row(0)


def test_a_full_tree_says_so(models: dict[str, Model], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.inspect.token_tree.MAX_NODES", 3)
    trace = models["gpt2"].writing("time flies")
    with pytest.raises(DataError, match="this tree is full"):
        trace.write(max_new_tokens=6, min_new_tokens=5)
    assert len(trace.nodes) == 3


# ------------------------------------------------------------------------------------------------- a real model


def test_a_story(shared: Path) -> None:
    model = load(shared / "models" / "stories260k")
    trace = model.writing("Once upon a time")
    (answer,) = trace.write(max_new_tokens=12).answers
    texts = [node.text for node in along(trace, answer.node)]
    assert texts[:5] == [",", " there", " was", " a", " little"]
    assert [each.text for each in trace.tree.choices[0].top[:3]] == [
        ",",
        " there",
        " in",
    ]  # with their spaces
