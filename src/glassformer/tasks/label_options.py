"""What pipelines that give labels share: their options, and labels ranked by score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from glassformer.engine.scores import ACTIVATIONS
from glassformer.errors import ConfigError
from glassformer.files import safe_repr


def ranked(names: Sequence[str], scores: Tensor, count: int | None = None) -> list[tuple[str, float]]:
    """Names with their scores, best first; `count` of them, None = all.

    Args:
        scores: [names]
    """
    best = scores.sort(descending=True, stable=True)
    pairs = zip(best.indices[:count].tolist(), best.values[:count].tolist(), strict=True)
    return [(names[number], score) for number, score in pairs]


def check_activation(options: Mapping[str, Any]) -> None:
    """Raises: ConfigError: function_to_apply is none that there is."""
    function = options.get("function_to_apply")
    if function is not None and function not in ACTIVATIONS:
        raise ConfigError(f"function_to_apply is {safe_repr(function)}; it must be one of: {', '.join(ACTIVATIONS)}")


def check_candidates(options: Mapping[str, Any]) -> None:
    """Raises: ConfigError: candidate_labels that are no texts, a template without a place for them."""
    labels = options.get("candidate_labels")
    listed = [labels] if isinstance(labels, str) else labels
    if labels is not None and not (
        isinstance(listed, (list, tuple))
        and listed
        and all(isinstance(label, str) and label.strip() for label in listed)
    ):
        raise ConfigError(
            f"candidate_labels is {safe_repr(labels)}; it must be a list of labels, such as ['sport', 'politics']"
        )
    template = options.get("hypothesis_template", "{}")
    if not isinstance(template, str) or template.count("{}") != 1 or template.replace("{}", "").count("{"):
        raise ConfigError(
            f"hypothesis_template is {safe_repr(template)}; it must be a text with {{}} in the place of a label"
        )


def candidate_labels(options: Mapping[str, Any]) -> list[str]:
    """The candidate labels of a call; of one text, those that its commas separate.

    Raises: ConfigError: there are none.
    """
    given = options.get("candidate_labels")
    # A comma too many makes no label: an empty one would take its share of the scores.
    labels = [label for label in map(str.strip, given.split(",")) if label] if isinstance(given, str) else given
    if not labels:
        what = "is missing" if given is None else f"is {safe_repr(given)}, which names none"
        raise ConfigError(f"candidate_labels {what}; give the labels to choose from: candidate_labels=['a', 'b']")
    return list(labels)
