"""Export to programs of `torch.export` and to ONNX: a forward pass, an encoder, a step of text generation.

programs.py   torch.export programs, with free batch size and lengths
onnx.py       the same programs as ONNX files, in a folder with config and tokenizer
"""

from glassformer.export.onnx import FORMATS, example_inputs, export_folder, export_onnx
from glassformer.export.programs import export_encoder, export_program, export_step

__all__ = [
    "FORMATS",
    "example_inputs",
    "export_encoder",
    "export_folder",
    "export_onnx",
    "export_program",
    "export_step",
]
