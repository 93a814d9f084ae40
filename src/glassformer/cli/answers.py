"""The answers of tasks on the screen: all there are to one text, a line each.

76.04%  flies  time flies like an arrow            a gap
joy      0.7512 ███████████▎                       classes, drawn
PER  99.31%  Jeff Dean  0-9                        entities
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from glassformer.cli.screen import bar, visible

WIDTH = 24
"""Of a bar, in characters."""


def show(answer: Any) -> None:
    """All answers to one text: a line each, the lines of a text kept; of a gap, the words and their probability."""
    from glassformer.tasks.results import Entity, Filling, Label, Result, TaggedToken

    if hasattr(answer, "shape"):
        typer.echo(f"{' × '.join(map(str, answer.shape))} numbers; --json or --output gives them")
        return
    if not answer:
        typer.echo("nothing found", err=True)
    if all(isinstance(result, Label) for result in answer):
        _show_labels(answer)
        return
    for result in answer:
        if isinstance(result, list):  # one of several gaps
            show(result)
            typer.echo()
        elif isinstance(result, Filling):
            typer.echo(f"{result.score:7.2%}  {visible(result.token_str):12}  {visible(result.sequence)}")
        elif isinstance(result, (Entity, TaggedToken)):
            name = result.entity_group if isinstance(result, Entity) else result.entity
            typer.echo(
                f"{visible(name):8}{result.score:7.2%}  {visible(result.word)}  {result.start}-{result.end}"
            )
        elif isinstance(result, Result):
            typer.echo("\n".join(visible(line) for line in result.text.split("\n")))


def _show_labels(labels: Sequence[Any]) -> None:
    """A bar for each of several labels; of one alone its probability says enough."""
    width = max((len(visible(label.label)) for label in labels), default=0)
    for label in labels:
        drawn = "  " + bar(label.score, WIDTH) if len(labels) > 1 else ""
        typer.echo(f"{visible(label.label):{width}}{label.score:8.2%}{drawn}".rstrip())
