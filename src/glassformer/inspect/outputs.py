"""Outputs of a head as a table of logits, columns × choices, and their names.

head                          a column                     a choice
language model, CTC           a token of the stream        a vocabulary entry
token classifier              a token of the stream        a label
sequence classifier           the whole input              a label
yes or no for each token      a token of the stream        no, yes
text and image together       the whole input              their score, or an answer
span classifier               start, end                   a token of the stream
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.errors import DataError, UnsupportedError, WeightsError, nearest
from glassformer.files import is_int, safe_repr
from glassformer.inspect.tokens import Token, readable, special_token, vocabulary_entry
from glassformer.models import Network
from glassformer.reports.chance import near_chance
from glassformer.reports.table import percent
from glassformer.text.tokenizer import Tokenizer
from glassformer.weights.load import name_list, nan_parameters

if TYPE_CHECKING:
    from glassformer.loaded_model import LoadedModel

COLUMNS = {"text": ["text"], "span": ["start", "end"]}
YES_OR_NO = ("no", "yes")
LOGITS = ("logits", "prediction_logits", "start_logits")
"""Fields of `Output` that hold logits of one stream, in order of preference."""
SCORES = ("logits_per_image", "question_answering_score")
"""Fields that hold scores of a text and an image together."""


@dataclass(frozen=True, kw_only=True)
class OutputNames:
    """Names of a head's outputs: entries of a vocabulary, or labels.

    tokenizer: of what the model writes; None without a vocabulary
    labels: by number
    blank: of what the model reads, the token that says nothing: mask, padding, unknown, or the end of a text
    """

    tokenizer: Tokenizer | None = None
    labels: tuple[str, ...] = ()
    blank: Token | None = None

    @classmethod
    def of(cls, model: LoadedModel) -> OutputNames:
        """The names that a model's folder gives."""
        tokenizer = model.tokenizer.target if model.has_tokenizer and model.network.vocabulary else None
        return cls(tokenizer=tokenizer, labels=tuple(model.config.id2label.values()), blank=_blank(model))


def _blank(model: LoadedModel) -> Token | None:
    if not model.has_tokenizer:
        return None
    reader = model.tokenizer
    numbers = (reader.mask_token_id, reader.pad_token_id, reader.unk_token_id, reader.eos_token_id)
    return next((special_token(reader, number) for number in numbers if number is not None), None)


@dataclass(frozen=True, kw_only=True)
class OutputTable:
    """What the columns and the choices of a head are, for one pass.

    columns: the tokens of the stream; the text as a whole; or start and end of a span, whose choices are the tokens
    normalised: the choices of a column exclude each other
    regression: they are numbers without probabilities
    causal: a column predicts the token after it
    """

    kind: Literal["vocabulary", "labels", "positions"]
    columns: Literal["tokens", "text", "span"]
    stream: str
    tokens: Sequence[Token]
    names: OutputNames
    normalised: bool = True
    regression: bool = False
    causal: bool = False

    @property
    def column_names(self) -> list[str]:
        """How each column is called."""
        return [token.text for token in self.tokens] if self.columns == "tokens" else COLUMNS[self.columns]

    def name(self, choice: int) -> str:
        """The name of a choice, for display."""
        if self.kind == "positions":
            return f"{self.tokens[choice].text} ({choice})"
        if self.kind == "labels":
            return self.names.labels[choice] if choice < len(self.names.labels) else str(choice)
        tokenizer = self.names.tokenizer
        if tokenizer is None:
            return str(choice)
        if choice in tokenizer.special_ids or tokenizer.engine.id_to_token(choice) is None:
            return vocabulary_entry(tokenizer, choice)
        return readable(tokenizer.decode([choice])) or vocabulary_entry(tokenizer, choice)

    def target(self, choice: int) -> str:
        """What `find` gives this choice for: “the” with and without the space before it are two tokens of one name."""
        name, tokenizer = self.name(choice), self.names.tokenizer
        if self.kind != "vocabulary" or tokenizer is None:
            return name
        for text in (name, f" {name}"):
            with suppress(DataError):
                if _find_token(text, tokenizer) == choice:
                    return text
        return vocabulary_entry(tokenizer, choice)

    @property
    def gaps(self) -> list[int]:
        """The tokens that a masked language model fills."""
        mask = None if self.names.blank is None else self.names.blank.id
        return [at for at, token in enumerate(self.tokens) if token.special and token.id == mask]

    def probabilities(self, logits: Tensor) -> Tensor | None:
        """The probabilities of choices; None of a regression. [..., choices]"""
        if self.regression:
            return None
        return logits.softmax(-1) if self.normalised else logits.sigmoid()

    def doubt(self, highest: float, count: int) -> str:
        """A sentence where the likeliest of several labels of a text is hardly more than an equal share; else "".

        Args:
            highest: its probability
            count: of all labels
        """
        one_of_several = self.columns == "text" and self.normalised and not self.regression and count > 1
        if not one_of_several or not near_chance(highest, 1 / count):
            return ""
        return (
            f"That is hardly better than chance: the likeliest label has {percent(highest)}, and an equal share of "
            f"{count} labels is {percent(1 / count)}."
        )

    def find(self, target: str | int, count: int) -> int:
        """The number of a choice, from its name or its number; `count`: of all choices.

        Raises: DataError: there is no such choice, or it is not one token.
        """
        if is_int(target, -math.inf):
            if not 0 <= target < count:
                raise DataError(f"there is no output {target}; the classes are 0 to {count - 1}")
            return target
        if not isinstance(target, str) or not target:
            raise DataError(f"the target is {safe_repr(target)}; give the name of an output, or its number")
        if self.kind != "vocabulary":
            return _find_label(target, [self.name(choice) for choice in range(count)])
        if self.names.tokenizer is None:
            raise DataError(f"this model has no tokenizer; give the number of an output, 0 to {count - 1}")
        return _find_token(target, self.names.tokenizer)


