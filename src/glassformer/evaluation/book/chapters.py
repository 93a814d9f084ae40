"""Which figures the chapters name, and how ours are had."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.records import read_value
from glassformer.data.rows import Rows, read_rows
from glassformer.errors import DataError
from glassformer.evaluation.book.reproduce import Figure, Places
from glassformer.evaluation.compare.costs import cost_of, latency_of
from glassformer.evaluation.compare.seeds import Mean, mean_of
from glassformer.evaluation.evaluate import REPORT
from glassformer.evaluation.report import Report
from glassformer.evaluation.runs import VALIDATION, Run, open_run
from glassformer.files import reason, shown
from glassformer.runs.folder import CONFIG, seed_folders
from glassformer.tasks.metrics.bleu import Bleu, bleu
from glassformer.tasks.metrics.entities import Runs
from glassformer.tasks.metrics.squad import exact_match, word_f1
from glassformer.text.sentences import split_sentences

Ours = Callable[[Places], float | Mean]
MEBIBYTE = 2**20  # what the chapter calls a megabyte


# ------------------------------------------------------------------------------------------- from trained runs


def runs_of(places: Places, name: str, command: str) -> list[Run]:
    """The runs of a name, one or one for each seed; of several sizes, `name-2000`, the largest.

    Raises: DataError: there is none, and what makes it.
    """
    place = places.runs / name
    sized = [
        path
        for path in place.parent.glob(f"{place.name}-*")
        if path.name.removeprefix(f"{place.name}-").isdigit()
    ]
    sized.sort(key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    for folder in (place, *sized):
        if folders := seed_folders(folder):
            return [open_run(each) for each in folders]
        if (folder / CONFIG).is_file():
            return [open_run(folder)]
    raise DataError(f"there is no run in {place} yet; make it: {command}")


def reports(places: Places, name: str, part: str, command: str) -> list[Report]:
    """How these runs did on a part of the data; on their own validation rows they are judged now where they were not.

    Raises: DataError: no runs, or not judged on that part.
    """
    found = []
    for run in runs_of(places, name, command):
        place = run.evaluated() if part == VALIDATION else run.place(part)
        if not (place / REPORT).is_file():
            raise DataError(f"{run.folder} was not judged on {part} yet; {command}")
        found.append(Report.load(place / REPORT))
    return found


def of_run(name: str, figure: str, part: str = VALIDATION, command: str = "") -> Ours:
    """A figure of a run, or its mean over seeds."""

    def ours(places: Places) -> Mean:
        found = reports(places, name, part, command or training(name))
        return mean_of([_named(report.figures, figure, report.name).value for report in found])

    return ours


def of_baseline(name: str, word: str, figure: str) -> Ours:
    """A figure of the baseline in whose name a word stands."""

    def ours(places: Places) -> Mean:
        values = []
        for report in reports(places, name, VALIDATION, training(name)):
            among = {each: x for each, x in report.baselines.items() if word in each}
            if not among:
                raise DataError(
                    f"{name} was judged without a baseline of {word}; glassformer evaluate does it"
                )
            values.append(_named(next(iter(among.values())).figures, figure, report.name).value)
        return mean_of(values)

    return ours


def size_of(name: str) -> Ours:
    """MB of a run's model on disk."""

    def ours(places: Places) -> float:
        size = cost_of(runs_of(places, name, training(name))[0].folder).bytes
        if size is None:
            raise DataError(f"{places.runs / name}: holds no model")
        return size / MEBIBYTE

    return ours


def milliseconds_of(name: str) -> Ours:
    """How long one row takes, measured now."""

    def ours(places: Places) -> float:
        run = runs_of(places, name, training(name))[0]
        rows = run.parts[1]
        if rows is None:
            raise DataError(f"{run.folder}: has no validation rows to ask about")
        return latency_of(run.judge(), rows).mean

    return ours


def training(name: str) -> str:
    """The command that makes a run."""
    return f"glassformer train examples/{name}.yaml"


def _named(figures: Any, name: str, of: str) -> Any:
    if name not in figures:
        raise DataError(f"the report of {of} has no {name}; it has {', '.join(figures)}")
    return figures[name]


