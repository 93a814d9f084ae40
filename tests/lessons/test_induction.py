"""The heads that the literature describes are there, in the decoder that is carried along and in one trained anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import glassformer
from glassformer.errors import ConfigError
from glassformer.lessons import induction
from glassformer.lessons.induction import (
    CHECKPOINT,
    CLEAN,
    LONGEST,
    OTHER,
    SHORTEST,
    TARGET,
    UNMATCHED,
    composition,
    copying_accuracy,
    head_scores,
    repeated_sequences,
    train_induction,
)
from glassformer.lessons.small_decoder import IGNORED
from glassformer.model import Model

ROWS, LABELS = repeated_sequences(128, torch.Generator().manual_seed(11))


@pytest.fixture(scope="module")
def model() -> Model:
    return glassformer.load(CHECKPOINT)


def test_rows_repeat_and_only_what_repeats_is_learnt() -> None:
    for ids, labels in zip(ROWS.tolist(), LABELS.tolist(), strict=True):
        period = next(at for at in range(1, len(ids)) if ids[at:] == ids[:-at])
        assert SHORTEST <= period <= LONGEST and len(set(ids[:period])) == period
        assert labels == [IGNORED] * (period + 1) + ids[period + 1 :]


def test_it_has_previous_token_heads_and_induction_heads_above_them(model: Model) -> None:
    previous, matching = head_scores(model, ROWS)
    assert previous.shape == matching.shape == (2, 2)
    assert float(previous[0].min()) > 0.5 > 3 * float(previous[1].max())
    assert float(matching[1].min()) > 0.95 and float(matching[0].max()) < 0.1


def test_scores_are_those_of_sessions(model: Model) -> None:
    session = model.inspect("k d x b q m k d x b")
    ids: Any = session.batch.input_ids
    previous, matching = head_scores(model, ids)
    probs = session.head(1, 0).probs()
    assert float(previous[1, 0]) == pytest.approx(float(probs.diagonal(-1).mean()), abs=1e-6)
    # k d x b repeat from position 6 on: what stands after their first occurrence
    assert float(matching[1, 0]) == pytest.approx(float(sum(probs[q, q - 5] for q in range(6, 10)) / 4), abs=1e-6)


def test_without_them_nothing_is_copied(model: Model) -> None:
    assert copying_accuracy(model, ROWS, LABELS) > 0.99
    for layer in (0, 1):
        assert copying_accuracy(model, ROWS, LABELS, [(layer, 0), (layer, 1)]) < 0.15
        for head in (0, 1):  # of the two in a layer one is enough: they are each other's backup
            assert copying_accuracy(model, ROWS, LABELS, [(layer, head)]) > 0.85


def test_the_path_goes_from_the_word_to_the_one_after_it_and_to_the_end(model: Model) -> None:
    clean, corrupt = model.inspect(CLEAN), model.inspect(UNMATCHED)
    assert clean.patch("blocks.0.ffn.out").patching.base.softmax(-1).max() > 0.99
    assert corrupt.patch("blocks.0.ffn.out", target=TARGET, metric="probability").before < 0.01
    sweep = corrupt.sweep("residual", source=clean, target=TARGET, metric="logit")
    b, q, end = 4, 5, 13
    for row, position in enumerate((b, q, end)):
        line = sweep.effects[row]
        assert float(line[position]) == pytest.approx(1.0, abs=0.1)
        assert float(line.abs().sum() - line[position].abs()) < 0.2
    keys, values = composition(corrupt, clean), composition(model.inspect(OTHER), clean)
    assert keys["k"] > 0.9 and abs(keys["q"]) < 0.05 and abs(keys["v"]) < 0.05
    assert values["v"] > 0.9 and abs(values["q"]) < 0.05 and abs(values["k"]) < 0.05


@pytest.mark.soak
def test_another_one_trained_anew_has_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_num_threads(1)
    result = train_induction(3)
    assert copying_accuracy(result.model, ROWS, LABELS) > 0.98
    _, matching = head_scores(result.model, ROWS)
    assert float(matching[1].max()) > 0.7 > float(matching[0].max())
    induction.tell(result.model)
    assert "prefix matching" in capsys.readouterr().out


def test_training_begins_and_tells(model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    result = train_induction(steps=4, report=True)
    assert len(result.losses) == 4 and not result.model.training
    induction.tell(model)
    shown = capsys.readouterr().out
    assert "step     4/4" in shown and "copied without it" in shown
    with pytest.raises(ConfigError, match="steps is 0"):
        train_induction(steps=0)
