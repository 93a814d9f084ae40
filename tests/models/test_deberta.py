"""DeBERTa: disentangled attention by hand, packed and padded texts, its convolution, and the published configs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer import Model
from glassformer.core import AttentionSpec, FeedForwardSpec, Flow, LayerNormSpec, Packing, StackSpec
from glassformer.core.blocks import BlockSpec, ResidualSpec
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.models import FAMILIES, ConfigReader
from glassformer.models.deberta import (
    ConvolvedBlockSpec,
    DisentangledAttention,
    DisentangledAttentionSpec,
    RelativeEmbedding,
    RelativeEmbeddingSpec,
)
from tests.core.small import assert_all_close, assert_close, gradients, keeps, perturbed, recorded, recording

D, H, T = 8, 2, 11
LOG = RelativeEmbeddingSpec(heads=H, width=D, span=8, longest=16, norm=LayerNormSpec(width=D))
PLAIN = RelativeEmbeddingSpec(heads=H, width=D, span=4)


def attention(relative: RelativeEmbeddingSpec | None, **changes: Any) -> DisentangledAttentionSpec:
    terms = changes.pop("terms", ("c2p", "p2c"))
    return DisentangledAttentionSpec(
        width=D, heads=H, relative=relative, terms=terms, scale=(4 * (1 + len(terms))) ** -0.5, **changes
    )


KINDS = {
    "log buckets, shared weights": attention(LOG, shared=True),
    "log buckets, own weights": attention(LOG),
    "a bucket for each distance": attention(
        PLAIN, bias=False, query_value_bias=True, position_bias=False, terms=("p2c", "c2p")
    ),
    "content to position": attention(PLAIN, terms=("c2p",)),
    "position to content": attention(LOG, terms=("p2c",)),
    "no terms": attention(LOG, terms=()),
    "no relative positions": attention(None),
}
kinds = pytest.mark.parametrize("spec", KINDS.values(), ids=KINDS)


def small_stack(spec: AttentionSpec, convolved: bool = False) -> Stack:
    norm = LayerNormSpec(width=D)
    block = BlockSpec(
        attention=spec,
        feed_forward=FeedForwardSpec(width=D, hidden=12),
        residual=ResidualSpec(on_residual=norm),
    )
    first: BlockSpec = block
    if convolved:
        first = ConvolvedBlockSpec(
            attention=spec,
            feed_forward=block.feed_forward,
            residual=block.residual,
            kernel=3,
            groups=2,
            activation="gelu",
            norm=norm,
        )
    bias = spec.relative if isinstance(spec, DisentangledAttentionSpec) else None
    return perturbed(Stack(StackSpec(blocks=(first, block), bias=bias))).double()


def stream(rows: int, tokens: int = T) -> Tensor:
    return torch.randn(rows, tokens, D, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def bucket_by_hand(spec: RelativeEmbeddingSpec, distance: int) -> int:
    """Each distance up to half the span has a bucket; farther ones share the other half on a log scale."""
    if spec.longest is None or abs(distance) <= spec.span // 2:
        bucket = distance
    else:
        half = spec.span // 2
        share = torch.tensor(abs(distance) / half).log() / torch.tensor((spec.longest - 1) / half).log()
        bucket = (half + int(torch.ceil(share * (half - 1)))) * (1 if distance > 0 else -1)
    return max(-spec.span, min(bucket, spec.span - 1))


# ------------------------------------------------------------------------------------------------------ positions


@pytest.mark.parametrize("spec", [LOG, PLAIN, replace(LOG, span=6, longest=100)])
def test_buckets(spec: RelativeEmbeddingSpec) -> None:
    distances = torch.arange(-300, 301)
    result = spec.buckets(distances)
    assert result.tolist() == [bucket_by_hand(spec, int(d)) for d in distances]
    assert result.min() == -spec.span and result.max() == spec.span - 1
    assert (result.diff() >= 0).all()
    for tokens in (1, 2, 5, 9, 300):  # no text needs a bucket beyond its reach
        needed = spec.buckets(torch.arange(-tokens + 1, tokens))
        assert -spec.reach(tokens) <= needed.min() and needed.max() < spec.reach(tokens)


def test_published_buckets() -> None:
    """256 buckets for distances up to 512, at some distances by the reference library's function."""
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    spec = RelativeEmbeddingSpec(heads=12, width=768, span=256, longest=512)
    distances = torch.arange(-2000, 2001)
    theirs = make_log_bucket_position(distances, 256, 512).long().clamp(-256, 255)
    assert torch.equal(spec.buckets(distances), theirs)


# ------------------------------------------------------------------------------------------------------ by hand


