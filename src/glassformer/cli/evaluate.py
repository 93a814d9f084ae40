"""`glassformer evaluate RUN`: how good a trained model is, beside what simple means reach."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.screen import notes


def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    data: Annotated[
        list[str] | None, typer.Option("--data", "-d", help="Other rows than its validation part.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Judge a trained model, beside its baselines, with 95 % intervals."""
    from glassformer.judging.runs import VALIDATION, open_run

    opened = open_run(run)
    with notes():
        found = opened.evaluate(data)
    found.save(opened.place(VALIDATION if not data else Path(data[0]).name.split(".")[0]))
    if json:
        import json as json_format

        typer.echo(json_format.dumps(found.report.to_dict(), ensure_ascii=False, indent=2))
    else:
        typer.echo(str(found.report))
