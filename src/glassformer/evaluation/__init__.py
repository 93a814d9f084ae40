"""Measuring: how good a model is, and whether it computes what it should."""
