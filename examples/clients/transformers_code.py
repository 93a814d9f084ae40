"""Code written for transformers, with one word changed: pip install glassformer"""

import sys

from glassformer.hf import AutoModel, AutoTokenizer

name = sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2"
tokenizer, model = AutoTokenizer.from_pretrained(name), AutoModel.from_pretrained(name)
inputs = tokenizer(["time flies like an arrow", "a ripe banana"], padding=True, return_tensors="pt")
print(model(**inputs, output_attentions=True).attentions[0].shape)
