"""A row's state is what its own tokens made of it, whatever became of the rows beside it."""

from __future__ import annotations

import torch

from glassformer.generation.prefix_states import STEPS_BACK, PrefixStates


def test_states_follow_their_rows() -> None:
    steps = []

    def step(state: str, token: int) -> str:
        steps.append(token)
        return f"{state}{token}"

    states = PrefixStates("", step, prompt_length=1)
    assert states(torch.tensor([[7], [8]])) == ["", ""] and steps == []
    assert states(torch.tensor([[7, 1], [8, 1], [7, 2]])) == ["1", "1", "2"] and steps == [1, 2]
    steps.clear()
    assert states(torch.tensor([[7, 2, 5], [7, 1, 5], [7, 2, 5]])) == ["25", "15", "25"] and steps == [5, 5]
    steps.clear()
    assert states(torch.tensor([[7, 2, 5], [7, 1, 5], [7, 2, 5]])) == ["25", "15", "25"] and steps == []
    assert states(torch.tensor([[7, 1]])) == ["1"] and steps == [], "a step back"
    assert states(torch.tensor([[7, 9, 8, 6]])) == ["986"] and steps == [9, 8, 6], "never seen before"


def test_old_states_are_forgotten_and_found_again() -> None:
    states = PrefixStates(0, lambda state, token: state + token, prompt_length=0)
    for length in range(100):
        assert states(torch.ones(2, length, dtype=torch.long)) == [length, length]
    assert len(states._states) <= STEPS_BACK + 2
    assert states(torch.ones(1, 3, dtype=torch.long)) == [3]
