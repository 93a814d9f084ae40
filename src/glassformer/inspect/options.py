"""Options of a model summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from glassformer.files.schema import Count, Doc, Schema


@dataclass(frozen=True, kw_only=True)
class SummaryOptions(Schema):
    """What a summary counts and lists."""

    tokens: Annotated[Count, Doc("Sequence length in tokens, for FLOPs and memory.")] = 128
    memory: Annotated[bool, Doc("Estimate the memory of training and inference.")] = False
    batch: Annotated[Count, Doc("Batch size, for memory.")] = 1
    names: Annotated[bool, Doc("List the weight tensors, with our names and those in the checkpoint.")] = False
    taps: Annotated[bool, Doc("List every tap, without folding repeated layers.")] = False
