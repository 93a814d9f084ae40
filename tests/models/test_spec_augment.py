"""SpecAugment: spans of one length, within the sound, masking about the share asked for."""

from __future__ import annotations

from itertools import groupby

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import ConfigError
from glassformer.models._speech import SpansSpec, SpecAugment, SpecAugmentSpec, random_spans
from tests.core.small import examples

TIME = SpansSpec(share=0.3, length=4, minimum=1)
CHANNELS = SpansSpec(share=0.4, length=3)


def augment(time: SpansSpec | None = TIME, channels: SpansSpec | None = None) -> SpecAugment:
    part = SpecAugment(SpecAugmentSpec(width=8, time=time, channels=channels))
    torch.nn.init.constant_(part.vector, 9.0)
    return part


@examples(60)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    share=st.floats(0, 0.95),
    length=st.integers(1, 12),
    minimum=st.integers(0, 5),
    seed=st.integers(0, 99),
)
def test_stretches_lie_within_the_sound(lengths: list[int], share: float, length: int, minimum: int, seed: int) -> None:
    torch.manual_seed(seed)
    spec = SpansSpec(share=share, length=length, minimum=minimum)
    hidden = random_spans(lengths, 40, spec)
    assert hidden.shape == (len(lengths), 40) and hidden.dtype == torch.bool
    for row, end in zip(hidden.tolist(), lengths, strict=True):
        assert not any(row[end:]), "padding is hidden"
        runs = [len(list(run)) for value, run in groupby(row) if value]
        assert all(run >= length for run in runs), "a stretch is cut short"
        spans = max(int(share * end / length + 1), minimum)
        assert sum(row) <= spans * length
        if minimum and end >= length:
            assert runs, "less than the least"


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_as_much_is_masked_as_the_share_says_on_average(share: float) -> None:
    """Not counting that stretches overlap: so each is one place long here."""
    torch.manual_seed(0)
    spec = SpansSpec(share=share, length=1)
    masked_share = torch.cat([random_spans([30], 30, spec) for _ in range(2_000)]).float().mean()
    assert float(masked_share) == pytest.approx(share, abs=0.01)


def test_every_place_is_as_likely_to_begin_a_stretch() -> None:
    torch.manual_seed(0)
    hidden = torch.cat([random_spans([20], 20, SpansSpec(share=0.1, length=1)) for _ in range(4_000)])
    assert hidden.float().mean(0).sub(0.1).abs().max() < 0.03


def test_nothing_is_hidden_in_eval_mode() -> None:
    x = torch.randn(2, 20, 8)
    assert augment(TIME, CHANNELS).eval()(x) is x


def test_time_is_hidden_behind_the_vector_and_the_rest_untouched() -> None:
    torch.manual_seed(1)
    x = torch.randn(3, 30, 8)
    y = augment()(x)
    hidden = (y == 9.0).all(-1)
    assert hidden.any(1).all() and not hidden.all()
    assert torch.equal(y[~hidden], x[~hidden])


def test_padding_is_not_hidden() -> None:
    torch.manual_seed(1)
    keep = torch.arange(30)[None, None] < torch.tensor([30, 12, 3])[:, None, None]
    y = augment(SpansSpec(share=0.9, length=4))(torch.randn(3, 30, 8), keep)
    hidden = (y == 9.0).all(-1)
    assert hidden[0].any() and hidden[1].any()
    assert not (hidden & ~keep[:, 0]).any()
    assert not hidden[2].any(), "three frames have no room for a stretch of four"


def test_channels_are_0_at_all_times() -> None:
    torch.manual_seed(2)
    y = augment(None, CHANNELS)(torch.randn(3, 30, 8))
    silent = (y == 0).all(1)
    assert silent.any() and torch.equal(silent, (y == 0).any(1))


def test_the_same_seed_hides_the_same() -> None:
    x, part = torch.randn(2, 30, 8), augment(TIME, CHANNELS)
    torch.manual_seed(5)
    first = part(x)
    assert not torch.equal(part(x), first)
    torch.manual_seed(5)
    assert torch.equal(part(x), first)


def test_the_vector_learns_from_what_it_stands_for() -> None:
    torch.manual_seed(1)
    part, x = augment(), torch.randn(2, 30, 8, requires_grad=True)
    y = part(x)
    y.sum().backward()
    hidden = (y == 9.0).all(-1)
    assert part.vector.grad is not None and x.grad is not None
    assert part.vector.grad.tolist() == [int(hidden.sum())] * 8
    assert torch.equal(x.grad[..., 0] == 0, hidden)


def test_without_stretches_nothing_happens() -> None:
    x = torch.randn(2, 30, 8)
    assert augment(None, None)(x) is x


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"share": 1.0}, "share is 1.0"),
        ({"share": -0.1}, "share is -0.1"),
        ({"length": 0}, "length is 0"),
        ({"minimum": -1}, "minimum is -1"),
    ],
)
def test_mistakes_are_refused(wrong: dict[str, float], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        SpansSpec(**{"share": 0.1, "length": 3, **wrong})
