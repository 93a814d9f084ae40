"""Fused path of a stack for a few tokens: a step of generation as one program of compiled kernels.

    prepare(network) ──> stack.few_tokens = DecodeStep()
    stack(x, flow)   ──> few tokens, a cache, no tape attached: one program for all blocks; else block by block

A stack is understood by what its blocks are made of, never by family: see `step_program`. With any other part it keeps
to the plain path, which is the truth that this one is tested against.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from torch import Tensor

from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Flow
from glassformer.engine import native
from glassformer.engine.few_tokens import MAX_TOKENS
from glassformer.engine.fused_path import is_plain_call, is_watched, weights_state
from glassformer.engine.step_fields import NotUnderstood
from glassformer.engine.step_program import StepProgram

if TYPE_CHECKING:
    from glassformer.core.stack import Stack


class DecodeStep:
    """What a prepared stack does with a few tokens. Copies and pickles have no programs and compile them again."""

    def __init__(self) -> None:
        # By rows, tokens, and whether there is a memory: those that no thread runs.
        self._programs: dict[tuple[int, int, bool], list[StepProgram]] = {}
        self._weights: tuple[Any, ...] | None = None  # that the programs read
        self._understood = True
        self._checked: weakref.WeakSet[KeyValueCache] = weakref.WeakSet()  # caches that began with these weights

    def __reduce__(self) -> tuple[Any, ...]:
        return DecodeStep, ()

    def __call__(self, stack: Stack, x: Tensor, flow: Flow) -> Tensor | None:
        """The stream after the last block; None where this is not for the fused path. [B, T, D]"""
        B, T, _ = x.shape
        if type(flow.cache) is not KeyValueCache or flow.packing is not None or not is_plain_call(x, flow):
            return None
        kernel = native.kernel() if B * T <= MAX_TOKENS else None
        if kernel is None or not self._is_current(stack, flow):
            return None
        form = B, T, flow.memory is not None
        idle = self._programs.setdefault(form, [])
        try:
            program = idle.pop() if idle else StepProgram(stack, *form)
        except NotUnderstood:
            self._understood = False
            return None
        if not program.bind(x, flow):
            idle.append(program)
            return None
        program.job.run(kernel)
        y = program.stream.to(x.dtype, copy=True)
        idle.append(program)
        assert flow.cache is not None
        flow.cache.advance(T)
        return y

    def _is_current(self, stack: Stack, flow: Flow) -> bool:
        """Whether the programs read the stack's weights as they are now; looked up once for each cache."""
        if flow.cache in self._checked:
            return self._understood
        modules = list(stack.modules())
        weights = weights_state(modules)
        if weights != self._weights:
            self._programs, self._understood = {}, True
            self._weights = weights  # last: an interrupt leaves no programs of other weights
        if is_watched(modules):
            return False
        assert flow.cache is not None
        self._checked.add(flow.cache)
        return self._understood
