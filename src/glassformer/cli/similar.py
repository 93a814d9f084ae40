"""`glassformer similar MODEL TEXT TEXT`: the similarity of texts, and of two which words make it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.inputs import inputs
from glassformer.cli.options import Json, Loading, ModelName, Options, command, option
from glassformer.cli.screen import notes, print_facts, print_json, rows_table, terminal, text_of, visible
from glassformer.errors import ConfigError, DataError
from glassformer.progress import spinner
from glassformer.reports.page import check_html_path
from glassformer.reports.table import bar

if TYPE_CHECKING:
    from glassformer.inspect.similarity import SimilarityMap
    from glassformer.model import Model

TABLE_TEXTS = 12
"""Texts of a table that compares each with each; of more, the nearest to the first are listed."""
BAR = 16


@dataclass(frozen=True, kw_only=True)
class SimilarityOptions(Options):
    """How texts are compared, and what is shown."""

    words: bool = option(False, "Whole words instead of tokens.")
    top: int = option(10, "Number of pairs of tokens, or of nearest texts, to list.", min=1)
    measure: str | None = option(None, "Similarity to explain: cosine or dot. Default: the model's own.")
    prompt: str | None = option(None, "Prompt: put before each text, such as 'query: '.")
    prompt_name: str | None = option(None, "Prompt by its name in the model's config_sentence_transformers.json.")
    html: Path | None = option(None, "Write the explorer's page of two texts to this HTML file (self-contained).")

    def asked(self) -> dict[str, Any]:
        """Those of `explain_similarity`."""
        return {"measure": self.measure, "prompt": self.prompt, "prompt_name": self.prompt_name}


@command
def similar(
    model: ModelName,
    texts: Annotated[
        list[str], typer.Argument(help="Texts, in quotes; files with a text per line; - reads standard input.")
    ],
    *,
    options: SimilarityOptions,
    loading: Loading,
    json: Json = False,
) -> None:
    """Explain the similarity of two texts: a token × token map whose cells sum to the cosine.

    Of 3 to 12 texts, a table of the similarity of each to each; of more, those nearest to the first (semantic search).

    Examples:

    [cyan]glassformer similar MODEL 'a man plays guitar' 'someone plays an instrument'[/]

    [cyan]glassformer similar MODEL 'a query' sentences.txt --top 5[/]  the lines nearest to a query
    """
    read = inputs(texts)
    if not all(isinstance(text, str) for text in read):
        raise DataError("similar compares texts; give texts, not conversations or lists of words")
    if len(read) < 2:
        raise DataError("similar compares texts, and got one; give two, or a query and a file with a text per line")
    if len(read) > 2 and (options.words or options.measure or options.html):
        raise ConfigError("--words, --measure and --html are about the similarity of two texts; give two texts")
    if options.html and (options.measure or options.prompt is not None or options.prompt_name):
        raise ConfigError("--html shows the texts as the model compares them; leave --measure and the prompt out")
    if options.html is not None:
        check_html_path(options.html)
    with spinner("loading the model"):
        from glassformer.model import load

        loaded = load(model, **loading.given())
    with notes():
        if options.html is not None:
            _write_page(loaded, read, options.html, json)
        elif len(read) == 2:
            explained = loaded.explain_similarity(read[0], read[1], **options.asked())
            _show(explained.words() if options.words else explained, options.top, json)
        elif len(read) <= TABLE_TEXTS:
            _show_table(loaded, read, options, json)
        else:
            # the first line of the only file is the query, and the others keep their lines
            _show_nearest(loaded, read[0], read[1:], options, json, start=2 if len(texts) == 1 else 1)


def _show(explained: SimilarityMap, top: int, json: bool) -> None:
    if json:
        print_json(explained.to_dict(), indent=None)
        return
    console = terminal()
    facts = {explained.measure: f"{explained.similarity:.4f}, the sum of {explained.cells.size:,} pairs of tokens"}
    print_facts(facts | {f"note {i}": note for i, note in enumerate(explained.notes, 1)}, console)
    largest = max(float(abs(share).max()) for share in explained.shares) or 1.0
    for name, tokens, shares in zip(("first text", "second text"), explained.tokens, explained.shares, strict=True):
        console.print()
        rows = [
            [visible(token.text), f"{share:+z.4f}", bar(share / largest, BAR) if share > 0 else ""]
            for token, share in zip(tokens, shares, strict=True)
        ]
        console.print(rows_table([name, "share", ""], rows))
    console.print()
    pairs = [
        [explained.tokens[0][i].text, explained.tokens[1][j].text, f"{number:+z.4f}"]
        for i, j, number in explained.top(top)
    ]
    console.print(rows_table(["first", "second", "of the sum"], pairs, left=2))
    console.print(text_of("a token's state has gathered its neighbours: cells say where the similarity lies", "dim"))


def _write_page(model: Model, texts: list[str], html: Path, json: bool) -> None:
    from glassformer.cli.look import write
    from glassformer.explorer.look import InitialView, Look
    from glassformer.explorer.session_runs import SessionRuns

    with Look(SessionRuns(model.session_factory()), texts, InitialView(view="similarity")) as look:
        write(look, html, layers=None, json=json)


def _show_table(model: Model, texts: list[str], options: SimilarityOptions, json: bool) -> None:
    vectors = model.encode(texts, prompt=options.prompt, prompt_name=options.prompt_name)
    table = model.similarity(vectors, vectors).tolist()
    if json:
        print_json({"measure": model.similarity_fn_name, "texts": texts, "similarities": table}, indent=None)
        return
    console = terminal()
    for i, text in enumerate(texts, 1):
        console.print(text_of(f"{i:>3}  {visible(text)}"))
    console.print()
    rows = [[str(i), *(f"{x:z.3f}" for x in row)] for i, row in enumerate(table, 1)]
    console.print(rows_table([model.similarity_fn_name, *map(str, range(1, len(texts) + 1))], rows))


def _show_nearest(
    model: Model, query: str, documents: list[str], options: SimilarityOptions, json: bool, *, start: int
) -> None:
    """The texts nearest to the first, best first, with their numbers, counted from `start`."""
    prompts = {"prompt": options.prompt, "prompt_name": options.prompt_name}
    given = {name: prompt for name, prompt in prompts.items() if prompt is not None}
    ranking = model.rank(query, documents, top_k=options.top, return_documents=True, **given)
    nearest = [{"number": each["corpus_id"] + start, "score": each["score"], "text": each["text"]} for each in ranking]
    if json:
        print_json({"query": query, "texts": len(documents), "nearest": nearest})
        return
    console = terminal()
    console.print(text_of(f"{len(documents):,} texts, nearest first, to: {visible(query)}"), end="\n\n")
    rows = [[f"{each['score']:.4f}", f"{each['number']:,}", visible(each["text"])] for each in nearest]
    console.print(rows_table([_scores_of(model), "no.", "text"], rows, left=3))


def _scores_of(model: Model) -> str:
    """What the numbers of a ranking are: a similarity of two vectors, or the score that a classifier gives a pair."""
    return "score" if model.task == "text-classification" else model.similarity_fn_name
