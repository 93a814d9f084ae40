"""The log-probability of texts that are there, token by token."""

from __future__ import annotations

import pytest
import torch

from glassformer import ConfigError, Model
from glassformer.core.flow import Batch, Flow
from glassformer.generation.log_probs import sequence_log_probs
from glassformer.models import FAMILIES, Network

IDS = torch.tensor([[5, 17, 3, 9, 9, 4], [8, 8, 40, 21, 9, 30]])


def network_of(family: str, task: str = "text-generation") -> Network:
    torch.manual_seed(4)
    network = Model.from_config(FAMILIES[family].tiny, task=task).eval().network
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return network


@pytest.mark.parametrize("start", [1, 3, 5])
@torch.no_grad()
def test_each_token_by_those_before_it(start: int) -> None:
    network = network_of("llama")
    message = sequence_log_probs(network, IDS, start)
    assert message.shape == (2, 6 - start)
    for t in range(start, 6):
        logits = network(Batch(input_ids=IDS[:, :t]), Flow()).logits[:, -1]
        expected = logits.softmax(-1)[torch.arange(2), IDS[:, t]].log()
        torch.testing.assert_close(message[:, t - start], expected, atol=1e-5, rtol=1e-5)


def test_padding_changes_nothing() -> None:
    network = network_of("gpt2")
    padded = torch.cat([torch.zeros(2, 3, dtype=torch.long), IDS], dim=1)
    keep = torch.tensor([[False] * 3 + [True] * 6] * 2)
    result = sequence_log_probs(network, padded, 4, keep=keep)
    torch.testing.assert_close(result, sequence_log_probs(network, IDS), atol=1e-5, rtol=1e-5)


def test_an_answer_is_judged_by_what_was_read() -> None:
    network = network_of("t5", "translation")
    read = Batch(input_ids=IDS)
    keep = torch.tensor([[[True] * 4 + [False] * 2]] * 2)
    result = sequence_log_probs(network, IDS, encoder_batch=read, encoder_keep=keep)
    short = sequence_log_probs(network, IDS, encoder_batch=Batch(input_ids=IDS[:, :4]))
    torch.testing.assert_close(result, short, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(result, sequence_log_probs(network, IDS, encoder_batch=read))


def test_nothing_counts_behind_the_end() -> None:
    network = network_of("gpt2")
    free, message = sequence_log_probs(network, IDS), sequence_log_probs(network, IDS, stop_ids=(9, 40))
    assert message[0].tolist() == [*free[0, :3].tolist(), 0.0, 0.0]
    assert message[1].tolist() == [*free[1, :2].tolist(), 0.0, 0.0, 0.0]


def test_bfloat16_is_summed_in_fp32() -> None:
    assert sequence_log_probs(network_of("gpt2").bfloat16(), IDS).dtype == torch.float32


@pytest.mark.parametrize("start", [0, 6, -1])
def test_a_start_out_of_range(start: int) -> None:
    with pytest.raises(
        ConfigError, match=f"start is {start}, the rows have 6 tokens; it must be from 1 to 5"
    ):
        sequence_log_probs(network_of("gpt2"), IDS, start)
