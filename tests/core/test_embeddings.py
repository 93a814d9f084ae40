"""Input embeddings: sums of table rows, and how positions are counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from glassformer.core import (
    Embedding,
    EmbeddingSpec,
    Flow,
    HalvedSinusoidal,
    HalvedSinusoidalSpec,
    KeyValueCache,
    LayerNormSpec,
    LearnedPositionsSpec,
    Packing,
    Sinusoidal,
    SinusoidalSpec,
)
from glassformer.core.embeddings import LearnedPositions
from glassformer.errors import DataError
from tests.core.small import assert_close, keeps, perturbed, recorded, recording

BERT = EmbeddingSpec(
    vocabulary=30522,
    width=768,
    positions=LearnedPositionsSpec(count=512),
    token_types=2,
    norm=LayerNormSpec(width=768, eps=1e-12),
)
SMALL = EmbeddingSpec(vocabulary=50, width=8, positions=LearnedPositionsSpec(count=6))


def test_cl_01_time_flies_like_an_arrow() -> None:
    embed = Embedding(BERT)
    assert embed.tokens.weight.shape == (30522, 768)
    assert embed(torch.tensor([[2051, 10029, 2066, 2019, 8612]]), Flow()).shape == (1, 5, 768)


def test_cl_02_a_lookup_is_a_one_hot_product_bit_for_bit_with_equal_gradients() -> None:
    embed = Embedding(EmbeddingSpec(vocabulary=50, width=8))
    ids, weights = torch.randint(0, 50, (3, 7)), torch.randn(3, 7, 8)
    looked_up = embed(ids, Flow())
    (looked_up * weights).sum().backward()
    gradient = embed.tokens.weight.grad
    table = embed.tokens.weight.detach().clone().requires_grad_()
    product = torch.nn.functional.one_hot(ids, 50).float() @ table
    (product * weights).sum().backward()
    assert torch.equal(looked_up, product)
    assert gradient is not None and table.grad is not None
    assert_close(gradient, table.grad, 1e-6)
    seen = torch.zeros(50, dtype=torch.bool).index_fill(0, ids.flatten(), True)
    assert (gradient[~seen] == 0).all() and (gradient[seen] != 0).any(dim=-1).all()


def test_everything_that_is_added_is_added() -> None:
    embed = perturbed(Embedding(replace(BERT, vocabulary=50, width=8, norm=LayerNormSpec(width=8), scale=3.0)))
    ids, segments = torch.randint(0, 50, (2, 7)), torch.randint(0, 2, (2, 7))
    assert embed.segments is not None and embed.positions is not None
    total = embed.tokens.weight[ids] * 3.0 + embed.positions.weight[:7] + embed.segments.weight[segments]
    assert_close(embed(ids, Flow(), segments), embed.norm(total), 1e-6)
    assert_close(embed(ids, Flow()), embed(ids, Flow(), torch.zeros_like(ids)), 1e-6)
    others = torch.randn(2, 7, 8)
    assert_close(embed(ids, Flow(), segments, others), embed.norm(total + others), 1e-6)


def test_a_narrow_table_is_projected_behind_its_norm() -> None:
    """Factorized embedding: V · E + E · D numbers in place of V · D."""
    spec = replace(BERT, vocabulary=50, width=8, norm=LayerNormSpec(width=8), projection=32)
    embed = perturbed(Embedding(spec))
    assert spec.out_width == 32 and replace(spec, projection=None).out_width == 8
    ids, plain = torch.randint(0, 50, (2, 7)), Embedding(replace(spec, projection=None))
    plain.load_state_dict({name: x for name, x in embed.state_dict().items() if "projection" not in name})
    assert embed.projection is not None and embed.projection.weight.shape == (32, 8)
    x = plain(ids, Flow()) @ embed.projection.weight.T + embed.projection.bias
    flow = recording(embed, "out")
    assert_close(embed(ids, flow), x, 1e-6)
    assert recorded(flow, "out").shape == (2, 7, 32)


def test_sinusoids_are_added_and_not_stored() -> None:
    embed = Embedding(EmbeddingSpec(vocabulary=50, width=8, positions=SinusoidalSpec(count=6)))
    assert list(embed.state_dict()) == ["tokens.weight"]
    x = embed(torch.zeros(1, 1, dtype=torch.long), Flow())
    assert_close(x[0, 0] - embed.tokens.weight[0], torch.tensor([0.0, 1.0] * 4), 1e-6)


@pytest.mark.parametrize("positions", [LearnedPositionsSpec(count=6), SinusoidalSpec(count=6)])
def test_cl_20_a_text_longer_than_the_table_is_a_clear_error(
    positions: LearnedPositionsSpec | SinusoidalSpec,
) -> None:
    embed = Embedding(replace(SMALL, positions=positions))
    assert embed(torch.zeros(1, 6, dtype=torch.long), Flow()).shape == (1, 6, 8)
    with pytest.raises(DataError, match=r"7 tokens.*6 positions.*truncat"):
        embed(torch.zeros(1, 7, dtype=torch.long), Flow())


def test_cl_20_tokens_in_the_cache_count_and_packed_texts_count_one_by_one() -> None:
    embed = Embedding(SMALL)
    cache = KeyValueCache()
    cache.advance(4)
    embed(torch.zeros(1, 2, dtype=torch.long), Flow(cache=cache))
    with pytest.raises(DataError, match="7 tokens"):
        embed(torch.zeros(1, 3, dtype=torch.long), Flow(cache=cache))
    embed(torch.zeros(1, 12, dtype=torch.long), Flow(packing=Packing((6, 6))))
    with pytest.raises(DataError, match="7 tokens"):
        embed(torch.zeros(1, 12, dtype=torch.long), Flow(packing=Packing((7, 5))))


def test_positions_are_counted_past_padding_past_the_cache_and_anew_in_each_text() -> None:
    embed = perturbed(Embedding(SMALL))
    ids = torch.randint(0, 50, (1, 5))
    alone = embed(ids, Flow())

    padded = torch.cat([torch.zeros(1, 1, dtype=torch.long), ids], dim=1)
    assert torch.equal(embed(padded, Flow(keep=keeps([5], 6, "left")))[:, 1:], alone)

    cache = KeyValueCache()
    cache.advance(2)
    assert torch.equal(embed(ids[:, 2:], Flow(cache=cache)), alone[:, 2:])

    packed = embed(torch.cat([ids, ids[:, :3]], dim=1), Flow(packing=Packing((5, 3))))
    assert torch.equal(packed, torch.cat([alone, alone[:, :3]], dim=1))

    assert torch.equal(embed(ids, Flow(positions=torch.arange(5)[None])), alone)
    assert not torch.equal(embed(ids, Flow(positions=torch.arange(1, 6)[None])), alone)


def test_positions_by_ids_count_hidden_tokens_only_where_no_cache_can_follow() -> None:
    ids, keep = torch.tensor([[7, 8, 3, 4, 0, 5]]), keeps([4], 6, "left")  # hidden: 7 and 8; 0 is padding
    for masked, expected in ((False, [0, 1, 2, 3, -1, 4]), (True, [-1, -1, 0, 1, -1, 2])):
        spec = LearnedPositionsSpec(count=10, offset=1, padding=0, masked=masked)
        embed = Embedding(EmbeddingSpec(vocabulary=50, width=4, positions=spec))
        assert embed.token_positions(ids, Flow(keep=keep)).tolist() == [expected]
    cache = KeyValueCache()
    cache.advance(3)  # 7, 8 and 3
    assert embed.token_positions(ids[:, 3:], Flow(keep=keep, cache=cache)).tolist() == [[1, -1, 2]]


def test_cl_24_dropout_on_the_embedding_in_training_only() -> None:
    embed = perturbed(Embedding(EmbeddingSpec(vocabulary=50, width=256, dropout=0.1)))
    ids = torch.randint(0, 50, (8, 16))
    flow = recording(embed, "out")
    plain = embed(ids, flow)
    assert torch.equal(plain, embed.tokens.weight[ids])
    assert recorded(flow, "out") is plain
    dropped = embed.train()(ids, Flow())
    gone = dropped == 0
    assert abs(gone.float().mean() - 0.1) < 0.01
    assert_close(dropped[~gone], plain[~gone] / 0.9, 1e-6)


def waves(count: int, width: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return Sinusoidal(SinusoidalSpec(count=count), width)(torch.arange(count)[None], dtype)


# ── sinusoidal ───────────────────────────────────────────────────────────────────────────────────────────


def test_cl_21_values_are_the_papers_formula_one_by_one() -> None:
    encoded = waves(50, 12)
    assert encoded.shape == (1, 50, 12)  # batch first
    for p in range(50):
        for i in range(6):
            angle = torch.tensor(p / 10_000 ** (2 * i / 12), dtype=torch.float64)
            assert_close(encoded[0, p, 2 * i], angle.sin(), 1e-12)
            assert_close(encoded[0, p, 2 * i + 1], angle.cos(), 1e-12)


def test_cl_21_position_0_is_0_1_0_1() -> None:
    assert waves(1, 8).tolist() == [[[0.0, 1.0] * 4]]


@pytest.mark.parametrize("k", [1, 7, 100])
def test_cl_21_a_shift_by_k_is_one_linear_map_for_all_positions(k: int) -> None:
    encoded = waves(300, 16)[0]
    here, there = encoded[: 300 - k], encoded[k:]
    frequencies = 10_000.0 ** -(torch.arange(0, 16, 2, dtype=torch.float64) / 16)
    turns = [torch.stack([torch.stack([a.cos(), a.sin()]), torch.stack([-a.sin(), a.cos()])]) for a in k * frequencies]
    assert_close(here @ torch.block_diag(*turns).T, there, 1e-12)  # the map rotates each pair; it knows k, not p


def test_waves_are_computed_in_fp32_whatever_the_networks_dtype() -> None:
    assert torch.equal(waves(5000, 16, torch.bfloat16), waves(5000, 16, torch.float32).bfloat16())


def test_an_odd_width_leaves_out_the_last_cosine() -> None:
    sinusoidal = Sinusoidal(SinusoidalSpec(count=9), 7)
    encoded = sinusoidal(torch.arange(9)[None], torch.float64)
    assert encoded.shape == (1, 9, 7)
    assert_close(encoded[0, :, 6], (torch.arange(9) / 10_000 ** (6 / 7)).double().sin(), 1e-6)


@pytest.mark.parametrize("width", [8, 7], ids=["even", "odd"])
def test_halved_waves_are_the_papers_in_another_order(width: int) -> None:
    halved = HalvedSinusoidalSpec(count=9).make(width)
    assert isinstance(halved, HalvedSinusoidal)
    encoded = halved(torch.arange(9)[None], torch.float64)
    paper = waves(9, width)
    assert_close(encoded, torch.cat([paper[..., 0::2], paper[..., 1::2]], dim=-1), 1e-12)
    assert encoded[0, 0].tolist() == [0.0] * (width - width // 2) + [1.0] * (width // 2)


# ── learned ──────────────────────────────────────────────────────────────────────────────────────────────


def test_cl_20_learned_positions_are_rows_of_a_table() -> None:
    table = LearnedPositionsSpec(count=512).make(768)
    assert isinstance(table, LearnedPositions) and table.weight.shape == (512, 768)
    positions = torch.tensor([[0, 3, 511]])
    assert torch.equal(table(positions), table.weight[positions])


def test_an_offset_shifts_the_rows_and_makes_room_for_them() -> None:
    table = LearnedPositions(LearnedPositionsSpec(count=10, offset=2), 4)
    assert table.weight.shape == (12, 4)
    assert torch.equal(table(torch.tensor([[0, 9]])), table.weight[[2, 11]][None])
