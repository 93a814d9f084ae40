"""Watching a model write: every step, what else could have come, and what comes if a person says something else.

    writing = model.writing("Once upon a time")
    writing.write(num_beams=4)                       the same as model.generate, step by step, in a tree
    writing.odds(3).model                            log-probabilities of all tokens behind node 3 [V]
    writing.write(after=3, tokens=[263])             a branch: another token there, and on from it
    writing.session(12).head(4, 9).probs(writing.row(12))        what was looked at when node 12 was chosen

The numbers are those of `generate`: the same writer goes the same way, and an ear among its filters hears the logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import DataError, UnsupportedError
from glassformer.files import shown
from glassformer.generation.options import NEW_TOKENS, Options
from glassformer.generation.stop import Reason
from glassformer.generation.writer import Start, Writer
from glassformer.inspect.growing import Ear, Enough, Growing, Watch
from glassformer.inspect.reading import Reading, Token, special_token
from glassformer.inspect.session import Progress, Session
from glassformer.inspect.tree import Node, Odds, Place, Tree, best_first
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Answer:
    """A text that was written, and why it ended. `score` as in `Place`."""

    node: int
    score: float | None
    reason: Reason | None
    text: str


@dataclass(frozen=True, slots=True)
class Written:
    """What one writing came to.

    answers: what `generate` would have returned · ended: of beams, also those that were not among the best
    """

    answers: tuple[Answer, ...]
    ended: tuple[Place, ...]
    seconds: float


class Writing:
    """One prompt, and all that was written from it: a tree that grows with every call of `write`.

    Args:
        reading: the prompt as the network reads it: a text, a source, or a sound.
    Raises: DataError: there is nothing to read.
    """

    def __init__(self, writer: Writer, reading: Reading, tokenizer: Tokenizer) -> None:
        self.prompt = reading.texts[0]
        self._writer = writer
        self._reading = reading
        self._tokenizer = tokenizer
        ids, features = reading.batch.input_ids, reading.batch.input_features
        given = features if ids is None else ids
        assert given is not None  # the prompt is words or sound
        self._read = given.to(next(writer.network.parameters()).device)
        if writer.answers:
            self._before = [writer.settings.start_id]
            self.before = [special_token(tokenizer, number) for number in self._before]
        else:
            self._before = self._read[0].tolist()
            self.before = reading.sides["text"]
        self.tree = Tree(tokenizer, self._before if not writer.answers else ())

    @property
    def side(self) -> str:
        """Where what is written stands in a session."""
        return "target" if self._writer.answers else "text"

    @property
    def vocabulary(self) -> int:
        return self._writer.settings.vocabulary

    @property
    def max_tokens(self) -> int | None:
        """How many tokens the side on which it is written has room for."""
        return self._writer.network.max_tokens

    # ------------------------------------------------------------------------------------------------ writing

    def asked(self, **options: Any) -> Options:
        """The options as they hold, with a seed where tokens are drawn.

        Raises: ConfigError: options that are unknown, out of range, or do not go together.
        """
        asked = Options.read(options, self._writer.settings)
        if asked.assistant_model is not None:
            raise UnsupportedError(
                "a draft model changes when tokens come and not which; leave assistant_model out where they are watched"
            )
        if asked.do_sample and asked.seed is None:
            return replace(asked, seed=int(torch.randint(2**31, ())))
        return asked

    @torch.inference_mode()
    def write(
        self,
        asked: Options | None = None,
        *,
        after: int = 0,
        tokens: Sequence[int] = (),
        watch: Watch = lambda step: None,
        **options: Any,
    ) -> Written:
        """Go on from a node, as `generate` goes on from a prompt.

        Args:
            asked, options: as in `generate`; `max_new_tokens` counts from the branch on.
            after: the node; 0 is the prompt.
            tokens: what is said first, whatever the options would choose: a branch by hand.
            watch: sees each step as it comes; if it raises `Enough`, the texts end where they stand.
        Raises: DataError: no such node or token, an end token before the place, or no room. Else as `generate`.
        """
        began = perf_counter()
        asked = self.asked(**options) if asked is None else asked
        depth = self.check_branch(after, tokens) + len(tokens)
        if asked.max_length is None:
            more = NEW_TOKENS if asked.max_new_tokens is None else asked.max_new_tokens
            asked = replace(asked, max_new_tokens=depth + more)
        ends = asked.stop_ids(self._writer.settings)
        start, ear = self._start(after, asked)
        grow = Growing(self.tree, asked, ear, watch)
        at = after
        try:
            for token in tokens:
                at = grow.say(at, token, start.rows)
                if token in ends:
                    return self._written([self.tree.place(at, "end_token")], began)
        except Enough:
            return self._written([self.tree.place(at, "interrupted")], began)
        start = replace(start, new_tokens=start.new_tokens - depth)
        if start.new_tokens <= 0:
            return self._written([self.tree.place(at, "max_new_tokens")], began)
        if asked.num_beams == 1:
            return self._written(grow.decode(at, self._writer.decode(start, asked)), began)
        whole = replace(asked, num_return_sequences=asked.num_beams)  # the best of these are the same
        ended = grow.search(at, lambda see: self._writer.search(start, whole, on_step=see))
        return self._written(ended[: asked.num_return_sequences], began, ended)

    def _start(self, node: int, asked: Options) -> tuple[Start, Ear]:
        """Rows that stand at a node, and an ear among their filters."""
        start = self._writer.start(self._read, None, asked)
        for token in self.tree.tokens(node):
            start.rows.append(torch.tensor([token], device=self._read.device))
        shapes = len(asked.shape()) if asked.do_sample else 0
        ear = Ear(start.filters, shapes, summed=asked.num_beams > 1)
        return replace(start, filters=ear.filters), ear

    def _written(
        self, places: Sequence[Place], began: float, ended: tuple[Place, ...] | None = None
    ) -> Written:
        answers = tuple(
            Answer(place.node, place.score, place.reason, self.text(place.node)) for place in places
        )
        return Written(answers, best_first(places) if ended is None else ended, perf_counter() - began)

    # ------------------------------------------------------------------------------------------ looking at it

    @property
    def nodes(self) -> dict[int, Node]:
        return self.tree.nodes

    def text(self, node: int) -> str:
        """What is written up to a node, as `generate` gives it."""
        self._check_node(node)
        text = self._tokenizer.decode(self.tree.tokens(node), skip_special_tokens=True)
        return text.strip() if self._reading.batch.input_features is not None else text

    def odds(self, node: int) -> Odds:
        """What could follow a node; where that is not kept, the network reads the path once more.

        Raises: DataError: no such node, or nothing comes behind it.
        """
        self._check_goes_on(node)
        return Odds(*self.tree.odds.get(node, lambda: self._heard(node)))

    @torch.inference_mode()
    def _heard(self, node: int) -> tuple[Tensor, Tensor, Tensor]:
        start, ear = self._start(node, self.asked_at(node))
        found = ear.listen(start.rows)
        return found.model, found.ruled, found.drawn

    def asked_at(self, node: int) -> Options:
        """The options with which a node was read, or else written."""
        return self.tree.asked.get(node) or self.asked()

    def reading(self, node: int) -> Reading:
        """The prompt and the path to a node, as one pass reads them.

        The last token that a model has room for is never read: then the path ends before it.
        """
        self._check_node(node)
        path = [self.nodes[each] for each in self.tree.path(node)]
        limit = self._writer.network.max_tokens
        path = path[: None if limit is None else max(0, limit - len(self._before))]
        ids = torch.tensor([[*self._before, *(each.token for each in path)]])
        tokens = [*self.before, *map(_as_token, path)]
        batch, sides = self._reading.batch, {**self._reading.sides, self.side: tokens}
        if self._writer.answers:
            return Reading((self.prompt, self.text(node)), replace(batch, decoder_input_ids=ids), sides)
        text = self.prompt + "".join(each.text for each in path)
        return Reading((text,), replace(batch, input_ids=ids), sides)

    def session(self, node: int, *, progress: Progress | None = None) -> Session:
        """One pass over the prompt and the path to a node, in which all attention can be looked at."""
        return Session(self._writer.network, self.reading(node), progress=progress)

    def row(self, node: int) -> int:
        """The row of a session that chose a node; what was written there stands in the row below it.

        Raises: DataError: there is no such node, or it is the prompt.
        """
        self._check_node(node)
        if node == 0:
            raise DataError("node 0 is the prompt, which nothing chose; give a node from 1 up")
        return len(self.before) + self.nodes[node].depth - 2

    # -------------------------------------------------------------------------------------------------- checks

    def check_branch(self, after: int, tokens: Sequence[int]) -> int:
        """The depth of a node behind which these tokens can be said.

        Raises: DataError: there is no such node, it is an end, or there is no such token.
        """
        for token in tokens:
            if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < self.vocabulary:
                raise DataError(
                    f"there is no token {shown(token)}; the vocabulary has 0 to {self.vocabulary - 1}"
                )
        return self._check_goes_on(after)

    def _check_goes_on(self, node: int) -> int:
        """The depth of a node behind which something can come.

        Raises: DataError: there is no such node, or it is an end.
        """
        self._check_node(node)
        if node == 0:
            return 0
        found = self.nodes[node]
        if found.token in self.asked_at(node).stop_ids(self._writer.settings):
            raise DataError(
                f"the text ends with node {node}, {found.piece!r}; nothing comes behind it: "
                f"go on from node {found.parent} with another token"
            )
        return found.depth

    def _check_node(self, node: int) -> None:
        if isinstance(node, bool) or not isinstance(node, int) or not (node == 0 or node in self.nodes):
            raise DataError(
                f"there is no node {node!r}; the tree has nodes 0 (the prompt) to {len(self.nodes)}"
            )


def _as_token(node: Node) -> Token:
    return Token(
        node.text.strip() or node.piece, node.piece, node.token, None if node.special else 0, node.special
    )
