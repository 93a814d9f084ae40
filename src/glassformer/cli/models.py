"""`glassformer families`: the supported model families; `glassformer sizes`: sizes of published models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from glassformer.cli.options import Json
from glassformer.cli.screen import notes, show
from glassformer.errors import DataError, nearest
from glassformer.progress import spinner, with_bar


def sizes(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Filter: models whose name contains one of these: llama, gpt2, …"),
    ] = None,
    notes: Annotated[
        bool,
        typer.Option("--notes", help="Check claims about model sizes in lecture notes against computed ones."),
    ] = False,
    json: Json = False,
) -> None:
    """List sizes of published models: parameters, memory, context, vocabulary, hidden size, layers, training tokens.

    Every size is computed from the network that the model's config describes, without weights; `glassformer info NAME`
    shows its modules.

    Examples:
      glassformer sizes
      glassformer sizes llama gpt2
    """
    if notes:
        with spinner("computing sizes"):
            from glassformer.lessons.sizes import check

            checked = check()
        show(checked, json)
        return
    with spinner("starting"):
        from glassformer import inspect
        from glassformer.models.presets import PRESETS

    chosen = _matching(names or [], PRESETS, "published model")
    show(inspect.sizes(with_bar(chosen, "models")), json)


def _matching(words: list[str], names: Iterable[str], kind: str) -> list[str]:
    """Names that contain one of the words; all of them without words. Raises: DataError: a word that no name has."""

    names = list(names)
    for word in words:
        if not any(word in name for name in names):
            raise DataError(f"no {kind} has {word!r} in its name{nearest(word, names)}")
    return [name for name in names if not words or any(word in name for word in words)]


def families(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Filter: families whose name contains one of these: bert, llama, …"),
    ] = None,
    json: Json = False,
) -> None:
    """List the supported model families with their architecture: norms, positions, attention, feed-forward, heads.

    Derived from the specs of the families. `glassformer sizes` lists published model sizes.

    Examples:
      glassformer families
      glassformer families bert
    """
    with spinner("starting"):
        from glassformer.inspect.families import family_table
        from glassformer.models import FAMILIES

    chosen = _matching(names or [], FAMILIES, "family")
    for name in chosen if len(chosen) == 1 else {*(names or ())} & {*chosen}:
        FAMILIES[name]  # asked for by name: an error where it is a plug-in that cannot be used
    with notes():
        usable = [family for _, family in FAMILIES.usable(with_bar(chosen, "families"))]
    if not usable:
        FAMILIES[chosen[0]]  # the error of the first; the notes are those of all
    show(family_table(usable), json)
