"""Lens and attribution views: what the head reads in the session on screen, as jobs whose result is a binary frame.

POST /api/lens         {"s", "target"}                   a line a step: {"done", "of"} … {"ready": {"key"}} or {"error"}
POST /api/attribution  {"s", "target", "at", "against"}  the same
GET  /api/reading?s=SESSION&key=KEY                      the frame

A client that leaves ends its job. What was read is saved with the page.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import torch
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from torch import Tensor

from glassformer.explorer import http
from glassformer.explorer.binary_frames import encode
from glassformer.explorer.http import Query, json_errors
from glassformer.explorer.session_runs import Job, SessionGone, SessionRuns
from glassformer.inspect.attribution.attribution import Attribution
from glassformer.inspect.lens import Lens
from glassformer.inspect.session import Progress, Session
from glassformer.reports.report import plain

TOP, ALL_LABELS = 10, 64
"""Outputs of each cell of the lens; of a head with few labels, all of them."""
CHOICE = (str, int, type(None))
FIELDS: dict[str, dict[str, Any]] = {
    "lens": {"target": CHOICE},
    "attribution": {"target": CHOICE, "at": CHOICE, "against": CHOICE},
}
"""What a view may ask for."""
QUICK = 3e11
"""Budget in multiply-adds for views that a saved page computes by default: a second or two."""


@dataclass(frozen=True)
class Reading:
    """A frame of the lens or of an attribution, and the request that it answers."""

    kind: str
    request: dict[str, Any]
    frame: bytes

    @property
    def key(self) -> str:
        """A short name of the request."""
        return hashlib.sha256(json.dumps([self.kind, self.request]).encode()).hexdigest()[:12]

    def entry(self) -> dict[str, Any]:
        """Its line in the description of a standalone page."""
        return {"kind": self.kind, "request": self.request, "key": self.key}


def read(session: Session, kind: str, request: dict[str, Any], progress: Progress = lambda done, of: None) -> Reading:
    """Compute the lens, or an attribution. Raises: as `Session.lens` and `Session.attribute`."""
    if kind == "lens":
        frame = lens_frame(session, session.lens(top=_top(session), target=request["target"], progress=progress))
    else:
        frame = attribution_frame(session.attribute(**request, progress=progress))
    return Reading(kind, request, frame)


def quick_readings(session: Session, *, wanted: str | None = None) -> list[Reading]:
    """What a saved page contains by default: lens and attribution of the model's own output, where they are quick.

    Args: wanted: the view that the page opens with, which is read however long it takes
    """
    size = sum(x.numel() for x in session.network.parameters()) * sum(map(len, session.streams.values()))
    return [
        read(session, kind, dict.fromkeys(FIELDS[kind]))
        for kind, passes in (("lens", 8), ("attribution", 50))
        if kind == wanted or (size * passes < QUICK and _answers(session, kind))
    ]


def _answers(session: Session, kind: str) -> bool:
    """Whether there is something to attribute without being told where: a gap, a last token, a class."""
    if kind == "lens":
        return True
    columns = session.lens(top=1).about
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
            "stream": about.stream,
            "causal": about.causal,
            "normalised": about.normalised,
            "choices": lens.choices,
            "rows": lens.rows,
            "outputs": [[number, about.name(number)] for number in numbers],
        },
    )


def attribution_frame(result: Attribution) -> bytes:
    """An attribution, as the page reads it."""
    arrays = {
        **{f"integrated/{stream}": x for stream, x in result.integrated.items()},
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
            "steps": result.steps,
            "gap": result.gap,
            "notes": result.notes,
            "seconds": result.seconds,
        },
    )


# ------------------------------------------------------------------------------------------------------------- routes


class ReadingJob(Job[Reading]):
    """One reading in a thread of its own."""

    def __init__(self, session: Session, kind: str, request: dict[str, Any]) -> None:
        super().__init__()
        self.steps_done = (0, 0)
        self._session, self._kind, self._request = session, kind, request

    def work(self) -> Reading:
        return read(self._session, self._kind, self._request, self._progress)

    def _progress(self, done: int, of: int) -> None:
        self.check_running()
        self.steps_done = (done, of)


def reading_routes(runs: SessionRuns) -> list[Route]:
    """The routes."""

    def asks(kind: str) -> Route:
        async def endpoint(request: Request) -> Response:
            empty = dict.fromkeys(FIELDS[kind])
            fields = http.check_fields({**empty, **await http.body(request)}, s=str, **FIELDS[kind])
            run, wanted = runs.get(fields["s"]), {name: fields[name] for name in empty}
            job = ReadingJob(run.result(), kind, wanted)

            def ready() -> dict[str, Any]:
                reading = job.result()
                run.readings[reading.key] = reading
                return {"key": reading.key}

            runs.start(job)
            return http.stream(request, http.progress(job, lambda: job.steps_done, ready))

        return Route(f"/api/{kind}", json_errors(endpoint), methods=["POST"])

    async def reading(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        run, key = runs.get(query.text("s")), query.text("key")
        query.reject_unknown()
        if key not in run.readings:
            raise SessionGone("this reading was evicted from memory; ask for it again")
        return await http.frame(request, lambda: run.readings[key].frame)

    return [*map(asks, FIELDS), Route("/api/reading", json_errors(reading))]