def scores_by_hand(layer: DisentangledAttention, table: Tensor, x: Tensor) -> Tensor:
    """Every score of one text, pair by pair as the formula says it. [H, T, T]"""
    spec = layer.spec
    q, k, _ = (part[0] for part in layer.project(x, Flow()))
    scores = torch.zeros(H, x.shape[1], x.shape[1], dtype=x.dtype)
    W_q, W_k, _ = layer.qkv.weight.chunk(3)
    for head in range(H):
        rows = slice(head * spec.E, (head + 1) * spec.E)
        for i in range(x.shape[1]):
            for j in range(x.shape[1]):
                score = q[head, i] @ k[head, j]
                if spec.relative is not None:
                    p = table[bucket_by_hand(spec.relative, i - j) + spec.relative.span]
                    if spec.shared:
                        b_q, b_k, _ = layer.qkv.bias.chunk(3)
                        key, query = W_k @ p + b_k, W_q @ p + b_q
                    else:
                        key = layer.position_key(p) if layer.position_key is not None else None
                        query = layer.position_query(p) if layer.position_query is not None else None
                    if "c2p" in spec.terms:
                        score = score + q[head, i] @ key[rows]
                    if "p2c" in spec.terms:
                        score = score + k[head, j] @ query[rows]
                scores[head, i, j] = score * layer.scale
    return scores


@kinds
@torch.no_grad()
def test_scores_by_hand(spec: DisentangledAttentionSpec) -> None:
    network = small_stack(spec)
    layer, x = network[0].attn, stream(1)
    assert isinstance(layer, DisentangledAttention)
    table = network.bias(T, T, x.device) if network.bias is not None else x
    expected = scores_by_hand(layer, table, x)
    flow = recording(network, "*.scores", "*.probs", "*.z", "*.attn.out")
    explicit = network(x, flow)
    assert_close(recorded(flow, "0.attn.scores")[0], expected, 1e-10)
    assert_close(recorded(flow, "0.attn.probs")[0], expected.softmax(-1), 1e-10)
    assert_close(network(x, Flow()), explicit, 1e-10)


@kinds
@torch.no_grad()
def test_rows_of_one_head(spec: DisentangledAttentionSpec) -> None:
    """What the explorer computes for some queries of a head is the bias that the layer adds."""
    network = small_stack(spec)
    if network.bias is None:
        return
    assert isinstance(network.bias, RelativeEmbedding) and not network.bias.BY_DISTANCE
    layer, x = network[1].attn, stream(1)
    flow = recording(network, "*.scores", "*.q", "*.k")
    network(x, flow)
    q, k = recorded(flow, "1.attn.q")[0], recorded(flow, "1.attn.k")[0]
    at = torch.tensor([7, 0, 3])
    for head in range(H):
        rows = network.bias.head_rows(layer, head, q[head, at], k[head], at)
        expected = recorded(flow, "1.attn.scores")[0, head, at] - q[head, at] @ k[head].mT * layer.scale
        assert_close(rows, expected, 1e-10)


@kinds
def test_packed_texts_are_as_alone(spec: DisentangledAttentionSpec) -> None:
    """Several texts in one row, fused and explicit, and their gradients."""
    network = small_stack(spec, convolved=True)
    lengths = (3, 3, 9, 1, 2)
    row = stream(1, sum(lengths))
    packing = Packing(lengths)

    def alone() -> Tensor:
        return torch.cat([network(text, Flow()) for text in row.split(lengths, dim=1)], dim=1)

    def packed() -> Tensor:
        return network(row, Flow(packing=packing))

    with torch.no_grad():
        expected = alone()
        assert_close(packed(), expected, 1e-10)
        assert_close(network(row, recording(network, "*.probs", packing=packing)), expected, 1e-10)
    assert_all_close(
        gradients(network, lambda: packed().square().sum()),
        gradients(network, lambda: alone().square().sum()),
        1e-9,
    )


@pytest.mark.parametrize("side", ["right", "left"])
@kinds
@torch.no_grad()
def test_padding_changes_nothing(spec: DisentangledAttentionSpec, side: str) -> None:
    network = small_stack(spec, convolved=True)
    lengths = [T, 4, 1]
    keep, x = keeps(lengths, T, side), stream(3)
    padded = network(x, Flow(keep=keep))
    for row, length in enumerate(lengths):
        text = x[row, keep[row, 0]][None]
        assert text.shape[1] == length
        assert_close(padded[row, keep[row, 0]], network(text, Flow())[0], 1e-10)


@torch.no_grad()
def test_convolution_by_hand() -> None:
    network = small_stack(KINDS["content to position"], convolved=True)
    block, x = network[0], stream(1)
    conv = block.convolution.conv  # type: ignore[union-attr]
    padded = torch.nn.functional.pad(x[0], (0, 0, 1, 1))
    weight = torch.zeros(D, D, 3, dtype=x.dtype)
    weight[:4, :4], weight[4:, 4:] = conv.weight[:4], conv.weight[4:]  # two groups of channels
    mixed = sum(padded[i : i + T] @ weight[:, :, i].mT for i in range(3)) + conv.bias
    expected = torch.nn.functional.gelu(mixed)
    assert_close(block.convolution(x, Flow())[0], expected, 1e-10)  # type: ignore[union-attr]
    flow = recording(network, "0.out", "0.ffn.out")
    network(x, flow)
    plain = small_stack(KINDS["content to position"])[0]
    plain.load_state_dict(block.state_dict(), strict=False)
    prepared = network.prepare(x, Flow())
    summed = plain(x, prepared) + expected
    assert_close(recorded(flow, "0.out"), block.norm(summed), 1e-10)  # type: ignore[union-attr]


