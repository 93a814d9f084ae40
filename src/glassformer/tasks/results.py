"""What pipelines answer with: small records with Hugging Face's field names, which are read in both ways.

found = summarise(text)[0]
found.summary_text        a field, which an editor knows
found["summary_text"]     a key, as in Hugging Face's dicts; dict(found) is one
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from html import escape
from typing import Any, TypeVar


@dataclass(frozen=True, eq=False)
class Result(Mapping[str, Any]):
    """One answer. It is equal to a dict of its fields."""

    def __getitem__(self, key: str) -> Any:
        if key not in list(self):
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(self))

    def __len__(self) -> int:
        return len(fields(self))

    @property
    def text(self) -> str:
        """The answer in words."""
        raise NotImplementedError(f"{type(self).__name__} does not say which of its fields is the answer")


@dataclass(frozen=True, eq=False)
class GeneratedText(Result):
    """Of "text-generation" and "text2text-generation"; of a conversation, all its messages with the answer."""

    generated_text: str | list[dict[str, Any]]

    @property
    def text(self) -> str:
        said = self.generated_text
        return said if isinstance(said, str) else str(said[-1]["content"])


@dataclass(frozen=True, eq=False)
class Summary(Result):
    """Of "summarization"."""

    summary_text: str

    @property
    def text(self) -> str:
        return self.summary_text


@dataclass(frozen=True, eq=False)
class Translation(Result):
    """Of "translation"."""

    translation_text: str

    @property
    def text(self) -> str:
        return self.translation_text


@dataclass(frozen=True, eq=False)
class Filling(Result):
    """Of "fill-mask": a token for a masked place, how likely it is, and the text with it."""

    score: float
    token: int
    token_str: str
    sequence: str

    @property
    def text(self) -> str:
        return self.sequence


Item = TypeVar("Item")


class Results(list[Item]):
    """A list of results, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        if not all(isinstance(item, Result) for item in self):
            return "".join(
                item._repr_html_() if isinstance(item, Results) else f"<p>{escape(str(item))}</p>"
                for item in self
            )
        if not self:
            return "<p>no results</p>"
        names = list(dict.fromkeys(name for item in self if isinstance(item, Result) for name in item))
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        rows = "".join(
            "<tr>"
            + "".join(f'<td style="text-align: left">{_cell(item[name])}</td>' for name in names)
            + "</tr>"
            for item in self
            if isinstance(item, Result)
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, list):  # a conversation
        return "<br>".join(f"<b>{escape(str(m['role']))}</b> {escape(str(m['content']))}" for m in value)
    return escape(str(value)).replace("\n", "<br>")
