"""Runs: the configuration, data and options of a training, its folder, lock and event log, and its training curves.

config.py   the YAML configuration, training options, presets; the runs of a file
data.py     its training and validation rows              options.py  values in place of the configuration's
folder.py   the run folder: its files, its event log      history.py  what the log says of a run
digest.py   the steps of a log as columns                 run_list.py all runs of a folder, in one table
curves.py   the page of training curves: charts, tables and verdict
scalars.py  logs of others as ours: event_files.py (TensorBoard), wandb_files.py (Weights & Biases)

A run can be read here without the code that trains.
"""

from __future__ import annotations

from glassformer.task_names import TRAINED

KEYS = {
    "task": f"Task: {', '.join(TRAINED)}.",
    "method.name": "Method of few labels, in place of a training: naive-bayes, nearest-neighbours, contrastive, …",
    "model": "Pretrained model to fine-tune: a folder, or a name on the Hub.",
    "output": "Run folder to write.",
    "device": "Device: cpu, cuda, mps or auto.",
    "trackers": "Experiment tracker: tensorboard, wandb or trackio; repeatable.",
    "data.train": "Training data files; repeatable. With data.fetch or data.folder: also the folder that holds them.",
    "data.validation": "Validation data: a file, or the fraction of the training data to hold out: 0.1.",
    "method.unlabelled": "With --method: file of rows without labels, to learn from too; repeatable.",
    "training.epochs": "Number of epochs; 3 by default, for few rows as many as make 100 steps.",
    "training.steps": "Number of optimiser steps, instead of epochs.",
    "training.learning_rate": "Peak learning rate.",
    "training.batch_size": "Batch size: examples per optimiser step.",
    "training.precision": "Training precision: fp32, or mixed precision in bf16 or fp16.",
    "training.seed": "Random seed.",
    "training.dry_run": "Dry run: do everything but update the weights.",
}
"""Configuration keys that are options of `glassformer train` too: the sentence of each, for `--help` and the docs."""
