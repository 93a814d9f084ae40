"""Checkpoints: files of named tensors, read, checked, and fitted into a network by rules that can be turned around."""
