"""Patching keeps its promises on every family: what changes nothing, what changes everything, rows of one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import glassformer
from glassformer.core.flow import Flow
from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.inspect import Component, PatchSweep, Session, SessionInput
from glassformer.inspect.patching.effects import METRICS
from glassformer.inspect.patching.readout import FIELDS
from glassformer.inspect.patching.sweep import SWEEPS
from glassformer.model import Model
from glassformer.models import FAMILIES, ConfigReader, Network
from tests.core.small import perturbed
from tests.inspect.passes import network_of, reading_of, session_of

CLOSE = 2e-6
"""Rows of one pass and a pass alone, in fp32: other sizes of matrix products."""


VECTORS = {"feature-extraction", "projection", "passage-encoding", "question-encoding", "audio-codec", "text-to-audio"}
HEADLESS = {family for family, record in FAMILIES.items() if VECTORS.issuperset(record.tasks)}
"""Families whose heads predict nothing: they give vectors, or codes of sound, several at a time."""
FIRST = {record.build: family for family, record in reversed(list(FAMILIES.items()))}.values()
EACH = pytest.mark.parametrize(  # `make test` takes one family of each kind of network
    "family",
    [
        pytest.param(family, marks=() if family in FIRST else pytest.mark.soak)
        for family in FAMILIES
        if family not in HEADLESS
    ],
)


@lru_cache(maxsize=1)
def headed(family: str) -> Network:
    """A tiny network whose head predicts something."""
    record = FAMILIES[family]
    for task in record.tasks:
        spec = record.spec(ConfigReader({**record.tiny, **record.requires.get(task, {})}))
        network = record.build(spec, task)
        if network.head is not None and set(FIELDS) & set(network.head.FIELDS):
            torch.manual_seed(3)
            record.initialise(network, spec)
            return perturbed(network)
    raise AssertionError(f"{family} has no head that predicts anything")


def another(reading: SessionInput, seed: int = 1) -> SessionInput:
    """An input of the same shape: its tokens in another order, its numbers a little elsewhere."""
    generator = torch.Generator().manual_seed(seed)
    batch, changed = reading.batch, {}
    for field in fields(batch):
        x: Tensor | None = getattr(batch, field.name)
        if x is not None and field.name in ("input_ids", "decoder_input_ids") and batch.pixel_values is None:
            changed[field.name] = x.flip(-1)
        elif x is not None and x.is_floating_point() and field.name != "visual_pos":
            changed[field.name] = x + 0.3 * torch.randn(x.shape, generator=generator).to(x)
    return replace(reading, batch=replace(batch, **changed))


def two_of(family: str) -> tuple[Session, Session, dict[str, Any]]:
    """Two passes of one network, and what its predictions need to be read."""
    network, reading = headed(family), reading_of(family)
    first, second = Session(network, reading), Session(network, another(reading))
    assert network.head is not None
    options: dict[str, Any] = {"target": int(network.head.LOGIT_A_TOKEN), "metric": "logit"}  # of "no" it is 0
    try:
        first.patch("attn.z", **options)
    except DataError:  # it predicts something at every position
        options["position"] = 2
    return first, second, options


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in HEADLESS])
def test_identities(family: str) -> None:
    """Itself into itself changes nothing; all last states of another text give its prediction; rows are passes."""
    session, other, options = two_of(family)
    same = session.patch("attn.z", "ffn.out", "blocks.*.out", source=session, **options)
    assert torch.allclose(same.patched, same.patching.base, atol=CLOSE, rtol=0)
    streams = {about.queries for about in session.maps.values()}
    whole = session.patch(*(session.stream_taps(stream)[-1] for stream in streams), source=other, **options)
    assert whole.patching.source_logits is not None
    assert (whole.patching.base - whole.patching.source_logits).abs().max() > 1e-2
    assert torch.allclose(whole.patched, whole.patching.source_logits, atol=CLOSE, rtol=0)
    assert whole.normalised == pytest.approx(1.0, abs=1e-3)


@EACH
def test_rows_of_one_pass_are_passes(family: str) -> None:
    session, other, options = two_of(family)
    for kind in SWEEPS:
        swept = session.sweep(kind, source=other, **options)
        cells = [(row, column) for row, cells in enumerate(swept.components) for column in range(len(cells))]
        for row, column in cells[1 :: len(cells) // 2]:
            component = swept.components[row][column]
            assert component is not None
            alone = session.patch(component, source=other, **options).after
            assert float(swept.values[row, column]) == pytest.approx(alone, abs=CLOSE)


@EACH
def test_no_heads_is_a_network_without_attention(family: str) -> None:
    session, _, options = two_of(family)
    heads = {f"{name}.z" for name in ("attn", "cross") if any(f"{name}.z" in tap for tap in session.network.taps())}
    patched = session.patch(*heads, **options).patched
    outs = [module.out for name, module in session.network.named_modules() if name.endswith(("attn", "cross"))]
    stored = [out.weight.detach().clone() for out in outs]
    try:
        with torch.no_grad():
            for out in outs:
                out.weight.zero_()
        without = Session(session.network, reading_of(family)).patch("ffn.out", mode="swap", source=session, **options)
        assert torch.allclose(patched, without.patching.base, atol=CLOSE, rtol=0)
    finally:
        with torch.no_grad():
            for out, weight in zip(outs, stored, strict=True):
                out.weight.copy_(weight)


# ------------------------------------------------------------------------------------------------- one small decoder


@pytest.fixture(scope="module")
def plays() -> Model:
    return glassformer.load("package:glassformer/checkpoints/shakespeare")


@pytest.fixture(scope="module")
def king(plays: Model) -> Session:
    return plays.inspect("My lord, the king")


@pytest.fixture(scope="module")
def queen(plays: Model) -> Session:
    return plays.inspect("My lord, the men")


def hooked(model: Model, session: Session, change: dict[str, Any]) -> Tensor:
    """Next-token logits with forward hooks of torch, which know nothing of taps."""
    handles = [model.network.get_submodule(name).register_forward_hook(hook) for name, hook in change.items()]
    try:
        with torch.inference_mode():
            return model.network(session.batch, Flow()).logits[0, -1]
    finally:
        for handle in handles:
            handle.remove()


def test_ablations_are_those_of_hooks(plays: Model, king: Session) -> None:
    """A head is a slice of what the output projection reads, a neuron one of what the down projection reads."""
    network: Any = plays.network

    def without(columns: slice, mean: bool = False) -> Any:
        def pre(_: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:
            x = inputs[0].clone()
            x[..., columns] = x[..., columns].mean(1, keepdim=True) if mean else 0.0
            return (x,)

        return pre

    for component, module, columns in (
        ("blocks.1.attn.z[2]", network.blocks[1].attn.out, slice(64, 96)),
        ("blocks.2.ffn.neurons[7]", network.blocks[2].ffn.down, slice(7, 8)),
    ):
        for mode in ("zero", "mean"):
            handle = module.register_forward_pre_hook(without(columns, mode == "mean"))
            expected = hooked(plays, king, {})
            handle.remove()
            assert torch.allclose(king.patch(component, mode=mode).patched, expected, atol=1e-5)


def test_one_position_of_the_stream(plays: Model, king: Session, queen: Session) -> None:
    if len(king.streams["text"]) != len(queen.streams["text"]):
        queen = plays.inspect("My lord, the sea")
    state = queen.states(2)[-1]

    def swap(_: Any, __: Any, x: Tensor) -> Tensor:
        return torch.cat([x[:, :-1], state[None, None]], dim=1)

    expected = hooked(plays, king, {"blocks.1": swap})
    assert torch.allclose(king.patch("blocks.1.out@-1", source=queen, target=0).patched, expected, atol=1e-5)


def test_normalised_is_one_for_the_clean_text_in_both_directions(king: Session, queen: Session) -> None:
    last, options = "blocks.3.out", {"align": "end"}
    for direction, expected in (("denoising", 1.0), ("noising", 0.0)):
        everything = king.patch(last, source=queen, direction=direction, **options)  # type: ignore[arg-type]
        assert everything.normalised == pytest.approx(expected, abs=1e-5)
        nothing = king.patch(last, source=king, direction=direction)
        assert nothing.normalised is None  # one text: there is nothing between 0 and 1


def test_what_is_measured(king: Session) -> None:
    result = king.patch("blocks.*.attn.z", target=" and", against="\n", metric="probability")
    base = result.patching.base.double()
    target = result.patching.metric.target
    assert result.before == pytest.approx(float(base.softmax(-1)[target]))
    for metric in METRICS:
        one = king.patch("blocks.*.attn.z", target=" and", against="\n", metric=metric)
        assert one.before != one.after and str(one.patching.metric).startswith(metric)
    changes = {change.name: change for change in result.top(3)}
    assert {"and", "↵"} <= changes.keys()
    assert changes["and"].probability_before == pytest.approx(result.before)
    assert result.to_dict()["classes"][0]["logit_after"] == max(x.logit_after for x in changes.values())


def test_a_mean_over_reference_texts(plays: Model, king: Session) -> None:
    texts = ["I am", "What news, my lord?"]
    mean = torch.cat([plays.inspect(text).states(1) for text in texts]).mean(0)
    result = king.patch("blocks.1.before@1", mode="mean", mean_of=map(plays.inspect, texts))
    expected = hooked(plays, king, {"blocks.0": lambda *x: torch.cat([x[2][:, :1], mean[None, None], x[2][:, 2:]], 1)})
    assert torch.allclose(result.patched, expected, atol=1e-5)


def test_texts_without_and_with_a_patch(plays: Model, king: Session) -> None:
    before, after = king.patch("blocks.*.attn.z").text(8)
    assert before == plays.generate("My lord, the king", max_new_tokens=8)
    assert after != before
    assert king.patch("blocks.0.out", source=king).text(8) == (before, before)


def test_components_as_they_are_written() -> None:
    assert Component.parse("blocks.3.attn.z[5]@7") == Component("blocks.3.attn.z", (5,), (7,))
    assert Component.parse("blocks.[0-3].ffn.out@-1,2-4") == Component("blocks.[0-3].ffn.out", None, (-1, 2, 3, 4))
    for text in ("blocks.3.attn.z[5]@7", "ffn.neurons[1,2]", "blocks.0.before@-1"):
        assert str(Component.parse(text)) == text


def test_long_sweeps_report_their_progress_and_can_be_cancelled(king: Session) -> None:
    seen: list[tuple[int, int]] = []
    swept = king.sweep("residual", progress=lambda done, of: seen.append((done, of)))
    count = sum(map(len, swept.components))
    assert seen[-1] == (count, count)

    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        king.sweep("heads", progress=stop)
    assert king.network.training is False
    assert king.sweep("heads").before == pytest.approx(swept.before)


def test_sweeps_say_what_is_strongest(king: Session, queen: Session) -> None:
    swept: PatchSweep = king.sweep("heads")
    name, effect = swept.strongest(1)[0]
    assert effect == pytest.approx(float(swept.effects.flatten()[swept.effects.abs().argmax()]))
    assert name in chain.from_iterable(swept.components)
    data = swept.to_dict()
    assert len(data["values"]) == 4 and len(data["values"][0]) == 6 and data["normalised"] is None
    assert swept.rows == ("0", "1", "2", "3")
    assert king.sweep("residual").rows == ("0", "1", "2", "3", "out")


# ---------------------------------------------------------------------------------------------------------- bad input


def refusals(king: Session, queen: Session) -> Iterator[tuple[type[Exception], str, Any]]:
    yield DataError, "no head 9", lambda: king.patch("blocks.0.attn.z[9]")
    yield DataError, "no dimension or neuron 9999", lambda: king.patch("blocks.0.ffn.neurons[9999]")
    yield DataError, "no position 50", lambda: king.patch("blocks.0.ffn.out@50")
    yield ConfigError, "no tap matches 'blocks.9.attn.z'", lambda: king.patch("blocks.9.attn.z")
    yield DataError, "the component is ''", lambda: king.patch("")
    yield DataError, "no number or range", lambda: king.patch("blocks.0.attn.z[x]")
    yield DataError, "no component", lambda: king.patch()
    yield DataError, "no other text to swap with", lambda: king.patch("attn.z", mode="swap")
    yield DataError, "mode is 'off'; allowed: zero", lambda: king.patch("attn.z", mode="off")
    yield DataError, "metric is 'logits'", lambda: king.patch("attn.z", metric="logits")
    yield DataError, "the sweep is 'neurons'", lambda: king.sweep("neurons")
    yield DataError, "there is no map 'cross'", lambda: king.sweep("heads", "cross")
    yield DataError, "is 3 tokens", lambda: king.patch("attn.z", target="king of")
    yield DataError, "the classes are 0 to 999", lambda: king.patch("attn.z", target=1000)
    yield DataError, "name the other one", lambda: king.patch("attn.z", metric="logit difference")
    yield DataError, "name two classes", lambda: king.patch("attn.z", target=3, against=3)
    yield DataError, "there is no token 99", lambda: king.patch("attn.z", position=99)
    yield DataError, "mean_of goes with", lambda: king.patch("attn.z", mean_of=[king])
    yield DataError, "at least one text", lambda: king.patch("attn.z", mode="mean", mean_of=[])
    yield DataError, "align is 'middle'", lambda: king.patch("attn.z", source=queen, align="middle")
    yield UnsupportedError, "no numbers of each token", lambda: king.patch("logits")
    yield DataError, "direction is 'back'", lambda: king.patch("attn.z", direction="back")


def test_what_cannot_be_is_refused(king: Session, queen: Session) -> None:
    for error, message, call in refusals(king, queen):
        with pytest.raises(error) as raised:
            call()
        assert message in str(raised.value), message


def test_a_sweep_that_would_take_hours_is_refused_before_it_begins(
    king: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.inspect.patching.sweep.MAX_PATCHES", 23)
    with pytest.raises(DataError, match="24 patches, each a pass over the text; at most 23"):
        king.sweep("heads")


def test_texts_of_other_lengths_are_shown_or_aligned(plays: Model, king: Session) -> None:
    longer = plays.inspect("My good lord, the king")
    with pytest.raises(DataError, match=r"0 My · 1 good · 2 lord .* ‖ 0 My · 1 lord") as raised:
        king.sweep("residual", source=longer)
    assert "align='start' or 'end'" in str(raised.value)
    swept = king.sweep("residual", source=longer, align="end", target=0)
    assert float(swept.effects[-1, -1]) == pytest.approx(1.0, abs=1e-4)  # the last position of the last layer
    from_start = king.patch("blocks.3.out@-1", source=longer, align="start", target=0)
    assert from_start.normalised != pytest.approx(1.0, abs=1e-2)


def test_models_without_a_prediction_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="no logits"):
        session_of("bert").patch("attn.z")
    other = session_of("gpt2")
    with pytest.raises(UnsupportedError, match="without a head"):
        other.sweep("heads")


def test_another_model_is_no_source(king: Session) -> None:
    with pytest.raises(DataError, match="of another model"):
        king.patch("attn.z", source=session_of("gpt2"))


def test_nan_is_an_error_before_anything_is_compared(plays: Model) -> None:
    broken = glassformer.load("package:glassformer/checkpoints/shakespeare")
    network: Any = broken.network
    with torch.no_grad():
        network.blocks[0].ffn.down.bias[0] = float("nan")
    with pytest.raises(WeightsError, match="output holds NaN"):
        broken.inspect("My lord").sweep("heads")


def test_classifiers_and_taggers(tmp_path: Path) -> None:
    from tests.e2e.tiny_models import make_folder

    make_folder(tmp_path / "classes", "bert", task="text-classification", num_labels=3)
    session = glassformer.load(tmp_path / "classes").inspect("time flies")
    result = session.patch("blocks.0.attn.z[0]", target="LABEL_2")
    assert [change.name for change in result.top()] and result.patching.metric.target == 2
    assert sum(change.probability_after or 0 for change in result.top()) == pytest.approx(1.0)
    with pytest.raises(DataError, match=r"no label 'anger'.*LABEL_0, LABEL_1, LABEL_2"):
        session.patch("attn.z", target="anger")
    with pytest.raises(DataError, match="predicts once a text"):
        session.patch("attn.z", position=0)
    with pytest.raises(UnsupportedError, match="writes no text"):
        result.text()
    make_folder(tmp_path / "tags", "bert", task="token-classification", num_labels=3)
    tagger = glassformer.load(tmp_path / "tags").inspect("time flies")
    with pytest.raises(DataError, match=r"at every position; say at which .*0 .CLS. · 1 time"):
        tagger.patch("attn.z")
    assert tagger.patch("attn.z", position="time", target="LABEL_1").before
    yes_or_no = Session(network_of("electra", task="replaced-token-detection"), reading_of("electra"))
    result = yes_or_no.patch("attn.z", position=2)
    assert str(result.patching.metric) == "logit of 'yes'"  # that of "no" is always 0
    assert sum(change.probability_after or 0 for change in result.top()) == pytest.approx(1.0)
    make_folder(tmp_path / "spans", "bert", task="question-answering")
    spans = glassformer.load(tmp_path / "spans").inspect("time flies", "fruit flies").patch("attn.z")
    assert spans.top()[0].name.endswith(")")
