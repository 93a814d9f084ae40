"""Generation trace: a token tree with the distribution of each step, open to branches and to inspection.

    trace = model.writing("Once upon a time")
    trace.write(num_beams=4)                       the same as model.generate, recorded step by step in a tree
    trace.distribution(3).model                    log-probabilities of all tokens after node 3 [V]
    trace.write(after=3, tokens=[263])             a branch: another token after node 3, continued from there
    trace.session(12).head(4, 9).probs(trace.row(12))            attention at the step that chose node 12

The numbers are those of `generate`: the same methods run, with a `LogitsProbe` among their filters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import DataError, UnsupportedError
from glassformer.files import is_int, safe_repr
from glassformer.generation.decoding import StopReason
from glassformer.generation.generate import make_generator, resolve_options
from glassformer.generation.generator import GenerationInputs, Generator, sampling_filters
from glassformer.generation.options import GenerationOptions
from glassformer.inspect.inputs import SessionInput, open_prompt
from glassformer.inspect.interruption import before_each_block
from glassformer.inspect.session import Progress, Session
from glassformer.inspect.token_tree import Leaf, TokenDistribution, TokenNode, TokenTree, best_first
from glassformer.inspect.tokens import Token, readable, special_token
from glassformer.inspect.trace_recorder import LogitsProbe, OnStep, StopTrace, TraceRecorder
from glassformer.loaded_model import LoadedModel
from glassformer.reports.report import Report
from glassformer.reports.table import Table, percent
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TracedText:
    """A generated text, with its last node, score and stop reason. `score` as in `Leaf`."""

    node: int
    score: float | None
    reason: StopReason | None
    text: str


@dataclass(frozen=True, slots=True, repr=False)
class TraceResult(Report, kind="generated-texts"):
    """The result of one call of `GenerationTrace.write`.

    answers: what `generate` returns
    ended: of a beam search, also finished hypotheses that were not among the best
    """

    answers: tuple[TracedText, ...]
    ended: tuple[Leaf, ...]
    seconds: float

    def tables(self) -> list[Table]:
        """The texts, with why each ended."""
        rows = [
            [each.text, "–" if each.score is None else f"{each.score:.3f}", str(each.reason)] for each in self.answers
        ]
        return [Table(["text", "score", "ended by"], rows, f"generated in {self.seconds:.2f} s")]


def _probability(logprob: float | None) -> str:
    return "–" if logprob is None else f"{math.exp(logprob):.1%}"


class GenerationTrace(Report, kind="generation-trace", keys=("prompt", "nodes")):
    """A prompt, and a tree of the tokens generated from it, which grows with every call of `write`.

    Args:
        inputs: the prompt as the network reads it: a text, an encoder input, or a sound.
    Raises: DataError: the prompt is empty.
    """

    def __init__(self, generator: Generator, inputs: SessionInput, tokenizer: Tokenizer) -> None:
        self.prompt = inputs.texts[0]
        self._generator = generator
        self._inputs = inputs
        self._tokenizer = tokenizer
        ids, features = inputs.batch.input_ids, inputs.batch.input_features
        prompt = features if ids is None else ids
        assert prompt is not None  # the prompt is text or sound
        self._prompt = prompt.to(next(generator.network.parameters()).device)
        if generator.is_encoder_decoder:
            self._prefix_ids = [generator.defaults.start_id]
            self.prefix = [special_token(tokenizer, token) for token in self._prefix_ids]
        else:
            self._prefix_ids = self._prompt[0].tolist()
            self.prefix = inputs.streams["text"]
        self.tree = TokenTree(tokenizer, self._prefix_ids if not generator.is_encoder_decoder else ())

    def tables(self) -> list[Table]:
        """The tokens of the tree, in the order in which they were generated."""
        rows = [
            [str(node.id), str(node.parent), node.text, _probability(node.logprob), str(node.rank)]
            for node in self.tree.nodes.values()
        ]
        caption = f"{len(rows)} generated tokens after {self.prompt!r}; parent 0 is the prompt"
        return [Table(headings=["node", "parent", "token", "probability", "rank"], rows=rows, caption=caption)]

    def choices(self, node: int, count: int = 5) -> Table:
        """The generated tokens up to a node, each with the tokens that the model thought likeliest in its place.

        Args:
            count: of those tokens
        """
        rows, shades = [], []
        for each in self.tree.path(node):
            chosen = self.tree.nodes[each]
            top = self.tree.choices[chosen.parent].top[:count]
            shares = [0.0 if x.logprob is None else math.exp(x.logprob) for x in top]
            names = [f"{readable(x.text or x.piece)} {percent(share)}" for x, share in zip(top, shares, strict=True)]
            rows.append([readable(chosen.text or chosen.piece), *names, *[""] * (count - len(top))])
            shades.append([*shares, *[0.0] * (count - len(top))])
        return Table(["written", *map(str, range(1, count + 1))], rows, shades=shades, as_picture=True)

    @property
    def stream(self) -> str:
        """The stream of a session that holds the generated tokens."""
        return "target" if self._generator.is_encoder_decoder else "text"

    @property
    def vocabulary(self) -> int:
        """Size of the vocabulary."""
        return self._generator.defaults.vocabulary

    @property
    def max_tokens(self) -> int | None:
        """Maximum number of tokens in the stream of generated tokens."""
        return self._generator.network.max_tokens

    # ---------------------------------------------------------------------------------------------------- generation

    def resolve_options(self, **options: Any) -> GenerationOptions:
        """Options completed with the model's defaults, and with a seed for sampling.

        Raises: ConfigError: options that are unknown, out of range, or exclude each other.
        """
        resolved = GenerationOptions.resolve(options, self._generator.defaults)
        if resolved.assistant_model is not None:
            raise UnsupportedError(
                "a draft model changes the speed and not the tokens; leave assistant_model out of a generation trace"
            )
        if resolved.do_sample and resolved.seed is None:
            return replace(resolved, seed=int(torch.randint(2**31, ())))
        return resolved

    @torch.no_grad()
    def write(
        self,
        settings: GenerationOptions | None = None,
        *,
        after: int = 0,
        tokens: Sequence[int] = (),
        on_step: OnStep = lambda step: None,
        **options: Any,
    ) -> TraceResult:
        """Generate from a node, as `generate` does from a prompt, and record all steps.

        Args:
            settings, options: as in `generate`; `max_new_tokens` counts from the node on.
            after: the node; 0 is the prompt.
            tokens: tokens that come first, whatever the options would choose: a branch by hand.
            on_step: called with each step; if it raises `StopTrace`, the texts end where they are.
        Raises: DataError: no such node or token, the node is an end token, or no room. Else as `generate`.
        """
        began = perf_counter()
        settings = self.resolve_options(**options) if settings is None else settings
        depth = self.check_branch(after, tokens) + len(tokens)
        if settings.max_length is None:
            room = None if self.max_tokens is None else self.max_tokens + 1 - len(self._prefix_ids) - depth
            length = replace(settings, min_new_tokens=0, min_length=None)  # which count from the prompt on
            new_tokens, _ = length.new_tokens(len(self._prefix_ids) + depth, self._generator.defaults, room)
            settings = replace(settings, max_new_tokens=depth + new_tokens)
        stop_ids = settings.stop_ids(self._generator.defaults)
        node = after
        try:
            inputs, probe = self._inputs_at(after, settings)
            recorder = TraceRecorder(self.tree, settings, probe, on_step)
            for token in tokens:
                node = recorder.append_token(node, token, inputs.rows)
                if token in stop_ids:
                    return self._result([self.tree.leaf(node, "end_token")], began)
        except StopTrace:
            return self._result([self.tree.leaf(node, "interrupted")], began)
        inputs = replace(inputs, new_tokens=inputs.new_tokens - depth)
        if inputs.new_tokens <= 0:
            return self._result([self.tree.leaf(node, "max_new_tokens")], began)
        if settings.num_beams == 1:
            return self._result(recorder.decode(node, self._generator.decode(inputs, settings)), began)
        # All beams, of which the best are the same.
        all_beams = replace(settings, num_return_sequences=settings.num_beams)
        ended = recorder.search(node, lambda on_beams: self._generator.search(inputs, all_beams, on_step=on_beams))
        return self._result(ended[: settings.num_return_sequences], began, ended)

    def before_each_block(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        """Call something before each block of each forward pass in this thread: to stop within a long one."""
        return before_each_block(self._generator.network, call)

    def _inputs_at(self, node: int, options: GenerationOptions) -> tuple[GenerationInputs, LogitsProbe]:
        """Rows that hold the path to a node, with a probe among their filters."""
        inputs = self._generator.prepare(self._prompt, None, options)
        for token in self.tree.tokens(node):
            inputs.rows.append(torch.tensor([token], device=self._prompt.device))
        sampling = len(sampling_filters(options)) if options.do_sample else 0
        probe = LogitsProbe(inputs.filters, sampling, beams=options.num_beams > 1)
        return replace(inputs, filters=probe.filters), probe

    def _result(self, leaves: Sequence[Leaf], began: float, ended: tuple[Leaf, ...] | None = None) -> TraceResult:
        answers = tuple(TracedText(leaf.node, leaf.score, leaf.reason, self.text(leaf.node)) for leaf in leaves)
        return TraceResult(answers, best_first(leaves) if ended is None else ended, perf_counter() - began)

    # ---------------------------------------------------------------------------------------------------- inspection

    @property
    def nodes(self) -> dict[int, TokenNode]:
        """Nodes of the tree by number."""
        return self.tree.nodes

    def text(self, node: int) -> str:
        """The text from the prompt to a node, as `generate` returns it."""
        self._check_node(node)
        before = [] if self._generator.is_encoder_decoder else self._prefix_ids
        text = self._tokenizer.decode_continuation(before, self.tree.tokens(node))
        return text.strip() if self._inputs.batch.input_features is not None else text

    def distribution(self, node: int) -> TokenDistribution:
        """The next-token distribution of a node; where it is not cached, the network reads the path again.

        Raises: DataError: no such node, or it is an end token.
        """
        self._check_goes_on(node)
        return TokenDistribution(*self.tree.distributions.get(node, lambda: self._computed(node)))

    @torch.no_grad()
    def _computed(self, node: int) -> tuple[Tensor, Tensor, Tensor]:
        inputs, probe = self._inputs_at(node, self.options_at(node))
        distribution = probe.read(inputs.rows)
        return distribution.model, distribution.after_rules, distribution.filtered

    def options_at(self, node: int) -> GenerationOptions:
        """The options with which a node was read, or else generated."""
        return self.tree.options.get(node) or self.resolve_options()

    def inputs(self, node: int) -> SessionInput:
        """The prompt and the path to a node as one session input.

        The network never reads the last token that it has room for: then the path ends before it.
        """
        self._check_node(node)
        path = [self.nodes[number] for number in self.tree.path(node)]
        limit = self._generator.network.max_tokens
        path = path[: None if limit is None else max(0, limit - len(self._prefix_ids))]
        ids = torch.tensor([[*self._prefix_ids, *(node.token for node in path)]])
        tokens = [*self.prefix, *map(_as_token, path)]
        batch, streams = self._inputs.batch, {**self._inputs.streams, self.stream: tokens}
        if self._generator.is_encoder_decoder:
            texts, batch = (self.prompt, self.text(node)), replace(batch, decoder_input_ids=ids)
            return SessionInput(texts, batch, streams, self._inputs.names)
        text = self.prompt + "".join(node.text for node in path)
        return SessionInput((text,), replace(batch, input_ids=ids), streams, self._inputs.names)

    def session(self, node: int, *, progress: Progress | None = None) -> Session:
        """A session over the prompt and the path to a node, for its attention and hidden states."""
        return Session(self._generator.network, self.inputs(node), progress=progress)

    def row(self, node: int) -> int:
        """The query row of a session at which a node was chosen: the row before its own.

        Raises: DataError: there is no such node, or it is the prompt.
        """
        self._check_node(node)
        if node == 0:
            raise DataError("node 0 is the prompt, which was not generated; give a node from 1 up")
        return len(self.prefix) + self.nodes[node].depth - 2

    # -------------------------------------------------------------------------------------------------------- checks

    def check_branch(self, after: int, tokens: Sequence[int]) -> int:
        """Check that tokens can be appended to a node; returns its depth.

        Raises: DataError: there is no such node, it is an end token, or there is no such token.
        """
        for token in tokens:
            if not is_int(token, 0, self.vocabulary):
                raise DataError(f"there is no token {safe_repr(token)}; the vocabulary has 0 to {self.vocabulary - 1}")
        return self._check_goes_on(after)

    def _check_goes_on(self, node: int) -> int:
        """Check that a node is not an end token; returns its depth.

        Raises: DataError: there is no such node, or it is an end token.
        """
        self._check_node(node)
        if node == 0:
            return 0
        last = self.nodes[node]
        if last.token in self.options_at(node).stop_ids(self._generator.defaults):
            raise DataError(
                f"the text ends with node {node}, {last.piece!r}; nothing comes after it: "
                f"continue from node {last.parent} with another token"
            )
        return last.depth

    def _check_node(self, node: int) -> None:
        if not is_int(node) or (node != 0 and node not in self.nodes):
            raise DataError(f"there is no node {node!r}; the tree has nodes 0 (the prompt) to {len(self.nodes)}")


def _as_token(node: TokenNode) -> Token:
    return Token(readable(node.text) or node.piece, node.piece, node.token, None if node.special else 0, node.special)


def trace_generation(model: LoadedModel, prompt: str, *, truncation: bool = False) -> GenerationTrace:
    """The trace of text generation from a prompt; `Model.writing` documents it."""
    if not isinstance(prompt, str):
        raise DataError(f"the prompt is {safe_repr(prompt)}; give one text")
    generator = make_generator(model, resolve_options(model, {}))
    if not model.writes:
        raise UnsupportedError(f"a {model.family.model_type!r} model generates no text that could be traced")
    return GenerationTrace(generator, open_prompt(model, prompt, truncation=truncation), model.tokenizer.target)
