"""Classification heads behind a transform: activation and norm of a linear layer, as in masked language models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from torch import Tensor, nn

from glassformer.core.classification_heads import SpanClassifier, TokenClassifier
from glassformer.core.feed_forward import make_activation
from glassformer.core.flow import Flow, Output
from glassformer.core.heads import POOLINGS, Pooler
from glassformer.core.norms import LayerNormSpec, make_norm

if TYPE_CHECKING:
    from jaxtyping import Float


class TransformPooler(Pooler):
    """Pooler of the first token, or of the mean of all, through a transform.

        pooled = norm(activation(W pooling(x) + b))

    Source: Warner et al. 2024, released code.
    """

    def __init__(self, pooling: Literal["first", "mean"], activation: str, norm: LayerNormSpec, *, bias: bool) -> None:
        super().__init__(norm.width, activation)
        self.dense = nn.Linear(norm.width, norm.width, bias=bias)
        self.norm = make_norm(norm)
        self.pooling = pooling

    def pooled(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "texts D"]:
        pooled: Tensor = self.norm(self.activation(self.dense(POOLINGS[self.pooling](x, flow))))
        return pooled


class Transform(nn.Module):
    """Transform of each token's state: norm(activation(W x + b)). Source: Devlin et al. 2019, released code."""

    def __init__(self, activation: str, norm: LayerNormSpec, *, bias: bool) -> None:
        super().__init__()
        self.dense = nn.Linear(norm.width, norm.width, bias=bias)
        self.activation = make_activation(activation)
        self.norm = make_norm(norm)

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        transformed: Tensor = self.norm(self.activation(self.dense(x)))
        return transformed


class TransformTokenClassifier(TokenClassifier):
    """Token classification of transformed states. Source: Warner et al. 2024, released code."""

    def __init__(self, transform: Transform, width: int, labels: int, dropout: float) -> None:
        super().__init__(width, labels, dropout)
        self.transform = transform

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return super().forward(self.transform(x), flow)


class TransformSpanClassifier(SpanClassifier):
    """Extractive question answering from transformed states. Source: Warner et al. 2024, released code."""

    def __init__(self, transform: Transform, width: int, dropout: float) -> None:
        super().__init__(width, dropout)
        self.transform = transform

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return super().forward(self.transform(x), flow)
