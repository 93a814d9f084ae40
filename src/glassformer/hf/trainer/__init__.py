"""A `Trainer` for code that was written for the reference library's.

arguments.py      TrainingArguments: its options
callbacks.py      state, control flags, early stopping
examples.py       batches: their order, the columns that a model reads, their labels
evaluation.py     evaluate and predict; logs and saved models
checkpoints.py    folders of checkpoints, resumed
trainer.py        the training loop, and what is due after a step: start there
"""
