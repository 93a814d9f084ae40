"""`glassformer shrink MODEL`: smaller and faster variants of a model, and what each costs, in one table."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

from glassformer.cli.options import IsModel, Json, Quiet, command
from glassformer.cli.screen import notes, say, show
from glassformer.cli.stopped import CONTINUED, saying_where_stopped
from glassformer.cli.study import progress_on_screen
from glassformer.data.options import ReadingOptions
from glassformer.errors import GateError
from glassformer.progress import spinner
from glassformer.studies.options import ShrinkOptions


@command
def shrink(
    source: Annotated[
        str,
        IsModel,
        typer.Argument(help="Run folder, model, or recipe (YAML) with a section `shrink`.", metavar="MODEL|RECIPE"),
    ],
    *,
    options: ShrinkOptions,
    reading: ReadingOptions,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compress a model: quantise, distil, prune or export it, and measure what each variant costs.

    Every variant is a folder in the output that loads, predicts and evaluates like any other. The table: quality with
    a paired interval, size on disk and in RAM, latency (median, p95), throughput, FLOPs, bytes read.

    In a recipe, next to the keys of `glassformer train`:

    shrink:
      variants: {int8: {}, distilled: {options: {layers: 3}}, distilled+int8: {}}
      max_drop: 0.5

    The same command resumes; nothing finished is repeated. Exit code 4: a gate refused a variant, or with --under and
    --within all of them.

    Examples:
      glassformer shrink runs/mood --to half,int8 --output runs/mood-small
      glassformer shrink MODEL --task classify --data test.csv --to int8 --max-drop 0.5
      # the best variant that fits
      glassformer shrink runs/mood --under 25MB
    """
    with spinner("starting"):
        from glassformer.studies.shrink import shrink as shrink_model

    with notes(), saying_where_stopped(CONTINUED):
        progress = None if quiet or json else progress_on_screen()
        report = shrink_model(source, options, progress, **reading.keywords())
    page = report.facts["page"]
    if options.html is not None:
        shutil.copyfile(page, options.html)
    show(report, json, indent=None)
    written, refused = report.facts["written"], report.facts["refused"]
    if not json:
        say(f"saved in {', '.join([*written, page])}")
    if refused and not (report.facts["keeps_best"] and written):
        # The table has said why already; with --json it is in the report, on the other stream.
        why = "; ".join(refused) if json else f"a gate refused {', '.join(report.facts['refused_variants'])}"
        raise GateError(why)
