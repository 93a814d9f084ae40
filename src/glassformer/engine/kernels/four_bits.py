"""Products of weights in 4 bits: inputs become integers too, so that no weight is widened to a floating-point number.

    y[n] = Σ_g S[n, g] Σ_k (q[n, k] - 8 - Z[n, g]) x[k]         q from 0 to 15, eight in a word of 32 bits

Each run of eight inputs has a scale of its own, and each input two levels of 16 bits, x = s (i + j / 65534), which hold
what an fp32 number does. A word meets its run in one lane of a vector, so that a lane has one scale, S · s:

    128 weights    16 words = 32 halves of 16 bits; the p-th nibble of half h is weight 4 h + p
    4 products     lane += Σ (w >> 4 p & 15) · i       of pairs of 16-bit integers: one instruction (pmaddwd, vpdpwssd)
    4 products     fine += Σ (w >> 4 p & 15) · j
    1 scaling      sum += S s · (lane + fine / 65534)  lanes begin with - 8 Σ i, which is known before

A lane is at most 15 · 32767 · 8 < 2²⁴, so that it is exact as an fp32 number. LLVM's vectors have any length: it makes
of them what the processor has.
"""

from __future__ import annotations

from llvmlite import ir
from numba import float32, int16, int32, types, uint32
from numba.core import cgutils
from numba.core.extending import intrinsic

from glassformer.engine.kernels.memory import array_of, bits_of_float, bytes_, exact, float_of_bits, floats, formula
from glassformer.engine.program import (
    ROUNDED_BYTES,
    ROUNDED_WEIGHTS,
    RUN,
)

shorts, words = array_of(types.int16), array_of(types.int32)

ROWS, LANES, PARTS = 4, 16, 4
"""Rows of weights at a time, for all of which inputs are loaded once; words of a vector; weights of half a word."""
LARGEST, STEPS = 32767, 65534
"""The largest level of an input; fine levels between two of them."""

BEGINS = 4 * ROUNDED_WEIGHTS
SCALES = BEGINS + 8 * LANES
"""Where the first sums of lanes, and the scales of runs, are in a chunk of rounded inputs, behind their levels."""

_int, _float = ir.IntType(32), ir.FloatType()
_halves, _words, _sums = (
    ir.VectorType(ir.IntType(16), 2 * LANES),
    ir.VectorType(_int, LANES),
    ir.VectorType(_float, LANES),
)


