"""`python -m glassformer` is the command `glassformer`."""

from __future__ import annotations

from glassformer.cli.app import main

if __name__ == "__main__":
    main()
