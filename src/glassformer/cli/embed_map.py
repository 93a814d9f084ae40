"""`glassformer embed-map MODEL TEXTS --word WORD`: contextual embeddings of a word's occurrences, or of whole texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.embed_map_page import serve_page, write_page
from glassformer.cli.inputs import NO_LIMIT, inputs
from glassformer.cli.options import Json, ModelName, PageServing, columns_of, command, option
from glassformer.cli.screen import notes, progress_of, say, show
from glassformer.errors import ConfigError, DataError
from glassformer.files.schema import given
from glassformer.loading import Loading
from glassformer.progress import spinner
from glassformer.reports.amounts import byte_amount
from glassformer.reports.page import check_html_path

if TYPE_CHECKING:
    from glassformer.inspect.embeddings.projection import ProjectionOptions
    from glassformer.inspect.embeddings.word_study import WordStudy
    from glassformer.model import Model

WORDS, MAP, OUTPUT = "Words", "Map", "Output"


@dataclass(frozen=True, kw_only=True)
class EmbedMapOptions(PageServing):
    """Which occurrences, how they are embedded and mapped, and where the results go."""

    word: str | None = option(
        None, "Word whose occurrences are embedded. Default: whole texts.", "--word", "-w", panel=WORDS
    )
    match_case: bool = option(False, "Find the word in this case only.", panel=WORDS)
    part_of_word: bool = option(False, "Find it inside other words too.", panel=WORDS)
    against: list[str] | None = option(
        None, "Texts of a second corpus: measure the word's semantic change; repeatable.", panel=WORDS
    )
    control: list[str] | None = option(None, "Control word to compare with, with --against; repeatable.", panel=WORDS)
    column: list[str] | None = option(
        None,
        "Column mapping of tables, role=column: text=title, label=sense; repeatable.",
        "--column",
        "-c",
        panel=WORDS,
    )
    sentences: bool = option(False, "Split the texts into sentences first.", panel=WORDS)
    layers: str = option(
        "sum", "Layers of a vector: sum, mean or concat of the last four, last, or a level from 0.", panel=WORDS
    )
    pooling: str | None = option(
        None, "Tokens of a vector: word (the mean of its pieces), first ([CLS]), mean (of the whole text).", panel=WORDS
    )
    token_type: int | None = option(None, "Segment id of all tokens. Default: the tokenizer's, 0.", panel=WORDS, min=0)
    senses: int | None = option(
        None, "Number of clusters. Default: of labels, else by the silhouette.", panel=WORDS, min=2
    )
    cluster: str = option("kmeans", "Clustering: kmeans or agglomerative.", panel=WORDS)
    method: str = option("pca", "Projection the page opens with: pca, tsne or umap.", panel=MAP)
    perplexity: float = option(30.0, "Perplexity of t-SNE.", panel=MAP)
    neighbours: int = option(15, "Neighbours of UMAP.", panel=MAP)
    min_dist: float = option(0.1, "Least distance of points in UMAP.", panel=MAP)
    seed: int = option(0, "Random seed.", panel=MAP)
    limit_gb: float = option(2.0, "RAM limit in GB for the states of all levels.", "--limit-gb", panel=MAP, min=0.001)
    output: Path | None = option(
        None, "Folder for embeddings.tsv, metadata.tsv and embeddings.parquet.", "--output", "-o", panel=OUTPUT
    )
    serve: bool = option(False, "Serve the page on this machine until Ctrl-C.", panel=OUTPUT)

    def check(self) -> None:
        """Raises: ConfigError: options that do not go together."""
        for name, needs in (("control", "against"), ("against", "word")):
            if getattr(self, name) and not getattr(self, needs):
                raise ConfigError(f"--{name} goes with --{needs}; give both")
        if self.html is not None:
            check_html_path(self.html)
        if self.serve and self.html is not None:
            raise ConfigError("--serve and --html are two ways to see the page; give one")

    def layer_choice(self) -> int | str:
        """`--layers` as the library takes it."""
        return int(self.layers) if self.layers.removeprefix("-").isdigit() else self.layers

    def projection(self) -> ProjectionOptions:
        """The options of the projection. Raises: ConfigError: out of range."""
        from glassformer.inspect.embeddings.projection import ProjectionOptions

        return ProjectionOptions(self.method, self.perplexity, self.neighbours, self.min_dist, self.seed)


@command
def embed_map(
    model: ModelName,
    texts: Annotated[
        list[str],
        typer.Argument(help="Texts, files of texts (a line each), tables (.csv, .tsv, .jsonl, .parquet), or -."),
    ],
    *,
    options: EmbedMapOptions,
    loading: Loading,
    json: Json = False,
) -> None:
    """Contextual embeddings: all occurrences of a word compared, layer by layer, and drawn as a map.

    Without --word the whole texts are embedded. With --against the contexts of the word in two corpora are compared.

    Examples:
      glassformer embed-map MODEL titles.txt --word adoption --html page.html
      glassformer embed-map MODEL titles.csv --word adoption --column label=sense --output adoption/
      glassformer embed-map MODEL early.txt --against late.txt --word broadcast --control people
    """
    options.check()
    projection = options.projection()
    corpus, labels = read_corpus(texts, options)
    second = read_corpus(options.against, options)[0] if options.against else None
    with spinner("loading the model"):
        from glassformer.model import load

        loaded = load(model, **given(loading))
    with notes(repeats=False):
        if second is not None:
            measure_change(loaded, corpus, second, texts, options, json)
            return
        study = make_study(loaded, corpus, labels, options)
        written: dict[str, Any] = {"model": model}
        from glassformer.inspect.embeddings.embedding_map import EmbeddingMap

        embedding_map = EmbeddingMap.of(study.embeddings)
        if options.output is not None:
            vectors = study.embeddings.vectors(options.layer_choice())
            written["files"] = [str(path) for path in embedding_map.export(options.output, vectors=vectors)]
        if options.html is not None:
            written["page"] = write_page(loaded, embedding_map, study, options, projection)
        show(study, json, **written)
        if not json:
            say_saved(written)
        if options.serve:
            serve_page(loaded, embedding_map, study, options)


def read_corpus(arguments: Sequence[str], options: EmbedMapOptions) -> tuple[list[str], list[str] | None]:
    """The texts, and their labels where a column has them."""
    columns = columns_of(options.column, ("text", "label"))
    labels: list[str] | None = None
    if "label" in columns:
        from glassformer.data.rows import read_rows

        roles = [columns.get("text", "text"), columns["label"]]
        rows = read_rows(list(arguments), columns=roles, limit=NO_LIMIT)
        texts, labels = [row[roles[0]] for row in rows], [str(row[roles[1]]) for row in rows]
    else:
        texts = inputs(arguments, columns)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"text {number} is {text!r:.60}; it must be a text")
    return split_sentences(texts, labels) if options.sentences else (texts, labels)


def split_sentences(texts: Sequence[str], labels: Sequence[str] | None) -> tuple[list[str], list[str] | None]:
    """The sentences of texts, each with the label of its text."""
    from glassformer.text.sentences import sentence_spans

    sentences: list[str] = []
    kinds: list[str] = []
    for i, text in enumerate(texts):
        parts = [text[start:end].strip() for start, end in sentence_spans(text)]
        sentences += (parts := [part for part in parts if part])
        kinds += [labels[i]] * len(parts) if labels is not None else []
    return sentences, kinds if labels is not None else None


def make_study(model: Model, texts: list[str], labels: list[str] | None, options: EmbedMapOptions) -> WordStudy:
    """Embed, with a progress bar. Raises: as `embed_words` and `embed_texts`."""
    from glassformer.inspect.embeddings.occurrences import embed_texts, embed_words
    from glassformer.inspect.embeddings.word_study import WordStudy

    shared: dict[str, Any] = {"token_type": options.token_type, "limit_bytes": round(options.limit_gb * 1e9)}
    with progress_of("embedding") as bar:
        if options.word is None:
            embeddings = embed_texts(model, texts, labels=labels, pooling=options.pooling, progress=bar, **shared)
        else:
            embeddings = embed_words(
                model,
                texts,
                options.word,
                labels=labels,
                whole_word=not options.part_of_word,
                ignore_case=not options.match_case,
                pooling=options.pooling or "word",
                seed=options.seed,
                progress=bar,
                **shared,
            )
    embeddings.vectors(options.layer_choice())  # an early error
    return WordStudy(embeddings, options.layer_choice(), options.senses, options.cluster, options.seed)


def say_saved(written: Mapping[str, Any]) -> None:
    """Print which files were written."""
    for path in written.get("files", ()):
        say(f"saved in {path}")
    if page := written.get("page"):
        say(f"saved in {page['out']}: {byte_amount(page['bytes'])}; open it in any browser")


def measure_change(
    model: Model, first: list[str], second: list[str], names: Sequence[str], options: EmbedMapOptions, json: bool
) -> None:
    """Measure and print the semantic change of a word between two corpora."""
    from glassformer.inspect.embeddings.semantic_change import semantic_change

    assert options.word is not None and options.against  # `check` has made sure
    left, right = (Path(each[0]).stem[:20] if len(each) == 1 else "" for each in (names, options.against))
    corpora = (left, right) if left and right and left != right else ("first", "second")
    with spinner("embedding the occurrences"):
        change = semantic_change(
            model,
            first,
            second,
            options.word,
            options.control or (),
            layers="last" if options.layers == "sum" else options.layer_choice(),
            names=corpora,
            seed=options.seed,
            whole_word=not options.part_of_word,
            ignore_case=not options.match_case,
            limit_bytes=round(options.limit_gb * 1e9),
        )
    show(change, json)
