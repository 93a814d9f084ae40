"""spaCy: a pipeline component whose vectors are sentence embeddings, so that `doc.similarity` compares meanings.

import glassformer.integrations.spacy

nlp = spacy.blank("en")
nlp.add_pipe("glassformer", config={"model": "all-MiniLM-L6-v2"})
nlp("time flies").similarity(nlp("the hours pass"))
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc

from glassformer.integrations import loaded
from glassformer.model import Model


@Language.factory("glassformer", default_config={"model": "sentence-transformers/all-MiniLM-L6-v2"})
def make_embedder(nlp: Language, name: str, model: str) -> SpacyEmbedder:
    return SpacyEmbedder(loaded(model, "feature-extraction"))


class SpacyEmbedder:
    """Sets `doc.vector`, and the vectors of its spans when they are asked for.

    Hooks stay in their process, as spaCy warns: docs from `nlp.pipe(…, n_process=2)` or `DocBin` go through again.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    def __call__(self, doc: Doc) -> Doc:
        return next(self.pipe(iter([doc])))

    def pipe(self, stream: Iterator[Doc], batch_size: int = 128) -> Iterator[Doc]:
        while docs := list(islice(stream, batch_size)):
            for doc, vector in zip(docs, self.model.encode([doc.text for doc in docs]), strict=True):
                doc.user_hooks["vector"] = lambda _, vector=vector: vector
                doc.user_span_hooks["vector"] = self._of_span
                for hooks in (doc.user_hooks, doc.user_span_hooks):
                    hooks["has_vector"] = lambda _: True
                    hooks["similarity"] = cosine_similarity
                yield doc

    def _of_span(self, span: Any) -> Any:
        return self.model.encode(span.text)


def cosine_similarity(one: Any, other: Any) -> float:
    """Of the vectors of docs and spans, without the warning for a vocabulary that has none. 0 of what has no vector."""
    norms = one.vector_norm * other.vector_norm
    return float(one.vector @ other.vector / norms) if norms else 0.0
