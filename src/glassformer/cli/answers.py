"""Predictions on the screen: all predictions for one text, a line each.

76.04%  flies  time flies like an arrow            fill-mask: token, and the text with it
joy      0.7512 ███████████▎                       classification: label, probability, bar
PER  99.31%  Jeff Dean  0-9                        NER: entity, with its span in characters
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from glassformer.cli.screen import bar, visible, visible_lines

WIDTH = 24
"""Width of a bar, in characters."""


def show(prediction: Any) -> None:
    """Print all predictions for one text, a line each; a generated text keeps its line breaks."""
    from glassformer.tasks.results import Entity, Filling, Label, Result, TaggedToken

    if hasattr(prediction, "shape"):
        typer.echo(f"{' × '.join(map(str, prediction.shape))} numbers; --json or --output gives them")
        return
    if not prediction:
        typer.echo("no prediction", err=True)
    if all(isinstance(result, Label) for result in prediction):
        _show_labels(prediction)
        return
    for result in prediction:
        if isinstance(result, list):  # one of several masks
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
            typer.echo(visible_lines(result.text))


def _show_labels(labels: Sequence[Any]) -> None:
    """A bar for each label, where there are several."""
    width = max((len(visible(label.label)) for label in labels), default=0)
    for label in labels:
        chart = "  " + bar(label.score, WIDTH) if len(labels) > 1 else ""
        typer.echo(f"{visible(label.label):{width}}{label.score:8.2%}{chart}".rstrip())
