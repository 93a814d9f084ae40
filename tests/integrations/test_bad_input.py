"""What a client may be handed by mistake: an answer, the client's own error, or one of ours that says what to give."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer import DataError

pytestmark = pytest.mark.clients

MEGABYTE = "time flies " * 95_000
INPUTS: dict[str, Callable[[], Any]] = {
    "nothing": list,
    "None": lambda: None,
    "a generator": lambda: (text for text in ["time", "flies"]),
    "a list of None": lambda: [None],
    "a number": lambda: 3,
    "a megabyte": lambda: [MEGABYTE],
    "one text": lambda: "time flies",
}


@pytest.fixture(scope="module")
def calls(minilm: Path) -> dict[str, Callable[[Any], Any]]:
    """Client → its call with texts."""
    import spacy
    from haystack import Document

    from glassformer.integrations.chroma import GlassformerEmbeddingFunction
    from glassformer.integrations.haystack import GlassformerDocumentEmbedder
    from glassformer.integrations.langchain import GlassformerEmbeddings
    from glassformer.integrations.llama_index import GlassformerEmbedding
    from glassformer.integrations.sentence_transformers import GlassformerSentenceTransformer
    from glassformer.integrations.sklearn import Embedder

    import_module("glassformer.integrations.spacy")  # registers the component
    nlp = spacy.blank("en")
    nlp.max_length = 2 * len(MEGABYTE)
    nlp.add_pipe("glassformer", config={"model": str(minilm)})
    haystack = GlassformerDocumentEmbedder(str(minilm))
    return {
        "langchain": GlassformerEmbeddings(str(minilm)).embed_documents,
        "llama_index": GlassformerEmbedding(str(minilm)).get_text_embedding_batch,
        "haystack": lambda texts: haystack.run(documents=[Document(content=text) for text in texts]),
        "chroma": GlassformerEmbeddingFunction(str(minilm)),
        "sklearn": Embedder(str(minilm)).fit(["time"]).transform,
        "sentence_transformers": GlassformerSentenceTransformer(str(minilm)).encode,
        "spacy": lambda texts: [doc.vector for doc in nlp.pipe(texts)],
    }


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize(
    "client", ["langchain", "llama_index", "haystack", "chroma", "sklearn", "sentence_transformers", "spacy"]
)
def test_an_answer_or_a_clear_error(calls: dict[str, Callable[[Any], Any]], client: str, given: str) -> None:
    try:
        calls[client](INPUTS[given]())
    except DataError as error:
        assert given != "a megabyte"
        assert any(hint in str(error) for hint in ("give a list", "must be", "give at least one"))
    except (TypeError, ValueError) as error:  # the client's own
        assert given != "a megabyte" and str(error)


def test_a_hundred_thousand_texts(minilm: Path, tmp_path: Path) -> None:
    from shutil import copy

    from transformers import BertConfig, BertModel

    from glassformer.integrations.sentence_transformers import GlassformerSentenceTransformer

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    BertModel(BertConfig(**sizes)).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        copy(minilm / name, tmp_path)
    body = GlassformerSentenceTransformer(tmp_path)
    vectors = body.encode(["a", "b"] * 50_000)
    assert vectors.shape == (100_000, 8)
    np.testing.assert_allclose(vectors[-2:], body.encode(["a", "b"]), atol=1e-5)


def test_threads_share_a_model(calls: dict[str, Callable[[Any], Any]]) -> None:
    texts = [[f"text {number}"] for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(calls["langchain"], texts))
    np.testing.assert_array_equal(together, [calls["langchain"](text) for text in texts])


def test_forked_workers(minilm: Path) -> None:
    from datasets import Dataset

    from glassformer.integrations.langchain import GlassformerEmbeddings

    embeddings = GlassformerEmbeddings(str(minilm))
    rows = Dataset.from_dict({"text": ["time flies", "a banana", "the hours", "pass"]})
    mapped = rows.map(lambda batch: {"vector": embeddings.embed_documents(batch["text"])}, batched=True, num_proc=2)
    np.testing.assert_allclose(mapped["vector"][:], embeddings.embed_documents(rows["text"][:]), atol=1e-6)
