"""Data studies: one model trained on several sets, and evaluated on several others, to plot learning curves.

plan.py      the sets to train and to evaluate on        study.py   what is trained; trains and evaluates it
results.py   a table, learning curves and crossings      page.py    the same as HTML
ablation.py  a speech recogniser, pretrained or fine-tuned, without or with a language model: ablation_plan.py,
             ablation_results.py, overlap.py
training.py  trainings of both: resumed, never repeated
trained.py   runs that are evaluated at their end, and those of several seeds
"""
