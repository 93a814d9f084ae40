"""Flow, Node and Tape: state of a call, tap names, recording and editing of activations."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from torch import Tensor

from glassformer.core import (
    Embedding,
    EmbeddingSpec,
    EncoderOutput,
    Flow,
    KeyValueCache,
    Node,
    Output,
    Packing,
    Stack,
    StackSpec,
    Tape,
)
from glassformer.core.flow import match
from glassformer.errors import ConfigError
from tests.core.small import CROSS, LLAMA, POST, STACKS, assert_close, keeps, perturbed, stack


class Small(Node):
    """An embedding and two blocks, named as in every family."""

    def __init__(self, spec: StackSpec) -> None:
        super().__init__()
        self.embed = Embedding(EmbeddingSpec(vocabulary=20, width=32))
        self.blocks = Stack(spec)
        self.name_nodes()

    def forward(self, ids: Tensor, flow: Flow) -> Tensor:
        return self.blocks(self.embed(ids, flow), flow)


def small(spec: StackSpec | None = None) -> Small:
    return perturbed(Small(spec or StackSpec(blocks=(POST,) * 2)))


IDS = torch.tensor([[3, 1, 4, 1, 5, 9]])


# ── Flow ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_positions_are_as_the_caller_says_or_counted() -> None:
    tokens = torch.zeros(2, 3, 32)
    assert Flow().token_positions(tokens).tolist() == [[0, 1, 2]]
    given_positions = torch.tensor([[7, 7, 9]])
    assert Flow(positions=given_positions, keep=keeps([3, 2], 3)).token_positions(tokens) is given_positions
    assert Flow(packing=Packing((1, 2))).token_positions(tokens[:1]).tolist() == [[0, 0, 1]]
    assert Flow(keep=keeps([3, 2], 3, "left")).token_positions(tokens).tolist() == [[0, 1, 2], [0, 0, 1]]
    assert Flow(keep=keeps([3, 2], 3)).token_positions(tokens)[:, :2].tolist() == [[0, 1], [0, 1]]
    assert Flow(keep=torch.ones(2, 3, 3, dtype=torch.bool)).token_positions(tokens).tolist() == [[0, 1, 2]]


def test_positions_go_on_where_the_cache_ends() -> None:
    cache = KeyValueCache()
    cache.advance(4)
    assert Flow(cache=cache).past == 4 and Flow().past == 0
    assert Flow(cache=cache).token_positions(torch.zeros(2, 2)).tolist() == [[4, 5]]
    keep = keeps([6, 3], 6, "left")
    assert Flow(cache=cache, keep=keep).token_positions(torch.zeros(2, 2)).tolist() == [[4, 5], [1, 2]]


def test_packing_of_another_length_than_the_row_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"3 tokens, the row 4"):
        Flow(packing=Packing((1, 2))).token_positions(torch.zeros(1, 4))


def test_a_flow_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Flow().last = 3


# ── Output ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_output_shows_what_it_was_given() -> None:
    output = Output(logits=torch.zeros(2, 3, 4), taps={"embed.out": torch.zeros(1)})
    assert list(output.present()) == ["logits", "taps"] and list(Output().present()) == []
    assert output["logits"] is output.logits and "loss" not in output
    assert repr(output) == "Output(\n  logits: [2, 3, 4] float32\n  taps: 1 tensors\n)"


def test_the_keys_of_an_output_are_those_of_the_reference() -> None:
    x = torch.zeros(1)
    scored = Output(last_hidden_state=x, loss=x, logits=x, frames=x)
    assert repr(scored.keys()) == "odict_keys(['loss', 'logits'])" and scored.to_tuple() == (x, x)
    assert list(Output(pooler_output=x, last_hidden_state=x)) == ["last_hidden_state", "pooler_output"]
    assert scored.keys() == {"loss", "logits"} and len(scored) == 2


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────

ATTENTION = ["q", "k", "v", "scores", "probs", "z", "out"]


def block_taps(path: str, *attentions: str) -> list[str]:
    return [
        *(f"{path}.{name}" for name in ("before", "mid", "out")),
        *(f"{path}.{attention}.{name}" for attention in attentions for name in ATTENTION),
        f"{path}.ffn.neurons",
        f"{path}.ffn.out",
    ]


def test_taps_have_their_golden_names() -> None:
    assert small().taps() == ["embed.out", *block_taps("blocks.0", "attn"), *block_taps("blocks.1", "attn")]
    crossed = small(StackSpec(blocks=(CROSS,)))
    assert crossed.taps() == ["embed.out", *block_taps("blocks.0", "attn", "cross")]


def test_a_nodes_path_is_its_weights_prefix() -> None:
    network = small()
    assert network.blocks[1].attn.path == "blocks.1.attn"
    names = [name for name, _ in network.named_parameters()]
    for path, node in network.named_nodes():
        assert node.path == path
        assert not list(node.parameters()) or any(name.startswith(path) for name in names)


class Counting(Tape):
    """Counts every tensor that passes, asked for or not."""

    def attach(self, network: Node) -> Counting:
        super().attach(network)
        self.counts: Counter[str] = Counter()
        return self

    def record(self, name: str, x: Tensor) -> Tensor:
        self.counts[name] += 1
        return super().record(name, x)


@pytest.mark.parametrize("kind", [*STACKS, "cross", "packed", "cached"])
def test_every_declared_tap_fires_exactly_once_and_no_other(kind: str) -> None:
    spec = {"cross": StackSpec(blocks=(CROSS,) * 2), "packed": StackSpec(blocks=(LLAMA,) * 2)}
    spec["cached"] = spec["packed"]
    network = small(spec.get(kind) or STACKS[kind])
    tape = Counting("*").attach(network)
    flow = Flow(tape=tape)
    if kind == "cross":
        flow = replace(flow, memory=EncoderOutput(torch.randn(1, 4, 24)))
    if kind == "packed":
        flow = replace(flow, packing=Packing((2, 2, 2)))
    if kind == "cached":
        flow = replace(flow, cache=KeyValueCache())
    network(IDS, flow)
    assert tape.counts == Counter(network.taps())
    assert set(tape.taps) == set(network.taps())


def test_without_a_listener_all_but_scores_and_probs_still_pass() -> None:
    network = small()
    tape = Counting().attach(network)
    network(IDS, Flow(tape=tape))
    silent = {name for name in network.taps() if name.endswith(("scores", "probs"))}
    assert set(tape.counts) == set(network.taps()) - silent
    assert tape.taps == {}


def test_tap_shapes_are_the_declared_ones() -> None:
    network = small(StackSpec(blocks=(replace(CROSS, attention=replace(CROSS.attention, kv_heads=2)),)))
    tape = Tape("*").attach(network)
    network(IDS.expand(2, 6), Flow(tape=tape, memory=EncoderOutput(torch.randn(2, 4, 24))))
    shapes = {name.removeprefix("blocks.0."): tuple(x.shape) for name, x in tape.taps.items()}
    assert shapes == {
        **dict.fromkeys(("embed.out", "before", "mid", "out", "attn.out", "cross.out", "ffn.out"), (2, 6, 32)),
        **{"attn.q": (2, 4, 6, 8), "attn.k": (2, 2, 6, 8), "attn.v": (2, 2, 6, 8), "attn.z": (2, 4, 6, 8)},
        **{"attn.scores": (2, 4, 6, 6), "attn.probs": (2, 4, 6, 6)},
        **{
            "cross.q": (2, 4, 6, 8),
            "cross.k": (2, 4, 4, 8),
            "cross.v": (2, 4, 4, 8),
            "cross.z": (2, 4, 6, 8),
        },
        **{"cross.scores": (2, 4, 6, 4), "cross.probs": (2, 4, 6, 4), "ffn.neurons": (2, 6, 48)},
    }


# ── Tape ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_globs() -> None:
    names = small().taps()
    assert match("embed.out", names) == ["embed.out"]
    assert match("*.attn.probs", names) == ["blocks.0.attn.probs", "blocks.1.attn.probs"]
    assert match("blocks.[1-3].before", names) == ["blocks.1.before"]
    assert match("*", names) == names


@pytest.mark.parametrize("listen", [True, False])
def test_a_pattern_that_matches_nothing_names_the_nearest(listen: bool) -> None:
    wrong = "blocks.0.attn.prob"
    tape = Tape(wrong) if listen else Tape(edit={wrong: torch.zeros(1)})
    with pytest.raises(ConfigError) as error:
        tape.attach(small())
    assert f"no tap matches '{wrong}'; nearest: 'blocks.0.attn.probs'" in str(error.value)
    assert "model.taps() lists all 25" in str(error.value)


def test_a_tape_holds_what_was_asked_for_and_starts_empty_each_time() -> None:
    network, tape = small(), Tape("blocks.1.before")
    for length in (6, 4):
        tape.attach(network)
        assert tape.taps == {}
        network(IDS[:, :length], Flow(tape=tape))
        assert list(tape.taps) == ["blocks.1.before"] and tape.taps["blocks.1.before"].shape == (
            1,
            length,
            32,
        )
    assert repr(tape) == "Tape('blocks.1.before', edit=[], holds 1 tensors)"


@pytest.mark.parametrize("name", small(StackSpec(blocks=(CROSS,))).taps())
def test_every_tap_can_be_edited_and_the_edit_flows_on(name: str) -> None:
    network = small(StackSpec(blocks=(CROSS,)))
    memory = EncoderOutput(torch.randn(1, 4, 24))
    plain = network(IDS, Flow(memory=memory))
    noise = {}

    def edit(x: Tensor) -> Tensor:
        noise[name] = x + torch.randn_like(x)
        return noise[name]

    tape = Tape(name, edit={name: edit}).attach(network)
    edited = network(IDS, Flow(tape=tape, memory=memory))
    assert tape.taps[name] is noise[name]
    assert (edited - plain).abs().max() > 1e-3
    unchanged = Tape(edit={name: lambda x: x}).attach(network)
    assert_close(network(IDS, Flow(tape=unchanged, memory=memory)), plain)


def test_an_edit_by_a_tensor_is_broadcast_and_cast() -> None:
    network = small()
    tape = Tape("blocks.0.mid", edit={"blocks.0.mid": torch.arange(32, dtype=torch.float64)}).attach(network)
    network(IDS, Flow(tape=tape))
    assert torch.equal(tape.taps["blocks.0.mid"], torch.arange(32.0).expand(1, 6, 32))


@pytest.mark.parametrize("edit", [lambda x: x[:, :2], torch.zeros(5, 5), torch.zeros(2, 1, 6, 32)])
def test_an_edit_of_another_shape_names_both(edit: object) -> None:
    tape = Tape(edit={"blocks.0.mid": edit}).attach(network := small())
    with pytest.raises(ConfigError, match=r"blocks\.0\.mid .*\[1, 6, 32\] to \[(1, 2, 32|5, 5|2, 1, 6, 32)\]"):
        network(IDS, Flow(tape=tape))


def test_patching_a_state_of_another_pass_in_gives_that_passs_output() -> None:
    network, other = small(), torch.tensor([[2, 7, 1, 8, 2, 8]])
    source = Tape("blocks.0.out").attach(network)
    expected = network(other, Flow(tape=source))
    patched = Tape(edit={"blocks.0.out": source.taps["blocks.0.out"]}).attach(network)
    assert torch.equal(network(IDS, Flow(tape=patched)), expected)


def test_taps_are_part_of_the_graph() -> None:
    network = small()
    tape = Tape("blocks.0.out").attach(network)
    out = network(IDS, Flow(tape=tape))
    (gradient,) = torch.autograd.grad(out.square().sum(), tape.taps["blocks.0.out"])
    assert gradient.shape == (1, 6, 32) and gradient.abs().sum() > 0


def test_several_threads_may_look_at_one_network_at_once() -> None:
    network = stack("grouped, gated, rotary")
    texts = [torch.randn(1, 5 + i % 3, 32) for i in range(24)]

    def look(x: Tensor) -> tuple[Tensor, Tensor]:
        tape = Tape("*.probs").attach(network)
        with torch.no_grad():
            return network(x, Flow(tape=tape)), tape.taps["1.attn.probs"]

    alone = [look(x) for x in texts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(look, texts))
    for (out, probs), (their_out, their_probs) in zip(alone, together, strict=True):
        assert torch.equal(out, their_out) and torch.equal(probs, their_probs)
