"""Readout: the prediction that patches change, as one column of a head's outputs.

text generation, translation     the last position, so the next token
fill-mask                        the masked position
text classification              the text
token classification             a position
question answering               the start, whose classes are the positions
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from glassformer.core.classification_heads import TokenClassifier
from glassformer.core.flow import Output
from glassformer.errors import DataError
from glassformer.inspect.outputs import COLUMNS, LOGITS, SCORES, OutputTable, check_logits, output_table
from glassformer.inspect.tokens import find_token, numbered
from glassformer.models import Network

if TYPE_CHECKING:
    from glassformer.inspect.session import Session

FIELDS = (*LOGITS, *SCORES)
"""Fields of `Output` that are read, in order of preference."""


@dataclass(frozen=True, kw_only=True)
class Readout:
    """Where a session's prediction is read.

    table: of its pass
    position: of a token; None = the text has one.
    """

    session: Session
    table: OutputTable
    position: int | None

    @property
    def column(self) -> int:
        """The column, from the end, since there may be the last few alone."""
        return -len(COLUMNS[self.table.columns]) if self.position is None else self.position - len(self.table.tokens)

    @property
    def last(self) -> int:
        """Of how many positions, from the end, logits are needed; 0 = all."""
        return -self.column if self.table.kind == "vocabulary" else 0

    def __call__(self, output: Output) -> Tensor:
        """The logits of the prediction, of each row. [R, C]"""
        return _read(self.session, output)[0][:, self.column]


def readout(session: Session, output: Output, position: int | str | None = None) -> Readout:
    """Where the prediction of a session is read.

    Args:
        output: of its pass
        position: of a token, also from the end, or a word; None = the next token, or the gap
    Raises: UnsupportedError: the model has no head. DataError: no such position; none given where one is needed.
        WeightsError: the logits are NaN.
    """
    logits, table = _read(session, output)
    check_logits(logits, session.network)
    return Readout(session=session, table=table, position=_position(table, position))


def predicts(network: Network) -> str | None:
    """What a network predicts: a class of a whole "text", something at each "token", or nothing (None)."""
    head = network.head
    if head is None or network.sizes.codebooks or not any(name in head.FIELDS for name in FIELDS):
        return None
    each = head.OVER_VOCABULARY or head.LOGIT_A_TOKEN or isinstance(head, TokenClassifier)
    return "token" if each or "prediction_logits" in head.FIELDS else "text"


def _read(session: Session, output: Output) -> tuple[Tensor, OutputTable]:
    return output_table(session.network, output, session.streams, session.names(), FIELDS)


def _position(table: OutputTable, position: int | str | None) -> int | None:
    if table.columns != "tokens":
        if position is not None:
            raise DataError(f"the position is {position!r}; this model predicts once a text, so give none")
        return None
    if position is not None:
        return find_token(position, table.tokens)
    if table.causal:
        return len(table.tokens) - 1
    what, blank = "this model predicts something at every position", table.names.blank
    if table.kind == "vocabulary" and blank is not None:
        if len(table.gaps) == 1:
            return table.gaps[0]
        what = f"the text has {len(table.gaps)} gaps ({blank.text})"
    raise DataError(f"{what}; say at which position the prediction is read, position=: {numbered(table.tokens)}")
