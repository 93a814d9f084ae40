"""From a text to an answer: one object a task, under the names that Hugging Face uses.

Read in this order:

    registry.py     pipeline(task, model): which class does a task
    base.py         what all have in common: one text, a list, or a stream of them
    writing.py      text-generation, text2text-generation, summarization, translation
    filling.py      fill-mask
    reading.py      what tasks that read a text in one pass have in common: many at once, without padding
    classifying.py  text-classification · features.py: feature-extraction
    tagging.py      token-classification · words.py: a text's words · windows.py: long texts
    results.py      what they answer with
    recommended.py  how a model's makers let it write for a task · languages.py: codes of languages
    prompts.py      prompts from examples, TL;DR, and T5's prefixes with the answers to them
    lead.py         the first sentences, which every summary is measured by
    long.py         documents longer than the context, by chunk and merge
    systems.py      whom to compare: lead-3, or a model · rows.py: on what
    compare.py      systems side by side on the same rows, judged · compare_page.py: as a page
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.tasks.pipeline_registry import PIPELINES, pipeline
    from glassformer.tasks.pipelines import Pipeline

__all__ = ["PIPELINES", "Pipeline", "pipeline"]

_LAZY = {
    "PIPELINES": "glassformer.tasks.pipeline_registry",
    "Pipeline": "glassformer.tasks.pipelines",
    "pipeline": "glassformer.tasks.pipeline_registry",
}


if not TYPE_CHECKING:  # a type checker sees the imports above

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module 'glassformer.tasks' has no attribute {name!r}")
        return getattr(import_module(_LAZY[name]), name)
