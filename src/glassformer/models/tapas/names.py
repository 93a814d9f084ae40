"""Weight names of TAPAS: BERT's, a table for each token type, and the head that selects cells."""

from __future__ import annotations

from dataclasses import replace

from glassformer.models import bert
from glassformer.models.tapas.network import TapasSpec
from glassformer.weights.names import WeightNames

NAMES = bert.NAMES.extend(
    """
    numbers.{i}                    embeddings.token_type_embeddings_{i}
    head.operator.pooler.dense     pooler.dense
    [head]
    head.token.weight              output_weights
    head.token.bias                output_bias
    head.column.weight             column_output_weights
    head.column.bias               column_output_bias
    head.operator.classifier       aggregation_classifier
    """,
    prefix="tapas",
)


def weight_names(spec: TapasSpec, task: str) -> WeightNames:
    """Weight names; files of a head without operators have a pooler that it does not read."""
    if task != "table-question-answering" or spec.operators:
        return NAMES(spec, task)
    return replace(NAMES, unread=("pooler.dense.weight", "pooler.dense.bias"))(spec, task)
