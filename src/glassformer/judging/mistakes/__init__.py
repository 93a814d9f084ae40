"""Where a model goes wrong: rows by loss, what is taken for what, and labels that are mended."""
