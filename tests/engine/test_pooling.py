"""What a folder says about pooling, and what each pooling computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.engine.pooling import (
    POOLINGS,
    PoolingSettings,
    read_pooling_settings,
    write_pooling_settings,
)
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


PROMPTS = {"query": "search_query: ", "document": "search_document: "}


def with_prompts(folder: Path, config: Any, pooling: dict[str, Any] | None = None) -> Path:
    folder_of(folder, [TRANSFORMER, POOLING], {"pooling_mode_mean_tokens": True, **(pooling or {})})
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
    return folder


def test_prompts_by_name(tmp_path: Path) -> None:
    settings = read_pooling_settings(with_prompts(tmp_path, {"prompts": PROMPTS, "default_prompt_name": None}))
    assert settings.prompt() == "" and settings.prompt(name="query") == "search_query: "
    assert settings.prompt("any: ") == "any: "


def test_the_default_prompt(tmp_path: Path) -> None:
    config = {"prompts": PROMPTS, "default_prompt_name": "document"}
    settings = read_pooling_settings(with_prompts(tmp_path, config))
    assert settings.prompt() == "search_document: " and settings.prompt("") == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"name": "qeury"},
            "prompt_name is 'qeury'; nearest: 'query'; the model's prompts: 'query', 'document'",
        ),
        ({"text": "a", "name": "query"}, "give one of them"),
        ({"text": 3}, "prompt is 3; it must be a string"),
    ],
)
def test_a_wrong_prompt(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    settings = read_pooling_settings(with_prompts(tmp_path, {"prompts": PROMPTS}))
    with pytest.raises(ConfigError) as error:
        settings.prompt(**options)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("config", "pooling", "message"),
    [
        ({"prompts": ["query"]}, {}, "prompts is ['query']; it must be an object"),
        ({"prompts": {"query": 3}}, {}, "it must be an object of names and texts"),
        (
            {"prompts": PROMPTS, "default_prompt_name": "q"},
            {},
            "default_prompt_name is 'q'; it must be null or one of",
        ),
        ({"default_prompt_name": "q"}, {}, "of which there are none"),
        ({}, {"include_prompt": "no"}, "include_prompt is 'no'; it must be true"),
    ],
)
def test_wrong_prompts_in_a_folder(tmp_path: Path, config: Any, pooling: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_pooling_settings(with_prompts(tmp_path, config, pooling))
    assert message in str(error.value)


def test_a_prompt_that_is_not_pooled_is_refused_where_there_is_one(tmp_path: Path) -> None:
    settings = read_pooling_settings(with_prompts(tmp_path, {"prompts": PROMPTS}, {"include_prompt": False}))
    assert settings.prompt() == "" and settings.poolings == ("mean",)
    with pytest.raises(UnsupportedError, match="include_prompt"):
        settings.prompt(name="query")


def test_several_poolings_stand_side_by_side(tmp_path: Path) -> None:
    flags = {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}
    settings = read_pooling_settings(folder_of(tmp_path, [TRANSFORMER, POOLING], flags))
    states = torch.randn(3, 5, 8)
    assert set(settings.poolings) == {"mean", "max"} and settings.pool(states).shape == (3, 16)


def test_flags_are_concatenated_in_the_order_of_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.modules.pooling import Pooling

    modes = ("mean_tokens", "lasttoken", "max_tokens", "cls_token")
    flags = {"word_embedding_dimension": 8, **{f"pooling_mode_{mode}": True for mode in modes}}
    settings = read_pooling_settings(folder_of(tmp_path, [TRANSFORMER, POOLING], flags))
    assert settings.poolings == ("cls", "max", "mean", "lasttoken")
    states, pooling = torch.randn(3, 5, 8), Pooling.load(str(tmp_path / POOLING["path"]))
    expected = pooling({"token_embeddings": states, "attention_mask": torch.ones(3, 5)})["sentence_embedding"]
    torch.testing.assert_close(settings.pool(states), expected)


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
            [TRANSFORMER, {"type": "x.CNN", "path": "2_CNN"}],
            None,
            UnsupportedError,
            "'CNN' is not supported; supported: Transformer, Pooling, Dense, LayerNorm, and Normalize",
        ),
        ([POOLING], {"pooling_mode_loudest_tokens": True}, UnsupportedError, "supported: cls"),
        ([{**POOLING, "path": "../elsewhere"}], None, ConfigError, "leaves the model folder"),
        ([{**POOLING, "path": "x" * 100_000}], None, ConfigError, "^.{,200} must be the name of a folder$"),
        ([{**POOLING, "path": [0] * 1_000}], None, ConfigError, "^.{,200} must be the name of a folder$"),
        ({"not": "a list"}, None, ConfigError, "list"),
    ],
)
def test_what_is_not_supported_is_reported(
    tmp_path: Path, modules: Any, pooling: dict[str, Any] | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read_pooling_settings(folder_of(tmp_path, modules, pooling))


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("pooling", [["cls"], ["lasttoken"], ["weightedmean", "max"], list(POOLINGS)])
def test_a_saved_copy_pools_as_its_original(tmp_path: Path, pooling: list[str], normalise: bool) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.mkdir()
    modules = [TRANSFORMER, POOLING, *([NORMALIZE] if normalise else [])]
    folder_of(original, modules, {"pooling_mode": pooling, "include_prompt": False}, {"max_seq_length": 99})
    (original / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": PROMPTS, "default_prompt_name": "query"})
    )
    settings = read_pooling_settings(original)
    write_pooling_settings(copy, settings, width=8)
    assert read_pooling_settings(copy) == settings


def test_a_model_that_had_no_such_files_gets_none(tmp_path: Path) -> None:
    write_pooling_settings(tmp_path, read_pooling_settings(tmp_path), width=8)
    assert not list(tmp_path.iterdir())
