"""Tasks: what a model learns from rows, predicts and is scored on; and pipelines, from a text to an answer.

Read in this order:

    base.py           Task: encode, augment, collate, unbatch, decode, metric, metrics, baselines
    registry.py       tasks by their names
    microbatch.py     examples as one call of the network reads them, and run_batches, the one loop that runs it
    classify/         the first task: kinds.py (labels), task.py, baselines.py, pipeline.py
    tag/ span.py causal/ masked.py seq2seq/ pretrain.py   the others
    images.py contrastive.py generate_image.py    tasks of images: pairs of image and text, colours ·
                      table_cells.py: cells of a table · regions.py answer_image.py pretrain_image.py: LXMERT
    metrics/          metric.py (batch by batch; confidence intervals), and one module a kind of score
    predictions.py    the prediction for each row, in files
    pipelines.py      what pipelines have in common: one text, a list, or a stream of them
    pipeline_registry.py    pipeline(task, model), by Hugging Face's names · results.py: what pipelines answer with
    generate/         pipelines that generate text, their settings, and prompts
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from glassformer.files.lazy import LazyPackage

if TYPE_CHECKING:
    from glassformer.tasks.pipeline_registry import PIPELINES, pipeline
    from glassformer.tasks.pipelines import Pipeline

__all__ = ["PIPELINES", "Pipeline", "pipeline"]

_LAZY = {
    "PIPELINES": "glassformer.tasks.pipeline_registry",
    "Pipeline": "glassformer.tasks.pipelines",
    "pipeline": "glassformer.tasks.pipeline_registry",
}

sys.modules[__name__].__class__ = LazyPackage
