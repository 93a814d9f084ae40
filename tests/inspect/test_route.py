"""A token's route: the parts add up to its vector in every direction, and are those of sums written out."""

from __future__ import annotations

import weakref
from dataclasses import replace

import pytest
import torch

from glassformer.core.flow import Flow, Tape
from glassformer.core.gradient_tape import GradientTape
from glassformer.errors import DataError, UnsupportedError
from glassformer.inspect import Session
from glassformer.inspect.route import BEFORE, TokenRoute, contributions, route
from glassformer.reports.page import report_data
from tests.inspect.passes import KINDS, network_of, reading_of, session_of, tokens_for


@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_add_up_to_the_vector_in_every_direction(kind: str) -> None:
    session = session_of(kind, torch.float64)
    for stream in session.streams.keys() & session.network.stacks().keys():
        token = len(session.streams[stream]) // 2
        layers = len(session.stream_taps(stream)) - 1
        if layers != len(session.network.stacks()[stream]):
            with pytest.raises(UnsupportedError, match="are not one stack"):
                route(session, token=token, stream=stream)
            continue
        after = torch.stack([session.states(layer + 1, stream)[token] for layer in range(layers)])
        generator = torch.Generator().manual_seed(0)
        for _ in range(3):
            along = torch.randn(after.shape, generator=generator, dtype=torch.float64)
            _, products, _ = contributions(session, stream, token, along)
            torch.testing.assert_close(products.sum(1), (after * along).sum(1), atol=1e-9, rtol=1e-9)
        found = route(session, token=token, stream=stream)
        assert found.gap < 1e-5 and found.shares.shape == (layers, len(found.parts))
        heads = [at for at, part in enumerate(found.parts) if part.startswith("head ")]
        torch.testing.assert_close(found.tokens.sum(1), found.shares[:, heads].sum(1), atol=1e-5, rtol=1e-5)


def test_every_number_of_the_vector() -> None:
    session = session_of("bert", torch.float64)
    after = torch.stack([session.states(layer + 1)[4] for layer in range(3)])
    for number in range(after.shape[1]):
        along = torch.zeros_like(after)
        along[:, number] = 1
        _, products, _ = contributions(session, "text", 4, along)
        torch.testing.assert_close(products.sum(1), after[:, number], atol=1e-10, rtol=1e-10)


def test_a_pre_norm_layer_is_a_plain_sum() -> None:
    session = session_of("gpt2", torch.float64)
    found = route(session, token=5)
    tape = Tape("blocks.*.attn.out", "blocks.*.ffn.out").attach(session.network)
    with torch.no_grad():
        session.network.states(session.batch, Flow(tape=tape))
    for layer in range(3):
        before, after = (session.states(at)[5] for at in (layer, layer + 1))
        size = float(after @ after)
        row = dict(zip(found.parts, found.shares[layer].tolist(), strict=True))
        assert row[BEFORE] == pytest.approx(float(before @ after) / size, abs=1e-6)
        assert row["feed-forward"] == pytest.approx(
            float(tape.taps[f"blocks.{layer}.ffn.out"][0, 5] @ after) / size, abs=1e-6
        )
        for head in range(session.maps["self"].heads):
            own = float(session.head(layer, head).out(5)[0] @ after) / size
            assert row[f"head {head}"] == pytest.approx(own, abs=1e-6)
        by_token = torch.zeros(len(session.streams["text"]), dtype=torch.float64)
        for head in range(session.maps["self"].heads):
            one = session.head(layer, head)
            by_token += (one.weighted(5) @ one.projection.mT) @ after / size
        torch.testing.assert_close(found.tokens[layer].double(), by_token.detach(), atol=1e-6, rtol=1e-5)
        assert found.lengths[layer + 1] == pytest.approx(size**0.5, rel=1e-6)
        cosine = float(before @ after / before.norm() / after.norm())
        assert found.turned[layer] == pytest.approx(cosine, abs=1e-6)


