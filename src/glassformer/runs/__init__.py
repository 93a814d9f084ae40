"""Runs: the configuration, data and options of a training, its folder, lock and event log, and its training curves.

config.py, presets.py, options.py   the YAML configuration     data.py          its training and validation rows
folder.py, lock.py                  the run folder             event_log.py     journal.jsonl
history.py, charts.py, curves.py    training curves            environment.py   versions and hardware

A run can be read here without the code that trains.
"""
