"""Heads: what is read off the final states.

    head                        reads                      gives                         trained by
    LanguageModel               every position             logits [B, T, V]              the next token
    MaskedLanguageModel         every position             logits [B, T, V]              the token that was masked
    Pooler                      the first token            pooler_output [B, D]          (whatever stands on it)
    NextSentence                the pooled first token     logits [B, 2]                 does B follow A
    PreTraining                 both                       prediction_logits, seq_relationship_logits
    Classifier                  one token a text           logits [B, labels]            labels of a text
    Tagger                      every position             logits [B, T, labels]         a label a token
    Span                        every position             start_logits, end_logits      where an answer lies
    Transcriber                 every frame                logits [B, T, V]              what is said, not when
    MeanClassifier              the mean of all            logits [B, labels]            labels of a sound

Each head also knows its loss: labels of -100 do not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.feed_forward import make_activation
from glassformer.core.flow import Flow, Node, Output
from glassformer.core.norms import make_norm
from glassformer.core.specs import NormSpec
from glassformer.errors import ConfigError, DataError

if TYPE_CHECKING:
    from jaxtyping import Float

Labels = Tensor | dict[str, Tensor]
Problem = Literal["single", "multi", "regression"]


def first_token(x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "texts D"]:
    """The state of each text's first visible token ([CLS]): a text is a row, or a segment of a packed row."""
    if flow.segments is not None:
        return x[0, torch.tensor(flow.segments.starts, device=x.device)]
    if flow.keep is None:
        return x[:, 0]
    first = flow.keep[:, -1].int().argmax(dim=-1)  # [B]; 0 unless padded on the left
    return x[torch.arange(len(x), device=x.device), first]


def last_token(x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "texts D"]:
    """The state of each text's last visible token, the only one that has seen all of it in a causal model."""
    if flow.segments is not None:
        ends = [
            start + length - 1
            for start, length in zip(flow.segments.starts, flow.segments.lengths, strict=True)
        ]
        return x[0, torch.tensor(ends, device=x.device)]
    if flow.keep is None:
        return x[:, -1]
    places = torch.arange(flow.keep.shape[-1], device=x.device)
    last = (flow.keep[:, -1] * places).argmax(dim=-1) - flow.past  # [B]
    return x[torch.arange(len(x), device=x.device), last.clamp(min=0)]


def mean_token(x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "texts D"]:
    """The mean of each text's visible tokens."""
    if flow.segments is not None:
        parts = x[0].split(list(flow.segments.lengths))
        return torch.stack([part.mean(0) for part in parts])
    if flow.keep is None:
        return x.mean(1)
    keep = flow.keep[:, -1, -x.shape[1] :, None]  # [B, T, 1]
    return x.masked_fill(~keep, 0.0).sum(1) / keep.sum(1).clamp(min=1)


