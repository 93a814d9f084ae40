"""Export to `torch.export` programs: a model's forward pass as one graph, with free batch size and lengths.

    program = export_program(model, input_ids=ids, attention_mask=mask)
    program.module()(input_ids=others, attention_mask=their_mask)["last_hidden_state"]
    torch.export.save(program, "model.pt2")

A program is a graph of tensor operations with the weights, which runs without this library, and from which other tools
compile. It cannot branch on numbers, so it does not check what it reads: ids out of range, for one.

    export_program    a whole forward pass: any family, any head
    export_step       one step of text generation: keys and values of earlier tokens in, those of all tokens out

Source: PyTorch documentation, "torch.export".
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from glassformer.core.cache import FunctionalCache
from glassformer.core.flow import Output
from glassformer.edge import TOKEN_INPUTS, ModelInputs, read_call, reject_arguments
from glassformer.engine.prepare import prepared_precision
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.pretrained import PretrainedModel

INPUTS = (*TOKEN_INPUTS, *ModelInputs.__annotations__)
FIXED_SIZES = ("pixel_values", "input_features")
"""Inputs whose size the model fixes but for the batch: images and spectrograms."""


def export_program(model: PretrainedModel, **example: Tensor) -> ExportedProgram:
    """Export a forward pass as a program whose inputs may have any number of rows, tokens, samples or regions.

    Args:
        example: the arguments of a call `model(…)`; the program takes the same ones. With an `attention_mask` it reads
            padded rows. Two rows and two tokens at least: a size of 1 would be taken for a constant.
    Returns: the program; its module returns a dict of tensors by the names of `Output`.
    Raises: ConfigError: the model is in training mode or has packed weights; a size of the example is 1.

    Where a model computes long texts in another way than short ones, as block-sparse attention does, the program takes
    texts of the example's kind alone.
    """
    _check_exportable(model)
    reject_arguments("export_program", {name: x for name, x in example.items() if name not in INPUTS})
    sizes: dict[str, Any] = {}
    for name, x in example.items():
        free = (0,) if name in FIXED_SIZES else (0, 1)
        if any(x.shape[axis] < 2 for axis in free):
            raise ConfigError(
                f"the example's {name} has shape {list(x.shape)}; a size of 1 would be fixed in the program: give two "
                "rows at least, of two tokens or more"
            )
        sizes[name] = dict.fromkeys(free, Dim.DYNAMIC)
    return _export(_ForwardPass(model), example, sizes)


def export_step(model: PretrainedModel) -> ExportedProgram:
    """Export a step of text generation with a functional key-value cache, for any number of rows and earlier tokens.

        step(input_ids [B, 1], past_mask [B, past], keys, values)
            ──> {"logits": [B, 1, V], "keys": …, "values": …}

    keys, values: a list with a tensor of each layer, [B, K, past, E], those of the result a token longer; at first the
    past has length 0. past_mask: 0 where the past is padding.
    Raises: ConfigError: the model is in training mode or has packed weights. UnsupportedError: it is no decoder.
    """
    _check_exportable(model)
    step = _DecodingStep(model)
    ids = torch.zeros(2, 1, dtype=torch.long, device=model.device)
    past = [
        torch.zeros(2, layer.spec.K, 3, layer.spec.E, dtype=model.dtype, device=model.device) for layer in step.layers
    ]
    example = {
        "input_ids": ids,
        "past_mask": torch.ones(2, 3, dtype=torch.bool, device=model.device),
        "keys": past,
        "values": [x.clone() for x in past],  # one tensor given twice would become one input
    }
    free = {0: Dim.DYNAMIC, 2: Dim.DYNAMIC}
    sizes = {
        "input_ids": {0: Dim.DYNAMIC},
        "past_mask": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC},
        "keys": [free] * len(past),
        "values": [free] * len(past),
    }
    return _export(step, example, sizes)


class _ForwardPass(nn.Module):
    """A network that takes and returns tensors by name."""

    def __init__(self, model: PretrainedModel) -> None:
        super().__init__()
        self.network = model.network
        self.family = model.family.model_type

    # By name, since `torch.export` gives no free sizes to **inputs.
    def forward(
        self,
        *,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        bbox: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        input_values: Tensor | None = None,
        input_features: Tensor | None = None,
        pixel_values: Tensor | None = None,
        visual_feats: Tensor | None = None,
        visual_pos: Tensor | None = None,
        visual_attention_mask: Tensor | None = None,
    ) -> dict[str, Tensor]:
        inputs = {name: x for name, x in locals().items() if name in INPUTS}
        output: Output = self.network(*read_call(self.network, self.family, inputs, cache=None, tape=None))
        return {name: x for name, x in output.present().items() if isinstance(x, Tensor)}


class _DecodingStep(nn.Module):
    """A decoder that takes and returns the keys and values of its attention layers."""

    def __init__(self, model: PretrainedModel) -> None:
        super().__init__()
        if model.task != "text-generation" or "decoder_input_ids" in model.network.READS:
            raise UnsupportedError(
                f"a step of text generation needs a decoder; this is a {model.family.model_type!r} model for "
                f"{model.task}: load one with task='text-generation'"
            )
        self.network = model.network
        self.family = model.family.model_type
        self.layers = [block.attn for stack in self.network.stacks().values() for block in stack]

    def forward(self, input_ids: Tensor, past_mask: Tensor, keys: list[Tensor], values: list[Tensor]) -> dict[str, Any]:
        cache = FunctionalCache(dict(zip(self.layers, zip(keys, values, strict=True), strict=True)))
        mask = torch.cat([past_mask, torch.ones_like(input_ids, dtype=past_mask.dtype)], dim=1)
        given = {"input_ids": input_ids, "attention_mask": mask}
        output: Output = self.network(*read_call(self.network, self.family, given, cache=cache, tape=None))
        pairs = [cache.keys_values(layer) for layer in self.layers]
        return {"logits": output.logits, "keys": [k for k, _ in pairs], "values": [v for _, v in pairs]}


def _check_exportable(model: PretrainedModel) -> None:
    if model.network.training:
        raise ConfigError("the model is in training mode, whose dropout would be exported; call model.eval()")
    if prepared_precision(model.network) is not None:
        raise ConfigError(
            "the weights are packed for this processor, which no program can hold; call model.unprepare()"
        )


def _export(module: nn.Module, example: dict[str, Any], sizes: dict[str, Any]) -> ExportedProgram:
    with torch.no_grad():
        return torch.export.export(module.eval(), (), example, dynamic_shapes=sizes)
