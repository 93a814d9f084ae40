"""The formulas of a decoding step: products, norms, activations, each as it is written in a paper."""

from __future__ import annotations

import math

from numba import float32, uint32

from glassformer.engine.kernels.four_bits import four_bit_product
from glassformer.engine.kernels.memory import (
    bits_of_float,
    bytes_,
    exact,
    float_of_bits,
    floats,
    formula,
    from_bf16,
    from_fp16,
    from_fp32,
    from_int8,
    halves,
)
from glassformer.engine.program import Activation, Norm, NumberFormat


def _reader(array, size, widen):
    """Functions of weights w of one format at an address: Σ w[k] x[k]; out += factor · w."""

    @formula
    def dot(address, start, x):
        w = array(address + start * size, x.size)
        total = float32(0)
        for k in range(x.size):
            total += widen(w[k]) * x[k]
        return total

    @formula
    def add_row(address, start, factor, out):
        w = array(address + start * size, out.size)
        for k in range(out.size):
            out[k] += factor * widen(w[k])

    return dot, add_row


def _reader_of_many(array, size, widen):
    """The same sums of eight w and one x, and of two w and four x; out += Σ factor · w of four w.

    Memory is read faster in several streams than in one; of several tokens each number is read once for several sums.
    """

    @formula
    def eight_rows(address, starts, x):
        K = x.size
        a, b = array(address + starts[0] * size, K), array(address + starts[1] * size, K)
        c, d = array(address + starts[2] * size, K), array(address + starts[3] * size, K)
        e, f = array(address + starts[4] * size, K), array(address + starts[5] * size, K)
        g, h = array(address + starts[6] * size, K), array(address + starts[7] * size, K)
        sum_a = sum_b = sum_c = sum_d = sum_e = sum_f = sum_g = sum_h = float32(0)
        for k in range(K):
            sum_a += widen(a[k]) * x[k]
            sum_b += widen(b[k]) * x[k]
            sum_c += widen(c[k]) * x[k]
            sum_d += widen(d[k]) * x[k]
            sum_e += widen(e[k]) * x[k]
            sum_f += widen(f[k]) * x[k]
            sum_g += widen(g[k]) * x[k]
            sum_h += widen(h[k]) * x[k]
        return sum_a, sum_b, sum_c, sum_d, sum_e, sum_f, sum_g, sum_h

    @formula
    def eight_dots(address, start0, start1, K, x0, x1, x2, x3):
        v, w = array(address + start0 * size, K), array(address + start1 * size, K)
        a, b, c, d = floats(x0, K), floats(x1, K), floats(x2, K), floats(x3, K)
        va = vb = vc = vd = wa = wb = wc = wd = float32(0)
        for k in range(K):
            wide0, wide1 = widen(v[k]), widen(w[k])
            va += wide0 * a[k]
            vb += wide0 * b[k]
            vc += wide0 * c[k]
            vd += wide0 * d[k]
            wa += wide1 * a[k]
            wb += wide1 * b[k]
            wc += wide1 * c[k]
            wd += wide1 * d[k]
        return va, vb, vc, vd, wa, wb, wc, wd

    @formula
    def add_four(address, starts, factors, out):
        K = out.size
        a, b = array(address + starts[0] * size, K), array(address + starts[1] * size, K)
        c, d = array(address + starts[2] * size, K), array(address + starts[3] * size, K)
        for k in range(K):
            two = factors[0] * widen(a[k]) + factors[1] * widen(b[k])
            out[k] += two + factors[2] * widen(c[k]) + factors[3] * widen(d[k])

    return eight_rows, eight_dots, add_four


def _of_any_format(make):
    """The functions that `make` gives for each format, with the format as a further argument before the others."""

    def choice(fp32, fp16, bf16, int8):
        @formula
        def call(form, *args):
            if form == NumberFormat.FP32:
                return fp32(*args)
            if form == NumberFormat.FP16:
                return fp16(*args)
            if form == NumberFormat.BF16:
                return bf16(*args)
            return int8(*args)

        return call

    formats = (floats, 4, from_fp32), (halves, 2, from_fp16), (halves, 2, from_bf16), (bytes_, 1, from_int8)
    return [choice(*same) for same in zip(*(make(*each) for each in formats), strict=True)]


dot, add_row = _of_any_format(_reader)
eight_rows, eight_dots, add_four = _of_any_format(_reader_of_many)