TOKENS = {"first": first_token, "last": last_token, "mean": mean_token}
"""What a classifier reads of a text, by name."""


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy over the labels that are not -100, in at least fp32."""
    labels = checked_labels(logits, labels)
    wide = logits.flatten(0, -2).to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(wide, labels.flatten(), ignore_index=-100)


def checked_labels(logits: Tensor, labels: Tensor) -> Tensor:
    """Labels that fit their logits [..., C]: whole numbers of shape [...], each a class from 0 to C - 1 or -100.

    Raises: DataError: they do not.
    """
    wanted, classes = logits.shape[:-1], logits.shape[-1]
    if labels.shape not in (wanted, (*wanted, 1)):
        raise DataError(
            f"labels have shape {list(labels.shape)}, logits {list(logits.shape)}; labels must be {list(wanted)}"
        )
    if labels.dtype not in (torch.int64, torch.int32):
        raise DataError(f"labels are {labels.dtype}; a label is the number of a class: labels.long()")
    classed = labels[labels != -100]
    if classed.numel() and not 0 <= int(classed.min()) <= int(classed.max()) < classes:
        raise DataError(
            f"labels hold numbers from {int(classed.min())} to {int(classed.max())}; "
            f"allowed: 0 to {classes - 1}, and -100 for what does not count"
        )
    return labels.long()


class Head(Node):
    """What every head has: `FIELDS`, the fields of Output that it fills and that can be tapped; and a loss."""

    FIELDS: ClassVar[tuple[str, ...]] = ("logits",)

    @property
    def reads_first_token(self) -> bool:
        """Does it judge a text by its first token, which then should be one made for it ([CLS])?"""
        return any(isinstance(node, Pooler) for _, node in self.named_nodes())

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        raise NotImplementedError(f"{type(self).__name__} does not say what it reads off the final states")

    def loss(self, output: Output, labels: Labels) -> Tensor:
        """What training makes small."""
        raise ConfigError(
            f"{type(self).__name__} has no loss of its own; load the model with a task that has labels"
        )


class LanguageModel(Head):
    """logits = x Wᵀ, over the vocabulary: position t predicts token t + 1. W is often the embedding table itself.

    Source: tying: Press and Wolf 2017.
    """

    def __init__(self, width: int, vocabulary: int, bias: bool = False) -> None:
        super().__init__()
        self.decoder = nn.Linear(width, vocabulary, bias=bias)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.decoder(x[:, -flow.last :]))

    def loss(self, output: Output, labels: Labels) -> Tensor:
        """Labels are the input ids; the shift by one happens here."""
        logits = _logits(output)
        labels = checked_labels(logits, _tensor(labels))
        return cross_entropy(logits[:, :-1], labels[:, 1:])


class MaskedLanguageModel(Head):
    """logits = norm(activation(x W)) Eᵀ + b, over the vocabulary, with E the embedding table.

    Source: Devlin et al. 2019, section 3.1; the transform is in the released code.
    """

    def __init__(self, width: int, vocabulary: int, activation: str, norm: NormSpec) -> None:
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.activation = make_activation(activation)
        self.norm = make_norm(norm)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.decoder(self.norm(self.activation(self.transform(x[:, -flow.last :])))))

    def loss(self, output: Output, labels: Labels) -> Tensor:
        return cross_entropy(_logits(output), _tensor(labels))


class Pooler(Head):
    """pooled = activation(W dropout(x_first) + b): one vector a text.

    Source: Devlin et al. 2019, released code, with tanh and no dropout; later encoders vary both.
    """

    FIELDS = ("pooler_output",)

    def __init__(self, width: int, activation: str = "tanh", dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(width, width)
        self.activation = make_activation(activation)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(pooler_output=self.pooled(x, flow))

    def pooled(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "texts D"]:
        """The pooled vectors alone. [texts, D]"""
        pooled: Tensor = self.activation(self.dense(self.dropout(first_token(x, flow))))
        return pooled


class NextSentence(Head):
    """Does the second segment follow the first? logits[0] yes, logits[1] no.

    Source: Devlin et al. 2019, section 3.1.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.pooler = Pooler(width)
        self.classifier = nn.Linear(width, 2)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.classifier(self.pooler.pooled(x, flow)))

    def loss(self, output: Output, labels: Labels) -> Tensor:
        return cross_entropy(_logits(output), _tensor(labels))


class PreTraining(Head):
    """Masked language model and next sentence at once; the loss is their sum."""

    FIELDS = ("prediction_logits", "seq_relationship_logits")

    def __init__(self, masked: MaskedLanguageModel, next_sentence: NextSentence) -> None:
        super().__init__()
        self.masked = masked
        self.next_sentence = next_sentence

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(
            prediction_logits=self.masked(x, flow).logits,
            seq_relationship_logits=self.next_sentence(x, flow).logits,
        )

    def loss(self, output: Output, labels: Labels) -> Tensor:
        if not isinstance(labels, dict) or set(labels) != {"labels", "next_sentence_label"}:
            raise DataError("pre-training needs labels={'labels': [B, T], 'next_sentence_label': [B]}")
        words = replace(output, logits=output.prediction_logits)
        order = replace(output, logits=output.seq_relationship_logits)
        return self.masked.loss(words, labels["labels"]) + self.next_sentence.loss(
            order, labels["next_sentence_label"]
        )


