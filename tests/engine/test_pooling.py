"""What a folder says about pooling, and what each pooling computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.engine.pooling import POOLINGS, PoolingSettings, read_pooling_settings
from glassformer.errors import ConfigError, UnsupportedError

TRANSFORMER = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
POOLING = {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}
NORMALIZE = {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}


def folder_of(
    folder: Path, modules: Any, pooling: dict[str, Any] | None = None, own: dict[str, Any] | None = None
) -> Path:
    (folder / "modules.json").write_text(json.dumps(modules))
    if pooling is not None:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    if own is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps(own))
    return folder


def test_a_folder_that_says_nothing_gets_the_mean(tmp_path: Path) -> None:
    assert read_pooling_settings(None) == read_pooling_settings(tmp_path) == PoolingSettings()


def test_all_steps(tmp_path: Path) -> None:
    flags = {"word_embedding_dimension": 8, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    own = {"max_seq_length": 256, "do_lower_case": True}
    settings = read_pooling_settings(folder_of(tmp_path, [TRANSFORMER, POOLING, NORMALIZE], flags, own))
    assert settings == PoolingSettings(poolings=("cls",), normalise=True, max_tokens=256, lower_case=True)


def test_several_poolings_stand_side_by_side(tmp_path: Path) -> None:
    flags = {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}
    settings = read_pooling_settings(folder_of(tmp_path, [TRANSFORMER, POOLING], flags))
    states = torch.randn(3, 5, 8)
    assert set(settings.poolings) == {"mean", "max"} and settings.pool(states).shape == (3, 16)


def test_the_new_spelling(tmp_path: Path) -> None:
    assert read_pooling_settings(folder_of(tmp_path, [POOLING], {"pooling_mode": "lasttoken"})).poolings == (
        "lasttoken",
    )


def test_what_each_pooling_computes() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    expected = {
        "cls": x[:, 0],
        "lasttoken": x[:, 2],
        "max": x[:, 2],
        "mean": (x[:, 0] + x[:, 1] + x[:, 2]) / 3,
        "mean_sqrt_len_tokens": (x[:, 0] + x[:, 1] + x[:, 2]) / 3**0.5,
        "weightedmean": (x[:, 0] + 2 * x[:, 1] + 3 * x[:, 2]) / 6,
    }
    assert set(expected) == set(POOLINGS)
    for name, pool in POOLINGS.items():
        torch.testing.assert_close(pool(x), expected[name])


def test_normalised_vectors_have_length_one() -> None:
    pooled = PoolingSettings(normalise=True).pool(torch.randn(4, 3, 8))
    torch.testing.assert_close(pooled.norm(dim=-1), torch.ones(4))


@pytest.mark.parametrize(
    "modules, pooling, error, message",
    [
        (
            [TRANSFORMER, {"type": "x.Dense", "path": "2_Dense"}],
            None,
            UnsupportedError,
            "'Dense' is not supported",
        ),
        ([POOLING], {"pooling_mode_loudest_tokens": True}, UnsupportedError, "supported: cls"),
        ([{**POOLING, "path": "../elsewhere"}], None, ConfigError, "leaves the model folder"),
        ({"not": "a list"}, None, ConfigError, "list"),
    ],
)
def test_what_is_not_supported_is_reported(
    tmp_path: Path, modules: Any, pooling: dict[str, Any] | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read_pooling_settings(folder_of(tmp_path, modules, pooling))