@formula
def product(op, R, weight, step, zero, bias, x, y, start, stop):
    """y[r, n] = W[n] · x[r] · step[n] + b[n] for the rows start ≤ n < stop of W, each of which is read once."""
    if op.format == NumberFormat.INT4:
        four_bit_product(op, R, weight, step, zero, bias, x, y, start, stop)
        return
    K, N, last = op.inputs, op.outputs, R - 1
    steps, shifts = floats(step, N), floats(bias, N)
    # Several streams, each read from its beginning to its end; the last row stands in for those that are missing.
    if R == 1:
        part = (stop - start + 7) // 8
        for n in range(start, start + part):
            n1, n2, n3 = min(n + part, stop - 1), min(n + 2 * part, stop - 1), min(n + 3 * part, stop - 1)
            n4, n5, n6 = min(n + 4 * part, stop - 1), min(n + 5 * part, stop - 1), min(n + 6 * part, stop - 1)
            n7 = min(n + 7 * part, stop - 1)
            starts = n * K, n1 * K, n2 * K, n3 * K, n4 * K, n5 * K, n6 * K, n7 * K
            y[n], y[n1], y[n2], y[n3], y[n4], y[n5], y[n6], y[n7] = eight_rows(op.format, weight, starts, floats(x, K))
    else:
        half = (stop - start + 1) // 2
        for n in range(start, start + half):
            m = min(n + half, stop - 1)
            for r in range(0, last, 4):
                rows = r, min(r + 1, last), min(r + 2, last), min(r + 3, last)
                x0, x1, x2, x3 = x + 4 * K * rows[0], x + 4 * K * rows[1], x + 4 * K * rows[2], x + 4 * K * rows[3]
                sums = eight_dots(op.format, weight, n * K, m * K, K, x0, x1, x2, x3)
                for i in range(4):
                    y[rows[i] * N + n], y[rows[i] * N + m] = sums[i], sums[4 + i]
            if last % 4 == 0:  # the loop leaves one row over, for which four sums would be three too many
                own = floats(x + 4 * last * K, K)
                y[last * N + n] = dot(op.format, weight, n * K, own)
                y[last * N + m] = dot(op.format, weight, m * K, own)
    for r in range(R):
        row = y[r * N + start : r * N + stop]
        if step:
            for i in range(row.size):
                row[i] *= steps[start + i]
        if bias:
            for i in range(row.size):
                row[i] += shifts[start + i]


# ------------------------------------------------------------------------------------------- norms and activations


@formula
def norm(kind, x, gain, shift, eps, y):
    """LayerNorm  (x - mean) / √(var + eps) · gain + shift      RMSNorm  x / √(mean(x²) + eps) · gain"""
    D = x.size
    mean = float32(0)
    if kind == Norm.LAYER:
        for i in range(D):
            mean += x[i]
        mean /= float32(D)
    squares = float32(0)
    for i in range(D):
        squares += (x[i] - mean) * (x[i] - mean)
    factor = float32(1) / math.sqrt(squares / float32(D) + float32(eps))
    gains = floats(gain, D)
    for i in range(D):
        y[i] = (x[i] - mean) * factor * gains[i]
    if shift:
        shifts = floats(shift, D)
        for i in range(D):
            y[i] += shifts[i]


@exact
def exp(x):
    """eˣ = 2ⁿ eʳ with n the integer nearest to x / ln 2, and eʳ as its Taylor series; from e⁻⁸⁷ to e⁸⁸."""
    # Beyond these bounds the exponent leaves its 8 bits. Both comparisons are false for NaN, which stays NaN.
    x = float32(-87) if x < float32(-87) else x
    x = float32(88) if x > float32(88) else x
    shifted = x * float32(1.4426950408889634) + float32(12_582_912)  # 1.5 · 2²³: n is in the lowest bits
    n = shifted - float32(12_582_912)
    # ln 2 = 0.693359375 - 2.12194440e-4: the first has few bits, so that n times it is exact (Cody and Waite 1980).
    r = x - n * float32(0.693359375) + n * float32(2.12194440e-4)
    series = float32(1 / 120) + r * float32(1 / 720)
    series = float32(1 / 6) + r * (float32(1 / 24) + r * series)
    series = float32(1) + r * (float32(1) + r * (float32(0.5) + r * series))
    return float_of_bits(bits_of_float(series) + (bits_of_float(shifted) << uint32(23)))


@formula
def sigmoid(x):
    return float32(1) / (float32(1) + exp(-x))


@formula
def tanh(x):
    return float32(1) - float32(2) / (exp(float32(2) * x) + float32(1))


@formula
def erf(x):
    """1 - t P(t) e^(-x²) with t = 1 / (1 + |x| / 2); P interpolates at Chebyshev's points, to 4e-7."""
    size = abs(x)
    t = float32(1) / (float32(1) + float32(0.5) * size)
    p = float32(0.2144476) - float32(0.02620249) * t
    p = float32(0.65907575) + t * (float32(-0.60880858) + t * p)
    p = float32(0.34111724) + t * (float32(-0.12907109) + t * p)
    p = float32(0.28322414) + t * (float32(0.26621748) + t * p)
    y = float32(1) - t * p * exp(-size * size)
    return -y if x < float32(0) else y


@formula
def activate(kind, x):
    """x = activation(x), in place."""
    if kind == Activation.GELU:
        for i in range(x.size):
            x[i] = float32(0.5) * x[i] * (float32(1) + erf(x[i] * float32(0.7071067811865476)))  # 1 / √2
    elif kind == Activation.GELU_TANH:
        for i in range(x.size):
            cube = x[i] * x[i] * x[i]
            inner = float32(0.7978845608028654) * (x[i] + float32(0.044715) * cube)  # √(2 / π)
            x[i] = float32(0.5) * x[i] * (float32(1) + tanh(inner))
    elif kind == Activation.QUICK_GELU:
        for i in range(x.size):
            x[i] = x[i] * sigmoid(float32(1.702) * x[i])
    elif kind == Activation.RELU:
        for i in range(x.size):
            x[i] = float32(0) if x[i] < float32(0) else x[i]
    elif kind == Activation.SILU:
        for i in range(x.size):
            x[i] = x[i] * sigmoid(x[i])
    elif kind == Activation.TANH:
        for i in range(x.size):
            x[i] = tanh(x[i])
