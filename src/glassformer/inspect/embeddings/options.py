"""Options of contextual embeddings: what is embedded, how it is studied, and how vectors become a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from glassformer.errors import ConfigError
from glassformer.files.schema import Doc, NonNegativeInt, Schema, Seed, at_least, one_of

WORDS, MAP, OUTPUT = "Words", "Map", "Output"
Perplexity = Annotated[float, at_least(1, 1_000, "a number from 1 to 1,000")]
Neighbours = Annotated[int, at_least(2, 1_000, "a whole number from 2 to 1,000")]
Distance01 = Annotated[float, at_least(0, 1, "a number from 0 to 1")]
Gigabytes = Annotated[float, at_least(0.001)]
Clusters = Annotated[int, at_least(2)]


@dataclass(frozen=True)
class ProjectionOptions(Schema):
    """How vectors become points of a plane.

    Raises: ConfigError: no such method, or a number out of range.
    """

    method: Annotated[
        Literal["pca", "tsne", "umap"], Doc("Projection the page opens with: pca, tsne or umap.", MAP)
    ] = "pca"
    perplexity: Annotated[Perplexity, Doc("Perplexity of t-SNE: about how many neighbours each point has.", MAP)] = 30.0
    neighbours: Annotated[Neighbours, Doc("Neighbours of UMAP: how many, from local to global.", MAP)] = 15
    min_dist: Annotated[Distance01, Doc("Least distance of points in UMAP.", MAP)] = 0.1
    seed: Annotated[Seed, Doc("Random seed.", MAP)] = 0

    def within(self, points: int) -> ProjectionOptions:
        """Perplexity and neighbours as this number of points allows."""
        return ProjectionOptions(
            self.method,
            float(min(self.perplexity, max((points - 1) / 3, 1.0))),
            min(self.neighbours, max(points - 1, 2)),
            self.min_dist,
            self.seed,
        )


@dataclass(frozen=True, kw_only=True)
class WordStudyOptions(Schema):
    """Which occurrences of a word, or which texts, are embedded, how, and where the vectors go."""

    word: Annotated[str | None, Doc("Word whose occurrences are embedded. Default: whole texts.", WORDS)] = None
    match_case: Annotated[bool, Doc("Find the word in this case only.", WORDS)] = False
    part_of_word: Annotated[bool, Doc("Find it inside other words too.", WORDS)] = False
    against: Annotated[
        Sequence[str], Doc("Texts of a second corpus: measure the word's semantic change; repeatable.", WORDS)
    ] = ()
    control: Annotated[Sequence[str], Doc("Control word to compare with, with --against; repeatable.", WORDS)] = ()
    columns: Annotated[
        Mapping[Annotated[str, one_of("text", "label")], str],
        Doc("Column mapping of tables, role=column: text=title, label=sense; repeatable.", WORDS),
    ] = field(default_factory=dict)
    sentences: Annotated[bool, Doc("Split the texts into sentences first.", WORDS)] = False
    layers: Annotated[
        str | int,
        Doc("Layers of a vector: sum (the default), mean or concat of the last four, last, or a level from 0.", WORDS),
    ] = "sum"
    pooling: Annotated[
        Literal["word", "first", "mean"] | None,
        Doc("Tokens of a vector: word (the mean of its pieces), first ([CLS]), mean (of the whole text).", WORDS),
    ] = None
    token_type: Annotated[
        NonNegativeInt | None, Doc("Segment id of all tokens. Default: the tokenizer's, 0.", WORDS)
    ] = None
    senses: Annotated[
        Clusters | None, Doc("Number of clusters. Default: of labels, else by the silhouette.", WORDS)
    ] = None
    cluster: Annotated[Literal["kmeans", "agglomerative"], Doc("Clustering: kmeans or agglomerative.", WORDS)] = (
        "kmeans"
    )
    limit_gb: Annotated[Gigabytes, Doc("RAM limit in GB for the states of all levels.", MAP)] = 2.0
    output: Annotated[Path | None, Doc("Folder for embeddings.tsv, metadata.tsv and embeddings.parquet.", OUTPUT)] = (
        None
    )

    def validate(self) -> None:
        for name, needs in (("control", "against"), ("against", "word")):
            if getattr(self, name) and not getattr(self, needs):
                raise ConfigError(f"{name}= goes with {needs}=; give both")

    def keywords(self) -> dict[str, Any]:
        """The keywords of `embed_words` that say what an occurrence is."""
        case, limit = not self.match_case, round(self.limit_gb * 1e9)
        return {"whole_word": not self.part_of_word, "ignore_case": case, "limit_bytes": limit}
