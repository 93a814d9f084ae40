"""`glassformer lesson NAME|FILE`: a story told with the numbers of a model, as a page that plays it, text or JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from glassformer.cli.inputs import check_texts, whole_texts
from glassformer.cli.options import Json, Truncate, command
from glassformer.cli.screen import notes, say, show
from glassformer.errors import DataError
from glassformer.explorer.options import Serving
from glassformer.files.schema import given
from glassformer.loading import HeadLoading
from glassformer.progress import spinner
from glassformer.reports.page import check_html_path


@command
def lesson(
    name: Annotated[str, typer.Argument(help="Lesson of this package, or a JSON file.")] = "tour",
    *,
    model: Annotated[str | None, typer.Option(help="Model in place of the lesson's: a folder or Hub name.")] = None,
    text: Annotated[list[str] | None, typer.Option(help="Text in place of the lesson's; twice for a pair.")] = None,
    shipped: Annotated[bool, typer.Option("--list", help="List the lessons of this package.")] = False,
    serving: Serving,
    loading: HeadLoading,
    truncate: Truncate = False,
    json: Json = False,
) -> None:
    """Lesson: a story told with the numbers of a model, step by step, each next to the view that shows it.

    Serves the page on this machine until Ctrl-C, or writes it as one HTML file; --json prints the steps with their
    numbers. On another model or text, the lesson follows the strongest link between two tokens there.

    Examples:
      glassformer lesson --list
      glassformer lesson attention
      glassformer lesson attention --model ./my-bert --text 'fruit flies like a banana'
      glassformer lesson my-lesson.json --html page.html
    """
    from glassformer.explorer.lesson import read_lesson
    from glassformer.explorer.lesson import shipped as all_shipped

    if shipped:
        for each in all_shipped():
            say(f"{each:<16}{read_lesson(each).about}")
        return
    if serving.html is not None:
        check_html_path(serving.html)
    planned = read_lesson(name)
    address, texts = model or planned.model, list(text or planned.texts or ())
    if address is None or not texts:
        option = "--model" if address is None else "--text"
        raise DataError(f"the lesson {planned.title!r} is on one of your own; give it by {option}")
    check_texts(texts)
    if model is not None or text:
        planned = replace(planned.anywhere(), model=address)
    with notes(repeats=False), spinner("loading the model"):
        from glassformer.cli.look_page import serve, write
        from glassformer.explorer import Look
        from glassformer.explorer.look import InitialView
        from glassformer.explorer.session_runs import SessionRuns
        from glassformer.explorer.tour import played
        from glassformer.model import load

        own = {} if planned.task is None else {"task": planned.task}
        loaded = load(address, **{**own, **given(loading)})
        factory = replace(loaded.session_factory(truncation=truncate), lesson=planned)
    with Look(SessionRuns(factory), whole_texts(texts, loaded), InitialView(tour=1)) as look:
        run = played(look.session, factory)  # early: an error of a step before an address
        if json:
            show(run, json, indent=None)
        elif serving.html is not None:
            write(look, serving.html)
        else:
            serve(look, port=serving.port, browser=serving.browser)
