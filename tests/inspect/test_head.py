"""Every number of every head against the tensors that a Tape hears in the explicit path, and against plain torch."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from glassformer.core import scaled_dot_product_attention
from glassformer.core.masks import AttentionPattern
from glassformer.errors import ConfigError, DataError
from glassformer.inspect import AttentionHead
from glassformer.inspect.head import TILE, HeadMix, LRUCache, mixed, pooled, storage_bytes
from tests.inspect.passes import KINDS, S, T, every_head, heard, network_of, reading_of, session_of

NUMBERS = ("q", "k", "v", "scores", "probs", "z")


def made_head(T: int, S: int, pattern: AttentionPattern = AttentionPattern(), seed: int = 0) -> AttentionHead:  # noqa: B008
    """A head of random queries and keys."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(count, 4, generator=generator) for count in (T, S, S))
    return AttentionHead(
        map="self", layer=0, head=0, kv_head=0, q=q, k=k, v=v, projection=torch.eye(4), scale=1.5,
        pattern=pattern, position_bias=None, cache=LRUCache(2**26),
    )  # fmt: skip


def assert_within(ours: Tensor, theirs: Tensor, name: str, dtype: torch.dtype) -> None:
    """The promised distances: probabilities 5e-6, all else 2e-5 and 1e-5 of the value; in fp64 1e-10."""
    absolute, relative = (5e-6, 0.0) if name == "probs" else (2e-5, 1e-5)
    if dtype == torch.float64:
        absolute, relative = 1e-10, 0.0
    assert ours.dtype == dtype
    torch.testing.assert_close(ours, theirs, atol=absolute, rtol=relative, msg=lambda text: f"{name}: {text}")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_numbers_are_those_of_the_explicit_path(kind: str, dtype: torch.dtype) -> None:
    session = session_of(kind, dtype)
    taps = heard(session.network, reading_of(kind), *(f"*.{name}" for name in (*NUMBERS, "out")))
    heads = every_head(session)
    assert {path for path, _ in heads} == {name.removesuffix(".q") for name in taps if name.endswith(".q")}
    for path, head in heads:
        for name in NUMBERS:
            theirs = taps[f"{path}.{name}"][head.kv_head if name in "kv" else head.head]
            ours = getattr(head, name)
            assert_within(ours if name in "qkv" else ours(), theirs, name, dtype)
    for path in {path for path, _ in heads}:
        own = [head for at, head in heads if at == path]
        bias = session.network.get_submodule(path).out.bias
        whole = sum(head.out() for head in own) + (0 if bias is None else bias)
        assert_within(whole, taps[f"{path}.out"], "out", dtype)


