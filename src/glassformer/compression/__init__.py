"""Compression of a network: low-rank adapters, and quantisation; each method with its paper."""
