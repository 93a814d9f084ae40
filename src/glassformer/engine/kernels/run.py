"""The instructions of a program, and the loop in which threads compute them.

run(state, scratch)    one thread: take a chunk, compute it, until the program is finished
"""

from __future__ import annotations

import numpy as np
from numba import float32, int64, njit, types

from glassformer.engine.kernels.formulas import (
    activate,
    add_four,
    add_row,
    eight_rows,
    exp,
    norm,
    product,
    tanh,
)
from glassformer.engine.kernels.four_bits import round_inputs, rounded_size
from glassformer.engine.kernels.levels import from_levels, to_levels
from glassformer.engine.kernels.many_tokens import attention_of_many, product_of_many
from glassformer.engine.kernels.memory import (
    BARE,
    atomic_add,
    atomic_load,
    atomic_store,
    bytes_,
    copy,
    exact,
    floats,
    formula,
    halves,
    instructions,
    integers,
    pause,
    to_bf16,
)
from glassformer.engine.program import (
    CHUNK_BITS,
    COUNT,
    DONE,
    FINISHED,
    FIRST,
    INSTRUCTIONS,
    STATE_SIZE,
    TICKET,
    WAITING,
    Kind,
    Norm,
    NumberFormat,
)

SPINS = 3_000
"""How often a thread looks whether the others are done before it gives its core away: some 50 µs."""


@formula
def inputs_of(op, scratch):
    """The address of norm(x) [rows, inputs], which each thread computes for itself; that of x where there is none.

    Where weights have 4 bits, that of the same inputs rounded.
    """
    D, x, rounded = op.inputs, op.x, scratch
    if op.norm != Norm.NONE:
        for r in range(op.rows):
            place = 4 * r * D
            norm(op.norm, floats(op.x + place, D), op.gain, op.shift, op.eps, floats(scratch + place, D))
        x, rounded = scratch, scratch + 4 * op.rows * D
    if op.format != NumberFormat.INT4:
        return x
    for r in range(op.rows):
        round_inputs(x + 4 * r * D, D, op.group, rounded + r * rounded_size(D))
    return rounded


@formula
def layer(op, R, weight, step, zero, bias, gate, gate_step, gate_zero, gate_bias, x, y, start, stop, scratch):
    """y = activation(W x + b) of R tokens; or gated, activation(W_gate x + b_gate) · (W x + b)."""
    N = op.outputs
    if gate:
        product(op, R, gate, gate_step, gate_zero, gate_bias, x, y, start, stop)
    else:
        product(op, R, weight, step, zero, bias, x, y, start, stop)
    neurons = floats(scratch + op.spare, R * N)
    if gate:
        product(op, R, weight, step, zero, bias, x, neurons, start, stop)
    for r in range(R):
        activate(op.activation, y[r * N + start : r * N + stop])
        if gate:
            for n in range(r * N + start, r * N + stop):
                y[n] *= neurons[n]


@formula
def linear(op, chunk, x, scratch):
    """A layer, or y = residual + factor · (W x + b)."""
    start = chunk * op.block
    stop = min(start + op.block, op.outputs)
    R, N = op.rows, op.outputs
    y = floats(op.y, R * N)
    if op.residual == 0:
        gates = op.gate, op.gate_step, op.gate_zero, op.gate_bias
        layer(op, R, op.weight, op.step, op.zero, op.bias, *gates, x, y, start, stop, scratch)
        return
    branch, stream = floats(scratch + op.spare, R * N), floats(op.residual, R * N)
    product(op, R, op.weight, op.step, op.zero, op.bias, x, branch, start, stop)
    for r in range(R):
        for n in range(r * N + start, r * N + stop):
            y[n] = stream[n] + float32(op.factor) * branch[n]


