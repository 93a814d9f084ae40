"""Data sets: reading rows from files, validation, splits, shuffling and example stores; nothing here knows a model.

rows ── read_rows: CSV, TSV, JSONL, Parquet, CoNLL, text, `datasets` objects, one `RowSource` each, by index or streamed
order ── shuffling: which row is where, a pure function of (seed, epoch, position)
store ── examples as ragged arrays, in memory or memory-mapped from files
"""
