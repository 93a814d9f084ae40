"""Several codebooks: a sum of embeddings, logits of each, and the loss without whole logits."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from glassformer.core import EmbeddingSpec, Flow, SinusoidalSpec
from glassformer.core.codebooks import CodebookEmbeddingSpec, CodebookLMHead
from glassformer.errors import ConfigError, DataError


def test_the_embedding_is_the_sum_of_one_vector_of_each_codebook() -> None:
    spec = CodebookEmbeddingSpec(vocabulary=5, width=8, books=3, positions=SinusoidalSpec(count=9), scale=2.0)
    embed = spec.make()
    ids = torch.tensor([[[0, 4, 2], [3, 3, 3]]])
    tables = embed.tokens.weight.unflatten(0, (3, 5))
    summed = sum(tables[book][ids[..., book]] for book in range(3))
    positions = embed.positions(torch.arange(2)[None], torch.float32)
    torch.testing.assert_close(embed(ids, Flow()), 2.0 * summed + positions)
    torch.testing.assert_close(embed(summed, Flow()), embed(ids, Flow()))


def test_one_codebook_is_a_plain_embedding() -> None:
    plain = EmbeddingSpec(vocabulary=5, width=8).make()
    one = CodebookEmbeddingSpec(vocabulary=5, width=8, books=1).make()
    one.load_state_dict(plain.state_dict())
    ids = torch.tensor([[4, 0, 1]])
    assert torch.equal(one(ids[..., None], Flow()), plain(ids, Flow()))
    assert (one.spec.codebooks, plain.spec.codebooks) == (1, 0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_the_logits(smoothing: float) -> None:
    torch.manual_seed(0)
    head, x = CodebookLMHead(8, 5, 3), torch.randn(2, 4, 8, requires_grad=True)
    labels = torch.randint(0, 5, (2, 4, 3))
    labels[0, :2, 1] = -100
    output = head(x, Flow())
    assert output.logits is not None and output.logits.shape == (2, 4, 3, 5)
    torch.testing.assert_close(output.logits[..., 1, :], x @ head.decoder.weight[5:10].T)
    expected = F.cross_entropy(
        output.logits.flatten(0, 2), labels.flatten(), reduction="sum", label_smoothing=smoothing
    )
    chunked = head.loss_sums(x, Flow(), labels, smoothing=smoothing)["loss"]
    whole = head.output_loss_sums(output, labels, smoothing=smoothing)["loss"]
    torch.testing.assert_close(chunked, expected)
    torch.testing.assert_close(whole, expected)
    assert head.label_counts(labels) == {"loss": 22}
    for ours, theirs in zip(
        torch.autograd.grad(chunked, [x, head.decoder.weight]),
        torch.autograd.grad(expected, [x, head.decoder.weight]),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_what_is_refused() -> None:
    with pytest.raises(ConfigError, match="books is 0"):
        CodebookEmbeddingSpec(vocabulary=5, width=8, books=0)
    head = CodebookLMHead(8, 5, 3)
    with pytest.raises(DataError, match=r"labels must be \[2, 4, 3\]"):
        head.loss_sums(torch.zeros(2, 4, 8), Flow(), torch.zeros(2, 4, dtype=torch.long))
    with pytest.raises(DataError, match="allowed: 0 to 4"):
        head.loss_sums(torch.zeros(1, 1, 8), Flow(), torch.tensor([[[0, 5, 1]]]))