def assert_by_hand(ours: Tensor, by_hand: object) -> None:
    """A tensor against lists of floats, to 1e-9; called some 100,000 times, for which `assert_close` takes too long."""
    expected = torch.tensor(by_hand, dtype=torch.float64)
    assert ours.shape == expected.shape and torch.allclose(ours, expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_six_steps_recombine_by_hand(kind: str) -> None:
    """q · k, scaled, biased and hidden, softmax, weighted values, their sum: for every query of every third head."""
    session = session_of(kind, torch.float64)
    for _, head in list(every_head(session))[::3]:  # of four heads a layer: each of them in another layer
        queries, keys, values = head.q.tolist(), head.k.tolist(), head.v.tolist()
        for i, q in enumerate(queries):
            products = [sum(a * b for a, b in zip(q, k, strict=True)) for k in keys]
            biases, masked = head.bias(i), head.masked(i)
            bias = [0.0] * len(keys) if biases is None else biases[0].tolist()
            hidden = [False] * len(keys) if masked is None else masked[0].tolist()
            scaled = [p * head.scale for p in products]
            if (cap := head.score_cap) is not None:
                scaled = [cap * math.tanh(s / cap) for s in scaled]
            scores = [-math.inf if hidden[j] else s + bias[j] for j, s in enumerate(scaled)]
            largest = max(scores)
            powers = [math.exp(score - largest) for score in scores]
            total_power = sum(powers)
            probs = [power / total_power for power in powers]
            assert_by_hand(head.products(i)[0], products)
            assert_by_hand(head.scores(i)[0], scores)
            assert_by_hand(head.probs(i)[0], probs)
            terms = [[p * x for x in v] for p, v in zip(probs, values, strict=True)]
            assert_by_hand(head.weighted(i), terms)
            total = [sum(column) for column in zip(*terms, strict=True)]
            assert_by_hand(head.z(i)[0], total)
            assert_by_hand(head.out(i)[0], (head.projection @ torch.tensor(total, dtype=torch.float64)).tolist())


@pytest.mark.parametrize("kind", ["alternating windows", "bucketed causal", "transformer"])
@pytest.mark.parametrize("what", ["products", "bias", "masked", "scores", "probs", "z", "out"])
def test_rows_by_number_slice_and_list_are_rows_of_the_whole(kind: str, what: str) -> None:
    for _, head in every_head(session_of(kind)):
        whole = getattr(head, what)()
        if whole is None:
            assert getattr(head, what)(3) is None
            continue
        for rows, same in (
            (3, slice(3, 4)),
            (slice(2, 5), slice(2, 5)),
            (slice(None, None, 2), slice(None, None, 2)),
            ([4, 0, 4], [4, 0, 4]),
            (torch.tensor([1, 5]), [1, 5]),
            ([], []),
            (None, slice(None)),
        ):
            torch.testing.assert_close(getattr(head, what)(rows), whole[same], atol=2e-5, rtol=1e-5)


def test_a_causal_head_hides_what_comes_later_and_a_window_what_is_far() -> None:
    windowed, causal = (session_of("alternating windows").head(layer, 0) for layer in (0, 1))
    away = torch.arange(T)[:, None] - torch.arange(T)[None, :]
    assert torch.equal(causal.masked(), away < 0)
    assert torch.equal(windowed.masked(), (away < 0) | (away >= 3))
    assert bool((windowed.scores() == -torch.inf).eq(windowed.masked()).all())
    assert not windowed.probs()[windowed.masked()].any()


def test_a_rectangle_of_cross_attention_hides_nothing() -> None:
    head = session_of("transformer").head(1, 2, "cross")
    assert head.masked() is None and head.bias() is None
    assert head.probs().shape == (T, S)
    torch.testing.assert_close(head.probs().sum(-1), torch.ones(T))


def test_grouped_heads_share_their_keys() -> None:
    session = session_of("llama")
    assert [session.head(0, head).kv_head for head in range(4)] == [0, 0, 1, 1]
    assert session.head(0, 2).k.data_ptr() == session.head(0, 3).k.data_ptr()
    assert (session.maps["self"].heads, session.maps["self"].kv_heads) == (4, 2)


def test_bias_is_the_heads_own() -> None:
    session = session_of("bucketed")
    table = session.network.get_submodule("blocks.bias").table.weight
    bias = session.head(0, 2).bias()
    assert bias is not None
    assert bool((bias.diagonal() == table[0, 2]).all())  # distance 0 is bucket 0


def test_bf16_numbers_are_the_models_own() -> None:
    session = session_of("bert", torch.bfloat16)
    taps = heard(session.network, reading_of("bert"), "*.q", "*.k", "*.v", "*.z")
    for path, head in every_head(session):
        for name in "qkv":
            assert torch.equal(getattr(head, name), taps[f"{path}.{name}"][head.head])
        z, probs = scaled_dot_product_attention(head.q, head.k, head.v)
        assert head.probs().dtype == torch.bfloat16
        torch.testing.assert_close(head.probs(), probs, atol=0, rtol=2**-7)  # one step of bf16
        torch.testing.assert_close(head.z(), z, atol=1e-2, rtol=2**-7)
        torch.testing.assert_close(head.z(), taps[f"{path}.z"][head.head], atol=3e-2, rtol=3e-2)


@pytest.mark.parametrize("row", [-1, T, [0, T], [-1], torch.tensor([2, 99])])
def test_a_query_that_is_not_there(row: object) -> None:
    head = session_of("bert").head(0, 0)
    with pytest.raises(DataError, match=r"there is no query -?\d+; the pass has queries 0 to 8"):
        head.probs(row)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [1.5, ["a"], [0.5]])
def test_rows_that_are_no_numbers(rows: object) -> None:
    head = session_of("bert").head(0, 0)
    for read in (head.probs, head.scores, head.z, head.weighted):
        with pytest.raises(DataError, match=r"rows is .*; it must be a query's number, several, a slice, or None"):
            read(rows)  # type: ignore[operator]


# ------------------------------------------------------------------------------------------------------- tiles


def pooled_by_hand(whole: Tensor, cells: int) -> Tensor:
    """The largest of each square of cells: of its rows first, then of its columns."""
    bands = torch.stack([band.amax(0) for band in whole.split(cells, dim=0)])
    return torch.stack([band.amax(1) for band in bands.split(cells, dim=1)], dim=1)