# -------------------------------------------------------------------------------------------------- from data


@lru_cache(maxsize=1)
def _emotion(data: Path) -> tuple[Rows, Rows]:
    """The tweets to train on and to judge on."""
    train, validation = (
        read_rows(
            str(data / "emotion" / name),
            kind="csv",
            delimiter=";",
            quotes=False,
            header=False,
            names=["text", "label"],
        )
        for name in ("train.txt.gz", "val.txt")
    )
    return train, validation


def tweets(part: int) -> Ours:
    return lambda places: float(len(_emotion(places.data)[part]))


def emotions(places: Places) -> float:
    return float(len({row["label"] for row in _emotion(places.data)[0]}))


def dummy(places: Places) -> float:
    """Accuracy of saying what is most frequent in training."""
    train, validation = _emotion(places.data)
    said = Counter(row["label"] for row in train).most_common(1)[0][0]
    return float(np.mean([row["label"] == said for row in validation]))


def sentences(file: str) -> Ours:
    """How many sentences a file of tagged words has."""
    return lambda places: float(len(read_rows(str(places.data / file))))


@lru_cache(maxsize=1)
def _intents(data: Path) -> dict[str, list[list[str]]]:
    path = data / "clinc150" / "data.json.gz"
    try:
        found: dict[str, list[list[str]]] = read_value(_unpacked(path))
        return {part: found[part] for part in ("train", "val", "oos_train", "oos_val")}
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise DataError(f"{path}: is not the CLINC150 that is looked for: {shown(str(error))}") from error


def queries(*parts: str) -> Ours:
    return lambda places: float(sum(len(_intents(places.data)[part]) for part in parts))


def intents(places: Places) -> float:
    return float(len({intent for _, intent in _intents(places.data)["train"]}))


def reviews(part: str) -> Ours:
    """Pairs of a question and a review; several rows of one pair are several annotators."""

    def ours(places: Places) -> float:
        text = _unpacked(places.data / "subjqa_electronics" / f"{part}.csv.gz")
        return float(len({row["q_review_id"] for row in csv.DictReader(io.StringIO(text, newline=""))}))

    return ours


def _unpacked(path: Path) -> str:
    try:
        return gzip.decompress(path.read_bytes()).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        what = reason(error) if isinstance(error, OSError) else str(error)
        raise DataError(f"{path}: cannot be read: {what}") from error


# --------------------------------------------------------------------------------------------- small examples


REFERENCE = "the cat is on the mat"


def _bleu(text: str, smoothing: str = "exp") -> Bleu:
    return bleu([text], [REFERENCE], smoothing=smoothing)


def entities(_: Places) -> float:
    """F1 of a MISC that is begun one word too early, and a PER that is right: half of the entities are."""
    names = ["O", "B-MISC", "I-MISC", "B-PER", "I-PER"]
    true = ["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O", "B-PER", "I-PER", "O"]
    said = ["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O", "B-PER", "I-PER", "O"]
    ours, theirs = (np.array([names.index(tag) for tag in each]) for each in (said, true))
    counts = Runs(names).compared(ours, theirs, np.repeat([0, 1], [7, 3]))
    hits, told, there = (int(counts[name].sum()) for name in ("hits", "said", "true"))
    return 2 * hits / (told + there)


def absent(what: str) -> Ours:
    """Ours cannot be had with what is here."""

    def ours(_: Places) -> float:
        raise DataError(what)

    return ours


# --------------------------------------------------------------------------------------------------- chapters

MINI = "MiniLM, a third of the size, stands in for DistilBERT"
COPY = "this copy of the data differs a little: some rows were taken out (see the data's README)"
STUDY = "glassformer study examples/transfer.yaml"
LINGUAL = "MiniLM reads English in small letters; XLM-R, the book's model, has learnt a hundred languages"
PANX = "PAN-X was cut by language for the book; here are whole files of WikiANN and, for fr and it, of WikiNEuRal"
NO_NEWS = (
    "CNN/DailyMail is not among the data; with rows of it: "
    "glassformer compare --data FILE --text article --reference highlights lead-3 MODEL"
)
NO_PEGASUS = (
    "needs PEGASUS's published weights; with them: "
    "glassformer compare --data FILE --text dialogue --reference summary lead-3 MODEL"
)
HELD_BACK = "the official test rows are held back, so only those to train and to validate on are counted"

