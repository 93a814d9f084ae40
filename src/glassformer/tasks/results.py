"""Pipeline results: dicts with Hugging Face's keys, whose values are attributes too.

summary = summarise(text)[0]
summary.summary_text        a field, which an editor knows
summary["summary_text"]     the same; json.dumps(summary) works, as of any dict
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any, ClassVar, TypeVar


@dataclass(eq=False)
class Result(dict[str, Any]):
    """One answer: a dict whose keys are the fields of its class.

    ANSWER: the field that is the answer in words
    SHARES: the fields that are probabilities, which a notebook shows with a bar
    """

    ANSWER: ClassVar[str]
    SHARES: ClassVar[tuple[str, ...]] = ()

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
        """The answer in words."""
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
    """Of "summarization"."""

    ANSWER = "summary_text"

    summary_text: str


@dataclass(eq=False)
class Translation(Result):
    """Of "translation"."""

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
    start, end: where it stands in what was given, in characters of a text or words of a list: given[start:end]
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

    index: its place among the tokens, special ones counted · word: as the vocabulary has it
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
    """Of "automatic-speech-recognition"."""

    text: str


@dataclass(eq=False)
class TimedText(Result):
    """A segment or a word of a transcript. timestamp: its start and end, in seconds"""

    timestamp: tuple[float, float]
    text: str


@dataclass(eq=False)
class TimedTranscript(Transcript):
    """Of "automatic-speech-recognition" with `return_timestamps`."""

    chunks: list[TimedText] = field(default_factory=list)


@dataclass(eq=False)
class ExtractedAnswer(Result):
    """Of "question-answering": context[start:end], and how likely it is."""

    ANSWER, SHARES = "answer", ("score",)

    score: float
    start: int
    end: int
    answer: str


@dataclass(eq=False)
class PageAnswer(ExtractedAnswer):
    """Of "document-question-answering": the words from the number `start` to `end` of a page, and how likely it is."""


@dataclass(eq=False)
class SpanAnswer(Result):
    """Of "passage-reading".

    score: start and end logit together, which rank the spans of a passage · relevance: logit, which ranks the passages
    passage: its number · start_index, end_index: first and last token, of the question, title and passage together
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

    answer: the cells' texts, after the operator if there is one · coordinates: row and column of each cell, from 0
    cells: their texts · aggregator: the operator, of a model that has operators
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


class Results(list[Item]):
    """A list of results, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        if not all(isinstance(item, Result) for item in self):
            return "".join(
                item._repr_html_() if isinstance(item, Results) else f"<p>{escape(str(item))}</p>" for item in self
            )
        if not self:
            return "<p>no results</p>"
        names = list(dict.fromkeys(name for item in self if isinstance(item, Result) for name in item))
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        rows = "".join(
            "<tr>"
            + "".join(f'<td style="text-align: left">{_cell(item[name], name in item.SHARES)}</td>' for name in names)
            + "</tr>"
            for item in self
            if isinstance(item, Result)
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _bar(share: float) -> str:
    """A bar as long as a probability, in the colour of the page's writing, light or dark."""
    return (
        '<span aria-hidden="true" style="display: inline-block; width: 6em; margin-right: .6em">'
        '<span style="display: block; height: .6em; background: currentColor; opacity: .45; '
        f'width: {100 * share:.1f}%"></span></span>'
    )


def _cell(value: Any, share: bool) -> str:
    if isinstance(value, float):
        return f'<span style="white-space: nowrap">{_bar(value)}{value:.4f}</span>' if share else f"{value:.4f}"
    if isinstance(value, list):  # a conversation
        return "<br>".join(f"<b>{escape(str(m['role']))}</b> {escape(str(m['content']))}" for m in value)
    return escape(str(value)).replace("\n", "<br>")
