"""CTC decoding: greedy, prefix beam search with a language model of words, and forced alignment.

A frame predicts a letter or the blank; a text has many paths, H H _ E L _ L O and _ H E E L _ L O, whose
probabilities are summed. Repeats count once unless a blank is between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import ConfigError
from glassformer.ngram.model import NgramState
from glassformer.speech.word_fusion import FusedWords

PRUNED = -9.0
"""Letters whose log-probability in a frame is lower are not tried there, but for the likeliest one."""

LogProbs = NDArray[np.float64]


def greedy_letters(log_probs: LogProbs, blank: int) -> tuple[list[int], float]:
    """The likeliest path: repeats to one, blanks out; and its log-probability. [frames, V]"""
    best = log_probs.argmax(-1)
    changes = np.flatnonzero(np.diff(best, prepend=-1))
    return [int(letter) for letter in best[changes] if letter != blank], float(log_probs.max(-1).sum())


class _Beam(NamedTuple):
    """A prefix of letters.

    ended, going: log-probability of its paths that end with a blank, and with its last letter
    fused: sum of what its complete words add
    state: of the language model after them
    word: the letters since
    """

    ended: float
    going: float
    fused: float
    state: NgramState | None
    word: str

    @property
    def acoustic(self) -> float:
        return float(np.logaddexp(self.ended, self.going))


_Front = dict[tuple[int, ...], _Beam]


def prefix_beam_search(
    log_probs: LogProbs,
    *,
    beams: int,
    blank: int,
    delimiter: int,
    pieces: Sequence[str],
    words: FusedWords,
) -> list[tuple[list[int], float]]:
    """The likeliest texts, by the sum over their paths, with fusion: the n best, the best first.

    Args:
        log_probs: natural, of each letter in each frame. [frames, V]
        beams: how many prefixes go on
        blank, delimiter: ids of the blank and of the letter between words (-1 = none)
        pieces: letters by id
    Returns: of each text its ids without blanks, and their score; at most `beams`.
    Source: Hannun et al. 2014, algorithm 1.
    """
    if beams < 1:
        raise ConfigError(f"beams is {beams}; it must be a whole number from 1 up")
    front: _Front = {(): _Beam(0.0, -math.inf, 0.0, words.start(), "")}
    for frame in log_probs:
        likely = {int(letter) for letter in np.flatnonzero(frame > PRUNED)} | {int(frame.argmax())}
        step: _Front = {}
        for prefix, beam in front.items():
            for letter in likely:
                score = float(frame[letter])
                if letter == blank:
                    _add(step, prefix, beam, beam.acoustic + score, -math.inf)
                    continue
                before = beam.acoustic
                if prefix and letter == prefix[-1]:  # without a blank between them, the two are one
                    _add(step, prefix, beam, -math.inf, beam.going + score)
                    before = beam.ended
                if before > -math.inf:
                    longer = _longer(beam, letter, delimiter, pieces, words)
                    _add(step, (*prefix, letter), longer, -math.inf, before + score)
        ranked = sorted(step.items(), key=lambda item: -(item[1].acoustic + item[1].fused))
        front = dict(ranked[:beams])

    def total(beam: _Beam) -> float:
        return beam.acoustic + beam.fused + words.add(beam.state, beam.word)[0]

    texts = [(list(prefix), total(beam)) for prefix, beam in front.items()]
    return sorted(texts, key=lambda each: -each[1])


def _add(front: _Front, prefix: tuple[int, ...], like: _Beam, ended: float, going: float) -> None:
    """Add paths to a prefix, which others may have reached before."""
    if (old := front.get(prefix)) is not None:
        ended, going = float(np.logaddexp(old.ended, ended)), float(np.logaddexp(old.going, going))
    front[prefix] = like._replace(ended=ended, going=going)


def _longer(beam: _Beam, letter: int, delimiter: int, pieces: Sequence[str], words: FusedWords) -> _Beam:
    """A beam with one more letter; the delimiter completes a word."""
    if letter != delimiter:
        return beam._replace(word=beam.word + pieces[letter])
    added, state = words.add(beam.state, beam.word)
    return beam._replace(fused=beam.fused + added, state=state, word="")


def force_align(log_probs: LogProbs, letters: Sequence[int], blank: int) -> list[tuple[int, int]]:
    """Forced alignment: the frames [first, end) of each letter on the likeliest path that spells them.

        states   _ H _ E _ L _ L _ O _       a path stays, goes one state on, or leaves out a blank between two
                                             different letters

    Source: Graves et al. 2006, section 4.1, with the maximum in the place of the sum.
    """
    if not letters:
        return []
    states = np.full(2 * len(letters) + 1, blank)
    states[1::2] = letters
    frames, count = len(log_probs), len(states)
    skips = np.zeros(count, bool)
    skips[3::2] = states[3::2] != states[1:-2:2]
    total = np.full(count, -math.inf)
    total[:2] = log_probs[0, states[:2]]
    moves = np.zeros((frames, count), np.int8)
    for t in range(1, frames):
        one = np.concatenate([[-math.inf], total[:-1]])
        two = np.where(skips, np.concatenate([[-math.inf, -math.inf], total[:-2]]), -math.inf)
        choices = np.stack([total, one, two])
        moves[t] = choices.argmax(0)
        total = choices.max(0) + log_probs[t, states]
    at = count - 1 if total[-1] >= total[-2] else count - 2
    spans = [[frames, 0] for _ in letters]
    for t in range(frames - 1, -1, -1):
        if at % 2:
            span = spans[at // 2]
            span[0], span[1] = min(span[0], t), max(span[1], t + 1)
        at -= int(moves[t, at])
    return [(min(first, frames - 1), max(end, min(first, frames - 1) + 1)) for first, end in spans]
