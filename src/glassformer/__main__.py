"""Entry point of `python -m glassformer`, the command line."""

from __future__ import annotations

from glassformer.cli.app import main

if __name__ == "__main__":
    main()
