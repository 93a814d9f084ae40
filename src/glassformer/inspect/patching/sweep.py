"""Patching sweeps: every head, or every layer and position, patched one after another, as one map of effects.

    residual       layers + 1 × positions    the residual stream before each block, and after the last
    attention      layers × positions        the output of each attention layer
    feed-forward   layers × positions        the output of each feed-forward layer (MLP)
    heads          layers × heads            each head at all positions

Source: the first is causal tracing (Meng et al. 2022, figure 2), the last that of Wang et al. 2023, figure 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from glassformer.errors import DataError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.files.schema import field_types
from glassformer.inspect.options import PatchSettings, PatchTextsRequest
from glassformer.inspect.patching.effects import (
    REPLACED,
    Patching,
    PatchOptions,
    PatchResult,
    PredictionChange,
    patching,
)
from glassformer.inspect.patching.patches import Component, Progress
from glassformer.reports.report import Report
from glassformer.reports.table import Table

if TYPE_CHECKING:
    from glassformer.inspect.session import Session

SWEEPS = ("residual", "heads", "attention", "feed-forward")
MAX_PATCHES = 20_000
"""Patched passes of one sweep, at most: more would take hours."""
MAX_DETAILED = 1_000
"""Patches of a sweep of each of which the most likely classes are noted."""


SWEEP_KEYS = (
    "component_kind", "map", "mode", "direction", "metric", "before", "other", "rows", "columns", "components",
    "values", "normalised",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False)
class PatchSweep(Report, kind="patch-map", keys=SWEEP_KEYS):
    """The effect of each patch of a sweep.

    component_kind: residual, heads, attention or feed-forward
    rows: layers
    columns: heads, or the words at the positions
    components: what was patched, as it is written
    values: the metric of each patched pass. [rows, columns]; NaN where a layer has fewer heads
    changes: the classes before and after each patch, in the order of the components, of a sweep that is not too large
    """

    component_kind: str
    map: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    components: tuple[tuple[str | None, ...], ...]
    values: Tensor
    changes: tuple[tuple[PredictionChange, ...], ...]
    patching: Patching

    @property
    def mode(self) -> str:
        """What is put in place of the components."""
        return self.patching.mode

    @property
    def direction(self) -> str:
        """Which text is patched."""
        return self.patching.direction

    @property
    def metric(self) -> str:
        """The name of what is measured."""
        return str(self.patching.metric)

    @property
    def before(self) -> float:
        """The metric without a patch."""
        return float(self.patching.metric(self.patching.base))

    @property
    def other(self) -> float | None:
        """The metric of the other text."""
        logits = self.patching.source_logits
        return None if logits is None else float(self.patching.metric(logits))

    @property
    def normalised(self) -> Tensor | None:
        """0 = as the corrupt text, 1 = as the clean one. [rows, columns]"""
        return self.patching.normalised(self.values)

    @property
    def effects(self) -> Tensor:
        """What the map shows: normalised where there are two texts that differ, else the change of the metric."""
        normalised = self.normalised
        return self.values - self.before if normalised is None else normalised

    @property
    def neutral(self) -> float:
        """The effect of a patch that changes nothing."""
        return 1.0 if self.normalised is not None and self.direction == "noising" else 0.0

    def strongest(self, count: int = 5) -> list[tuple[str, float]]:
        """The components with the largest effects, and these."""
        flat = (self.effects - self.neutral).abs().nan_to_num(-1.0).flatten()
        names = [name for row in self.components for name in row]
        order = flat.argsort(descending=True, stable=True)[:count].tolist()
        return [(name, float(self.effects.flatten()[at])) for at in order if (name := names[at]) is not None]

    @property
    def heading(self) -> str:
        return f"{self.component_kind}: {REPLACED[self.mode]}"

    def tables(self) -> list[Table]:
        """The effect of each patch, a row for each layer, or, of positions, a column; and the largest."""
        effects, rows, columns, first = self.effects, self.rows, self.columns, "layer"
        if self.component_kind != "heads":
            effects, rows, columns, first = effects.T, columns, rows, ""
        away = effects - self.neutral
        shades = away / (float(away.abs().nan_to_num(0.0).max()) or 1.0)
        cells = [  # NaN: this layer has fewer heads
            [name or "␣", *("–" if value != value else f"{value:z.2f}" for value in line)]
            for name, line in zip(rows, effects.tolist(), strict=True)
        ]
        other = "" if self.other is None else f", of the other text {self.other:.3f}"
        scale = "change of the metric" if self.normalised is None else "0 = corrupt, 1 = clean"
        caption = f"{self.metric}: {self.before:.3f} unpatched{other}; shown: {scale}"
        largest = [[name, f"{value:z.3f}"] for name, value in self.strongest()]
        return [
            Table([first, *columns], cells, caption, shades=shades.tolist()),
            Table(["largest effects", ""], largest),
        ]


def sweep(session: Session, kind: str, map: str | None, options: PatchOptions) -> PatchSweep:
    """Patch every component of a kind, one after another. See `Session.sweep`."""
    if kind not in SWEEPS:
        raise DataError(f"the sweep is {safe_repr(kind)}; allowed: {', '.join(SWEEPS)}{nearest(str(kind), SWEEPS)}")
    name = map or default_map(session)
    setting = patching(session, options)
    if kind == "heads":
        columns, cells = _heads(session, name)
    else:
        columns, cells = _positions(session, kind, name)
    components = [[each] for row in cells for each in row if each is not None]
    if len(components) > MAX_PATCHES:
        raise DataError(
            f"the sweep has {len(components):,} patches, each a pass over the text; at most {MAX_PATCHES:,} are run: "
            "shorten the text"
        )
    effects, changes = [], []
    for logits in setting.run(setting.patches(components)):
        effects.append(float(setting.metric(logits)))
        if len(components) <= MAX_DETAILED:
            changes.append(tuple(setting.changes(logits, 3)))
    each_effect = iter(effects)
    return PatchSweep(
        component_kind=kind,
        map=name,
        rows=tuple("out" if kind == "residual" and at == len(cells) - 1 else str(at) for at in range(len(cells))),
        columns=columns,
        components=tuple(tuple(None if each is None else str(each) for each in row) for row in cells),
        values=torch.tensor([[math.nan if each is None else next(each_effect) for each in row] for row in cells]),
        changes=tuple(changes),
        patching=setting,
    )


def default_map(session: Session) -> str:
    """The attention map of a sweep that names none: the only one, or the decoder's own."""
    return "decoder" if "decoder" in session.maps else next(iter(session.maps))


