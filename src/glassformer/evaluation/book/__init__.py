"""Reproduction of published results: chapters of "Natural Language Processing with Transformers"."""
