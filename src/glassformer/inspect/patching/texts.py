"""Activation patching between two texts, or ablation in one: from texts to a patch, or to a sweep.

patch_texts(model, "The keys to the cabinet", "The key to the cabinet")          layers × positions
patch_texts(model, "The capital of France is")                                   each head switched off
patch_texts(model, text, request=PatchTextsRequest(components=["blocks.3.attn.z[5]"]))
"""

from __future__ import annotations

from typing import Protocol

from glassformer.files.schema import field_types
from glassformer.inspect.options import PatchSettings, PatchTextsRequest
from glassformer.inspect.patching.effects import PatchOptions, PatchResult
from glassformer.inspect.patching.patches import Progress
from glassformer.inspect.patching.sweep import PatchSweep
from glassformer.inspect.session import Session


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
