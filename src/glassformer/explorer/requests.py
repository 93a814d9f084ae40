"""Requests of the views of a page: fields with their types and allowed values, and what each is.

Commands take them as options too, so this module imports neither torch nor NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from glassformer.errors import ConfigError
from glassformer.files.schema import Allowed, Doc, NonNegative, NonNegativeInt, Schema, at_least
from glassformer.inspect.embeddings.options import ProjectionOptions
from glassformer.inspect.options import PatchSettings

MAX_LINES = 256
"""Maximum number of keys per query in the line view; more would be a heat map."""
MAX_COMPONENTS, MAX_CONTEXTS, MAX_LEVELS = 512, 200, 1_000
"""Bounds of what one request asks for: components to patch, matches to list, levels to average."""

Span = Annotated[tuple[NonNegativeInt, NonNegativeInt], Allowed("a pair [begin, end]", lambda x: len(x) == 2)]
Components = Annotated[
    Sequence[str], Allowed(f"a list of at most {MAX_COMPONENTS} names", lambda x: len(x) <= MAX_COMPONENTS)
]
Levels = Annotated[Sequence[int], Allowed("a list of one level or more", lambda x: 0 < len(x) <= MAX_LEVELS)]
Head = Annotated[tuple[NonNegativeInt, NonNegativeInt], Allowed("a pair [layer, head]", lambda x: len(x) == 2)]


@dataclass(frozen=True, kw_only=True)
class OverviewRequest(Schema):
    """Every head of a layer as a thumbnail."""

    map: Annotated[str, Doc("Attention map: self; or encoder, decoder, cross.")]
    layer: Annotated[NonNegativeInt, Doc("Layer, from 0.")]
    exact: Annotated[bool, Doc("Use all rows of a long text, instead of a sample.")] = False


@dataclass(frozen=True, kw_only=True)
class LinesRequest(Schema):
    """The strongest links of each query."""

    map: Annotated[str, Doc("Attention map.")]
    layers: Annotated[Span, Doc("Layers, half open.")]
    heads: Annotated[Sequence[NonNegativeInt], Doc("Heads.")]
    rows: Annotated[Span, Doc("Query tokens, half open.")]
    mix: Annotated[
        Literal["each", "mean", "max", "weights", "written"],
        Doc("Each head by itself, or all as one map; written: each by the length of what it writes."),
    ] = "each"
    weights: Annotated[Sequence[NonNegative] | None, Doc("Weight of each head, for the mix weights alone.")] = None
    count: Annotated[Annotated[int, at_least(1, MAX_LINES)], Doc("Keys of each query.")] = 32
    keys: Annotated[Sequence[str] | None, Doc('Types of keys: "special", or the number of a text; null = all.')] = None


@dataclass(frozen=True, kw_only=True)
class HeadRequest(Schema):
    """One attention head: layer and head."""

    map: Annotated[str, Doc("Attention map.")]
    layer: Annotated[NonNegativeInt, Doc("Layer, from 0.")]
    head: Annotated[NonNegativeInt, Doc("Head, from 0.")]


@dataclass(frozen=True, kw_only=True)
class TileRequest(HeadRequest):
    """A square tile of a head's attention map."""

    level: Annotated[NonNegativeInt, Doc("Zoom level: a pixel is the maximum of 2^level × 2^level cells.")]
    row: Annotated[NonNegativeInt, Doc("Row of the tile.")]
    column: Annotated[NonNegativeInt, Doc("Column of the tile.")]
    companding: Annotated[Literal["linear", "sqrt"], Doc("sqrt: more levels for small probabilities.")] = "linear"


@dataclass(frozen=True, kw_only=True)
class RowRequest(HeadRequest):
    """One query's scores and probabilities."""

    query: Annotated[NonNegativeInt, Doc("Query token, from 0.")]


@dataclass(frozen=True, kw_only=True)
class NeuronRequest(RowRequest):
    """One query's whole computation."""

    keys: Annotated[Span, Doc("Key tokens whose vectors are given, half open.")]


@dataclass(frozen=True, kw_only=True)
class LookupRequest(Schema):
    """The embedding look-up of a token, next to a one-hot row's product with the table."""

    stream: Annotated[str, Doc("Token stream of the session.")]
    token: Annotated[NonNegativeInt, Doc("Token, from 0.")]


@dataclass(frozen=True, kw_only=True)
class PatchingRequest(PatchSettings):
    """Patches of the session on screen."""

    other: Annotated[str | None, Doc("Text whose activations are swapped in.")] = None


@dataclass(frozen=True, kw_only=True)
class PatchRequest(PatchingRequest):
    """Components that are replaced together."""

    components: Annotated[
        Components,
        Doc("Components, such as blocks.3.attn.head.2."),
    ]


