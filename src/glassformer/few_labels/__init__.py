"""Few-shot and zero-shot text classification: methods that learn from few labels, or from none, under one interface.

    labelled = LabelledTexts.of(["it crashes", "please add a button"], ["bug", "feature"])
    method = make_method("contrastive", Setting(model="all-MiniLM-L6-v2"))
    method.fit(labelled, unlabelled=["it hangs", …]).predict(["the window is black"])        ["bug"]

Read in this order:

    rows.py          texts with labels: selected, held out, checked for leaks
    method.py        the interface of a method, what it may use, and METHODS, one line a method
    thresholds.py    from which score on a label of several holds
    label_heads.py   classifiers on features
    counts.py …      a method each, with its paper
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from glassformer.files.lazy import LazyPackage

if TYPE_CHECKING:
    from glassformer.few_labels.method import METHODS, Method, Setting, find_method, make_method, register
    from glassformer.few_labels.rows import LabelledTexts

__all__ = ["METHODS", "LabelledTexts", "Method", "Setting", "find_method", "make_method", "register"]

_LAZY = {
    "METHODS": "glassformer.few_labels.method",
    "LabelledTexts": "glassformer.few_labels.rows",
    "Method": "glassformer.few_labels.method",
    "Setting": "glassformer.few_labels.method",
    "find_method": "glassformer.few_labels.method",
    "make_method": "glassformer.few_labels.method",
    "register": "glassformer.few_labels.method",
}

sys.modules[__name__].__class__ = LazyPackage
