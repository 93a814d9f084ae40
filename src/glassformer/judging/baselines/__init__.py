"""What it takes to be better than: simple means that learn from the same rows, and answer the same questions.

classes   the most frequent one · bag of words · the vectors that the model began with
tags      all O · the usual tag of each word · words and their shapes

Each gives the model's records with what it says in their place, so that one judge judges all.
"""

from glassformer.judging.baselines.classes import class_baselines
from glassformer.judging.baselines.tags import tag_baselines

__all__ = ["class_baselines", "tag_baselines"]