def _heads(session: Session, map: str) -> tuple[tuple[str, ...], list[list[Component | None]]]:
    """A row for each layer of a map, with its heads."""
    attentions = [
        session.attention_layer(layer, map).attention for layer in range(session.maps[_known(session, map)].layers)
    ]
    most = session.maps[map].heads
    rows: list[list[Component | None]] = [
        [Component(f"{each.path}.z", (head,)) if head < each.spec.heads else None for head in range(most)]
        for each in attentions
    ]
    return tuple(str(head) for head in range(most)), rows


def _positions(session: Session, kind: str, map: str) -> tuple[tuple[str, ...], list[list[Component | None]]]:
    """A row for each layer, with the positions of the stream that asks in a map."""
    about = session.maps[_known(session, map)]
    tokens = session.streams[about.queries]
    if kind == "residual":
        taps: Sequence[str] = session.stream_taps(about.queries)
    else:
        paths = [session.attention_layer(layer, map).attention.path for layer in range(about.layers)]
        taps = [f"{path}.out" if kind == "attention" else f"{path.rpartition('.')[0]}.ffn.out" for path in paths]
        missing = set(taps) - set(session.network.taps())
        if missing:
            raise UnsupportedError(f"this network has no {sorted(missing)[0]}; sweep heads, attention or residual")
    rows: list[list[Component | None]] = [[Component(tap, None, (at,)) for at in range(len(tokens))] for tap in taps]
    return tuple(token.text for token in tokens), rows


def _known(session: Session, map: str) -> str:
    if map not in session.maps:
        raise DataError(f"there is no map {safe_repr(map)}; this pass has {', '.join(session.maps)}")
    return map


class Inspectable(Protocol):
    """A model that opens sessions on texts."""

    def inspect(self, *texts: str, truncation: bool = False) -> Session: ...


def patch_texts(
    model: Inspectable,
    clean: str,
    corrupt: str | None = None,
    request: PatchTextsRequest | None = None,
    *,
    truncation: bool = False,
    progress: Progress | None = None,
) -> PatchResult | PatchSweep:
    """Patch the components that a request names, together, or all of a kind one after another.

        patch_texts(model, "The keys to the cabinet", "The key to the cabinet")          layers × positions
        patch_texts(model, "The capital of France is")                                   each head switched off
        patch_texts(model, text, request=PatchTextsRequest(components=["blocks.3.attn.z[5]"]))

    Args:
        clean: the text with the prediction that is asked about
        corrupt: the same text with another word, of as many tokens; None = components are switched off
        progress: called after each pass with the number of patches done and of all
    Returns: a `PatchResult` of components, or a `PatchSweep`.
    Raises: as `Session.patch`.
    """
    request = request or PatchTextsRequest()
    names = [name for name in (*field_types(PatchSettings), "metric") if getattr(request, name) is not None]
    options: PatchOptions = {name: getattr(request, name) for name in names}  # type: ignore[assignment] # of these names
    more = [] if request.second is None else [request.second]
    session = model.inspect(clean, *more, truncation=truncation)
    if corrupt is not None:
        source, session = session, model.inspect(corrupt, *more, truncation=truncation)
        if request.direction == "noising":
            source, session = session, source
        options["source"] = source
    if request.mean_over is not None:
        options.setdefault("mode", "mean")
        options["mean_of"] = (model.inspect(text) for text in request.mean_over)
    options["progress"] = progress
    if request.components:
        return session.patch(*request.components, **options)
    return session.sweep(request.sweep or ("heads" if corrupt is None else "residual"), request.map, **options)