@dataclass(frozen=True, kw_only=True)
class WithoutRequest(Schema):
    """What a pass becomes without some components."""

    components: Annotated[Components, Doc("Components, such as blocks.3.attn.z[2].")]
    stream: Annotated[str, Doc("Token stream of the session.")]
    token: Annotated[NonNegativeInt, Doc("Token whose last vector is compared, from 0.")]


@dataclass(frozen=True, kw_only=True)
class SweepRequest(PatchingRequest):
    """Every component of a kind, replaced one after another."""

    kind: Annotated[str, Doc("heads, or another kind of component.")]
    map: Annotated[str | None, Doc("Attention map; null = the only one.")] = None


@dataclass(frozen=True, kw_only=True)
class SimilarityRequest(Schema):
    """The cosine similarity of the two texts of the session, by pairs of tokens."""


@dataclass(frozen=True, kw_only=True)
class DifferenceRequest(Schema):
    """How another pass differs from that of the session."""

    other: Annotated[
        str | None, Doc("Another text; null = the same text in the model that the page compares with.")
    ] = None
    precision: Annotated[str | None, Doc("Another precision of the same model; null = the other model, or text.")] = (
        None
    )
    map: Annotated[str | None, Doc("Attention map; null = the only one.")] = None


@dataclass(frozen=True, kw_only=True)
class MasksRequest(Schema):
    """Attention masks and position encodings, at any size."""

    tokens: Annotated[NonNegativeInt, Doc("Tokens.")] = 20
    window: Annotated[NonNegativeInt, Doc("Tokens that a band reaches to each side, itself included.")] = 3
    texts: Annotated[NonNegativeInt, Doc("Texts that are packed in one row.")] = 3
    padding: Annotated[NonNegativeInt, Doc("Tokens at the end that are padding.")] = 4
    reading: Annotated[NonNegativeInt, Doc("Global tokens, which see all and are seen by all.")] = 2
    random: Annotated[NonNegativeInt, Doc("Tokens that each sees at random.")] = 3
    block: Annotated[NonNegativeInt, Doc("Tokens of a block of block-sparse attention.")] = 2
    seed: Annotated[NonNegativeInt, Doc("Seed of what is random.")] = 0
    layer: Annotated[NonNegativeInt, Doc("Layer of the model's own.")] = 0
    head: Annotated[NonNegativeInt, Doc("Head of the model's own bias, and of ALiBi.")] = 0
    heads: Annotated[NonNegativeInt, Doc("Heads of ALiBi.")] = 8
    width: Annotated[NonNegativeInt, Doc("Numbers of a position's vector.")] = 32


@dataclass(frozen=True, kw_only=True)
class ContextsRequest(Schema):
    """Where in an indexed corpus a layer, a head or a neuron does the same."""

    by: Annotated[Literal["layer", "head", "neuron"], Doc("What is compared.")]
    layer: Annotated[NonNegativeInt, Doc("Layer, from 0.")]
    head: Annotated[Head, Doc("Head whose attention is shown: [layer, head].")]
    number: Annotated[NonNegativeInt | None, Doc("Number of the head or neuron.")] = None
    token: Annotated[NonNegativeInt | None, Doc("Token of the session; null for neurons.")] = None
    count: Annotated[Annotated[int, at_least(1, MAX_CONTEXTS)], Doc("Number of matches.")] = 20

    def validate(self) -> None:
        if self.by != "layer" and self.number is None:
            raise ConfigError(f"number is missing: which {self.by}?")
        if self.by != "neuron" and self.token is None:
            raise ConfigError("token is missing: which token of the text?")


@dataclass(frozen=True, kw_only=True)
class EmbeddingRequest(Schema):
    """The map of embeddings: of the texts that the page was opened with, or of the tokens of a stream."""

    stream: Annotated[str, Doc("Token stream of the session.")]


@dataclass(frozen=True, kw_only=True)
class NeighboursRequest(EmbeddingRequest):
    """The points with the largest cosine similarity."""

    point: Annotated[NonNegativeInt, Doc("Point, from 0.")]
    level: Annotated[NonNegativeInt, Doc("Level, from 0.")]


@dataclass(frozen=True, kw_only=True)
class ProjectionRequest(EmbeddingRequest):
    """Places of points by t-SNE or UMAP."""

    method: Annotated[str, Doc("tsne or umap.")]
    levels: Annotated[
        Levels,
        Doc("Levels; negative ones count from the last."),
    ]
    perplexity: Annotated[float, Doc("Perplexity of t-SNE.")] = 30.0
    neighbours: Annotated[int, Doc("Neighbours of UMAP.")] = 15
    min_dist: Annotated[float, Doc("Minimum distance of UMAP.")] = 0.1
    seed: Annotated[int, Doc("Random seed.")] = 0

    def validate(self) -> None:
        names = ("method", "perplexity", "neighbours", "min_dist", "seed")
        ProjectionOptions(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True, kw_only=True)
