"""spaCy with a Glassformer component: pip install glassformer spacy"""

import sys

import spacy

import glassformer.integrations.spacy  # noqa: F401 # registers the component

nlp = spacy.blank("en")
model = sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2"
nlp.add_pipe("glassformer", config={"model": model})
flies, hours, fruit = nlp.pipe(["time flies like an arrow", "the hours pass quickly", "a ripe banana"])
print(f"{flies.similarity(hours):.2f} {flies.similarity(fruit):.2f}")
