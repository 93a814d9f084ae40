"""scikit-learn: choose a classifier of sentence embeddings by cross-validation.

pip install 'glassformer[evaluate]'
python sklearn_grid.py [MODEL]
"""

import sys

from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from glassformer.integrations.sklearn import Embedder

texts = [
    "so glad to see you",
    "leave me alone",
    "what a joy",
    "I hate this",
    "best day ever",
    "this makes me furious",
] * 3
labels = ["joy", "anger"] * 9

model = sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2"
pipeline = make_pipeline(Embedder(model), LogisticRegression())
grid = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1, 10]}, cv=3).fit(texts, labels)
print(grid.best_params_, grid.best_score_)
print(grid.predict(["how wonderful", "go away"]))
