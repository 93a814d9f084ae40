"""Thumbnails, figures and sentences against the whole map, computed here by plain loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from glassformer.core.masks import AttentionPattern
from glassformer.inspect import AttentionHead, Token
from glassformer.inspect.head import LRUCache
from glassformer.inspect.overview import HEAD_KINDS, PATTERNS, SAMPLED_FROM, THUMBNAIL, overview
from tests.inspect.passes import T, session_of, tokens_for
from tests.inspect.test_head import made_head, pooled_by_hand


def heads_of(T: int, S: int, pattern: AttentionPattern = AttentionPattern()) -> list[AttentionHead]:  # noqa: B008
    return [made_head(T, S, pattern, seed) for seed in range(3)]


@pytest.mark.parametrize(
    ("T", "S", "pattern"),
    [
        (1, 1, AttentionPattern()),
        (9, 9, AttentionPattern(causal=True)),
        (64, 65, AttentionPattern()),
        (200, 131, AttentionPattern()),
        (1024, 1024, AttentionPattern(causal=True, window=100)),
    ],
)
def test_a_text_of_up_to_1024_tokens_is_pooled_whole(T: int, S: int, pattern: AttentionPattern) -> None:
    heads = heads_of(T, S, pattern)
    result = overview(heads, tokens_for(S), tokens_for(T))
    rows, columns = result.bins
    assert result.rows_used == result.rows_total == T and not result.sampled
    assert (rows, columns) == (math.ceil(T / THUMBNAIL), math.ceil(S / THUMBNAIL))
    for thumbnail, head in zip(result.thumbnails, heads, strict=True):
        torch.testing.assert_close(thumbnail, pooled_whole(head.probs(), rows, columns), atol=1e-6, rtol=0)


def pooled_whole(probs: Tensor, rows: int, columns: int) -> Tensor:
    return torch.stack([pooled_by_hand(band, columns).amax(0) for band in probs.split(rows)])


# 1,041 = 52 bins of 20 queries and one query more; sampled every 5th
@pytest.mark.parametrize("T", [SAMPLED_FROM + 1, 1041, 2100])
def test_a_longer_text_is_sampled_until_exact_repairs_it(T: int) -> None:
    heads = heads_of(T, T, AttentionPattern(causal=True))
    sampled = overview(heads, tokens_for(T))
    exact = overview(heads, tokens_for(T), exact=True)
    step = math.ceil(T / 256)
    assert sampled.sampled and sampled.rows_used == math.ceil(T / step) < sampled.rows_total == T
    assert not exact.sampled and exact.rows_used == exact.rows_total == T
    assert sampled.bins == exact.bins == (4 * step, math.ceil(T / THUMBNAIL))
    used = torch.tensor([min(row + step // 2, T - 1) for row in range(0, T, step)])
    for i, head in enumerate(heads):
        whole = head.probs()
        torch.testing.assert_close(exact.thumbnails[i], pooled_whole(whole, *exact.bins), atol=1e-6, rtol=0)
        torch.testing.assert_close(
            sampled.thumbnails[i],
            torch.stack(
                [
                    pooled_by_hand(whole[used[used // sampled.bins[0] == band]], sampled.bins[1]).amax(0)
                    for band in range(math.ceil(T / sampled.bins[0]))
                ]
            ),
            atol=1e-6,
            rtol=0,
        )
    assert not torch.equal(sampled.thumbnails, exact.thumbnails)
    for stats, rows in ((sampled.stats, used), (exact.stats, torch.arange(T))):
        for name, value in by_hand(heads[1], tokens_for(T), rows).items():
            assert float(stats[name][1]) == pytest.approx(value, rel=1e-4, abs=1e-6), name


def by_hand(head: AttentionHead, keys: list[Token], rows: Tensor) -> dict[str, float]:
    """The same figures from the definitions, in fp64."""
    probs = head.probs().double()[rows]
    hidden = head.masked()
    seen = torch.full((len(head.q),), float(len(head.k))) if hidden is None else (~hidden).sum(-1).float()
    positions = torch.arange(len(head.k))
    special = torch.tensor([token.special for token in keys])
    away = positions[None, :] - rows[:, None]
    return {
        "entropy_bits": float(torch.special.entr(probs).sum() / math.log(2) / len(rows)),
        "entropy_most_bits": float(seen[rows].log2().mean()),
        "special": float(probs[:, special].sum() / len(rows)),
        "first": float(probs[:, 0].mean()),
        "previous": float(probs[away == -1].sum() / len(rows)),
        "same": float(probs[away == 0].sum() / len(rows)),
        "next": float(probs[away == 1].sum() / len(rows)),
        "distance": float((probs * away.abs()).sum() / len(rows)),
    }


@pytest.mark.parametrize("pattern", [AttentionPattern(), AttentionPattern(causal=True), AttentionPattern(window=3)])
def test_figures_are_those_of_the_whole_map(pattern: AttentionPattern) -> None:
    heads = heads_of(40, 40, pattern)
    result = overview(heads, tokens_for(40))
    assert list(result.stats) == list(by_hand(heads[0], tokens_for(40), torch.arange(40)))
    for i, head in enumerate(heads):
        for name, value in by_hand(head, tokens_for(40), torch.arange(40)).items():
            assert float(result.stats[name][i]) == pytest.approx(value, rel=1e-5, abs=1e-7), name


def test_two_sides_have_no_neighbours() -> None:
    result = overview(heads_of(9, 5), tokens_for(5), tokens_for(9))
    assert list(result.stats) == ["entropy_bits", "entropy_most_bits", "special", "first"]


@pytest.mark.parametrize("map", ["encoder", "decoder", "cross"])
def test_of_a_session(map: str) -> None:
    session = session_of("transformer")
    result = session.overview(1, map)
    about = session.maps[map]
    whole = torch.stack([session.head(1, head, map).probs() for head in range(about.heads)])
    torch.testing.assert_close(result.thumbnails, whole, atol=1e-6, rtol=0)  # a pixel a pair: both are short
    assert result.bins == (1, 1)
    assert len(result.summaries) == about.heads
    assert ("previous" in result.stats) == (map != "cross")


# ------------------------------------------------------------------------------------------------------ sentences


def looking_at(scores: Tensor, pattern: AttentionPattern = AttentionPattern()) -> AttentionHead:  # noqa: B008
    """A head with these very scores."""
    return AttentionHead(
        map="self", layer=0, head=0, kv_head=0, q=scores, k=torch.eye(scores.shape[1]),
        v=torch.zeros(scores.shape[1], 4), projection=torch.eye(4), scale=1.0,
        pattern=pattern, position_bias=None, cache=LRUCache(2**20),
    )  # fmt: skip


def at_place(away: int, strength: float) -> Tensor:
    """Scores that prefer the key `away` tokens from each query."""
    positions = torch.arange(32)
    return strength * (positions[None, :] - positions[:, None] == away).float()


def to_first(strength: float) -> Tensor:
    return strength * (torch.arange(32) == 0).float().expand(32, 32)


WORDS = [Token(f"w{i}", f"w{i}", i, segment=0) for i in range(32)]
OTHERS = [Token(f"x{i}", f"x{i}", i) for i in range(32)]
CLS = [Token("[CLS]", "[CLS]", 1, special=True), *WORDS[1:]]
FRAMED = [*CLS[:-1], Token("[SEP]", "[SEP]", 2, special=True)]


@pytest.mark.parametrize(
    ("scores", "keys", "sentence"),
    [
        (at_place(-1, 20.0), WORDS, "mostly the previous token, 97%"),
        (at_place(0, 20.0), WORDS, "mostly the token itself, 100%"),
        (at_place(1, 20.0), WORDS, "mostly the next token, 97%"),
        (to_first(20.0), WORDS, "mostly the first token, 100%"),
        (to_first(20.0), CLS, "mostly the first token ([CLS]), 100%"),
        (to_first(20.0) + to_first(20.0).flip(-1), FRAMED, "mostly special tokens, 100%"),
        (torch.zeros(32, 32), WORDS, "spread widely, 5.0 of 5.0 bits"),
        (at_place(-1, 4.0) + at_place(-9, 4.0) + at_place(5, 4.0), WORDS, "often the previous token, 3"),
        (sum(at_place(-i, 6.0) for i in (3, 4, 5, 6, 7, 8)), WORDS, "mixed, "),
    ],
)
def test_a_head_made_for_it_is_called_so(scores: Tensor, keys: list[Token], sentence: str) -> None:
    (summary,) = overview([looking_at(scores)], keys).summaries
    assert summary.startswith(sentence)


def test_relations_have_the_words_of_the_head_that_a_session_opens_with() -> None:
    in_order, twice = at_place(0, 20.0), [Token(f"w{i % 16}", f"w{i % 16}", i) for i in range(32)]
    backwards = [Token(word.text, word.text, word.id) for word in WORDS[::-1]]
    for scores, keys, queries, sentence in (
        (in_order, WORDS, OTHERS, "mostly in order, from beginning to end, 100%"),
        (in_order.flip(-1), WORDS, backwards, "mostly the same token, 100%"),
        (at_place(16, 20.0) + at_place(-16, 20.0), twice, None, "mostly other occurrences of the token, 100%"),
        (at_place(-15, 20.0), twice, None, "mostly what came after the token's last occurrence, 100%"),
    ):
        assert overview([looking_at(scores)], keys, queries).summaries == [sentence]


def test_a_mixed_head_says_how_far_it_looks_where_that_means_something() -> None:
    scores = at_place(7, 9.0) + at_place(-7, 9.0) + at_place(9, 9.0)
    (near,) = overview([looking_at(scores)], WORDS).summaries
    (across,) = overview([looking_at(scores)], WORDS, OTHERS).summaries
    assert "tokens away on average" in near and "away" not in across


def test_a_causal_head_that_sees_one_token_is_not_called_widely_spread() -> None:
    """Its first query has one key only; what could be is counted from what each query may see."""
    result = overview([looking_at(torch.zeros(32, 32), AttentionPattern(causal=True))], WORDS)
    most = sum(math.log2(i + 1) for i in range(32)) / 32
    assert float(result.stats["entropy_most_bits"]) == pytest.approx(most)
    assert result.summaries == [f"spread widely, {most:.1f} of {most:.1f} bits"]


def test_a_single_token() -> None:
    result = overview([made_head(1, 1)], tokens_for(1))
    assert result.summaries == ["mostly the token itself, 100%"]


def test_half_precision() -> None:
    session = session_of("bert", torch.float16)
    result = session.overview(0)
    assert result.thumbnails.dtype == torch.float32 and result.thumbnails.shape == (4, T, T)


def test_what_each_head_does_has_a_name_and_a_metric() -> None:
    """By the rule of its summary, on heads made by hand; the metric is the share that the summary rounds."""
    for kind in ("bert", "gpt2"):
        session = session_of(kind)
        for layer in range(session.maps["self"].layers):
            result = session.overview(layer)
            for summary, (name, value) in zip(result.summaries, result.kinds, strict=True):
                pattern, metric = HEAD_KINDS[name]
                assert metric and 0 <= value <= 1 + 1e-6
                if name == "broad":
                    assert summary.startswith("spread widely")
                elif name == "mixed":
                    assert summary.startswith("mixed")
                else:
                    assert PATTERNS[pattern].split(",")[0] in summary and f"{value:.0%}" in summary
    assert {pattern for pattern, _ in HEAD_KINDS.values() if pattern} == PATTERNS.keys()
