"""Lens and attribution views: what the head reads in the session on screen."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Literal

import torch
from torch import Tensor

from glassformer.core.quantised import count_weights
from glassformer.errors import DataError, UnsupportedError
from glassformer.explorer.binary_frames import decode, encode
from glassformer.explorer.registry import OF_A_TAB, VIEWS, Reading, fields_of, tabs
from glassformer.explorer.requests import RouteRequest
from glassformer.files.schema import Schema, parse_query
from glassformer.inspect.answer import answer
from glassformer.inspect.attribution.attribute import STEPS, AttributionOptions
from glassformer.inspect.attribution.attribution import Attribution
from glassformer.inspect.lens import Lens
from glassformer.inspect.opening import explained_token
from glassformer.inspect.session import Progress, Session
from glassformer.reports.report import plain

TOP, ALL_LABELS = 10, 64
"""Outputs of each cell of the lens; of a head with few labels, all of them."""
QUICK = 3e11
"""Budget in multiply-adds for views that a saved page computes by default: a second or two."""
OF_HEAD = ("lens", "attribution")
"""Views of what the model's head reads: of a model without one, a page has none."""
GRADIENT_PASSES = 3
"""About how many forward passes a gradient costs."""


def nothing(done: int, of: int) -> None:
    """Progress without a consumer."""


def lens(
    session: Session,
    *,
    target: str | int | None = None,
    first: int = 0,
    count: int | None = None,
    progress: Progress = nothing,
) -> bytes:
    """The logit lens as a frame. Raises: as `Session.lens`."""
    part = session.lens(top=_top(session), target=target, first=first, count=count, progress=progress)
    return lens_frame(session, part)


def attribution(
    session: Session,
    *,
    target: str | int | None = None,
    at: str | int | None = None,
    against: str | int | None = None,
    baseline: Literal["zero"] | None = None,
    steps: int | None = None,
    progress: Progress = nothing,
) -> bytes:
    """An attribution as a frame; a page first asks for one of few steps. Raises: as `Session.attribute`."""
    options: AttributionOptions = {
        "at": at,
        "against": against,
        "baseline": baseline,
        "steps": steps,
        "progress": progress,
    }
    return attribution_frame(session.attribute(target, **options))


def read(session: Session, name: str, request: Schema, progress: Progress = nothing) -> Reading:
    """A view of a session alone, for a saved page."""
    return Reading(name, fields_of(request), VIEWS[name].of_session(name, session, request, progress))


def default_readings(session: Session, *, wanted: str | None, has: Collection[str]) -> list[Reading]:
    """What a saved page contains of tabs that can be asked without any choice: quick ones, and `wanted`.

    Lens and attribution are those of `quick_readings`.

    Args:
        wanted: the view that the page opens with
        has: the views that the page holds already
    """
    asked = [name for name in (*tabs(), *OF_A_TAB) if name in VIEWS and name not in OF_HEAD and name not in has]
    readings = []
    for name in asked:
        view = VIEWS[name]
        if view.by_default and (view.quick or OF_A_TAB.get(name, name) == wanted):
            readings.append(read(session, name, view.request()))
        elif view.by_default and view.passes is not None and _is_quick(session, name):
            with suppress(UnsupportedError):  # a route needs one stack of blocks
                readings += [read(session, name, request) for request in _opening_requests(session, name)]
    return readings


def _opening_requests(session: Session, name: str) -> list[Schema]:
    """What a page asks of a view at first: of a route, also that of the token that its finding pins."""
    requests = [VIEWS[name].request()]
    if name == "route" and session.findings:
        finding, stream = session.findings[0], [*session.streams][-1]
        if session.maps[finding.map].queries == stream and finding.query is not None:
            requests.append(RouteRequest(token=finding.query))
    return requests


def quick_readings(session: Session, *, wanted: str | None = None, has: Collection[str] = ()) -> list[Reading]:
    """What a saved page contains by default: lens and attribution of the model's own output, where they are quick.

    Args:
        wanted: the view that the page opens with, which is read however long it takes
        has: the views that the page holds already
    """
    readings = list[Reading]()
    for view in (view for view in OF_HEAD if view not in has):
        if view == wanted:
            readings.append(read(session, view, _usual(session, view)))
        elif _is_quick(session, view) and _answers(session, view):
            try:
                reading = read(session, view, _usual(session, view), _while_quick(session, view))
            except _TooSlowError:  # then as a page that is served begins: heads and layers exactly, words roughly
                reading = read(session, view, _usual(session, view, steps=str(STEPS)))
            readings.append(reading)
        elif view == "attribution" and _size(session) * GRADIENT_PASSES < QUICK and _answers(session, view):
            readings.append(read(session, view, _usual(session, view, steps="0")))  # heads and layers, no words
    return readings


