"""A prompt that is too long is cut where that is asked for, announced, and refused where it is not."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer import ConfigError, DataError, Model, load
from glassformer.generation.inputs import truncate
from tests.e2e.tiny_models import make_folder

SPECIAL = (0, 1)


def cut(rows: list[list[int]], room: int, side: str) -> list[list[int]]:
    """The rows without their padding, which is 9 and on the left."""
    width = max(map(len, rows))
    ids = torch.tensor([[9] * (width - len(row)) + row for row in rows])
    keep = torch.tensor([[False] * (width - len(row)) + [True] * len(row) for row in rows])[:, None]
    short, remaining = truncate(ids, keep, room, side=side, special=SPECIAL, pad_id=9)
    assert remaining is not None and (short[~remaining[:, 0]] == 9).all() and bool(remaining[..., -1].all())
    return [row[seen[0]].tolist() for row, seen in zip(short, remaining, strict=True)]


def test_what_is_kept() -> None:
    rows = [[0, 2, 3, 4, 5, 1], [2, 3], [2, 3, 4, 5, 6, 7, 8]]
    with pytest.warns(
        UserWarning, match="2 of 3 prompts, of up to 7 tokens, cut on the left to 4: up to 3 tokens"
    ):
        assert cut(rows, 4, "left") == [[0, 4, 5, 1], [2, 3], [5, 6, 7, 8]]
    with pytest.warns(UserWarning, match="cut on the right to 4"):
        assert cut(rows, 4, "right") == [[0, 2, 3, 1], [2, 3], [2, 3, 4, 5]]
    with pytest.warns(UserWarning):
        assert cut([[0, 1, 0, 1], [2, 3, 4, 0, 0]], 2, "left") == [[0, 1], [0, 0]]


def test_what_fits_is_left_alone() -> None:
    ids = torch.tensor([[2, 3, 4]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert truncate(ids, None, 3, side="left", special=SPECIAL, pad_id=0) == (ids, None)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    home = tmp_path_factory.mktemp("models")
    return {family: load(make_folder(home / family, family)) for family in ("gpt2", "bart", "t5")}


LONG = "time flies like an arrow . " * 30


def test_a_prompt_keeps_its_newest_tokens(models: dict[str, Model]) -> None:
    model = models["gpt2"]  # 16 positions, and the last new token needs none
    with pytest.raises(DataError, match=r"the model has 16 positions; shorten the prompt.*truncation=True"):
        model.generate(LONG, max_new_tokens=5)
    ids = torch.tensor([model.tokenizer(LONG).input_ids])
    with pytest.warns(UserWarning, match="cut on the left to 12"):
        result = model.generate(ids, max_new_tokens=5, truncation=True)
    assert result[:, :12].equal(ids[:, -12:])
    assert result.equal(model.generate(ids[:, -12:], max_new_tokens=5))
    with pytest.warns(UserWarning, match="cut on the left"):
        text = model.generate(LONG, max_new_tokens=5, truncation="left")
    assert text == model.tokenizer.decode(result[0, 12:], skip_special_tokens=True)
    with pytest.warns(UserWarning, match="cut on the left"):
        assert "".join(model.stream(LONG, max_new_tokens=5, truncation=True)) == text
    with pytest.warns(UserWarning, match="cut on the right"):
        assert model.generate(ids, max_new_tokens=5, truncation="right")[:, :12].equal(ids[:, :12])
    with pytest.raises(DataError, match="the model has 16 positions"):
        model.generate(LONG, max_new_tokens=17, truncation=True)


def test_more_than_a_model_was_made_for_is_said(tmp_path: Path) -> None:
    model = load(
        make_folder(tmp_path / "llama", "llama")
    )  # rotations go on for ever; its config names a context
    made_for = model.config["max_position_embeddings"]
    ids = torch.tensor([[3, 4] * (made_for // 2)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.generate(ids[:, 2:], max_new_tokens=2)
    with pytest.warns(
        UserWarning, match=rf"{made_for} tokens and 2 new ones are more than the {made_for} that"
    ):
        model.generate(ids, max_new_tokens=2)
    with pytest.warns(UserWarning, match="cut on the left"):
        model.generate(ids, max_new_tokens=2, truncation=True)


def test_rows_of_a_batch_are_cut_alone(models: dict[str, Model]) -> None:
    model = models["gpt2"]
    with pytest.warns(UserWarning, match="1 of 2 prompts"):
        together = model.generate([LONG, "time flies"], max_new_tokens=5, truncation=True)
    assert together[1] == model.generate("time flies", max_new_tokens=5)
    with pytest.warns(UserWarning):
        assert together[0] == model.generate(LONG, max_new_tokens=5, truncation=True)


def test_a_source_keeps_its_beginning(models: dict[str, Model]) -> None:
    model = models["bart"]  # 64 positions
    with pytest.raises(DataError, match="the model has 64 positions"):
        model.generate(LONG, max_new_tokens=5)
    read = model.tokenizer(LONG, truncation=True, max_length=64, return_tensors="pt")["input_ids"]
    for settings in ({}, {"num_beams": 3}):
        with pytest.warns(UserWarning, match="cut on the right to 64"):
            result = model.generate(LONG, max_new_tokens=5, truncation=True, **settings)
        cut = model.generate(read, max_new_tokens=5, **settings)[0, 1:]
        assert result == model.tokenizer.decode(cut, skip_special_tokens=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(models["t5"].generate(LONG, max_new_tokens=5, truncation=True), str), (
            "it has no end"
        )


def test_stories_keep_their_first_token(shared: Path) -> None:
    model = load(shared / "models" / "stories260k")
    long = "Once upon a time there was a dog. " * 60
    settings: dict[str, Any] = {"max_new_tokens": 20, "truncation": True, "return_scores": True}
    with pytest.warns(UserWarning, match="cut on the left to 493"):
        result = model.generate(long, **settings)
    ids = model.tokenizer(long).input_ids
    assert result.ids[0, :493].tolist() == [ids[0], *ids[-492:]]


def test_what_cannot_be_asked(models: dict[str, Model]) -> None:
    for wrong in ("both", 1, 0.5):
        with pytest.raises(ConfigError, match=r"truncation is .*; it must be True, False, 'left' or 'right'"):
            models["gpt2"].generate(LONG, truncation=wrong)
    with pytest.raises(ConfigError, match="max_length is 9 and counts the prompt"):
        models["gpt2"].generate(LONG, truncation=True, max_length=9)
    ids = torch.ones(2, 40, dtype=torch.long)
    mask = torch.ones_like(ids)
    with pytest.raises(ConfigError, match="attention_mask has shape"):
        models["gpt2"].generate(ids, attention_mask=mask[:, :3], truncation=True)
    mask[0, -1] = 0
    with pytest.raises(DataError, match="padded on the right"):
        models["gpt2"].generate(ids, attention_mask=mask, truncation=True)
