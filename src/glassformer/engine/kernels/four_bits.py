"""Products of weights in 4 bits: inputs become integers too, so that no weight is widened to a floating-point number.

    y[n] = Σ_g S[n, g] Σ_k (q[n, k] - 8 - Z[n, g]) x[k]         q from 0 to 15, eight in a word of 32 bits

Each run of eight inputs has a scale of its own, and each input three bytes with a sign, x = s (2¹⁶ h + 2⁸ i + j), which
keep 23 bits of the run's largest. A word meets its run in one lane of a vector, so that a lane has one scale, S · s:

    128 weights    16 words = 64 bytes of two nibbles: the n-th byte of a word has the weights 2 n and 2 n + 1
    2 products     lane = Σ (w & 15) · h + Σ (w >> 4) · h     of four unsigned and four signed bytes: vpdpbusd of VNNI
    4 products     lane = 2⁸ lane + …                         twice, with i and with j
    1 scaling      sum += S s · (lane - 8 Σ x)                the last term is known before

A lane is at most 15 · 2²² · 8 < 2³¹.
"""

from __future__ import annotations

from llvmlite import ir
from numba import float32, types
from numba.core import cgutils
from numba.core.extending import intrinsic

from glassformer.engine.kernels.memory import array_of, bytes_, floats, formula
from glassformer.engine.kernels.tiles import VNNI
from glassformer.engine.program import ROUNDED_BYTES, ROUNDED_WEIGHTS, RUN

words = array_of(types.int32)

ROWS, LANES, PLANES = 4, 16, 3
"""Rows of weights at a time, for all of which inputs are loaded once; words of a vector; bytes of an input."""
LARGEST = (1 << 22) - 1
"""The largest rounded input: adding 1.5 · 2²³ rounds what is no larger."""

AHEAD = 1024
"""Bytes before their use at which weights are fetched: streams are too short for the processor to do it in time."""

BEGINS = PLANES * ROUNDED_WEIGHTS
SCALES = BEGINS + 4 * LANES
"""Where the first sums of lanes, and the scales of runs, are in a chunk of rounded inputs, behind their bytes."""

_byte, _int, _float = ir.IntType(8), ir.IntType(32), ir.FloatType()
_words, _sums = ir.VectorType(_int, LANES), ir.VectorType(_float, LANES)
_chunk, _chunk_sums = ir.VectorType(_int, ROUNDED_WEIGHTS), ir.VectorType(_float, ROUNDED_WEIGHTS)


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


def _picked(builder, vector, lanes):
    """Some lanes of a vector, in this order."""
    lanes = list(lanes)
    return builder.shuffle_vector(vector, vector, _constant(ir.VectorType(_int, len(lanes)), *lanes))


