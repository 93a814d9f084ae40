"""What could follow a node, as a frame: from it temperature, top-k and top-p come out as the filters make them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.errors import DataError
from glassformer.explorer.binary_frames import BinaryFrame, decode
from glassformer.explorer.views import BINS, MAX_SPELLED_TOKENS, distribution, logprob_histogram
from glassformer.generation import filters
from glassformer.inspect.token_tree import TokenDistribution

V = 5_000


class Known:
    """A writing of which only one distribution is known."""

    def __init__(self, logits: Tensor, ruled: Tensor | None = None) -> None:
        model = logits.log_softmax(-1)
        self.known = TokenDistribution(model, model if ruled is None else ruled - logits.logsumexp(-1), model)
        self.tree = self

    def distribution(self, node: int) -> TokenDistribution:
        return self.known

    def options_at(self, node: int) -> Any:
        return type("Asked", (), dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "typical_p")))

    def spelling(self, node: int, token: int) -> tuple[str, str]:
        return f" {token}", f"▁{token}"


def frame_of(writing: Any, **request: Any) -> BinaryFrame:
    return decode(distribution(writing, w="w", node=0, **request))


def shaped(frame: BinaryFrame, temperature: float, k: int | None, p: float | None) -> Tensor:
    """As the page does it, with nothing but what the frame holds. [V]"""
    values = torch.from_numpy(frame.arrays.get("ruled", frame.arrays["logprobs"]).copy()) / temperature
    if k is not None:
        values[values < values.sort(descending=True).values[k - 1]] = -torch.inf
    if p is not None:
        rising, order = values.sort(stable=True)
        out = rising.softmax(-1).cumsum(-1) <= 1 - p
        out[-1] = False
        values[order[out]] = -torch.inf
    result = torch.empty(len(values))
    result[torch.from_numpy(frame.arrays["ids"].astype("int64"))] = values.softmax(-1)
    return result


@pytest.mark.parametrize(
    ("temperature", "k", "p"), [(1.0, None, None), (0.5, 40, 0.9), (1.7, None, 0.95), (2.0, 7, None)]
)
@pytest.mark.parametrize("ruled", [False, True])
def test_sliders_come_out_as_the_filters(temperature: float, k: int | None, p: float | None, ruled: bool) -> None:
    logits = 3 * torch.randn(V, generator=torch.Generator().manual_seed(0))
    rules = [filters.suppress([5, 6]), filters.repetition_penalty(1.4)] if ruled else []
    ids, changed = torch.tensor([[1, 2, 3]]), logits[None]
    for change in rules:
        changed = change(ids, changed)
    frame = frame_of(Known(logits, changed[0] if ruled else None))
    expected = filters.temperature(temperature)(ids, changed)
    expected = expected if k is None else filters.top_k(k)(ids, expected)
    expected = expected if p is None else filters.top_p(p)(ids, expected)
    result = shaped(frame, temperature, k, p)
    assert torch.equal(result > 0, expected[0] > -torch.inf)
    assert torch.allclose(result, expected[0].softmax(-1), atol=1e-6)


def test_equals_are_in_the_order_of_ids() -> None:
    frame = frame_of(Known(torch.zeros(300)))
    assert frame.arrays["ids"].tolist() == list(range(300))
    assert len(frame.fields["tokens"]) == MAX_SPELLED_TOKENS and frame.fields["tokens"][3] == [" 3", "▁3"]


@pytest.mark.parametrize("temperature", [0.5, 0.8, 1.0, 1.5, 3.0])
def test_bins_stand_for_what_is_not_listed(temperature: float) -> None:
    logits = 3 * torch.randn(V, generator=torch.Generator().manual_seed(1))
    frame = frame_of(Known(logits), count=256)
    rest = logits.log_softmax(-1).sort(descending=True).values[256:].double()
    expected = float((rest / temperature).exp().sum())
    values, counts = (frame.arrays[f"rest_{name}"].astype(float) for name in ("logprobs", "counts"))
    result = float((torch.tensor(values / temperature).exp() * torch.tensor(counts)).sum())
    assert result == pytest.approx(expected, rel=1e-4 if temperature == 1 else 0.01)
    assert counts.sum() == V - 256 and len(values) <= BINS


def test_what_is_banned_is_in_no_bin() -> None:
    logits = torch.randn(100, generator=torch.Generator().manual_seed(1))
    changed = filters.suppress([3, 4, 5])(torch.tensor([[0]]), logits[None])[0]
    frame = frame_of(Known(logits, changed), count=10)
    listed = [token for token in (3, 4, 5) if token in frame.arrays["ids"]]
    assert int(frame.arrays["rest_counts"].sum()) == 90 - (3 - len(listed))
    whole = frame_of(Known(logits, changed))
    assert {int(i) for i, x in zip(whole.arrays["ids"], whole.arrays["ruled"], strict=True) if x < -1e9} == {
        3,
        4,
        5,
    }


def test_bins_of_little() -> None:
    none, counts = logprob_histogram(torch.tensor([-torch.inf]))
    assert (len(none), len(counts)) == (0, 0)
    values, counts = logprob_histogram(torch.full((7,), -3.0))
    assert values.tolist() == pytest.approx([-3.0]) and counts.tolist() == [7]


def test_double_precision_stays() -> None:
    frame = frame_of(Known(torch.randn(20, dtype=torch.float64)))
    assert frame.arrays["logprobs"].dtype == "float64"


def test_a_count_that_is_none() -> None:
    with pytest.raises(DataError, match="count is 0"):
        frame_of(Known(torch.zeros(9)), count=0)
    assert len(frame_of(Known(torch.zeros(9)), count=50).arrays["ids"]) == 9
