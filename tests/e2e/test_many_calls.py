"""Calls made two thousand times, and calls out of an event loop: no memory that grows, and the numbers of one call."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from tests.e2e.tiny_models import make_folder
from tests.peak import held_bytes, measured

CALLS, WARM = 2_000, 400
GROWTH_BYTES = 4_000_000
"""2 kB a call: what a call that keeps one tensor, session or cache of a tiny model would go beyond."""
TEXT = "time flies like an arrow"


def encoding(folder: Path) -> Callable[[int], Any]:
    model = glassformer.load(make_folder(folder, "bert", task="feature-extraction"))
    return lambda number: model.encode([f"{TEXT} {number}"])


def calling(folder: Path) -> Callable[[int], Any]:
    model = glassformer.load(make_folder(folder, "gpt2"))
    ids = torch.arange(5, 12)[None]
    return lambda number: model(ids, use_cache=True).logits.sum()


def generating(folder: Path) -> Callable[[int], Any]:
    model = glassformer.load(make_folder(folder, "gpt2"))
    return lambda number: model.generate(TEXT, max_new_tokens=2, do_sample=True, seed=number)


def classifying(folder: Path) -> Callable[[int], Any]:
    classify = glassformer.pipeline("classify", make_folder(folder, "bert", task="text-classification"))
    return lambda number: classify(f"{TEXT} {number}")


def looking(folder: Path) -> Callable[[int], Any]:
    model = glassformer.load(make_folder(folder, "bert", task="feature-extraction"))
    return lambda number: model.inspect(f"{TEXT} {number}").head(0, 0).probs()


def failing(folder: Path) -> Callable[[int], Any]:
    model = glassformer.load(make_folder(folder, "gpt2"))

    def call(number: int) -> None:
        with pytest.raises(glassformer.DataError):
            model.generate([TEXT, None], max_new_tokens=2)

    return call


def growth(job: Callable[[Path], Callable[[int], Any]], folder: Path) -> int:
    """Bytes that the process holds more after all calls than after the first of them."""
    call = job(folder)
    for number in range(CALLS):
        if number == WARM:
            gc.collect()
            before = held_bytes("VmRSS")
        call(number)
    gc.collect()
    return held_bytes("VmRSS") - before


def keeping(folder: Path) -> Callable[[int], Any]:
    kept = []
    return lambda number: kept.append(np.zeros(500))  # 4 kB


@pytest.mark.representative("calling", "failing")
@pytest.mark.parametrize("job", [encoding, calling, generating, classifying, looking, failing])
def test_no_memory_grows_over_two_thousand_calls(job: Callable[[Path], Callable[[int], Any]], tmp_path: Path) -> None:
    assert measured(growth, job, tmp_path)[0] < GROWTH_BYTES


def test_a_call_that_keeps_a_little_is_seen(tmp_path: Path) -> None:
    assert measured(growth, keeping, tmp_path)[0] > GROWTH_BYTES


def test_calls_out_of_an_event_loop(tmp_path: Path) -> None:
    """As in a notebook or a server: plain calls while a loop runs, and many at once in its threads."""
    encoder = glassformer.load(make_folder(tmp_path / "encoder", "bert", task="feature-extraction"))
    decoder = glassformer.load(make_folder(tmp_path / "decoder", "gpt2"))
    texts = [f"{TEXT} {word}" for word in ("a", "fruit", "banana", "time", "an", "like")]

    def write(text: str) -> str:
        return "".join(decoder.stream(text, max_new_tokens=4))

    vectors, written = [encoder.encode(text) for text in texts], [write(text) for text in texts]

    async def all_of_them() -> tuple[list[Any], ...]:
        plain = [encoder.encode(text) for text in texts], [write(text) for text in texts]
        together = await asyncio.gather(
            *(asyncio.to_thread(encoder.encode, text) for text in texts),
            *(asyncio.to_thread(write, text) for text in texts),
        )
        return *plain, list(together)

    plain_vectors, plain_written, together = asyncio.run(all_of_them())
    np.testing.assert_allclose(plain_vectors, vectors, atol=1e-6)
    np.testing.assert_allclose(together[: len(texts)], vectors, atol=1e-6)
    assert plain_written == together[len(texts) :] == written


def test_a_task_that_is_cancelled_leaves_the_model_usable(tmp_path: Path) -> None:
    decoder = glassformer.load(make_folder(tmp_path, "gpt2"))
    expected = decoder.generate(TEXT, max_new_tokens=4)

    async def stopped() -> None:
        task = asyncio.create_task(asyncio.to_thread(decoder.generate, TEXT, max_new_tokens=4))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stopped())
    assert decoder.generate(TEXT, max_new_tokens=4) == expected
