"""Matrix products of many tokens in tiles of registers: six tokens by 64 outputs in 8 bits, by 32 in fp32.

    24 sums in registers  ·  a step: 4 vectors of weights, 6 broadcast inputs, 24 multiplications of 64 bytes each

A tile reads 10 times for 24 multiplications, so that neither loading nor the latency of a sum limits it.
Source: Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"; VNNI: Rodriguez et al. 2018,
"Lower numerical precision deep learning inference and training".
"""

from __future__ import annotations

import os

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.extending import intrinsic

from glassformer.engine.program import TILE_FLOATS, TILE_OUTPUTS, TILE_TOKENS

LANES, BYTES = 16, 64  # numbers of 32 bits in a vector of 512, and its bytes
_int, _float = ir.IntType(32), ir.FloatType()
_words, _sums = ir.VectorType(_int, LANES), ir.VectorType(_float, LANES)
VNNI = "+avx512vnni" in os.environ.get("NUMBA_CPU_FEATURES", "")


def _load(builder, kind, address):
    vector = builder.load(builder.inttoptr(address, kind.as_pointer()))
    vector.align = 4
    return vector


def _store(builder, vector, address):
    builder.store(vector, builder.inttoptr(address, vector.type.as_pointer())).align = 4


def _broadcast(builder, kind, address):
    """The number at an address in every lane."""
    number = builder.load(builder.inttoptr(address, kind.element.as_pointer()))
    number.align = 4
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), number, _int(0))
    return builder.shuffle_vector(one, one, ir.Constant(_words, [_int(0)] * LANES))


def _add_bytes(builder, total, inputs, weights):
    """total + Σ of four products of an unsigned and a signed byte, in each lane: `vpdpbusd` of VNNI."""
    if VNNI:
        shape = ir.FunctionType(_words, [_words] * 3)
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.x86.avx512.vpdpbusd.512")
        return builder.call(function, [total, inputs, weights])
    for place in range(0, 32, 8):
        left = ir.Constant(_words, [_int(24 - place)] * LANES)
        last = ir.Constant(_words, [_int(24)] * LANES)
        unsigned = builder.lshr(builder.shl(inputs, left), last)
        signed = builder.ashr(builder.shl(weights, left), last)
        total = builder.add(total, builder.mul(unsigned, signed))
    return total


def _add_floats(builder, total, inputs, weights):
    product = builder.fmul(inputs, weights, flags=["contract"])
    return builder.fadd(total, product, flags=["contract"])


def _tile(kind, outputs, add):
    """The intrinsic of one tile.

    (addresses of six rows of inputs, of weights, bytes from a step of them to the next, steps, address of what sums
    begin with or of what rows are multiplied by, of the result, bytes of a row of it, rows that are stored)
    """
    vectors = outputs // LANES

    def code(context, builder, signature, values):
        rows = cgutils.unpack_tuple(builder, values[0], TILE_TOKENS)
        weights, stride, steps, given, out, row_bytes, count = values[1:]
        long, firsts = steps.type, [ir.Constant(kind, None)] * vectors
        if kind == _words:
            firsts = [_load(builder, kind, builder.add(given, long(BYTES * v))) for v in range(vectors)]
        before, loop = builder.block, builder.append_basic_block("steps")
        after = builder.append_basic_block("sums")
        builder.branch(loop)
        builder.position_at_end(loop)
        step = builder.phi(long)
        step.add_incoming(long(0), before)
        totals = [[builder.phi(kind) for _ in range(vectors)] for _ in rows]
        place = builder.add(weights, builder.mul(step, stride))
        columns = [_load(builder, kind, builder.add(place, long(BYTES * v))) for v in range(vectors)]
        offset = builder.mul(step, long(4))
        following = builder.add(step, long(1))
        step.add_incoming(following, loop)
        sums = []
        for row, of_row in zip(rows, totals, strict=True):
            number = _broadcast(builder, kind, builder.add(row, offset))
            sums.append([add(builder, total, number, column) for total, column in zip(of_row, columns, strict=True)])
        for of_row, new in zip(totals, sums, strict=True):
            for v in range(vectors):
                of_row[v].add_incoming(firsts[v], before)
                of_row[v].add_incoming(new[v], loop)
        builder.cbranch(builder.icmp_signed("<", following, steps), loop, after)
        builder.position_at_end(after)
        for r, of_row in enumerate(sums):
            with builder.if_then(builder.icmp_signed("<", long(r), count)):
                start = builder.add(out, builder.mul(long(r), row_bytes))
                for v, total in enumerate(of_row):
                    if kind == _sums:
                        total = builder.fmul(total, _broadcast(builder, kind, builder.add(given, long(4 * r))))
                    _store(builder, total, builder.add(start, long(BYTES * v)))
        return context.get_dummy_value()

    @intrinsic
    def tile(context, rows, weights, stride, steps, given, out, row_bytes, count):
        return types.void(types.UniTuple(types.int64, TILE_TOKENS), *[types.int64] * 7), code

    return tile


levels_tile = _tile(_words, TILE_OUTPUTS, _add_bytes)
floats_tile = _tile(_sums, TILE_FLOATS, _add_floats)


