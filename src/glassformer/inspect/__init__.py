"""Model inspection: structure, sizes, FLOPs and RAM of a network, and every number of a forward pass."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from glassformer.files.lazy import LazyPackage

if TYPE_CHECKING:
    from glassformer.inspect.embeddings.contextual import ContextualEmbeddings, CosineTable, LayerCurve, Occurrence
    from glassformer.inspect.embeddings.occurrences import embed_texts, embed_words, find_word
    from glassformer.inspect.embeddings.senses import Senses
    from glassformer.inspect.head import AttentionHead
    from glassformer.inspect.inputs import SessionInput, text_input, translation_input
    from glassformer.inspect.outline import Outline, outline
    from glassformer.inspect.overview import Overview
    from glassformer.inspect.patching.effects import PatchResult
    from glassformer.inspect.patching.patches import Component
    from glassformer.inspect.patching.sweep import PatchSweep
    from glassformer.inspect.ram import RamEstimate, RamUsage, ram
    from glassformer.inspect.session import AttentionMap, Session
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
    "Outline",
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
    "outline",
    "ram",
    "sizes",
    "summary",
    "text_input",
    "trace",
    "translation_input",
]

_LAZY = {
    "AttentionHead": "glassformer.inspect.head",
    "AttentionMap": "glassformer.inspect.session",
    "Component": "glassformer.inspect.patching.patches",
    "ContextualEmbeddings": "glassformer.inspect.embeddings.contextual",
    "CosineTable": "glassformer.inspect.embeddings.contextual",
    "LayerCurve": "glassformer.inspect.embeddings.contextual",
    "ModelSummary": "glassformer.inspect.summary",
    "ModuleNode": "glassformer.inspect.summary",
    "Occurrence": "glassformer.inspect.embeddings.contextual",
    "Outline": "glassformer.inspect.outline",
    "Overview": "glassformer.inspect.overview",
    "PatchResult": "glassformer.inspect.patching.effects",
    "PatchSweep": "glassformer.inspect.patching.sweep",
    "RamEstimate": "glassformer.inspect.ram",
    "RamUsage": "glassformer.inspect.ram",
    "Senses": "glassformer.inspect.embeddings.senses",
    "Session": "glassformer.inspect.session",
    "SessionInput": "glassformer.inspect.inputs",
    "Size": "glassformer.inspect.sizes",
    "TapRow": "glassformer.inspect.trace",
    "TensorRow": "glassformer.inspect.summary",
    "Token": "glassformer.inspect.tokens",
    "TracedLayer": "glassformer.inspect.trace",
    "Weight": "glassformer.inspect.summary",
    "embed_texts": "glassformer.inspect.embeddings.occurrences",
    "embed_words": "glassformer.inspect.embeddings.occurrences",
    "find_word": "glassformer.inspect.embeddings.occurrences",
    "fold_layers": "glassformer.inspect.trace",
    "outline": "glassformer.inspect.outline",
    "ram": "glassformer.inspect.ram",
    "sizes": "glassformer.inspect.sizes",
    "summary": "glassformer.inspect.summary",
    "text_input": "glassformer.inspect.inputs",
    "trace": "glassformer.inspect.trace",
    "translation_input": "glassformer.inspect.inputs",
}
"""Imported when used: a command line reads options of this package without torch."""

sys.modules[__name__].__class__ = LazyPackage
