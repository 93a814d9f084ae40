"""`glassformer look PATH`: the page of whatever there is at a path; with a text, the attention of a model in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.look_places import PLACES, place_of
from glassformer.cli.options import Json, Only, Truncate, command
from glassformer.errors import DataError
from glassformer.explorer.options import LookOptions
from glassformer.files import nearest_path
from glassformer.files.lazy import imported
from glassformer.generation.options import GenerationOptions
from glassformer.generation.served_options import served
from glassformer.hub.find import check_name
from glassformer.loading import Loading


@command
def look(
    path: Annotated[
        str,
        typer.Argument(
            help="Model (a folder, or a name on the Hugging Face Hub), run, folder of runs, store of documents, study, "
            "search, data file, or the JSON of a report.",
            show_default=False,
        ),
    ],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            help="To look into a model: one text, or two as a pair: in quotes, a text file, or - for standard input."
        ),
    ] = None,
    *,
    page: LookOptions,
    generation: Annotated[GenerationOptions, Only(served())],
    loading: Loading,
    truncate: Truncate = False,
    json: Json = False,
) -> None:
    """Show a model at work on a text (attention visualisation), or a run, study, report or data file, as a web page.

    Of a model: every head of every layer, as lines, maps, and the arithmetic of each number. With --view generate it
    shows text generation (40 tokens by default): the token distribution of each step, and what comes if you choose
    another token. The options for generation, sampling and beam search belong to that view.

    Without a text, it shows what there is at the path: a run (training curves, report, errors, and the attention of its
    best model in the rows with the highest loss), a folder of runs (a table to search, sort and group, with the curves
    of those you select), a study or a search, a data file, JSON that `--json` printed, or a store of documents, which
    answers questions; with the file of a recording, what the codes of an audio codec say of it.

    Serves a web page on this machine until Ctrl-C, or writes it as one HTML file.

    Examples:
      glassformer look MODEL 'time flies like an arrow' 'fruit flies like a banana'
      # the lens alone, in a file to send
      glassformer look MODEL 'The capital of France is' --views lens --html lens.html
      # a text as the model writes it
      glassformer look MODEL 'Once upon a time' --view generate --temperature 0.8
      # a training, all trainings, a data file
      glassformer look runs/mood
      glassformer look runs
      glassformer look rows.csv
    """
    if (place := place_of(path, texts or [])) is not None:
        imported(place.shown_by)(path, texts or [], page, loading, json=json)
        return
    page.check_model()
    if not texts:
        kinds = ", ".join(place.what for place in PLACES)
        nearest = "" if Path(path).exists() else nearest_path(Path(path))
        raise DataError(
            f"{path} is none of these: {kinds}{nearest}; of a model, give a text or two too, in quotes: glassformer "
            "look MODEL 'time flies'"
        )
    check_name(path)
    look_at_model = imported("glassformer.cli.look_model:look_at_model")
    look_at_model(path, texts, page, generation, loading, truncation=truncate, json=json)
