"""ELECTRA: a logit a token says whether it was replaced, and only where labels count."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from glassformer import Model
from glassformer.core import Flow
from glassformer.errors import ConfigError, DataError
from glassformer.models import FAMILIES
from glassformer.models.electra import ReplacedTokenHead

TINY = FAMILIES["electra"].tiny


def test_the_head_by_hand() -> None:
    head, x = ReplacedTokenHead(4, "relu"), torch.randn(2, 3, 4)
    hidden = (x @ head.dense.weight.T + head.dense.bias).clamp(min=0)
    logits = (hidden @ head.classifier.weight.T + head.classifier.bias)[..., 0]
    output = head(x, Flow())
    torch.testing.assert_close(output.logits, logits)
    labels = torch.tensor([[0, 1, -100], [-100, 1, 0]])
    p = logits.sigmoid()
    wanted = -torch.stack([(1 - p[0, 0]).log(), p[0, 1].log(), p[1, 1].log(), (1 - p[1, 2]).log()])
    torch.testing.assert_close(head.loss(output, labels), wanted.mean())
    assert head.label_counts(labels) == {"loss": 4}
    torch.testing.assert_close(head.loss_sums(x, Flow(), labels)["loss"], wanted.sum())


def test_no_label_counts() -> None:
    head, labels = ReplacedTokenHead(4, "gelu"), torch.full((1, 3), -100)
    assert head.label_counts(labels) == {"loss": 0}
    assert head.loss_sums(torch.randn(1, 3, 4), Flow(), labels)["loss"] == 0


def test_what_is_refused() -> None:
    head, x = ReplacedTokenHead(4, "gelu"), torch.randn(2, 3, 4)
    with pytest.raises(DataError, match="labels"):
        head.loss_sums(x, Flow(), torch.zeros(2, 4, dtype=torch.long))
    with pytest.raises(ConfigError, match="a token is replaced or not"):
        head.loss_sums(x, Flow(), torch.zeros(2, 3, dtype=torch.long), smoothing=0.1)


def test_a_discriminator_learns_which_tokens_were_replaced() -> None:
    torch.manual_seed(0)
    model = Model.from_config(TINY, task="replaced-token-detection")
    ids = torch.randint(5, 99, (16, 8))
    labels = (ids > 50).long()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(60):
        optimizer.zero_grad()
        loss = model(ids, labels=labels).loss
        loss.backward()
        optimizer.step()
    assert F.binary_cross_entropy_with_logits(model.eval()(ids).logits, labels.float()) < 0.1
