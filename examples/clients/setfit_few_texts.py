"""SetFit: fine-tune a classifier of sentence embeddings on a few labelled texts: pip install glassformer setfit"""

import sys
from tempfile import TemporaryDirectory

from datasets import Dataset
from setfit import SetFitModel, Trainer, TrainingArguments
from sklearn.linear_model import LogisticRegression

from glassformer.integrations.sentence_transformers import GlassformerSentenceTransformer

texts = ["so glad to see you", "leave me alone", "what a joy", "I hate this", "best day ever", "this makes me furious"]
rows = Dataset.from_dict({"text": texts, "label": [1, 0] * 3})

body = GlassformerSentenceTransformer(sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2")
model = SetFitModel(model_body=body, model_head=LogisticRegression(), labels=["anger", "joy"])
with TemporaryDirectory() as folder:
    options = TrainingArguments(batch_size=4, max_steps=4, output_dir=folder, report_to="none")
    Trainer(model=model, args=options, train_dataset=rows).train()
    model.save_pretrained(folder)  # SetFitModel.from_pretrained(folder) reads it
print(model.predict(["how wonderful", "go away"]))
