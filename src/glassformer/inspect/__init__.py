"""Model inspection: structure, sizes, FLOPs and RAM of a network, and every number of a forward pass."""

from __future__ import annotations

from glassformer.deprecation import former_names
from glassformer.inspect.head import AttentionHead
from glassformer.inspect.inputs import SessionInput, text_input, translation_input
from glassformer.inspect.overview import Overview
from glassformer.inspect.ram import RamEstimate, RamUsage, ram
from glassformer.inspect.session import AttentionMap, Session
from glassformer.inspect.sizes import Size, sizes
from glassformer.inspect.summary import ModelSummary, ModuleNode, TensorRow, Weight, summary
from glassformer.inspect.tokens import Token
from glassformer.inspect.trace import TapRow, TracedLayer, fold_layers, trace

__all__ = [
    "AttentionHead",
    "AttentionMap",
    "ModelSummary",
    "ModuleNode",
    "Overview",
    "RamEstimate",
    "RamUsage",
    "Session",
    "SessionInput",
    "Size",
    "TapRow",
    "TensorRow",
    "Token",
    "TracedLayer",
    "Weight",
    "fold_layers",
    "ram",
    "sizes",
    "summary",
    "text_input",
    "trace",
    "translation_input",
]

__getattr__ = former_names(__name__)
