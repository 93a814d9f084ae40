"""Live view of text generation on a terminal: the token distribution of each step, and the chosen token.

    watch(model.writing("Once upon a time"), do_sample=True, top_k=5)      also: glassformer generate … --watch

Once upon a time, there was a little                each token coloured by its probability
step 6 of 40 · 1.02 bits · top-k 5 keeps 5 of 512
▶ " girl"  ████████████████     64.0%   72.3%      the most likely tokens, by the model and after filtering
  " boy"   ████                 15.9%   18.0%
  " dog"   ▏                     0.6%      cut
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from glassformer.reports.table import bar, percent, shown_text

if TYPE_CHECKING:
    from rich.tree import Tree

    from glassformer.generation.options import GenerationOptions
    from glassformer.inspect.generation_trace import GenerationTrace, TraceResult
    from glassformer.inspect.token_tree import Candidate, Leaf, TokenNode, TreeStep

BAR = 28
"""Widest bar, in characters: with the other columns, a line of 80."""
TOKEN_WIDTH = 18
"""Characters of a token: nearly all are shorter, and the columns stay aligned."""
BARS, BARS_OF_BEAMS = 10, 5
"""Tokens listed for each step; of several beams fewer, so that two of them fit on a screen."""
OTHER_LINES = 6
"""Lines of the screen besides text and bars: method, step, two of the table, legend, cursor."""
MIN_PROBABILITY = 0.001
"""Probability at the dark end of the colour map."""
# Cividis looks similar to colour-blind people.
CIVIDIS = ((0, 34, 78), (53, 69, 108), (102, 105, 112), (148, 142, 119), (200, 184, 102), (254, 232, 56))


def watch(trace: GenerationTrace, console: Console | None = None, **options: Any) -> TraceResult:
    """Generate a text and show each step; on a pipe, one line per step.

    After Ctrl-C, the text generated until then stays on the screen.

    Args:
        trace: of the prompt, from `Model.writing`
        console: None = standard output
        options: as in `Model.generate`
    """
    console = console or Console(highlight=False)
    settings = trace.resolve_options(**options)
    view: LiveView | StepLines = (
        LiveView(trace, settings, console) if console.is_terminal else StepLines(trace, settings)
    )
    with view:
        try:
            result = trace.write(settings, on_step=view.update)
        except KeyboardInterrupt:
            view.interrupted()
            raise
        view.end(result)
    return result


class StepLines:
    """The view for a pipe: one line per step, and the text at the end."""

    def __init__(self, trace: GenerationTrace, options: GenerationOptions) -> None:
        self._trace = trace
        self._options = options
        self._steps = 0
        self._last: TreeStep | None = None

    def __enter__(self) -> StepLines:
        _print(method(self._options))
        _print(f"step  {'chosen':{TOKEN_WIDTH}} {'prob.':>7}  entropy     most likely")
        return self

    def __exit__(self, *error: object) -> None:
        return

    def update(self, step: TreeStep) -> None:
        """Print one step; of several texts, that of the best."""
        self._steps, self._last = self._steps + 1, step
        best = next(iter(_current(step)), None)
        if best is None:
            return
        node = self._trace.nodes[best.node]
        choice = self._trace.tree.choices[node.parent]
        others = "  ".join(f"{quoted(token)} {probability(token.logprob)}" for token in choice.top[:3])
        _print(
            f"{self._steps:4d}  {quoted(node):{TOKEN_WIDTH}} {probability(node.logprob):>7}"
            f"  {choice.entropy:5.2f} bits  {others}"
        )

    def interrupted(self) -> None:
        for leaf in _current(self._last):
            _print(shown_text(self._trace.text(leaf.node)))

    def end(self, result: TraceResult) -> None:
        _print()
        for answer in result.answers:
            if len(result.answers) > 1:
                _print(f"score {answer.score:.3f}")
            _print(shown_text(answer.text))


class LiveView:
    """The view for a terminal: a picture that is redrawn at each step."""

    def __init__(self, trace: GenerationTrace, options: GenerationOptions, console: Console) -> None:
        from rich.live import Live

        self._trace = trace
        self._options = options
        self._console = console
        self._steps = 0
        self._last: TreeStep | None = None
        self._live = Live(get_renderable=self.picture, console=console, transient=True, refresh_per_second=12)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def update(self, step: TreeStep) -> None:
        self._steps, self._last = self._steps + 1, step

    def interrupted(self) -> None:
        """Show the text generated until Ctrl-C."""
        self._live.stop()
        for leaf in _current(self._last)[:1]:
            self._console.print(self._text(leaf.node))

    def end(self, result: TraceResult) -> None:
        """Show the text, or all of them, in full."""
        self._live.stop()
        for answer in result.answers:
            if len(result.answers) > 1:
                self._console.print(f"score {answer.score:.3f}, {answer.reason}", style="cyan")
            self._console.print(self._text(answer.node))
        self._console.print(legend())

    def picture(self) -> RenderableType:
        parts: list[RenderableType] = [_one_line(Text(method(self._options), style="dim"))]
        step = self._last
        best = next(iter(_current(step)), None)
        if step is None or best is None:
            return Group(*parts, Text("reading the prompt …"))
        several = len({*step.live, *step.ended}) > 1
        bars = BARS_OF_BEAMS if several else BARS
        room = max(3, self._console.height - OTHER_LINES - bars)
        parts.append(self._tree(step, room) if several else self._end_of_text(best.node, room))
        return Group(*parts, self._choice(best.node, bars), _one_line(legend()))

    def _text(self, node: int) -> Text:
        """Prompt and text, each token coloured by its probability."""
        text = Text()
        text.append(shown_text(self._trace.prompt), style="dim")
        if self._trace.stream == "target":
            text.append("\n")
        return text.append_text(coloured(self._path(node)))

    def _end_of_text(self, node: int, room: int) -> Text:
        """The last lines of the text, as many as there is room for."""
        lines = self._text(node).wrap(self._console, self._console.width)
        return Text("\n").join([*lines][-room:])

    def _path(self, node: int) -> list[TokenNode]:
        return [self._trace.nodes[number] for number in self._trace.tree.path(node)]

    def _choice(self, node: int, bars: int) -> RenderableType:
        """The most likely tokens at the step that chose a node, before and after filtering."""
        chosen = self._trace.nodes[node]
        choice = self._trace.tree.choices[chosen.parent]
        vocabulary = self._trace.vocabulary
        words = f"step {chosen.depth} of {self._options.max_new_tokens} · {choice.entropy:.2f} bits"
        if choice.remaining < vocabulary:
            probe = self._trace.distribution(chosen.parent)
            mass = float(probe.model[probe.filtered.isfinite()].exp().sum())
            words += f" · {choice.remaining:,} of {vocabulary:,} tokens kept, with {mass:.1%} of the probability"
        return Group(_one_line(Text(words, style="bold")), self._bars(choice.top[:bars], chosen))

    def _bars(self, top: Sequence[Candidate], chosen: TokenNode) -> Table:
        changed = any(candidate.filtered_logprob != candidate.logprob for candidate in top)
        table = Table(box=None, show_header=changed, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
        table.add_column("")
        table.add_column("", max_width=TOKEN_WIDTH, no_wrap=True, overflow="ellipsis")
        table.add_column("")
        table.add_column("model", justify="right", no_wrap=True)
        if changed:
            table.add_column("chosen from", justify="right", no_wrap=True)
        width = min(BAR, max(6, self._console.width - TOKEN_WIDTH - 28))
        listed: list[Candidate | TokenNode] = [*top]
        if all(candidate.token != chosen.token for candidate in top):
            listed[-1] = chosen
        for token in listed:
            here, cut = token.token == chosen.token, token.filtered_logprob is None
            style = "bold" if here else "dim" if cut else ""
            share = 0.0 if token.logprob is None else math.exp(token.logprob)
            row = ["▶" if here else " ", quoted(token), bar(share, width), probability(token.logprob)]
            row += ["cut" if cut else probability(token.filtered_logprob)] if changed else []
            table.add_row(*(Text(cell) for cell in row), style=style)
        rest = 1 - sum(math.exp(token.logprob) for token in listed if token.logprob is not None)
        table.add_row(
            *(Text(cell) for cell in ("", "all others", bar(rest, width), f"{max(0.0, rest):.1%}")),
            style="dim",
        )
        return table

    def _tree(self, step: TreeStep, room: int) -> Tree:
        """The tree of the texts, as many of the best live and finished ones as there is room for."""
        from rich.tree import Tree

        leaves = {leaf.node: leaf for leaf in (*step.ended, *step.live)}
        children: dict[int, list[int]] = {}
        for node in sorted(leaves, key=lambda node: _order(leaves[node]))[: room // 2]:
            for parent, child in _links(self._trace.tree.path(node)):
                if child not in children.setdefault(parent, []):
                    children[parent].append(child)

        def grow(tree: Tree, node: int) -> None:
            for child in children.get(node, ()):
                chain = [child]
                while chain[-1] not in leaves and len(children.get(chain[-1], ())) == 1:
                    chain.append(children[chain[-1]][0])
                label = coloured([self._trace.nodes[number] for number in chain])
                grow(tree.add(self._scored(label, leaves.get(chain[-1]))), chain[-1])

        prompt = shown_text(self._trace.prompt)
        root = Tree(Text(prompt if len(prompt) < 60 else "… " + prompt[-56:], style="dim"), guide_style="dim")
        grow(root, 0)
        return root

    def _scored(self, label: Text, leaf: Leaf | None) -> Text:
        """A label with the score of the text whose last token this is, if any."""
        if leaf is None:
            return label
        score = "" if leaf.score is None else f"{leaf.score:.2f}"
        return Text.assemble(label, f"  {score}", (" ■" if leaf.reason else " …", "dim"))


def method(options: GenerationOptions) -> str:
    """The decoding method in words."""
    sampling = ["sampled", *_in_words(options, "temperature", "top_k", "top_p", "min_p", "typical_p", "seed")]
    if options.num_beams == 1:
        return ", ".join(sampling) if options.do_sample else "greedy decoding: always the most likely token"
    groups = f" in {options.num_beam_groups} groups" if options.num_beam_groups > 1 else ""
    words = [f"{options.num_beams} beams{groups}", *_in_words(options, "diversity_penalty", "length_penalty")]
    return ", ".join([*words, *(sampling if options.do_sample else [])])


def _in_words(options: GenerationOptions, *names: str) -> list[str]:
    """Options that are set: `temperature 0.8`, `top-k 50`"""
    values = {name: getattr(options, name) for name in names}
    return [
        f"{name.replace('_', '-') if len(name) < 6 else name.replace('_', ' ')} {value}"
        for name, value in values.items()
        if value is not None
    ]


def coloured(path: Iterable[TokenNode]) -> Text:
    """The tokens of a path, coloured by probability, and underlined where another was more likely."""
    text = Text()
    for node in path:
        shown = shown_text(node.text) or (_shown_line(node.piece) if node.special else "")
        text.append(shown, style=f"{colours(node.logprob)}{' underline' if node.rank > 1 else ''}")
    return text


def colours(logprob: float | None) -> str:
    """The cividis colour of a log-probability, from 0.1% to 100%, with black or white text on it."""
    share = 0.0 if logprob is None else min(1.0, max(0.0, 1 - logprob / math.log(MIN_PROBABILITY)))
    position = share * (len(CIVIDIS) - 1)
    low, fraction = CIVIDIS[int(position)], position - int(position)
    high = CIVIDIS[min(int(position) + 1, len(CIVIDIS) - 1)]
    red, green, blue = (round(a + (b - a) * fraction) for a, b in zip(low, high, strict=True))
    # Relative luminance as in WCAG 2; above 0.18 black text has the larger contrast.
    luminance = sum(w * (c / 255) ** 2.2 for w, c in zip((0.21, 0.72, 0.07), (red, green, blue), strict=True))
    ink = "rgb(0,0,0)" if luminance > 0.18 else "rgb(255,255,255)"
    return f"{ink} on rgb({red},{green},{blue})"


def legend() -> Text:
    text = Text()
    text.append("probability ", style="dim")
    for share in (0.001, 0.01, 0.1, 0.3, 1.0):
        text.append(f" {share:.1%} " if share < 0.01 else f" {share:.0%} ", style=colours(math.log(share)))
    return text.append("  underlined: another was more likely", style="dim")


def quoted(token: Candidate | TokenNode) -> str:
    """A token as quoted text; its vocabulary entry if it is no text by itself."""
    return f'"{_shown_line(token.text)}"' if token.text else _shown_line(token.piece)


def _shown_line(text: str) -> str:
    return shown_text(text).replace("\n", "\\n")


def _print(line: str = "") -> None:
    print(line, flush=True)  # the reader of a pipe sees each step when it is made


def _one_line(text: Text) -> Text:
    """The text, truncated rather than wrapped."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def probability(logprob: float | None) -> str:
    return percent(0.0 if logprob is None else math.exp(logprob), 1)


def _current(step: TreeStep | None) -> tuple[Leaf, ...]:
    """The texts that go on, or else those that ended; the best first."""
    return () if step is None else step.live or step.ended


def _order(leaf: Leaf) -> float:
    return math.inf if leaf.score is None else -leaf.score


def _links(path: Sequence[int]) -> Iterator[tuple[int, int]]:
    yield from zip((0, *path), path, strict=False)
