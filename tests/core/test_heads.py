"""Model heads: which states they read, their outputs, and losses equal to the reference library's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core import Flow, KeyValueCache, LayerNormSpec, Output, Packing, cross_entropy
from glassformer.core.classification_heads import SequenceClassifier, SpanClassifier, TokenClassifier
from glassformer.core.heads import Head, Pooler, first_token, last_token, mean_token
from glassformer.core.language_heads import (
    CausalLMHead,
    MaskedLMHead,
    NextSentenceHead,
    PreTrainingHead,
    TransformedCausalLMHead,
)
from glassformer.errors import ConfigError, DataError
from tests.core.small import assert_close, keeps, perturbed

B, T, D, V = 3, 7, 16, 29
X = torch.randn(B, T, D, generator=torch.Generator().manual_seed(5))


def ids(*shape: int, below: int = V, ignored: bool = False) -> Tensor:
    labels = torch.randint(0, below, shape)
    return labels.masked_fill(torch.rand(shape) < 0.3, -100) if ignored else labels


def masked_head() -> MaskedLMHead:
    return MaskedLMHead(D, V, "gelu", LayerNormSpec(width=D))


# ── which states ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_mean_is_of_visible_tokens(side: str) -> None:
    lengths = [7, 4, 1]
    starts = [0, 0, 0] if side == "right" else [0, 3, 6]
    pooled = mean_token(X, Flow(keep=keeps(lengths, T, side)))
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        assert_close(pooled[row], X[row, start : start + length].mean(0))
    assert_close(mean_token(X, Flow()), X.mean(1))
    packed = mean_token(X.reshape(1, B * T, D), Flow(packing=Packing((T,) * B)))
    assert_close(packed, X.mean(1))
    assert torch.equal(mean_token(X, Flow(keep=torch.zeros(B, 1, T, dtype=torch.bool))), torch.zeros(B, D))


def test_a_classifier_pools_as_its_option_says() -> None:
    keep = keeps([7, 4, 1], T, "left")
    tokens = {"first": first_token, "last": last_token, "mean": mean_token}
    for reads, token in tokens.items():
        head = perturbed(SequenceClassifier(D, 5, pooling=reads))
        assert not head.reads_first_token  # none that is made for it: a patch, a frame
        for flow in (Flow(), Flow(keep=keep)):
            assert_close(head(X, flow).logits, head.classifier(token(X, flow)))


@pytest.mark.parametrize("side", ["left", "right"])
def test_first_and_last_tokens_are_visible_ones(side: str) -> None:
    lengths = [7, 4, 1]
    flow = Flow(keep=keeps(lengths, T, side))
    starts = [0, 0, 0] if side == "right" else [0, 3, 6]
    rows = range(B)
    assert torch.equal(first_token(X, flow), X[rows, starts])
    assert torch.equal(last_token(X, flow), X[rows, [s + n - 1 for s, n in zip(starts, lengths, strict=True)]])


def test_first_and_last_tokens_without_padding_and_in_a_packed_row() -> None:
    assert torch.equal(first_token(X, Flow()), X[:, 0])
    assert torch.equal(last_token(X, Flow()), X[:, -1])
    packed, flow = X.flatten(0, 1)[None], Flow(packing=Packing((7, 4, 10)))
    assert torch.equal(first_token(packed, flow), packed[0, [0, 7, 11]])
    assert torch.equal(last_token(packed, flow), packed[0, [6, 10, 20]])


def test_the_last_token_after_a_cache_is_counted_from_where_the_cache_ends() -> None:
    cache = KeyValueCache()
    cache.advance(5)
    assert torch.equal(last_token(X, Flow(cache=cache, keep=keeps([12, 12, 10], 12))), X[range(B), [6, 6, 4]])


# ── what they give ───────────────────────────────────────────────────────────────────────────────────────


def test_language_model_reads_every_position_or_the_last_so_many() -> None:
    head = perturbed(CausalLMHead(D, V))
    logits = head(X, Flow()).logits
    assert_close(logits, X @ head.decoder.weight.T, 1e-6)
    assert_close(head(X, Flow(last=2)).logits, logits[:, -2:], 1e-6)
    assert head(X, Flow(last=1)).logits.shape == (B, 1, V)


def test_logits_are_scaled_then_capped() -> None:
    head = perturbed(CausalLMHead(D, V, bias=True, logit_cap=0.7, logit_scale=3.0))
    expected = 0.7 * torch.tanh((3.0 * X @ head.decoder.weight.T + head.decoder.bias) / 0.7)
    logits = head(X, Flow()).logits
    assert_close(logits, expected, 1e-6)
    assert_close(head(X, Flow(last=2)).logits, expected[:, -2:], 1e-6)
    assert float(logits.detach().abs().max()) < 0.7


def test_masked_language_model_is_its_formula() -> None:
    head = perturbed(masked_head())
    bent = F.gelu(X @ head.transform.weight.T + head.transform.bias)
    expected = head.norm(bent) @ head.decoder.weight.T + head.decoder.bias
    assert_close(head(X, Flow()).logits, expected)


def test_a_transformed_causal_head_gives_the_masked_heads_logits_for_the_next_token() -> None:
    head = perturbed(TransformedCausalLMHead(D, V, "gelu", LayerNormSpec(width=D)))
    masked = masked_head()
    masked.load_state_dict(head.state_dict())
    logits, labels = head(X, Flow()).logits, ids(B, T)
    assert_close(logits, masked(X, Flow()).logits, 1e-6)
    shifted = torch.cat([labels[:, 1:], torch.full((B, 1), -100)], dim=1)
    assert_close(head.loss(Output(logits=logits), labels), masked.loss(Output(logits=logits), shifted), 1e-6)
    assert head.label_counts(labels) == {"loss": B * (T - 1)}


def test_pooler_and_next_sentence_read_the_first_token() -> None:
    head = perturbed(NextSentenceHead(D))
    pooled = torch.tanh(X[:, 0] @ head.pooler.dense.weight.T + head.pooler.dense.bias)
    assert_close(head.pooler(X, Flow()).pooler_output, pooled, 1e-6)
    assert_close(head(X, Flow()).logits, pooled @ head.classifier.weight.T + head.classifier.bias, 1e-6)


def test_a_pooler_drops_then_projects_then_bends() -> None:
    head = perturbed(Pooler(D, "relu", dropout=0.5)).eval()
    whole = X[:, 0] @ head.dense.weight.T + head.dense.bias
    assert_close(head(X, Flow()).pooler_output, whole.clamp(min=0), 1e-6)
    head.train()
    torch.manual_seed(2)
    pooled = head(X, Flow()).pooler_output
    torch.manual_seed(2)
    dropped = F.dropout(X[:, 0], 0.5)
    assert_close(pooled, (dropped @ head.dense.weight.T + head.dense.bias).clamp(min=0), 1e-6)


def test_a_classifier_reads_through_the_pooler_that_it_is_given() -> None:
    pooler = Pooler(D, "relu")
    head = perturbed(SequenceClassifier(D, 3, pooler=pooler))
    assert head.pooler is pooler and head.reads_first_token
    expected = pooler.pooled(X, Flow()) @ head.classifier.weight.T + head.classifier.bias
    assert_close(head(X, Flow()).logits, expected, 1e-6)


def test_cl_25_a_classifier_gives_one_row_of_logits_a_text() -> None:
    head = perturbed(SequenceClassifier(D, 3))
    assert head(X[:1], Flow()).logits.shape == (1, 3)
    changed = X.clone()
    changed[:, 1:] += 1.0
    assert torch.equal(head(changed, Flow()).logits, head(X, Flow()).logits), "it reads the first token alone"


def test_a_causal_classifier_reads_the_last_visible_token() -> None:
    head = perturbed(SequenceClassifier(D, 3, pooling="last", bias=False))
    assert [name for name, _ in head.named_parameters()] == ["classifier.weight"]
    logits = head(X, Flow(keep=keeps([7, 4, 1], T))).logits
    assert_close(logits, X[range(B), [6, 3, 0]] @ head.classifier.weight.T, 1e-6)


def test_tagger_and_span_read_every_position() -> None:
    tagger, span = perturbed(TokenClassifier(D, 5)), perturbed(SpanClassifier(D))
    assert_close(tagger(X, Flow()).logits, X @ tagger.classifier.weight.T + tagger.classifier.bias, 1e-6)
    both = X @ span.classifier.weight.T + span.classifier.bias
    output = span(X, Flow())
    assert_close(torch.stack([output.start_logits, output.end_logits], dim=-1), both, 1e-6)


@pytest.mark.parametrize(
    "head",
    [
        SequenceClassifier(D, 3, dropout=0.5),
        TokenClassifier(D, 3, dropout=0.5),
        SpanClassifier(D, dropout=0.5),
    ],
)
def test_cl_24_dropout_before_the_logits_in_training_only(head: Head) -> None:
    name = head.FIELDS[0]
    head.eval()
    assert torch.equal(head(X, Flow())[name], head(X, Flow())[name])
    head.train()
    assert not torch.equal(head(X, Flow())[name], head(X, Flow())[name])


ALL: list[Head] = [
    CausalLMHead(D, V),
    masked_head(),
    Pooler(D),
    NextSentenceHead(D),
    PreTrainingHead(masked_head(), NextSentenceHead(D)),
    SequenceClassifier(D, 3),
    TokenClassifier(D, 3),
    SpanClassifier(D),
]


@pytest.mark.parametrize("head", ALL, ids=lambda head: type(head).__name__)
def test_a_head_fills_the_fields_that_it_says(head: Head) -> None:
    assert tuple(head(X, Flow()).present()) == head.FIELDS


# ── losses ───────────────────────────────────────────────────────────────────────────────────────────────


def test_language_model_loss_equals_the_reference() -> None:
    from transformers.loss.loss_utils import ForCausalLMLoss

    head, labels = perturbed(CausalLMHead(D, V)), ids(B, T, ignored=True)
    output = head(X, Flow())
    assert_close(head.loss(output, labels), ForCausalLMLoss(output.logits, labels, V), 1e-6)


def test_masked_language_model_loss_equals_the_reference() -> None:
    from transformers.loss.loss_utils import ForMaskedLMLoss

    head, labels = perturbed(masked_head()), ids(B, T, ignored=True)
    output = head(X, Flow())
    assert_close(head.loss(output, labels), ForMaskedLMLoss(output.logits, labels, V), 1e-6)


def test_tagger_loss_equals_the_reference() -> None:
    from transformers.loss.loss_utils import ForTokenClassification

    head, labels = perturbed(TokenClassifier(D, 5)), ids(B, T, below=5, ignored=True)
    output = head(X, Flow())
    theirs = ForTokenClassification(output.logits, labels, SimpleNamespace(num_labels=5))
    assert_close(head.loss(output, labels), theirs, 1e-6)


NAMES = {None: None, "single": "single_label_classification", "multi": "multi_label_classification"}


@pytest.mark.parametrize(
    ("count", "problem", "labels"),
    [
        (4, None, torch.tensor([0, 3, -100])),
        (4, "single", torch.tensor([1, 2, 2])),
        (4, None, torch.tensor([[0.0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])),
        (4, "multi", torch.tensor([[0.0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])),
        (1, None, torch.tensor([0.5, -2.0, 7.0])),
        (1, "regression", torch.tensor([[0.5], [-2.0], [7.0]])),
        (4, "regression", torch.randn(3, 4)),
    ],
)
def test_classifier_loss_equals_the_reference(count: int, problem: Any, labels: Tensor) -> None:
    from transformers.loss.loss_utils import ForSequenceClassificationLoss

    head = perturbed(SequenceClassifier(D, count, problem=problem))
    output = head(X, Flow())
    config = SimpleNamespace(num_labels=count, problem_type=NAMES.get(problem, problem))
    theirs = ForSequenceClassificationLoss(labels, output.logits, config)
    assert_close(head.loss(output, labels), theirs, 1e-6)


def test_span_loss_equals_the_reference_and_ignores_positions_beyond_the_text() -> None:
    from transformers.loss.loss_utils import ForQuestionAnsweringLoss

    head = perturbed(SpanClassifier(D))
    output = head(X, Flow())
    labels = {"start_positions": torch.tensor([2, 99, 0]), "end_positions": torch.tensor([6, 99, T])}
    theirs = ForQuestionAnsweringLoss(output.start_logits, output.end_logits, **labels)
    assert_close(head.loss(output, labels), theirs, 1e-6)
    assert output.start_logits is not None
    start = F.cross_entropy(output.start_logits[[0, 2]], torch.tensor([2, 0]))
    assert output.end_logits is not None
    end = F.cross_entropy(output.end_logits[[0]], torch.tensor([6]))
    assert_close(head.loss(output, labels), (start + end) / 2, 1e-6)


def test_pre_training_loss_is_the_sum_of_both() -> None:
    head = perturbed(PreTrainingHead(masked_head(), NextSentenceHead(D)))
    output = head(X, Flow())
    words, order = ids(B, T, ignored=True), torch.tensor([0, 1, 1])
    assert output.prediction_logits is not None and output.seq_relationship_logits is not None
    expected = F.cross_entropy(output.prediction_logits.flatten(0, 1), words.flatten()) + F.cross_entropy(
        output.seq_relationship_logits, order
    )
    assert_close(head.loss(output, {"labels": words, "next_sentence_label": order}), expected, 1e-6)


def test_losses_of_half_numbers_are_taken_in_fp32() -> None:
    head = CausalLMHead(D, V)
    logits, labels = torch.randn(B, T, V).bfloat16(), ids(B, T)
    loss = head.loss(Output(logits=logits), labels)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, head.loss(Output(logits=logits.float()), labels))


class Named(Head):
    """A head that says its loss and no more."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(D, 5)

    def forward(self, x: Tensor, flow: Flow) -> Output:
        return Output(logits=self.classifier(x))

    def loss(self, output: Output, labels: Any) -> Tensor:
        return cross_entropy(output.logits, labels)


