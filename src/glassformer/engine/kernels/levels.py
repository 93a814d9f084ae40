"""Quantisation of many tokens around an int8 product: numbers to levels before it, its result to numbers after it."""

from __future__ import annotations

from numba import float32, int8, uint16, uint32

from glassformer.engine.kernels.memory import (
    bits_of_float,
    bytes_,
    exact,
    float_of_bits,
    floats,
    formula,
    from_bf16,
    halves,
    to_bf16,
)
from glassformer.engine.program import LEVELS, NumberFormat


@exact
def level(x, inverse):
    """The nearest level of x, even ones first, as an unsigned byte: -127 … 127 becomes 1 … 255."""
    shifted = x * inverse + float32(12_582_912)  # 1.5 · 2²³: the whole number is in the lowest bits
    return int8(bits_of_float(shifted) ^ uint32(0x80))  # the sign bit flipped: + 128


@formula
def largest_fp32(x):
    """max |x|, by the bits without the sign, whose order is that of the numbers; NaN is the largest."""
    top = uint32(0)
    for i in range(x.size):
        top = max(top, uint32(bits_of_float(x[i]) & uint32(0x7FFFFFFF)))
    return float_of_bits(top)


@formula
def largest_bf16(x):
    top = uint16(0)
    for i in range(x.size):
        top = uint16(max(top, uint16(x[i] & uint16(0x7FFF))))
    return from_bf16(top)


@formula
def to_levels(op, chunk):
    """levels[t] = round(x[t] / step[t]),  step[t] = max |x[t]| / 127"""
    K, steps = op.inputs, floats(op.step, op.rows)
    for t in range(chunk * op.block, min((chunk + 1) * op.block, op.rows)):
        levels = bytes_(op.y + t * K, K)
        if op.format == NumberFormat.FP32:
            wide = floats(op.x + 4 * t * K, K)
            largest = largest_fp32(wide)
        else:
            narrow = halves(op.x + 2 * t * K, K)
            largest = largest_bf16(narrow)
        # A token of zeros has the levels 0, not 0 / 0.
        largest = float32(1e-30) if largest < float32(1e-30) else largest
        steps[t], inverse = largest / float32(LEVELS), float32(LEVELS) / largest
        if op.format == NumberFormat.FP32:
            for i in range(K):
                levels[i] = level(wide[i], inverse)
        else:
            for i in range(K):
                levels[i] = level(from_bf16(narrow[i]), inverse)


@formula
def from_levels(op, chunk):
    """y[t] = step[t] · y[t] + b, in place"""
    N, steps = op.outputs, floats(op.step, op.rows)
    shifts = floats(op.bias, N)
    for t in range(chunk * op.block, min((chunk + 1) * op.block, op.rows)):
        wide, narrow, step = floats(op.y + 4 * t * N, N), halves(op.y + 2 * t * N, N), steps[t]
        if op.format == NumberFormat.FP32:
            for n in range(N):
                wide[n] = step * wide[n] + (shifts[n] if op.bias else float32(0))
        else:
            for n in range(N):
                narrow[n] = to_bf16(step * from_bf16(narrow[n]) + (shifts[n] if op.bias else float32(0)))