def output_table(
    network: Network, output: Output, tokens: dict[str, list[Token]], names: OutputNames, fields: Sequence[str] = LOGITS
) -> tuple[Tensor, OutputTable]:
    """The logits of a pass [B, columns, choices], and what they mean.

    Args:
        tokens: of each row
        fields: of `Output`, those that are read, in order of preference
    Raises: UnsupportedError: the model has no head that gives logits.
    """
    head = network.head
    if head is None:
        raise UnsupportedError(
            "this model was loaded without a head, so it predicts nothing; load it with a task, such as "
            "task='text-generation', 'fill-mask' or 'text-classification'"
        )
    stream = network.head_stream()
    make = partial(OutputTable, stream=stream, tokens=tokens[stream], names=names)
    field = next((name for name in fields if name in head.FIELDS and getattr(output, name) is not None), None)
    if field is None:
        raise UnsupportedError(
            f"the head of this model gives {', '.join(head.FIELDS)}, no logits; take a model that was trained for "
            "a task; if its checkpoint has a head that its config does not name, say which: --task fill-mask"
        )
    given: Tensor = output[field]
    if output.start_logits is not None and output.end_logits is not None:
        given = torch.stack([output.start_logits, output.end_logits], dim=1)
        return given, make(kind="positions", columns="span")
    if head.LOGIT_A_TOKEN:
        given = torch.stack([torch.zeros_like(given), given], dim=-1)
        return given, make(kind="labels", columns="tokens", names=OutputNames(labels=YES_OR_NO))
    if field == "logits_per_image":  # every text with every image: row by row
        given = given.diagonal()[:, None]
    if given.dim() == 2:
        problem = getattr(head, "problem", None)
        number = problem != "multi" and (problem == "regression" or given.shape[1] == 1)
        exclusive = problem != "multi" and not number
        return given[:, None], make(kind="labels", columns="text", normalised=exclusive, regression=number)
    if head.OVER_VOCABULARY or field == "prediction_logits":
        causal = next(iter(network.stacks()[stream])).attn.spec.causal
        return given, make(kind="vocabulary", columns="tokens", causal=causal)
    return given, make(kind="labels", columns="tokens")


def reads_layers(network: Network) -> bool:
    """Whether the head gives logits, and can read the residual stream of every layer."""
    head = network.head
    return head is not None and not network.unreadable and any(name in head.FIELDS for name in LOGITS)


def check_logits(logits: Tensor, network: Network) -> None:
    """Raises: WeightsError: they are NaN or infinite, and which parameters are."""
    if logits.numel() and not bool(logits.max().isfinite()):
        raise _broken([logits], "the output holds", network)


def check_numbers(tensors: Sequence[Tensor], what: str, network: Network) -> None:
    """Raises: WeightsError: NaN or infinity in one of them, and which parameters hold NaN."""
    if not all(bool(x.isfinite().all()) for x in tensors):
        raise _broken(tensors, f"{what} hold", network)


def _broken(tensors: Sequence[Tensor], holder: str, network: Network) -> WeightsError:
    broken = nan_parameters(network)
    why = "; the checkpoint is damaged, or the dtype too narrow (load it with dtype='float32')"
    if broken:
        why = f", because {len(broken)} parameters do: {name_list(broken)}; the checkpoint is damaged"
    nan = any(bool(x.isnan().any()) for x in tensors)
    return WeightsError(f"{holder} {'NaN' if nan else 'infinite numbers'}{why}")


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
            f"give one that is a single token, such as its first, {safe_repr(pieces[0])}"
        )
    raise DataError(f"{safe_repr(target)} is not in the vocabulary of {len(tokenizer):,} tokens")
