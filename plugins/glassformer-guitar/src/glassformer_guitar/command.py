"""`glassformer guitar`: a tour of sound, part by part, and its page."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.options import command
from glassformer.cli.screen import heading, notes, print_facts, print_json, progress_of, say, terminal
from glassformer.explorer.options import Serving
from glassformer.reports.page import check_html_path
from glassformer_guitar.options import RiffOptions


@command
def guitar(
    *,
    riff: RiffOptions,
    serving: Serving,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs; serve no page.")] = False,
) -> None:
    """Tour of sound: a guitar riff, its pedals named, as audio codes and sound again, overdriven, and continued.

    A page lets you hear and see it.

    Examples:
      glassformer guitar
      # your own recordings, as a file to send
      glassformer guitar --recordings recordings/ --html riff.html
    """
    if serving.html is not None:
        check_html_path(serving.html)
    from glassformer.cli.listen import show_page
    from glassformer_guitar.tour import NEXT, GuitarDemo, GuitarModels, no_bar, page_of

    with notes():
        played = GuitarDemo(GuitarModels.load(riff.models), riff.seed, riff.seconds, riff.recordings)
    console, sections = terminal(), []
    for section in played.sections(no_bar if json else progress_of):
        sections.append(section)
        if not json:
            heading(console, section.title, section.example.about)
            print_facts(section.example.facts, console)
    if json:
        saved = {}
        if serving.html is not None:
            saved = {"out": str(serving.html), "bytes": page_of(sections, played).save(serving.html)}
        made = [section.example.to_dict() for section in sections]
        print_json({"seed": played.seed, "sections": made, **saved}, indent=None)  # thousands of codes
        return
    heading(console, "Hear it", "All of it on one page: switch between sounds while they play.")
    show_page(page_of(sections, played), serving.html, serving.browser)
    typer.echo("\nWhat next")
    for line in (played.command(played.seed + 1), *NEXT):
        say(f"  {line}")