def test_it_in_words_and_as_data() -> None:
    session = session_of("bert")
    found = route(session)
    assert found.token == len(session.streams["text"]) - 2, "the last that is not special"
    assert found.finding in str(found) and "changes most in layer" in found.finding
    data = found.to_dict()
    assert data["kind"] == "token-route" and len(data["shares"]) == 3
    assert report_data(found)
    steps: list[tuple[int, int]] = []
    route(session, token=0, progress=lambda done, of: steps.append((done, of)))
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert isinstance(found, TokenRoute)


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_one_layer_is_in_memory_at_a_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut tensor lives until its layer ends; what made a part of the layer, with its graph, not even so long."""
    session = session_of(kind)
    came: dict[str, weakref.ref[torch.Tensor]] = {}
    cut: dict[str, weakref.ref[torch.Tensor]] = {}
    record = GradientTape.record

    def watched(tape: GradientTape, name: str, x: torch.Tensor) -> torch.Tensor:
        y = record(tape, name, x)
        if name in tape.taps:
            came[name], cut[name] = weakref.ref(x), weakref.ref(y)
        return y

    monkeypatch.setattr(GradientTape, "record", watched)
    alive: list[set[str]] = []

    def look(done: int, of: int) -> None:
        alive.append({name for name, tensor in cut.items() if tensor() is not None})
        assert not [name for name, tensor in came.items() if name.endswith((".out", ".z")) and tensor() is not None]

    route(session, token=3, progress=look)
    path = session.network.stacks()["text"].path
    for layer, names in enumerate(alive):
        own = {f"{path}.{layer}.{part}" for part in ("before", "attn.z", "attn.out", "ffn.out")}
        # The stack's own variable holds the sum that entered the layer until the layer returns.
        summed = {f"{path}.{layer - 1}.{part}" for part in ("before", "attn.out", "ffn.out")}
        assert own <= names <= own | summed
    assert len(alive) == 3


def test_the_graph_of_the_stream_that_is_not_followed_is_not_held() -> None:
    reading = reading_of("transformer")
    source = torch.randint(3, 99, (1, 30), generator=torch.Generator().manual_seed(0))
    streams = {**reading.streams, "source": tokens_for(30)}
    batch = replace(reading.batch, input_ids=source)
    session = Session(network_of("transformer"), replace(reading, batch=batch, streams=streams))
    held = 0

    class Saved:
        """A tensor of the backward pass. (Detached: an output of its own node would be a cycle, and stay.)"""

        def __init__(self, tensor: torch.Tensor) -> None:
            nonlocal held
            self.tensor = tensor.detach()
            held += tensor.nbytes

        def __del__(self) -> None:
            nonlocal held
            held -= self.tensor.nbytes

    with torch.autograd.graph.saved_tensors_hooks(Saved, lambda saved: saved.tensor):
        with torch.enable_grad():
            memory = session.network.memory(session.batch, Flow())
        whole = held
        del memory
        assert held == 0
        seen: list[int] = []
        route(session, stream="target", progress=lambda done, of: seen.append(held))
    assert max(seen) < whole / 2
    assert held == 0


def test_what_is_not_there() -> None:
    session = session_of("bert")
    with pytest.raises(DataError, match="there is no token 9 of 'text'; there are 0 to 8"):
        route(session, token=9)
    with pytest.raises(DataError, match="no stream 'source'"):
        route(session, stream="source")


def test_what_gave_next_to_nothing_is_not_told_as_most() -> None:
    session = session_of("bert")
    with torch.no_grad():
        for name, x in session.network.named_parameters():
            if ".attn.out." in name:
                x.zero_()
    still = Session(session.network, reading_of("bert"))
    found = route(still, token=4)
    assert float(found.tokens.abs().max()) == 0
    assert found.finding.endswith("; its heads gave it nothing.")
    few = replace(found, tokens=found.tokens + 0.001)
    assert few.finding.endswith("; what its heads read in other tokens gave less than 1%.")
    assert "gave most" in route(session_of("bert"), token=4).finding
    small = replace(found, shares=torch.tensor([[-0.001, 0.004, 0.997]]), parts=[BEFORE, "head 0", "biases"])
    assert "Of the sum of what entered and what it adds, less than 1% entered, all is from the biases" in small.finding


def test_the_sentence_on_a_route_has_no_share_below_nothing_or_above_all() -> None:
    found = route(session_of("bert"), token=4)
    turned = replace(found, shares=torch.tensor([[-0.01, 0.0, 1.01]]), parts=[BEFORE, "head 0", "feed-forward"])
    assert "what it adds, none entered, all is from the feed-forward layer;" in turned.finding
    half = replace(found, shares=torch.tensor([[0.4, 0.1, 0.5]]), parts=[BEFORE, "head 0", "feed-forward"])
    assert "what it adds, 40% entered, 50% is from the feed-forward layer;" in half.finding
