"""`glassformer lens MODEL TEXT` and `glassformer attribute MODEL TEXT`: logit lens, and what made an output."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.inputs import opened
from glassformer.cli.options import Html, Json, ModelName, Texts, Truncate, command
from glassformer.cli.screen import progress_of, say, show
from glassformer.files.schema import given
from glassformer.inspect.options import IntegratedGradientsRequest, LensRequest
from glassformer.loading import HeadLoading
from glassformer.reports.page import check_html_path
from glassformer.reports.table import byte_amount

if TYPE_CHECKING:
    from glassformer.explorer.registry import Reading
    from glassformer.inspect import Session
    from glassformer.model import Model


@command
def lens(
    model: ModelName,
    texts: Texts,
    request: LensRequest,
    top: Annotated[int, typer.Option(help="Number of outputs per cell, in --json.", min=1)] = 5,
    html: Html = None,
    *,
    loading: HeadLoading,
    truncate: Truncate = False,
    json: Json = False,
) -> None:
    """Logit lens: what the model would say if it ended after each layer; the last row is its own output.

    Of each layer and token it prints the most likely output, shaded by its probability; with --target the rank of that
    output. Language models, fillers of gaps, encoder-decoders, and classifiers of texts, tokens and spans.

    Examples:
      glassformer lens ./gpt2 'The capital of France is'
      glassformer lens ./gpt2 'The capital of France is' --target ' Paris' --html page.html
      glassformer lens ./bert 'The capital of France is [MASK].'
      glassformer lens ./gpt2 "$(cat chapter.txt)" --first 200 --count 10
    """
    if html is not None:
        check_html_path(html)
    loaded, session = opened(model, texts, loading, truncation=truncate)
    with progress_of("layers") as update:
        result = session.lens(top=top, progress=update, **given(request))
    if html is not None:
        from glassformer.explorer.readings import read

        write_page(loaded, session, read(session, "lens", LensRequest(target=request.target)), html)
    show(result, json, indent=None, texts=list(session.texts), out=html and str(html))
    say_saved(html, json)


@command
def attribute(
    model: ModelName,
    texts: Texts,
    *,
    request: IntegratedGradientsRequest,
    html: Html = None,
    loading: HeadLoading,
    truncate: Truncate = False,
    json: Json = False,
) -> None:
    """Attribution: which words, heads and layers made an output: a class, a tag, a span, the next token.

    Words by integrated gradients, which add up to the change of the logit from a text without them; where these miss
    too much, by Shapley values of a short text, or by leaving out each word of a longer one. Heads and feed-forward
    layers by direct logit attribution, which adds up to the logit.

    Examples:
      glassformer attribute runs/emotion/model 'i feel so furious about it' --target anger
      glassformer attribute ./gpt2 'The capital of France is' --target ' Paris' --against ' London'
      glassformer attribute ./ner 'Ada met Grace' --at Ada --html page.html
    """
    if html is not None:
        check_html_path(html)
    loaded, session = opened(model, texts, loading, truncation=truncate)
    with progress_of("words") as update:
        result = session.attribute(progress=update, **given(request))
    if html is not None:
        from glassformer.explorer.readings import read

        own = IntegratedGradientsRequest(target=request.target, at=request.at, against=request.against)
        write_page(loaded, session, read(session, "attribution", own), html)
    show(result, json, indent=None, texts=list(session.texts), out=html and str(html))
    say_saved(html, json)


def write_page(model: Model, session: Session, own: Reading, path: Path) -> None:
    """Write the explorer's page that opens with a lens, an attribution or a sweep, as an HTML file."""
    from glassformer.explorer.describe import model_facts
    from glassformer.explorer.standalone_page import reading_page

    with progress_of("page") as update:
        reading_page(model_facts(model), session, own).save(path, update)


def say_saved(html: Path | None, json: bool) -> None:
    """Say where a page is, after what was printed for people."""
    if html is not None and not json:
        say(f"\nsaved in {html}: {byte_amount(html.stat().st_size)}; open it in any browser, no network needed")
