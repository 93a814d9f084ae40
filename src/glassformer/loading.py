"""Options of loading a model, as data: keywords of `load`, with their documentation and their allowed values.

    loading = Loading(device="auto", offline=True)
    model = load(name, **given(loading))

A command line has an option for each; a module of its own, since `load` itself takes torch to import.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from glassformer.files.schema import Doc, Schema
from glassformer.task_names import ANSWERED, beginning

LOADING = "Loading"


@dataclass(frozen=True, kw_only=True)
class Loading(Schema):
    """Where a model is found, and how it is loaded."""

    device: Annotated[str, Doc("Device: cpu, cuda, mps, or auto.", LOADING)] = "cpu"
    dtype: Annotated[
        Literal["float32", "float64", "float16", "bfloat16", "int8", "int4", "auto"] | None,
        Doc(
            "Data type of the weights: float32, bfloat16, …; int8 and int4: quantised as they are read. Default: the "
            "checkpoint's.",
            LOADING,
        ),
    ] = None
    revision: Annotated[str | None, Doc("Model revision on the Hub: a branch, tag or commit.", LOADING)] = None
    allow_pickle: Annotated[
        bool, Doc("Allow pickle checkpoints: read old .bin and .pt files, in a sandboxed child process.", LOADING)
    ] = False
    offline: Annotated[bool, Doc("Offline mode: never open a network connection.", LOADING)] = False
    base: Annotated[
        str | None, Doc("Base model of a folder of adapters (PEFT), in place of the one that they name.", LOADING)
    ] = None


@dataclass(frozen=True, kw_only=True)
class HeadLoading(Loading):
    """A model with a head of its own choosing."""

    task: Annotated[str | None, Doc(f"Model head (task): {beginning(ANSWERED, 2)} Default: the checkpoint's.")] = None


@dataclass(frozen=True, kw_only=True)
class InferenceLoading(Loading):
    """A model whose weights are packed for inference."""

    precision: Annotated[
        Literal["fp32", "fp16", "bf16", "int8"] | None,
        Doc(
            "Inference precision: fp16, bf16 or int8. Packed weights: faster, slightly different results.",
            LOADING,
        ),
    ] = None