def comparisons(session: Session, readings: Sequence[Reading]) -> list[Reading]:
    """Of a model that writes, what speaks for its answer rather than for the next most likely one, where that is quick.

    The last token speaks for any that may follow, so the page of an attribution asks for this.

    Args:
        readings: of the page; without an attribution there is nothing to compare
    """
    own = next((each for each in readings if each.view == "attribution" and each.whole), None)
    if own is None or 2 * _cost(session, "attribution") >= QUICK:
        return []
    aim, reply = decode(own.frame).fields["target"], answer(session, explained_token(session))
    if reply is None or not aim["follows"]:
        return []
    others = [choice.target for choice in reply.choices[1:2] if choice.at == aim["position"]]
    try:
        return [read(session, "attribution", _usual(session, "attribution", against=other)) for other in others]
    except DataError:  # the table of outputs may have more rows than the vocabulary has entries
        return []


def _usual(session: Session, view: str, **fields: str) -> Schema:
    """The request of a page that was asked nothing yet."""
    at = explained_token(session) if view == "attribution" else None
    return parse_query(VIEWS[view].request, [*({} if at is None else {"at": str(at)}).items(), *fields.items()])


class _TooSlowError(Exception):
    """A view turns out to take longer than a saved page may."""


def _while_quick(session: Session, view: str) -> Progress:
    """Progress that ends an attribution of many gradients: there are 16 to 512, by how abruptly the score changes."""

    def progress(done: int, of: int) -> None:
        if done < of and of * GRADIENT_PASSES * _size(session) > QUICK:
            raise _TooSlowError

    return progress if view == "attribution" else nothing


def explains_quickly(session: Session) -> bool:
    """Whether the model's answer can be attributed within the time of a quick view."""
    return _is_quick(session, "attribution") and _answers(session, "attribution")


def _is_quick(session: Session, view: str) -> bool:
    return _cost(session, view) < QUICK


def _cost(session: Session, view: str) -> float:
    return _size(session) * (VIEWS[view].passes or 0)


def _size(session: Session) -> int:
    """Multiply-adds of a pass, about."""
    return count_weights(session.network) * sum(map(len, session.streams.values()))


def _answers(session: Session, kind: str) -> bool:
    """Whether there is something to attribute without being told where: a gap, a last token, a class."""
    if kind == "lens":
        return True
    columns = session.lens(top=1, count=1).about
    masks = session.names().blank
    gaps = masks is not None and any(token.special and token.id == masks.id for token in columns.tokens)
    return columns.kind != "vocabulary" or columns.causal or (gaps and columns.stream == "text")


def _top(session: Session) -> int:
    head = session.network.head
    if head is not None and "start_logits" in head.FIELDS:
        return len(session.streams[session.network.head_stream()])
    return TOP if head is None or head.OVER_VOCABULARY else ALL_LABELS


# ------------------------------------------------------------------------------------------------------------- frames


def lens_frame(session: Session, lens: Lens) -> bytes:
    """The logit lens, as the page reads it."""
    about = lens.about
    arrays: dict[str, Tensor] = {
        "ids": lens.ids.to(torch.int64),
        "logprobs": lens.logprobs.float(),
        "entropy": lens.entropy.float(),
        "kl": lens.kl.float(),
        "targets": lens.targets,
        "ranks": lens.ranks,
        "target_logprobs": lens.target_logprobs.float(),
        "norms": session.norms(about.stream),
    }
    if not about.normalised:
        arrays["logits"] = lens.logits.float()
    numbers = sorted({*lens.ids.flatten().tolist(), *lens.targets.tolist()})
    return encode(
        "lens",
        {name: x.cpu().numpy().astype("<u4" if not x.is_floating_point() else "<f4") for name, x in arrays.items()},
        {
            "kind": about.kind,
            "columns": about.columns,
            "names": about.column_names,
            "first": lens.first,
            "stream": about.stream,
            "causal": about.causal,
            "normalised": about.normalised,
            "choices": lens.choices,
            "doubt": lens.doubt,
            "rows": lens.rows,
            "outputs": [[number, about.name(number)] for number in numbers],
        },
    )


def attribution_frame(result: Attribution) -> bytes:
    """An attribution, as the page reads it."""
    arrays = {
        **{f"shares/{stream}": x for stream, x in result.shares.items()},
        **{f"gradient/{stream}": x for stream, x in result.gradient_input.items()},
        **{f"heads/{name}": x for name, x in result.by_token.items()},
        "norms": result.norms,
    }
    return encode(
        "attribution",
        {name: x.float().cpu() for name, x in arrays.items()},
        {
            "target": plain(result.target),
            "parts": plain(result.parts),
            "remainder": result.remainder,
            "baseline": result.baseline,
            "baseline_score": result.baseline_score,
            "method": result.method,
            "steps": result.steps,
            "texts": result.texts,
            "more": result.more,
            "how": result.how,
            "gap": result.gap,
            "rough": result.rough,
            "finding": result.finding,
            "notes": result.notes[1:],
            "seconds": result.seconds,
        },
    )
