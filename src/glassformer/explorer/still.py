"""Still pages: what a notebook is saved with of a page, and shows where no kernel runs, as pictures and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from glassformer.explorer.readings import explains_quickly
from glassformer.explorer.registry import VIEWS
from glassformer.files.lazy import imported
from glassformer.inspect.generation_trace import GenerationTrace
from glassformer.inspect.head import AttentionHead
from glassformer.inspect.patterns import own_patterns
from glassformer.inspect.session import Session
from glassformer.reports.report import Display
from glassformer.reports.table import Table


@dataclass(frozen=True)
class StillPage(Display):
    """Pictures and tables of a view.

    caption: what it shows
    """

    caption: str
    shown: Sequence[Table]
    notes: Sequence[str] = ("Run the cell for the page, in which the text can be changed.",)

    def tables(self) -> list[Table]:
        """The map of a head, the tokens of a text, or the tables of a report."""
        return list(self.shown)


def of_head(head: AttentionHead, finding: str = "") -> StillPage:
    """The map of a head."""
    return StillPage(finding, [replace(table, caption=f"{head.caption} {table.caption}") for table in head.tables()])


def of_generation(trace: GenerationTrace, node: int) -> StillPage:
    """A generated text, and at each of its tokens the likeliest ones."""
    written = "".join(trace.tree.nodes[each].text for each in trace.tree.path(node))
    below = "Each row is a token that was written, and what the model thought likeliest there, with its probability."
    caption = f"“{trace.prompt}” goes on: “{written.strip()}”".replace("\n", " ↵ ")
    return StillPage(caption, [trace.choices(node)], (below, *StillPage.notes))


def of_view(session: Session, view: str | None) -> StillPage | None:
    """What a view of a session shows without being asked; None: it has no report, or one that takes long."""
    if view not in REPORTS or (view == "attribution" and not explains_quickly(session)):
        return None
    report = REPORTS[view](session)
    return StillPage(" ".join(report.above), list(report.tables()), (*report.below, *StillPage.notes))


def _answer(view: str) -> Callable[[Session], Display]:
    """The report that answers a view."""
    return lambda session: imported(VIEWS[view].answer)(session)


REPORTS: dict[str, Callable[[Session], Display]] = {
    "lens": lambda session: session.lens(),
    "attribution": lambda session: session.attribute(),
    "masks": lambda session: next(iter(own_patterns(session).values())),
    **{view: _answer(view) for view in ("architecture", "route", "quantisation")},
}
"""View → its report of a session."""
