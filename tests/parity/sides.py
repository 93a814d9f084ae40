"""The two sides of a comparison: making a checkpoint with the reference library, and running both on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers
from torch import Tensor, nn
from transformers.core_model_loading import revert_weight_conversion

import glassformer
from glassformer import Model
from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Tape
from glassformer.evaluation.reference import fp64_arithmetic
from tests.parity.families import Row
from tests.parity.inputs import Inputs

PRECISIONS = [torch.float32, torch.float64]
Folders = Callable[..., Path]


def make(
    row: Row,
    architecture: str,
    folder: Path,
    *,
    as_written: bool = False,
    dtype: torch.dtype = torch.float32,
    **changes: Any,
) -> Path:
    """A checkpoint of the reference library, every parameter of it perturbed.

    as_written: config.json holds our sparse config in its own spelling, not the library's full one.
    """
    torch.manual_seed(7)
    config = row.config(architecture, **changes)
    kind = getattr(transformers, architecture)
    model = kind(kind.config_class.from_dict(dict(config)))
    perturb(model)
    model.to(dtype).save_pretrained(folder)
    if as_written:
        write_config(folder, {**config, "architectures": [architecture]})
    return folder


def perturb(model: nn.Module, size: float = 0.25) -> None:
    """Move every saved number that is not fixed: fresh biases are 0 and gains 1, and would hide a swap or a loss."""
    saved = model.state_dict()
    constants = [x for name, x in model.named_buffers() if name in saved and x.is_floating_point()]
    with torch.no_grad():
        for tensor in (*(x for x in model.parameters() if x.requires_grad), *constants):
            tensor += torch.randn_like(tensor) * size


def read_config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps(config))


# ------------------------------------------------------------------------------------------------------- loading


def load_theirs(folder: Path, row: Row, dtype: torch.dtype = torch.float32, attention: str = "eager") -> nn.Module:
    """The reference's model of a folder; every tensor must have found its place."""
    architecture = read_config(folder)["architectures"][0]
    with lifted(row, dtype):
        model, report = getattr(transformers, architecture).from_pretrained(
            folder,
            local_files_only=True,
            dtype=dtype,
            attn_implementation=attention if row.reference_fuses else "eager",
            experts_implementation="eager",  # the grouped product has no fp64
            output_loading_info=True,
        )
    assert not any(report.values()), report
    if dtype == torch.float64:
        unround_waves(model)
    model.register_forward_pre_hook(in_its_precision, with_kwargs=True)
    eval_mode: nn.Module = model.eval()
    return eval_mode


def in_its_precision(model: nn.Module, args: Any, fields: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A hook: pictures and sounds in the dtype of the weights, to which ours casts them by itself."""
    dtype = next(model.parameters()).dtype
    floats = {name: x.to(dtype) for name, x in fields.items() if isinstance(x, Tensor) and x.is_floating_point()}
    return args, {**fields, **floats}


def unround_waves(model: nn.Module) -> None:
    """Fill tables of waves by the reference's own formula, which rounds its answer to fp32, once more without that."""
    with patch.object(torch, "FloatTensor", torch.DoubleTensor), torch.no_grad():
        for module in model.modules():
            if hasattr(module, "create_weight"):
                module.weight.copy_(module.create_weight())


def load_ours(folder: Path, dtype: torch.dtype = torch.float32, **options: Any) -> Model:
    """Our model of the same folder; `strict`, so that no tensor is left over."""
    model = glassformer.load(folder, dtype=dtype, strict=True, offline=True, **options)
    assert not model.report.new and not model.report.warnings, model.report
    return model


def as_saved(theirs: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The reference's tensors under the names and in the layout of its files, which are not those of its modules."""
    saved: dict[str, Tensor] = revert_weight_conversion(theirs, dict(tensors))
    return saved


def lifted(row: Row, dtype: torch.dtype) -> Any:
    """Within it, the reference computes wholly in fp64 where that was asked for and can be had."""
    return fp64_arithmetic(dtype) if row.lifted else nullcontext()


def tolerance(row: Row, dtype: torch.dtype) -> float:
    return row.fp64 if dtype == torch.float64 else row.fp32


def close(ours: Tensor, theirs: Tensor, within: float, what: str = "") -> None:
    torch.testing.assert_close(
        ours, theirs.to(ours.dtype), atol=within, rtol=within, msg=lambda text: f"{what}: {text}"
    )


def squares(probs: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Probabilities [B, H, T, S] between visible tokens alone, one after another. [N, H]"""
    both = queries[:, :, None] & keys[:, None, :]  # [B, T, S]
    return probs.permute(0, 2, 3, 1)[both]


# -------------------------------------------------------------------------------------------------------- running


def cached(model: Model, inputs: Inputs, chunks: list[int], tape: Tape | None = None) -> Tensor:
    """Our logits when the batch is fed in chunks over a cache. [B, T, V]"""
    cache, parts, end = KeyValueCache(block_tokens=4), [], 0
    for chunk in chunks:
        start, end = end, end + chunk
        output = model(inputs.ids[:, start:end], inputs.keep[:, :end].long(), cache=cache, tape=tape)
        assert output.logits is not None
        parts.append(output.logits)
    return torch.cat(parts, dim=1)
