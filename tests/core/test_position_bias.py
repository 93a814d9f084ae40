"""Relative position bias: the reference library's numbers, and shift invariance."""

from __future__ import annotations

import pytest
import torch

from glassformer.core import BucketedBias, BucketedBiasSpec
from tests.core.small import perturbed

CPU = torch.device("cpu")


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (64, 256), (4, 3)])
def test_cl_22_buckets_equal_the_reference(bidirectional: bool, buckets: int, max_distance: int) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    bias = BucketedBias(
        BucketedBiasSpec(heads=2, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional)
    )
    distance = torch.arange(-1000, 1001)[None]
    theirs = T5Attention._relative_position_bucket(distance, bidirectional, buckets, max_distance)
    assert torch.equal(bias.buckets(distance), theirs)
    assert bias.buckets(distance).max() == buckets - 1 and bias.buckets(distance).min() == 0


def test_cl_22_the_bias_equals_the_reference() -> None:
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    theirs = T5Attention(T5Config(d_model=32, num_heads=4, d_kv=8), has_relative_attention_bias=True)
    ours = BucketedBias(BucketedBiasSpec(heads=4))
    ours.table.load_state_dict(theirs.relative_attention_bias.state_dict())
    with torch.no_grad():
        assert torch.equal(ours(40, 40, CPU), theirs.compute_bias(40, 40))


def test_the_bias_depends_on_distance_alone_and_queries_end_where_keys_end() -> None:
    bias = perturbed(BucketedBias(BucketedBiasSpec(heads=3, buckets=8, max_distance=12)))
    whole = bias(9, 9, CPU)
    assert whole.shape == (1, 3, 9, 9)
    assert torch.equal(bias(2, 9, CPU), whole[:, :, 7:])
    assert torch.equal(whole[:, :, 1:, 1:], whole[:, :, :-1, :-1])
