"""Options of a page: where it goes, and what the page of the explorer opens with and holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.files.schema import Doc, NonNegative, NonNegativeInt, Schema, at_least

Port = Annotated[int, at_least(1, 65535)]
OF_A_TEXT = ("layers", "views", "view", "layer", "heads", "query", "key", "corpus", "codec", "against")
"""Options of the explorer that say how it opens on a text."""


@dataclass(frozen=True, kw_only=True)
class Serving(Schema):
    """Where a page goes: to a web server of this machine, or to a file."""

    port: Annotated[Port | None, Doc("Port of the web server. Default: a free one.")] = None
    browser: Annotated[bool | None, Doc("Open a web browser. Default: when there is a display.")] = None
    html: Annotated[Path | None, Doc("Write the page to this HTML file (self-contained) instead of serving it.")] = None


@dataclass(frozen=True, kw_only=True)
class LookOptions(Serving):
    """What the page of the explorer opens with, and what its HTML file holds."""

    layers: Annotated[
        Sequence[NonNegativeInt] | None,
        Doc("Layers whose exact numbers go into the HTML file: 0,3 or 0-5. Default: by --cap-mb."),
    ] = None
    cap_mb: Annotated[
        NonNegative | None,
        Doc(
            "Size limit in MB of exact layers in the HTML file. Default: all layers up to 25, else what the view needs."
        ),
    ] = None
    views: Annotated[
        Sequence[str],
        Doc("View that the HTML file shows, with its program and numbers alone; repeatable. Default: all."),
    ] = ()
    view: Annotated[
        str | None,
        Doc(
            "Initial view: model, head, matrix, neuron, generate (watch a text being generated), sound (a transcript; "
            "of a model over codes, attention over musical time), "
            "patch (activation patching), similarity (of two texts), difference (of two models, precisions or texts), "
            "contexts (of --corpus), embedding (the tokens as points, layer by layer), lens (logit lens), "
            "attribution, route (of a token through the layers), quantisation (a layer before and after), "
            "masks (and positions, at any size), "
            "architecture (modules, and the numbers of a weight)."
        ),
    ] = None
    layer: Annotated[NonNegativeInt | None, Doc("Initial layer, from 0.")] = None
    heads: Annotated[Sequence[NonNegativeInt], Doc("Initial attention head, from 0; repeatable.")] = ()
    query: Annotated[str | None, Doc("Initial token that attends: its number from 0, or its text.")] = None
    key: Annotated[str | None, Doc("Initial token that is attended to, likewise.")] = None
    theme: Annotated[Literal["light", "dark"] | None, Doc("Colour theme: light or dark. Default: the system's.")] = None
    against: Annotated[
        str | None,
        Doc(
            "Model to compare with on the same text, in the view difference: a folder or Hub name, or another "
            "precision of this one: float16, bfloat16, int8, int4."
        ),
    ] = None
    codec: Annotated[
        str | None,
        Doc("Audio codec of a model over codes: a folder or Hub name. Default: the one that this package carries."),
    ] = None
    corpus: Annotated[Path | None, Doc("Corpus to search in: the folder of an index, as written by corpus index.")] = (
        None
    )

    reader: Annotated[
        str | None, Doc("Of a store of documents: model that reads the passages, as in `ask`: a folder or Hub name.")
    ] = None
    rerank: Annotated[
        str | None, Doc("Of a store of documents: cross-encoder that ranks passages again: a folder or Hub name.")
    ] = None

    def validate(self) -> None:
        if self.html is None and self.layers is not None:
            raise ConfigError("layers= says what the file of html= holds; a served page has all layers")
        if self.html is None and self.views:
            raise ConfigError("views= says what the file of html= shows; a served page has all views")

    @property
    def cap_bytes(self) -> int | None:
        """The size limit in bytes."""
        return None if self.cap_mb is None else round(self.cap_mb * 1e6)

    def check_run(self) -> None:
        """Raises: ConfigError: an option of the explorer, which goes with a text, where the page is that of a run."""
        self._refuse(
            (*OF_A_TEXT, "theme"),
            "says how the explorer opens on a text; give a text, or leave it out for the run",
        )

    def check_report(self) -> None:
        """Raises: ConfigError: an option of the explorer or of a store, where the page is that of a report."""
        self._refuse(
            (*OF_A_TEXT, "cap_mb", "theme", "reader", "rerank"),
            "is of the page of a model or a store, and this path is neither; leave it out",
        )

    def check_store(self) -> None:
        """Raises: ConfigError: an option of the explorer, where the page is that of a store of documents."""
        self._refuse(
            (*OF_A_TEXT, "cap_mb"),
            "is of the explorer of a model; leave it out for a store of documents",
        )

    def check_model(self) -> None:
        """Raises: ConfigError: an option of the page of a store, where the page is that of a model."""
        self._refuse(("reader", "rerank"), "is of a store of documents; name its folder, or leave it out")

    def _refuse(self, names: Sequence[str], because: str) -> None:
        for name in names:
            if getattr(self, name) not in (None, ()):
                raise ConfigError(f"{name}= {because}")


def check_not_empty(texts: Sequence[str]) -> None:
    """Raises: DataError: a text without a word."""
    for text in texts:
        if not text.strip():
            raise DataError(f"the text {safe_repr(text)} is empty; give at least one word")
