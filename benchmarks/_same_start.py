"""The same start for both libraries: rows in place of data sets, the same new weights, the same random numbers."""

from __future__ import annotations

import os
import random
import sys
import types
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
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
    from glassformer.hf.multiple_choice import MultipleChoice
    from glassformer.hf.reference_model import LoadsModels

    for kind in (MultipleChoice, LoadsModels):  # the subclass first: it calls the other, and renames what that gives
        for name in ("from_pretrained", "from_config"):
            setattr(kind, name, classmethod(_copying(transformers, getattr(kind, name).__func__)))


def _copying(transformers: Any, make: Callable[..., Any]) -> Callable[..., Any]:
    """A class method that makes a model, which then takes new weights; the outermost call counts."""
    import torch

    def made(cls: Any, source: Any, *args: Any, **keywords: Any) -> Any:
        LOADING.append(cls.__name__)
        try:
            result = make(cls, source, *args, **keywords)
        finally:
            LOADING.pop()
        model = result[0] if isinstance(result, tuple) else result
        kind = getattr(transformers, type(model).__name__, None)  # None: of a class that the document defines
        if not LOADING and isinstance(model, torch.nn.Module) and kind is not None:
            model.load_state_dict(_new_weights(kind, model.config, source), strict=False)
        seed(1)
        return result

    return made


def _new_weights(kind: Any, config: Any, source: Any) -> dict[str, Any]:
    """The tensors that the reference's model of this config has, and the files of the source do not."""
    config = kind.config_class.from_dict(config.to_dict())
    if not isinstance(source, str | Path):
        return dict(kind(config).state_dict())
    reference = kind.from_pretrained(source, config=config, ignore_mismatched_sizes=True)
    whole = reference.state_dict()
    return {key: whole[key] for key in reference.new_names if key in whole}
