"""The summary of a network against what torch itself counts, and against sums done by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from glassformer.core.flow import Batch, Flow, Tape
from glassformer.core.masks import AttentionPattern
from glassformer.errors import ConfigError
from glassformer.inspect import ModuleNode, summary
from glassformer.inspect.summary import _pairs
from glassformer.models import FAMILIES, ConfigReader, Network

HEADS = [(family, task) for family, record in FAMILIES.items() for task in record.tasks]


def build(family: str, task: str, device: str = "meta", **changes: Any) -> Network:
    record = FAMILIES[family]
    spec = record.spec(ConfigReader({**record.tiny, **changes}))
    with torch.device(device):
        return record.build(spec, task).eval()


def parts(network: Network, tokens: int = 128) -> dict[str, ModuleNode]:
    return dict(summary(network, tokens=tokens).root.walk())


@pytest.mark.parametrize(("family", "task"), HEADS)
def test_parameters_bytes_and_taps_are_those_of_torch(family: str, task: str) -> None:
    network = build(family, task)
    result = summary(network)
    assert result.parameters == sum(parameter.numel() for parameter in network.parameters())
    assert result.bytes == 4 * result.parameters
    assert [row.name for row in result.tensors] == [name for name, _ in network.named_parameters()]
    assert list(result.taps) == network.taps()
    assert result.uncounted == ()


@pytest.mark.parametrize(("family", "task"), HEADS)
def test_folded_tree_unfolds_to_every_tensor_and_tap(family: str, task: str) -> None:
    result = summary(build(family, task))

    def unfolded(part: ModuleNode, repeats: int = 1) -> tuple[int, int]:
        below = [unfolded(child, repeats * child.repeats) for child in part.children]
        tensors = repeats * sum(weight.tied_to is None for weight in part.weights)
        return tensors + sum(t for t, _ in below), repeats * len(part.taps) + sum(t for _, t in below)

    assert unfolded(result.root) == (len(result.tensors), len(result.taps))


@pytest.mark.parametrize("task", ["feature-extraction", "fill-mask", "text-classification", "pre-training"])
def test_flops_are_those_that_torch_counts(task: str) -> None:
    """The explicit path is asked for, so that attention's two products are plain ones; no mask, so all are needed."""
    T = 7
    network = build("bert", task, device="cpu")
    tape = Tape("*.attn.probs").attach(network)
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        network(Batch(input_ids=torch.zeros(1, T, dtype=torch.long)), Flow(tape=tape))
    assert summary(network, tokens=T).flops == counter.get_total_flops()


def test_flops_by_hand() -> None:
    """D = 32, 4 heads of 8, 2 key/value heads, F = 48, V = 99, 3 layers, causal."""
    T = 10
    result = parts(build("llama", "text-generation"), tokens=T)
    qkv, out, gated = 2 * 32 * (32 + 16 + 16), 2 * 32 * 32, 3 * 2 * 32 * 48
    mixing = 4 * 32 * (T + 1) / 2  # on average (T + 1) / 2 keys a query
    assert result["blocks.0-2.attn.qkv"].flops == T * qkv
    assert result["blocks.0-2.attn"].own_flops == T * mixing
    assert result["blocks.0-2.attn"].formula == "4 · 32 · 5.5 keys"
    assert result["blocks.0-2"].flops == T * (qkv + out + mixing + gated)
    assert result["blocks"].flops == 3 * result["blocks.0-2"].flops
    assert result[""].flops == result["blocks"].flops + T * 2 * 32 * 99
    assert result["embed"].flops == 0


@pytest.mark.parametrize("tokens", [1, 10])
@pytest.mark.parametrize("chosen", [1, 2, 4])
def test_all_experts_are_counted_and_the_chosen_run(tokens: int, chosen: int) -> None:
    """D = 32, F = 48, 4 experts of 3 matrices; the sum is what torch counts in a pass."""
    network = build("mixtral", "text-generation", "cpu", num_experts_per_tok=chosen)
    network.name_nodes()
    result = parts(network, tokens)
    ffn, expert = result["blocks.0-2.ffn"], result["blocks.0-2.ffn.experts.0-3"]
    assert ffn.note == f"{chosen} of 4 experts" and expert.repeats == 4
    assert expert.parameters == 3 * 32 * 48 and ffn.parameters == 4 * expert.parameters + 4 * 32
    assert ffn.flops == tokens * (2 * 32 * 4 + chosen * 3 * 2 * 32 * 48)
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        network.blocks[0].ffn(torch.randn(1, tokens, 32), Flow())
    assert ffn.flops == counter.get_total_flops()


