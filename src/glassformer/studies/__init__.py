"""Studies of factors: data sizes, methods, settings or seeds against quality and cost, with paired differences.

study.py     factors, cells, and what evaluates them: a function, or trainings          report.py, summary.py
training.py  cells that are trainings: resumed, never repeated                      plan.py      their sets and settings
fusion.py    a language model as a factor of a speech recogniser: overlap.py
trained.py   runs that are evaluated at their end, and those of several seeds
"""
