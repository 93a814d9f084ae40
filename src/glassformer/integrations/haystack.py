"""Haystack: components that embed texts and documents, and one that generates.

from glassformer.integrations.haystack import GlassformerDocumentEmbedder

pipeline.add_component("embedder", GlassformerDocumentEmbedder("all-MiniLM-L6-v2"))
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from haystack import Document, component

from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.integrations import check_room, loaded, one_text


class _Component:
    """A component that loads its model when the pipeline warms up, so that a pipeline is saved as YAML by its name."""

    TASK = "feature-extraction"

    def __init__(self, model: str, options: dict[str, Any] | None = None) -> None:
        self.model = model
        self.options = options or {}
        self._loaded: Any = None

    def warm_up(self) -> None:
        self._loaded = self._loaded or loaded(self.model, self.TASK)

    def ready(self) -> Any:
        self.warm_up()
        return self._loaded


@component
class GlassformerTextEmbedder(_Component):
    """Embed a query; options as in `Model.encode`."""

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        return {"embedding": self.ready().encode_query(one_text(text), **self.options).tolist()}


@component
class GlassformerDocumentEmbedder(_Component):
    """Embed documents; options as in `Model.encode`."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        if not isinstance(documents, list) or not all(isinstance(document, Document) for document in documents):
            raise DataError(
                f"documents is {safe_repr(documents)}; give a list of Documents; one text goes to the text embedder"
            )
        vectors = self.ready().encode_document([document.content or "" for document in documents], **self.options)
        return {"documents": [replace(d, embedding=v.tolist()) for d, v in zip(documents, vectors, strict=True)]}


@component
class GlassformerGenerator(_Component):
    """Continue a prompt; options as in `Model.generate`."""

    TASK = "text-generation"

    @component.output_types(replies=list[str])
    def run(self, prompt: str) -> dict[str, Any]:
        check_room(self.ready(), one_text(prompt), self.options)
        reply = self.ready().generate(prompt, **self.options)
        return {"replies": [reply] if isinstance(reply, str) else reply}