class Classifier(Head):
    """logits = W token + b: labels of a whole text, read off one token of it.

    reads: "pooled" (the first token through a Pooler, as BERT), "first" (as it is, as ViT), "last" (as causal models)
        or "mean" (of all tokens)
    pooler: the one to read through, where it is not BERT's
    problem: "single" (cross-entropy), "multi" (a yes or no for each label; labels are floats) or "regression";
        None, as in the reference library: regression with one label, multi where the labels given are floats
    """

    def __init__(
        self,
        width: int,
        labels: int,
        *,
        reads: Literal["pooled", "first", "last", "mean"] = "pooled",
        pooler: Pooler | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        problem: Problem | None = None,
    ) -> None:
        super().__init__()
        self.problem = problem
        self.reads = reads
        self.pooler = (pooler or Pooler(width)) if reads == "pooled" else None
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, labels, bias=bias)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        token = TOKENS[self.reads](x, flow) if self.pooler is None else self.pooler.pooled(x, flow)
        return Output(logits=self.classifier(self.dropout(token)))

    def loss(self, output: Output, labels: Labels) -> Tensor:
        logits, labels = _logits(output), _tensor(labels)
        floats = labels.is_floating_point()
        problem = self.problem or ("regression" if logits.shape[-1] == 1 else "multi" if floats else "single")
        if problem == "single":
            return cross_entropy(logits, labels)
        if not floats:
            raise DataError(f"labels are {labels.dtype}; a {problem} problem needs floats: labels.float()")
        wanted = logits.shape if problem == "multi" or logits.shape[-1] > 1 else logits.shape[:1]
        if labels.shape not in (wanted, (*wanted, 1)):
            raise DataError(
                f"labels have shape {list(labels.shape)}; a {problem} problem needs them to be {list(wanted)}"
            )
        if problem == "multi":
            return F.binary_cross_entropy_with_logits(logits, labels)
        return F.mse_loss(logits, labels.view_as(logits))


class Tagger(Head):
    """logits = W x + b at every position: a label for each token. Source: Devlin et al. 2019, section 5.3."""

    def __init__(self, width: int, labels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, labels)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.classifier(self.dropout(x)))

    def loss(self, output: Output, labels: Labels) -> Tensor:
        return cross_entropy(_logits(output), _tensor(labels))


class Span(Head):
    """Two numbers at every position: does an answer start here, does it end here.

    Source: Devlin et al. 2019, section 4.2.
    """

    FIELDS = ("start_logits", "end_logits")

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, 2)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        start, end = self.classifier(self.dropout(x)).unbind(dim=-1)  # [B, T] each
        return Output(start_logits=start, end_logits=end)

    def loss(self, output: Output, labels: Labels) -> Tensor:
        """Positions beyond the text mean that it holds no answer, and do not count."""
        if not isinstance(labels, dict) or set(labels) != {"start_positions", "end_positions"}:
            raise DataError("a span needs labels={'start_positions': [B], 'end_positions': [B]}")
        assert output.start_logits is not None and output.end_logits is not None
        B, T = output.start_logits.shape
        for name, label in labels.items():
            if not isinstance(label, Tensor) or label.shape != (B,) or label.dtype != torch.int64:
                raise DataError(f"{name} must be int64 of shape [{B}], the position of a token in each text")
        losses = [
            F.cross_entropy(logits, labels[name].clamp(0, T), ignore_index=T)
            for logits, name in (
                (output.start_logits, "start_positions"),
                (output.end_logits, "end_positions"),
            )
        ]
        return (losses[0] + losses[1]) / 2


