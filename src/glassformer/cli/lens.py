"""`glassformer lens MODEL TEXT` and `glassformer attribute MODEL TEXT`: logit lens, and what made an output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from glassformer.cli.inputs import check_texts, whole_texts
from glassformer.cli.options import (
    Html,
    Json,
    ModelName,
    Options,
    Texts,
    Truncate,
    command,
    option,
)
from glassformer.cli.screen import notes, progress_of, say, show
from glassformer.files.schema import given as given_options
from glassformer.loading import HeadLoading
from glassformer.progress import spinner
from glassformer.reports.amounts import byte_amount
from glassformer.reports.page import check_html_path, command_line

if TYPE_CHECKING:
    from glassformer.explorer.registry import Reading
    from glassformer.inspect import Session
    from glassformer.model import Model


@dataclass(frozen=True, kw_only=True)
class TargetOptions(Options):
    """Which output is explained."""

    target: str | None = option(
        None, "Output to explain: a token, a label, or its number; start or end of a span. Default: the model's own."
    )
    at: str | None = option(
        None,
        "Token whose prediction is explained: its position, or a word. Default: the last, the gap, …",
    )
    against: str | None = option(None, "Explain the target rather than this output: the difference of their logits.")
    baseline: str | None = option(None, "Where integrated gradients begin: zero. Default: mask or padding tokens.")
    steps: int | None = option(
        None, "Number of gradients between baseline and input. Default: doubled until their sum is within 1 %.", min=1
    )


@command
def lens(
    model: ModelName,
    texts: Texts,
    target: Annotated[
        str | None, typer.Option(help="Output to follow through the layers: a token, a label, or its number.")
    ] = None,
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
    """
    loaded, session = _opened(model, texts, html, loading, truncate)
    with progress_of("layers") as update:
        result = session.lens(top=top, target=_number(target), progress=update)
    if html is not None:
        _save(loaded, session, html, "lens", {"target": _number(target)}, {"r.follow": target})
    show(result, json, indent=None, texts=list(session.texts), out=html and str(html))
    if not json:
        _say_saved(html)


@command
def attribute(
    model: ModelName,
    texts: Texts,
    *,
    options: TargetOptions,
    html: Html = None,
    loading: HeadLoading,
    truncate: Truncate = False,
    json: Json = False,
) -> None:
    """Attribution: which words, heads and layers made an output: a class, a tag, a span, the next token.

    Words by integrated gradients, which add up to the change of the logit from a text without them; heads and
    feed-forward layers by direct logit attribution, which adds up to the logit.

    Examples:
      glassformer attribute runs/emotion/model 'i feel so furious about it' --target anger
      glassformer attribute ./gpt2 'The capital of France is' --target ' Paris' --against ' London'
      glassformer attribute ./ner 'Ada met Grace' --at Ada --html page.html
    """
    loaded, session = _opened(model, texts, html, loading, truncate)
    given = options.given()
    request: dict[str, Any] = {
        "target": given.get("target"),
        "at": _number(given.get("at")),
        "against": given.get("against"),
    }
    with progress_of("gradients") as update:
        result = session.attribute(progress=update, **_gradients(given), **request)
    if html is not None:
        state = {f"r.{name}": value for name, value in request.items()}
        _save(loaded, session, html, "attribution", request, state)
    show(result, json, indent=None, texts=list(session.texts), out=html and str(html))
    if not json:
        _say_saved(html)


def _opened(
    name: str, texts: Sequence[str], html: Path | None, loading: HeadLoading, truncate: bool
) -> tuple[Model, Session]:
    check_texts(texts)
    if html is not None:
        check_html_path(html)
    with notes(repeats=False):
        with spinner("loading the model"):
            from glassformer.model import load

            model = load(name, **given_options(loading))
        return model, model.inspect(*whole_texts(texts, model), truncation=truncate)


def _gradients(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in ("baseline", "steps") if name in given}


def _number(text: str | None) -> str | int | None:
    """A number of a token or an output, where the text is one."""
    digits = (text or "").removeprefix("-")
    return int(text or 0) if digits.isascii() and digits.isdigit() and len(digits) < 10 else text


def _save(
    model: Model, session: Session, path: Path, kind: str, request: dict[str, Any], state: dict[str, Any]
) -> None:
    """Write the explorer's page with this reading, and the other of the model's own output, as an HTML file."""
    from glassformer.explorer.describe import model_facts
    from glassformer.explorer.readings import quick_readings, read
    from glassformer.explorer.standalone_page import StandalonePage

    own: Reading = read(session, kind, request)
    others = [each for each in quick_readings(session) if each.key != own.key]
    start = urlencode({"v": 1, "view": kind, **{name: value for name, value in state.items() if value is not None}})
    page = StandalonePage(
        session, model_facts(model), session.texts, start=start, readings=[own, *others], command=command_line()
    )
    with progress_of("page") as update:
        page.save(path, update)


def _say_saved(html: Path | None) -> None:
    if html is not None:
        say(f"\nsaved in {html}: {byte_amount(html.stat().st_size)}; open it in any browser, no network needed")
