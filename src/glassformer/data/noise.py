"""Ways to spoil a text, so that a model learns by mending it: pure functions on ids, with a generator for their draws.

    text                Thank you for inviting me to your party last week .
    hide_tokens         Thank _ for inviting _ to your party last week .           BART: token masking
    delete_tokens       Thank for inviting me to party last week .                 BART: token deletion
    infill              Thank you _ me to your party _ .                           BART: text infilling
    permute             (of sentences)  C. A. B.                                   BART: sentence permutation
    rotate              me to your party last week . Thank you for inviting        BART: document rotation
    corrupt_spans       Thank you <X> me to your party <Y> week .                  T5: span corruption
                        → <X> for inviting <Y> last <Z>
    gap_sentences       A. _ C.  →  B.                                             PEGASUS: gap sentences

Each leaves its input as it is. A rate is met on average exactly: where it asks for 2.4 of 16 tokens, 2 or 3 are taken.

Source: Lewis et al. 2020, "BART", section 2.2 and figure 2; Raffel et al. 2020, "T5", section 3.1.4 and figure 2;
Zhang et al. 2020, "PEGASUS", section 3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from glassformer.errors import ConfigError, DataError

Ids = np.ndarray
"""Token ids of a stretch of text. [n] int64"""


def share(count: int, rate: float, draw: np.random.Generator) -> int:
    """How many of `count` are taken so that `rate` is met on average: 2.4 is 2, and 3 in four cases of ten.

    Raises: ConfigError: the rate is no share.
    """
    if not 0 <= rate <= 1:
        raise ConfigError(f"rate is {rate}; it must be from 0 to 1")
    return int(count * rate + draw.random())


def hide_tokens(ids: Ids, draw: np.random.Generator, *, mask: int, rate: float = 0.15) -> Ids:
    """Some tokens replaced by the mask.

    hide_tokens([5, 6, 7, 8], draw, mask=0, rate=0.5)        5 0 7 0
    """
    spoilt = np.array(ids)
    spoilt[draw.choice(len(ids), share(len(ids), rate, draw), replace=False)] = mask
    return spoilt


def delete_tokens(ids: Ids, draw: np.random.Generator, *, rate: float = 0.15) -> Ids:
    """Some tokens left out: where, has to be found.

    delete_tokens([5, 6, 7, 8], draw, rate=0.5)        5 7
    """
    return np.delete(ids, draw.choice(len(ids), share(len(ids), rate, draw), replace=False))


def rotate(ids: Ids, draw: np.random.Generator) -> Ids:
    """The text begun at any of its tokens, what stood before it moved to its end.

    rotate([5, 6, 7, 8], draw)        7 8 5 6
    """
    return np.roll(ids, -int(draw.integers(len(ids)))) if len(ids) else np.array(ids)


def permute(sentences: Sequence[Ids], draw: np.random.Generator) -> list[Ids]:
    """The sentences in any order.

    permute([[5, 6], [7], [8, 9]], draw)        8 9 · 5 6 · 7
    """
    return [sentences[place] for place in draw.permutation(len(sentences))]


def infill(ids: Ids, draw: np.random.Generator, *, mask: int, rate: float = 0.3, mean: float = 3.0) -> Ids:
    """Stretches, of lengths drawn from Poisson(mean), each replaced by one mask; one of none is a mask put in.

        infill([5, 6, 7, 8, 9], draw, mask=0, rate=0.6)        5 0 9

    How many tokens a mask stands for, has to be found too. `rate` of the tokens are replaced.
    """
    if mean <= 0:
        raise ConfigError(f"mean is {mean}; stretches must be longer than 0 tokens on average")
    budget = share(len(ids), rate, draw)
    lengths: list[int] = []
    while sum(lengths) < budget:
        lengths.append(min(int(draw.poisson(mean)), budget - sum(lengths)))
    spoilt: list[Ids] = []
    for kept, gone in _laid_out(len(ids), np.array(lengths, dtype=np.int64), draw):
        spoilt += [ids[kept], *([np.array([mask])] if gone is not None else [])]
    return np.concatenate(spoilt).astype(np.int64)


def corrupt_spans(
    ids: Ids, draw: np.random.Generator, *, sentinels: Sequence[int], rate: float = 0.15, mean: float = 3.0
) -> tuple[Ids, Ids]:
    """Stretches each replaced by a sentinel of its own, and the target: every sentinel with what it stands for.

        corrupt_spans([1, 2, 3, 4, 5, 6, 7, 8], draw, sentinels=[99, 98, 97], rate=0.4)
            1 2 99 5 6 98 8   →   99 3 4 98 7 97

    The last sentinel of the target says that nothing is left. There are never more stretches than sentinels for them.

    Args:
        sentinels: ids of <extra_id_0>, <extra_id_1>, … · rate: of the tokens · mean: tokens of a stretch
    Returns: what is read, and what is to be said.
    Raises: ConfigError: fewer than two sentinels, or numbers out of range. DataError: fewer than two tokens.
    """
    if len(ids) < 2:
        raise DataError(
            f"a text of {len(ids)} tokens leaves nothing to read beside what is cut out; give at least 2"
        )
    if len(sentinels) < 2 or not 0 < rate < 1 or mean < 1:
        raise ConfigError(
            f"span corruption got {len(sentinels)} sentinels, rate {rate}, mean {mean}; it needs at least 2 sentinels, "
            "a rate between 0 and 1 and a mean of at least 1 token"
        )
    count = min(max(share(len(ids), rate, draw), 1), len(ids) - 1)
    spans = min(max(round(count / mean), 1), len(sentinels) - 1, len(ids) - count)
    cuts = (
        np.sort(draw.choice(count - 1, spans - 1, replace=False)) + 1
    )  # count = the sum of `spans` lengths ≥ 1
    lengths = np.diff(np.concatenate([[0], cuts, [count]]))
    read: list[Ids] = []
    said: list[Ids] = []
    rest = iter(sentinels)
    for kept, gone in _laid_out(len(ids), lengths, draw):
        read.append(ids[kept])
        sentinel = np.array([next(rest)])
        said.append(sentinel)
        if gone is not None:
            read.append(sentinel)
            said.append(ids[gone])
    return np.concatenate(read).astype(np.int64), np.concatenate(said).astype(np.int64)


def _laid_out(count: int, lengths: np.ndarray, draw: np.random.Generator) -> list[tuple[slice, slice | None]]:
    """Where stretches of these lengths lie in `count` tokens: what is kept before each, and the stretch; then the rest.

    No two stretches touch: each takes another of the gaps around the kept tokens, all gaps as likely.
    """
    kept = count - int(lengths.sum())
    lengths = lengths[: kept + 1]  # more gaps there are not
    gaps = np.sort(draw.choice(kept + 1, len(lengths), replace=False))
    found: list[tuple[slice, slice | None]] = []
    place = before = 0
    for gap, length in zip(gaps.tolist(), lengths.tolist(), strict=True):
        start = place + gap - before
        found.append((slice(place, start), slice(start, start + length)))
        place, before = start + length, gap
    return [*found, (slice(place, count), None)]


def rouge1(a: Ids, b: Ids) -> float:
    """F of ROUGE-1: the harmonic mean of the shares that two texts' tokens have in common."""
    common = (Counter(a.tolist()) & Counter(b.tolist())).total()
    return 2 * common / (len(a) + len(b)) if common else 0.0


