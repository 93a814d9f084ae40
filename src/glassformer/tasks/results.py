"""Pipeline results: dicts with Hugging Face's keys, whose values are attributes too.

summary = summarise(text)[0]
summary.summary_text        a field, which an editor knows
summary["summary_text"]     the same; json.dumps(summary) works, as of any dict
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from glassformer.data.sequence import shorten
from glassformer.reports.report import Display
from glassformer.reports.table import Table, bar

BAR = 12
"""Characters of a bar for a probability of 1."""
MAX_TEXT = 4_000
"""Characters of a text in a notebook."""


@dataclass(eq=False)
class Result(dict[str, Any]):
    """One answer: a dict whose keys are the fields of its class.

    ANSWER: the field that is the answer in words
    SHARES: the fields that are probabilities, which a table shows with bars
    EMPTY: what a table shows for an empty text
    """

    ANSWER: ClassVar[str]
    SHARES: ClassVar[tuple[str, ...]] = ()
    EMPTY: ClassVar[str] = ""

    # The fields are kept in the dict alone, so that both ways always say the same.
    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"a {type(self).__name__} has no {name!r}; it has: {', '.join(self)}") from None

    @property
    def text(self) -> str:
        """The field that is the answer, as text."""
        return str(getattr(self, self.ANSWER))


@dataclass(eq=False)
class GeneratedText(Result):
    """Of "text-generation" and "text2text-generation"; of a conversation, all its messages with the answer."""

    generated_text: str | list[dict[str, Any]]

    @property
    def text(self) -> str:
        generated = self.generated_text
        return generated if isinstance(generated, str) else str(generated[-1]["content"])


@dataclass(eq=False)
class Summary(Result):
    """Result of the pipeline "summarization"."""

    ANSWER = "summary_text"

    summary_text: str


@dataclass(eq=False)
class Translation(Result):
    """Result of the pipeline "translation"."""

    ANSWER = "translation_text"

    translation_text: str


@dataclass(eq=False)
class Filling(Result):
    """Of "fill-mask": a token for a masked place, how likely it is, and the text with it."""

    ANSWER, SHARES = "sequence", ("score",)

    score: float
    token: int
    token_str: str
    sequence: str


@dataclass(eq=False)
class Label(Result):
    """Of "text-classification": a label, and how likely it is."""

    ANSWER, SHARES = "label", ("score",)

    label: str
    score: float


@dataclass(eq=False)
class Estimate(Result):
    """Of "text-classification", where the head says a number and no class: what the number is called, and it."""

    label: str
    score: float

    @property
    def text(self) -> str:
        return f"{self.score:.6g}"


@dataclass(eq=False)
class Entity(Result):
    """Of "token-classification": a run of words with one tag, or a word with its own.

    score: the mean probability of the tags of its words
    start, end: where it is in what was given, in characters of a text or words of a list: given[start:end]
    """

    SHARES = ("score",)

    entity_group: str
    score: float
    word: str
    start: int
    end: int

    @property
    def text(self) -> str:
        return f"{self.word} ({self.entity_group})"


@dataclass(eq=False)
class TaggedToken(Result):
    """Of "token-classification", token by token.

    index: its place among the tokens, special ones counted
    word: as the vocabulary has it
    start, end: as of an `Entity`
    """

    SHARES = ("score",)

    entity: str
    score: float
    index: int
    word: str
    start: int
    end: int

    @property
    def text(self) -> str:
        return f"{self.word} ({self.entity})"


@dataclass(eq=False)
class Transcript(Result):
    """Result of the pipeline "automatic-speech-recognition"."""

    text: str


@dataclass(eq=False)
class TimedText(Result):
    """A segment or a word of a transcript.

    timestamp: its start and end, in seconds
    """

    timestamp: tuple[float, float]
    text: str


@dataclass(eq=False)
class TimedTranscript(Transcript):
    """Result of the pipeline "automatic-speech-recognition" with `return_timestamps`."""

    chunks: list[TimedText] = field(default_factory=list)


@dataclass(eq=False)
class ExtractedAnswer(Result):
    """Of "question-answering": context[start:end], and how likely it is."""

    ANSWER, SHARES, EMPTY = "answer", ("score",), "(no answer)"

    score: float
    start: int
    end: int
    answer: str


@dataclass(eq=False)
class PageAnswer(ExtractedAnswer):
    """Of "document-question-answering": the words from the number `start` to `end` of a page, and how likely it is."""


@dataclass(eq=False)
class ImageAnswer(Result):
    """Of "visual-question-answering": one of the answers that the model knows, and how likely it is."""

    ANSWER, SHARES = "answer", ("score",)

    answer: str
    score: float


@dataclass(eq=False)
class SoundSegment(Result):
    """Of "audio-frame-classification": from when to when a sound has a label, in seconds.

    score: the mean probability of the label in these frames
    """

    SHARES = ("score",)

    label: str
    start: float
    end: float
    score: float

    @property
    def text(self) -> str:
        return f"{self.label} {self.start:.2f}–{self.end:.2f}"


@dataclass(eq=False)
class SpanAnswer(Result):
    """Of "passage-reading".

    score: start and end logit together, which rank the spans of a passage
    relevance: logit, which ranks the passages
    passage: its number
    start_index, end_index: first and last token, of the question, title and passage together
    """

    ANSWER = "answer"

    answer: str
    score: float
    relevance: float
    passage: int
    start_index: int
    end_index: int


@dataclass(eq=False)
class TableAnswer(Result):
    """Of "table-question-answering".

    answer: the cells' texts, after the operator if there is one
    coordinates: row and column of each cell, from 0
    cells: their texts
    aggregator: the operator, of a model that has operators
    """

    ANSWER = "answer"

    answer: str
    coordinates: list[tuple[int, int]]
    cells: list[str]
    aggregator: str | None = None

    def __post_init__(self) -> None:
        if self["aggregator"] is None:
            del self["aggregator"]


@dataclass(eq=False)
class RankedLabels(Result):
    """Of "zero-shot-classification": the labels of a text, best first, and how likely each is."""

    sequence: str
    labels: list[str]
    scores: list[float]

    @property
    def text(self) -> str:
        return self.labels[0]


Item = TypeVar("Item")


class Results(list[Item], Display):
    """A list of results, which a notebook shows as a table; one of lists shows a table of each."""

    def tables(self) -> list[Table]:
        """A row a result, a column a key, with bars for probabilities."""
        rows = [item for item in self if isinstance(item, Result)]
        lists = [table for item in self if isinstance(item, Results) for table in item.tables()]
        names = list(dict.fromkeys(name for row in rows for name in row))
        cells = [[_cell(row.get(name, ""), name in row.SHARES) or row.EMPTY for name in names] for row in rows]
        return [*([Table(names, cells, left=len(names), longest=MAX_TEXT)] if rows else []), *lists]

    def remarks(self) -> list[str]:
        """What is no result, such as the texts alone."""
        if not self:
            return ["no results"]
        others = [item for item in self if not isinstance(item, Result)]
        return [text for item in others for text in (item.remarks() if isinstance(item, Results) else [str(item)])]


def results_of(prediction: Any) -> Results[Any]:
    """The results of one text; of ranked labels, each label by itself."""
    if isinstance(prediction, RankedLabels):
        prediction = [Label(*pair) for pair in zip(prediction.labels, prediction.scores, strict=True)]
    return Results(prediction if isinstance(prediction, list) else [prediction])


def input_line(text: Any, longest: int = 200) -> str:
    """A text, or the texts of a row, in one line."""
    parts = text.values() if isinstance(text, dict) else [text]
    return shorten(" | ".join(" ".join(str(part).split()) for part in parts), longest)


def best_labels(prediction: Any) -> list[Label]:
    """The labels of a prediction: the best of ranked ones, or all that hold; none of a prediction of another kind."""
    results = results_of(prediction)[: 1 if isinstance(prediction, RankedLabels) else None]
    return [label for label in results if isinstance(label, Label)]


def _cell(value: Any, share: bool) -> str:
    if isinstance(value, float):
        return f"{value:.4f} {bar(value, BAR)}".rstrip() if share else f"{value:.4f}"
    if isinstance(value, list) and all(isinstance(message, dict) for message in value):  # a conversation
        return "\n".join(f"{message.get('role')}: {message.get('content')}" for message in value)
    return str(value)
