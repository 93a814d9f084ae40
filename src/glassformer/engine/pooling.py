"""Pooling: how token states become one vector a text, and the sentence-transformers files that configure it.

    modules.json           the steps: Transformer, Pooling, Normalize
    1_Pooling/config.json  the pooling mode
    sentence_bert_config.json, tokenizer_config.json       the maximum number of tokens

A folder without `modules.json` gets mean pooling.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.core.masks import Packing
from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import error_reason, open_regular_file, safe_repr
from glassformer.files.strict_json import read_json_object

MAX_MODULES_BYTES = 1 << 20

POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {  # [texts, T, D] → [texts, D]; every text is T tokens long
    "cls": lambda x: x[:, 0],
    "lasttoken": lambda x: x[:, -1],
    "max": lambda x: x.amax(dim=1),
    "mean": lambda x: x.mean(dim=1),
    "mean_sqrt_len_tokens": lambda x: x.sum(dim=1) / x.shape[1] ** 0.5,
    "weightedmean": lambda x: torch.einsum("btd,t->bd", x, _linear_weights(x)),
}


def _linear_weights(x: Tensor) -> Tensor:
    """Weights 1, 2, …, T that sum to 1: later tokens of a causal model attend to more."""
    weights = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
    return weights / weights.sum()


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolingSettings:
    """Pooling modes, normalisation and preprocessing of sentence embeddings.

    poolings: their results are concatenated · normalise: to unit length
    max_tokens: maximum tokens of a text, special tokens included; None = the limit of the model
    lower_case: lower-case texts first
    """

    poolings: tuple[str, ...] = ("mean",)
    normalise: bool = False
    max_tokens: int | None = None
    lower_case: bool = False

    def pool(self, states: Tensor) -> Tensor:
        """Pool the states of texts of one length. [texts, T, D] → [texts, D · poolings]"""
        pooled = torch.cat([POOLINGS[name](states) for name in self.poolings], dim=-1).float()
        return torch.nn.functional.normalize(pooled, dim=-1) if self.normalise else pooled

    def pool_packed(self, states: Tensor, packing: Packing) -> np.ndarray:
        """Pool texts that are packed into one row. [tokens, D] → [texts, D · poolings]"""
        groups = [
            self.pool(states[start : start + texts * length].unflatten(0, (texts, length)))
            for start, texts, length in packing.groups()
        ]
        return torch.cat(groups).cpu().numpy()


def check_pooling(name: str) -> str:
    """Validate the name of a pooling mode. Raises: ConfigError: an unknown one."""
    if name not in POOLINGS:
        raise ConfigError(f"pooling is {safe_repr(name)}{nearest(str(name), POOLINGS)}; allowed: {', '.join(POOLINGS)}")
    return name


def read_pooling_settings(folder: Path | None, pooling: str = "mean") -> PoolingSettings:
    """Read the pooling settings of a model folder; `pooling`: the default where it has none.

    Raises: UnsupportedError: a step or pooling that is not supported. ConfigError: a damaged file.
    """
    if folder is None or not (folder / "modules.json").is_file():
        return PoolingSettings(poolings=(pooling,))
    poolings: tuple[str, ...] = (pooling,)
    normalise = False
    for module in _modules(folder / "modules.json"):
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind == "Pooling":
            poolings = _poolings(folder / _step_folder(module) / "config.json")
        elif kind == "Normalize":
            normalise = True
        elif kind != "Transformer":
            raise UnsupportedError(
                f"{folder / 'modules.json'}: the step {safe_repr(kind)} is not supported; "
                "supported: Transformer, Pooling, Normalize"
            )
    own = folder / "sentence_bert_config.json"
    settings = read_json_object(own, ConfigError) if own.is_file() else {}
    limit = settings.get("max_seq_length")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ConfigError(f"{own}: max_seq_length is {safe_repr(limit)}; it must be a whole number from 1 up, or null")
    lower = settings.get("do_lower_case")
    if lower is not None and not isinstance(lower, bool):
        raise ConfigError(f"{own}: do_lower_case is {safe_repr(lower)}; it must be true, false or null")
    return PoolingSettings(
        poolings=poolings,
        normalise=normalise,
        max_tokens=limit,
        lower_case=bool(lower),
    )


def _modules(path: Path) -> list[dict[str, Any]]:
    stream, size = open_regular_file(path, ConfigError)
    with stream:
        if size > MAX_MODULES_BYTES:
            raise ConfigError(f"{path}: has {size} bytes; a list of steps may have {MAX_MODULES_BYTES}")
        try:
            modules = json.loads(stream.read(MAX_MODULES_BYTES))
        except (ValueError, OSError, RecursionError) as problem:
            raise ConfigError(f"{path}: cannot be read as JSON: {error_reason(problem)}") from None
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise ConfigError(f"{path}: must be a JSON list of objects, each a step with a type and a path")
    return modules


def _step_folder(module: dict[str, Any]) -> str:
    """The folder of a step, which must lie in the model folder."""
    path = PurePosixPath(str(module.get("path", "")))
    if path.is_absolute() or ".." in path.parts or not str(path).isprintable():
        raise ConfigError(
            f"modules.json: the path {safe_repr(str(path))} leaves the model folder; a step's folder lies inside"
        )
    return str(path)


def _poolings(path: Path) -> tuple[str, ...]:
    config = read_json_object(path, ConfigError)
    modes = config.get("pooling_mode")
    if modes is not None:
        chosen = modes if isinstance(modes, list) else [modes]
    else:
        prefix = "pooling_mode_"
        flags = [key.removeprefix(prefix) for key, on in config.items() if key.startswith(prefix) and on is True]
        names = {
            "cls_token": "cls",
            "mean_tokens": "mean",
            "max_tokens": "max",
            "weightedmean_tokens": "weightedmean",
        }
        chosen = [names.get(flag, flag) for flag in flags]
    unknown = [name for name in chosen if not isinstance(name, str) or name not in POOLINGS]
    if unknown or not chosen:
        raise UnsupportedError(
            f"{path}: pooling {safe_repr(unknown or chosen)} is not supported; supported: {', '.join(POOLINGS)}"
        )
    if len(set(chosen)) < len(chosen):
        raise ConfigError(f"{path}: pooling {safe_repr(chosen)} has a duplicate; name each once")
    return tuple(chosen)
