"""Reference models of the transformers library, built from our config and tensors, for parity checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.errors import MissingExtraError, UnsupportedError

EXTERNAL_CODE_KEYS = frozenset({"adapter_name", "auto_map", "quantization_config", "transformers_weights"})
"""Keys, besides those with a leading underscore, by which a config makes the reference open files or run code."""


class _Fp64Mode(TorchFunctionMode):
    """Replaces fp32 by fp64 in the arguments of every torch function."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        def wide(value: Any) -> Any:
            return torch.float64 if value is torch.float32 else value

        if function is torch.Tensor.float:
            function = torch.Tensor.double
        return function(*map(wide, args), **{key: wide(value) for key, value in (kwargs or {}).items()})


@contextmanager
def fp64_arithmetic(dtype: torch.dtype) -> Iterator[None]:
    """For fp64, run in fp64 also the steps that the reference always takes in fp32; for other precisions, nothing.

    Its `.double()` leaves root-mean-square norms, rotary tables and some softmaxes in fp32. A model built and run in
    this block computes them in fp64 as well, so that the comparison is not about that rounding.
    """
    if dtype != torch.float64:
        yield
        return
    default = torch.get_default_dtype()  # of what becomes of a whole number times a fraction
    torch.set_default_dtype(torch.float64)
    try:
        with _Fp64Mode():
            yield
    finally:
        torch.set_default_dtype(default)


def reference_model(
    architecture: str, config: Mapping[str, Any], tensors: Mapping[str, Tensor], dtype: torch.dtype
) -> tuple[nn.Module, list[str]]:
    """Build a model of the reference library from a config and tensors that Glassformer has read and checked.

    It gets no path and no name: it opens no file and no connection, and runs no code from a folder.

    Args:
        architecture: the class name, as in `config.json`.
        tensors: name → tensor, as in the checkpoint.
    Returns: the model in eval mode, and notes on missing and mismatched tensors.
    Raises: MissingExtraError: the reference library is not installed. UnsupportedError: it has no such class.
    """
    try:
        import transformers
    except ImportError:
        raise MissingExtraError("transformers", "reference", "comparing with the reference library") from None
    kind = getattr(transformers, architecture, None)
    if kind is None:
        raise UnsupportedError(f"transformers {transformers.__version__} has no class {architecture!r} to compare with")
    safe = {key: value for key, value in config.items() if key not in EXTERNAL_CODE_KEYS and key[:1] != "_"}
    with _quiet(transformers.utils.logging):
        settings = kind.config_class.from_dict(safe)
        if dtype == torch.float64:
            settings.reorder_and_upcast_attn = False  # an order of rounding that raises in fp64
        if getattr(settings, "pad_token_id", None) is None:
            settings.pad_token_id = 0  # its sequence classifiers look for one as soon as there are two rows
        model, report = kind.from_pretrained(
            None,
            config=settings,
            state_dict=dict(tensors),
            dtype=dtype,
            attn_implementation="eager",  # else a name in the config could ask for a kernel from the Hub
            experts_implementation="eager",  # the grouped product has no fp64
            output_loading_info=True,
        )
    problems = {
        "missing_keys": "no tensors for these parameters, so its own are random",
        "mismatched_keys": "tensors of another shape",
    }
    return model.eval(), [
        f"the reference library has {what}: {', '.join(sorted(map(str, report[key]))[:10])}"
        for key, what in problems.items()
        if report[key]
    ]


@contextmanager
def _quiet(logging: Any) -> Iterator[None]:
    """Neither messages below errors nor progress bars of the reference library."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
