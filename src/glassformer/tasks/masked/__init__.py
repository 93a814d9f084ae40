"""Masked language modelling, and the fill-mask pipeline."""