CHAPTER_2 = [
    Figure(id="DT-01", what="classes of tweets", book=6, ours=emotions, digits=0),
    Figure(
        id="DT-01", what="tweets to train on", book=16_000, tolerance=10, ours=tweets(0), why=COPY, digits=0
    ),
    Figure(
        id="DT-01", what="tweets to validate on", book=2_000, tolerance=5, ours=tweets(1), why=COPY, digits=0
    ),
    Figure(
        id="TR-06",
        what="accuracy, most frequent class",
        notebook=0.352,
        tolerance=0.002,
        ours=dummy,
        why=COPY,
    ),
    Figure(
        id="TR-04",
        what="F1, features + logistic regression",
        book=0.63,
        tolerance=0.03,
        ours=of_baseline("emotion", "embedding", "f1_weighted"),
        why="the features are MiniLM's vectors of sentences, the book's are DistilBERT's states of [CLS]",
    ),
    Figure(
        id="TR-04",
        what="accuracy, features + logistic regression",
        notebook=0.6085,
        tolerance=0.03,
        ours=of_baseline("emotion", "embedding", "accuracy"),
        why="the features are MiniLM's vectors of sentences, the book's are DistilBERT's states of [CLS]",
    ),
    Figure(
        id="TR-05",
        what="F1, fine-tuned",
        book=0.91,
        notebook=0.9226,
        tolerance=0.01,
        ours=of_run("emotion", "f1_weighted"),
        why=MINI,
    ),
    Figure(
        id="TR-05",
        what="accuracy, fine-tuned",
        notebook=0.9225,
        tolerance=0.01,
        ours=of_run("emotion", "accuracy"),
        why=MINI,
    ),
]

CHAPTER_4 = [
    Figure(id="MT-05", what="micro F1 of a MISC begun too early and a right PER", book=0.5, ours=entities),
    *(
        Figure(
            id="DT-02",
            what=f"sentences to train on, {language}",
            notebook=rows,
            ours=sentences(file),
            why=PANX,
            digits=0,
        )
        for language, rows, file in (
            ("de", 12_580, "wikiann/de.train.conll.gz"),
            ("fr", 4_580, "wikineural/fr.train.conll.gz"),
            ("it", 1_680, "wikineural/it.train.conll.gz"),
            ("en", 1_180, "wikiann/en.train.conll.gz"),
        )
    ),
    *(
        Figure(
            id="TR-28",
            what=f"F1 on {language}, trained on de",
            book=book,
            notebook=notebook,
            tolerance=0.02,
            ours=of_run("transfer/de", "f1", language, STUDY),
            why=LINGUAL,
        )
        for language, book, notebook in (
            ("de", 0.87, 0.868),
            ("fr", 0.70, 0.714),
            ("it", 0.65, 0.692),
            ("en", 0.58, 0.589),
        )
    ),
    *(
        Figure(
            id="TR-28",
            what=f"F1 on {language}, trained on de and fr",
            notebook=notebook,
            tolerance=0.02,
            ours=of_run("transfer/de+fr", "f1", language, STUDY),
            why=LINGUAL,
        )
        for language, notebook in (("de", 0.866), ("fr", 0.868), ("it", 0.815), ("en", 0.677))
    ),
]