def _add_bytes(builder, total, nibbles, inputs):
    """total + Σ of four products of a nibble in a byte and a signed byte, in each lane."""
    if VNNI:
        shape = ir.FunctionType(_words, [_words] * 3)
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.x86.avx512.vpdpbusd.512")
        return builder.call(function, [total, nibbles, inputs])
    # AVX2 adds pairs of products in 16 bits, which no nibble fills; then pairs of these in 32 bits.
    halves, pairs, octets = (ir.VectorType(ir.IntType(bits), 256 // bits) for bits in (32, 16, 8))
    add = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(pairs, [octets] * 2), "llvm.x86.avx2.pmadd.ub.sw"
    )
    widen = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(halves, [pairs] * 2), "llvm.x86.avx2.pmadd.wd"
    )
    sums = []
    for first in (0, LANES // 2):
        some = [
            builder.bitcast(_picked(builder, x, range(first, first + LANES // 2)), octets) for x in (nibbles, inputs)
        ]
        sums.append(builder.call(widen, [builder.call(add, some), _constant(pairs, 1)]))
    return builder.add(total, builder.shuffle_vector(*sums, _constant(_words, *range(LANES))))


def prefetch(builder, address):
    """Begin to read the cache line of an address; an address outside memory does no harm."""
    kind = ir.FunctionType(ir.VoidType(), [_byte.as_pointer(), _int, _int, _int])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(function, [builder.inttoptr(address, _byte.as_pointer()), _int(0), _int(3), _int(1)])


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

        planes = [[_load(builder, _words, at(64 * (2 * p + odd))) for odd in (0, 1)] for p in range(PLANES)]
        begins, run_scales = _load(builder, _words, at(BEGINS)), _load(builder, _sums, at(SCALES))
        nibble = _constant(_words, 0x0F0F0F0F)
        for row, step, total in zip(rows, steps, totals, strict=True):
            place = builder.add(row, builder.mul(chunk, chunk.type(4 * LANES)))
            prefetch(builder, builder.add(place, place.type(AHEAD)))
            weights = _load(builder, _words, place, rest)
            even, odd = weights, builder.lshr(weights, _constant(_words, 4))
            lanes = _constant(_words, 0)
            for p, (of_even, of_odd) in enumerate(planes):
                lanes = builder.shl(lanes, _constant(_words, 8)) if p else lanes
                lanes = _add_bytes(builder, lanes, builder.and_(even, nibble), of_even)
                lanes = _add_bytes(builder, lanes, builder.and_(odd, nibble), of_odd)
            number = builder.sitofp(builder.add(lanes, begins), _sums)
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


def _over_runs(builder, vector, join):
    """One number of the eight of each run, in each of their lanes."""
    for away in (1, 2, 4):
        vector = join(vector, _picked(builder, vector, (i ^ away for i in range(ROUNDED_WEIGHTS))))
    return vector


@intrinsic
def _round_chunk(context, x, count, place):
    """Round 128 inputs at an address, of which the first `count` are there, to a chunk of bytes at another."""

    def code(context, builder, signature, values):
        x, count, place = values
        firsts = range(0, ROUNDED_WEIGHTS, RUN)

        def larger(a, b):
            return builder.select(builder.icmp_unsigned(">", a, b), a, b)

        def put(vector, offset):
            address = builder.inttoptr(builder.add(place, place.type(offset)), vector.type.as_pointer())
            builder.store(vector, address).align = 4

        numbers = _load(builder, _chunk_sums, x, builder.trunc(count, _int))
        # By the bits without the sign: NaN is the largest, and stays.
        sizes = builder.and_(builder.bitcast(numbers, _chunk), _constant(_chunk, 0x7FFFFFFF))
        largest = builder.bitcast(_picked(builder, _over_runs(builder, sizes, larger), firsts), _sums)
        least = _constant(_sums, 1e-30)
        largest = builder.select(builder.fcmp_ordered("<", largest, least), least, largest)
        most = _constant(_sums, float(LARGEST))
        inverse = _picked(builder, builder.fdiv(most, largest), (i // RUN for i in range(ROUNDED_WEIGHTS)))
        shift = _constant(_chunk_sums, 12_582_912.0)  # 1.5 · 2²³: the whole number is in the lowest bits
        shifted = builder.fadd(builder.fmul(numbers, inverse), shift)
        whole = builder.sub(builder.bitcast(shifted, _chunk), builder.bitcast(shift, _chunk))
        totals = _picked(builder, _over_runs(builder, whole, builder.add), firsts)
        put(builder.mul(totals, _constant(_words, -8)), BEGINS)
        put(builder.fdiv(largest, most), SCALES)
        for p in reversed(range(PLANES)):
            octets = builder.trunc(whole, ir.VectorType(_byte, ROUNDED_WEIGHTS))
            for odd in (0, 1):
                put(_picked(builder, octets, range(odd, ROUNDED_WEIGHTS, 2)), 64 * (2 * p + odd))
            whole = builder.ashr(builder.sub(whole, builder.sext(octets, _chunk)), _constant(_chunk, 8))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), code


@formula
def rounded_size(K):
    """Bytes of a token's rounded inputs, with the sums of groups, of which there are at most 16 a chunk."""
    return (K + ROUNDED_WEIGHTS - 1) // ROUNDED_WEIGHTS * (ROUNDED_BYTES + 4 * LANES)


@formula
def round_inputs(x, K, group, place):
    """Round the inputs of a token, at an address, to three bytes, in the order in which weights meet them."""
    chunks = (K + ROUNDED_WEIGHTS - 1) // ROUNDED_WEIGHTS
    sums = floats(place + chunks * ROUNDED_BYTES, chunks * LANES)
    for g in range(sums.size):
        sums[g] = float32(0)
    for c in range(chunks):
        at, first = place + c * ROUNDED_BYTES, c * ROUNDED_WEIGHTS
        _round_chunk(x + 4 * first, min(ROUNDED_WEIGHTS, K - first), at)
        begins, scales = words(at + BEGINS, LANES), floats(at + SCALES, LANES)
        for lane in range(min(LANES, (K - first) // RUN)):
            sums[(first + lane * RUN) // group] += scales[lane] * (float32(begins[lane]) / float32(-8))


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
