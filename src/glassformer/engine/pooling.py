"""Pooling: how token states become one vector a text, and the sentence-transformers files that configure it.

    modules.json           the steps: Transformer, Pooling, then Dense, LayerNorm, Normalize
    1_Pooling/config.json  the pooling mode
    2_Dense/               config.json and model.safetensors of a layer
    sentence_bert_config.json, tokenizer_config.json       the maximum number of tokens
    config_sentence_transformers.json                      prompts by name, such as "query": "search_query: ", …

A folder without `modules.json` gets mean pooling.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.core.masks import Packing
from glassformer.engine.pooling_layers import LAYERS, PoolingLayer
from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import error_reason, is_int, open_regular_file, read_json_object, safe_repr
from glassformer.files.atomic import write_json

MAX_MODULES_BYTES = 1 << 20  # modules.json lists a handful of steps
MAX_PATH_CHARACTERS = 255  # of the folder of a step: no file system has longer names
MODES = {
    "cls": "cls_token",
    "max": "max_tokens",
    "mean": "mean_tokens",
    "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "weightedmean": "weightedmean_tokens",
    "lasttoken": "lasttoken",
}
"""Pooling → its `pooling_mode_…` in files."""

POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {  # [texts, T, D] → [texts, D]; every text is T tokens long
    "cls": lambda x: x[:, 0],
    "lasttoken": lambda x: x[:, -1],
    "max": lambda x: x.amax(dim=1),
    "mean": lambda x: x.mean(dim=1),
    "mean_sqrt_len_tokens": lambda x: x.sum(dim=1) / x.shape[1] ** 0.5,
    "weightedmean": lambda x: torch.einsum("btd,t->bd", x, _linear_weights(x)),
}


SIMILARITIES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # […, n, D], […, m, D] → […, n, m]
    "cosine": lambda a, b: torch.nn.functional.normalize(a, dim=-1) @ torch.nn.functional.normalize(b, dim=-1).mT,
    "dot": lambda a, b: a @ b.mT,
    "euclidean": lambda a, b: -torch.cdist(a, b),
    "manhattan": lambda a, b: -torch.cdist(a, b, p=1),
}
"""Ways to compare vectors."""


def _linear_weights(x: Tensor) -> Tensor:
    """Weights 1, 2, …, T that sum to 1: later tokens of a causal model attend to more."""
    weights = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
    return weights / weights.sum()


def _shares(pooling: str, states: Tensor) -> Tensor:
    """What each token adds to a pooled vector. [T, D] → [T, D]"""
    if pooling == "max":
        chosen = states.argmax(dim=0, keepdim=True)
        return torch.zeros_like(states).scatter_(0, chosen, states.gather(0, chosen))
    weights = POOLINGS[pooling](torch.eye(len(states), dtype=states.dtype)[None])[0]  # of each token
    return states * weights[:, None]


def _norm(shares: Tensor) -> Tensor:
    """The length of their sum, as `torch.nn.functional.normalize` bounds it."""
    length: Tensor = torch.linalg.vector_norm(shares.sum(0))
    return length.clamp(min=1e-12)


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolingSettings:
    """Pooling modes, normalisation and preprocessing of sentence embeddings.

    poolings: their results are concatenated
    normalise: to unit length
    max_tokens: maximum tokens of a text, special tokens included; None = the limit of the model
    lower_case: lower-case texts first
    prompts: name → what is put before each text
    default_prompt: the name of the one used where none is asked for
    pool_prompt: its tokens are pooled with the others
    layers: between pooling and normalisation (`pooling_layers.py`)
    truncate_dim: only the first this many dimensions; None = all
    normalise_last: to unit length after that
    similarity: how vectors are compared: "cosine", "dot", "euclidean", "manhattan"
    stored: a folder has them, and so has the folder of a copy
    """

    poolings: tuple[str, ...] = ("mean",)
    normalise: bool = False
    max_tokens: int | None = None
    lower_case: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    pool_prompt: bool = True
    layers: tuple[PoolingLayer, ...] = ()
    truncate_dim: int | None = None
    normalise_last: bool = False
    similarity: str = "cosine"
    stored: bool = field(default=False, compare=False)

    def prompt(self, text: str | None = None, name: str | None = None) -> str:
        """The prompt of a call: the text itself, the one of this name, or the default one.

        Raises: ConfigError: both are given, or the folder has no prompt of this name.
            UnsupportedError: the folder pools without the prompt's tokens.
        """
        if text is not None and name is not None:
            raise ConfigError(f"prompt is {safe_repr(text)} and prompt_name {safe_repr(name)}; give one of them")
        name = self.default_prompt if name is None else name
        if text is None and name is not None:
            if not isinstance(name, str) or name not in self.prompts:
                raise ConfigError(
                    f"prompt_name is {safe_repr(name)}{nearest(str(name), self.prompts)}; the model's prompts: "
                    f"{', '.join(map(safe_repr, self.prompts)) or 'none; give the text itself as prompt'}"
                )
            text = self.prompts[name]
        if not isinstance(text, (str, type(None))):
            raise ConfigError(f"prompt is {safe_repr(text)}; it must be a string, put before each text")
        if text and not self.pool_prompt:
            raise UnsupportedError(
                "the model's pooling leaves out the tokens of the prompt (include_prompt: false), which is not "
                'supported; pass prompt="" for texts without one'
            )
        return text or ""

    def pool(self, states: Tensor) -> Tensor:
        """Pool the states of texts of one length. [texts, T, D] → [texts, D · poolings]"""
        pooled = torch.cat([POOLINGS[name](states) for name in self.poolings], dim=-1).float()
        for layer in self.layers:
            pooled = layer(pooled)
        pooled = torch.nn.functional.normalize(pooled, dim=-1) if self.normalise else pooled
        pooled = pooled[..., : self.truncate_dim]
        return torch.nn.functional.normalize(pooled, dim=-1) if self.normalise_last else pooled

    def token_shares(self, states: Tensor) -> Tensor:
        """The vector of `pool` as a sum over tokens: what each adds to it, and last the constant. [T, D] → [T + 1, V]

        Pooling is linear, but for "max", which gives each dimension to the token that has the maximum. What is not
        linear after it (`PoolingLayer.held_fixed`, the norm) is held at its value for the whole text.
        """
        shares = torch.cat([_shares(name, states) for name in self.poolings], dim=-1)
        shares = torch.cat([shares, shares.new_zeros(1, shares.shape[1])])
        for layer in self.layers:
            shares = layer.distribute(shares)
        shares = shares / _norm(shares) if self.normalise else shares
        shares = shares[:, : self.truncate_dim]
        return shares / _norm(shares) if self.normalise_last else shares

    def dimension(self, width: int) -> int:
        """The size of a vector, of states of this width."""
        size = width * len(self.poolings)
        for layer in self.layers:
            size = layer.size(size)
        return size if self.truncate_dim is None else min(size, self.truncate_dim)

    def pool_row(self, states: Tensor, packing: Packing) -> Tensor:
        """Pool texts that are packed into one row. [tokens, D] → [texts, D · poolings]"""
        groups = [
            self.pool(states[start : start + texts * length].unflatten(0, (texts, length)))
            for start, texts, length in packing.groups()
        ]
        return torch.cat(groups)

    def pool_packed(self, states: Tensor, packing: Packing) -> np.ndarray:
        """The same as an array, outside of training."""
        return self.pool_row(states, packing).cpu().numpy()


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
    normalise, pool_prompt = False, True
    layers: list[PoolingLayer] = []
    for module in _modules(folder / "modules.json"):
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind == "Pooling":
            path = folder / _step_folder(module) / "config.json"
            poolings, pool_prompt = _poolings(path), _pools_prompt(path)
        elif kind == "Normalize":
            normalise = True
        elif kind in LAYERS and not normalise:
            layers.append(LAYERS[kind].read(folder / _step_folder(module)))
        elif kind != "Transformer":
            raise UnsupportedError(
                f"{folder / 'modules.json'}: the step {safe_repr(kind)} is not supported{' there' * (kind in LAYERS)}; "
                f"supported: Transformer, Pooling, {', '.join(LAYERS)}, and Normalize at the end"
            )
    own = folder / "sentence_bert_config.json"
    settings = read_json_object(own, ConfigError) if own.is_file() else {}
    limit = settings.get("max_seq_length")
    if limit is not None and not is_int(limit, 1):
        raise ConfigError(f"{own}: max_seq_length is {safe_repr(limit)}; it must be a whole number from 1 up, or null")
    lower = settings.get("do_lower_case")
    if lower is not None and not isinstance(lower, bool):
        raise ConfigError(f"{own}: do_lower_case is {safe_repr(lower)}; it must be true, false or null")
    if limit is None and "max_seq_length" not in settings:  # newer releases keep it with the tokenizer
        limit = _tokenizer_limit(folder / "tokenizer_config.json")
    shared = folder / "config_sentence_transformers.json"
    prompts, default = _prompts(shared)
    truncate_dim, similarity = _comparison(shared)
    return PoolingSettings(
        poolings=poolings,
        normalise=normalise,
        max_tokens=limit,
        lower_case=bool(lower),
        prompts=prompts,
        default_prompt=default,
        pool_prompt=pool_prompt,
        layers=tuple(layers),
        truncate_dim=truncate_dim,
        similarity=similarity,
        stored=True,
    )


def write_pooling_settings(folder: Path, settings: PoolingSettings, width: int) -> None:
    """Write the files of sentence-transformers, if the model's own folder had them; `width`: of a state."""
    if not settings.stored:
        return
    kinds = ["Pooling", *(layer.KIND for layer in settings.layers), *["Normalize"] * settings.normalise]
    steps = [("Transformer", ""), *((kind, f"{i}_{kind}") for i, kind in enumerate(kinds, 1))]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{step}"}
        for i, (step, path) in enumerate(steps)
    ]
    for layer, (_, path) in zip(settings.layers, steps[2:], strict=False):
        layer.write(folder / path)
    modes = [*settings.poolings, *(name for name in MODES if name not in settings.poolings)]
    flags = {f"pooling_mode_{MODES[name]}": name in settings.poolings for name in modes}
    for name, content in {
        "modules.json": modules,
        "1_Pooling/config.json": {
            "word_embedding_dimension": width,
            "pooling_mode": list(settings.poolings),  # newer releases; the flags are for older ones
            **flags,
            "include_prompt": settings.pool_prompt,
        },
        "sentence_bert_config.json": {
            "max_seq_length": settings.max_tokens,
            "do_lower_case": settings.lower_case,
        },
        "config_sentence_transformers.json": {
            "prompts": dict(settings.prompts),
            "default_prompt_name": settings.default_prompt,
            "similarity_fn_name": settings.similarity,
            **({} if settings.truncate_dim is None else {"truncate_dim": settings.truncate_dim}),
        },
    }.items():
        write_json(folder / name, content)


