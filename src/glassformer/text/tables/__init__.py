"""Tables as the input of a model.

table.py      rows and columns of text, from dicts, lists, frames and CSV rows
values.py     numbers and dates in text
encode.py     question and table → tokens, each with its column, row, ranks and relation to the question
"""
