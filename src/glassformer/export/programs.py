"""Export to `torch.export` programs: a model's forward pass as one graph, with free batch size and lengths.

    program = export_program(model, input_ids=ids, attention_mask=mask)
    program.module()(input_ids=others, attention_mask=their_mask)["last_hidden_state"]
    torch.export.save(program, "model.pt2")

A program is a graph of tensor operations with the weights, which runs without this library, and from which other tools
compile. It cannot branch on numbers, so it does not check what it reads: ids out of range, for one.

    export_program    a whole forward pass: any family, any head
    export_encoder    an encoder-decoder's source: the keys and values that all its steps attend to
    export_step       one step of text generation: keys and values of earlier tokens in, those of all tokens out

Source: PyTorch documentation, "torch.export".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from glassformer.core.cache import FunctionalCache
from glassformer.core.flow import Batch, EncoderOutput, Flow, Output
from glassformer.core.quantised import FixedProgram
from glassformer.edge import TOKEN_INPUTS, ModelInputs, read_call, reject_arguments
from glassformer.engine.prepare import prepared_precision
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.loaded_model import LoadedModel

INPUTS = (*TOKEN_INPUTS, *ModelInputs.__annotations__)
FIXED_SIZES = ("pixel_values", "input_features")
"""Inputs whose size the model fixes but for the batch: images and spectrograms."""


def export_program(model: LoadedModel, **example: Tensor) -> ExportedProgram:
    """Export a forward pass as a program whose inputs may have any number of rows, tokens, samples or regions.

    Args:
        example: the arguments of a call `model(…)`; the program takes the same ones. With an `attention_mask` it reads
            padded rows. Two rows and two tokens at least: a size of 1 would be taken for a constant.
    Returns: the program; its module returns a dict of tensors by the names of `Output`.
    Raises: ConfigError: the model is in training mode or has packed weights; a size of the example is 1.

    Where a model computes long texts in another way than short ones, as block-sparse attention does, the program takes
    texts of the example's kind alone. An LSTM, as EnCodec has, is written out step by step by `torch.export`: such a
    program takes sounds of the example's length, in any number of rows.
    """
    return _export_call(_ForwardPass(model), "export_program", example)


def export_encoder(model: LoadedModel, **example: Tensor) -> ExportedProgram:
    """Export the encoder of an encoder-decoder, as what its steps of text generation need of it.

        encoder(input_ids [B, S], …) ──> {"encoder_keys": …, "encoder_values": …}

    Args:
        example: the source as in a call `model(…)`, with its `attention_mask`; see `export_program`.
    Returns: the program; encoder_keys, encoder_values: a list with a tensor of each layer, [B, K, S, E].
    Raises: as `export_program`. UnsupportedError: it is no encoder-decoder.
    """
    return _export_call(_Encoder(model), "export_encoder", example)


def export_step(model: LoadedModel) -> ExportedProgram:
    """Export a step of text generation with a functional key-value cache, for any number of rows and tokens.

        step(input_ids [B, T], attention_mask [B, T], past_mask [B, past], keys, values)
            ──> {"logits": [B, T, V], "keys": …, "values": …}

    keys, values: a list with a tensor of each layer, [B, K, past, E], those of the result T tokens longer; at first the
    past has length 0, and the tokens are those of the prompt. attention_mask, past_mask: 0 where a token is padding.

    An encoder-decoder's step takes encoder_keys and encoder_values as well, as the program of `export_encoder` gives
    them, and encoder_mask, 0 where the source is padding. [B, S]
    Raises: ConfigError: the model is in training mode or has packed weights. UnsupportedError: it generates no text.
    """
    step = _Seq2SeqStep(model) if model.is_encoder_decoder else _DecodingStep(model)

    def rows(*size: int, dtype: torch.dtype) -> Tensor:
        return torch.ones(2, *size, dtype=dtype, device=model.device)

    def tensors(tokens: int) -> list[Tensor]:
        # Made for each: one tensor given twice would become one input.
        return [rows(layer.spec.K, tokens, layer.spec.E, dtype=model.dtype) for layer in step.layers]

    example: dict[str, Any] = {
        "input_ids": rows(2, dtype=torch.long),
        "attention_mask": rows(2, dtype=torch.bool),
        "past_mask": rows(3, dtype=torch.bool),
        "keys": tensors(3),
        "values": tensors(3),
    }
    sizes: dict[str, Any] = dict.fromkeys(("input_ids", "attention_mask", "past_mask"), _free(0, 1))
    if isinstance(step, _Seq2SeqStep):
        example |= {"encoder_keys": tensors(5), "encoder_values": tensors(5), "encoder_mask": rows(5, dtype=torch.bool)}
        sizes["encoder_mask"] = _free(0, 1)
    lists = {name: [_free(0, 2)] * len(given) for name, given in example.items() if isinstance(given, list)}
    return _export(step, example, sizes | lists)


def _free(*axes: int) -> dict[int, Any]:
    return dict.fromkeys(axes, Dim.DYNAMIC)


class _ForwardPass(nn.Module):
    """A network that takes and returns tensors by name."""

    def __init__(self, model: LoadedModel) -> None:
        super().__init__()
        _check_exportable(model)
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
    ) -> dict[str, Any]:
        inputs = {name: x for name, x in locals().items() if name in INPUTS}
        return self.outputs(*read_call(self.network, self.family, inputs, cache=None, tape=None))

    def outputs(self, batch: Batch, flow: Flow) -> dict[str, Any]:
        output: Output = self.network(batch, flow)
        return {name: x for name, x in output.present().items() if isinstance(x, Tensor)}


class _Encoder(_ForwardPass):
    """The encoder of an encoder-decoder, and the keys and values that its decoder's layers make of the output."""

    def __init__(self, model: LoadedModel) -> None:
        super().__init__(model)
        if not model.is_encoder_decoder:
            raise UnsupportedError(
                f"an encoder's keys and values belong to an encoder-decoder; this is a {model.family.model_type!r} "
                f"model for {model.task}: export_program exports all of it"
            )
        self.layers = [block.cross for block in model.network.stacks()["target"] if block.cross is not None]

    def outputs(self, batch: Batch, flow: Flow) -> dict[str, Any]:
        memory = self.network.memory(batch, flow)
        assert memory is not None  # an encoder-decoder's
        pairs = [layer.keys_values(memory.states) for layer in self.layers]
        return {"encoder_keys": [k for k, _ in pairs], "encoder_values": [v for _, v in pairs]}


