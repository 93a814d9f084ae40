"""Blocks of an encoder for many tokens in 8 bits: products that end in what follows them, and attention of short texts.

    x ─ norm ─ levels ─ W ─┬─ step · y + b ─ activation ─ residual ─ norm ─> y         one pass of a few tokens,
                           └─ int32 sums, in registers                                 which the cache holds

Source: fused ends of products: Kim et al. 2021, "I-BERT"; Wang et al. 2021, "LightSeq"; texts without padding: Zeng et
al. 2022, "ByteTransformer".
"""

from __future__ import annotations

from numba import float32, njit, types

from glassformer.engine.kernels.formulas import activate, norm
from glassformer.engine.kernels.levels import largest_fp32, level
from glassformer.engine.kernels.memory import BARE, array_of, bytes_, copy, exact, floats, formula, integers
from glassformer.engine.kernels.tiles import LANES, floats_tile, levels_tile, softmax_rows, transpose
from glassformer.engine.program import LEVELS, TILE_FLOATS, TILE_OUTPUTS, TILE_TOKENS, Activation, Norm

words = array_of(types.int32)
SUM_BYTES = 4 * TILE_TOKENS * TILE_OUTPUTS
"""Sums of a tile, at the beginning of scratch memory; behind them are a number of each token and of each row."""

woven = njit(**BARE, fastmath={"reassoc", "contract", "nsz", "arcp"}, inline="always")
"""Into its caller before types are known: a loop of a fixed length stays one."""


@formula
def rows_from(address, first, last, nbytes):
    """The addresses of six rows; the last one stands in for those that are missing."""
    a, b, c = address + first * nbytes, address + min(first + 1, last) * nbytes, address + min(first + 2, last) * nbytes
    d, e, f = min(first + 3, last), min(first + 4, last), min(first + 5, last)
    return a, b, c, address + d * nbytes, address + e * nbytes, address + f * nbytes


@formula
def row_levels(x, place):
    """Round a token to levels at an address. Returns: the step."""
    levels, largest = bytes_(place, x.size), largest_fp32(x)
    largest = float32(1e-30) if largest < float32(1e-30) else largest
    inverse = float32(LEVELS) / largest
    for i in range(x.size):
        levels[i] = level(x[i], inverse)
    return largest / float32(LEVELS)


@formula
def gelu(x):
    """x Φ(x), to 6e-6, with neither a division nor an exponential: (1 + x P(x²)) x / 2 on ±5, and what is outside as 5.

    P is the minimax polynomial of erf(x / √2) / x in 2 (x / 5)² - 1, which keeps its coefficients small.
    """
    near = float32(-5) if x < float32(-5) else x
    near = float32(5) if near > float32(5) else near
    u = near * near * float32(0.08) - float32(1)
    p = float32(0.0063888901) - float32(0.0021926879) * u
    p = float32(0.010226588) + u * (float32(-0.00777379) + u * p)
    p = float32(0.033820234) + u * (float32(-0.020330876) + u * p)
    p = float32(0.062713459) + u * (float32(-0.047249913) + u * p)
    p = float32(0.10305079) + u * (float32(-0.080783971) + u * p)
    p = float32(0.28272751) + u * (float32(-0.14059646) + u * p)
    half = float32(0.5) * x
    return half + half * (near * p)


@woven
def finish(op, sums, step, scales, shifts, y, count):
    """y = activation(step · scale · sum + b), or y += factor · (…), of one token and this many outputs."""
    if op.adds:
        factor = float32(op.factor)
        for n in range(count):
            y[n] += factor * (float32(sums[n]) * (step * scales[n]) + shifts[n])
    elif op.activation == Activation.GELU:
        for n in range(count):
            y[n] = gelu(float32(sums[n]) * (step * scales[n]) + shifts[n])
    else:
        for n in range(count):
            y[n] = float32(sums[n]) * (step * scales[n]) + shifts[n]
        activate(op.activation, y[:count])


