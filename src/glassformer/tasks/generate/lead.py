"""Lead-N: the first sentences of a text, the baseline of every summariser.

News puts what matters first, so three sentences are hard to beat there; a model that does not beat them on your
texts is not worth its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.errors import ConfigError
from glassformer.text.sentences import sentence_spans


@dataclass(frozen=True)
class Lead:
    """Summarises texts by their first sentences.

        Lead(3)(["One. Two. Three. Four."])        ["One. Two. Three."]

    Args:
        sentences: how many · language: of the texts
    """

    sentences: int = 3
    language: str = "en"

    def __post_init__(self) -> None:
        if self.sentences < 1:
            raise ConfigError(f"a summary of {self.sentences} sentences says nothing; take at least 1")

    def __call__(self, texts: Sequence[str]) -> list[str]:
        return [self._of(text) for text in texts]

    def _of(self, text: str) -> str:
        spans = sentence_spans(text, self.language)[: self.sentences]
        return text[: spans[-1][1]].strip() if spans else ""
