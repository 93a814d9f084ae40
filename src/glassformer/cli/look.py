"""`glassformer look MODEL TEXT [TEXT]`: the attention explorer, a web page for one forward pass or one generation.

`glassformer look RUN` is the page of a training run: curves, report, errors, and the explorer on its best model.
`glassformer look STORE` is the page of a store of documents: ask it, and see why.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.inputs import check_texts, whole_texts
from glassformer.cli.look_documents import look_at_store
from glassformer.cli.look_page import serve, write
from glassformer.cli.options import Json, ModelName, Only, Truncate, command, generation_keywords
from glassformer.cli.screen import notes, print_json, progress_of, say_saved
from glassformer.errors import DataError, UnsupportedError
from glassformer.explorer.options import LookOptions
from glassformer.files.schema import given
from glassformer.generation.options import GenerationOptions
from glassformer.generation.served_options import served
from glassformer.loading import Loading
from glassformer.progress import spinner
from glassformer.reports.page import check_html_path, page_path
from glassformer.retrieval.options import is_store_folder
from glassformer.retrieval.postgres_database import is_address
from glassformer.runs.folder import CONFIG

if TYPE_CHECKING:
    from glassformer.explorer.look import InitialView
    from glassformer.model import Model


@command
def look(
    model: ModelName,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            help="One text, or two as a pair: in quotes, a text file, or - for standard input. None: the page of a run."
        ),
    ] = None,
    *,
    page: LookOptions,
    generation: Annotated[GenerationOptions, Only(served())],
    loading: Loading,
    truncate: Truncate = False,
    json: Json = False,
) -> None:
    """Visualise attention: every head of every layer, as lines, maps, and the arithmetic of each number.

    Serves a web page on this machine until Ctrl-C, or writes it as one HTML file. With --view generate it shows text
    generation (40 tokens by default): the token distribution of each step, and what comes if you choose another token.
    The options for generation, sampling and beam search belong to that view.

    Of an audio codec, with the file of a recording, it shows what its codes say of it, to hear and see.

    Of a store of documents, it is a page that answers questions, and shows why; --reader reads the passages.

    Of a run folder, without a text, it shows the run: training curves, report, errors, and the attention of its best
    model in the rows with the highest loss; it is evaluated first where it was not.
    """
    if is_address(model) or is_store_folder(Path(model).expanduser()):
        return look_at_store(model, texts or [], page, loading, json=json)
    page.check_model()
    if not texts and (Path(model) / CONFIG).is_file():
        return _look_at_run(Path(model), page, json)
    if not texts:
        raise DataError(
            f"{model} is no folder of a run, and no text was given; name a model and a text or two, in quotes: "
            "glassformer look MODEL 'time flies'"
        )
    check_texts(texts)
    if page.html is not None:
        check_html_path(page.html)
    from glassformer.explorer.look import InitialView

    written = generation_keywords(generation) or None
    with notes():  # of views of plug-ins that cannot be used
        view, layer, heads = page.view, page.layer, page.heads or None
        start = InitialView(view=view, layer=layer, heads=heads, theme=page.theme, options=written)
    if page.html is not None and page.view != "sound":  # of models over codes a file of its own
        start.check_saved()
    with spinner("loading the model"):
        from glassformer.cli.look_codes import look_at_codes, shows_sound
        from glassformer.model import load

        loaded = load(model, **given(loading))
    if shows_sound(loaded, page.view):
        look_at_codes(loaded, texts, codec=page.codec, html=page.html, browser=page.browser, json=json)
    elif page.view == "sound" and page.html is not None:
        _write_transcript(loaded, texts, page.html, json)
    else:
        _look_at_attention(loaded, whole_texts(texts, loaded), start, page, truncation=truncate, json=json)


def _write_transcript(model: Model, sounds: list[str], html: Path, json: bool) -> None:
    """The view of a sound as a file: the page of its transcription. Raises: UnsupportedError: no model of speech."""
    from glassformer.cli.transcribe_screen import write_page
    from glassformer.speech.options import TranscriptionOptions

    if len(sounds) != 1:
        raise DataError(f"the view of a sound is of one recording, got {len(sounds)}; name one file")
    write_page(model, Path(sounds[0]), TranscriptionOptions(), html, json=json)


def _look_at_attention(
    model: Model, texts: list[str], start: InitialView, page: LookOptions, *, truncation: bool, json: bool
) -> None:
    """Serve the explorer until Ctrl-C, or write it as an HTML file."""
    from glassformer.explorer import Look
    from glassformer.explorer.session_runs import SessionRuns

    if model.network.READS[0] == "input_features" and not model.has_tokenizer:
        raise UnsupportedError(
            "look shows models that write text, and this one has no tokenizer; hear and see what it makes of sounds: "
            "glassformer listen MODEL --task TASK --data FILE"
        )
    if page.html is not None:
        start.check_saved()
    factory = model.session_factory(truncation=truncation, corpus=page.corpus, codec=page.codec)
    with notes(repeats=False), Look(SessionRuns(factory), texts, start) as explorer:
        if page.html is not None:
            layers = None if page.layers is None else list(page.layers)
            write(explorer, page.html, layers=layers, cap_bytes=page.cap_bytes, json=json)
        else:
            serve(explorer, port=page.port, browser=page.browser, json=json)


def _look_at_run(run: Path, options: LookOptions, json: bool) -> None:
    """Serve the page of a run until Ctrl-C, or write it as an HTML file.

    Raises: ConfigError: an option of the explorer's page, which goes with a text.
    """
    from glassformer.cli.errors import evaluated
    from glassformer.evaluation.error_analysis.served import ServedErrors
    from glassformer.evaluation.options import RowOptions
    from glassformer.evaluation.run_page import RunPage, save_run_page

    options.check_run()
    path = None if options.html is None else page_path(options.html, "run.html")
    split = evaluated(run, RowOptions())
    if path is None:
        with ServedErrors(RunPage(split), split.run.model, options.port, name="run") as served:
            if json:
                print_json({"url": served.url, "port": served.port}, indent=None)
            else:
                served.show(options.browser)
                typer.echo("Ctrl-C stops the server")
            served.wait()
        return
    with progress_of("explorer pages") as bar:
        pages = save_run_page(split, path, bar)
    if json:
        print_json({"out": str(path), "pages": pages}, indent=None)
    else:
        say_saved(path, pages)
