"""Readout: the logits of one prediction of a forward pass, and their names: the next token, a gap, a class, a span.

text generation, translation     logits of the last position, so of the next token          [V]
fill-mask                        logits of the masked position                              [V]
text classification              logits of the classes                                      [labels]
token classification             logits of the classes at a position                        [labels]
question answering               start logits, whose classes are the positions              [T]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from glassformer.core.classification_heads import TokenClassifier
from glassformer.core.flow import Output
from glassformer.errors import DataError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.inspect.tokens import Token, special_token
from glassformer.models import Network
from glassformer.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from glassformer.inspect.session import Session
    from glassformer.pretrained import PretrainedModel

FIELDS = (
    "logits",
    "prediction_logits",
    "start_logits",
    "logits_per_image",
    "question_answering_score",
)
"""Fields of `Output` that are read, in order of preference."""


@dataclass(frozen=True, kw_only=True)
class OutputNames:
    """Names of a head's outputs: entries of a vocabulary, or labels.

    tokenizer: of what the model writes; None without a vocabulary · labels: by number · labels_exclude: exactly one
    label holds, so that softmax gives their probabilities; else each has its own (sigmoid)
    blank: of what the model reads, the token that says nothing: mask, padding, unknown, or the end of a text
    """

    tokenizer: Tokenizer | None = None
    labels: tuple[str, ...] = ()
    labels_exclude: bool = True
    blank: Token | None = None

    @classmethod
    def of(cls, model: PretrainedModel) -> OutputNames:
        """The names that a model's folder gives."""
        tokenizer = model.tokenizer.target if model.has_tokenizer and model.network.vocabulary else None
        exclude = model.config.get("problem_type") != "multi_label_classification"
        labels = tuple(model.config.id2label.values())
        return cls(tokenizer=tokenizer, labels=labels, labels_exclude=exclude, blank=_blank(model))


def _blank(model: PretrainedModel) -> Token | None:
    if not model.has_tokenizer:
        return None
    reader = model.tokenizer
    numbers = (reader.mask_token_id, reader.pad_token_id, reader.unk_token_id, reader.eos_token_id)
    return next((special_token(reader, number) for number in numbers if number is not None), None)


@dataclass(frozen=True, kw_only=True)
class Readout:
    """Where a session's prediction is read, and the names of its classes.

    field: of `Output` · position: of a token; None where a text has one prediction · stream: of this position
    last: so many positions of logits are computed, counted from the end; 0 = all
    vocabulary: the classes are tokens · spans: the classes are the positions of the stream
    """

    field: str
    stream: str
    tokens: Sequence[Token]
    position: int | None
    vocabulary: bool
    spans: bool
    names: OutputNames

    @property
    def last(self) -> int:
        """Of how many positions, from the end, logits are needed; 0 = all."""
        return len(self.tokens) - self.position if self.position is not None and self.vocabulary else 0

    def __call__(self, output: Output) -> Tensor:
        """The logits of the prediction, of each row. [R, C]"""
        x: Tensor = output[self.field]
        if self.field.startswith("logits_per_"):  # every text with every picture: row by row
            return x.diagonal()[:, None]
        if self.position is not None:
            x = x[:, self.position - len(self.tokens)]  # from the end, since there may be the last few alone
        return x if x.dim() == 2 else x[:, None]

    @property
    def exclusive(self) -> bool:
        """Whether softmax makes probabilities of the logits."""
        return self.vocabulary or self.spans or self.names.labels_exclude

    def probabilities(self, logits: Tensor) -> Tensor | None:
        """The probabilities of classes; None of a single number, such as a regression. [..., C]"""
        if logits.shape[-1] == 1 and self.exclusive:
            return None
        return logits.softmax(-1) if self.exclusive else logits.sigmoid()

    def name(self, number: int) -> str:
        """The name of a class: a token with the space before it, a label, or a word of the text."""
        if self.spans:
            return f"{self.tokens[number].text} ({number})"
        if self.vocabulary:
            tokenizer = self.names.tokenizer
            text = "" if tokenizer is None else str(tokenizer.decode([number]))
            return text or (
                f"[{number}]" if tokenizer is None else tokenizer.engine.id_to_token(number) or f"[{number}]"
            )
        return self.names.labels[number] if number < len(self.names.labels) else f"LABEL_{number}"

    def number(self, target: str | int, count: int) -> int:
        """The number of a class, given by its name or its number.

        Args: count: of all classes
        Raises: DataError: there is no such class; a text of several tokens.
        """
        if isinstance(target, int) and not isinstance(target, bool):
            if not 0 <= target < count:
                raise DataError(f"the target is {target}; the classes are 0 to {count - 1:,}")
            return target
        if not isinstance(target, str):
            raise DataError(f"the target is {safe_repr(target)}; give a token, a label, or the number of one")
        if self.vocabulary:
            return self._token(target)
        names = [self.name(number) for number in range(count)]
        if target not in names:
            raise DataError(
                f"there is no class {safe_repr(target)}{nearest(target, names)}; this model has {', '.join(names[:12])}"
            )
        return names.index(target)

    def _token(self, text: str) -> int:
        tokenizer = self.names.tokenizer
        if tokenizer is None:
            raise DataError("this session has no tokenizer that could look a token up; give its number as the target")
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
        entry = tokenizer.engine.token_to_id(text)
        if len(ids) == 1:
            return ids[0]
        if entry is not None:
            return int(entry)
        pieces = ", ".join(safe_repr(tokenizer.decode([token])) for token in ids) or "none"
        raise DataError(
            f"the target {safe_repr(text)} is {len(ids)} tokens ({pieces}); give one that is a single token"
        )


