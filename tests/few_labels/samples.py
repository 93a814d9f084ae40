"""Texts of eight words with labels that one word decides, and an encoder of these words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from glassformer.few_labels import LabelledTexts, Setting
from tests.tasks.bodies import tiny_body

WORDS = ["like", "an", "arrow", "flies"]
TOPICS = ["time", "fruit", "banana"]


def one_label(count: int, *, seed: int = 0) -> LabelledTexts:
    """Texts with one of two topics, in turn, among other words."""
    draw = np.random.default_rng(seed)
    texts = [f"{draw.choice(WORDS)} {TOPICS[i % 2]} {draw.choice(WORDS)}" for i in range(count)]
    return LabelledTexts.of(texts, [TOPICS[i % 2] for i in range(count)])


def several_labels(count: int, *, seed: int = 0) -> LabelledTexts:
    """Texts with none to three topics."""
    draw = np.random.default_rng(seed)
    sets = [[topic for j, topic in enumerate(TOPICS) if i >> j & 1] for i in range(count)]
    texts = [" ".join(draw.permutation([*topics, draw.choice(WORDS), draw.choice(WORDS)])) for topics in sets]
    return LabelledTexts.of(texts, sets)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the encoder."""
    folder = tmp_path_factory.mktemp("encoder")
    tiny_body(folder).save_pretrained(folder / "model")
    return folder / "model"


@pytest.fixture
def setting(encoder: Path) -> Setting:
    """With this encoder."""
    return Setting(model=str(encoder))
