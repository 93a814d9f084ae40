"""Inference engine: token-budget batching without padding, sentence embeddings, packed and quantised weights."""
