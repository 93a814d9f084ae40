"""The tables of docs/results.md, from the reports of runs.

    python benchmarks/results.py                        draw the tables again from what docs/results/ keeps
    python benchmarks/results.py runs/emotion runs/sst2 take these runs in first: of several seeds, of one, or a study

What was reported of a run (figures, intervals, baselines, times, versions; no text of any row) is kept in
docs/results/NAME.json. Seeds add up: those of another day or machine are put next to those that are there, and a seed
that comes again replaces itself. So the tables can be made again where there are no runs. A study is one
thing: it is kept in docs/results/studies/NAME.json as it is, and has a table of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.errors import GlassformerError
from glassformer.evaluation.compare.costs import minutes
from glassformer.evaluation.compare.seeds import Mean, SeedSummary, summarise_seeds

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- {}: made by benchmarks/results.py -->", "<!-- /{} -->"
STUDY, STUDIES = "study.json", "studies"
HEAD = (
    "data",
    "model",
    "asked for",
    "mean of seeds",
    "each seed",
    "baselines",
    "training, CPU minutes",
    "machine",
)


@dataclass(frozen=True)
class Line:
    """What a line of the table is of.

    figure: the one that is asked for; None = the main one of its judge · part: by the name of its evaluation
    """

    data: str
    model: str
    figure: str | None = None
    target: float | None = None
    most_minutes: float | None = None
    part: str | None = None


MINILM = "MiniLM, fine-tuned"
LINES = {
    "emotion": Line("emotion, tweets", MINILM, "f1_weighted", 0.92),
    "clinc150": Line("CLINC150, with out-of-scope", MINILM, "accuracy"),
    "clinc150-in-scope": Line("CLINC150, within scope", MINILM, "accuracy", 0.95, part="in-scope"),
    "clinc150-out-of-scope": Line("CLINC150, out of scope", MINILM, "accuracy", part="out-of-scope"),
    "sst2": Line("SST-2", MINILM, "accuracy", 0.89),
    "wikiann-en": Line("WikiANN, English", MINILM, "f1", 0.78),
    "wnut17": Line("WNUT 2017", MINILM, "f1"),
    "xquad": Line("XQuAD, English", MINILM, "f1"),
    "subjqa": Line("SubjQA, electronics", MINILM, "f1"),
    "multi30k": Line("Multi30k, en → de", "Transformer from scratch", "BLEU", 37.0, 40),
    "scitldr": Line("SciTLDR, abstracts", "Transformer from scratch"),
    "tinyshakespeare": Line("tiny Shakespeare", "GPT-2 from scratch", None, 2.4, 40),
    "tinystories": Line("TinyStories, 2,000 of them", "GPT-2 from scratch"),
    "python-model": Line("functions of Python's library", "GPT-2 from scratch"),
}
"""By the name of the run's folder; what is not named here is below, as its report calls it."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("runs", nargs="*", type=Path, help="folders of runs, of several seeds, or of studies")
    options.add_argument("--docs", type=Path, default=DOCS, help="where results.md and results/ are")
    asked = options.parse_args()
    try:
        for folder in asked.runs:
            for kept in take(folder, asked.docs / "results"):
                print(kept, file=sys.stderr)
        redraw(asked.docs)
    except GlassformerError as error:
        sys.exit(f"error: {error}")


def take(folder: Path, into: Path) -> Iterator[Path]:
    """Keep what runs in a folder, or a study, reached. Returns: the files"""
    name = folder.absolute().name
    if (folder / STUDY).is_file():
        place = into / STUDIES / f"{name}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text((folder / STUDY).read_text("utf-8"), "utf-8")
        yield place
        return
    yield keep(summarise_seeds(folder), into)
    for other, line in LINES.items():
        if line.part is not None and other == f"{name}-{line.part}":
            yield keep(replace(summarise_seeds(folder, split=line.part), name=other), into)


def keep(found: SeedSummary, folder: Path) -> Path:
    """Put seeds next to those that were kept before. Returns: the file"""
    place = folder / f"{found.name}.json"
    kept = SeedSummary.load(place).merged(found) if place.is_file() else found
    folder.mkdir(parents=True, exist_ok=True)
    kept.save(place)
    return place


