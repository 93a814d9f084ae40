"""Options of a corpus index and of a search in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from glassformer.data.options import Encoding, TextColumn
from glassformer.errors import ConfigError
from glassformer.files.schema import Count, Doc, NonNegativeInt, Schema, at_least
from glassformer.reports.page import check_html_path

TOP, MAX_TOP = 20, 1_000
"""Activations kept per neuron: what a user reads of it; and a bound of the size of an index."""
MAX_COUNT = 200
"""Matches of one search: each is shown with its context, and a page of more is not read."""
Pair = tuple[NonNegativeInt, NonNegativeInt]
"""A layer, and the number of a head or of a neuron in it."""
Matches = Annotated[int, at_least(1, MAX_COUNT)]
Activations = Annotated[int, at_least(1, MAX_TOP, f"a whole number from 1 to {MAX_TOP:,}")]


@dataclass(frozen=True, kw_only=True)
class IndexOptions(Schema):
    """What an index holds of every token, and where it is written."""

    output: Annotated[Path, Doc("Folder of the index; the same command resumes one that was stopped.")]
    layers: Annotated[
        Sequence[NonNegativeInt] | None,
        Doc("Layers whose states are kept: 3,6 or 0-6; 0 = the embeddings. Default: the middle and the last."),
    ] = None
    heads: Annotated[
        Sequence[tuple[NonNegativeInt, NonNegativeInt | None]],
        Doc("Heads whose outputs are kept, layer.head: 4.9,5.11; of all heads of a layer: 4.*"),
    ] = ()
    neurons: Annotated[bool, Doc("Keep the top activations of each neuron.")] = True
    top: Annotated[Activations, Doc("Number of top activations to keep of each neuron.")] = TOP
    max_tokens: Annotated[Count | None, Doc("Longer texts are cut into windows of this many tokens. Default: 256.")] = (
        None
    )
    columns: TextColumn = field(default_factory=dict)
    encoding: Encoding = None

    def keywords(self) -> dict[str, Any]:
        """The options as keywords of `index_corpus`."""
        names = ("layers", "heads", "neurons", "top", "max_tokens", "encoding")
        return {**{name: getattr(self, name) for name in names}, "column": self.columns.get("text", "text")}


@dataclass(frozen=True, kw_only=True)
class CorpusSearchOptions(Schema):
    """What is searched by: a token of a text at a layer or a head, or a neuron."""

    token: Annotated[
        str | NonNegativeInt | None, Doc("The token of TEXT: its position, or a word, whose first token counts.")
    ] = None
    layer: Annotated[NonNegativeInt | None, Doc("By the state of this layer, 0 = the embeddings.")] = None
    head: Annotated[Pair | None, Doc("By the output of this head, layer.head: 4.9")] = None
    neuron: Annotated[Pair | None, Doc("The top activations of this neuron, layer.neuron: 3.17; takes no TEXT.")] = None
    attention: Annotated[
        Pair | None, Doc("Show where this head looks from each match, layer.head. Default: --head")
    ] = None
    count: Annotated[Matches, Doc("Number of contexts to list.")] = 10
    html: Annotated[Path | None, Doc("Write the explorer's page of the search to this HTML file (self-contained).")] = (
        None
    )
    verify: Annotated[bool, Doc("Check the checksums of the whole index first.")] = False

    def validate(self) -> None:
        by = [name for name in ("layer", "head", "neuron") if getattr(self, name) is not None]
        if len(by) != 1:
            got = " and ".join(f"{name}=" for name in by) or "none"
            raise ConfigError(f"got {got} of layer=, head=, neuron=; give one")
        if self.html is not None:
            check_html_path(self.html)
            if self.neuron is not None:
                raise ConfigError("html= is the explorer's page of a text; give a text and its token=")

    def check_text(self, text: str | None) -> None:
        """Raises: ConfigError: a text or a token that is missing, or that a search by a neuron does not take."""
        by = next(name for name in ("layer", "head", "neuron") if getattr(self, name) is not None)
        named = [name for name, value in (("a text", text), ("token=", self.token)) if value is not None]
        if len(named) != (0 if by == "neuron" else 2):
            raise ConfigError(
                f"{by}= got {' and '.join(named) or 'neither a text nor token='}; layer= and head= take a text "
                "and its token=; neuron= takes neither"
            )
