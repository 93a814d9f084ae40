"""Continuations after a prompt that texts share: the log-probabilities of whole passes, one text at a time."""

from __future__ import annotations

import pytest
import torch

from glassformer.core.flow import Batch, Flow
from glassformer.generation import continuations as module
from glassformer.generation.continuations import continuation_scores
from glassformer.models import Network
from tests.generation.test_rows import longrope_network, network_of

TEXTS = [[7, 2, 61, 30, 9], [], [5], [8, 8, 4]]
CONTINUATIONS = [[3], [6, 12], [3, 9, 40]]


def whole_scores(network: Network, prompt: list[int], text: list[int], continuation: list[int]) -> float:
    """By a pass over all tokens."""
    ids = [*prompt, *text, *continuation]
    with torch.inference_mode():
        logits = network(Batch(input_ids=torch.tensor([ids])), Flow()).logits
    assert logits is not None
    begin = len(ids) - len(continuation)
    logs = logits[0].float().log_softmax(-1)
    return sum(float(logs[begin + i - 1, token]) for i, token in enumerate(continuation))


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral", "gemma2", "gpt_neox", "phi3"])
@pytest.mark.parametrize("prompt", [[1, 17, 23, 40, 5], [1]])
def test_scores_are_those_of_whole_passes(family: str, prompt: list[int]) -> None:
    network = network_of(family)
    scores = continuation_scores(network, prompt, TEXTS, CONTINUATIONS)
    expected = [[whole_scores(network, prompt, text, x) for x in CONTINUATIONS] for text in TEXTS]
    torch.testing.assert_close(scores, torch.tensor(expected), atol=2e-5, rtol=1e-5)


def test_a_prompt_is_read_anew_where_a_longer_row_rotates_otherwise() -> None:
    network, texts = longrope_network(), [[7, 2, 61, 30, 9], [8, 8, 4, 5]]  # other angles from seven tokens on
    scores = continuation_scores(network, [1, 17, 23], texts, CONTINUATIONS)
    expected = [[whole_scores(network, [1, 17, 23], text, x) for x in CONTINUATIONS] for text in texts]
    torch.testing.assert_close(scores, torch.tensor(expected), atol=2e-5, rtol=1e-5)


def test_few_rows_at_a_time_are_the_same_and_the_prompt_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    network, read = network_of("llama"), list[int]()
    network.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].input_ids.numel()))
    prompt = list(range(10, 40))
    together = continuation_scores(network, prompt, TEXTS * 4, CONTINUATIONS)
    assert read[0] == 29 and max(read[1:]) <= 16 * 6
    monkeypatch.setattr(module, "ROWS", 3)
    torch.testing.assert_close(continuation_scores(network, prompt, TEXTS * 4, CONTINUATIONS), together)
    assert continuation_scores(network, prompt, [], CONTINUATIONS).shape == (0, 3)
