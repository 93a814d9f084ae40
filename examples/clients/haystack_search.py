"""Haystack with Glassformer embedders: pip install glassformer haystack-ai"""

import sys

from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from glassformer.integrations.haystack import GlassformerDocumentEmbedder, GlassformerTextEmbedder

model = sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2"
texts = ["time flies like an arrow", "a ripe banana", "the hours pass quickly"]
store = InMemoryDocumentStore()
embedder = GlassformerDocumentEmbedder(model)
store.write_documents(embedder.run(documents=[Document(content=text) for text in texts])["documents"])
search = Pipeline()
search.add_component("embedder", GlassformerTextEmbedder(model))
search.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=1))
search.connect("embedder.embedding", "retriever.query_embedding")
print(search.run({"embedder": {"text": "fruit"}})["retriever"]["documents"][0].content)
