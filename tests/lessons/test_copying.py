"""The encoder-decoder learns to copy, to the last symbol and no further."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pytest
import torch

from glassformer.errors import ConfigError
from glassformer.lessons import copying
from glassformer.lessons.copying import (
    END,
    MAX_SYMBOLS,
    PAD,
    accuracy,
    held_out_sequences,
    learning_rate_factor,
    random_sequences,
    sequence_codes,
    train_copying,
    training_batches,
)
from glassformer.model import Model


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_sequences_have_one_to_ten_symbols_and_an_end() -> None:
    rows = random_sequences(5000, generator())
    assert rows.shape == (5000, MAX_SYMBOLS + 1)
    assert int(rows.min()) == PAD and int(rows.max()) == 10
    assert bool(((rows == END).sum(-1) == 1).all())
    position = (rows == END).int().argmax(-1)
    assert set(position.tolist()) == set(range(1, 11))
    after = torch.arange(MAX_SYMBOLS + 1) > position[:, None]
    assert bool((rows[after] == PAD).all()) and bool((rows[~after] != PAD).all())


def test_unseen_sequences_are_different_and_of_every_length() -> None:
    rows = held_out_sequences(1000, generator(3))
    assert rows.shape == (1000, 11)
    assert len(set(map(tuple, rows.tolist()))) == 1000
    lengths = Counter((rows >= 3).sum(-1).tolist())
    assert sorted(lengths) == list(range(1, 11))
    assert lengths[1] <= 2 and lengths[2] <= 16  # most of the few short ones stay in training


def test_unseen_sequences_never_appear_in_the_stream() -> None:
    rows = held_out_sequences(1000, generator())
    held_out = set(map(tuple, rows.tolist()))
    streamed = [
        row for batch in islice(training_batches(256, rows, generator(1)), 40) for row in map(tuple, batch.tolist())
    ]
    assert len(streamed) > 9000
    assert not held_out & set(streamed)
    sampled = {tuple(row) for row in random_sequences(10_000, generator(1)).tolist()}
    assert held_out & sampled  # it had something to leave out


def test_numbers_tell_rows_apart() -> None:
    rows = random_sequences(3000, generator())
    assert len(set(sequence_codes(rows).tolist())) == len(set(map(tuple, rows.tolist())))


def test_the_learning_rate_goes_up_then_down() -> None:
    factors = [learning_rate_factor(step, 80) for step in range(80)]
    assert factors[0] == pytest.approx(0.1) and factors[9] == 1.0
    assert factors == sorted(factors[:10]) + sorted(factors[10:], reverse=True)
    assert 0 < factors[-1] < 0.05
    assert learning_rate_factor(0, 1) == 1.0
    assert learning_rate_factor(0, 80, share=0) == 1.0


def test_no_steps_is_an_error() -> None:
    with pytest.raises(ConfigError, match="steps is 0"):
        train_copying(steps=0)
    with pytest.raises(ConfigError, match="warm_up_share is 2"):
        train_copying(warm_up_share=2)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Many small products are faster alone."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_it_begins_to_learn(one_thread: None) -> None:
    losses = train_copying(seed=0, steps=40, tests=10).losses
    assert sum(losses[-5:]) < 0.85 * sum(losses[:5])


# 400 steps are just enough for this seed; the default, 800, leaves room for others.
@pytest.mark.soak  # half a minute
@pytest.mark.parametrize("steps", [500, 800])
def test_it_learns_to_copy(one_thread: None, steps: int) -> None:
    result = train_copying(seed=0, steps=steps)
    assert result.accuracy == 1.0
    rows = held_out_sequences(1000, generator(0))
    written = copying.greedy_copies(result.model, rows)
    assert written.tolist() == rows.tolist()  # the end, and the padding after it, in the right place too


@pytest.mark.soak  # three trainings, most of a minute
def test_deep_post_norm_needs_warm_up_and_pre_norm_does_not(one_thread: None) -> None:
    def last_loss(**options: float | bool) -> float:
        run = train_copying(seed=0, steps=120, layers=6, learning_rate=3e-3, tests=10, **options)  # type: ignore[arg-type]
        return sum(run.losses[-10:]) / 10

    stuck = last_loss(norm_first=False, warm_up_share=0)
    assert stuck > 1.7  # hardly more is known than which ids are in use: ln 9 = 2.2
    assert last_loss(norm_first=False, warm_up_share=0.5) < 1.5
    assert last_loss(norm_first=True, warm_up_share=0) < 1.1


def test_an_untrained_model_copies_nothing() -> None:
    torch.manual_seed(0)
    model = Model.from_config(copying.CONFIG)
    assert accuracy(model, held_out_sequences(100, generator())) < 0.05


def test_accuracy_counts_a_copy_that_goes_on_or_stops_early_as_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.tensor([[5, 6, END, PAD], [5, 6, END, PAD], [5, 6, 7, END]])
    model = Model.from_config(copying.CONFIG)
    written = torch.tensor([[5, 6, END], [5, 6, 7], [5, 6, END]])
    monkeypatch.setattr(copying, "greedy_copies", lambda model, rows: written)
    assert accuracy(model, rows) == pytest.approx(1 / 3)


def test_it_prints_its_progress(
    one_thread: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["copying", "--seed", "1", "--steps", "5"])
    copying.main()
    printed = capsys.readouterr().out
    assert "step     5/5" in printed and "seed 1:" in printed
