"""`glassformer compare RUN RUN …`, or `compare --data FILE lead-3 MODEL …`: compare systems on the same rows."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.options import Defaults, Json, Only, Without, command
from glassformer.cli.screen import notes, save_page, say, show
from glassformer.data.options import ReadingOptions
from glassformer.evaluation.compare.options import CompareOptions
from glassformer.files.schema import given
from glassformer.generation.options import GenerationOptions
from glassformer.loading import Loading
from glassformer.progress import progress_bar, spinner

Systems = Annotated[
    list[str],
    typer.Argument(
        help="Run folders; model folders or names on the Hub; lead-3 (the first three sentences); a baseline of a run.",
        show_default=False,
    ),
]
Generation = Annotated[GenerationOptions, Only(["max_new_tokens", "num_beams"]), Defaults(max_new_tokens=60)]


@command
def compare(
    systems: Systems,
    *,
    options: CompareOptions,
    reading: ReadingOptions,
    generation: Generation,
    loading: Annotated[Loading, Without(["revision"])],
    json: Json = False,
) -> None:
    """Compare systems on the same rows: runs, models, baselines; with 95% confidence intervals and costs.

    The first system is the reference of all differences. Runs are folders of `glassformer train`, of several random
    seeds, or of evaluations; a run without an evaluation is evaluated first. With --data each system predicts the same
    rows; Ctrl-C ends that early and shows the results so far.

    Examples:
      glassformer compare runs/small runs/large --html page.html
      glassformer compare --data test.csv runs/small MODEL "bag of words"
      glassformer compare --data emotion --kind emotion --part test MODEL runs/mood
      glassformer compare --data rows.csv lead-3 lead-1 MODEL
      glassformer compare --data rows.jsonl -c source=dialogue -c target=summary lead-3 A B --html page.html
      glassformer compare --data pairs.tsv -c source=en -c target=de --task translation MODEL
    """
    with spinner("starting"):
        from glassformer.evaluation.compare.compare import compare as compare_systems

    with notes(repeats=options.data is None):
        result = compare_systems(
            systems,
            loading=given(loading),
            generation=given(generation),
            bar=progress_bar,
            **given(options),
            **given(reading),
        )
    show(result, json)
    save_page(options.html, result, json)
    if result.interrupted:
        say(f"interrupted: {result.rows:,} of {result.total:,} rows were evaluated", err=True)
        raise typer.Exit(130)
