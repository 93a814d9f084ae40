"""Model inspection: structure, sizes, FLOPs and RAM of a network, and every number of a forward pass."""

from __future__ import annotations

from glassformer.inspect.attention_map import AttentionMap
from glassformer.inspect.embeddings.contextual import ContextualEmbeddings, CosineTable, LayerCurve, Occurrence
from glassformer.inspect.embeddings.occurrences import embed_texts, embed_words, find_word
from glassformer.inspect.embeddings.senses import Senses
from glassformer.inspect.head import AttentionHead
from glassformer.inspect.inputs import SessionInput, text_input, translation_input
from glassformer.inspect.overview import Overview
from glassformer.inspect.patching.effects import PatchResult
from glassformer.inspect.patching.patches import Component
from glassformer.inspect.patching.sweep import PatchSweep
from glassformer.inspect.ram import RamEstimate, RamUsage, ram
from glassformer.inspect.session import Session
from glassformer.inspect.sizes import Size, sizes
from glassformer.inspect.summary import ModelSummary, ModuleNode, TensorRow, Weight, summary
from glassformer.inspect.tokens import Token
from glassformer.inspect.trace import TapRow, TracedLayer, fold_layers, trace

__all__ = [
    "AttentionHead",
    "AttentionMap",
    "Component",
    "ContextualEmbeddings",
    "CosineTable",
    "LayerCurve",
    "ModelSummary",
    "ModuleNode",
    "Occurrence",
    "Overview",
    "PatchResult",
    "PatchSweep",
    "RamEstimate",
    "RamUsage",
    "Senses",
    "Session",
    "SessionInput",
    "Size",
    "TapRow",
    "TensorRow",
    "Token",
    "TracedLayer",
    "Weight",
    "embed_texts",
    "embed_words",
    "find_word",
    "fold_layers",
    "ram",
    "sizes",
    "summary",
    "text_input",
    "trace",
    "translation_input",
]
