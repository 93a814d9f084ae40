"""The same start for both libraries: rows in place of data sets, the same new weights, the same random numbers."""

from __future__ import annotations

import os
import random
import re
import sys
import types
import zlib
from collections.abc import Callable, Iterable
from typing import Any

LOADING: list[str] = []


def seed(number: int) -> None:
    import numpy
    import torch

    torch.manual_seed(number)
    numpy.random.seed(number)
    random.seed(number)


def prepare(side: str) -> None:
    """Make this process offline, and the library of a side start from equal weights."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "MPLBACKEND": "Agg", "WANDB_DISABLED": "1"}
    import datasets
    import huggingface_hub
    import torch
    import transformers
    from _rows import load_dataset, load_metric

    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    datasets.load_dataset = load_dataset
    for name in ("login", "notebook_login", "create_repo"):
        setattr(huggingface_hub, name, lambda *_, **__: None)
    huggingface_hub.get_full_repo_name = lambda name, *_, **__: f"me/{name}"
    _stand_in("evaluate", load=load_metric)
    _stand_in("IPython")
    _stand_in("IPython.display", display=print, HTML=str, Markdown=str, Audio=lambda *_, **__: None)
    _shorten(datasets.Dataset)
    _fill_reference(transformers)
    transformers.pipeline = _seeded(transformers.pipeline)
    if side == "glassformer.hf":
        import glassformer.hf.pipelines as pipelines

        pipelines.pipeline = _seeded(pipelines.pipeline)
        _copy_weights(transformers)


def _stand_in(name: str, **names: Any) -> None:
    module = types.ModuleType(name)
    module.__dict__.update(names)
    sys.modules[name] = module


def _shorten(kind: Any) -> None:
    """Let `select(range(1000))` and `train_test_split(10_000)` take what the few rows have."""
    select, split = kind.select, kind.train_test_split

    def short_select(self: Any, indices: Iterable[int], **keywords: Any) -> Any:
        return select(self, [index for index in indices if index < len(self)], **keywords)

    def short_split(self: Any, test_size: Any = None, train_size: Any = None, **keywords: Any) -> Any:
        test, train = (
            None if isinstance(size, int) and size >= len(self) else size for size in (test_size, train_size)
        )
        return split(self, test_size=test, train_size=train, **keywords)

    kind.select, kind.train_test_split = short_select, short_split


def _seeded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Making a model draws random numbers; how many differs between the libraries."""

    def made(*args: Any, **keywords: Any) -> Any:
        result = function(*args, **keywords)
        seed(1)
        return result

    return made


def _fill(model: Any, names: Iterable[str]) -> None:
    """New weights by their name, so that they do not depend on the order in which modules are made."""
    import torch

    chosen = set(names)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in chosen and parameter.ndim > 1:
                generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
                parameter.copy_(0.05 * torch.randn(parameter.shape, generator=generator))
            elif name in chosen and name.endswith("bias"):
                parameter.zero_()


def _fill_reference(transformers: Any) -> None:
    kind = transformers.PreTrainedModel
    load, finish = kind.from_pretrained.__func__, kind.post_init

    def from_pretrained(cls: Any, *args: Any, output_loading_info: bool = False, **keywords: Any) -> Any:
        LOADING.append(cls.__name__)
        try:
            model, info = load(cls, *args, output_loading_info=True, **keywords)
        finally:
            LOADING.pop()
        resized = {key[0] if isinstance(key, tuple) else key for key in info.get("mismatched_keys", ())}
        model.new_names = set(info["missing_keys"]) | resized
        _fill(model, model.new_names)
        seed(1)
        return (model, info) if output_loading_info else model

    def post_init(self: Any) -> None:
        finish(self)
        if not LOADING and not any(parameter.is_meta for parameter in self.parameters()):
            _fill(self, [name for name, _ in self.named_parameters()])
            self.tie_weights()
            seed(1)

    kind.from_pretrained, kind.post_init = classmethod(from_pretrained), post_init


def _copy_weights(transformers: Any) -> None:
    """Give models of `glassformer.hf` the new weights that the reference has there."""
    import torch

    from glassformer.hf.reference_model import LoadsModels

    load, make = LoadsModels.from_pretrained.__func__, LoadsModels.from_config.__func__  # type: ignore[attr-defined]

    def copied(model: Any, name: Any) -> None:
        if (kind := getattr(transformers, type(model).__name__, None)) is None:
            return  # a model that the document defines
        config = kind.config_class.from_dict(model.config.to_dict())
        if name is None:
            state = kind(config).state_dict()
        else:
            reference = kind.from_pretrained(name, config=config, ignore_mismatched_sizes=True)
            whole = reference.state_dict()
            state = {key: whole[key] for key in reference.new_names if key in whole}
        if state:
            model.load_state_dict(state, strict=False)

    def from_pretrained(cls: Any, name: Any, *args: Any, **keywords: Any) -> Any:
        LOADING.append("ours")
        try:
            made = load(cls, name, *args, **keywords)
        finally:
            LOADING.pop()
        model = made[0] if isinstance(made, tuple) else made
        if not LOADING and isinstance(model, torch.nn.Module) and re.match("[A-Z]", type(model).__name__):
            copied(model, str(name))
        seed(1)
        return made

    def from_config(cls: Any, config: Any, **keywords: Any) -> Any:
        LOADING.append("ours")
        try:
            model = make(cls, config, **keywords)
        finally:
            LOADING.pop()
        if not LOADING:
            copied(model, None)
        seed(1)
        return model

    LoadsModels.from_pretrained, LoadsModels.from_config = classmethod(from_pretrained), classmethod(from_config)  # type: ignore[assignment,method-assign]
