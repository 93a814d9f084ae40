"""Shuffling: which example is at which position, a pure function of (seed, epoch, position) without state.

    position ──┬─ L ──────────────┬─ R'        a round: (L, R) → (R, L ⊕ f(key, R)), on just enough bits for N;
               └─ R ── f(key, R) ─⊕─ L'        a result beyond N goes through again (cycle walking)

A shuffled epoch can be read from any position, by any number of processes, without a list of N numbers.

Source: Luby and Rackoff 1988, "How to construct pseudorandom permutations" (four rounds); cycle walking:
Black and Rogaway 2002, "Ciphers with arbitrary finite domains", section 3.
"""

from __future__ import annotations

import numpy as np

from glassformer.errors import ConfigError, DataError

ROUNDS = 6  # four make it pseudorandom; two more, for small halves mix less


class ShuffledOrder:
    """A pseudorandom permutation of 0 … count - 1 for each epoch (a Feistel network).

        ShuffledOrder(4, seed=1).at(epoch=0, positions=[0, 1, 2, 3])        each of the four once, the same every time

    Args:
        count: number of examples
        seed: of the permutations
        shuffled: False = the identity
    Raises: DataError: no example.
    """

    def __init__(self, count: int, *, seed: int, shuffled: bool = True) -> None:
        if count < 1:
            raise DataError("there is nothing to put in order: no example is left")
        self.count = count
        self.seed = seed
        self.shuffled = shuffled
        bits = max((count - 1).bit_length(), 2)
        self._half = (bits + 1) // 2
        self._mask = (1 << self._half) - 1

    def at(self, epoch: int, positions: np.ndarray | range | list[int]) -> np.ndarray:
        """The indices of the examples at these positions of an epoch. [n] int64"""
        requested = np.asarray(positions, dtype=np.int64)
        if requested.size and not 0 <= int(requested.min()) <= int(requested.max()) < self.count:
            raise DataError(f"positions go from 0 to {self.count - 1}; got {requested.min()} to {requested.max()}")
        if not self.shuffled:
            return requested
        keys = np.random.SeedSequence([self.seed, epoch]).generate_state(ROUNDS, np.uint64)
        permuted = self._feistel(requested.astype(np.uint64), keys)
        # The network permutes a power of two ≥ count; what falls outside goes through again (still a permutation).
        while (outside := permuted >= self.count).any():
            permuted[outside] = self._feistel(permuted[outside], keys)
        indices: np.ndarray = permuted.astype(np.int64)
        return indices

    def _feistel(self, numbers: np.ndarray, keys: np.ndarray) -> np.ndarray:
        mask = np.uint64(self._mask)
        left, right = numbers >> np.uint64(self._half), numbers & mask
        for key in keys:
            left, right = right, left ^ (_mix64(right ^ key) & mask)
        return (left << np.uint64(self._half)) | right


def _mix64(x: np.ndarray) -> np.ndarray:
    """Mix 64 bits. Source: Steele et al. 2014, "SplittableRandom", figure 16."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = x ^ (x >> np.uint64(31))
    return mixed


def example_generator(seed: int, epoch: int, index: int) -> np.random.Generator:
    """The random generator of one example in one epoch: independent streams that cost microseconds to make.

    Philox encrypts a counter with a key. The seed is the key; epoch and example are the upper half of the counter,
    and sampling advances the lower half: 2^128 blocks for each.

    Args:
        seed: 0 … 2^128 - 1
        epoch, index: 0 … 2^64 - 1
    Raises: ConfigError: a number out of range.

    Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
    """
    if not (0 <= seed < 1 << 128 and 0 <= epoch < 1 << 64 and 0 <= index < 1 << 64):
        raise ConfigError(
            f"seed, epoch and example are whole numbers from 0 on, of 128, 64 and 64 bits; got {seed}, {epoch}, {index}"
        )
    return np.random.Generator(np.random.Philox(key=seed, counter=epoch << 128 | index << 192))
