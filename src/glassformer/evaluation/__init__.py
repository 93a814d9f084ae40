"""Evaluation: metrics with confidence intervals, baselines, comparisons, error analysis, and parity with the reference.

evaluate.py, report.py    a model on rows → a report        compare/          runs, seeds and precisions side by side
runs.py, splits.py        run folders and their splits      error_analysis/   confusion matrix, losses, corrections
bench.py                  speed of each precision           parity.py         numerical parity with the reference
                                                            book/             published results, reproduced
"""
