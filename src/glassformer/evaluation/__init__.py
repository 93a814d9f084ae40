"""Evaluation: metrics with confidence intervals, baselines, comparisons, error analysis, and parity with the reference.

runs.py           run folders, and their evaluated splits      compare/          runs, seeds and precisions side by side
evaluate.py       a model on rows → a report                   error_analysis/   confusion matrix, losses, corrections
reproduce.py      published results next to ours                parity.py         numerical parity with the reference
bench.py          speed of each precision                      request.py        an evaluation by its options
listening.py      what a model of sound listens to
"""
