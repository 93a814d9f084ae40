"""Rows from files, looked at, split, put in order and kept: what comes before any model.

rows ── read_rows: CSV, TSV, JSONL, Parquet, CoNLL, text, `datasets` objects, one `Part` each, by number or streamed
order ── which row stands where: a function of (seed, epoch, position)
store ── what examples of them are kept in: ragged arrays, in memory or mapped from files
"""