@formula
def route(op, r):
    """The k experts of a token with the largest softmax(scores), and these probabilities, divided by their sum."""
    X, k = op.inputs, op.slots
    scores, weights = floats(op.x + 4 * r * X, X), floats(op.mixture + 4 * r * k, k)
    chosen = integers(op.chosen + 8 * r * k, k)
    total = float32(0)
    for j in range(k):
        best = -1
        for e in range(X):
            taken = False
            for i in range(j):
                taken |= chosen[i] == e
            # `not <=`: NaN is chosen, as by torch.topk, so that it shows in the output.
            if not taken and (best < 0 or not scores[e] <= scores[best]):
                best = e
        chosen[j] = best
        weights[j] = exp(scores[best] - scores[chosen[0]])
        total += weights[j]
    for j in range(k):
        weights[j] /= total


@formula
def of_expert(op, table, expert):
    return integers(table, op.experts)[expert] if table else 0


@formula
def expert(op, chunk, x, scratch):
    """A layer of one token by one of its experts."""
    pair, start = chunk // op.parts, (chunk % op.parts) * op.block
    e, stop = integers(op.chosen, op.rows * op.slots)[pair], min(start + op.block, op.outputs)
    weight, step, bias = of_expert(op, op.weight, e), of_expert(op, op.step, e), of_expert(op, op.bias, e)
    gate, gate_step = of_expert(op, op.gate, e), of_expert(op, op.gate_step, e)
    gate_bias, y = of_expert(op, op.gate_bias, e), floats(op.y + 4 * pair * op.outputs, op.outputs)
    own = x + 4 * (pair // op.slots) * op.inputs
    layer(op, 1, weight, step, 0, bias, gate, gate_step, 0, gate_bias, own, y, start, stop, scratch)


@formula
def mixture(op, chunk, scratch):
    """y = residual + factor · Σ weight · (W x + b) over the experts of a token."""
    token, start = chunk // op.parts, (chunk % op.parts) * op.block
    N, stop = op.outputs, min(start + op.block, op.outputs)
    branch, total = floats(scratch + op.spare, N), floats(scratch + op.spare + 4 * N, N)
    for n in range(start, stop):
        total[n] = float32(0)
    for pair in range(token * op.slots, (token + 1) * op.slots):
        e, weight = integers(op.chosen, op.rows * op.slots)[pair], floats(op.mixture, op.rows * op.slots)[pair]
        step, bias = of_expert(op, op.step, e), of_expert(op, op.bias, e)
        product(op, 1, of_expert(op, op.weight, e), step, 0, bias, op.x + 4 * pair * op.inputs, branch, start, stop)
        for n in range(start, stop):
            total[n] += weight * branch[n]
    y, stream = floats(op.y + 4 * token * N, N), floats(op.residual + 4 * token * N, N)
    for n in range(start, stop):
        y[n] = float32(op.factor) * total[n] + (stream[n] if op.residual else float32(0))


@formula
def add_normed(op, r, scratch):
    """y[r] = residual[r] + factor · norm(x[r])"""
    D = op.inputs
    place = 4 * r * D
    normed, y = floats(scratch, D), floats(op.y + place, D)
    norm(op.norm, floats(op.x + place, D), op.gain, op.shift, op.eps, normed)
    if op.residual == 0:
        copy(normed, y)
        return
    stream = floats(op.residual + place, D)
    for i in range(D):
        y[i] = stream[i] + float32(op.factor) * normed[i]


@formula
def head_of(op, first, head, count, gain, shift, row, token, x, joint):
    """x = one head of q or k of a token, normed and rotated; it is one of `count` heads from `first` on."""
    E, kind = op.width, op.qk_norm
    heads = floats(op.x + 4 * ((row * op.new + token) * op.inputs + first * E), count * E)
    if kind == Norm.NONE:
        copy(heads[head * E :], x)
    elif op.qk_joint:
        norm(kind, heads, gain, shift, op.qk_eps, joint[: count * E])
        copy(joint[head * E :], x)
    else:
        norm(kind, heads[head * E : (head + 1) * E], gain + head * op.qk_stride, shift, op.qk_eps, x)
    if op.cosines:
        half = op.rotated // 2
        at = 4 * (row * op.rotation_stride + token * op.rotated)
        cosines, sines = floats(op.cosines + at, op.rotated), floats(op.sines + at, op.rotated)
        for i in range(half):  # the pair (i, i + half) is turned by its angle
            a, b = x[i], x[i + half]
            x[i] = a * cosines[i] - b * sines[i]
            x[i + half] = b * cosines[i + half] + a * sines[i + half]


@formula
def append(op, row, group, scratch):
    """Append the new tokens' keys and values of one group to the cache."""
    E, H, G = op.width, op.heads, op.groups
    size = 4 if op.cache_format == NumberFormat.FP32 else 2
    k, joint = floats(scratch, E), floats(scratch + op.spare, G * E)
    for t in range(op.new):
        at = ((row * G + group) * op.capacity + op.past + t) * E
        head_of(op, H, group, G, op.k_gain, op.k_shift, row, t, k, joint)
        v = floats(op.x + 4 * ((row * op.new + t) * op.inputs + (H + G + group) * E), E)
        if op.cache_format == NumberFormat.FP32:
            copy(k, floats(op.keys + at * size, E))
            copy(v, floats(op.values + at * size, E))
        else:
            narrow_k = halves(op.keys + at * size, E)
            narrow_v = halves(op.values + at * size, E)
            for e in range(E):
                narrow_k[e] = to_bf16(k[e])
                narrow_v[e] = to_bf16(v[e])


@formula
def scores_of(op, keys, q, start, stop, scores):
    """scores[s] = q · k[s]; the last key stands in for those that are missing from the last eight."""
    E, last = op.width, stop - 1
    for s in range(start, stop, 8):
        s1, s2, s3, s4 = min(s + 1, last), min(s + 2, last), min(s + 3, last), min(s + 4, last)
        s5, s6, s7 = min(s + 5, last), min(s + 6, last), min(s + 7, last)
        starts = keys + s * E, keys + s1 * E, keys + s2 * E, keys + s3 * E
        others = keys + s4 * E, keys + s5 * E, keys + s6 * E, keys + s7 * E
        sums = eight_rows(op.cache_format, op.keys, starts + others, q)
        scores[s], scores[s1], scores[s2], scores[s3], scores[s4], scores[s5], scores[s6], scores[s7] = sums


@formula
def add_values(op, keys, weights, start, stop, z):
    """z += Σ weights[s] v[s]; of a hidden key, whose weight is 0, the value is not read."""
    E = op.width
    for s in range(start, stop, 4):
        a, b, c, d = s, s + 1, s + 2, s + 3
        if d < stop and weights[a] != 0 and weights[b] != 0 and weights[c] != 0 and weights[d] != 0:
            starts = keys + a * E, keys + b * E, keys + c * E, keys + d * E
            add_four(op.cache_format, op.values, starts, (weights[a], weights[b], weights[c], weights[d]), z)
        else:
            for i in range(s, min(s + 4, stop)):
                if weights[i] != 0:
                    add_row(op.cache_format, op.values, keys + i * E, weights[i], z)


@formula
def attention(op, chunk, scratch):
    """z = softmax(q kᵀ · scale + bias) v for the heads of one row that share a group of keys.

    scores[s] = cap · tanh(q · k[s] · scale / cap) + bias[s];   hidden keys count nothing;   z = Σ probs[s] v[s]
    """
    E, H, G = op.width, op.heads, op.groups
    row, group = chunk // G, chunk % G
    memory = row // op.beams
    if op.writes:
        append(op, row, group, scratch)
    q = floats(scratch, E)
    joint = floats(scratch + op.spare, H * E)
    keys = (memory * G + group) * op.capacity * E
    total_keys = op.past + op.new if op.writes else op.past
    scores = floats(scratch + op.spare + 4 * H * E, total_keys)
    for t in range(op.new):
        stop = op.past + t + 1 if op.writes else op.past
        start = max(0, stop - op.window) if op.window else 0
        for h in range(group * (H // G), (group + 1) * (H // G)):
            head_of(op, 0, h, H, op.q_gain, op.q_shift, row, t, q, joint)
            scores_of(op, keys, q, start, stop, scores)
            top = float32(-np.inf)
            for s in range(start, stop):
                score = scores[s] * float32(op.scale)
                if op.cap > 0:
                    score = float32(op.cap) * tanh(score / float32(op.cap))
                if op.score_bias:
                    score += floats(op.score_bias, H * op.distances)[(h + 1) * op.distances - stop + s]
                if op.keep and not bytes_(op.keep + memory * total_keys, total_keys)[s]:
                    score = float32(-np.inf)
                scores[s] = score
                top = max(top, score)
            total = float32(0)
            for s in range(start, stop):
                # A row without a visible key has top = -inf, and -inf less -inf is NaN.
                scores[s] = float32(0) if scores[s] == float32(-np.inf) else exp(scores[s] - top)
                total += scores[s]
            z = floats(op.y + 4 * ((row * op.new + t) * H + h) * E, E)
            for e in range(E):
                z[e] = float32(0)
            for s in range(start, stop):  # of a row without a visible key all weights are 0, and 0 / 0 is not one
                scores[s] = scores[s] / total if scores[s] != float32(0) else float32(0)
            add_values(op, keys, scores, start, stop, z)


# ------------------------------------------------------------------------------------------------------- a thread


@formula
def many_products(words, number, chunk, scratch):
    """A product of a block of tokens, and those that are joined to it. Returns: the number of the last one."""
    while True:
        op = instructions(words[INSTRUCTIONS], words[COUNT])[number]
        product_of_many(op, chunk, scratch)
        if not op.joined:
            return number
        number += 1


@exact
def run(state, scratch):
    """Take chunks of the program until it is finished, alongside any number of other threads that do the same.

    A ticket is the phase and the next chunk in one number, so that taking one is one atomic addition. Who computes the
    last chunk of a phase begins the next. No thread waits for one that holds no chunk.
    """
    words = integers(state, STATE_SIZE)
    prepared, inputs = int64(-1), int64(0)
    while True:
        ticket = atomic_add(state + 8 * TICKET, 1)
        phase, chunk = ticket >> CHUNK_BITS, ticket & ((1 << CHUNK_BITS) - 1)
        number = phase - words[FIRST]
        if number < 0 or number >= words[COUNT]:  # below 0: taken in the midst of `restart`
            return FINISHED
        op = instructions(words[INSTRUCTIONS], words[COUNT])[number]
        if chunk >= op.chunks:  # all are taken: wait for those that are being computed
            spins = 0
            while atomic_load(state + 8 * TICKET) >> CHUNK_BITS == phase:
                if spins == SPINS:
                    return WAITING
                spins += 1
                pause()
            continue
        if op.kind == Kind.ATTENTION:
            attention(op, chunk, scratch)
        elif op.kind == Kind.NORM:
            add_normed(op, chunk, scratch)
        elif op.kind == Kind.ROUTE:
            route(op, chunk)
        elif op.kind == Kind.MIXTURE:
            mixture(op, chunk, scratch)
        elif op.kind == Kind.TO_LEVELS:
            to_levels(op, chunk)
        elif op.kind == Kind.FROM_LEVELS:
            from_levels(op, chunk)
        elif op.kind == Kind.MANY_ATTENTION:
            attention_of_many(op, chunk, scratch)
        elif op.kind == Kind.MANY_PRODUCT:
            number = many_products(words, number, chunk, scratch)
        else:
            if prepared != phase:  # once a phase, not once a chunk
                prepared, inputs = phase, inputs_of(op, scratch)
            if op.kind == Kind.EXPERT:
                expert(op, chunk, inputs, scratch)
            else:
                linear(op, chunk, inputs, scratch)
        if atomic_add(state + 8 * DONE, 1) == op.chunks - 1:
            # In this order: once the ticket is of the next phase, others count its chunks.
            atomic_store(state + 8 * DONE, 0)
            atomic_store(state + 8 * TICKET, (words[FIRST] + number + 1) << CHUNK_BITS)


def compiled():
    """The machine code of `run`, and its name in there."""
    entry = njit(types.int64(types.int64, types.int64), **BARE)(run.py_func)
    (overload,) = entry.overloads.values()
    return overload.library._get_compiled_object(), overload.fndesc.llvm_func_name
