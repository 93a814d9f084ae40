"""Rows from files, looked at, split, put in order and kept: what comes before any model.

rows ── read_rows: CSV, TSV, JSONL, Parquet, CoNLL, text, `datasets` objects
order ── which row stands where: a function of (seed, epoch, position)
"""