class Transcriber(Head):
    """logits = W x + b at every frame: a letter, or the blank, which stands for none.

        frames    - t t - i - m e e -        runs of one letter are one, blanks are none: t i m e

        loss of a row = -log Σ of the probabilities of all the ways in which its frames can spell its labels

    Labels of -100, and blanks, do not count. Labels that are longer than their frames cannot be spelled: their loss is
    infinite.

    blank: its id · reduction: "sum" over the rows, or "mean" of each row's loss by its number of labels
    forgives: an infinite loss counts as 0
    Source: Graves et al. 2006, sections 3 and 4.
    """

    FIELDS = ("logits",)

    def __init__(
        self,
        width: int,
        vocabulary: int,
        *,
        blank: int = 0,
        reduction: str = "sum",
        forgives: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 <= blank < vocabulary:
            raise ConfigError(
                f"the blank has id {blank}; it must be one of the {vocabulary} ids of the vocabulary "
                "(config.json: pad_token_id, vocab_size)"
            )
        self.blank = blank
        self.reduction = reduction
        self.forgives = forgives
        self.dropout = nn.Dropout(dropout)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        B, T, _ = x.shape
        frames = torch.full((B,), T, device=x.device) if flow.keep is None else flow.keep[:, 0].sum(-1)
        return Output(logits=self.decoder(self.dropout(x)), frames=frames)

    def loss(self, output: Output, labels: Labels) -> Tensor:
        logits, labels = _logits(output), _tensor(labels)
        assert output.frames is not None  # forward makes them
        V = logits.shape[-1]
        if labels.dim() != 2 or len(labels) != len(logits) or labels.dtype not in (torch.int64, torch.int32):
            raise DataError(
                f"labels are {labels.dtype} of shape {list(labels.shape)}; they must be whole numbers "
                f"[{len(logits)}, letters], padded with -100"
            )
        counted = (labels != -100) & (labels != self.blank)
        letters = labels[counted].long()  # [of all rows]
        if letters.numel() and not 0 <= int(letters.min()) <= int(letters.max()) < V:
            raise DataError(
                f"labels hold numbers from {int(letters.min())} to {int(letters.max())}; "
                f"allowed: 0 to {V - 1}, and -100 for what does not count"
            )
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return F.ctc_loss(
            wide.log_softmax(-1).transpose(0, 1),
            letters,
            output.frames,
            counted.sum(-1),
            blank=self.blank,
            reduction=self.reduction,
            zero_infinity=self.forgives,
        )


class MeanClassifier(Head):
    """logits = W mean(V x + c) + b: labels of a whole sound, read off the mean of its frames.

    Source: Yang et al. 2021, "SUPERB", section 3.
    """

    def __init__(self, width: int, hidden: int, labels: int) -> None:
        super().__init__()
        self.projection = nn.Linear(width, hidden)
        self.classifier = nn.Linear(hidden, labels)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.classifier(mean_token(self.projection(x), flow)))

    def loss(self, output: Output, labels: Labels) -> Tensor:
        return cross_entropy(_logits(output), _tensor(labels))


class LayerMix(nn.Module):
    """mix = Σ softmax(weights)_l · state_l, over the stream before the first block and after each.

    Source: Peters et al. 2018, section 3.2, without the common factor; Yang et al. 2021, section 3.
    """

    def __init__(self, states: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(states))

    def forward(self, states: Iterable[Tensor]) -> Tensor:
        mixed: Tensor = torch.stack(list(states), dim=-1) @ self.weights.softmax(-1)
        return mixed


def _logits(output: Output) -> Tensor:
    assert output.logits is not None  # every head with this loss makes them
    return output.logits


def _tensor(labels: Labels) -> Tensor:
    if isinstance(labels, dict):
        raise DataError(f"labels is a mapping with {sorted(labels)}; this head takes one tensor")
    if not isinstance(labels, Tensor):
        raise DataError(f"labels is {type(labels).__name__}; it must be a tensor: torch.tensor(labels)")
    return labels
