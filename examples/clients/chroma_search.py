"""Chroma with a Glassformer embedding function: pip install glassformer chromadb"""

import sys

import chromadb

from glassformer.integrations.chroma import GlassformerEmbeddingFunction

model = sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2"
notes = chromadb.EphemeralClient().create_collection("notes", embedding_function=GlassformerEmbeddingFunction(model))
notes.add(ids=["1", "2", "3"], documents=["time flies like an arrow", "a ripe banana", "the hours pass quickly"])
print(notes.query(query_texts=["fruit"], n_results=1)["documents"])
