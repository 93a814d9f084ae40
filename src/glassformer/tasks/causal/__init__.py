"""Causal language modelling and instruction tuning."""
