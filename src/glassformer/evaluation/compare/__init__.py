"""Comparison of systems on the same rows: runs, generated texts, random seeds, precisions; comparison.py first."""
