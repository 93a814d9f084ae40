"""Runs: the configuration, data and options of a training, its folder, lock and event log, and its training curves.

config.py   the YAML configuration, training options, presets    data.py        its training and validation rows
folder.py   the run folder: its files, its lock                  event_log.py   journal.jsonl, and the history in it
charts.py   charts of histories, as SVG                          curves.py      the page of training curves

A run can be read here without the code that trains.
"""
