"""LangChain with Glassformer embeddings: pip install glassformer langchain-core"""

import sys

from langchain_core.vectorstores import InMemoryVectorStore

from glassformer.integrations.langchain import GlassformerEmbeddings

model = sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2"
texts = ["time flies like an arrow", "a ripe banana", "the hours pass quickly"]
store = InMemoryVectorStore.from_texts(texts, GlassformerEmbeddings(model))
print(store.similarity_search("fruit", k=1)[0].page_content)
