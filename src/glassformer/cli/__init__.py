"""The command line: one module a command, put together in `app`.

A command's module is light to import: no torch, no numpy, no file read. What is heavy is imported inside its
function. Typer has to read every signature to print `--help`, and nobody should wait for torch to see it.
"""
