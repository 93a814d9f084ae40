"""Noise functions for denoising pretraining (BART, T5, PEGASUS): pure functions of token ids and a random generator.

    text                Thank you for inviting me to your party last week .
    mask_tokens         Thank _ for inviting _ to your party last week .           BART: token masking
    delete_tokens       Thank for inviting me to party last week .                 BART: token deletion
    infill              Thank you _ me to your party _ .                           BART: text infilling
    permute_sentences   (of sentences)  C. A. B.                                   BART: sentence permutation
    rotate              me to your party last week . Thank you for inviting        BART: document rotation
    corrupt_spans       Thank you <X> me to your party <Y> week .                  T5: span corruption
                        → <X> for inviting <Y> last <Z>
    gap_sentences       A. _ C.  →  B.                                             PEGASUS: gap sentences

None changes its input. Rates hold on average: where a rate asks for 2.4 of 16 tokens, 2 or 3 are taken.

Source: Lewis et al. 2020, "BART", section 2.2 and figure 2; Raffel et al. 2020, "T5", section 3.1.4 and figure 2;
Zhang et al. 2020, "PEGASUS", section 3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from glassformer.errors import ConfigError, DataError

TokenIds = np.ndarray
"""Token ids of a text. [n] int64"""


def sample_count(count: int, rate: float, rng: np.random.Generator) -> int:
    """Stochastic rounding of `count` times `rate`: 2.4 is 3 in four cases of ten, else 2.

    Raises: ConfigError: the rate is not between 0 and 1.
    """
    if not 0 <= rate <= 1:
        raise ConfigError(f"rate is {rate}; it must be from 0 to 1")
    return int(count * rate + rng.random())


def mask_tokens(ids: TokenIds, rng: np.random.Generator, *, mask: int, rate: float = 0.15) -> TokenIds:
    """Token masking: some tokens replaced by the mask.

    mask_tokens([5, 6, 7, 8], rng, mask=0, rate=0.5)        5 0 7 0
    """
    noisy = np.array(ids)
    noisy[rng.choice(len(ids), sample_count(len(ids), rate, rng), replace=False)] = mask
    return noisy


def delete_tokens(ids: TokenIds, rng: np.random.Generator, *, rate: float = 0.15) -> TokenIds:
    """Token deletion: some tokens left out.

    delete_tokens([5, 6, 7, 8], rng, rate=0.5)        5 7
    """
    return np.delete(ids, rng.choice(len(ids), sample_count(len(ids), rate, rng), replace=False))


def rotate(ids: TokenIds, rng: np.random.Generator) -> TokenIds:
    """Document rotation: the text begins at a random token, what came before is moved to its end.

    rotate([5, 6, 7, 8], rng)        7 8 5 6
    """
    return np.roll(ids, -int(rng.integers(len(ids)))) if len(ids) else np.array(ids)


def permute_sentences(sentences: Sequence[TokenIds], rng: np.random.Generator) -> list[TokenIds]:
    """Sentence permutation: the sentences in a random order.

    permute_sentences([[5, 6], [7], [8, 9]], rng)        8 9 · 5 6 · 7
    """
    return [sentences[index] for index in rng.permutation(len(sentences))]


def infill(ids: TokenIds, rng: np.random.Generator, *, mask: int, rate: float = 0.3, mean: float = 3.0) -> TokenIds:
    """Text infilling: spans of lengths from Poisson(mean), each replaced by one mask; an empty span inserts a mask.

        infill([5, 6, 7, 8, 9], rng, mask=0, rate=0.6)        5 0 9

    `rate` of the tokens are replaced; the model has to infer how many a mask stands for.
    """
    if mean <= 0:
        raise ConfigError(f"mean is {mean}; spans must be longer than 0 tokens on average")
    budget = sample_count(len(ids), rate, rng)
    lengths: list[int] = []
    while sum(lengths) < budget:
        lengths.append(min(int(rng.poisson(mean)), budget - sum(lengths)))
    noisy: list[TokenIds] = []
    for before, span in _place_spans(len(ids), np.array(lengths, dtype=np.int64), rng):
        noisy += [ids[before], *([np.array([mask])] if span is not None else [])]
    return np.concatenate(noisy).astype(np.int64)


def corrupt_spans(
    ids: TokenIds,
    rng: np.random.Generator,
    *,
    sentinels: Sequence[int],
    rate: float = 0.15,
    mean: float = 3.0,
) -> tuple[TokenIds, TokenIds]:
    """Span corruption: spans replaced by a sentinel each, and the target: every sentinel followed by its span.

        corrupt_spans([1, 2, 3, 4, 5, 6, 7, 8], rng, sentinels=[99, 98, 97], rate=0.4)
            1 2 99 5 6 98 8   →   99 3 4 98 7 97

    The last sentinel of the target marks its end. There are never more spans than sentinels for them.

    Args:
        sentinels: ids of <extra_id_0>, <extra_id_1>, …
        rate: share of the tokens
        mean: span length in tokens
    Returns: source ids and target ids.
    Raises: ConfigError: fewer than two sentinels, or numbers out of range. DataError: fewer than two tokens.
    """
    if len(ids) < 2:
        raise DataError(f"a text of {len(ids)} tokens leaves nothing to read besides what is cut out; give at least 2")
    if len(sentinels) < 2 or not 0 < rate < 1 or mean < 1:
        raise ConfigError(
            f"span corruption got {len(sentinels)} sentinels, rate {rate}, mean {mean}; it needs at least 2 sentinels, "
            "a rate between 0 and 1 and a mean of at least 1 token"
        )
    count = min(max(sample_count(len(ids), rate, rng), 1), len(ids) - 1)
    spans = min(max(round(count / mean), 1), len(sentinels) - 1, len(ids) - count)
    cuts = np.sort(rng.choice(count - 1, spans - 1, replace=False)) + 1  # count = the sum of `spans` lengths ≥ 1
    lengths = np.diff(np.concatenate([[0], cuts, [count]]))
    source: list[TokenIds] = []
    target: list[TokenIds] = []
    remaining = iter(sentinels)
    for before, span in _place_spans(len(ids), lengths, rng):
        source.append(ids[before])
        sentinel = np.array([next(remaining)])
        target.append(sentinel)
        if span is not None:
            source.append(sentinel)
            target.append(ids[span])
    return np.concatenate(source).astype(np.int64), np.concatenate(target).astype(np.int64)


def _place_spans(count: int, lengths: np.ndarray, rng: np.random.Generator) -> list[tuple[slice, slice | None]]:
    """Place spans of these lengths at random in `count` tokens: (tokens before it, span) for each; then the rest.

    No two spans touch: each takes another of the gaps around the unchanged tokens, uniformly.
    """
    unchanged = count - int(lengths.sum())
    lengths = lengths[: unchanged + 1]  # there are no more gaps
    gaps = np.sort(rng.choice(unchanged + 1, len(lengths), replace=False))
    spans: list[tuple[slice, slice | None]] = []
    position = previous_gap = 0
    for gap, length in zip(gaps.tolist(), lengths.tolist(), strict=True):
        start = position + gap - previous_gap
        spans.append((slice(position, start), slice(start, start + length)))
        position, previous_gap = start + length, gap
    return [*spans, (slice(position, count), None)]


def rouge1(a: TokenIds, b: TokenIds) -> float:
    """ROUGE-1 F1: unigram overlap of two texts."""
    common = (Counter(a.tolist()) & Counter(b.tolist())).total()
    return 2 * common / (len(a) + len(b)) if common else 0.0


def gap_sentences(sentences: Sequence[TokenIds], *, mask: int, rate: float = 0.3) -> tuple[TokenIds, TokenIds]:
    """Gap sentence generation: the sentences most similar to the rest are masked; they are the target, in order.

        gap_sentences([[5, 6], [5, 6, 7, 8], [7, 9]], mask=0)        5 6 · 0 · 7 9   →   5 6 7 8

    Each is scored alone, by ROUGE-1 F1 against all the others together ("Ind-Orig", the paper's best). Deterministic.
    Differs: the paper compares words; here they are tokens, which every script has.

    Args:
        rate: share of the sentences that are the target.
    Returns: source ids and target ids.
    Raises: DataError: fewer than two sentences.
    """
    if len(sentences) < 2:
        raise DataError(f"a text of {len(sentences)} sentences leaves none to read besides the target; give at least 2")
    count = min(max(round(len(sentences) * rate), 1), len(sentences) - 1)
    scores = [
        rouge1(sentence, np.concatenate([*sentences[:index], *sentences[index + 1 :]]))
        for index, sentence in enumerate(sentences)
    ]
    chosen = set(np.argsort(-np.array(scores), kind="stable")[:count].tolist())
    source = [np.array([mask]) if index in chosen else ids for index, ids in enumerate(sentences)]
    return (
        np.concatenate(source).astype(np.int64),
        np.concatenate([sentences[index] for index in sorted(chosen)]).astype(np.int64),
    )
