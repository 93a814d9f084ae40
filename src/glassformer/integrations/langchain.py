"""LangChain: embeddings, a text completion model and a chat model.

from glassformer.integrations.langchain import GlassformerEmbeddings

store = InMemoryVectorStore.from_texts(texts, GlassformerEmbeddings("all-MiniLM-L6-v2"))
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import LLM, SimpleChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import GenerationChunk
from pydantic import BaseModel, Field

from glassformer.engine.encoder import check_texts
from glassformer.integrations import check_room, loaded, one_text, until
from glassformer.model import Model

ROLES = {"human": "user", "ai": "assistant"}
"""LangChain's names of speakers → those of chat templates."""


class GlassformerEmbeddings(Embeddings):
    """Sentence embeddings; options as in `Model.encode`."""

    def __init__(self, model: Model | str | Path, **options: Any) -> None:
        self.model = loaded(model, "feature-extraction")
        self.options = options

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.model.encode_document(check_texts(texts), **self.options).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.model.encode_query(one_text(text), **self.options).tolist()


class _Generating(BaseModel):
    """What both language models hold: a model, loaded where it is named, and options of `Model.generate`."""

    model: Any
    options: dict[str, Any] = Field(default_factory=dict)

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self.model = loaded(self.model, "text-generation")


class GlassformerPipeline(_Generating, LLM):
    """Text completion; `options` as in `Model.generate`."""

    @property
    def _llm_type(self) -> str:
        return "glassformer"

    def _call(self, prompt: str, stop: list[str] | None = None, run_manager: Any = None, **options: Any) -> str:
        check_room(self.model, prompt, options := self.options | options)
        return until(self.model.generate(prompt, stop_strings=stop or None, **options), stop)

    def _stream(
        self, prompt: str, stop: list[str] | None = None, run_manager: Any = None, **options: Any
    ) -> Iterator[GenerationChunk]:
        check_room(self.model, prompt, options := self.options | options)
        text = ""
        for piece in self.model.stream(prompt, stop_strings=stop or None, **options):
            known, text = len(text), until(text + piece, stop)
            yield GenerationChunk(text=text[known:])


class ChatGlassformer(_Generating, SimpleChatModel):
    """Chat model: the tokenizer's chat template formats the messages; `options` as in `Model.generate`."""

    @property
    def _llm_type(self) -> str:
        return "glassformer-chat"

    def _call(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **options: Any
    ) -> str:
        chat = [{"role": ROLES.get(message.type, message.type), "content": message.text} for message in messages]
        check_room(self.model, chat, options := self.options | options)
        return until(self.model.generate(chat, stop_strings=stop or None, **options), stop)
