"""Each row ends for a reason of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import Model
from glassformer.generation.stopping import StoppingCriteria


@pytest.fixture(scope="module")
def stories(shared: Path) -> Model:
    return glassformer.load(shared / "models" / "stories260k")


def test_end_tokens() -> None:
    stop = StoppingCriteria(3, ids=(4, 5))
    assert stop(torch.tensor([1, 4, 2])) and stop.running.tolist() == [True, False, True]
    assert stop(torch.tensor([5, 1, 2])) and stop.running.tolist() == [False, False, True]
    assert stop.reasons() == ["end_token", "end_token", "max_new_tokens"]
    assert stop.reasons("interrupted")[2] == "interrupted"
    assert not stop(torch.tensor([0, 0, 4]))


def test_without_a_rule_all_go_on() -> None:
    stop = StoppingCriteria(2)
    assert stop(torch.tensor([0, 1])) and stop.running.all()


def test_time() -> None:
    assert StoppingCriteria(1, seconds=60)(torch.tensor([1]))
    over = StoppingCriteria(2, ids=(1,), seconds=1e-9)
    assert not over(torch.tensor([1, 2]))
    assert over.reasons() == ["end_token", "max_time"]


@pytest.mark.parametrize("string", ["girl", " gi", "little girl", "e g", "y."])
def test_a_string_ends_its_row_with_the_token_that_completes_it(stories: Model, string: str) -> None:
    free = stories.generate("Once upon a time", max_new_tokens=40)
    result = stories.generate("Once upon a time", max_new_tokens=40, stop_strings=string, return_scores=True)
    (text,) = result.texts
    assert string in free and free.startswith(text) and text.count(string) == 1
    assert string not in stories.tokenizer.decode(result.new_ids[0, :-1])
    assert result.reasons == ["stop_string"]


def test_a_row_that_ends_leaves_the_others(stories: Model) -> None:
    prompts = ["Once upon a time", "The dog was"]
    free = stories.generate(prompts, max_new_tokens=30)
    first = free[0].split()[-1]
    result = stories.generate(
        prompts, max_new_tokens=30, stop_strings=[first, "never said"], return_scores=True
    )
    assert first in result.texts[0]
    assert result.reasons[0] == "stop_string"
    if first not in free[1]:
        assert (result.texts[1], result.reasons[1]) == (free[1], "max_new_tokens")


def test_time_is_up_for_a_model(stories: Model) -> None:
    result = stories.generate("Once upon a time", max_new_tokens=400, max_time=1e-6, return_scores=True)
    assert result.reasons == ["max_time"] and result.new_ids.shape[1] == 1