class DistributionRequest(Schema):
    """The next-token distribution at a node of a generation trace."""

    w: Annotated[str, Doc("Id of the trace.")]
    node: Annotated[NonNegativeInt, Doc("Node of the token tree; 0 = the prompt.")]
    count: Annotated[int | None, Doc("How many tokens are listed; null = all.")] = None


@dataclass(frozen=True, kw_only=True)
class WeightRequest(Schema):
    """The numbers of one weight of the model."""

    parameter: Annotated[
        str | None, Doc("Name of the weight, as `blocks.0.ffn.up.weight`. Default: q, k and v of the first block.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class RouteRequest(Schema):
    """What the vector of a token is made of after each layer."""

    token: Annotated[NonNegativeInt | None, Doc("Token, from 0; null = the last that is not special.")] = None
    stream: Annotated[str | None, Doc("Its stream; null = the one that the head reads.")] = None


# ── requests of other routes ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class FrameRequest(Schema):
    """A frame that was computed."""

    s: Annotated[str, Doc("Id of the session.")]
    key: Annotated[str, Doc("Key of the frame.")]


@dataclass(frozen=True, kw_only=True)
class PageRequest(Schema):
    """A saved page: of a session, or of a generation trace up to a node."""

    s: Annotated[str | None, Doc("Id of the session.")] = None
    w: Annotated[str | None, Doc("Id of the trace.")] = None
    node: Annotated[NonNegativeInt | None, Doc("Node of the token tree.")] = None
    view: Annotated[str | None, Doc("The view that it shows. Default: all.")] = None

    def validate(self) -> None:
        if (self.s is None) == (self.w is None) or (self.w is None) != (self.node is None):
            raise ConfigError("a page is of a session, s, or of a generation trace, w and node")


@dataclass(frozen=True, kw_only=True)
class TraceRequest(Schema):
    """A generation trace, by its id."""

    w: Annotated[str, Doc("Id of the trace.")]


@dataclass(frozen=True, kw_only=True)
class NodeRequest(TraceRequest):
    """A node of a generation trace."""

    node: Annotated[NonNegativeInt, Doc("Node of the token tree; 0 = the prompt.")]


@dataclass(frozen=True, kw_only=True)
class WriteRequest(Schema):
    """Generate text from a prompt."""

    options: Annotated[Mapping[str, Any], Doc("Generation options, as in `generate`.")]
    prompt: Annotated[str | None, Doc("Prompt; null = the text that the page was opened with.")] = None


@dataclass(frozen=True, kw_only=True)
class BranchRequest(NodeRequest):
    """Generate text from a node of a trace."""

    tokens: Annotated[Sequence[NonNegativeInt], Doc("Tokens that come first.")]
    options: Annotated[Mapping[str, Any] | None, Doc("Generation options; null = those of the trace.")] = None


@dataclass(frozen=True, kw_only=True)
class WindowRequest(Schema):
    """A window of a recording."""

    window: Annotated[NonNegativeInt, Doc("Number of the window, from 0.")]


@dataclass(frozen=True, kw_only=True)
class EmptyRequest(Schema):
    """A request without fields."""


@dataclass(frozen=True, kw_only=True)
class TextsRequest(Schema):
    """The texts of a forward pass."""

    texts: Annotated[
        Annotated[Sequence[str], Allowed("a list of one text or two", lambda x: len(x) in (1, 2))] | None,
        Doc("One text or two; null = those that the page was opened with."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class AskRequest(Schema):
    """Ask the documents of a store."""

    question: Annotated[str, Doc("Question.")]
    method: Annotated[
        Literal["fusion", "bm25", "dense"] | None, Doc("Method of the search; null = what the store has.")
    ] = None
    top: Annotated[Annotated[int, at_least(1, 50)], Doc("Number of passages.")] = 5
    folder: Annotated[str | None, Doc("Folder or file of the store; null = all.")] = None
    where: Annotated[dict[str, str] | None, Doc("Metadata that passages have: name and value; null = any.")] = None
    diversity: Annotated[
        Annotated[float, at_least(0.0, 1.0)], Doc("Maximal marginal relevance: 0 = by score alone.")
    ] = 0.0
    late_interaction: Annotated[NonNegativeInt, Doc("Candidates that are ranked again token by token.")] = 0


@dataclass(frozen=True, kw_only=True)
class PassageRequest(Schema):
    """A passage of a store with what is around it, compared with a question token by token."""

    question: Annotated[str, Doc("Question.")]
    id: Annotated[NonNegativeInt, Doc("Id of the passage in the store.")]