def test_positions_are_dropped_in_training_alone() -> None:
    network = small_stack(attention(LOG, position_dropout=0.5))
    x = stream(1)
    assert torch.equal(network(x, Flow()), network(x, Flow()))
    network.train()
    assert not torch.equal(network(x, Flow()), network(x, Flow()))


# ----------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: attention(LOG, terms=("p2p",)),
            r"terms is \('p2p',\); it may have c2p and p2c .*pos_att_type",
        ),
        (lambda: attention(LOG, kv_heads=1), "each head has its own keys and positions"),
        (lambda: attention(LOG, query_value_bias=True), "bias and query_value_bias"),
        (lambda: replace(LOG, span=1), r"span 1 and longest distance 16; .*span must be from 2 to 29"),
        (lambda: replace(LOG, span=40), "span 40 and longest distance 16"),
        (
            lambda: small_stack(attention(replace(LOG, heads=3))),
            r"RelativeEmbeddingSpec.heads is 3, the blocks have",
        ),
        (
            lambda: ConvolvedBlockSpec(
                attention=attention(LOG),
                feed_forward=FeedForwardSpec(width=D, hidden=3),
                kernel=2,
                norm=LayerNormSpec(width=D),
            ),
            "kernel 2 and groups 1; kernel must be odd",
        ),
    ],
)
def test_specs_that_do_not_fit(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_layer_without_its_table_says_so() -> None:
    with pytest.raises(ConfigError, match=r"needs relative position embeddings; got flow.bias=None"):
        DisentangledAttention(attention(LOG))(torch.zeros(1, 3, D), Flow())


# ------------------------------------------------------------------------------------------------------- configs

V3_BASE: dict[str, Any] = {
    **{"model_type": "deberta-v2", "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu"},
    **{"hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072},
    **{"max_position_embeddings": 512, "relative_attention": True, "position_buckets": 256},
    **{
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": "p2c|c2p",
        "layer_norm_eps": 1e-7,
    },
    **{"max_relative_positions": -1, "position_biased_input": False, "num_attention_heads": 12},
    **{"num_hidden_layers": 12, "type_vocab_size": 0, "vocab_size": 128100},
}
V2_XLARGE: dict[str, Any] = {
    **V3_BASE,
    **{"hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 24, "num_attention_heads": 24},
    **{"attention_head_size": 64, "conv_kernel_size": 3, "conv_act": "gelu"},
}
V1_BASE: dict[str, Any] = {
    **{"model_type": "deberta", "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu"},
    **{"hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072},
    **{"max_position_embeddings": 512, "relative_attention": True, "pos_att_type": "c2p|p2c"},
    **{
        "layer_norm_eps": 1e-7,
        "padding_idx": 0,
        "max_relative_positions": -1,
        "position_biased_input": False,
    },
    **{"num_attention_heads": 12, "num_hidden_layers": 12, "type_vocab_size": 0, "vocab_size": 50265},
}


@pytest.mark.parametrize(
    ("config", "millions"), [(V3_BASE, 183.8), (V2_XLARGE, 884.6), (V1_BASE, 138.6)], ids=["v3", "v2", "v1"]
)
def test_published_configs(config: dict[str, Any], millions: float) -> None:
    from transformers import AutoConfig, AutoModel

    model = Model.from_config(config, task="feature-extraction", device="meta")
    count = sum(parameter.numel() for parameter in model.parameters())
    with torch.device("meta"):
        theirs = AutoModel.from_config(AutoConfig.for_model(**config))
    assert count == sum(parameter.numel() for parameter in theirs.parameters())
    assert count == pytest.approx(millions * 1e6, rel=1e-3)
    assert model.network.max_tokens is None


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("deberta", {"pos_att_type": ["c2p", "p2p"]}, r"pos_att_type = \['c2p', 'p2p'\] is not supported"),
        ("deberta", {"pos_att_type": 3}, "pos_att_type = 3 is not supported"),
        ("deberta", {"talking_head": True}, "talking_head = True is not supported"),
        (
            "deberta",
            {"embedding_size": 16},
            "embedding_size = 16 is not supported .*supported: 32, the hidden_size",
        ),
        ("deberta-v2", {"pooler_hidden_size": 16}, "pooler_hidden_size = 16 is not supported"),
        ("deberta-v2", {"attention_head_size": 6}, "attention_head_size = 6 is not supported .*supported: 8"),
    ],
)
def test_configs_that_no_model_has(family: str, changes: dict[str, Any], message: str) -> None:
    record = FAMILIES[family]
    with pytest.raises(UnsupportedError, match=message):
        record.spec(ConfigReader({**record.tiny, **changes}))