def _constant(kind, *values):
    return ir.Constant(kind, [*values] * (kind.count // len(values)))


def _load(builder, kind, address, lanes=None):
    """A vector at an address; of the first lanes alone, where the others lie beyond a row, and are 0."""
    place = builder.inttoptr(address, kind.as_pointer())
    if lanes is None:
        vector = builder.load(place)
        vector.align = 4
        return vector
    numbers = ir.VectorType(_int, kind.count)
    bound = builder.insert_element(ir.Constant(numbers, ir.Undefined), lanes, _int(0))
    bound = builder.shuffle_vector(bound, bound, _constant(numbers, 0))
    mask = builder.icmp_signed("<", _constant(numbers, *range(kind.count)), bound)
    name = f"llvm.masked.load.v{kind.count}{'f' if kind.element == _float else 'i'}32.p0"
    shape = ir.FunctionType(kind, [kind.as_pointer(), _int, mask.type, kind])
    function = cgutils.get_or_insert_function(builder.module, shape, name)
    return builder.call(function, [place, _int(4), mask, ir.Constant(kind, None)])


def _pairs(builder, a, b):
    """a[2 i] b[2 i] + a[2 i + 1] b[2 i + 1] of 16-bit integers, in 32 bits: pmaddwd, from SSE2 to AVX-512."""
    wide = ir.VectorType(_int, 2 * LANES)
    product = builder.mul(builder.sext(a, wide), builder.sext(b, wide))
    even, odd = (builder.shuffle_vector(product, product, _constant(_words, *range(i, 2 * LANES, 2))) for i in (0, 1))
    return builder.add(even, odd)


def _total(builder, vector):
    """The sum of a vector's lanes."""
    while (half := vector.type.count // 2) >= 1:
        index = ir.VectorType(_int, half)
        low, high = (builder.shuffle_vector(vector, vector, _constant(index, *range(s, s + half))) for s in (0, half))
        vector = builder.fadd(low, high)
    return builder.extract_element(vector, _int(0))


def _lane_scales(builder, scales, address, chunk, chunks, rest):
    """The scale of each lane of a chunk, which has four, two or one."""
    if scales == 1:
        number = builder.udiv(chunk, chunks)
        place = builder.add(address, builder.mul(number, chunk.type(4)))
        one = builder.load(builder.inttoptr(place, _float.as_pointer()))
        vector = builder.insert_element(ir.Constant(_sums, ir.Undefined), one, _int(0))
        return builder.shuffle_vector(vector, vector, _constant(_words, 0))
    each = LANES // scales
    if rest is not None:
        rest = builder.udiv(builder.add(rest, _int(each - 1)), _int(each))
    place = builder.add(address, builder.mul(chunk, chunk.type(4 * scales)))
    some = _load(builder, ir.VectorType(_float, scales), place, rest)
    return builder.shuffle_vector(some, some, _constant(_words, *(lane // each for lane in range(LANES))))


def _four_rows(scales):
    """The intrinsic of products whose 128 weights have four, two or one scales.

    (addresses of four rows of words, of four rows of scales, of the rounded inputs, whole chunks of 128 weights,
    words besides, chunks of one scale) → four sums.
    """

    def add_chunk(builder, rows, steps, x, chunks, totals, chunk, rest=None):
        def at(offset):
            return builder.add(builder.add(x, builder.mul(chunk, chunk.type(ROUNDED_BYTES))), x.type(offset))

        inputs = [_load(builder, _halves, at(64 * part)) for part in range(2 * PARTS)]
        begins = [_load(builder, _words, at(BEGINS + 64 * i)) for i in range(2)]
        run_scales = _load(builder, _sums, at(SCALES))
        for row, step, total in zip(rows, steps, totals, strict=True):
            place = builder.add(row, builder.mul(chunk, chunk.type(4 * LANES)))
            halves = builder.bitcast(_load(builder, _words, place, rest), _halves)
            lanes, fine = begins
            for part in range(PARTS):
                nibbles = builder.lshr(halves, _constant(_halves, 4 * part)) if part else halves
                nibbles = builder.and_(nibbles, _constant(_halves, 15))
                lanes = builder.add(lanes, _pairs(builder, nibbles, inputs[part]))
                fine = builder.add(fine, _pairs(builder, nibbles, inputs[PARTS + part]))
            rest_of = builder.fmul(builder.sitofp(fine, _sums), _constant(_sums, 1 / STEPS), flags=["contract"])
            number = builder.fadd(builder.sitofp(lanes, _sums), rest_of, flags=["contract"])
            scale = builder.fmul(_lane_scales(builder, scales, step, chunk, chunks, rest), run_scales)
            term = builder.fmul(number, scale, flags=["contract"])
            builder.store(builder.fadd(builder.load(total), term, flags=["contract"]), total)

    @intrinsic
    def four_rows(context, rows, steps, x, whole, rest, chunks):
        def code(context, builder, signature, values):
            places, scale_places = (cgutils.unpack_tuple(builder, values[i], ROWS) for i in (0, 1))
            x, whole, rest, chunks = values[2:]
            totals = [cgutils.alloca_once_value(builder, ir.Constant(_sums, None)) for _ in range(ROWS)]
            fixed = places, scale_places, x, chunks, totals
            with cgutils.for_range(builder, whole) as loop:
                add_chunk(builder, *fixed, loop.index)
            with builder.if_then(builder.icmp_signed(">", rest, rest.type(0))):
                add_chunk(builder, *fixed, whole, builder.trunc(rest, _int))
            sums = [_total(builder, builder.load(total)) for total in totals]
            return context.make_tuple(builder, signature.return_type, sums)

        four = types.UniTuple(types.int64, ROWS)
        return types.UniTuple(types.float32, ROWS)(four, four, *[types.int64] * 4), code

    return four_rows


_four_scales, _two_scales, _one_scale = _four_rows(4), _four_rows(2), _four_rows(1)


@exact
def _level(x):
    """The nearest whole number, even ones first."""
    return int16(bits_of_float(x + float32(12_582_912)))  # 1.5 · 2²³: it is in the lowest bits


@formula
def rounded_size(K):
    """Bytes of a token's rounded inputs, with the sums of groups, of which there are at most 16 a chunk."""
    return (K + ROUNDED_WEIGHTS - 1) // ROUNDED_WEIGHTS * (ROUNDED_BYTES + 4 * LANES)


@formula
def round_inputs(x, K, group, place):
    """Round the inputs of a token, at an address, to 16 bits, in the order in which weights meet them."""
    chunks = (K + ROUNDED_WEIGHTS - 1) // ROUNDED_WEIGHTS
    wide, sums = floats(x, K), floats(place + chunks * ROUNDED_BYTES, chunks * LANES)
    for g in range(sums.size):
        sums[g] = float32(0)
    for c in range(chunks):
        at = place + c * ROUNDED_BYTES
        levels, begins = shorts(at, 2 * ROUNDED_WEIGHTS), words(at + BEGINS, 2 * LANES)
        scales = floats(at + SCALES, LANES)
        for lane in range(LANES):
            first = c * ROUNDED_WEIGHTS + lane * RUN
            top, total, fine = uint32(0), int32(0), int32(0)
            if first < K:
                for k in range(first, first + RUN):  # by the bits without the sign: NaN is the largest, and stays
                    top = max(top, uint32(bits_of_float(wide[k]) & uint32(0x7FFFFFFF)))
            largest = float_of_bits(top)
            largest = float32(1e-30) if largest < float32(1e-30) else largest
            scales[lane], inverse = largest / float32(LARGEST), float32(LARGEST) / largest
            for i in range(RUN):
                number = wide[first + i] * inverse if first < K else float32(0)
                level = _level(number)
                between = _level((number - float32(level)) * float32(STEPS))
                half = i % PARTS * 2 * LANES + 2 * lane + i // PARTS
                levels[half], levels[ROUNDED_WEIGHTS + half] = level, between
                total += int32(level)
                fine += int32(between)
            begins[lane], begins[LANES + lane] = -8 * total, -8 * fine
            if first < K:
                sums[first // group] += scales[lane] * (float32(total) + float32(fine) / float32(STEPS))


@formula
def _sums_of(group, rows, steps, x, K):
    whole, rest = K // ROUNDED_WEIGHTS, K % ROUNDED_WEIGHTS // RUN
    if group == 32:
        return _four_scales(rows, steps, x, whole, rest, 1)
    if group == 64:
        return _two_scales(rows, steps, x, whole, rest, 1)
    return _one_scale(rows, steps, x, whole, rest, (group + ROUNDED_WEIGHTS - 1) // ROUNDED_WEIGHTS)


@formula
def four_bit_product(op, R, weight, step, zero, bias, x, y, start, stop):
    """y[r, n] = Σ S[n] (W[n] - 8 - Z[n]) · x[r] + b[n] for the rows start ≤ n < stop of W, and rounded x."""
    K, N, group = op.inputs, op.outputs, op.group
    groups, part, size = K // group, (stop - start + ROWS - 1) // ROWS, rounded_size(K)
    for n in range(start, start + part):  # in streams; the last row stands in for those that are missing
        n1, n2, n3 = min(n + part, stop - 1), min(n + 2 * part, stop - 1), min(n + 3 * part, stop - 1)
        rows = weight + n * K // 2, weight + n1 * K // 2, weight + n2 * K // 2, weight + n3 * K // 2
        s = 4 * groups
        steps = step + n * s, step + n1 * s, step + n2 * s, step + n3 * s
        for r in range(R):
            y[r * N + n], y[r * N + n1], y[r * N + n2], y[r * N + n3] = _sums_of(group, rows, steps, x + r * size, K)
    shifts = floats(bias, N)
    for r in range(R):
        sums = floats(x + r * size + K // ROUNDED_WEIGHTS * ROUNDED_BYTES, groups)
        if K % ROUNDED_WEIGHTS:
            sums = floats(x + r * size + (K // ROUNDED_WEIGHTS + 1) * ROUNDED_BYTES, groups)
        for n in range(start, stop):
            if zero:
                scales, zeros = floats(step + 4 * n * groups, groups), bytes_(zero + n * groups, groups)
                for g in range(groups):
                    y[r * N + n] -= scales[g] * float32(zeros[g]) * sums[g]
            if bias:
                y[r * N + n] += shifts[n]
