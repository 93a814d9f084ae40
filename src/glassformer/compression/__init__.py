"""Models made smaller, or made to learn with fewer numbers: surgery on modules that are found by their names."""
