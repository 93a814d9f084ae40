"""`glassformer generate MODEL PROMPT --watch`: the choice at every step, while it is made.

Once upon a time, there was a little                each token on the colour of its probability
step 6 of 40 · 1.02 bits · top-k 5 keeps 5 of 512
▶ " girl"  ████████████████     64.0 %   72.3 %      the likeliest tokens, and what the options make of them
  " boy"   ████                 15.9 %   18.0 %
  " dog"   ▏                     0.6 %      cut
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from glassformer.cli.screen import bar, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text
    from rich.tree import Tree

    from glassformer.generation.options import Options
    from glassformer.inspect.tree import Candidate, Node, Place, Step
    from glassformer.inspect.writing import Writing, Written
    from glassformer.model import Model

BAR = 28
LONGEST_TOKEN = 18
BARS, BARS_OF_BEAMS = 10, 5
LINES_BESIDE = 6
"""What is on the screen but text and bars: the method, the step, two of the table's, the legend, the cursor's."""
LEAST = 0.001
"""Probability at the dark end of the colours."""
CIVIDIS = ((0, 34, 78), (53, 69, 108), (102, 105, 112), (148, 142, 119), (200, 184, 102), (254, 232, 56))


def watch(model: Model, prompt: str, options: dict[str, Any], console: Console | None = None) -> None:
    """Write a text and show each choice; on a pipe, a line a step.

    What was written stays when Ctrl-C comes.
    """
    from rich.console import Console

    console = console or Console(highlight=False)
    writing = model.writing(prompt)
    asked = writing.asked(**options)
    shown: Screen | Lines = Screen(writing, asked, console) if console.is_terminal else Lines(writing, asked)
    with shown:
        try:
            written = writing.write(asked, watch=shown.see)
        except KeyboardInterrupt:
            shown.interrupted()
            raise
        shown.end(written)


class Lines:
    """For a pipe: a line a step, and at last the text."""

    def __init__(self, writing: Writing, asked: Options) -> None:
        self._writing = writing
        self._asked = asked
        self._steps = 0
        self._last: Step | None = None

    def __enter__(self) -> Lines:
        typer.echo(method(self._asked))
        typer.echo(f"step  {'chosen':{LONGEST_TOKEN}} {'prob.':>7}  entropy     likeliest")
        return self

    def __exit__(self, *error: object) -> None:
        return

    def see(self, step: Step) -> None:
        """One step; of several texts, that of the best."""
        self._steps, self._last = self._steps + 1, step
        best = next(iter(step.live or step.ended), None)
        if best is None:
            return
        node = self._writing.nodes[best.node]
        choice = self._writing.tree.choices[node.parent]
        others = "  ".join(f"{quoted(each)} {percent(each.logprob)}" for each in choice.top[:3])
        typer.echo(
            f"{self._steps:4d}  {quoted(node):{LONGEST_TOKEN}} {percent(node.logprob):>7}"
            f"  {choice.entropy / math.log(2):5.2f} bits  {others}"
        )

    def interrupted(self) -> None:
        for place in _standing(self._last):
            typer.echo(self._writing.text(place.node))

    def end(self, written: Written) -> None:
        typer.echo()
        for answer in written.answers:
            if len(written.answers) > 1:
                typer.echo(f"score {answer.score:.3f}")
            typer.echo(_lines(answer.text))


class Screen:
    """For a terminal: a picture that is drawn anew with each step."""

    def __init__(self, writing: Writing, asked: Options, console: Console) -> None:
        from rich.live import Live

        self._writing = writing
        self._asked = asked
        self._console = console
        self._steps = 0
        self._last: Step | None = None
        self._live = Live(get_renderable=self.picture, console=console, transient=True, refresh_per_second=12)

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def see(self, step: Step) -> None:
        self._steps, self._last = self._steps + 1, step

    def interrupted(self) -> None:
        """Show what was written."""
        self._live.stop()
        for place in _standing(self._last)[:1]:
            self._console.print(self._text(place.node))

    def end(self, written: Written) -> None:
        """Show the text, or all of them, in full."""
        self._live.stop()
        for answer in written.answers:
            if len(written.answers) > 1:
                self._console.print(f"score {answer.score:.3f}, {answer.reason}", style="cyan")
            self._console.print(self._text(answer.node))
        self._console.print(legend())

    def picture(self) -> RenderableType:
        """What is on the screen."""
        from rich.console import Group
        from rich.text import Text

        parts: list[RenderableType] = [_one_line(Text(method(self._asked), style="dim"))]
        step = self._last
        best = next(iter(_standing(step)), None)
        if step is None or best is None:
            return Group(*parts, Text("reading the prompt …"))
        several = len({*step.live, *step.ended}) > 1
        bars = BARS_OF_BEAMS if several else BARS
        room = max(3, self._console.height - LINES_BESIDE - bars)
        parts.append(self._tree(step, room) if several else self._end_of_text(best.node, room))
        return Group(*parts, self._choice(best.node, bars), _one_line(legend()))

    # ----------------------------------------------------------------------------------------------- the text

    def _text(self, node: int) -> Text:
        """Prompt and text, each token on the colour of its probability."""
        from rich.text import Text

        text = Text()
        text.append(_lines(self._writing.prompt), style="dim")
        if self._writing.side == "target":
            text.append("\n")
        return text.append_text(coloured(self._path(node)))

    def _end_of_text(self, node: int, room: int) -> Text:
        """As much of the text as there is room for, from its end."""
        from rich.text import Text

        lines = self._text(node).wrap(self._console, self._console.width)
        return Text("\n").join([*lines][-room:])

    def _path(self, node: int) -> list[Node]:
        return [self._writing.nodes[each] for each in self._writing.tree.path(node)]

    # ----------------------------------------------------------------------------------------------- a choice

    def _choice(self, node: int, bars: int) -> RenderableType:
        """The likeliest tokens of the step that chose a node, and what the options left of them."""
        from rich.console import Group
        from rich.text import Text

        chosen = self._writing.nodes[node]
        choice = self._writing.tree.choices[chosen.parent]
        vocabulary = self._writing.vocabulary
        words = (
            f"step {chosen.depth} of {self._asked.max_new_tokens} · {choice.entropy / math.log(2):.2f} bits"
        )
        if choice.kept < vocabulary:
            odds = self._writing.odds(chosen.parent)
            mass = float(odds.model[odds.drawn.isfinite()].exp().sum())
            words += f" · {choice.kept:,} of {vocabulary:,} tokens kept, with {mass:.1%} of the probability"
        return Group(_one_line(Text(words, style="bold")), self._bars(choice.top[:bars], chosen))

    def _bars(self, top: Sequence[Candidate], chosen: Node) -> Table:
        from rich.table import Table
        from rich.text import Text

        changed = any(each.filtered_logprob != each.logprob for each in top)
        table = Table(box=None, show_header=changed, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
        table.add_column("")
        table.add_column("", max_width=LONGEST_TOKEN, no_wrap=True, overflow="ellipsis")
        table.add_column("")
        table.add_column("model", justify="right", no_wrap=True)
        if changed:
            table.add_column("chosen from", justify="right", no_wrap=True)
        width = min(BAR, max(6, self._console.width - LONGEST_TOKEN - 28))
        listed: list[Candidate | Node] = [*top]
        if all(each.token != chosen.token for each in top):
            listed[-1] = chosen
        for each in listed:
            here, cut = each.token == chosen.token, each.filtered_logprob is None
            style = "bold" if here else "dim" if cut else ""
            share = 0.0 if each.logprob is None else math.exp(each.logprob)
            row = ["▶" if here else " ", quoted(each), bar(share, width), percent(each.logprob)]
            row += ["cut" if cut else percent(each.filtered_logprob)] if changed else []
            table.add_row(*(Text(cell) for cell in row), style=style)
        rest = 1 - sum(math.exp(each.logprob) for each in listed if each.logprob is not None)
        table.add_row(
            *(Text(cell) for cell in ("", "all others", bar(rest, width), f"{max(0.0, rest):.1%}")),
            style="dim",
        )
        return table

    # ------------------------------------------------------------------------------------------------ the tree

    def _tree(self, step: Step, room: int) -> Tree:
        """Where the texts part: of those carried on and those that ended, as many of the best as there is room for."""
        from rich.text import Text
        from rich.tree import Tree

        places = {place.node: place for place in (*step.ended, *step.live)}
        children: dict[int, list[int]] = {}
        for node in sorted(places, key=lambda node: _order(places[node]))[: room // 2]:
            for parent, child in _links(self._writing.tree.path(node)):
                if child not in children.setdefault(parent, []):
                    children[parent].append(child)

        def grow(tree: Tree, node: int) -> None:
            for child in children.get(node, ()):
                chain = [child]
                while chain[-1] not in places and len(children.get(chain[-1], ())) == 1:
                    chain.append(children[chain[-1]][0])
                label = coloured([self._writing.nodes[each] for each in chain])
                grow(tree.add(self._signed(label, places.get(chain[-1]))), chain[-1])

        prompt = _lines(self._writing.prompt)
        root = Tree(Text(prompt if len(prompt) < 60 else "… " + prompt[-56:], style="dim"), guide_style="dim")
        grow(root, 0)
        return root

    def _signed(self, label: Text, place: Place | None) -> Text:
        """With the score of the text that stands or ends here."""
        from rich.text import Text

        if place is None:
            return label
        score = "" if place.score is None else f"{place.score:.2f}"
        return Text.assemble(label, f"  {score}", (" ■" if place.reason else " …", "dim"))


def method(asked: Options) -> str:
    """How it is written, in words."""
    drawn = ["drawn", *_given(asked, "temperature", "top_k", "top_p", "min_p", "typical_p", "seed")]
    if asked.num_beams == 1:
        return ", ".join(drawn) if asked.do_sample else "greedy search: always the likeliest token"
    groups = f" in {asked.num_beam_groups} groups" if asked.num_beam_groups > 1 else ""
    words = [f"{asked.num_beams} beams{groups}", *_given(asked, "diversity_penalty", "length_penalty")]
    return ", ".join([*words, *(drawn if asked.do_sample else [])])


def _given(asked: Options, *names: str) -> list[str]:
    """`temperature 0.8`, `top-k 50`"""
    given = {name: getattr(asked, name) for name in names}
    return [
        f"{name.replace('_', '-') if len(name) < 6 else name.replace('_', ' ')} {value}"
        for name, value in given.items()
        if value is not None
    ]


def coloured(path: Iterable[Node]) -> Text:
    """The tokens of a path: on the colour of their probability, and underlined where another was likelier."""
    from rich.text import Text

    text = Text()
    for node in path:
        said = _lines(node.text) or (visible(node.piece) if node.special else "")
        text.append(said, style=f"{colours(node.logprob)}{' underline' if node.rank > 1 else ''}")
    return text


def colours(logprob: float | None) -> str:
    """Cividis by log-probability, from 0.1 % to 100 %, and what can be read on it."""
    share = 0.0 if logprob is None else min(1.0, max(0.0, 1 - logprob / math.log(LEAST)))
    place = share * (len(CIVIDIS) - 1)
    low, part = CIVIDIS[int(place)], place - int(place)
    high = CIVIDIS[min(int(place) + 1, len(CIVIDIS) - 1)]
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    bright = sum(w * (c / 255) ** 2.2 for w, c in zip((0.21, 0.72, 0.07), (red, green, blue), strict=True))
    ink = "rgb(0,0,0)" if bright > 0.18 else "rgb(255,255,255)"
    return f"{ink} on rgb({red},{green},{blue})"


def legend() -> Text:
    from rich.text import Text

    text = Text()
    text.append("probability ", style="dim")
    for share in (0.001, 0.01, 0.1, 0.3, 1.0):
        text.append(f" {share:.1%} " if share < 0.01 else f" {share:.0%} ", style=colours(math.log(share)))
    return text.append("  underlined: another was likelier", style="dim")


def quoted(token: Candidate | Node) -> str:
    """A token as text, its space seen; the vocabulary's entry where it is no text by itself."""
    return f'"{visible(token.text)}"' if token.text else visible(token.piece)


def _one_line(text: Text) -> Text:
    """The text, cut rather than wrapped."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def percent(logprob: float | None) -> str:
    share = 0.0 if logprob is None else math.exp(logprob)
    return f"{share:.1%}" if share >= 0.0005 or not share else "<0.1%"


def _lines(text: str) -> str:
    """The text with its lines, and nothing in it that could steer the terminal."""
    return "\n".join(visible(line) for line in text.split("\n"))


def _standing(step: Step | None) -> tuple[Place, ...]:
    """Where the texts stand, the best first."""
    return () if step is None else step.live or step.ended


def _order(place: Place) -> float:
    return math.inf if place.score is None else -place.score


def _links(path: Sequence[int]) -> Iterator[tuple[int, int]]:
    yield from zip((0, *path), path, strict=False)
