"""What all networks share: evaluation mode for the time of a call."""

from __future__ import annotations

import pytest
from torch import nn

from glassformer.models import eval_mode


def test_eval_mode_restores_each_module() -> None:
    network = nn.Sequential(nn.Linear(1, 1), nn.Dropout())
    network[0].eval()
    with pytest.raises(ValueError), eval_mode(network):
        assert not any(module.training for module in network.modules())
        raise ValueError
    assert [module.training for module in network.modules()] == [True, False, True]