def readout(session: Session, output: Mapping[str, Any], position: int | None = None) -> Readout:
    """Where the prediction of a session is read.

    Args:
        output: of the session's pass, for its shapes.
        position: of the token whose prediction is read, also counted from the end; None = the next token, or the gap.
    Raises: UnsupportedError: the model has no head. DataError: no such position; none given where one is needed.
    """
    network = session.network
    field, vocabulary = predicted_field(network), network.head is not None and network.head.OVER_VOCABULARY
    shape = output[field].shape
    spans = field == "start_logits"
    a_token = len(shape) == 3 or (network.head is not None and network.head.LOGIT_A_TOKEN)
    stream = "target" if "target" in session.streams else next(iter(session.streams))
    vocabulary = (vocabulary or field == "prediction_logits") and a_token
    if a_token and not spans:
        position = _position(session, stream, position, vocabulary=vocabulary)
    elif position is not None:
        raise DataError(f"the position is {position}; this model predicts once a text, so give none")
    tokens, names = session.streams[stream], session.names()
    return Readout(
        field=field, stream=stream, tokens=tokens, position=position, vocabulary=vocabulary, spans=spans,
        names=names,
    )  # fmt: skip


def predicted_field(network: Network) -> str:
    """The field of a network's output that holds its prediction.

    Raises: UnsupportedError: it predicts nothing.
    """
    if not predicts(network):
        raise UnsupportedError(
            "this model has no head that predicts anything, so there is no prediction that could change; load it with "
            "a task, such as task='text-generation', 'fill-mask' or 'text-classification'"
        )
    assert network.head is not None
    return next(name for name in FIELDS if name in network.head.FIELDS)


def predicts(network: Network) -> str | None:
    """What a network predicts: a class of a whole "text", something at each "token", or nothing (None)."""
    head = network.head
    if head is None or not any(name in head.FIELDS for name in FIELDS):
        return None
    each = head.OVER_VOCABULARY or head.LOGIT_A_TOKEN or isinstance(head, TokenClassifier)
    return "token" if each or "prediction_logits" in head.FIELDS else "text"


def _position(session: Session, stream: str, position: int | None, *, vocabulary: bool) -> int:
    tokens = session.streams[stream]
    if position is not None:
        if isinstance(position, bool) or not isinstance(position, int) or not -len(tokens) <= position < len(tokens):
            raise DataError(f"there is no position {position!r}; the {stream} has positions 0 to {len(tokens) - 1}")
        return position % len(tokens)
    if vocabulary and any(about.causal and about.queries == stream for about in session.maps.values()):
        return len(tokens) - 1
    tokenizer = session.names().tokenizer
    mask = None if tokenizer is None else tokenizer.mask_token_id
    gaps = [at for at, token in enumerate(tokens) if token.id == mask]
    if vocabulary and len(gaps) == 1:
        return gaps[0]
    what = "this model predicts something at every position"
    if tokenizer is not None and vocabulary and mask is not None:
        what = f"the text has {len(gaps)} gaps ({tokenizer.mask_token})"
    raise DataError(f"{what}; say at which position the prediction is read (position=…): {numbered(tokens)}")


def numbered(tokens: Sequence[Token], most: int = 40) -> str:
    """Tokens with their positions, for messages: `0 the · 1 cat · 2 sat`."""
    shown = " · ".join(f"{at} {token.text}" for at, token in enumerate(tokens[:most]))
    return shown + (f" · … {len(tokens):,} in all" if len(tokens) > most else "")
