"""A real language model tells the story that its author published, token for token."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import glassformer


@pytest.mark.parametrize("use_cache", [True, False], ids=["cached", "whole"])
def test_stories260k_tells_the_published_story(shared: Path, use_cache: bool) -> None:
    folder = shared / "models" / "stories260k"
    model = glassformer.load(folder)
    ids = model.generate(torch.tensor([[1]]), max_new_tokens=256, use_cache=use_cache)  # <s> alone
    assert ids.shape == (1, 257)
    story = model.tokenizer.decode(ids[0].tolist(), skip_special_tokens=True)
    assert story.strip() == (folder / "golden.txt").read_text().strip()