CHAPTER_6 = [
    Figure(
        id="MT-06",
        what="1-grams of six times 'the', %",
        notebook=33.33,
        tolerance=0.005,
        ours=lambda _: _bleu("the " * 6, "none").precisions[0],
        digits=2,
    ),
    Figure(
        id="MT-06",
        what="BLEU of six times 'the'",
        notebook=0,
        ours=lambda _: _bleu("the " * 6, "none").score.value,
        digits=2,
    ),
    Figure(
        id="MT-06",
        what="BLEU of 'the cat is on mat'",
        notebook=57.893,
        tolerance=0.0005,
        ours=lambda _: _bleu("the cat is on mat").score.value,
    ),
    Figure(
        id="MT-06",
        what="its brevity penalty",
        notebook=0.8187,
        tolerance=0.00005,
        ours=lambda _: _bleu("the cat is on mat").brevity_penalty,
        digits=4,
    ),
    Figure(
        id="TS-18",
        what="sentences in 'The U.S. are a country. The U.N. is an organization.'",
        book=2,
        ours=lambda _: float(len(split_sentences("The U.S. are a country. The U.N. is an organization."))),
        digits=0,
    ),
    Figure(id="TS-17", what="ROUGE-1 of lead-3, CNN/DailyMail", notebook=0.396, ours=absent(NO_NEWS)),
    Figure(id="TS-17", what="ROUGE-1 of PEGASUS, CNN/DailyMail", notebook=0.434, ours=absent(NO_NEWS)),
    Figure(id="TS-19", what="ROUGE-1 of PEGASUS, SAMSum, before", notebook=0.296, ours=absent(NO_PEGASUS)),
    Figure(id="TS-19", what="ROUGE-1 of PEGASUS, SAMSum, after", notebook=0.428, ours=absent(NO_PEGASUS)),
]

CHAPTER_7 = [
    Figure(
        id="MT-08",
        what="exact match, 'about 6000 hours' for '6000 hours'",
        notebook=0,
        ours=lambda _: exact_match("about 6000 hours", ["6000 hours"]),
        digits=1,
    ),
    Figure(
        id="MT-08",
        what="F1, 'about 6000 hours' for '6000 hours'",
        notebook=0.8,
        ours=lambda _: word_f1("about 6000 hours", ["6000 hours"]),
        digits=1,
    ),
    Figure(
        id="MT-08",
        what="F1, 'about 6000 dollars' for '6000 hours'",
        notebook=0.4,
        ours=lambda _: word_f1("about 6000 dollars", ["6000 hours"]),
        digits=1,
    ),
    Figure(id="DT-05", what="questions to train on, SubjQA", notebook=1_295, ours=reviews("train"), digits=0),
    Figure(id="DT-05", what="questions to validate on, SubjQA", notebook=255, ours=reviews("dev"), digits=0),
]

CHAPTER_8 = [
    Figure(id="DT-07", what="intents", book=150, ours=intents, digits=0),
    Figure(
        id="DT-07",
        what="queries within scope",
        book=22_500,
        ours=queries("train", "val"),
        why=HELD_BACK,
        digits=0,
    ),
    Figure(
        id="DT-07",
        what="queries out of scope",
        book=1_200,
        ours=queries("oos_train", "oos_val"),
        why=HELD_BACK,
        digits=0,
    ),
    Figure(
        id="EF-02",
        what="accuracy within scope, validation (the book names no split)",
        book=0.94,
        tolerance=0.02,
        ours=of_run(
            "clinc150", "accuracy", "in-scope", "make it as examples/clinc150.yaml says, with --as in-scope"
        ),
        why="MiniLM stands in for BERT-base; the book does not say on which rows",
    ),
    Figure(
        id="EF-02",
        what="accuracy of BERT-base, test rows with those out of scope",
        notebook=0.867,
        ours=absent("the official test rows are held back, so no model of ours can be judged on them"),
    ),
    Figure(
        id="EF-01",
        what="size of the model, MB (BERT-base)",
        notebook=418.16,
        tolerance=5,
        ours=size_of("clinc150"),
        why="MiniLM stands in for BERT-base, which is several times larger",
        digits=2,
    ),
    Figure(
        id="EF-01",
        what="one query, ms (BERT-base)",
        notebook=54.2,
        tolerance=5,
        ours=milliseconds_of("clinc150"),
        why="another model on another machine; measured now, on queries that differ, with 10 before that do not count",
        digits=1,
    ),
]

CHAPTERS: dict[str, tuple[str, list[Figure]]] = {
    "2": ("text classification", CHAPTER_2),
    "4": ("multilingual named entities", CHAPTER_4),
    "6": ("summarisation", CHAPTER_6),
    "7": ("question answering", CHAPTER_7),
    "8": ("making it efficient", CHAPTER_8),
}
