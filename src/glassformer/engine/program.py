"""Blocks as a program: instructions that compiled kernels run, without torch and Python in between.

    a step         qkv ← W norm(x) + b  │  z ← attention(qkv, cache)  │  x ← x + W z + b  │  neurons ← …  │  x ← x + …

Each instruction is a record of addresses and sizes, cut into chunks that threads take one after the other; the next
begins when all chunks of the one before are done. `kernels` has the formulas; `step_program` writes the programs of
decoding steps, `packed_row` those of encoders.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Kind(IntEnum):
    """Operation of an instruction of the compiled program."""

    PRODUCT = 0  # y = activation(W norm(x) + b), or y += factor · (W x + b)
    GATED = 1  # y = activation(W_gate norm(x) + b_gate) · (W norm(x) + b)
    ATTENTION = 2  # z = softmax(q kᵀ · scale + bias) v
    NORM = 3  # y = residual + factor · norm(x)
    ROUTE = 4  # the experts of each token, and their weights, from the router's scores
    EXPERT = 5  # PRODUCT or GATED of a token by each of its experts
    MIXTURE = 6  # y = residual + factor · Σ weight · (W x + b) over a token's experts
    TO_LEVELS = 7  # y = round(x / step), step = max |x| / 127 of each token
    FROM_LEVELS = 8  # y = step · y + b, with the step of each token
    MANY_PRODUCT = 9  # y = activation(W norm(x) + b), or end_norm(y + factor · (…)), in 8 bits, of a block of tokens
    MANY_ATTENTION = 10  # z = softmax(q kᵀ · scale) v of the texts of a packed row


class NumberFormat(IntEnum):
    """How weights, or keys and values, are stored."""

    FP32 = 0
    FP16 = 1
    BF16 = 2
    INT8 = 3  # a step for each row
    INT4 = 4  # eight in a word of 32 bits, a step for each group of neighbours in a row


class Norm(IntEnum):
    """Normalisation of a vector, before a product or by itself."""

    NONE = 0
    LAYER = 1
    RMS = 2


class Activation(IntEnum):
    """Activation functions, by the names of `core.feed_forward`."""

    NONE = 0
    GELU = 1
    GELU_TANH = 2
    QUICK_GELU = 3
    RELU = 4
    SILU = 5
    TANH = 6


LEVELS = 127
"""The largest level of 8 bits with a sign, symmetric around 0: -128 is not used."""

TILE_TOKENS, TILE_OUTPUTS, TILE_FLOATS = 6, 64, 32
"""A tile of registers, where tokens are many: tokens, outputs of a product in 8 bits, and in fp32."""

INSTRUCTION = np.dtype(
    [
        *((name, "i8") for name in "kind chunks block rows spare".split()),
        # joined: a thread next takes the same chunk of the next instruction, which no other thread needs
        ("joined", "i8"),
        # vectors, fp32: x [rows, inputs], y [rows, outputs], residual [rows, outputs] or 0
        *((name, "i8") for name in "x inputs y outputs residual".split()),
        ("factor", "f8"),
        # norm of x: gain and shift [inputs], or 0
        *((name, "i8") for name in "norm gain shift".split()),
        ("eps", "f8"),
        # weights [outputs, inputs] in a format; step, and bias or 0 [outputs]; those of the gate
        *((name, "i8") for name in "format weight step bias gate gate_step gate_bias activation".split()),
        # of 4 bits: weights that share a step; zero points [outputs, groups] or 0, and the gate's
        *((name, "i8") for name in "group zero gate_zero".split()),
        # experts: how many, and for each token; the chosen ones [rows, slots], integers, and their weights, fp32;
        # chunks of a product. The addresses of weights are those of tables then, with an address for each expert
        *((name, "i8") for name in "experts slots chosen mixture parts".split()),
        # attention of `new` tokens in each row: heads, groups of keys, width of a head; memory rows shared by beams
        *((name, "i8") for name in "new heads groups width beams".split()),
        # keys and values [N, groups, capacity, width], of which `past` are there; `writes`: new ones are appended
        *((name, "i8") for name in "keys values cache_format capacity past writes window".split()),
        # keep [N, past + new] bool or 0; bias of the scores [heads, distances], the last one that of distance 0, or 0
        *((name, "i8") for name in "keep distances score_bias".split()),
        *((name, "f8") for name in "scale cap".split()),
        # rotary: cosines and sines [1 or rows, new, rotated], or 0
        *((name, "i8") for name in "cosines sines rotated rotation_stride".split()),
        # norms of q and k, over all heads at once (joint); from a head's gain to the next one's are N bytes, or 0
        *((name, "i8") for name in "qk_norm qk_joint qk_stride q_gain q_shift k_gain k_shift".split()),
        ("qk_eps", "f8"),
        # many tokens: whether the product is added to y; int32 sums that it begins with [outputs]; bytes of a token's
        # levels; where these, and what no other thread needs, lie in scratch memory; the norm at the end; where texts
        # begin [texts + 1]
        *((name, "i8") for name in "adds begins level_bytes levels neurons end_norm end_gain end_shift".split()),
        ("end_eps", "f8"),
        *((name, "i8") for name in "starts texts".split()),
    ]
)
"""One instruction; every address is an integer, 0 for what is not there."""

RUN = 8
"""Inputs that are rounded with one scale, where weights have 4 bits: as many as a word has weights."""
ROUNDED_WEIGHTS, ROUNDED_BYTES = 128, 512
"""Inputs of a chunk, and its bytes: three of each input, and for each run a sum and a scale of 32 bits."""


def rounded_floats(inputs: int) -> int:
    """Scratch memory for the rounded inputs of a token, in fp32 numbers; with room for a sum of each group."""
    return -(-inputs // ROUNDED_WEIGHTS) * (ROUNDED_BYTES // 4 + ROUNDED_WEIGHTS // RUN)


# The state of a running program, as 64-bit integers: those that threads write lie in cache lines of their own.
TICKET = 0  # (phase << CHUNK_BITS) + the next chunk
DONE = 8  # chunks of this phase that are computed
FIRST, COUNT, INSTRUCTIONS = 16, 17, 18  # the phase of the first instruction, how many there are, their address
STATE_SIZE = 24  # three cache lines of 64 bytes
CHUNK_BITS = 24  # of a ticket; the 40 above count phases

FINISHED, WAITING = 0, 1
"""What a thread returns: the program is finished; it has waited for others for a while."""


def state_of(instructions: np.ndarray) -> np.ndarray:
    """The state of a program that has not begun; the instructions must outlive it."""
    state = np.zeros(STATE_SIZE, np.int64)
    state[COUNT], state[INSTRUCTIONS] = len(instructions), instructions.ctypes.data
    return state


def restart(state: np.ndarray) -> None:
    """Begin a finished program again. Phases go on counting, so that no thread takes a new one for an old one."""
    state[FIRST] += state[COUNT] + 1
    state[TICKET] = state[FIRST] << CHUNK_BITS
