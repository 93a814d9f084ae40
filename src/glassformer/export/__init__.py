"""Export to programs of `torch.export`, to ONNX and to GGUF: a forward pass, an encoder, a step of text generation.

programs.py   torch.export programs, with free batch size and lengths
onnx.py       the same programs as ONNX files, in a folder with config and tokenizer
gguf.py       a decoder as a file of llama.cpp
onnx_int8.py  an ONNX file fused and quantised in 8 bits, and compared with its model
options.py    what is exported, in which format, and where to
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from glassformer.files.lazy import LazyPackage

if TYPE_CHECKING:
    from glassformer.export.gguf import export_gguf
    from glassformer.export.onnx import FORMATS, example_inputs, export_folder, export_onnx
    from glassformer.export.programs import export_encoder, export_program, export_step

__all__ = [
    "FORMATS",
    "example_inputs",
    "export_encoder",
    "export_folder",
    "export_gguf",
    "export_onnx",
    "export_program",
    "export_step",
]

_LAZY = {
    "export_gguf": "glassformer.export.gguf",
    **dict.fromkeys(("FORMATS", "example_inputs", "export_folder", "export_onnx"), "glassformer.export.onnx"),
    **dict.fromkeys(("export_encoder", "export_program", "export_step"), "glassformer.export.programs"),
}
"""Imported when used: a command line reads options of this package without torch."""

sys.modules[__name__].__class__ = LazyPackage
