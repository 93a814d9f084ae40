"""Outputs of a head as a table of logits, columns × choices, and their names.

head                          a column                     a choice
language model, CTC           a token of the stream        a vocabulary entry
token classifier              a token of the stream        a label
sequence classifier           the whole input              a label
yes or no for each token      a token of the stream        no, yes
span classifier               start, end                   a token of the stream
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.errors import DataError, UnsupportedError, WeightsError, nearest
from glassformer.files import safe_repr
from glassformer.inspect.readout import OutputNames
from glassformer.inspect.tokens import Token, readable, vocabulary_entry
from glassformer.models import Network
from glassformer.text.tokenizer import Tokenizer
from glassformer.weights.load import name_list, nan_parameters

COLUMNS = {"text": ["text"], "span": ["start", "end"]}
YES_OR_NO = ("no", "yes")
LOGITS = ("logits", "prediction_logits", "start_logits")


@dataclass(frozen=True, kw_only=True)
class OutputTable:
    """What the columns and the choices of a head are, for one pass.

    columns: the tokens of the stream; the text as a whole; or start and end of a span, whose choices are the tokens
    normalised: the choices of a column exclude each other · causal: a column predicts the token after it
    """

    kind: Literal["vocabulary", "labels", "positions"]
    columns: Literal["tokens", "text", "span"]
    stream: str
    tokens: Sequence[Token]
    names: OutputNames
    normalised: bool = True
    causal: bool = False

    @property
    def column_names(self) -> list[str]:
        """How each column is called."""
        return [token.text for token in self.tokens] if self.columns == "tokens" else COLUMNS[self.columns]

    def name(self, choice: int) -> str:
        """The name of a choice, for display."""
        if self.kind == "positions":
            return self.tokens[choice].text
        if self.kind == "labels":
            return self.names.labels[choice] if choice < len(self.names.labels) else str(choice)
        tokenizer = self.names.tokenizer
        if tokenizer is None:
            return str(choice)
        if choice in tokenizer.special_ids or tokenizer.engine.id_to_token(choice) is None:
            return vocabulary_entry(tokenizer, choice)
        return readable(tokenizer.decode([choice])) or vocabulary_entry(tokenizer, choice)

    def find(self, target: str | int, count: int) -> int:
        """The number of a choice, from its name or its number.

        Raises: DataError: there is no such choice, or it is not one token.
        """
        if isinstance(target, int) and not isinstance(target, bool):
            if not 0 <= target < count:
                raise DataError(f"there is no output {target}; this head has outputs 0 to {count - 1}")
            return target
        if not isinstance(target, str) or not target:
            raise DataError(f"the target is {safe_repr(target)}; give the name of an output, or its number")
        if self.kind == "positions":
            raise DataError("the answer of a span is a position: give the number of a token, or leave it out")
        if self.kind == "labels":
            return _find_label(target, self.names.labels)
        if self.names.tokenizer is None:
            raise DataError(f"this model has no tokenizer; give the number of an output, 0 to {count - 1}")
        return _find_token(target, self.names.tokenizer)


def output_table(
    network: Network, output: Output, tokens: dict[str, list[Token]], names: OutputNames
) -> tuple[Tensor, OutputTable]:
    """The logits of a pass [B, columns, choices], and what they mean; `tokens` are those of each row.

    Raises: UnsupportedError: the model has no head that gives logits. WeightsError: they are NaN.
    """
    head = network.head
    if head is None:
        raise UnsupportedError(
            "this model was loaded without a head, so there is no output to read; load it with task=…"
        )
    stream = network.head_stream()
    make = partial(OutputTable, stream=stream, tokens=tokens[stream], names=names)
    given = next((x for name in LOGITS if name in head.FIELDS and (x := getattr(output, name)) is not None), None)
    if given is None:
        raise UnsupportedError(
            f"the head of this model gives {', '.join(head.FIELDS)}, no logits; load it with a task that has some"
        )
    if output.start_logits is not None and output.end_logits is not None:
        given = torch.stack([output.start_logits, output.end_logits], dim=1)
        table = make(kind="positions", columns="span")
    elif head.LOGIT_A_TOKEN:
        given = torch.stack([torch.zeros_like(given), given], dim=-1)
        table = make(kind="labels", columns="tokens", names=OutputNames(labels=YES_OR_NO))
    elif given.dim() == 2:
        exclusive = getattr(head, "problem", None) in (None, "single") and given.shape[1] > 1
        given, table = given[:, None], make(kind="labels", columns="text", normalised=exclusive)
    elif head.OVER_VOCABULARY or "prediction_logits" in head.FIELDS:
        causal = next(iter(network.stacks()[stream])).attn.spec.causal
        table = make(kind="vocabulary", columns="tokens", causal=causal)
    else:
        table = make(kind="labels", columns="tokens")
    _refuse_nan(given, network)
    return given, table


def reads_layers(network: Network) -> bool:
    """Whether the head gives logits, and can read the residual stream of every layer."""
    head = network.head
    return head is not None and not network.unreadable and any(name in head.FIELDS for name in LOGITS)


def _refuse_nan(logits: Tensor, network: Network) -> None:
    if logits.numel() and bool(logits.max().isnan()):
        broken = nan_parameters(network)
        why = f", because {len(broken)} parameters do: {name_list(broken)}; the checkpoint is damaged" if broken else ""
        raise WeightsError(f"the output holds NaN{why}")


def _find_label(target: str, labels: Sequence[str]) -> int:
    for same in (str, str.casefold):
        matches = [i for i, label in enumerate(labels) if same(label) == same(target)]
        if len(matches) == 1:
            return matches[0]
    raise DataError(
        f"there is no label {safe_repr(target)}; the labels are {name_list(list(labels))}{nearest(target, labels)}"
    )


def _find_token(target: str, tokenizer: Tokenizer) -> int:
    """The one token of a text, with or without the space before it, or else a vocabulary entry itself."""
    if len(target) > 200:
        raise DataError(f"the target has {len(target):,} characters; give one token of the vocabulary")
    entry: int | None = tokenizer.engine.token_to_id(target)
    if entry is not None:
        return entry
    readings: list[list[int]] = [
        tokenizer(text, add_special_tokens=False)["input_ids"] for text in (target, f" {target.lstrip()}")
    ]
    single = [ids[0] for ids in readings if len(ids) == 1 and ids[0] != tokenizer.unk_token_id]
    if single:
        return single[0]
    pieces = [vocabulary_entry(tokenizer, token) for token in readings[0]]
    if len(pieces) > 1:
        raise DataError(
            f"{safe_repr(target)} is {len(pieces)} tokens: {name_list(pieces)}; the model predicts one at a time: "
            "give one of them"
        )
    raise DataError(f"{safe_repr(target)} is not in the vocabulary of {len(tokenizer):,} tokens")
