"""Steps of text generation by an ONNX program, which takes and returns keys and values.

    input_ids, attention_mask [B, T]   past_mask [B, past]   keys_0, values_0 … [B, K, past, E]
        ──step.onnx──> logits [B, T, V]   new_keys_0, new_values_0 … [B, K, past + T, E]

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


class OnnxSteps:
    """A decoder that ONNX Runtime runs, with a key-value cache.

    Raises: UnsupportedError: the program reads or gives other tensors than a step.
    """

    def __init__(self, program: OnnxProgram) -> None:
        self.program = program
        count = sum(name.startswith("keys_") for name in program.inputs)
        self._past = [(f"keys_{i}", f"values_{i}") for i in range(count)]
        names = [name for pair in self._past for name in pair]
        self._source = [SOURCE + name for name in names if SOURCE + name in program.inputs]
        of_source = {*self._source, "encoder_mask"} if self._source else set()
        reads = {"input_ids", "attention_mask", "past_mask", *names, *of_source}
        gives = {"logits", *(f"new_{name}" for name in names)}
        if not count or reads != program.inputs.keys() or gives != set(program.outputs):
            raise UnsupportedError(
                f"{program.path}: is no step of text generation as it is written here, which reads input_ids, "
                "attention_mask, past_mask, keys_0, values_0, … and gives logits, new_keys_0, new_values_0, …; export "
                "the model again"
            )
        self._sizes = {name: (int(shape[1]), int(shape[3])) for name in names for shape in [program.shape(name)]}
        # Layers have a place in the cache by their path.
        self._layers = [Node() for _ in range(count)]
        for i, layer in enumerate(self._layers):
            layer.path = f"blocks.{i}"

    @property
    def reads_source(self) -> bool:
        """Whether it is the decoder of an encoder-decoder."""
        return bool(self._source)

    def __call__(
        self, ids: Tensor | None, keep: Tensor | None, cache: KeyValueCache, memory: EncoderOutput | None = None
    ) -> Tensor:
        """The logits of tokens that follow those of the cache, which takes up theirs. [B, T, V]

        Args:
            ids: [B, T]
            keep: which tokens are no padding. [B, 1, past + T] bool; None = all
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
            buffer[:, :, past:total] = made[f"new_{name}"][:, :, past:]
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
