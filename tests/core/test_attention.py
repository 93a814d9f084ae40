"""Attention: the paper's formula, torch's kernels, masks of every shape, and dropout where the spec says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core import (
    Attention,
    AttentionSpec,
    CrossAttention,
    CrossAttentionSpec,
    EncoderOutput,
    Flow,
    KeyValueCache,
    Packing,
    Tape,
    dot_product,
    processor,
    scaled_dot_product_attention,
)
from glassformer.core.attention import SCORES_AT_ONCE
from glassformer.core.dot_product import softmax, unfused_attention
from glassformer.core.masks import Mask
from glassformer.errors import ConfigError
from tests.core.small import (
    Largest,
    assert_all_close,
    assert_close,
    examples,
    fused_calls,
    gradients,
    keeps,
    perturbed,
    recorded,
    recording,
)

few = examples(25)
SPEC = AttentionSpec(width=32, heads=4)
PATHS = {"fused": (), "explicit": ("probs",)}


def on_path(layer: nn.Module, path: str, **flow: object) -> Flow:
    return recording(layer, *PATHS[path], **flow)


# ── the function ─────────────────────────────────────────────────────────────────────────────────────────


def test_cl_03_the_papers_function_on_five_tokens() -> None:
    x = torch.randn(1, 5, 768)
    z, probs = scaled_dot_product_attention(x, x, x)
    assert probs.shape == (1, 5, 5) and z.shape == (1, 5, 768)
    assert_close(probs.sum(-1), torch.ones(1, 5), 1e-6)
    assert (probs.diagonal(dim1=-2, dim2=-1) > 0.99).all(), "a token is most like itself"
    assert_close(z, F.scaled_dot_product_attention(x, x, x), 1e-6)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32, torch.float16])
def test_a_mask_of_0_and_1_is_read_as_one_of_false_and_true(dtype: torch.dtype) -> None:
    q, k, v = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 8)
    keep = torch.rand(2, 1, 5, 7) < 0.7
    expected, read = scaled_dot_product_attention(q, k, v, keep), scaled_dot_product_attention(q, k, v, keep.to(dtype))
    assert torch.equal(expected[0], read[0]) and torch.equal(expected[1], read[1])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"keep": torch.full((5, 7), -torch.inf)}, "keep holds other numbers than 0 and 1; .* are given as bias="),
        ({"keep": torch.full((5, 7), torch.nan)}, "keep holds other numbers"),
        ({"keep": torch.full((5, 7), 2)}, "keep holds other numbers"),
        ({"keep": torch.ones(5, 6)}, r"keep has shape \[5, 6\]; it must broadcast to the scores, \[2, 3, 5, 7\]"),
        ({"keep": torch.ones(2, 2, 3, 5, 7)}, r"keep has shape \[2, 2, 3, 5, 7\]"),
        ({"bias": torch.zeros(7, 5)}, r"bias has shape \[7, 5\]; it must broadcast"),
        ({"k": torch.zeros(2, 3, 7, 4)}, "q has width 8, and k 4"),
        ({"v": torch.zeros(2, 3, 6, 8)}, "there are 7 keys and 6 values"),
        ({"q": torch.zeros(8)}, r"q has shape \[8\]; it must be \[\.\.\., tokens, width\]"),
        ({"q": [[0.0]]}, "q is list; q, k and v must be tensors of floats"),
        ({"q": torch.zeros(2, 3, 5, 8, dtype=torch.long)}, "q is torch.int64; q, k and v must be tensors of floats"),
        ({"v": torch.zeros(2, 3, 7, 8, dtype=torch.double)}, "v is torch.float64; .* all of one dtype"),
        ({"keep": [[1, 0]]}, r"keep is list; it must be a tensor, \[\.\.\., queries, keys\]"),
        ({"k": torch.zeros(3, 3, 7, 8)}, r"k has shape \[3, 3, 7, 8\], and q \[2, 3, 5, 8\]; they must agree"),
        ({"v": torch.zeros(2, 2, 7, 8)}, r"v has shape \[2, 2, 7, 8\]"),
        ({"k": torch.zeros(7, 8)}, r"k has shape \[7, 8\], and q"),
    ],
)
def test_what_does_not_fit_is_an_error_of_ours(changed: dict[str, Any], message: str) -> None:
    inputs = {"q": torch.zeros(2, 3, 5, 8), "k": torch.zeros(2, 3, 7, 8), "v": torch.zeros(2, 3, 7, 8)}
    with pytest.raises(ConfigError, match=message):
        scaled_dot_product_attention(**inputs | changed)


@pytest.mark.parametrize("scale", [None, 0.3])
def test_cl_03_equals_torch_with_a_mask_a_bias_and_a_scale(scale: float | None) -> None:
    q, k, v = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 8)
    keep, bias = torch.rand(2, 1, 5, 7) < 0.7, torch.randn(1, 3, 5, 7)
    keep[..., 0] = True
    z, probs = scaled_dot_product_attention(q, k, v, keep, bias, scale)
    both = bias.masked_fill(~keep, -torch.inf)
    assert_close(z, F.scaled_dot_product_attention(q, k, v, both, scale=scale), 1e-6)
    assert (probs.masked_select(~keep.expand_as(probs)) == 0).all()


@pytest.mark.parametrize("at_once", [10, 40, 2**21])  # queries at a time, heads at a time, all at once
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_unfused_attention_is_the_papers_function(groups: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dot_product, "UNFUSED_SCORES", at_once)
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, groups, 7, 8), torch.randn(2, groups, 7, 8)
    wide = (x.repeat_interleave(4 // groups, dim=1) for x in (k, v))
    expected, _ = scaled_dot_product_attention(q, *wide, scale=0.3)
    assert_close(unfused_attention(q, k, v, 0.3), expected, 1e-6)


@pytest.mark.parametrize("spec", [SPEC, replace(SPEC, kv_heads=2)])
def test_without_the_fused_kernel_narrow_attention_differs_by_rounding(
    spec: AttentionSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "has", lambda name: name == "avx512_bf16")
    monkeypatch.setattr(dot_product, "FEWEST_SCORES", 0)
    layer, x = perturbed(spec.make()).eval(), torch.randn(3, 9, 32)
    with torch.inference_mode():
        expected, narrow = layer(x, Flow()), layer.bfloat16()
        with fused_calls(monkeypatch) as calls:
            assert_close(narrow(x.bfloat16(), Flow()).float(), expected, 0.05)
        assert not calls
        assert torch.equal(narrow(x[:1].bfloat16(), Flow()), narrow(x.bfloat16(), Flow())[:1])


def test_a_soft_cap_bends_the_scaled_scores_before_bias_and_mask() -> None:
    q, k, v = (torch.randn(2, 3, n, 8, dtype=torch.float64) for n in (5, 7, 7))
    bias, keep = 9 * torch.randn(1, 3, 5, 7, dtype=torch.float64), torch.rand(2, 1, 5, 7) < 0.7
    keep[..., 0] = True
    capped = 2.5 * ((q @ k.mT) * 0.8 / 2.5).tanh()
    assert capped.abs().max() < 2.5 < ((q @ k.mT) * 0.8).abs().max(), "the cap matters"
    probs = (capped + bias).masked_fill(~keep, -torch.inf).softmax(-1)
    z, weights = scaled_dot_product_attention(q, k, v, keep, bias, 0.8, cap=2.5)
    assert_close(weights, probs, 1e-12)
    assert_close(z, probs @ v, 1e-12)


@few
@given(st.data())
def test_cl_05_boolean_and_additive_masks_are_one_and_hide_exactly(data: st.DataObject) -> None:
    T, S = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))
    cells = data.draw(st.lists(st.booleans(), min_size=T * S, max_size=T * S))
    keep = torch.tensor(cells).view(1, 1, T, S)
    additive = torch.zeros(1, 1, T, S).masked_fill(~keep, -torch.inf)
    q, k, v = (torch.randn(2, 2, n, 4, requires_grad=True) for n in (T, S, S))
    results = []
    for masks in ({"keep": keep}, {"bias": additive}):
        z, probs = scaled_dot_product_attention(q, k, v, **masks)
        loss = (z * torch.arange(1.0, 5.0)).sum() + probs.square().sum()
        results.append((z, probs, *torch.autograd.grad(loss, (q, k, v))))
        assert (probs.masked_select(~keep.expand_as(probs)) == 0).all(), "exactly 0, not nearly"
        dead = ~keep.any(-1)[0, 0]
        assert (z[:, :, dead] == 0).all(), "a row that may attend to nothing gives zeros"
    for boolean, added in zip(*results, strict=True):
        assert boolean.isfinite().all()
        assert torch.equal(boolean, added)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_softmax_of_half_numbers_is_taken_in_fp32(dtype: torch.dtype) -> None:
    scores = 8 * torch.randn(4, 300).to(dtype)
    assert torch.equal(softmax(scores), scores.float().softmax(-1).to(dtype))


# ── the layer, on both paths ─────────────────────────────────────────────────────────────────────────────


def test_cl_04_every_step_can_be_read_and_the_steps_make_the_output() -> None:
    layer = perturbed(Attention(AttentionSpec(width=768, heads=12)))
    x = 0.3 * torch.randn(1, 5, 768)
    flow = recording(layer, "*")
    out = layer(x, flow)
    q, k, v, scores, probs, z = (recorded(flow, name) for name in ("q", "k", "v", "scores", "probs", "z"))
    raw = q @ k.mT
    assert_close(raw / 8, scores)  # √64 = 8
    assert_close(scores.softmax(-1), probs, 1e-6)
    weighted = probs[..., None] * v[:, :, None]  # [1, H, T, S, E]
    assert_close(weighted.sum(-2), z, 1e-6)
    joined = torch.cat([z[:, head] for head in range(12)], dim=-1)
    again = joined @ layer.out.weight.T + layer.out.bias
    assert_close(again, out, 1e-6)
    assert torch.equal(recorded(flow, "out"), out)


@pytest.mark.parametrize("path", PATHS)
def test_cl_06_a_head_is_a_stand_alone_head_of_the_sliced_weights(path: str) -> None:
    layer, x = perturbed(Attention(SPEC)), torch.randn(2, 6, 32)
    flow = recording(layer, "z", *PATHS[path])
    layer(x, flow)
    for head in range(4):
        q, k, v = (
            x @ layer.qkv.weight[part * 32 + head * 8 :][:8].T + layer.qkv.bias[part * 32 + head * 8 :][:8]
            for part in range(3)
        )
        assert_close(recorded(flow, "z")[:, head], scaled_dot_product_attention(q, k, v)[0], 1e-6)


@pytest.mark.parametrize("path", PATHS)
def test_cl_07_the_heads_at_once_equal_the_heads_in_a_loop(path: str) -> None:
    layer, x = perturbed(Attention(AttentionSpec(width=768, heads=12))), 0.2 * torch.randn(1, 5, 768)
    q, k, v = (x @ w.T + b for w, b in zip(layer.qkv.weight.chunk(3), layer.qkv.bias.chunk(3), strict=True))
    columns = [slice(64 * head, 64 * head + 64) for head in range(12)]
    heads = [scaled_dot_product_attention(q[..., c], k[..., c], v[..., c])[0] for c in columns]
    looped = torch.cat(heads, dim=-1) @ layer.out.weight.T + layer.out.bias
    out = layer(x, on_path(layer, path))
    assert out.shape == (1, 5, 768)
    assert_close(out, looped)


def test_cl_07_a_width_that_the_heads_do_not_divide_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match=r"width 770 is not a multiple of heads 12; set head_width"):
        Attention(AttentionSpec(width=770, heads=12))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("causal", [False, True])
def test_cl_07_equals_torchs_multi_head_attention(path: str, causal: bool) -> None:
    ours, theirs = (
        perturbed(Attention(replace(SPEC, causal=causal))),
        nn.MultiheadAttention(32, 4, batch_first=True),
    )
    theirs.load_state_dict(
        {
            "in_proj_weight": ours.qkv.weight,
            "in_proj_bias": ours.qkv.bias,
            "out_proj.weight": ours.out.weight,
            "out_proj.bias": ours.out.bias,
        }
    )
    x, keep = torch.randn(2, 6, 32), keeps([6, 4], 6)
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1) if causal else None
    flow = recording(ours, *PATHS[path], keep=keep)
    expected, weights = theirs(
        x, x, x, key_padding_mask=~keep[:, 0], attn_mask=hidden, average_attn_weights=False, need_weights=True
    )
    assert_close(ours(x, flow), expected)
    if path == "explicit":
        assert_close(recorded(flow, "probs"), weights)


def test_cl_08_the_head_width_is_free_of_the_model_width() -> None:
    layer = perturbed(CrossAttention(CrossAttentionSpec(width=24, heads=4, head_width=3)))
    x, memory = torch.randn(10, 10, 24), EncoderOutput(torch.randn(10, 8, 24))
    flow = recording(layer, "*", memory=memory)
    assert layer(x, flow).shape == (10, 10, 24)
    assert recorded(flow, "q").shape == (10, 4, 10, 3)
    assert recorded(flow, "probs").shape == (10, 4, 10, 8)
    assert_close(recorded(flow, "scores"), recorded(flow, "q") @ recorded(flow, "k").mT / 3**0.5, 1e-6)
    assert Attention(AttentionSpec(width=24, heads=4, head_width=3))(x, Flow()).shape == (10, 10, 24)


@pytest.mark.parametrize("path", PATHS)
def test_the_scale_of_the_spec_is_used(path: str) -> None:
    plain, x = perturbed(Attention(SPEC)), torch.randn(1, 5, 32)
    scaled = Attention(replace(SPEC, scale=1.0)).eval()
    scaled.load_state_dict(plain.state_dict())
    with torch.no_grad():
        scaled.qkv.weight[:32] /= 8**0.5
        scaled.qkv.bias[:32] /= 8**0.5
    assert_close(scaled(x, on_path(scaled, path)), plain(x, on_path(plain, path)))


@pytest.mark.parametrize("path", PATHS)
def test_grouped_keys_with_a_key_head_for_each_query_head_equal_plain(path: str) -> None:
    plain, x = perturbed(Attention(SPEC)), torch.randn(2, 6, 32)
    grouped = Attention(replace(SPEC, kv_heads=4)).eval()
    grouped.load_state_dict(plain.state_dict())
    assert torch.equal(grouped(x, on_path(grouped, path)), plain(x, on_path(plain, path)))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_keys_equal_plain_attention_with_repeated_weights(path: str, kv_heads: int) -> None:
    grouped = perturbed(Attention(replace(SPEC, kv_heads=kv_heads, causal=True)))
    plain = Attention(replace(SPEC, causal=True)).eval()
    with torch.no_grad():
        for name in ("weight", "bias"):
            parts = getattr(grouped.qkv, name).split([32, 8 * kv_heads, 8 * kv_heads])
            repeated = [
                p.unflatten(0, (kv_heads, 8)).repeat_interleave(4 // kv_heads, 0).flatten(0, 1) for p in parts[1:]
            ]
            getattr(plain.qkv, name).copy_(torch.cat([parts[0], *repeated]))
        plain.out.load_state_dict(grouped.out.state_dict())
    x, keep = torch.randn(2, 6, 32), keeps([6, 3], 6)
    assert_close(grouped(x, on_path(grouped, path, keep=keep)), plain(x, on_path(plain, path, keep=keep)))


@pytest.mark.parametrize("path", PATHS)
@few
@given(causal=st.booleans(), window=st.integers(1, 8), T=st.integers(1, 7))
def test_a_window_equals_the_same_mask_written_by_hand(path: str, causal: bool, window: int, T: int) -> None:
    layer = perturbed(Attention(replace(SPEC, causal=causal, window=window))).double()
    free = Attention(SPEC).double().eval()
    free.load_state_dict(layer.state_dict())
    free.name_nodes()
    distance = torch.arange(T)[None] - torch.arange(T)[:, None]  # key - query
    keep = (distance.abs() < window) & ((distance <= 0) | (not causal))
    x = torch.randn(2, T, 32, dtype=torch.float64)
    assert_close(layer(x, on_path(layer, path)), free(x, on_path(free, path, keep=keep.expand(2, T, T))))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("path", PATHS)
@few
@given(cells=st.lists(st.booleans(), min_size=50, max_size=50), causal=st.booleans())
def test_cl_05_wild_masks_are_finite_and_both_paths_agree(
    path: str, training: bool, cells: list[bool], causal: bool
) -> None:
    keep = torch.tensor(cells).view(2, 5, 5)
    keep[0, 2] = False  # always a row that sees nothing
    layer = perturbed(Attention(replace(SPEC, causal=causal))).double().train(training)
    x = torch.randn(2, 5, 32, dtype=torch.float64, requires_grad=True)
    out = layer(x, on_path(layer, path, keep=keep))
    (gradient,) = torch.autograd.grad(out.square().sum(), x)
    assert out.isfinite().all() and gradient.isfinite().all()
    assert_close(out[0, 2], layer.out.bias, 1e-12)  # nothing but the bias
    q, k, v = layer.qkv(x).unflatten(-1, (12, 8)).transpose(1, 2).split(4, dim=1)
    mask = keep & torch.ones(5, 5, dtype=torch.bool).tril() if causal else keep
    z, _ = scaled_dot_product_attention(q, k, v, mask[:, None])
    expected = layer.out(z.transpose(1, 2).flatten(2))
    assert_close(out, expected, 1e-9)
    (reference,) = torch.autograd.grad(expected.square().sum(), x)
    assert_close(gradient, reference, 1e-9)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_fused_equals_explicit_with_equal_gradients(training: bool, biased: bool, padded: bool, causal: bool) -> None:
    layer = perturbed(Attention(replace(SPEC, kv_heads=2, causal=causal))).train(training)
    x, weights = torch.randn(2, 6, 32), torch.randn(2, 6, 32)
    bias = torch.randn(1, 4, 6, 6) if biased else None
    keep = keeps([6, 4], 6) if padded else None
    flows = [on_path(layer, path, keep=keep, bias=bias) for path in PATHS]
    assert_close(layer(x, flows[0]), layer(x, flows[1]))
    fused, explicit = (gradients(layer, lambda flow=flow: (layer(x, flow) * weights).sum()) for flow in flows)
    assert_all_close(fused, explicit, 2e-5)


def test_listening_to_anything_but_scores_and_probs_stays_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = perturbed(Attention(SPEC)), torch.randn(2, 6, 32)
    for names, count in {("q", "k", "v", "z", "out"): 1, ("scores",): 0, ("probs",): 0, (): 1}.items():
        with fused_calls(monkeypatch) as calls:
            layer(x, recording(layer, *names))
        assert len(calls) == count, names


@pytest.mark.parametrize("hidden", [False, True])
def test_a_single_query_in_bfloat16_is_that_of_several(hidden: bool) -> None:
    layer = perturbed(Attention(SPEC)).bfloat16()
    q, k, v = torch.randn(1, 4, 3, 8), torch.randn(2, 4, 9, 8), torch.randn(2, 4, 9, 8)
    q, k, v = (part.bfloat16() for part in (q.expand(2, -1, -1, -1), k, v))
    mask = Mask(keeps([9, 6], 9)[:, None] if hidden else None)
    single = torch.cat([layer.attend(part, k, v, mask, None, Flow()) for part in q.split(1, dim=2)], dim=2)
    assert_close(single, layer.attend(q, k, v, mask, None, Flow()), 1e-2)


# ── dropout ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", PATHS)
def test_cl_24_attention_dropout_falls_on_the_probabilities_in_training_only(path: str) -> None:
    layer = perturbed(Attention(replace(SPEC, dropout=0.1)))
    x = torch.randn(2000, 1, 32)  # one key: its probability is 1, so z is either v / 0.9 or nothing
    for training in (False, True):
        layer.train(training)
        flow = recording(layer, "v", "z", *PATHS[path])
        layer(x, flow)
        v, z = recorded(flow, "v"), recorded(flow, "z")
        gone = (z == 0).all(-1)
        assert abs(gone.float().mean() - (0.1 if training else 0.0)) < 0.015
        assert_close(z[~gone], v[~gone] / (0.9 if training else 1.0))
        if path == "explicit":
            assert (recorded(flow, "probs") == 1).all(), "the tap shows the probabilities before dropout"


@pytest.mark.parametrize("path", PATHS)
def test_cl_24_attention_dropout_in_a_packed_row(path: str) -> None:
    layer = perturbed(Attention(replace(SPEC, dropout=0.1))).train()
    flow = recording(layer, "v", "z", *PATHS[path], packing=Packing((1,) * 600))
    layer(torch.randn(1, 600, 32), flow)
    gone = (recorded(flow, "z") == 0).all(-1)
    assert abs(gone.float().mean() - 0.1) < 0.025


# ── cross-attention ──────────────────────────────────────────────────────────────────────────────────────

CROSS = CrossAttentionSpec(width=32, heads=4, memory_width=24)


@pytest.mark.parametrize("path", PATHS)
def test_cl_09_scores_are_a_rectangle_and_hidden_memory_is_not_seen(path: str) -> None:
    layer, x = perturbed(CrossAttention(CROSS)), torch.randn(2, 5, 32)
    states, keep = torch.randn(2, 7, 24), keeps([7, 4], 7)
    flow = recording(layer, *PATHS[path], memory=EncoderOutput(states, keep))
    out = layer(x, flow)
    if path == "explicit":
        assert recorded(flow, "probs").shape == (2, 4, 5, 7)
        assert (recorded(flow, "probs")[1, ..., 4:] == 0).all()
    changed = states.clone()
    changed[1, 4:] += 100.0
    assert torch.equal(layer(x, on_path(layer, path, memory=EncoderOutput(changed, keep))), out)
    short = layer(x[1:], on_path(layer, path, memory=EncoderOutput(states[1:, :4])))
    assert_close(out[1:], short, 1e-6)


@pytest.mark.parametrize("path", PATHS)
def test_cl_09_equals_torchs_multi_head_attention(path: str) -> None:
    ours = perturbed(CrossAttention(CROSS))
    theirs = nn.MultiheadAttention(32, 4, kdim=24, vdim=24, batch_first=True)
    k, v = ours.kv.weight.chunk(2)
    theirs.load_state_dict(
        {
            "q_proj_weight": ours.q.weight,
            "k_proj_weight": k,
            "v_proj_weight": v,
            "in_proj_bias": torch.cat([ours.q.bias, ours.kv.bias]),
            "out_proj.weight": ours.out.weight,
            "out_proj.bias": ours.out.bias,
        }
    )
    x, states, keep = torch.randn(2, 5, 32), torch.randn(2, 7, 24), keeps([7, 4], 7)
    expected, _ = theirs(x, states, states, key_padding_mask=~keep[:, 0])
    assert_close(ours(x, on_path(ours, path, memory=EncoderOutput(states, keep))), expected)


def test_cl_09_keys_and_values_of_a_memory_are_computed_once_and_equal_recomputation() -> None:
    layer, x = perturbed(CrossAttention(CROSS)), torch.randn(2, 5, 32)
    memory, cache = EncoderOutput(torch.randn(2, 7, 24)), KeyValueCache()
    computed: list[Tensor] = []
    layer.kv.register_forward_hook(lambda module, args, out: computed.append(out))
    steps = [layer(x[:, t : t + 1], Flow(memory=memory, cache=cache)) for t in range(5)]
    assert len(computed) == 1
    assert_close(torch.cat(steps, dim=1), layer(x, Flow(memory=memory)), 1e-6)
    assert len(computed) == 2


def test_kept_keys_and_values_are_as_wide_as_the_memory_and_lie_head_after_head() -> None:
    layer, cache = perturbed(CrossAttention(CROSS)), KeyValueCache()
    layer.kv.register_forward_hook(lambda module, args, out: out.bfloat16())  # as a layer prepared in bf16 gives them
    for _ in range(2):
        _, k, v = layer.project(torch.randn(2, 1, 32), Flow(memory=EncoderOutput(torch.randn(2, 7, 24)), cache=cache))
        assert (k.dtype, v.dtype) == (torch.float32, torch.float32)
        assert k.is_contiguous() and v.is_contiguous()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("T", [1, 3])
def test_neighbours_share_a_row_of_the_memory(path: str, T: int) -> None:
    layer, x = perturbed(CrossAttention(CROSS)), torch.randn(6, T, 32)
    states, keep = torch.randn(2, 7, 24), keeps([7, 4], 7)
    copied = EncoderOutput(states.repeat_interleave(3, dim=0), keep.repeat_interleave(3, dim=0))
    shared = layer(x, on_path(layer, path, memory=EncoderOutput(states, keep)))
    assert_close(shared, layer(x, Flow(memory=copied)), 1e-6)


def test_a_memory_that_is_all_hidden_gives_the_bias_alone() -> None:
    layer, x = perturbed(CrossAttention(CROSS)), torch.randn(2, 5, 32)
    memory = EncoderOutput(torch.randn(2, 7, 24), keeps([7, 0], 7))
    for path in PATHS:
        out = layer(x, on_path(layer, path, memory=memory))
        assert_close(out[1], layer.out.bias.expand(5, 32), 1e-6)


# ── edits ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_head_that_is_zeroed_adds_nothing() -> None:
    layer, x = perturbed(Attention(SPEC)), torch.randn(2, 6, 32)

    def silence(z: Tensor) -> Tensor:
        z = z.clone()
        z[:, 2] = 0.0
        return z

    edited = layer(x, Flow(tape=Tape(edit={"z": silence}).attach(layer)))
    with torch.no_grad():
        layer.out.weight[:, 16:24] = 0.0
    assert_close(edited, layer(x, Flow()), 1e-6)


def test_probabilities_can_be_replaced_by_a_tensor() -> None:
    layer, x = perturbed(Attention(SPEC)), torch.randn(2, 6, 32)
    flow = Flow(tape=Tape("v", "probs", edit={"probs": torch.full((6,), 1 / 6)}).attach(layer))
    out = layer(x, flow)
    mean = recorded(flow, "v").mean(dim=2, keepdim=True).expand(2, 4, 6, 8)
    assert_close(out, layer.out(mean.transpose(1, 2).flatten(2)), 1e-6)
    assert (recorded(flow, "probs") == 1 / 6).all(), "the tape keeps what flows on after the edit"


def test_editing_scores_to_minus_infinity_hides_like_a_mask() -> None:
    layer, x = perturbed(Attention(SPEC)), torch.randn(2, 6, 32, requires_grad=True)
    keep = torch.rand(2, 6, 6) < 0.5
    keep[0, 3] = False
    edit = {"scores": lambda scores: scores.masked_fill(~keep[:, None], -torch.inf)}
    out = layer(x, Flow(tape=Tape(edit=edit).attach(layer)))
    assert_close(out, layer(x, Flow(keep=keep)))
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert gradient.isfinite().all()


# ── soft-capped scores ───────────────────────────────────────────────────────────────────────────────────

CAPPED = replace(SPEC, kv_heads=2, causal=True, score_cap=0.7, scale=2.0, dropout=0.4)


@pytest.mark.parametrize("masked", ["causal", "padded", "every query", "window, bias"])
@pytest.mark.parametrize("scores_at_once", [1, 2 * 4 * 6 * 4, 2**22])
def test_soft_capped_attention_a_few_queries_at_a_time_is_all_at_once(
    masked: str, scores_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = perturbed(Attention(replace(CAPPED, window=3 if "window" in masked else None)))
    flow = {
        "causal": {},
        "padded": {"keep": keeps([6, 4], 6)},
        "every query": {"keep": torch.rand(2, 6, 6) < 0.6},
        "window, bias": {"bias": torch.randn(1, 4, 6, 6)},
    }[masked]
    x = torch.randn(2, 6, 32, requires_grad=True)
    weigh = torch.randn(2, 6, 32)
    whole = layer(x, on_path(layer, "explicit", **flow))
    expected = gradients(layer, lambda: (layer(x, on_path(layer, "explicit", **flow)) * weigh).sum())
    monkeypatch.setitem(SCORES_AT_ONCE, "cpu", scores_at_once)
    with fused_calls(monkeypatch) as calls:
        assert_close(layer(x, Flow(**flow)), whole, 1e-6)
        assert_all_close(gradients(layer, lambda: (layer(x, Flow(**flow)) * weigh).sum()), expected)
    assert calls == [], "the kernel has no soft cap"


def test_soft_capped_attention_drops_probabilities_and_its_gradient_drops_the_same() -> None:
    layer, x = perturbed(Attention(CAPPED)).double().train(), torch.randn(1, 5, 32, dtype=torch.float64)
    x.requires_grad_()

    def loss(x: Tensor) -> Tensor:
        torch.manual_seed(11)
        return layer(x, Flow())

    assert not torch.equal(loss(x), layer.eval()(x, Flow()))
    layer.train()
    torch.autograd.gradcheck(loss, (x,), fast_mode=True)


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_soft_capped_attention_never_holds_all_scores(training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither does the backward pass: it computes the scores of a few queries once more."""
    T, stored = 64, {}
    monkeypatch.setitem(SCORES_AT_ONCE, "cpu", 4 * T * 2)
    layer, x = perturbed(Attention(CAPPED)).train(training), torch.randn(1, T, 32, requires_grad=True)

    def store(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()  # keys and values are stored once for all queries
        stored[storage.data_ptr()] = (storage, storage.nbytes() // saved.element_size())
        return saved

    with (
        torch.set_grad_enabled(training),
        torch.autograd.graph.saved_tensors_hooks(store, lambda saved: saved),
        Largest() as seen,
    ):
        layer(x, Flow())
    assert seen.numbers < 4 * T * T / 2 and bool(stored) is training
    kept = sum(numbers for _, numbers in stored.values())
    assert kept < 4 * T * T, "the mask and the projections, and nothing for each pair of each head"


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────


def test_errors_name_what_does_not_fit() -> None:
    layer, x = perturbed(Attention(SPEC)), torch.randn(2, 6, 32)
    with pytest.raises(ConfigError, match=r"\[2, 1, 5\].*\[B, 6, 6\]"):
        layer(x, Flow(keep=keeps([5, 4], 5)))
    with pytest.raises(ConfigError, match="bool"):
        layer(x, Flow(keep=torch.ones(2, 1, 6)))
    with pytest.raises(ConfigError, match=r"memory.*None"):
        perturbed(CrossAttention(CROSS))(x, Flow())


def test_packed_rows_refuse_what_they_cannot_have() -> None:
    layer, x = perturbed(Attention(SPEC)), torch.randn(1, 6, 32)
    packing = Packing((4, 2))
    for extra in ({"keep": keeps([6], 6)}, {"cache": KeyValueCache()}):
        with pytest.raises(ConfigError, match="packing goes with neither"):
            layer(x, Flow(packing=packing, **extra))
    for wrong in (torch.randn(2, 6, 32), torch.randn(1, 7, 32)):
        with pytest.raises(ConfigError, match="packing holds 6 tokens"):
            layer(wrong, Flow(packing=packing))
