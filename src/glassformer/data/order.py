"""Which example stands at which place: a pure function of (seed, epoch, position), so that there is no state to lose.

    position ──┬─ L ──────────────┬─ R'        a round: (L, R) → (R, L ⊕ f(key, R)), on just enough bits for N;
               └─ R ── f(key, R) ─⊕─ L'        a place beyond N goes through again until it falls within

A shuffled epoch is read from any place on, by any number of processes, without a list of N numbers.

Source: Luby and Rackoff 1988, "How to construct pseudorandom permutations" (four rounds); walking until the number
falls within: Black and Rogaway 2002, "Ciphers with arbitrary finite domains", section 3.
"""

from __future__ import annotations

import numpy as np

from glassformer.errors import ConfigError, DataError

ROUNDS = 6  # four make it pseudorandom; two more, for small halves mix less


class Order:
    """A permutation of 0 … count - 1 for each epoch.

        Order(4, seed=1).at(epoch=0, positions=[0, 1, 2, 3])        each of the four once, always in this order

    Args:
        count: how many there are · seed: another gives other orders · shuffled: False = as they lie
    Raises: DataError: nothing to put in order.
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
        """Which examples stand at these positions of an epoch. [n] int64"""
        places = np.asarray(positions, dtype=np.int64)
        if places.size and not 0 <= int(places.min()) <= int(places.max()) < self.count:
            raise DataError(f"positions go from 0 to {self.count - 1}; got {places.min()} to {places.max()}")
        if not self.shuffled:
            return places
        keys = np.random.SeedSequence([self.seed, epoch]).generate_state(ROUNDS, np.uint64)
        found = self._mixed(places.astype(np.uint64), keys)
        while (outside := found >= self.count).any():
            found[outside] = self._mixed(found[outside], keys)
        ordered: np.ndarray = found.astype(np.int64)
        return ordered

    def _mixed(self, places: np.ndarray, keys: np.ndarray) -> np.ndarray:
        mask = np.uint64(self._mask)
        left, right = places >> np.uint64(self._half), places & mask
        for key in keys:
            left, right = right, left ^ (_hashed(right ^ key) & mask)
        return (left << np.uint64(self._half)) | right


def _hashed(x: np.ndarray) -> np.ndarray:
    """Each bit of the answer hangs on each bit of x. Source: Steele et al. 2014, "SplittableRandom", figure 16."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = x ^ (x >> np.uint64(31))
    return mixed


def generator(seed: int, epoch: int, index: int) -> np.random.Generator:
    """The generator of one example in one epoch; no two share a number drawn, and making one costs microseconds.

    Philox enciphers a counter with a key. The seed is the key; epoch and example are the upper half of the counter,
    of which drawing counts the lower half: 2^128 blocks to each.

    Args:
        seed: 0 … 2^128 - 1 · epoch, index: 0 … 2^64 - 1
    Raises: ConfigError: a number out of range.

    Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
    """
    if not (0 <= seed < 1 << 128 and 0 <= epoch < 1 << 64 and 0 <= index < 1 << 64):
        raise ConfigError(
            f"seed, epoch and example are whole numbers from 0 on, of 128, 64 and 64 bits; got {seed}, {epoch}, {index}"
        )
    return np.random.Generator(np.random.Philox(key=seed, counter=epoch << 128 | index << 192))