def gap_sentences(sentences: Sequence[Ids], *, mask: int, rate: float = 0.3) -> tuple[Ids, Ids]:
    """The sentences that say most of the others, each replaced by one mask; they are the target, in their order.

        gap_sentences([[5, 6], [5, 6, 7, 8], [7, 9]], mask=0)        5 6 · 0 · 7 9   →   5 6 7 8

    Each is judged alone, by ROUGE-1 F against all the others together ("Ind-Orig", the paper's best). Nothing is drawn.
    Differs: the paper compares words; here they are tokens, which every script has.

    Args:
        rate: how many of the sentences are the target.
    Returns: what is read, and what is to be said.
    Raises: DataError: fewer than two sentences.
    """
    if len(sentences) < 2:
        raise DataError(
            f"a text of {len(sentences)} sentences leaves none to read beside the target; give at least 2"
        )
    count = min(max(round(len(sentences) * rate), 1), len(sentences) - 1)
    scores = [
        rouge1(sentence, np.concatenate([*sentences[:place], *sentences[place + 1 :]]))
        for place, sentence in enumerate(sentences)
    ]
    chosen = set(np.argsort(-np.array(scores), kind="stable")[:count].tolist())
    read = [np.array([mask]) if place in chosen else ids for place, ids in enumerate(sentences)]
    return (
        np.concatenate(read).astype(np.int64),
        np.concatenate([sentences[place] for place in sorted(chosen)]).astype(np.int64),
    )
