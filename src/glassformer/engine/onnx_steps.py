"""Steps of text generation by an ONNX program, which takes and returns keys and values.

    input_ids, attention_mask [B, T]   past_mask [B, past]   keys_0, values_0 … [B, K, past, E]
        ──step.onnx──> logits [B, T, V]   new_keys_0, new_values_0 … [B, K, past + T, E]

    input_ids, position_ids [B, T]   attention_mask [B, past + T]   past_key_values.0.key, …
        ──model.onnx──> logits [B, T, V]   present.0.key, …         optimum's file, which takes whole texts as well

An encoder-decoder's step reads keys and values of the source as well, which its encoder's program makes.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import EncoderOutput, Node
from glassformer.engine.onnx_program import OnnxProgram
from glassformer.errors import ConfigError, UnsupportedError

SOURCE = "encoder_"
OWN = ("keys_{}", "values_{}", "new_keys_{}", "new_values_{}")
OPTIMUM = ("past_key_values.{}.key", "past_key_values.{}.value", "present.{}.key", "present.{}.value")
"""Names of keys and values: those read, and those given."""


def reads_past(program: OnnxProgram) -> bool:
    """Whether it is optimum's file of a decoder: of whole texts, with keys and values of earlier tokens."""
    return OPTIMUM[0].format(0) in program.inputs


class OnnxSteps:
    """A decoder that ONNX Runtime runs, with a key-value cache.

    Raises: UnsupportedError: the program reads or gives other tensors than a step.
    """

    def __init__(self, program: OnnxProgram) -> None:
        self.program = program
        self.takes_whole_texts = reads_past(program)
        scheme = OPTIMUM if self.takes_whole_texts else OWN
        count = next(i for i in range(len(program.inputs) + 1) if scheme[0].format(i) not in program.inputs)
        self._past = [(scheme[0].format(i), scheme[1].format(i)) for i in range(count)]
        names = [name for pair in self._past for name in pair]
        made = [form.format(i) for i in range(count) for form in scheme[2:]]
        self._made = dict(zip(names, made, strict=True))
        self._source = [SOURCE + name for name in names if SOURCE + name in program.inputs]
        of_source = {*self._source, "encoder_mask"} if self._source else set()
        masks = {"position_ids"} & program.inputs.keys() if self.takes_whole_texts else {"past_mask"}
        reads = {"input_ids", "attention_mask", *masks, *names, *of_source}
        shapes = {name: program.shape(name) for name in names}
        fixed = all(len(x) == 4 and isinstance(x[1], int) and isinstance(x[3], int) for x in shapes.values())
        if not count or reads != program.inputs.keys() or {"logits", *made} != set(program.outputs) or not fixed:
            raise UnsupportedError(
                f"{program.path}: is no step of text generation as it is written here, which reads input_ids, "
                "attention_mask, past_mask, keys_0, values_0, … and gives logits, new_keys_0, new_values_0, …, nor as "
                "optimum writes it (past_key_values.0.key, …, present.0.key, …; heads and widths fixed); export the "
                "model again"
            )
        self._sizes = {name: (int(shape[1]), int(shape[3])) for name, shape in shapes.items()}
        # Layers have a place in the cache by their path.
        self._layers = [Node() for _ in range(count)]
        for i, layer in enumerate(self._layers):
            layer.path = f"blocks.{i}"

    @property
    def reads_source(self) -> bool:
        """Whether it is the decoder of an encoder-decoder."""
        return bool(self._source)

    def no_past(self, rows: int) -> dict[str, Tensor]:
        """Keys and values of no earlier tokens, by their names. [B, K, 0, E]"""
        return {
            name: torch.empty(rows, heads, 0, width, dtype=self.program.inputs[name])
            for name, (heads, width) in self._sizes.items()
        }

    def __call__(
        self,
        ids: Tensor | None,
        keep: Tensor | None,
        cache: KeyValueCache,
        memory: EncoderOutput | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """The logits of tokens that follow those of the cache, which takes up theirs. [B, T, V]

        Args:
            ids: [B, T]
            keep: which tokens are no padding. [B, 1, past + T] bool; None = all
            positions: of a program that reads them. [B, T]; None = counted without padding
            memory: of an encoder-decoder: what `joined` made
        Raises: ConfigError: vectors in the place of ids, a mask of pairs of tokens, or the cache of another model.
        """
        path = self.program.path
        if ids is None or ids.is_floating_point():
            raise ConfigError(f"{path}: reads numbers of tokens; got {'none' if ids is None else 'vectors'}")
        if keep is not None and keep.shape[1] != 1:
            raise ConfigError(f"{path}: takes a mask of tokens, and not of pairs of them [B, T, T]")
        B, T = ids.shape
        past, total = cache.length, cache.length + T
        mask = torch.ones(B, total, dtype=torch.bool) if keep is None else keep[:, 0]
        given = {"input_ids": ids, "attention_mask": mask[:, past:], "past_mask": mask[:, :past]}
        if self.takes_whole_texts:
            counted = (mask.long().cumsum(1) - 1).clamp(min=0)[:, past:]
            given = {"input_ids": ids, "attention_mask": mask}
            given["position_ids"] = counted if positions is None else positions.expand(B, T)
        buffers: dict[str, Tensor] = {}
        for names, layer in zip(self._past, self._layers, strict=True):
            new = [
                torch.empty(B, heads, T, width, dtype=self.program.inputs[name])
                for name in names
                for heads, width in [self._sizes[name]]
            ]
            buffers |= zip(names, cache.reserve(layer, new[0], new[1], T), strict=True)
        given |= {name: buffer[:, :, :past] for name, buffer in buffers.items()}
        if memory is not None:
            given |= self._of_source(memory, B)
        made = self.program(given)
        for name, buffer in buffers.items():
            buffer[:, :, past:total] = made[self._made[name]][:, :, past:]
        cache.advance(T)
        return made["logits"]

    def joined(self, made: Mapping[str, Tensor]) -> Tensor:
        """Keys and values of the source in all layers, side by side. [B, S, Σ K E]"""
        return torch.cat([made[name].transpose(1, 2).flatten(2) for name in self._source], dim=-1)

    def _of_source(self, memory: EncoderOutput, rows: int) -> dict[str, Tensor]:
        """What `joined` made as the program reads it; rows that share a source are neighbours."""
        sharing = rows // len(memory.states)
        states = memory.states.repeat_interleave(sharing, dim=0)
        keep = torch.ones(states.shape[:2]) if memory.keep is None else memory.keep[:, 0].repeat_interleave(sharing, 0)
        sizes = [self._sizes[name.removeprefix(SOURCE)] for name in self._source]
        parts = states.split([heads * width for heads, width in sizes], dim=-1)
        split = (x.unflatten(-1, size).transpose(1, 2) for x, size in zip(parts, sizes, strict=True))
        return {"encoder_mask": keep, **dict(zip(self._source, split, strict=True))}
