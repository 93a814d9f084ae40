"""What is kept stays within its limit, newest looks first, whoever asks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from glassformer.inspect.lru_cache import LRUCache, storage_bytes


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
