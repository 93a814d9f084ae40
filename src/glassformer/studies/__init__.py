"""Data studies: one model trained on several sets, and evaluated on several others, to plot learning curves.

plan.py      the sets to train and to evaluate on        study.py   what is trained; trains and evaluates it
results.py   a table, learning curves and crossings      page.py    the same as HTML
"""
