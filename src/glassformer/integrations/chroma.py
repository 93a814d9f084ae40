"""Chroma: an embedding function, which a persistent collection finds again by its name.

from glassformer.integrations.chroma import GlassformerEmbeddingFunction

client.create_collection("notes", embedding_function=GlassformerEmbeddingFunction("all-MiniLM-L6-v2"))
"""

from __future__ import annotations

from typing import Any

import numpy as np
from chromadb.api.types import Documents, EmbeddingFunction, Embeddings
from chromadb.utils.embedding_functions import register_embedding_function

from glassformer.engine.encoder import check_texts
from glassformer.integrations import loaded


@register_embedding_function
class GlassformerEmbeddingFunction(EmbeddingFunction[Documents]):
    """Sentence embeddings of documents and queries; options as in `Model.encode`, as JSON takes them."""

    def __init__(self, model: str, options: dict[str, Any] | None = None) -> None:
        self.folder = str(model)
        self.options = options or {}
        self.model = loaded(self.folder, "feature-extraction")

    def __call__(self, input: Documents) -> Embeddings:
        return list(np.asarray(self.model.encode_document(check_texts(input), **self.options)))

    def embed_query(self, input: Documents) -> Embeddings:
        return list(np.asarray(self.model.encode_query(check_texts(input), **self.options)))

    @staticmethod
    def name() -> str:
        return "glassformer"

    def default_space(self) -> Any:
        return "cosine"

    def get_config(self) -> dict[str, Any]:
        return {"model": self.folder, "options": self.options}

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> GlassformerEmbeddingFunction:
        return GlassformerEmbeddingFunction(config["model"], config.get("options"))