def test_heads_that_read_one_token_run_once_a_text() -> None:
    for tokens in (1, 10, 500):
        result = parts(build("bert", "text-classification", num_labels=3), tokens)
        assert result["head"].flops == 2 * 32 * 32 + 2 * 32 * 3
        assert parts(build("bert", "token-classification", num_labels=3), tokens)["head"].flops == tokens * 2 * 32 * 3


@pytest.mark.parametrize(
    "pattern",
    [
        AttentionPattern(),
        AttentionPattern(True),
        AttentionPattern(True, 3),
        AttentionPattern(False, 3),
        AttentionPattern(True, 99),
    ],
)
@pytest.mark.parametrize("tokens", [1, 2, 3, 8])
def test_pairs_are_those_of_the_mask(pattern: AttentionPattern, tokens: int) -> None:
    assert _pairs(pattern, tokens) == int(pattern.keep(tokens, tokens).sum())


def test_tied_weights_count_once_and_say_so() -> None:
    decoder = parts(build("llama", "text-generation", tie_word_embeddings=True))["head.decoder"]
    assert decoder.parameters == decoder.bytes == 0
    assert decoder.weights[0].tied_to == "embed.tokens.weight"
    assert decoder.flops > 0
    untied = parts(build("llama", "text-generation", tie_word_embeddings=False))["head.decoder"]
    assert untied.parameters == 99 * 32


def test_only_equal_layers_are_folded() -> None:
    record = FAMILIES["llama"]
    spec = record.spec(ConfigReader({**record.tiny, "num_hidden_layers": 5}))
    block = spec.blocks.blocks[0]
    windowed = replace(block, attention=replace(block.attention, window=4))
    mixed = replace(spec, blocks=replace(spec.blocks, blocks=(block, windowed, block, block, windowed)))
    with torch.device("meta"):
        result = summary(record.build(mixed, "text-generation"), tokens=16)
    blocks = {part.name: part for part in dict(result.root.walk())["blocks"].children}
    assert {name: part.repeats for name, part in blocks.items()} == {"0,2-3": 3, "1,4": 2}
    attention = blocks["1,4"].children[0]
    assert (attention.name, attention.mask, attention.note) == (
        "attn",
        "causal, window 4",
        "4 heads × 8, 2 k/v",
    )


def test_what_cannot_be_counted_is_named() -> None:
    network = build("bert", "feature-extraction")
    network.odd = torch.nn.ConvTranspose2d(3, 4, 5, device="meta")
    result = summary(network)
    assert result.uncounted == ("odd",)
    assert dict(result.root.walk())["odd"].parameters == 3 * 4 * 5 * 5 + 4


def test_names_of_theirs_and_json() -> None:
    result = summary(build("bert", "fill-mask"), tokens=4, theirs=lambda name: [name.upper()])
    assert result.tensors[0].theirs == ("EMBED.TOKENS.WEIGHT",)
    data = json.loads(json.dumps(result.to_dict()))
    assert data["parameters"] == data["root"]["parameters"] == result.parameters
    assert data["flops_per_token"] == result.flops / 4
    assert data["root"]["children"][0]["name"] == "embed"


def test_half_precision_takes_half_the_bytes() -> None:
    result = summary(build("gpt2", "text-generation").to(torch.bfloat16))
    assert result.bytes == 2 * result.parameters
    assert result.dtypes == ("bfloat16",)


def test_a_text_without_tokens_is_refused() -> None:
    with pytest.raises(ConfigError, match="tokens is 0"):
        summary(build("bert", "fill-mask"), tokens=0)