@formula
def product_of_many(op, chunk, scratch):
    """y = norm'(y + factor · (W norm(x) + b)), or activation(W norm(x) + b), of a block of tokens.

    Without an address of y the result stays in the thread's scratch memory; without one of x that is the input.
    """
    K, N = op.inputs, op.outputs
    first = chunk * op.block
    tokens = min(op.block, op.rows - first)
    steps, normed = floats(scratch + SUM_BYTES, tokens), scratch + op.spare
    levels, neurons = scratch + op.levels, scratch + op.neurons
    x = op.x + 4 * first * K if op.x else neurons
    for t in range(tokens):
        row = floats(x + 4 * t * K, K)
        if op.norm != Norm.NONE:
            norm(op.norm, row, op.gain, op.shift, op.eps, floats(normed, K))
            row = floats(normed, K)
        steps[t] = row_levels(row, levels + t * op.level_bytes)
    y = op.y + 4 * first * N if op.y else neurons
    for start in range(0, N, TILE_OUTPUTS):
        weights, count, row_bytes = op.weight + start * op.level_bytes, min(TILE_OUTPUTS, N - start), 4 * TILE_OUTPUTS
        scales, shifts = floats(op.step + 4 * start, count), floats(op.bias + 4 * start, count)
        for t in range(0, tokens, TILE_TOKENS):
            rows, there = rows_from(levels, t, tokens - 1, op.level_bytes), min(TILE_TOKENS, tokens - t)
            levels_tile(rows, weights, row_bytes, op.level_bytes // 4, op.begins + 4 * start, scratch, row_bytes, there)
            for r in range(there):
                sums, out = words(scratch + r * row_bytes, TILE_OUTPUTS), floats(y + 4 * ((t + r) * N + start), count)
                if count == TILE_OUTPUTS:
                    finish(op, sums, steps[t + r], scales, shifts, out, TILE_OUTPUTS)
                else:
                    finish(op, sums, steps[t + r], scales, shifts, out, count)
    if op.end_norm != Norm.NONE:
        for t in range(tokens):
            row = floats(y + 4 * t * N, N)
            norm(op.end_norm, row, op.end_gain, op.end_shift, op.end_eps, floats(normed, N))
            copy(floats(normed, N), row)


@exact
def softmax(scores, stride, count, inverses):
    """scores = e^(scores - max) of six queries, and 1 / Σ of each; as written, since `exp` rounds by an addition."""
    softmax_rows(scores, stride, count, inverses)


@formula
def attention_of_many(op, chunk, scratch):
    """z = softmax(q kᵀ · scale) v of some heads of one text of the packed row, which begins at starts[text]."""
    E, H, D = op.width, op.heads, op.inputs
    text, part = chunk // op.parts, chunk % op.parts
    starts = integers(op.starts, op.texts + 1)
    first, L = starts[text], starts[text + 1] - starts[text]
    stride = 4 * ((L + TILE_FLOATS - 1) // TILE_FLOATS * TILE_FLOATS)  # of the scores of a query, in whole tiles
    scales, inverses = scratch + SUM_BYTES, scratch + SUM_BYTES + 4 * TILE_TOKENS
    probs, columns = scratch + op.spare, scratch + op.spare + TILE_TOKENS * stride
    for r in range(TILE_TOKENS):
        floats(scales, TILE_TOKENS)[r] = float32(op.scale)
    for h in range(part * H // op.parts, (part + 1) * H // op.parts):
        q = op.x + 4 * (first * D + h * E)
        k, v, z = q + 4 * H * E, q + 8 * H * E, op.y + 4 * (first * H + h) * E
        for s in range(0, L, LANES):
            for e in range(0, E, LANES):
                transpose(k + 4 * (s * D + e), 4 * D, L - 1 - s, columns + e * stride + 4 * s, stride)
        for t in range(0, L, TILE_TOKENS):
            rows, there = rows_from(q, t, L - 1, 4 * D), min(TILE_TOKENS, L - t)
            for s in range(0, stride, 4 * TILE_FLOATS):
                floats_tile(rows, columns + s, stride, E, scales, probs + s, stride, TILE_TOKENS)
            softmax(probs, stride, L, inverses)
            rows = rows_from(probs, 0, TILE_TOKENS - 1, stride)
            for e in range(0, E, TILE_FLOATS):
                place, count = z + 4 * (t * H * E + e), E - e
                if count >= TILE_FLOATS:
                    floats_tile(rows, v + 4 * e, 4 * D, L, inverses, place, 4 * H * E, there)
                else:  # a tile is wider than what is left of the head
                    floats_tile(rows, v + 4 * e, 4 * D, L, inverses, scratch, 4 * TILE_FLOATS, there)
                    for r in range(there):
                        copy(floats(scratch + 4 * TILE_FLOATS * r, count), floats(place + 4 * r * H * E, count))
