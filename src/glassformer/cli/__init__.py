"""Command-line interface: a module for each command or two, assembled in `app`; options are dataclasses (`options`).

A command's module is cheap to import: no torch, no numpy, no file access. Heavy imports are inside functions, because
typer reads every signature to print `--help`, and that must not wait for torch.
"""