# -------------------------------------------------------------------------------------------- around attention


@intrinsic
def transpose(context, rows, row_bytes, last, out, out_bytes):
    """Sixteen rows of sixteen numbers to columns; the last row stands in for those that are missing.

    Four times, numbers change places with those 8, 4, 2 and 1 rows and columns away.
    """

    def code(context, builder, signature, values):
        rows, row_bytes, last, out, out_bytes = values
        long = rows.type
        vectors = []
        for r in range(LANES):
            there = builder.icmp_signed("<", long(r), last)
            place = builder.mul(builder.select(there, long(r), last), row_bytes)
            vectors.append(_load(builder, _sums, builder.add(rows, place)))
        for away in (8, 4, 2, 1):
            for r in range(LANES):
                if r & away:
                    continue
                a, b = vectors[r], vectors[r + away]
                low = [_int(i if not i & away else LANES + i - away) for i in range(LANES)]
                high = [_int(i + away if not i & away else LANES + i) for i in range(LANES)]
                vectors[r] = builder.shuffle_vector(a, b, ir.Constant(_words, low))
                vectors[r + away] = builder.shuffle_vector(a, b, ir.Constant(_words, high))
        for r, vector in enumerate(vectors):
            _store(builder, vector, builder.add(out, builder.mul(long(r), out_bytes)))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), code


def _number(value):
    return ir.Constant(_sums, [_float(value)] * LANES)


def _exp(builder, x):
    """eˣ = 2ⁿ eʳ for x ≤ 0, as `formulas.exp` computes it."""
    x = builder.select(builder.fcmp_ordered("<", x, _number(-87.0)), _number(-87.0), x)  # NaN stays NaN
    shifted = _add_floats(builder, _number(12_582_912.0), x, _number(1.4426950408889634))
    n = builder.fsub(shifted, _number(12_582_912.0))
    r = _add_floats(builder, x, n, _number(-0.693359375))
    r = _add_floats(builder, r, n, _number(2.12194440e-4))
    series = _number(1 / 720)
    for factor in (1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0):
        series = _add_floats(builder, _number(factor), r, series)
    power = builder.shl(builder.bitcast(shifted, _words), ir.Constant(_words, [_int(23)] * LANES))
    return builder.bitcast(builder.add(builder.bitcast(series, _words), power), _sums)


def _over_lanes(builder, vector, join):
    """One number of all lanes, in every lane."""
    for away in (8, 4, 2, 1):
        turned = ir.Constant(_words, [_int((i + away) % LANES) for i in range(LANES)])
        vector = join(vector, builder.shuffle_vector(vector, vector, turned))
    return vector


@intrinsic
def softmax_rows(context, scores, row_bytes, count, inverses):
    """scores = e^(scores - max) of six rows, in whole vectors, and 1 / Σ of each."""

    def code(context, builder, signature, values):
        scores, row_bytes, count, inverses = values
        long = scores.type
        iota = ir.Constant(_words, [_int(i) for i in range(LANES)])

        def larger(a, b):
            return builder.select(builder.fcmp_unordered(">", a, b), a, b)

        def visible(place, start):
            """The scores of a vector; those beyond the last key are very small."""
            left = builder.trunc(builder.sub(count, start), _int)
            one = builder.insert_element(ir.Constant(_words, ir.Undefined), left, _int(0))
            left = builder.shuffle_vector(one, one, ir.Constant(_words, [_int(0)] * LANES))
            return builder.select(builder.icmp_signed("<", iota, left), _load(builder, _sums, place), _number(-3e38))

        vectors = builder.sdiv(builder.add(count, long(LANES - 1)), long(LANES))
        places = [builder.add(scores, builder.mul(long(r), row_bytes)) for r in range(TILE_TOKENS)]
        tops = [cgutils.alloca_once_value(builder, _number(-3e38)) for _ in places]
        totals = [cgutils.alloca_once_value(builder, _number(0.0)) for _ in places]
        for slots in (tops, totals):
            for slot in slots:
                builder.store(_number(-3e38 if slots is tops else 0.0), slot)
        with cgutils.for_range(builder, vectors) as loop:
            start = builder.mul(loop.index, long(LANES))
            for place, top in zip(places, tops, strict=True):
                at = builder.add(place, builder.mul(start, long(4)))
                builder.store(larger(visible(at, start), builder.load(top)), top)
        largest = [_over_lanes(builder, builder.load(top), larger) for top in tops]
        with cgutils.for_range(builder, vectors) as loop:
            start = builder.mul(loop.index, long(LANES))
            for place, top, total in zip(places, largest, totals, strict=True):
                at = builder.add(place, builder.mul(start, long(4)))
                power = _exp(builder, builder.fsub(visible(at, start), top))
                _store(builder, power, at)
                builder.store(builder.fadd(builder.load(total), power), total)
        for r, total in enumerate(totals):
            joined = _over_lanes(builder, builder.load(total), builder.fadd)
            inverse = builder.fdiv(_float(1.0), builder.extract_element(joined, _int(0)))
            place = builder.add(inverses, long(4 * r))
            builder.store(inverse, builder.inttoptr(place, _float.as_pointer())).align = 4
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), code