class _DecodingStep(nn.Module):
    """A decoder that takes and returns the keys and values of its attention layers."""

    def __init__(self, model: LoadedModel) -> None:
        super().__init__()
        _check_exportable(model)
        if model.task != "text-generation" and not model.is_encoder_decoder:
            raise UnsupportedError(
                f"a step of text generation needs a decoder; this is a {model.family.model_type!r} model for "
                f"{model.task}: load one with task='text-generation'"
            )
        self.network = model.network
        self.family = model.family.model_type
        stacks = model.network.stacks()
        self.blocks = [*stacks.get("target", next(iter(stacks.values())))]
        self.layers = [block.attn for block in self.blocks]

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, past_mask: Tensor, keys: list[Tensor], values: list[Tensor]
    ) -> dict[str, Any]:
        cache = FunctionalCache(_by_layer(self.layers, keys, values))
        given = {"input_ids": input_ids, "attention_mask": torch.cat([past_mask, attention_mask], 1)}
        return self.step(*read_call(self.network, self.family, given, cache=cache, tape=None), cache)

    def step(self, batch: Batch, flow: Flow, cache: FunctionalCache) -> dict[str, Any]:
        output: Output = self.network(batch, flow)
        pairs = [cache.keys_values(layer) for layer in self.layers]
        return {"logits": output.logits, "keys": [k for k, _ in pairs], "values": [v for _, v in pairs]}


class _Seq2SeqStep(_DecodingStep):
    """The decoder of an encoder-decoder, which attends to keys and values of the source too."""

    def forward(  # type: ignore[override] # by name, as `torch.export` calls it
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        past_mask: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
        encoder_keys: list[Tensor],
        encoder_values: list[Tensor],
        encoder_mask: Tensor,
    ) -> dict[str, Any]:
        cross = [block.cross for block in self.blocks]
        cache = FunctionalCache(_by_layer(self.layers, keys, values), _by_layer(cross, encoder_keys, encoder_values))
        mask = torch.cat([past_mask, attention_mask], 1)
        given = {"decoder_input_ids": input_ids, "decoder_attention_mask": mask}
        batch, flow = read_call(self.network, self.family, given, cache=cache, tape=None)
        # The encoder's states themselves are not needed: the cache holds all that is made of them.
        memory = EncoderOutput(encoder_keys[0].new_empty(0), encoder_mask[:, None])
        return self.step(batch, replace(flow, memory=memory), cache)


def _by_layer(
    layers: list[nn.Module], keys: list[Tensor], values: list[Tensor]
) -> dict[nn.Module, tuple[Tensor, Tensor]]:
    return dict(zip(layers, zip(keys, values, strict=True), strict=True))


def _check_exportable(model: LoadedModel) -> None:
    if isinstance(model.network, FixedProgram):
        model.network.refuse("exported again")
    if model.network.training:
        raise ConfigError("the model is in training mode, whose dropout would be exported; call model.eval()")
    if prepared_precision(model.network) is not None:
        raise ConfigError(
            "the weights are packed for this processor, which no program can hold; call model.unprepare()"
        )


def _export_call(module: _ForwardPass, caller: str, example: dict[str, Tensor]) -> ExportedProgram:
    """Export a module that takes the arguments of a call, with free sizes."""
    reject_arguments(caller, {name: x for name, x in example.items() if name not in INPUTS})
    sizes: dict[str, Any] = {}
    recurrent = any(isinstance(x, nn.LSTM) for x in module.modules())
    for name, x in example.items():
        if not isinstance(x, Tensor):
            raise DataError(f"the example's {name} is a {type(x).__name__}; it must be a tensor")
        free = (0,) if recurrent or name in FIXED_SIZES else (0, 1)
        if x.dim() < len(free) or any(x.shape[axis] < 2 for axis in free):
            raise ConfigError(
                f"the example's {name} has shape {list(x.shape)}; a size of 1 would be fixed in the program: give two "
                "rows at least, of two tokens or more"
            )
        sizes[name] = _free(*free)
    return _export(module, example, sizes)


def _export(module: nn.Module, example: dict[str, Any], sizes: dict[str, Any]) -> ExportedProgram:
    with torch.no_grad():
        return torch.export.export(module.eval(), (), example, dynamic_shapes=sizes)
