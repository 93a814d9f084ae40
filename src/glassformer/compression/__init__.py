"""Compression of a network: low-rank adapters, quantisation, pruning; each method with its paper."""
