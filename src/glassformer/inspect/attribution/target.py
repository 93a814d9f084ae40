"""Target of an attribution: one output of a head, or the difference of two, as a number that has gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.inspect.outputs import OutputNames, OutputTable, check_logits, output_table
from glassformer.inspect.tokens import Token, find_token
from glassformer.models import Network
from glassformer.reports.report import Record

MOST_LIKELY = 6
"""Outputs that are listed next to the one that is explained."""
OUTSIDE = "O"
"""The label of a token that belongs to no entity."""


@dataclass(frozen=True, slots=True)
class Target(
    Record,
    keys=("name", "against", "title", "stream", "position", "score", "probability", "likely", "doubt", "follows"),
):
    """An output whose making is asked for.

    score = logit of `choice` in `column`, less that of `against_choice` if there is one; of a span both start and end

    cells: column, counted from the end (-1 = the last), and choice

    name, against: of the choices
    position: of the token where it is; None = the text as a whole
    follows: it is what comes after that token
    score: its logit in this pass
    probability: among the choices of its column
    likely: of a model over a vocabulary, the most likely outputs there, with their probabilities
    doubt: a sentence, where the model's likeliest label is hardly better than chance
    """

    name: str
    stream: str
    cells: tuple[tuple[int, int], ...]
    position: int | None
    where: str
    score: float
    probability: float
    against_choice: int | None = None
    against: str | None = None
    likely: tuple[tuple[str, float], ...] = ()
    doubt: str = ""
    follows: bool = False

    @property
    def title(self) -> str:
        """`anger`, `anger rather than joy`, `“Paris” after “is”`."""
        rather = "" if self.against is None else f" rather than {self.against}"
        return f"{self.name}{rather}{self.where}"

    @property
    def last(self) -> int:
        """Of how many columns, from the end, logits are needed."""
        return -min(column for column, _ in self.cells)

    def of(self, logits: Tensor) -> Tensor:
        """The score of each row. [B, columns, choices] → [B]"""
        total = torch.stack([logits[:, column, choice] for column, choice in self.cells]).sum(0)
        return total if self.against_choice is None else total - logits[:, self.cells[0][0], self.against_choice]


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """Which output is asked for: by name or number, at a token, rather than another; None = the model's own.

    at: a token's number, from the end where it is negative, or a word
    """

    target: str | int | None = None
    at: str | int | None = None
    against: str | int | None = None

    def resolve(self, network: Network, output: Output, streams: dict[str, list[Token]], names: OutputNames) -> Target:
        """The target, in the output of a pass over one row.

        Raises: DataError: there is no such output, token or word. UnsupportedError: no head that gives logits.
        """
        logits, table = output_table(network, output, streams, names)
        check_logits(logits, network)
        values = logits[0].float()
        if table.columns == "span":
            return self.span(table, values)
        column, choice = self._cell(table, values)
        against = None if self.against is None else table.find(self.against, values.shape[-1])
        if against == choice:
            raise DataError(f"target and against are both {table.name(choice)!r}; give two outputs")
        row = values[column]
        exact = row.double()  # in single precision a sum over 50,000 is wrong in the fifth digit
        shares = exact.softmax(-1) if table.normalised else exact.sigmoid()
        name, other = _quoted(table, choice), None if against is None else _quoted(table, against)
        if against is not None and name == other:  # “Paris” and “ Paris”
            name, other = (f"“{table.target(each)}”" for each in (choice, against))
        top = shares.topk(min(MOST_LIKELY, len(row))) if table.kind == "vocabulary" else None
        return Target(
            name=name,
            stream=table.stream,
            cells=((column - len(values), choice),),
            position=None if table.columns == "text" else column,
            where=_where(table, column),
            score=float(row[choice] - (0 if against is None else row[against])),
            probability=float(shares[choice]),
            against_choice=against,
            against=other,
            likely=()
            if top is None
            else tuple((table.name(i), p) for p, i in zip(*(x.tolist() for x in top), strict=True)),
            doubt=table.doubt(float(shares.max()), len(row)),
            follows=table.causal and table.columns != "text",
        )

    def _cell(self, table: OutputTable, logits: Tensor) -> tuple[int, int]:
        count = logits.shape[-1]
        choice = None if self.target is None else table.find(self.target, count)
        if table.columns == "text":
            if self.at is not None:
                raise DataError("this head has one output for the whole text; leave at out")
            column = 0
        elif self.at is not None:
            column = find_token(self.at, table.tokens)
        else:
            column, written = _usual_column(table, logits, choice)
            choice = written if choice is None else choice
        return column, int(logits[column].argmax()) if choice is None else choice

    def span(self, table: OutputTable, logits: Tensor) -> Target:
        """Start and end of the most likely answer; or one of them, at a token."""
        if self.against is not None:
            raise DataError("a span is compared with no other; leave against out")
        if self.target not in (None, "start", "end"):
            raise DataError(
                f"the target is {safe_repr(self.target)}; of a span it is start or end, or nothing for both"
            )
        start = int(logits[0].argmax())
        end = start + int(logits[1, start:].argmax())
        if self.at is not None:
            start = end = find_token(self.at, table.tokens)
        cells = {"start": ((-2, start),), "end": ((-1, end),), None: ((-2, start), (-1, end))}[self.target]
        probability = float(torch.stack([logits[column].softmax(-1)[choice] for column, choice in cells]).prod())
        answer = " ".join(token.text for token in table.tokens[start : end + 1])
        one = f"{self.target} at {table.tokens[cells[0][1]].text!r}"
        return Target(
            name=f"answer {answer!r}" if self.target is None else one,
            stream=table.stream,
            cells=cells,
            position=cells[0][1],
            where="",
            score=float(sum(logits[column, choice] for column, choice in cells)),
            probability=probability,
        )


def _usual_column(table: OutputTable, logits: Tensor, choice: int | None) -> tuple[int, int | None]:
    """The default position, and its output: the next token, the mask, the most probable label."""
    tokens = table.tokens
    if table.kind == "vocabulary" and table.causal:
        if table.stream != "target":
            return len(tokens) - 1, None
        places = [i for i, token in enumerate(tokens) if i and not token.special and choice in (None, token.id)]
        return (places[-1] - 1, tokens[places[-1]].id) if places else (len(tokens) - 1, None)
    if table.kind == "vocabulary":
        if table.gaps and table.stream == "text":
            return table.gaps[0], None
        raise DataError(
            "this model fills gaps, and the text has none; put one in"
            + (f", {table.names.blank.text}," if table.names.blank else "")
            + " or say at which token: at="
        )
    outside = next((i for i, label in enumerate(table.names.labels) if label == OUTSIDE), None)
    best = logits.clone()
    if choice is not None:
        best = logits[:, [choice]] - logits.logsumexp(-1, keepdim=True)
    elif outside is not None:
        best = logits - logits[:, [outside]]
        best[:, outside] = -torch.inf
    best = best.amax(-1)
    for number, token in enumerate(tokens):
        if token.special:
            best[number] = -torch.inf
    return int(best.argmax()), None


def _quoted(table: OutputTable, choice: int) -> str:
    return f"“{table.name(choice)}”" if table.kind == "vocabulary" else table.name(choice)


def _where(table: OutputTable, column: int) -> str:
    if table.columns == "text":
        return ""
    return f" {'after' if table.causal else 'at'} “{table.tokens[column].text}”"
