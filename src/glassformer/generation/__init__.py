"""Decoding: from logits to tokens."""
