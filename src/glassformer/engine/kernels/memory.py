"""What kernels read and write: arrays at addresses, numbers of other formats, integers that threads share.

Numba's own types have none of these: each is a line or two of the intermediate language of LLVM.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import float32, from_dtype, njit, types, uint32
from numba.core.cgutils import get_or_insert_function
from numba.core.extending import intrinsic
from numba.np.arrayobj import populate_array

from glassformer.engine.program import INSTRUCTION

# No wrapper, no reference counts and no exceptions (a division by 0 is infinite): threads run without Python.
BARE = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
formula = njit(**BARE, fastmath={"reassoc", "contract", "nsz", "arcp"})  # sums in any order; NaN stays NaN
exact = njit(**BARE, fastmath=False)  # as written; without the word a function inherits its caller's


def array_of(dtype):
    """(address, count) → an array of numbers there."""
    array = types.Array(dtype, 1, "C")

    @intrinsic
    def view(context, address, count):
        def code(context, builder, signature, values):
            struct = context.make_array(array)(context, builder)
            data = builder.inttoptr(values[0], context.get_data_type(dtype).as_pointer())
            size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(dtype)))
            populate_array(struct, data=data, shape=(values[1],), strides=(size,), itemsize=size, meminfo=None)
            return struct._getvalue()

        return array(types.int64, types.int64), code

    return view


floats, halves, bytes_ = array_of(types.float32), array_of(types.uint16), array_of(types.int8)
integers, instructions = array_of(types.int64), array_of(from_dtype(INSTRUCTION))


@intrinsic
def atomic_add(context, address, number):
    """Atomic addition; the value before."""

    def code(context, builder, signature, values):
        place = builder.inttoptr(values[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", place, values[1], "seq_cst")

    return types.int64(types.int64, types.int64), code


@intrinsic
def atomic_load(context, address):
    def code(context, builder, signature, values):
        return builder.load_atomic(builder.inttoptr(values[0], ir.IntType(64).as_pointer()), "seq_cst", 8)

    return types.int64(types.int64), code


@intrinsic
def atomic_store(context, address, value):
    def code(context, builder, signature, values):
        place = builder.inttoptr(values[0], ir.IntType(64).as_pointer())
        builder.store_atomic(values[1], place, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


@intrinsic
def pause(context):
    """Tell the processor that this is a waiting loop."""

    def code(context, builder, signature, values):
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def float_of_bits(context, bits):
    def code(context, builder, signature, values):
        return builder.bitcast(values[0], ir.FloatType())

    return types.float32(types.uint32), code


@intrinsic
def bits_of_float(context, number):
    def code(context, builder, signature, values):
        return builder.bitcast(values[0], ir.IntType(32))

    return types.uint32(types.float32), code


@intrinsic
def float_of_half(context, bits):
    def code(context, builder, signature, values):
        return builder.fpext(builder.bitcast(values[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), code


@formula
def copy(x, out):
    for i in range(out.size):
        out[i] = x[i]


@formula
def from_fp32(x):
    return x


@formula
def from_fp16(x):
    return float_of_half(x)


@formula
def from_bf16(x):
    return float_of_bits(uint32(x) << uint32(16))


@formula
def from_int8(x):
    return float32(x)


@formula
def to_bf16(x):
    """The nearest bfloat16, even ones first."""
    bits = bits_of_float(x)
    # Half of the last place is added, less one where the last bit is 0: a tie then goes to the even number.
    return np.uint16((bits + uint32(0x7FFF) + ((bits >> uint32(16)) & uint32(1))) >> uint32(16))