def _prompts(path: Path) -> tuple[dict[str, str], str | None]:
    """Prompts by name, and the name of the default one."""
    config = read_json_object(path, ConfigError) if path.is_file() else {}
    prompts, default = config.get("prompts") or {}, config.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise ConfigError(f"{path}: prompts is {safe_repr(prompts)}; it must be an object of names and texts")
    if default is not None and (not isinstance(default, str) or default not in prompts):
        raise ConfigError(
            f"{path}: default_prompt_name is {safe_repr(default)}; it must be null or one of "
            f"{', '.join(map(safe_repr, prompts)) or 'the prompts, of which there are none'}"
        )
    return prompts, default


def _comparison(path: Path) -> tuple[int | None, str]:
    """How many dimensions a vector keeps, and how vectors are compared."""
    config = read_json_object(path, ConfigError) if path.is_file() else {}
    size, similarity = config.get("truncate_dim"), config.get("similarity_fn_name") or "cosine"
    if size is not None and not is_int(size, 1):
        raise ConfigError(f"{path}: truncate_dim is {safe_repr(size)}; it must be a whole number from 1 up, or null")
    if similarity not in SIMILARITIES:
        raise ConfigError(f"{path}: similarity_fn_name is {safe_repr(similarity)}; allowed: {', '.join(SIMILARITIES)}")
    return size, similarity


