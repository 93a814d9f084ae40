"""Outlines of models without weights: what each name stands for, and what does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.inspect import outline, summary
from glassformer.loading import HeadLoading
from tests.e2e.tiny_models import make_folder


def test_a_published_model_a_config_and_a_checkpoint(tmp_path: Path) -> None:
    published = outline("gpt3-175b")
    assert summary(published.model.network).parameters == 174_604_259_328
    assert published.source is not None and "Brown et al. 2020" in published.source and published.tokenizer is None
    folder = make_folder(tmp_path / "bert", "bert")
    whole = outline(str(folder))
    assert whole.source is None and whole.model.device.type == "meta" and whole.tokenizer is not None
    assert whole.checkpoint_names()("embed.tokens.weight") == ["embeddings.word_embeddings.weight"]
    (tmp_path / "bare").mkdir()
    config = shutil.copy(folder / "config.json", tmp_path / "bare")
    for place in (config, tmp_path / "bare"):
        bare = outline(str(place), HeadLoading(dtype="bfloat16"))
        assert bare.source == "config.json alone" and str(bare.model.dtype) == "torch.bfloat16"
        assert bare.facts(summary(bare.model.network))["weights"] is False


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"sizes are known of: 'gpt3-175b'"):
        outline("gpt3-175", HeadLoading(offline=True))
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"config\.json"):
        outline(str(tmp_path))
