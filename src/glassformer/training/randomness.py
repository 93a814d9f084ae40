"""Random seeds and generator states, for reproducible training and exact resuming.

Dropout draws from torch's own generator, whose state a checkpoint keeps. What is random about an example (masks, noise,
spans) depends on (seed, epoch, example) alone: in whatever order, by whichever process, the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import ConfigError, WeightsError


def seed_all(seed: int) -> None:
    """Seed the random generators of Python, numpy and torch, those of accelerators too.

    Raises: ConfigError: not a whole number from 0 to 2^32 - 1: numpy takes no more, and torch's CPU generator would
        take a larger one for another, smaller one.
    """
    if not 0 <= seed < 1 << 32:
        raise ConfigError(f"a seed is a whole number from 0 to 2^32 - 1, got {seed}")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def capture() -> dict[str, Tensor]:
    """The states of all random generators, that of this process's accelerator included.

    Returns: tensors by names such as `torch`, for a checkpoint.

    Raises: ConfigError: numpy's global generator was replaced.
    """
    _, words, gauss = random.getstate()
    of_numpy: Any = np.random.get_state(legacy=False)
    if of_numpy["bit_generator"] != "MT19937":
        raise ConfigError(
            f"numpy's global generator was replaced by {of_numpy['bit_generator']}; only MT19937 can be saved"
        )
    states = {
        "python": torch.tensor(words, dtype=torch.int64),
        "python.gauss": torch.tensor([] if gauss is None else [gauss], dtype=torch.float64),
        "numpy": torch.tensor([*of_numpy["state"]["key"].tolist(), of_numpy["state"]["pos"]]),
        "numpy.gauss": torch.tensor([of_numpy["gauss"]] if of_numpy["has_gauss"] else [], dtype=torch.float64),
        "torch": torch.get_rng_state(),
    }
    device = torch.accelerator.current_accelerator(check_available=True)
    if device is not None:
        states[f"torch.{device.type}"] = torch.get_device_module(device).get_rng_state()
    return states


def restore(states: Mapping[str, Tensor]) -> None:
    """Restore the generator states that `capture` took. An accelerator's state is used where there is one of its type.

    Raises: WeightsError: a state is missing, or not one.
    """
    try:
        words, gauss = states["python"].tolist(), states["python.gauss"].tolist()
        random.setstate((3, tuple(words), gauss[0] if gauss else None))
        *keys, position = states["numpy"].tolist()
        normal = states["numpy.gauss"].tolist()
        np.random.set_state(("MT19937", np.array(keys, np.uint32), position, len(normal), *(normal or [0.0])))
        torch.set_rng_state(states["torch"])
        device = torch.accelerator.current_accelerator(check_available=True)
        if device is not None and f"torch.{device.type}" in states:
            torch.get_device_module(device).set_rng_state(states[f"torch.{device.type}"])
    except KeyError as missing:
        raise WeightsError(f"the state of the random generators lacks {missing}") from None
    except (ValueError, TypeError, RuntimeError) as problem:
        raise WeightsError(f"the state of the random generators cannot be restored: {problem}") from problem