def test_a_head_that_only_says_its_loss_learns_too() -> None:
    head, labels = perturbed(Named()), ids(B, T, below=5, ignored=True)
    mean = head.loss_sums(X, Flow(), labels)["loss"] / head.label_counts(labels)["loss"]
    assert_close(mean, head.loss(head(X, Flow()), labels), 1e-6)
    with pytest.raises(ConfigError, match="Named computes a loss of its own"):
        head.loss_sums(X, Flow(), labels, smoothing=0.1)


# ── what they refuse ─────────────────────────────────────────────────────────────────────────────────────


def test_labels_that_a_head_cannot_take_are_refused() -> None:
    output = Output(logits=torch.randn(B, 4))
    with pytest.raises(DataError, match=r"int64.*multi.*labels\.float\(\)"):
        SequenceClassifier(D, 4, problem="multi").loss(output, torch.ones(B, 4, dtype=torch.long))
    with pytest.raises(DataError, match=r"regression"):
        SequenceClassifier(D, 1).loss(Output(logits=torch.randn(B, 1)), torch.tensor([1, 2, 3]))
    with pytest.raises(DataError, match=r"mapping with \['words'\]"):
        TokenClassifier(D, 4).loss(output, {"words": torch.ones(1)})
    with pytest.raises(DataError, match="start_positions"):
        SpanClassifier(D).loss(Output(), torch.ones(B))
    with pytest.raises(DataError, match="next_sentence_label"):
        PreTrainingHead(masked_head(), NextSentenceHead(D)).loss(Output(), {"labels": ids(B, T)})


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (ids(B, T + 1), r"\[3, 8\].*\[3, 7\]"),
        (ids(B * T), r"\[21\].*\[3, 7\]"),
        (ids(B, T).float(), r"float32.*labels\.long\(\)"),
        (ids(B, T) + V, rf"0 to {V - 1}, and -100"),
        (ids(B, T) - V - 200, rf"0 to {V - 1}, and -100"),
        ([[1, 2, 3]], "list.*tensor"),
    ],
)
@pytest.mark.parametrize(
    "head", [CausalLMHead(D, V), masked_head(), TokenClassifier(D, V)], ids=lambda h: type(h).__name__
)
def test_labels_that_do_not_fit_the_logits_are_refused(head: Head, labels: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        head.loss(head(X, Flow()), labels)


def test_a_pooler_has_no_loss() -> None:
    with pytest.raises(ConfigError, match="Pooler has no loss"):
        Pooler(D).loss(Output(), ids(B))
