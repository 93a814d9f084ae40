"""`glassformer look MODEL TEXT [TEXT]`: the attention explorer, a web page for one forward pass or one generation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.cli.inputs import check_texts, whole_texts
from glassformer.cli.look_page import serve, write
from glassformer.cli.options import generation_keywords
from glassformer.cli.screen import notes
from glassformer.errors import DataError, UnsupportedError
from glassformer.explorer.options import LookOptions, check_not_empty
from glassformer.files.schema import given
from glassformer.generation.options import GenerationOptions
from glassformer.loading import Loading
from glassformer.progress import spinner
from glassformer.reports.page import check_html_path

if TYPE_CHECKING:
    from glassformer.explorer.look import InitialView
    from glassformer.model import Model


def look_at_model(
    model: str,
    texts: list[str],
    page: LookOptions,
    generation: GenerationOptions,
    loading: Loading,
    *,
    truncation: bool,
    json: bool,
) -> None:
    """Show a text in a model: its attention, what it writes, or what it hears."""
    check_texts(texts)
    check_not_empty(texts)
    if page.html is not None:
        check_html_path(page.html)
    from glassformer.explorer.look import InitialView, saved_view, token_of

    written = generation_keywords(generation) or None
    with notes():  # of views of plug-ins that cannot be used
        view, layer, heads = page.view, page.layer, page.heads or None
        query, key = token_of(page.query), token_of(page.key)
        start = InitialView(
            view=view, layer=layer, heads=heads, query=query, key=key, theme=page.theme, options=written
        )
    if page.html is not None and page.view != "sound":  # of models over codes a file of its own
        saved_view(start, page.views, compares=page.against is not None)
    with spinner("loading the model"):
        from glassformer.cli.look_codes import look_at_codes, shows_sound
        from glassformer.model import load

        loaded = load(model, **given(loading))
    loaded.report.require_head(model, loaded.task)
    if shows_sound(loaded, page.view):
        look_at_codes(loaded, texts, codec=page.codec, html=page.html, browser=page.browser, json=json)
    elif page.view == "sound" and page.html is not None:
        _write_transcript(loaded, texts, page.html, json)
    else:
        _look_at_attention(loaded, whole_texts(texts, loaded), start, page, truncation=truncation, json=json)


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
    factory = model.session_factory(truncation=truncation, corpus=page.corpus, codec=page.codec, against=page.against)
    with notes(repeats=False), Look(SessionRuns(factory), texts, start) as explorer:
        if page.html is not None:
            layers = None if page.layers is None else list(page.layers)
            write(explorer, page.html, layers=layers, cap_bytes=page.cap_bytes, views=page.views, json=json)
        else:
            serve(explorer, port=page.port, browser=page.browser, json=json)
