"""From a trained model to a report that one can believe.

    rows ──judge──> records (what was said of each row, and its loss) ──> figures with intervals ─┐
      └── baselines ──> what they say of the same rows ──────────────> figures ──────────────────┴─> Report

evaluate.py   from rows to a report    judge.py, judges/   one a task       records.py   what was said of each row
report.py     what is told             baselines/          what it takes to be better than
runs.py       folders of runs          comparing/ studies/ mistakes/ book/   what is made of reports and records
"""

from glassformer.judging.evaluate import Evaluation, evaluate
from glassformer.judging.records import Record
from glassformer.judging.report import Report

__all__ = ["Evaluation", "Record", "Report", "evaluate"]
