"""Compiled kernels of a decoding step (Numba): read `formulas`, then `run`.

A step of generation reads every weight once, so it takes as long as the memory needs, if nothing lies in between. All
activations are fp32; weights are widened in registers. What is computed, on which numbers, is data: see `program`.
These modules are imported only to compile them, in a process of its own: see `native`.
"""