def redraw(docs: Path) -> None:
    """Write each table between its two marks of results.md."""
    page, kept = docs / "results.md", docs / "results"
    text = put(page.read_text("utf-8"), "results", table(kept), page)
    for study in sorted((kept / STUDIES).glob("*.json")):
        text = put(text, study.stem, study_table(study), page)
    page.write_text(text, "utf-8")


def put(text: str, name: str, made: str, page: Path) -> str:
    """The page with a table between the two marks of its name."""
    first, last = BEGIN.format(name), END.format(name)
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        sys.exit(f"error: {page} has no place for the table {name}; it is between {first} and {last}")
    return f"{before}{begin}\n{made}\n{end}{after}"


def table(folder: Path) -> str:
    """The table in Markdown; lines that nothing is known of yet say so."""
    kept = {path.stem: SeedSummary.load(path) for path in sorted(folder.glob("*.json"))}
    lines = [row(line, kept.get(name)) for name, line in LINES.items()]
    others = {name: found for name, found in kept.items() if name not in LINES}
    lines += [row(Line(*described(name, found)), found) for name, found in others.items()]
    return markdown(HEAD, lines)


def study_table(path: Path) -> str:
    """What was trained on and evaluated on, and below it where curves cross, as the study itself says it."""
    found = json.loads(path.read_text("utf-8"))
    made = markdown(found["table"]["headings"], found["table"]["rows"])
    return "\n\n".join([made, *map(escaped, found["sentences"])])


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [headings, ["---"] * len(headings), *rows])


def described(name: str, found: SeedSummary) -> tuple[str, str]:
    """Data and model of what has no line of its own."""
    return f"{name}: {', '.join(found.first.data.get('files', []))}", found.first.task


def row(line: Line, found: SeedSummary | None) -> list[str]:
    if found is None:
        return [line.data, line.model, asked_for(line, None), "not run yet", "", "", "", ""]
    figure = line.figure if line.figure in found.means else found.first.metric
    higher = found.first.higher
    mean, digits = found.means[figure], 2 if found.means[figure].value >= 10 else 3
    each = "<br>".join(f"{run.seed}: {run.report.metrics[figure].written(digits)}" for run in found.runs)
    others = "<br>".join(
        f"{escaped(name)} {figures[figure].written(digits)}"
        for name, figures in found.baselines.items()
        if figure in figures
    )
    spent = found.cpu_seconds or found.seconds
    where = dict.fromkeys(machine(run.report.environment, run.cost.precision) for run in found.runs)
    return [
        line.data,
        line.model,
        asked_for(line, figure, higher),
        f"**{figure} {mean.written(digits)}**{verdict(line, mean, higher, found)}",
        each,
        others,
        "" if spent is None else minutes(spent.value) + ("" if found.cpu_seconds else " (wall)"),
        "<br>".join(where),
    ]


def asked_for(line: Line, figure: str | None, higher: bool = True) -> str:
    if line.target is None:
        return "reported"
    named = figure or line.figure or "bits a character"
    sign = "≥" if higher and named != "bits a character" else "≤"
    within = "" if line.most_minutes is None else f" in ≤ {line.most_minutes:g} minutes"
    return f"{named} {sign} {line.target:g}{within}"


def verdict(line: Line, mean: Mean, higher: bool, found: SeedSummary) -> str:
    """What is asked for is missed only where the whole interval over seeds lies beyond it; one seed has none."""
    said = []
    if line.target is not None:
        short = line.target - mean.value if higher else mean.value - line.target
        beyond = "below, by one seed" if mean.half is None else "missed" if short > mean.half else "within ±"
        said.append(beyond if short > 0 else "reached")
    taken = [run.cost.seconds for run in found.runs if run.cost.seconds is not None]
    if line.most_minutes is not None and taken and max(taken) > 60 * line.most_minutes:
        said.append(f"took {', '.join(map(minutes, taken))} minutes")
    return f", {', '.join(said)}" if said else ""


def machine(environment: dict[str, object], precision: str | None) -> str:
    """What it was computed on, with how many threads, and in which precision it was trained."""
    device = environment.get("device")
    on = environment.get("processor") if device == "cpu" else device
    threads = f"{environment.get('threads')} thread{'s' * (environment.get('threads') != 1)}"
    return escaped(f"{on}, {threads}, {precision or 'fp32'}, torch {environment.get('torch')}")


def escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    main()