def _tokenizer_limit(path: Path) -> int | None:
    """The limit of tokens in a tokenizer_config.json; a huge one stands for none."""
    limit = read_json_object(path, ConfigError).get("model_max_length") if path.is_file() else None
    return limit if is_int(limit, 1, 10**6) else None


def _pools_prompt(path: Path) -> bool:
    value = read_json_object(path, ConfigError).get("include_prompt")
    if not isinstance(value, (bool, type(None))):
        raise ConfigError(f"{path}: include_prompt is {safe_repr(value)}; it must be true, false or null")
    return value is not False


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
    given = module.get("path", "")
    if not isinstance(given, str) or len(given) > MAX_PATH_CHARACTERS:
        raise ConfigError(f"modules.json: the path of a step is {safe_repr(given)}; it must be the name of a folder")
    path = PurePosixPath(given)
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
        # In the order of the modes, whatever the order in the file, as sentence-transformers concatenates them.
        unknown_flags = [flag for flag in flags if flag not in MODES.values()]
        chosen = [name for name, mode in MODES.items() if mode in flags] + unknown_flags
    unknown = [name for name in chosen if not isinstance(name, str) or name not in POOLINGS]
    if unknown or not chosen:
        raise UnsupportedError(
            f"{path}: pooling {safe_repr(unknown or chosen)} is not supported; supported: {', '.join(POOLINGS)}"
        )
    if len(set(chosen)) < len(chosen):
        raise ConfigError(f"{path}: pooling {safe_repr(chosen)} has a duplicate; name each once")
    return tuple(chosen)
