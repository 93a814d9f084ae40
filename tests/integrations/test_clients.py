"""Clients of the field with a Glassformer model in the place of their own: run by `make test-clients`."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassformer

pytestmark = pytest.mark.clients

TEXTS = ["time flies like an arrow", "a ripe banana", "the hours pass quickly"]


@pytest.fixture(scope="module")
def stories(shared: Path) -> Path:
    return shared / "models" / "stories260k"


@pytest.fixture(scope="module")
def vectors(minilm: Path) -> np.ndarray:
    return glassformer.load(minilm).encode(TEXTS)


def continued(folder: Path, prompt: str, **options: Any) -> str:
    return glassformer.load(folder).generate(prompt, **options)


def test_langchain(minilm: Path, stories: Path, vectors: np.ndarray) -> None:
    from langchain_core.prompts import PromptTemplate
    from langchain_core.vectorstores import InMemoryVectorStore

    from glassformer.integrations.langchain import GlassformerEmbeddings, GlassformerPipeline

    embeddings = GlassformerEmbeddings(minilm)
    np.testing.assert_allclose(embeddings.embed_documents(TEXTS), vectors, atol=1e-6)
    store = InMemoryVectorStore.from_texts(TEXTS, embeddings)
    assert store.similarity_search("fruit", k=1)[0].page_content == TEXTS[1]

    llm = GlassformerPipeline(model=stories, options={"max_new_tokens": 20})
    chain = PromptTemplate.from_template("Once upon a {what}") | llm
    whole = continued(stories, "Once upon a time", max_new_tokens=20)
    assert chain.invoke({"what": "time"}) == whole
    assert llm.batch(["Once upon a time", "Lily"])[0] == whole
    assert "".join(llm.stream("Once upon a time")) == whole
    stopped = llm.invoke("Once upon a time", stop=["little"])
    assert "little" not in stopped and whole.startswith(stopped)
    assert "".join(llm.stream("Once upon a time", stop=["little"])) == stopped


def test_langchain_chat(stories: Path, tmp_path: Path) -> None:
    from langchain_core.messages import HumanMessage, SystemMessage

    from glassformer.integrations.langchain import ChatGlassformer

    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    glassformer.load(stories).save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": template}))
    chat = ChatGlassformer(model=tmp_path, options={"max_new_tokens": 8})
    answer = chat.invoke([SystemMessage("Tell a story."), HumanMessage("Lily")])
    given = [{"role": "system", "content": "Tell a story."}, {"role": "user", "content": "Lily"}]
    assert answer.content == continued(tmp_path, given, max_new_tokens=8)  # type: ignore[arg-type]


def test_llama_index(minilm: Path, stories: Path) -> None:
    from llama_index.core import Document, VectorStoreIndex

    from glassformer.integrations.llama_index import GlassformerEmbedding, GlassformerLLM

    documents = [Document(text=text) for text in TEXTS]
    index = VectorStoreIndex.from_documents(documents, embed_model=GlassformerEmbedding(minilm))
    assert index.as_retriever(similarity_top_k=1).retrieve("an apple")[0].text == TEXTS[1]
    llm = GlassformerLLM(stories, max_new_tokens=10)
    whole = continued(stories, "Once upon a time", max_new_tokens=10)
    assert llm.complete("Once upon a time").text == whole
    assert "".join(part.delta or "" for part in llm.stream_complete("Once upon a time")) == whole
    assert str(index.as_query_engine(llm=llm, similarity_top_k=1).query("Why?"))


def test_haystack(minilm: Path, stories: Path) -> None:
    from haystack import Document, Pipeline
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    from glassformer.integrations.haystack import (
        GlassformerDocumentEmbedder,
        GlassformerGenerator,
        GlassformerTextEmbedder,
    )

    store = InMemoryDocumentStore()
    embedded = GlassformerDocumentEmbedder(str(minilm)).run(documents=[Document(content=text) for text in TEXTS])
    store.write_documents(embedded["documents"])
    search = Pipeline()
    search.add_component("embedder", GlassformerTextEmbedder(str(minilm)))
    search.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=1))
    search.connect("embedder.embedding", "retriever.query_embedding")
    assert search.run({"embedder": {"text": "fruit"}})["retriever"]["documents"][0].content == TEXTS[1]
    writer = Pipeline()
    writer.add_component("writer", GlassformerGenerator(str(stories), {"max_new_tokens": 8}))
    again = Pipeline.loads(writer.dumps(), allowed_modules=["glassformer.integrations.haystack"])
    whole = continued(stories, "Once upon a time", max_new_tokens=8)
    assert again.run({"writer": {"prompt": "Once upon a time"}}) == {"writer": {"replies": [whole]}}


def test_chroma(minilm: Path, tmp_path: Path) -> None:
    import chromadb

    from glassformer.integrations.chroma import GlassformerEmbeddingFunction

    client = chromadb.PersistentClient(str(tmp_path))
    notes = client.create_collection("notes", embedding_function=GlassformerEmbeddingFunction(str(minilm)))
    notes.add(ids=["a", "b", "c"], documents=TEXTS)
    assert notes.query(query_texts=["fruit"], n_results=1)["ids"] == [["b"]]
    again = chromadb.PersistentClient(str(tmp_path)).get_collection("notes")  # finds the function by its name
    assert again.query(query_texts=["clock"], n_results=1)["ids"] != [["b"]]


def test_lm_eval_gives_the_numbers_of_its_own_model(stories: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    from glassformer.integrations.lm_eval import GlassformerLM

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    ours, theirs = GlassformerLM(str(stories)), HFLM(pretrained=str(stories), device="cpu", batch_size=2)
    pairs = [("Once upon a time", ", there"), ("", "Lily had"), ("Tom and Tim were ", "happy"), ("The cat" * 9, " sat")]
    requests = [Instance("loglikelihood", {}, pair, number) for number, pair in enumerate(pairs)]
    for one, other in zip(ours.loglikelihood(requests), theirs.loglikelihood(requests), strict=True):
        assert one[0] == pytest.approx(other[0], abs=1e-3) and one[1] == other[1]
    long = [Instance("loglikelihood_rolling", {}, ("Lily liked to play. " * n,), n) for n in (1, 150)]
    assert ours.loglikelihood_rolling(long) == pytest.approx(theirs.loglikelihood_rolling(long), rel=1e-5)
    wanted = {"until": ["."], "max_gen_toks": 20}
    writing = [Instance("generate_until", {}, (prompt, wanted), 0) for prompt in ("Once upon a time", "Lily was")]
    assert ours.generate_until(writing) == theirs.generate_until(writing)


def test_spacy(minilm: Path, vectors: np.ndarray, tmp_path: Path) -> None:
    import spacy

    import_module("glassformer.integrations.spacy")  # registers the component
    nlp = spacy.blank("en")
    nlp.add_pipe("glassformer", config={"model": str(minilm)})
    docs = list(nlp.pipe(TEXTS))
    np.testing.assert_allclose(docs[0].vector, vectors[0], atol=1e-6)
    assert docs[0].similarity(docs[2]) > docs[0].similarity(docs[1])
    span = docs[1][1:3]
    assert span.has_vector and span.vector.shape == vectors[0].shape
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # spaCy's own similarity warns that the vocabulary has no vectors
        assert docs[0].similarity(docs[2]) == pytest.approx(vectors[0] @ vectors[2], abs=1e-5)
        assert span.similarity(docs[1]) > span.similarity(docs[0])
        assert docs[0].similarity(docs[0][0]) == 0.0  # a token has no vector
    saved = tmp_path / "pipeline"
    nlp.to_disk(saved)
    np.testing.assert_allclose(spacy.load(saved)(TEXTS[0]).vector, vectors[0], atol=1e-6)


def test_keybert_and_bertopic_take_a_sentence_transformer(minilm: Path, vectors: np.ndarray) -> None:
    from bertopic.backend._utils import select_backend
    from keybert import KeyBERT
    from sentence_transformers import util

    from glassformer.integrations.sentence_transformers import GlassformerSentenceTransformer

    encoder = GlassformerSentenceTransformer(minilm)
    np.testing.assert_allclose(encoder.encode(TEXTS, batch_size=8, device="cpu"), vectors, atol=1e-6)
    assert util.cos_sim(encoder.encode(TEXTS[0]), encoder.encode(TEXTS[2])) > 0.2
    words = KeyBERT(encoder).extract_keywords("a ripe banana is a fruit that flies like", top_n=2)
    assert {word for word, _ in words} <= {"banana", "fruit", "ripe", "flies", "like"}
    np.testing.assert_allclose(select_backend(encoder).embed_documents(TEXTS), vectors, atol=1e-6)


def test_txtai(minilm: Path) -> None:
    from txtai import Embeddings

    model = glassformer.load(minilm)
    index = Embeddings(method="external", transform=lambda texts: model.encode(texts), content=True)
    index.index(TEXTS)
    assert index.search("fruit", 1)[0]["text"] == TEXTS[1]


def test_datasets(minilm: Path) -> None:
    from datasets import Dataset

    model = glassformer.load(minilm)
    rows = Dataset.from_dict({"text": TEXTS})
    rows = rows.map(lambda batch: model.tokenizer(batch["text"]), batched=True, num_proc=2)
    assert rows["input_ids"][:] == model.tokenizer(TEXTS)["input_ids"]
    embedded = rows.map(lambda batch: {"vector": model.encode(batch["text"])}, batched=True)
    assert len(embedded[2]["vector"]) == 384
