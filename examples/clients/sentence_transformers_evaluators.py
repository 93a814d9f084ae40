"""sentence-transformers' evaluators of a Glassformer model: pip install glassformer sentence-transformers"""

import sys

from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator, InformationRetrievalEvaluator

from glassformer.integrations.sentence_transformers import GlassformerSentenceTransformer

model = GlassformerSentenceTransformer(sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2")
first = ["time flies", "a ripe banana", "a dog barks"]
second = ["the clock ticks", "a yellow fruit", "a stock market"]
print(EmbeddingSimilarityEvaluator(first, second, scores=[0.6, 0.9, 0.0])(model))

corpus = {str(number): text for number, text in enumerate(first)}
print(InformationRetrievalEvaluator({"q": "fruit"}, corpus, relevant_docs={"q": {"1"}})(model))
