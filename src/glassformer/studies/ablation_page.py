"""HTML page of an ablation: the finding in sentences, the table, a chart of the systems, and what they heard."""

from __future__ import annotations

from html import escape

from glassformer.evaluation.compare.comparison import STYLE, ComparedSystem, Comparison, metric_chart
from glassformer.reports.page import scroll_region
from glassformer.reports.table import html_table
from glassformer.runs.charts import clock
from glassformer.runs.curves import chart_page
from glassformer.studies.ablation_results import METRICS, SEARCHES, AblationResults, transcripts_table

TRANSCRIPTS = 20
OWN_STYLE = """
.said { margin: 14px 0; max-width: 56rem; } .said li { margin: 6px 0; }
h2 + .dim { margin: -6px 0 10px; }
"""


def ablation_page(results: AblationResults) -> str:
    """The page as one self-contained HTML file without a script."""
    title = f"Ablation: {', '.join(results.names)}, without and with a language model"
    seeds = len(results.seeds(results.names[-1]))
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in results.sentences)
    body = [
        f"<main><h1>{escape(title)}</h1>",
        f"<p class='dim'>{seeds} of {results.planned} trainings in {clock(results.seconds)}</p>",
        f"<ul class='said'>{sentences}</ul>",
        f"<h2>Error rates</h2><p class='dim'>{escape(results.caption)}</p>",
        scroll_region("error rates", results.table.html()),
        *(_charts(results, test) for test in results.test_sets),
        *(_transcripts(results, test) for test in results.test_sets),
        "<h2>How it was made</h2><ul class='said'>",
        *(f"<li>{escape(note)}</li>" for note in results.notes),
        "</ul></main>",
    ]
    return chart_page(title, body, style=STYLE + OWN_STYLE)


def _charts(results: AblationResults, test: str) -> str:
    """A dot and an interval for each system."""
    systems = [
        ComparedSystem(
            name=f"{name}, {label}",
            metrics={long: results.rate(metric, name, fused, test) for metric, long in METRICS.items()},
        )
        for name in results.names
        for fused, label in SEARCHES.items()
    ]
    metrics = list(METRICS.values())
    compared = Comparison(
        task="transcribe", caption="", systems=systems, shown=dict.fromkeys(metrics, 3), metric=metrics[0], higher=False
    )
    charts = "".join(metric_chart(metric, compared) for metric in metrics)
    return f"<h2>On {escape(test)}</h2><div class='charts'>{charts}</div>"


def _transcripts(results: AblationResults, test: str) -> str:
    headings, rows = transcripts_table(results, test, TRANSCRIPTS)
    if not rows:
        return ""
    table = html_table(headings, rows).replace("<table>", '<table class="words">')
    return (
        f"<h2>Heard differently</h2><p class='dim'>recordings of {escape(test)} that at least one system got wrong, "
        f"and not all alike; at most {TRANSCRIPTS}</p>{scroll_region('transcripts', table)}"
    )
