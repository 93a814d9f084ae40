"""Patch view: components of the session on screen are replaced, one patch or a sweep over many, as routes.

POST /api/patch {"s", "components", "mode", …}        {"before", "after", "normalised", "classes"}
POST /api/sweep {"s", "kind", "map", "mode", …}       a line a step: {"done", "of"} … {"ready"} or {"error"}

Both take {"other", "direction", "align"}: a text whose activations are swapped in; and {"target", "against",
"position"}. A client that leaves ends its sweep.
"""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from glassformer.errors import DataError
from glassformer.explorer import http
from glassformer.explorer.http import json_errors
from glassformer.explorer.readings import QUICK
from glassformer.explorer.session_runs import Job, SessionRun, SessionRuns
from glassformer.files.json_values import null_for_nan
from glassformer.inspect.interruption import before_each_block
from glassformer.inspect.patching.effects import PatchOptions
from glassformer.inspect.patching.readout import predicts
from glassformer.inspect.patching.sweep import PatchSweep
from glassformer.inspect.session import Session

MAX_COMPONENTS = 512
TEXT = (str, type(None))
DEFAULTS: dict[str, Any] = {
    "mode": None,
    "other": None,
    "direction": "denoising",
    "align": "strict",
    "target": None,
    "against": None,
    "position": None,
}
KINDS: dict[str, Any] = {
    "s": str,
    "mode": TEXT,
    "other": TEXT,
    "direction": str,
    "align": str,
    "target": TEXT,
    "against": TEXT,
    "position": (int, type(None)),
}


def sweep_data(sweep: PatchSweep) -> dict[str, Any]:
    """A sweep as the page reads it: the map, and of each patch the most likely classes."""
    metric = sweep.patching.metric
    names = {change.number: change.name for changes in sweep.changes for change in changes}
    names |= {metric.target: metric.readout.table.name(metric.target)}
    before = {change.number: change for changes in sweep.changes for change in changes}
    classes = {
        str(number): {
            "name": names[number],
            "logit": change.logit_before,
            "probability": change.probability_before,
        }
        for number, change in before.items()
    }
    after = [
        [
            {"number": change.number, "logit": change.logit_after, "probability": change.probability_after}
            for change in changes
        ]
        for changes in sweep.changes
    ]
    return {
        **sweep.to_dict(),
        "target": names[metric.target],
        "against": None if metric.against is None else metric.readout.table.name(metric.against),
        "at": metric.readout.position,
        "classes": null_for_nan(classes),
        "changes": null_for_nan(after),
    }


def quick_sweeps(session: Session, map: str, *, wanted: bool) -> list[dict[str, Any]]:
    """What a saved page contains by default: each head switched off, where that is quick; or where it opens with it."""
    passes = session.maps[map].layers * session.maps[map].heads
    size = sum(x.numel() for x in session.network.parameters()) * sum(
        len(tokens) for tokens in session.streams.values()
    )
    if predicts(session.network) is None or not (wanted or size * passes < QUICK):
        return []
    try:
        sweep = session.sweep("heads", map)
    except DataError:  # nothing says at which token the prediction is read
        return []
    return [{"request": {**DEFAULTS, "mode": "zero", "kind": "heads", "map": map}, "sweep": sweep_data(sweep)}]


class SweepJob(Job[PatchSweep]):
    """One sweep in a thread of its own."""

    def __init__(self, runs: SessionRuns, run: SessionRun, fields: dict[str, Any]) -> None:
        super().__init__()
        self.patches_done = (0, 0)
        self._runs, self._run, self._fields = runs, run, fields

    def work(self) -> PatchSweep:
        fields, options = self._fields, options_of(self._runs, self._fields)
        options["progress"] = self._progress
        session = self._run.result()
        with before_each_block(session.network, self.check_running):  # of a large model, many rows take seconds
            return session.sweep(fields["kind"], fields["map"], **options)

    def _progress(self, done: int, of: int) -> None:
        self.check_running()
        self.patches_done = (done, of)


def options_of(runs: SessionRuns, fields: dict[str, Any]) -> PatchOptions:
    """The options of a request; the pass over the other text is run, or waited for."""
    other = fields["other"]
    if other is not None and runs.facts.modality is not None:
        raise DataError(f"this page looks at one {runs.facts.modality}, and swaps nothing with another")
    names: Any = ("mode", "direction", "align", "target", "against", "position")
    options: Any = {name: fields[name] for name in names}
    if other is not None:
        http.check_characters(other)
        runs.check_length([other])
        options["source"] = runs.begin((other,)).result()
    return options  # type: ignore[no-any-return]


def patch_routes(runs: SessionRuns) -> list[Route]:
    """The routes."""

    async def patch(request: Request) -> Response:
        fields = http.check_fields({**DEFAULTS, **await http.body(request)}, **KINDS, components=list)
        components, run = fields["components"], runs.get(fields["s"])
        if len(components) > MAX_COMPONENTS or not all(isinstance(each, str) for each in components):
            raise DataError(f"components must be a list of at most {MAX_COMPONENTS} names")

        def answer() -> dict[str, Any]:
            result = run.result().patch(*components, **options_of(runs, fields))
            return {**result.to_dict(), "at": result.patching.metric.readout.position}

        return JSONResponse(await run_in_threadpool(answer))

    async def sweep(request: Request) -> Response:
        fields = {**DEFAULTS, "map": None, **await http.body(request)}
        fields = http.check_fields(fields, **KINDS, kind=str, map=TEXT)
        run = runs.get(fields["s"])
        job = SweepJob(runs, run, fields)

        def ready() -> dict[str, Any]:
            data = sweep_data(job.result())
            asked = {name: value for name, value in fields.items() if name != "s"}
            run.sweeps = [each for each in run.sweeps if each["request"] != asked]
            run.sweeps.append({"request": asked, "sweep": data})
            return data

        runs.start(job)
        return http.stream(request, http.progress(job, lambda: job.patches_done, ready))

    return [
        Route("/api/patch", json_errors(patch), methods=["POST"]),
        Route("/api/sweep", json_errors(sweep), methods=["POST"]),
    ]
