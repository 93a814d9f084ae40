"""LlamaIndex: an embedding model, and a language model.

from glassformer.integrations.llama_index import GlassformerEmbedding

Settings.embed_model = GlassformerEmbedding("all-MiniLM-L6-v2")
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms import CustomLLM

from glassformer.engine.encoder import check_texts
from glassformer.integrations import check_room, loaded, one_text
from glassformer.model import Model


class GlassformerEmbedding(BaseEmbedding):
    """Sentence embeddings of nodes and queries."""

    _model: Model = PrivateAttr()

    def __init__(self, model: Model | str | Path, **fields: Any) -> None:
        super().__init__(**{"model_name": str(model)} | fields)
        self._model = loaded(model, "feature-extraction")

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._model.encode_query(one_text(query)).tolist()

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._model.encode_document(check_texts(texts)).tolist()


class GlassformerLLM(CustomLLM):
    """Language model; `options` as in `Model.generate`."""

    options: dict[str, Any] = Field(default_factory=dict)
    _model: Model = PrivateAttr()

    def __init__(self, model: Model | str | Path, **options: Any) -> None:
        super().__init__(options=options)
        self._model = loaded(model, "text-generation")

    @property
    def metadata(self) -> LLMMetadata:
        limit = self._model.network.max_tokens
        return LLMMetadata(model_name="glassformer", **({} if limit is None else {"context_window": limit}))

    def complete(self, prompt: str, formatted: bool = False, **options: Any) -> CompletionResponse:
        check_room(self._model, one_text(prompt), options := self.options | options)
        return CompletionResponse(text=self._model.generate(prompt, **options))

    def stream_complete(self, prompt: str, formatted: bool = False, **options: Any) -> Iterator[CompletionResponse]:
        check_room(self._model, one_text(prompt), options := self.options | options)
        text = ""
        for piece in self._model.stream(prompt, **options):
            text += piece
            yield CompletionResponse(text=text, delta=piece)
