"""Transformer blocks: norm slots and dropout, against torch's own layers with the same weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from glassformer.core import (
    Block,
    BlockSpec,
    CrossAttentionSpec,
    EncoderOutput,
    FeedForwardSpec,
    Flow,
    ParallelBlock,
    ParallelBlockSpec,
    Residual,
    ResidualSpec,
)
from glassformer.errors import ConfigError
from tests.core.small import (
    CROSS,
    LLAMA,
    NORM,
    PARALLEL,
    POST,
    PRE,
    SANDWICH,
    TWO_NORMS,
    assert_close,
    keeps,
    perturbed,
    recorded,
    recording,
)

PATHS = {"fused": (), "explicit": ("*probs",)}
FFN = FeedForwardSpec(width=32, hidden=48, activation="relu")
X = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(7))


def torch_weights(block: Block) -> dict[str, Tensor]:
    """Our weights by the names of torch.nn.TransformerEncoderLayer and TransformerDecoderLayer."""
    weights = {
        "self_attn.in_proj_weight": block.attn.qkv.weight,
        "self_attn.in_proj_bias": block.attn.qkv.bias,
        "self_attn.out_proj.weight": block.attn.out.weight,
        "self_attn.out_proj.bias": block.attn.out.bias,
    }
    residuals = [block.attn_residual, block.ffn_residual]
    if block.cross is not None and block.cross_residual is not None:
        residuals.insert(1, block.cross_residual)
        weights["multihead_attn.in_proj_weight"] = torch.cat([block.cross.q.weight, block.cross.kv.weight])
        weights["multihead_attn.in_proj_bias"] = torch.cat([block.cross.q.bias, block.cross.kv.bias])
        weights["multihead_attn.out_proj.weight"] = block.cross.out.weight
        weights["multihead_attn.out_proj.bias"] = block.cross.out.bias
    for i, residual in enumerate(residuals, start=1):
        norm = residual.before if not isinstance(residual.before, nn.Identity) else residual.on_residual
        weights |= {f"norm{i}.{name}": value for name, value in norm.state_dict().items()}
    for theirs, ours in (("linear1", "up"), ("linear2", "down")):
        weights |= {f"{theirs}.{n}": value for n, value in getattr(block.ffn, ours).state_dict().items()}
    return weights


def residual_spec(norm_first: bool) -> ResidualSpec:
    return ResidualSpec(before=NORM) if norm_first else ResidualSpec(on_residual=NORM)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("norm_first", [False, True])
def test_cl_13_an_encoder_block_equals_torch(norm_first: bool, path: str) -> None:
    ours = perturbed(Block(replace(POST, feed_forward=FFN, residual=residual_spec(norm_first))))
    theirs = nn.TransformerEncoderLayer(32, 4, 48, dropout=0.0, batch_first=True, norm_first=norm_first).eval()
    theirs.load_state_dict(torch_weights(ours))
    assert_close(ours(X, recording(ours, *PATHS[path])), theirs(X))
    keep = keeps([6, 4], 6)
    padded = ours(X, recording(ours, *PATHS[path], keep=keep))
    expected = theirs(X, src_key_padding_mask=~keep[:, 0])
    seen = keep[:, 0]  # torch may leave hidden positions out altogether
    assert_close(padded[seen], expected[seen])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("norm_first", [False, True])
def test_cl_16_a_decoder_block_equals_torch(norm_first: bool, path: str) -> None:
    cross = CrossAttentionSpec(width=32, heads=4)
    ours = perturbed(Block(replace(PRE, cross=cross, feed_forward=FFN, residual=residual_spec(norm_first))))
    theirs = nn.TransformerDecoderLayer(32, 4, 48, dropout=0.0, batch_first=True, norm_first=norm_first).eval()
    theirs.load_state_dict(torch_weights(ours))
    memory, keep, memory_keep = torch.randn(2, 9, 32), keeps([6, 4], 6), keeps([9, 5], 9)
    flow = recording(ours, *PATHS[path], keep=keep, memory=EncoderOutput(memory, memory_keep))
    expected = theirs(
        X,
        memory,
        tgt_mask=torch.ones(6, 6, dtype=torch.bool).triu(1),
        tgt_key_padding_mask=~keep[:, 0],
        memory_key_padding_mask=~memory_keep[:, 0],
    )
    assert_close(ours(X, flow), expected)


def test_cl_16_three_sub_layers_in_the_papers_order() -> None:
    block = perturbed(Block(CROSS))
    order: list[str] = []
    for name in ("attn", "cross", "ffn"):
        getattr(block, name).register_forward_hook(lambda *_, name=name: order.append(name))
    block(X, Flow(memory=EncoderOutput(torch.randn(2, 9, 24))))
    assert order == ["attn", "cross", "ffn"]


def test_cl_14_the_residual_stream_can_be_read_around_each_sub_layer() -> None:
    block = perturbed(Block(CROSS))
    flow = recording(block, "*", memory=EncoderOutput(torch.randn(2, 9, 24)))
    out = block(X, flow)
    assert torch.equal(recorded(flow, "before"), X) and torch.equal(recorded(flow, "out"), out)
    assert_close(recorded(flow, "before") + recorded(flow, "attn.out"), recorded(flow, "mid"), 1e-6)
    assert_close(recorded(flow, "mid") + recorded(flow, "cross.out") + recorded(flow, "ffn.out"), out, 1e-6)


def test_cl_13_and_14_a_residual_with_all_three_norms_is_its_formula() -> None:
    residual = perturbed(Residual(SANDWICH.residual))
    expected = residual.on_residual(X + residual.after(residual.before(X).sin()))
    assert_close(residual(X, torch.sin), expected, 1e-6)
    norms = [residual.before, residual.after, residual.on_residual]
    assert len({id(norm) for norm in norms}) == 3
    assert not torch.equal(norms[0].weight, norms[1].weight), "each slot has weights of its own"


def test_a_factor_weighs_what_the_sub_layer_adds_and_not_the_stream() -> None:
    residual = perturbed(Residual(ResidualSpec(before=NORM, after=NORM, on_residual=NORM, scale=0.25)))
    expected = residual.on_residual(X + 0.25 * residual.after(residual.before(X).sin()))
    assert_close(residual(X, torch.sin), expected, 1e-6)
    plain, scaled = (Block(replace(CROSS, residual=ResidualSpec(before=NORM, scale=s))) for s in (1.0, 0.5))
    scaled.load_state_dict(perturbed(plain).state_dict())
    flow = recording(scaled.eval(), "*", memory=EncoderOutput(torch.randn(2, 9, 24)))
    out = scaled(X, flow)
    added = sum(recorded(flow, f"{name}.out") for name in ("attn", "cross", "ffn"))
    assert_close(out, X + 0.5 * added, 1e-6)


def test_a_sub_layer_may_have_a_residual_connection_of_its_own() -> None:
    own = {
        "attention_residual": ResidualSpec(dropout=0.1),  # without a norm, as in ModernBERT's first layer
        "cross_residual": ResidualSpec(on_residual=NORM, scale=2.0),
        "feed_forward_residual": ResidualSpec(before=NORM, after=NORM, dropout=0.3),
    }
    block = Block(replace(CROSS, **own))
    found = (block.attn_residual, block.cross_residual, block.ffn_residual)
    for residual, spec in zip(found, own.values(), strict=True):
        assert residual is not None and (residual.dropout.p, residual.scale) == (spec.dropout, spec.scale)
        for slot in ("before", "after", "on_residual"):
            filled = not isinstance(getattr(residual, slot), nn.Identity)
            assert filled is (getattr(spec, slot) is not None), slot
    shared = Block(replace(CROSS, feed_forward_residual=own["feed_forward_residual"]))
    assert not isinstance(shared.attn_residual.before, nn.Identity) and shared.attn_residual.dropout.p == 0


def test_cl_13_one_field_of_the_spec_switches_pre_and_post_norm() -> None:
    pre, post = Block(replace(POST, residual=residual_spec(norm_first=True))), Block(POST)
    for block in (pre, post):
        perturbed(block)
    post_out = post(100 * X, Flow())
    centred = (post_out - post.ffn_residual.on_residual.bias) / post.ffn_residual.on_residual.weight
    assert_close(centred.mean(-1), torch.zeros(2, 6), 1e-4)  # out of a post-norm block everything is normed
    assert_close(centred.var(-1, unbiased=False), torch.ones(2, 6), 1e-3)
    grown = pre(1e6 * X, Flow())
    assert_close(grown / 1e6, X, 1e-4)  # in a pre-norm block the stream itself is never normed


@pytest.mark.parametrize("spec", [POST, LLAMA, CROSS])
def test_cl_24_dropout_on_each_sub_layer_in_training_only(spec: BlockSpec) -> None:
    block = perturbed(Block(replace(spec, residual=ResidualSpec(dropout=0.1))))
    for name in ("attn", "cross", "ffn"):
        residual = getattr(block, f"{name}_residual")
        if residual is None:
            continue
        x, ones = torch.zeros(50, 40, 32), lambda y: torch.ones_like(y)
        assert (residual(x, ones) == 1).all()
        dropped = residual.train()(x, ones)
        gone = dropped == 0
        assert abs(gone.float().mean() - 0.1) < 0.01, name
        assert_close(dropped[~gone], torch.full_like(dropped[~gone], 1 / 0.9), 1e-6)


def test_cl_24_the_stream_itself_is_never_dropped() -> None:
    block = perturbed(Block(replace(PRE, residual=replace(PRE.residual, dropout=0.9)))).train()
    with torch.no_grad():
        for parameter in (*block.attn.out.parameters(), *block.ffn.down.parameters()):
            parameter.zero_()
    assert torch.equal(block(X, Flow()), X)


def test_biasless_blocks_have_no_biases() -> None:
    assert not [name for name, _ in Block(LLAMA).named_parameters() if name.endswith("bias")]


# ---------------------------------------------------------------------------------------------------- side by side


def without_answer(block: Block | ParallelBlock, name: str) -> None:
    """Make one sub-layer answer 0 everywhere."""
    last = block.attn.out if name == "attn" else block.ffn.down
    with torch.no_grad():
        for parameter in last.parameters():
            parameter.zero_()


@pytest.mark.parametrize("path", PATHS)
def test_a_parallel_block_is_its_formula(path: str) -> None:
    block = perturbed(ParallelBlock(PARALLEL))
    keep = keeps([6, 4], 6)
    y = block.norm(X)
    expected = X + block.attn(y, Flow(keep=keep)) + block.ffn(y, Flow())
    assert_close(block(X, recording(block, *PATHS[path], keep=keep)), expected, 1e-6)
    assert [name for name, _ in block.named_parameters() if "norm" in name] == ["norm.weight", "norm.bias"]


@pytest.mark.parametrize("path", PATHS)
def test_the_feed_forward_layer_of_a_parallel_block_may_have_a_norm_of_its_own(path: str) -> None:
    block = perturbed(ParallelBlock(TWO_NORMS))
    assert not torch.equal(block.norm.weight, block.ffn_norm.weight)
    expected = X + block.attn(block.norm(X), Flow()) + block.ffn(block.ffn_norm(X), Flow())
    assert_close(block(X, recording(block, *PATHS[path])), expected, 1e-6)
    assert ParallelBlock(PARALLEL).ffn_norm is None


def test_sub_layers_side_by_side_do_not_hear_each_other() -> None:
    parallel, serial = perturbed(ParallelBlock(PARALLEL)), perturbed(Block(PRE))
    for block, hears in ((parallel, False), (serial, True)):
        flow = recording(block, "ffn.out")
        block(X, flow)
        with_attention = recorded(flow, "ffn.out").clone()
        without_answer(block, "attn")
        flow = recording(block, "ffn.out")
        block(X, flow)
        assert torch.equal(recorded(flow, "ffn.out"), with_attention) is not hears


def test_without_a_feed_forward_answer_both_blocks_are_one() -> None:
    parallel, serial = perturbed(ParallelBlock(PARALLEL)), Block(PRE).eval()
    serial.attn.load_state_dict(parallel.attn.state_dict())
    serial.attn_residual.before.load_state_dict(parallel.norm.state_dict())
    for block in (parallel, serial):
        without_answer(block, "ffn")
    assert_close(parallel(X, Flow()), serial(X, Flow()), 1e-6)


def test_the_stream_of_a_parallel_block_has_no_middle() -> None:
    block = perturbed(ParallelBlock(PARALLEL))
    flow = recording(block, "*")
    out = block(X, flow)
    assert torch.equal(recorded(flow, "before"), X) and torch.equal(recorded(flow, "out"), out)
    assert_close(X + recorded(flow, "attn.out") + recorded(flow, "ffn.out"), out, 1e-6)
    with pytest.raises(ConfigError, match="mid"):
        recording(block, "mid")


@pytest.mark.parametrize("name", ["attn", "ffn"])
def test_each_answer_of_a_parallel_block_is_dropped_by_itself(name: str) -> None:
    block = perturbed(ParallelBlock(replace(PARALLEL, dropout=0.1)))
    x = torch.randn(50, 40, 32, generator=torch.Generator().manual_seed(3))
    without_answer(block, "ffn" if name == "attn" else "attn")
    answer = block(x, Flow()) - x
    torch.manual_seed(5)
    dropped = block.train()(x, Flow()) - x
    gone = dropped == 0
    assert abs(gone.float().mean() - 0.1) < 0.01
    assert_close(dropped[~gone], answer[~gone] / 0.9, 1e-4)


def test_the_two_answers_of_a_parallel_block_are_dropped_at_different_places() -> None:
    block = perturbed(ParallelBlock(replace(PARALLEL, dropout=0.5)))
    torch.manual_seed(5)
    gone = block.train()(X.expand(50, 2, 6, 32).flatten(0, 1), Flow()) == X.expand(50, 2, 6, 32).flatten(0, 1)
    assert abs(gone.float().mean() - 0.25) < 0.02, "both answers are gone at a quarter of the places"


@pytest.mark.parametrize("spec", [POST, PRE, LLAMA, SANDWICH, PARALLEL, TWO_NORMS])
def test_every_block_says_what_its_attention_reads(spec: BlockSpec | ParallelBlockSpec) -> None:
    block = perturbed(spec.make())
    read: list[Tensor] = []
    block.attn.register_forward_pre_hook(lambda _, args: read.append(args[0]))
    block(X, Flow())
    assert torch.equal(block.attention_input(X), read[0])


def test_optional_cross_attention_is_left_out_without_a_memory() -> None:
    block, plain = perturbed(replace(CROSS, cross_optional=True).make()), PRE.make()
    plain.load_state_dict(block.state_dict(), strict=False)
    assert torch.equal(block(X, Flow()), plain(X, Flow()))
    required = CROSS.make()
    required.load_state_dict(block.state_dict())
    flow = Flow(memory=EncoderOutput(torch.ones(2, 3, 24)))
    assert torch.equal(block(X, flow), required(X, flow))
    with pytest.raises(ConfigError, match="memory"):
        required(X, Flow())
