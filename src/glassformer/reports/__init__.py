"""Reports: results as data, with a kind, tables and charts, and the page of each.

Read in this order:

    report.py     Report: JSON, terminal, notebook and page of a result, derived from its fields
    table.py      tables as text, Markdown and HTML; counts and bytes as text
    charts.py     line charts, trade-offs and texts side by side, as data · braille.py: line charts in characters
    page.py       the page of a report, and what every HTML page is made of
    kinds.py      a report read back from its JSON, by its kind
"""
