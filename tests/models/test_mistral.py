"""Mistral: sliding-window attention in the config, and how far information travels through the layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer.core.flow import Batch, Flow
from glassformer.errors import ConfigError
from glassformer.models import FAMILIES, ConfigReader

MISTRAL = FAMILIES["mistral"]


@pytest.mark.parametrize(("keys", "window"), [({}, 4096), ({"sliding_window": None}, None), ({"sliding_window": 7}, 7)])
def test_null_is_no_window_and_no_key_the_first_release(keys: dict[str, Any], window: int | None) -> None:
    config = {key: value for key, value in MISTRAL.tiny.items() if key != "sliding_window"}
    spec = MISTRAL.spec(ConfigReader({**config, **keys}))
    assert [block.attention.window for block in spec.blocks.blocks] == [window] * 3


@pytest.mark.parametrize("value", [0, -4, 2.5, "4", True])
def test_a_window_is_a_whole_number(value: Any) -> None:
    with pytest.raises(ConfigError, match="sliding_window"):
        MISTRAL.spec(ConfigReader({**MISTRAL.tiny, "sliding_window": value}))


@torch.no_grad()
def test_a_token_hears_one_window_further_with_each_layer() -> None:
    """Three layers of a window of 4: what stands 9 tokens back is heard, what stands 10 back is not."""
    spec = MISTRAL.spec(ConfigReader(MISTRAL.tiny))
    network = MISTRAL.build(spec, "feature-extraction").eval()
    ids = torch.randint(1, 99, (1, 16), generator=torch.Generator().manual_seed(1))
    changed = ids.clone()
    changed[0, 2] = (ids[0, 2] + 1) % 99
    before, after = (network(Batch(input_ids=x), Flow()).last_hidden_state[0] for x in (ids, changed))
    differs = [not torch.equal(x, y) for x, y in zip(before, after, strict=True)]
    assert differs == [2 <= i <= 2 + 3 * 3 for i in range(16)]
