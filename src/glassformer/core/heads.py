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

Heads that read sounds stand in `frames.py`, pictures' regions in `regions.py`, tables' cells in `cells.py`.

Each head also knows its loss, as sums and counts, since a step of training may be cut into several calls:

    counts(labels)            how many labels count, by loss        added up over all calls of a step first
    learn(x, flow, labels)    Σ of their losses, by loss            of one call; its gradients are those of Σ / count
    loss(output, labels)      Σ / count, added up over losses       of one call alone, whose output is there whole

Labels of -100 do not count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from glassformer.core.feed_forward import make_activation
from glassformer.core.flow import Flow, Node, Output
from glassformer.core.losses import (
    HIDDEN,
    checked_labels,
    count,
    linear_cross_entropy,
    shaped_labels,
    summed_cross_entropy,
    unsmoothed,
)
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


class Head(Node):
    """What every head has: `FIELDS`, the fields of Output that it fills and that can be tapped; and a loss.

    A head has to say its `sums`, or just its `loss`, which then is a mean over the labels that count.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ("logits",)

    @property
    def reads_first_token(self) -> bool:
        """Does it judge a text by its first token, which then should be one made for it ([CLS])?"""
        return any(isinstance(node, Pooler) for _, node in self.named_nodes())

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        raise NotImplementedError(f"{type(self).__name__} does not say what it reads off the final states")

    def counts(self, labels: Labels) -> dict[str, int]:
        """How many labels count, by loss.

        Raises: DataError: labels of another kind than it takes.
        """
        return {"loss": count(one_tensor(labels))}

    def sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Σ of the losses of the labels that count, by loss.

        Args:
            output: what `forward` gave
            smoothing: the share of the truth that is spread over all classes, where labels are classes
        Raises: ConfigError: the head has no loss, or cannot smooth. DataError: labels that do not fit.
        """
        if type(self).loss is Head.loss:  # which asks for sums
            raise ConfigError(
                f"{type(self).__name__} has no loss of its own; load the model with a task that has labels"
            )
        unsmoothed(smoothing, f"what {type(self).__name__} makes of labels is its own")
        return {"loss": self.loss(output, labels) * self.counts(labels)["loss"]}

    def learn(
        self, x: Float[Tensor, "B T D"], flow: Flow, labels: Labels, *, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        """`sums` from final states: for training, which has no use for the output itself."""
        return self.sums(self(x, flow), labels, smoothing=smoothing)

    def loss(self, output: Output, labels: Labels) -> Tensor:
        """What training makes small; NaN where no label counts."""
        sums = self.sums(output, labels)
        counts = self.counts(labels)
        return torch.stack([sums[name] / counts[name] for name in sums]).sum()


class Vocabulary(Head):
    """logits = f(x) Wᵀ + b: a number for each word at every position. W is often the embedding table itself.

    `learn` makes logits only where labels count, and never all of them at once.
    """

    decoder: nn.Linear

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.decoder(self.transformed(x[:, -flow.last :])))

    def transformed(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """f: what is done to states before words are compared with them."""
        return x

    def bias(self) -> Float[Tensor, "V"] | None:
        """b: what is added to each word's number."""
        return self.decoder.bias

    def aligned(self, labels: Tensor) -> Tensor:
        """Each label where it should be said. [B, T]"""
        return labels

    def counts(self, labels: Labels) -> dict[str, int]:
        return {"loss": count(self.aligned(one_tensor(labels)))}

    def sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        logits = made(output.logits)
        labels = self.aligned(shaped_labels(one_tensor(labels), logits.shape))
        return {"loss": summed_cross_entropy(logits, labels, smoothing)}

    def learn(
        self, x: Float[Tensor, "B T D"], flow: Flow, labels: Labels, *, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        shape = (*x.shape[:-1], self.decoder.out_features)
        labels = checked_labels(self.aligned(shaped_labels(one_tensor(labels), shape)), shape)
        counted = labels != HIDDEN
        states = self.transformed(x[counted])  # [N, D]
        found = linear_cross_entropy(
            states, self.decoder.weight, self.bias(), labels[counted], smoothing=smoothing
        )
        return {"loss": found}


class LanguageModel(Vocabulary):
    """logits = x Wᵀ, over the vocabulary: position t predicts token t + 1.

    Labels are the input ids; the shift by one happens here, and nothing predicts the first of them.
    Source: tying W to the embedding: Press and Wolf 2017.
    """

    def __init__(self, width: int, vocabulary: int, bias: bool = False) -> None:
        super().__init__()
        self.decoder = nn.Linear(width, vocabulary, bias=bias)

    def aligned(self, labels: Tensor) -> Tensor:
        if labels.dim() < 2:
            raise DataError(f"labels have shape {list(labels.shape)}; they must be [B, T], as the input ids")
        following = labels.roll(-1, dims=1)
        following[:, -1] = HIDDEN
        return following


class MaskedLanguageModel(Vocabulary):
    """logits = norm(activation(x W)) Eᵀ + b, over the vocabulary, with E the embedding table.

    Source: Devlin et al. 2019, section 3.1; the transform is in the released code.
    """

    def __init__(self, width: int, vocabulary: int, activation: str, norm: NormSpec) -> None:
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.activation = make_activation(activation)
        self.norm = make_norm(norm)
        self.decoder = nn.Linear(width, vocabulary)

    def transformed(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        bent: Tensor = self.norm(self.activation(self.transform(x)))
        return bent


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

    def sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        return {"loss": summed_cross_entropy(made(output.logits), one_tensor(labels), smoothing)}


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

    def counts(self, labels: Labels) -> dict[str, int]:
        words, order = self._both(labels)
        return {
            "masked": self.masked.counts(words)["loss"],
            "next": self.next_sentence.counts(order)["loss"],
        }

    def sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        words, order = self._both(labels)
        masked = self.masked.sums(
            replace(output, logits=output.prediction_logits), words, smoothing=smoothing
        )
        following = self.next_sentence.sums(
            replace(output, logits=output.seq_relationship_logits), order, smoothing=smoothing
        )
        return {"masked": masked["loss"], "next": following["loss"]}

    def learn(
        self, x: Float[Tensor, "B T D"], flow: Flow, labels: Labels, *, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        words, order = self._both(labels)
        return {
            "masked": self.masked.learn(x, flow, words, smoothing=smoothing)["loss"],
            "next": self.next_sentence.learn(x, flow, order, smoothing=smoothing)["loss"],
        }

    @staticmethod
    def _both(labels: Labels) -> tuple[Tensor, Tensor]:
        if not isinstance(labels, dict) or set(labels) != {"labels", "next_sentence_label"}:
            raise DataError("pre-training needs labels={'labels': [B, T], 'next_sentence_label': [B]}")
        return labels["labels"], labels["next_sentence_label"]


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

    def counts(self, labels: Labels) -> dict[str, int]:
        labels = one_tensor(labels)
        return {"loss": count(labels) if self._problem(labels) == "single" else labels.numel()}

    def sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        logits, labels = made(output.logits), one_tensor(labels)
        problem = self._problem(labels)
        if problem == "single":
            return {"loss": summed_cross_entropy(logits, labels, smoothing)}
        unsmoothed(smoothing, f"this is a {problem} problem")
        if not labels.is_floating_point():
            raise DataError(f"labels are {labels.dtype}; a {problem} problem needs floats: labels.float()")
        wanted = logits.shape if problem == "multi" or logits.shape[-1] > 1 else logits.shape[:1]
        if labels.shape not in (wanted, (*wanted, 1)):
            raise DataError(
                f"labels have shape {list(labels.shape)}; a {problem} problem needs them to be {list(wanted)}"
            )
        judge = F.binary_cross_entropy_with_logits if problem == "multi" else F.mse_loss
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return {"loss": judge(wide, labels.view_as(logits).to(wide), reduction="sum")}

    def _problem(self, labels: Tensor) -> Problem:
        if self.problem is not None:
            return self.problem
        if self.classifier.out_features == 1:
            return "regression"
        return "multi" if labels.is_floating_point() else "single"


class Tagger(Head):
    """logits = W x + b at every position: a label for each token. Source: Devlin et al. 2019, section 5.3."""

    def __init__(self, width: int, labels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, labels)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.classifier(self.dropout(x)))

    def sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        return {"loss": summed_cross_entropy(made(output.logits), one_tensor(labels), smoothing)}


class Span(Head):
    """Two numbers at every position: does an answer start here, does it end here.

    `learn` takes each softmax over the tokens of one text, whatever is packed beside it or pads it.
    Source: Devlin et al. 2019, section 4.2.
    Differs: a position of -100 does not count; the reference library takes it for 0.
    """

    FIELDS = ("start_logits", "end_logits")

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, 2)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        start, end = self.classifier(self.dropout(x)).unbind(dim=-1)  # [B, T] each
        return Output(start_logits=start, end_logits=end)

    def counts(self, labels: Labels) -> dict[str, int]:
        return {name.removesuffix("_positions"): count(label) for name, label in self._both(labels).items()}

    def sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Half of each sum, so that both make one loss."""
        unsmoothed(smoothing, "a span is two positions")
        both = self._both(labels)
        logits = {"start": made(output.start_logits), "end": made(output.end_logits)}
        return {name: _misplaced(x, both[f"{name}_positions"]) / 2 for name, x in logits.items()}

    def learn(
        self, x: Float[Tensor, "B T D"], flow: Flow, labels: Labels, *, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        return self.sums(self.apart(self(x, flow), flow), labels, smoothing=smoothing)

    def loss(self, output: Output, labels: Labels) -> Tensor:
        """Positions beyond the text mean that it holds no answer, and do not count either."""
        both = self._both(labels)
        tokens = made(output.start_logits).shape[1]
        return super().loss(output, {name: x.masked_fill(x >= tokens, HIDDEN) for name, x in both.items()})

    @staticmethod
    def apart(output: Output, flow: Flow) -> Output:
        """The logits of each text in a row of its own, -∞ behind its end. [texts, longest]

        a a a b b c c c c   ──>   a a a ·
                                  b b · ·
                                  c c c c
        """

        def rows(logits: Tensor) -> Tensor:
            if flow.segments is not None:
                texts = logits[0].split(list(flow.segments.lengths))
                return pad_sequence(texts, batch_first=True, padding_value=-torch.inf)
            return logits if flow.keep is None else logits.masked_fill(~flow.keep[:, -1], -torch.inf)

        start, end = made(output.start_logits), made(output.end_logits)
        return replace(output, start_logits=rows(start), end_logits=rows(end))

    @staticmethod
    def _both(labels: Labels) -> dict[str, Tensor]:
        if not isinstance(labels, dict) or set(labels) != {"start_positions", "end_positions"}:
            raise DataError("a span needs labels={'start_positions': [B], 'end_positions': [B]}")
        for name, label in labels.items():
            if not isinstance(label, Tensor) or label.dtype != torch.int64 or label.dim() != 1:
                what = (
                    f"{label.dtype} of shape {list(label.shape)}"
                    if isinstance(label, Tensor)
                    else type(label)
                )
                raise DataError(
                    f"{name} is {what}; it must be int64 of shape [B], the position of a token in each text"
                )
        return labels


def _misplaced(logits: Float[Tensor, "B T"], positions: Tensor) -> Float[Tensor, ""]:
    """Σ cross-entropy of where something stands.

    Raises: DataError: where no token of its text is.
    """
    if len(positions) != len(logits):
        raise DataError(f"{len(positions)} positions for {len(logits)} texts; each text has one")
    counted = positions != HIDDEN
    logits, positions = logits[counted], positions[counted].clamp(min=0)
    beyond = positions >= logits.shape[1]
    if bool(beyond.any()) or bool(logits.gather(1, positions[:, None]).isneginf().any()):
        raise DataError(
            f"an answer stands at {positions.tolist()}, beyond its text's end; a text without one has -100"
        )
    return summed_cross_entropy(logits, positions)


def made(x: Tensor | None) -> Tensor:
    """A field of the output that every head with this loss makes."""
    assert x is not None
    return x


def one_tensor(labels: Labels) -> Tensor:
    """Labels of a head with one loss.

    Raises: DataError: something else.
    """
    if isinstance(labels, dict):
        raise DataError(f"labels is a mapping with {sorted(labels)}; this head takes one tensor")
    if not isinstance(labels, Tensor):
        raise DataError(f"labels is {type(labels).__name__}; it must be a tensor: torch.tensor(labels)")
    return labels
