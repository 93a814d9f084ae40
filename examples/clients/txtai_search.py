"""txtai with a Glassformer model: pip install glassformer txtai"""

import sys

from txtai import Embeddings

import glassformer

model = glassformer.load(sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2")
index = Embeddings(method="external", transform=lambda texts: model.encode(texts), content=True)
index.index(["time flies like an arrow", "a ripe banana", "the hours pass quickly"])
print(index.search("fruit", 1)[0]["text"])
