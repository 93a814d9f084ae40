"""The walk-through: the shapes and rules that a teacher shows, on the network that the library runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from glassformer.core import Batch, Flow, Tape
from glassformer.errors import DataError, UnsupportedError
from glassformer.lessons import walkthrough
from glassformer.lessons.walkthrough import IDS, LessonStep, classify, lesson_model, masks, six_steps, walk
from glassformer.model import Model, load
from glassformer.models import FAMILIES


@pytest.fixture(scope="module")
def model() -> Model:
    return lesson_model()


@pytest.fixture(scope="module")
def steps(model: Model) -> dict[str, LessonStep]:
    return {step.name: step for step in walk(model)}


def close(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)


def test_the_steps_come_in_order(steps: dict[str, LessonStep]) -> None:
    assert list(steps) == [
        "tokens",
        "embeddings",
        "attention, bare",
        "q, k, v",
        "scores",
        "weights",
        "output",
        "multi-head",
        "feed-forward",
        "norm",
        "positions",
        "encoder",
        "classifier",
    ]


def test_tokens_to_vectors(steps: dict[str, LessonStep]) -> None:
    assert steps["tokens"]["ids"].tolist() == [[2051, 10029, 2066, 2019, 8612]]
    step = steps["embeddings"]
    assert step["table"].shape == (30522, 768)
    assert step["rows"].shape == step["x"].shape == (1, 5, 768)
    assert torch.equal(step["rows"], step["one_hot @ table"])


def test_a_lookup_and_a_one_hot_product_have_the_same_gradient() -> None:
    lookup, product = (torch.randn(20, 8, generator=torch.Generator().manual_seed(0)) for _ in range(2))
    lookup.requires_grad_(), product.requires_grad_()
    ids, weight = torch.tensor([[3, 7, 3]]), torch.randn(1, 3, 8)
    first, second = F.embedding(ids, lookup), F.one_hot(ids, 20).float() @ product
    assert torch.equal(first, second)
    (first * weight).sum().backward(), (second * weight).sum().backward()
    assert lookup.grad is not None and product.grad is not None
    assert torch.equal(lookup.grad, product.grad)


def test_bare_attention(steps: dict[str, LessonStep]) -> None:
    step, x = steps["attention, bare"], steps["embeddings"]["x"]
    weights = step["weights"]
    assert weights.shape == (1, 5, 5)
    close(weights.sum(-1), torch.ones(1, 5), 1e-6)
    assert bool((weights[0].diagonal() > 0.9).all())
    close(step["output"], F.scaled_dot_product_attention(x, x, x), 1e-6)


def test_one_head_step_by_step(steps: dict[str, LessonStep], model: Model) -> None:
    for name in "qkv":
        assert steps["q, k, v"][name].shape == (1, 5, 64)  # 768 / 12; not 12
    raw, scaled = steps["scores"]["raw_scores"], steps["scores"]["scaled_scores"]
    assert raw.shape == (1, 5, 5)
    close(raw / 8, scaled, 1e-6)
    weights = steps["weights"]["weights"]
    close(weights.sum(-1), torch.ones(1, 5), 1e-6)
    assert steps["output"]["weighted_values"].shape == (1, 5, 5, 64)
    close(steps["output"]["sum"], weights @ steps["q, k, v"]["v"], 1e-6)
    close(steps["multi-head"]["joined"][..., :64], steps["output"]["sum"])


def test_heads_one_by_one_equal_the_layer(steps: dict[str, LessonStep], model: Model) -> None:
    step = steps["multi-head"]
    assert step["joined"].shape == step["out"].shape == (1, 5, 768)
    close(step["out, head by head"], step["out"], 1e-6)
    tape = Tape("blocks.0.attn.out")
    model(input_ids=steps["tokens"]["ids"], tape=tape)
    close(step["out"], tape.taps["blocks.0.attn.out"], 1e-6)


def test_feed_forward_and_norm(steps: dict[str, LessonStep], model: Model) -> None:
    step = steps["feed-forward"]
    assert step["neurons"].shape == (1, 5, 3072) and step["out"].shape == (1, 5, 768)
    close(step["one position at a time"], step["out"])
    close(step["as a convolution"], step["out"])
    norm = steps["norm"]
    close(norm["normed, by hand"], norm["normed"])
    tape = Tape("blocks.0.mid", "blocks.0.ffn.out")
    model(input_ids=steps["tokens"]["ids"], tape=tape)
    close(norm["normed"], tape.taps["blocks.0.mid"])
    close(step["out"], tape.taps["blocks.0.ffn.out"])
    assert "post-norm) is the original" in norm.notice


def test_positions_are_what_tells_places_apart(steps: dict[str, LessonStep]) -> None:
    step = steps["positions"]
    assert step["table"].shape == (512, 768)
    assert step["sinusoidal"][0, 0, :4].tolist() == [0, 1, 0, 1]
    assert step["change without"].max() < 1e-4
    assert step["change with"].min() > 0.01


def test_encoder_and_classifier(steps: dict[str, LessonStep], model: Model) -> None:
    step = steps["encoder"]
    assert [name for name in step.tensors if name.startswith("blocks")] == [f"blocks.{i}.out" for i in range(12)]
    assert all(tensor.shape == (1, 5, 768) for tensor in step.tensors.values())
    assert torch.equal(step["blocks.11.out"], step["final"])
    logits = steps["classifier"]["logits"]
    assert logits.shape == steps["classifier"]["logits without [CLS]"].shape == (1, 3)
    assert steps["classifier"]["ids"].tolist() == [[101, *IDS, 102]]
    assert torch.equal(logits, model(input_ids=steps["classifier"]["ids"]).logits)
    assert not torch.allclose(logits, steps["classifier"]["logits without [CLS]"])


def test_a_sentence_without_cls_is_refused(model: Model) -> None:
    with pytest.raises(DataError, match=r"must be \[CLS\] \(101\); got \[2051\]"):
        classify(model.network, torch.tensor([list(IDS)]))  # type: ignore[arg-type]


def test_a_notebook_shows_it_as_the_page_of_its_steps() -> None:
    steps = walk(lesson_model(num_hidden_layers=1))
    html, still = steps.live_page().html(), steps.live_page().still()
    assert isinstance(steps, list) and steps.reports() == list(steps) and html.startswith("<!doctype html>")
    assert still.count("<img ") > 5 and all(step.name in still for step in steps)


def test_the_model_is_seeded_and_in_eval_mode() -> None:
    torch.manual_seed(77)
    first, second = (walk(lesson_model(num_hidden_layers=1))[-1]["logits"] for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_six_steps_recombine_in_any_family(family: str) -> None:
    """Also with causal masks, rotary positions and grouped keys."""
    torch.manual_seed(0)
    record = FAMILIES[family]
    network = Model.from_config(record.tiny, task="text-generation").eval().network
    batch = Batch(input_ids=torch.tensor([[5, 6, 7, 8], [0, 0, 9, 4]]))
    flow = Flow(keep=torch.tensor([[True] * 4, [False] * 2 + [True] * 2])[:, None])
    tape = Tape("blocks.1.attn.z", "blocks.1.attn.out").attach(network)
    network(batch, Flow(keep=flow.keep, tape=tape))
    sums = []
    for head in range(4):
        tensors = six_steps(network, batch, flow, path="blocks.1.attn", head=head)
        assert bool((tensors["weights"].triu(1) == 0).all())
        close(tensors["sum"], tape.taps["blocks.1.attn.z"][:, head], 1e-6)
        close(tensors["raw_scores"] / tensors["q"].shape[-1] ** 0.5, tensors["scaled_scores"], 1e-6)
        sums.append(tensors["sum"])
    out = network.get_submodule("blocks.1.attn").out(torch.cat(sums, dim=-1))  # type: ignore[operator]
    close(out, tape.taps["blocks.1.attn.out"], 1e-6)
    with pytest.raises(DataError, match="no head 4; it has heads 0 to 3"):
        six_steps(network, batch, flow, path="blocks.1.attn", head=4)


def test_six_steps_of_cross_attention() -> None:
    torch.manual_seed(0)
    network = Model.from_config(FAMILIES["transformer"].tiny).eval().network
    batch = Batch(input_ids=torch.tensor([[5, 6, 7]]), decoder_input_ids=torch.tensor([[1, 5]]))
    tensors = six_steps(network, batch, path="decoder.blocks.1.cross", head=3)
    assert tensors["weights"].shape == (1, 2, 3)  # a rectangle


def test_the_three_masks() -> None:
    step = masks(T=5, S=4)
    assert step["decoder"].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1],
    ]
    assert step["encoder"].shape == (4, 4) and bool(step["encoder"].all())
    assert step["cross"].shape == (5, 4) and bool(step["cross"].all())


def test_a_real_model_reads_a_text(minilm: Path) -> None:
    model = load(minilm, task="text-classification")
    steps = {step.name: step for step in walk(model, "time flies like an arrow")}
    assert steps["tokens"]["ids"].tolist() == [list(IDS)]
    assert steps["classifier"]["ids"].tolist() == [[101, *IDS, 102]]
    assert steps["encoder"]["final"].shape == (1, 5, 384)
    close(steps["multi-head"]["out, head by head"], steps["multi-head"]["out"])
    close(steps["norm"]["normed, by hand"], steps["norm"]["normed"])
    assert steps["positions"]["change without"].max() < 1e-4 < steps["positions"]["change with"].min()
    with pytest.raises(DataError, match="no tokens"):
        walk(model, "")


def test_bad_input(model: Model) -> None:
    with pytest.raises(DataError, match="no tokenizer"):
        walk(model, "time flies")
    with pytest.raises(DataError, match="no tokens"):
        walk(model, ids=[])
    with pytest.raises(DataError, match="99999"):
        walk(model, ids=[99999])
    with pytest.raises(UnsupportedError, match="'gpt2'"):
        walk(Model.from_config(FAMILIES["gpt2"].tiny))


def test_it_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, model: Model, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["walkthrough"])
    monkeypatch.setattr(walkthrough, "lesson_model", lambda: model)
    walkthrough.main()
    printed = capsys.readouterr().out
    assert "2051" in printed and "[1, 5, 768]" in printed and "[1, 3]" in printed
    assert max(map(len, printed.splitlines())) < 120
    for arguments in (["--text", "a"], ["--model", str(tmp_path / "nothing")]):
        monkeypatch.setattr("sys.argv", ["walkthrough", *arguments])
        with pytest.raises(SystemExit) as ended:
            walkthrough.main()
        assert ended.value.code == 2
