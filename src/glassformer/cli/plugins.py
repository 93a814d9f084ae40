"""`glassformer plugins`: installed plug-ins, what each adds, and what is wrong with them."""

from __future__ import annotations

from glassformer.cli.options import Json
from glassformer.cli.screen import show
from glassformer.progress import spinner


def plugins(json: Json = False) -> None:
    """List installed plug-ins: tasks, data formats, commands, views and model families of other packages.

    Each is imported to see whether it can be used; what is wrong with one is its state. Any Python package can add
    such parts by entry points: docs/plugins.md.

    Examples:
      glassformer plugins
      glassformer plugins --json
    """
    with spinner("importing plug-ins"):
        from glassformer.plugins import plug_ins

        listed = plug_ins()
    show(listed, json)
