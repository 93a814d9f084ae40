"""sentence-transformers: a SentenceTransformer whose vectors are a Glassformer model's.

    from glassformer.integrations.sentence_transformers import GlassformerSentenceTransformer

    KeyBERT(GlassformerSentenceTransformer("all-MiniLM-L6-v2"))

For libraries that ask for that type: KeyBERT, BERTopic, mteb and evaluators call `encode`; those that train
it, such as SetFit and the library's own trainer, call `forward`, which has gradients of the model's weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from glassformer.engine.encoder import check_texts
from glassformer.engine.pooling import PoolingSettings, read_pooling_settings
from glassformer.errors import DataError
from glassformer.integrations import loaded
from glassformer.model import Model


class _Body(nn.Module):
    """The model as the only module: features of tokens in, vectors of texts out."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    @property
    def settings(self) -> PoolingSettings:
        pooling = self.model.pooling
        if isinstance(pooling, PoolingSettings):
            return pooling
        return read_pooling_settings(pooling, self.model.network.POOLING)  # says what is wrong with the folder

    @property
    def tokenizer(self) -> Any:
        return self.model.tokenizer

    @property
    def max_seq_length(self) -> int | None:
        return self.model.max_seq_length

    @max_seq_length.setter
    def max_seq_length(self, limit: int | None) -> None:
        self.model.max_seq_length = limit

    def preprocess(self, texts: list[str], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Texts behind a prompt, cut to `max_seq_length` → features. Raises: DataError: no texts."""
        before, lower = self.settings.prompt(prompt or ""), self.settings.lower_case
        if not (texts := check_texts(texts)):
            raise DataError("texts is empty; give at least one text")
        texts = [(before + text).lower() if lower else before + text for text in texts]
        limit = self.max_seq_length
        return dict(self.tokenizer(texts, padding=True, truncation=True, max_length=limit, return_tensors="pt"))

    tokenize = preprocess

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Vectors with gradients, as sentence-transformers' losses take them. `input_ids` [N, T] → [N, D]"""
        mask, pooling = features["attention_mask"], self.settings
        inputs = {name: features[name] for name in ("input_ids", "token_type_ids") if name in features}
        states: Any = self.model(**inputs, attention_mask=mask).last_hidden_state
        rows = zip(states, mask.bool(), strict=True)
        vectors = torch.cat([pooling.pool(row[keep][None]) for row, keep in rows])
        return {**features, "token_embeddings": states, "sentence_embedding": vectors}

    def get_sentence_embedding_dimension(self) -> int:
        return self.model.get_sentence_embedding_dimension()

    get_embedding_dimension = get_sentence_embedding_dimension  # its name since sentence-transformers 6


class GlassformerSentenceTransformer(SentenceTransformer):
    """A model in the place of a SentenceTransformer."""

    def __init__(self, model: Model | str | Path, **options: Any) -> None:
        encoder = loaded(model, "feature-extraction", **options)
        body = _Body(encoder)
        super().__init__(
            modules=[body],
            device=str(encoder.device),
            prompts=dict(body.settings.prompts),
            default_prompt_name=body.settings.default_prompt,
            similarity_fn_name=body.settings.similarity,
        )
        self._encoder = [encoder]  # in a list, so that it is no second submodule

    def encode(self, sentences: Any = None, *positional: Any, **options: Any) -> Any:
        """As `Model.encode`; `batch_size`, `device` and the like have no effect."""
        return self._encoded_by(self._encoder[0].encode, sentences, positional, options)

    def encode_query(self, sentences: Any = None, *positional: Any, **options: Any) -> Any:
        return self._encoded_by(self._encoder[0].encode_query, sentences, positional, options)

    def encode_document(self, sentences: Any = None, *positional: Any, **options: Any) -> Any:
        return self._encoded_by(self._encoder[0].encode_document, sentences, positional, options)

    def _encoded_by(self, method: Any, sentences: Any, positional: tuple[Any, ...], options: dict[str, Any]) -> Any:
        names = ("prompt_name", "prompt", "batch_size", "show_progress_bar")
        given = dict(zip(names, positional, strict=False)) | options
        texts = given.pop("inputs", sentences)
        for name in ("device", "pool", "chunk_size", "task", "processing_kwargs", "prompt_type", "task_metadata"):
            given.pop(name, None)
        if given.get("precision") is None:  # as evaluators say it
            given.pop("precision", None)
        return method(texts, **given)

    def save(self, path: str | None, *_: Any, **options: Any) -> None:
        """A folder that both libraries load; always safetensors, without a model card. None = nothing, as there."""
        if path is not None:
            self._encoder[0].save_pretrained(path)