@pytest.mark.parametrize(
    ("T", "S", "pattern"),
    [
        (600, 600, AttentionPattern(causal=True)),
        (300, 1025, AttentionPattern()),
        (1030, 70, AttentionPattern()),
        (256, 256, AttentionPattern()),
    ],
)
def test_tiles_of_all_levels_are_the_pooled_map(T: int, S: int, pattern: AttentionPattern) -> None:
    head = made_head(T, S, pattern)
    whole = head.probs()
    levels = next(level for level in range(9) if TILE << level >= max(T, S)) + 1
    for level in range(levels):
        expected = pooled_by_hand(whole, 1 << level)
        rows, columns = (-(-size // TILE) for size in expected.shape)
        for row in range(rows):
            for column in range(columns):
                part = expected[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
                torch.testing.assert_close(head.tile(level, row, column), part, atol=1e-6, rtol=0)
        for row, column in ((rows, 0), (0, columns), (-1, 0), (0, -1)):
            with pytest.raises(DataError, match=rf"no tile .* at level {level}; it has {rows} × {columns}"):
                head.tile(level, row, column)
    assert rows == columns == 1  # the last level is one tile
    for level in (-1, levels):
        with pytest.raises(DataError, match=f"no tile level {level}; this map has levels 0 to {levels - 1}"):
            head.tile(level, 0, 0)


def test_a_pixel_taller_than_a_tile_is_pooled_in_parts() -> None:
    """From 65,537 tokens on, a pixel of the last level stands for more rows than are worked on at once."""
    head = made_head(TILE * TILE + 1000, 3)
    tile = head.tile(9, 0, 0)
    expected = torch.stack([rows.amax() for rows in head.probs().split(512)])[:, None]
    torch.testing.assert_close(tile, expected, atol=1e-6, rtol=0)


def test_a_row_of_tiles_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    head = made_head(300, 600)
    calls: list[object] = []
    probs = AttentionHead.probs
    monkeypatch.setattr(AttentionHead, "probs", lambda self, rows=None: calls.append(rows) or probs(self, rows))
    for column in (0, 1, 2, 0):
        head.tile(0, 1, column)
    assert len(calls) == 1


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 3), (100, 1), (7, 100)])
def test_pooled(rows: int, columns: int) -> None:
    values = torch.randn(2, 3, 13, 17)
    down = pooled(values, rows, columns)
    assert down.shape == (2, 3, -(-13 // rows), -(-17 // columns))
    for i in range(down.shape[2]):
        for j in range(down.shape[3]):
            block = values[:, :, i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
            assert torch.equal(down[:, :, i, j], block.amax((-1, -2)))
    assert torch.equal(pooled(values[0, 0], rows, columns), down[0, 0])


def test_a_notebook_shows_the_map() -> None:
    head = session_of("bert").head(1, 2)
    (table,) = head.tables()
    weights = head.probs()
    assert table.shades == weights.tolist() and len(table.rows) == len(weights)
    assert table.rows[1][1:] == [f"{x:.2f}" for x in weights[1].tolist()] and table.caption == ""
    html = head._repr_html_()
    assert "Attention of self layer 1 head 2" in html and html.count("<tr") == len(weights) + 1
    wide = replace(head, q=head.q.repeat(20, 1), k=head.k.repeat(20, 1), v=head.v.repeat(20, 1))
    (table,) = wide.tables()
    assert len(table.rows) == 32 and f"of {len(wide.q)} × {len(wide.k)} weights" in table.caption


def test_a_row_is_named_by_its_token() -> None:
    head = replace(session_of("bert").head(1, 2), tokens=(["time", "flies", "time"] + ["."] * (T - 3), ["a"] * T))
    assert torch.equal(head.probs("time"), head.probs([0, 2])) and head.scores("flies").shape == (1, T)
    (table,) = head.tables()
    assert table.headings[1] == "a" and [row[0] for row in table.rows[:3]] == ["time", "flies", "time"]
    with pytest.raises(DataError, match=r"no query 'tme'; nearest: 'time'; its queries are time, flies"):
        head.probs("tme")
    with pytest.raises(DataError, match="its tokens are not known"):
        replace(head, tokens=((), ())).probs("time")


def test_repr_says_where_it_stands() -> None:
    assert repr(session_of("transformer").head(1, 2, "cross")) == (
        f"AttentionHead(cross layer 1 head 2: {T} queries × {S} keys, width 8)"
    )


def test_network_of_hides_nothing() -> None:
    """The networks that all of this is tried on have attention that differs, and no weight at 0 or 1."""
    for kind in KINDS:
        for parameter in network_of(kind).parameters():
            assert not bool(((parameter == 0) | (parameter == 1)).any())
        rows = [head.probs()[-1] for _, head in every_head(session_of(kind))]
        assert max(float(row.amax() / row[row > 0].min()) for row in rows) > 3, kind


# What is kept stays within its limit, newest looks first, whoever asks.


def a_kilobyte(value: int = 0) -> tuple[Tensor, ...]:
    return (torch.full((250,), float(value)),)  # 1,000 bytes


def test_the_longest_unseen_is_let_go_first() -> None:
    cache, made = LRUCache(3_000), []

    def look(key: str) -> float:
        return float(cache.get(key, lambda: made.append(key) or a_kilobyte(ord(key)))[0][0])

    for key in "abcadbc":  # d takes the place of b, and so on
        assert look(key) == ord(key)
        assert cache.nbytes <= 3_000
    assert made == ["a", "b", "c", "d", "b", "c"]
    assert cache.nbytes == 3_000


def test_one_that_is_larger_than_the_limit_is_kept_alone() -> None:
    cache = LRUCache(100)
    first = cache.get("a", a_kilobyte)
    assert cache.get("a", a_kilobyte) is first
    cache.get("b", a_kilobyte)
    assert cache.nbytes == 1_000
    assert cache.get("a", a_kilobyte) is not first


def test_views_are_counted_by_what_they_keep_alive() -> None:
    whole = torch.zeros(4, 250)
    assert storage_bytes((whole[0],)) == 4_000
    assert storage_bytes((whole[0], whole[3])) == 4_000
    assert storage_bytes((whole, torch.zeros(250))) == 5_000
    assert storage_bytes(()) == 0


def test_many_threads_get_what_they_asked_for() -> None:
    cache = LRUCache(5_000)

    def look(i: int) -> bool:
        key = i * 7 % 23
        return bool((cache.get(key, lambda: a_kilobyte(key))[0] == key).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(look, range(4_000)))
    assert cache.nbytes == 5_000


def test_put_takes_the_place_of_what_was_there() -> None:
    cache = LRUCache(3_000)
    for value in (1, 2):
        cache.put("a", a_kilobyte(value))
        cache.put("b", a_kilobyte(9))
    assert float(cache.get("a", a_kilobyte)[0][0]) == 2
    assert cache.nbytes == 2_000
    cache.put("c", (torch.zeros(400),))  # 1,600 bytes: the oldest goes
    assert cache.nbytes == 2_600
    assert float(cache.get("b", a_kilobyte)[0][0]) == 0


@pytest.mark.parametrize("kind", ["bert", "llama", "transformer"])
def test_heads_mixed_into_one_map_by_plain_loops(kind: str) -> None:
    session = session_of(kind)
    name = list(session.maps)[-1]
    heads = [session.head(1, head, name) for head in range(3)]
    rows = [0, 2]
    shares: dict[HeadMix, list[list[float]]] = {
        "mean": [[1.0] * 3] * 2,
        "weights": [[0.5, 0.0, 2.0]] * 2,
        "written": [
            [
                math.sqrt(sum(x**2 for x in (head.probs(row) @ head.v @ head.projection.mT)[0].tolist()))
                for head in heads
            ]
            for row in rows
        ],
    }
    for mix, by_row in shares.items():
        own = mixed(iter(heads), mix, rows=rows, weights=by_row[0] if mix == "weights" else None)
        for at, (row, share) in enumerate(zip(rows, by_row, strict=True)):
            for key in range(len(heads[0].k)):
                terms = [w * float(head.probs(row)[0, key]) for w, head in zip(share, heads, strict=True)]
                assert float(own[at, key]) == pytest.approx(sum(terms) / sum(share), abs=1e-6)
        assert own.sum(-1).tolist() == pytest.approx([1.0] * 2, abs=1e-5)
    largest = torch.stack([head.probs() for head in heads]).amax(0)
    assert torch.equal(mixed(heads, "max"), largest)


def test_heads_that_write_nothing_mix_to_nothing() -> None:
    head = made_head(4, 4)
    silent = replace(head, v=torch.zeros_like(head.v))
    assert mixed([silent, silent], "written").abs().max() == 0
    assert torch.allclose(mixed([silent, head], "written"), head.probs())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mix": "sum"}, "mix is 'sum'; allowed: mean, max, weights, written"),
        ({"mix": "weights"}, "go together"),
        ({"weights": [1.0, 1.0]}, "go together"),
        ({"mix": "weights", "weights": [0.0, 0.0]}, "one of them above 0"),
        ({"mix": "weights", "weights": [-1.0, 2.0]}, "0 or more"),
        ({"mix": "weights", "weights": [math.nan, 2.0]}, "0 or more"),
        ({"mix": "weights", "weights": [1.0]}, "weights has 1 numbers, and there are more heads"),
        ({"mix": "weights", "weights": [1.0, 1.0, 1.0]}, "there are 2 heads to mix, and 3 weights"),
    ],
)
def test_mixes_that_are_refused(options: dict[str, object], words: str) -> None:
    head = made_head(4, 4)
    with pytest.raises(ConfigError, match=words):
        mixed([head, head], **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="there is no head to mix"):
        mixed([])
