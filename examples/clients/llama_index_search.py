"""LlamaIndex with a Glassformer embedding model: pip install glassformer llama-index-core"""

import sys

from llama_index.core import Document, VectorStoreIndex

from glassformer.integrations.llama_index import GlassformerEmbedding

model = sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2"
texts = ["time flies like an arrow", "a ripe banana", "the hours pass quickly"]
index = VectorStoreIndex.from_documents(
    [Document(text=text) for text in texts], embed_model=GlassformerEmbedding(model)
)
print(index.as_retriever(similarity_top_k=1).retrieve("fruit")[0].text)
