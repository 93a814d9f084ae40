"""Search a corpus by a token of a text: the nearest contexts, with the attention of a head, and what they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from glassformer.core.flow import Batch
from glassformer.errors import DataError
from glassformer.files import is_int, safe_repr
from glassformer.files.schema import check
from glassformer.inspect.corpus.files import Head
from glassformer.inspect.corpus.index import CorpusIndex, IndexedWindow
from glassformer.inspect.corpus.options import CorpusSearchOptions, Matches
from glassformer.inspect.inputs import SessionInput, open_inputs
from glassformer.inspect.session import Session
from glassformer.inspect.tokens import Token
from glassformer.loaded_model import LoadedModel
from glassformer.reports.report import Record, Report
from glassformer.reports.table import Table, percent

AROUND = 8
"""Tokens on each side of a match in a table."""


@dataclass(frozen=True, eq=False)
class Match(Record, keys=("score", "row", "position", "texts", "special", "continues", "attention")):
    """A token of the corpus in its context.

    score: cosine, or the activation of a neuron
    row: of the file, from 0
    tokens: of the window
    position: of the token among them
    attention: where a head looks from there; None where none was asked for [T]
    """

    score: float
    row: int
    tokens: Sequence[Token]
    position: int
    attention: Sequence[float] | None

    @property
    def attended(self) -> Token | None:
        """The token, special ones aside, that the head attends to most."""
        weights = [(0.0 if t.special else w) for t, w in zip(self.tokens, self.attention or (), strict=False)]
        return self.tokens[weights.index(max(weights))] if any(weights) else None

    @property
    def texts(self) -> list[str]:
        """The characters of each token."""
        return [token.text for token in self.tokens]

    @property
    def special(self) -> list[int]:
        """Flags of special tokens in the window."""
        return [i for i, token in enumerate(self.tokens) if token.special]

    @property
    def continues(self) -> list[int]:
        """Which tokens continue a word."""
        return [i for i, token in enumerate(self.tokens) if token.continues]

    @property
    def context(self) -> str:
        """The tokens around the match, which is in brackets."""
        first = max(0, self.position - AROUND)
        parts: list[str] = []
        for i, token in enumerate(self.tokens[first : self.position + AROUND + 1], first):
            if not token.special or i == self.position:
                text = f"[{token.text}]" if i == self.position else token.text
                parts += [text] if token.continues or not parts else [" ", text]
        return "".join(parts)


@dataclass(frozen=True, eq=False, repr=False)
class Contexts(Report, kind="contexts", keys=("by", "layer", "number", "query", "attention", "matches", "counts")):
    """What a search has brought: matches, the best first, and how often they share a token.

    by: "layer", "head" or "neuron"
    layer, number: which; a layer has no number
    attention: the head that was asked
    query: characters of the token that was searched by; None of a neuron
    """

    by: str
    layer: int
    number: int | None
    query: str | None
    attention: Head | None
    matches: Sequence[Match]

    @property
    def counts(self) -> dict[str, list[tuple[str, int]]]:
        """Text → how many matches: of the matched tokens, those after them, those they attend to most."""
        kinds: dict[str, Counter[str]] = {"token": Counter(), "next": Counter()}
        for match in self.matches:
            kinds["token"][match.tokens[match.position].text] += 1
            after = match.tokens[match.position + 1 : match.position + 2]
            kinds["next"][after[0].text if after else "(end)"] += 1
            if (attended := match.attended) is not None:
                kinds.setdefault("attended", Counter())[attended.text] += 1
        return {kind: counter.most_common() for kind, counter in kinds.items()}

    def tables(self) -> list[Table]:
        """The matches in their contexts, with the token that the head looks at."""
        rows = []
        for match in self.matches:
            cells = [f"{match.score:.3f}", str(match.row), match.context]
            if self.attention is not None:
                weight = max(
                    (w for w, t in zip(match.attention or (), match.tokens, strict=False) if not t.special), default=0
                )
                cells.append("–" if match.attended is None else f"{match.attended.text} {percent(weight)}")
            rows.append(cells)
        score = "activation" if self.by == "neuron" else "cosine"
        looks = ["looks at"] * (self.attention is not None)
        return [Table([score, "row", "context", *looks], rows, left=4, longest=200)]

    def remarks(self) -> list[str]:
        """The tokens that most matches share."""
        counts, names = self.counts, {"token": "matched tokens", "next": "next tokens", "attended": "looked at"}
        return [
            f"{name}: {', '.join(f'{text} {count}' for text, count in counts[kind][:10])}"
            for kind, name in names.items()
            if kind in counts
        ]


class CorpusSearch:
    """Searches an index by the tokens of texts that the model reads.

        corpus = CorpusSearch(model, "index/")
        corpus.search("time flies like an arrow", token=2, layer=6).matches[0].score
        corpus.neuron(3, 17).counts["token"]

    Raises: DataError: as `CorpusIndex`; an index by another model.
    """

    def __init__(self, model: LoadedModel, index: CorpusIndex | str | Path) -> None:
        self.model = model
        self.index = index if isinstance(index, CorpusIndex) else CorpusIndex(index)
        fingerprint = model.network.fingerprint(dtypes=False)
        if self.index.settings.fingerprint != fingerprint:
            raise DataError(
                f"{self.index.folder}: was made by another model ({safe_repr(self.index.settings.model)}, weights "
                f"{safe_repr(self.index.settings.fingerprint)}; these are {fingerprint}); load that one, or index the "
                "text again"
            )
        tokens = self.index.tokens
        if len(tokens) and (tokens.min() < 0 or tokens.max() >= (model.network.vocabulary or 0)):
            raise self.index.damaged("tokens.bin")

    def session(self, text: str) -> Session:
        """A forward pass of a text."""
        return Session(self.model.network, open_inputs(self.model, (text,), {}))

    def search(self, text: str, *, token: int | str, **options: Any) -> Contexts:
        """The contexts nearest to a token of a text.

        Args:
            token: its position, or a word
            options: as `contexts`
        """
        session = self.session(text)
        return self.contexts(session, position_of(session.streams["text"], token), **options)

    def find(self, text: str | None, options: CorpusSearchOptions) -> Contexts:
        """The contexts that options ask for. Raises: ConfigError: a text without token, or one for a neuron."""
        options.check_text(text)
        shown: dict[str, Any] = {"attention": options.attention, "count": options.count}
        if options.neuron is not None:
            return self.neuron(*options.neuron, **shown)
        assert text is not None and options.token is not None
        return self.search(text, token=options.token, layer=options.layer, head=options.head, **shown)

    def contexts(
        self,
        session: Session,
        token: int,
        *,
        layer: int | None = None,
        head: Head | None = None,
        attention: Head | None = None,
        count: int = 20,
    ) -> Contexts:
        """The contexts nearest to a token of a session, by a layer's state or by the output of a head.

        Args:
            attention: the head whose attention the matches get; None = `head`
        Raises: DataError: no such token; a layer or head that is not in the index. ConfigError: count.
        """
        tokens = session.streams["text"]
        if not is_int(token, 0, len(tokens)):
            raise DataError(f"there is no token {safe_repr(token)}; the text has tokens 0 to {len(tokens) - 1}")
        self.index.vectors(layer, head)  # before the passes: is it there?
        vector = session.states(layer)[token] if layer is not None else session.head(*(head or (0, 0))).z(token)[0]
        best = self.index.nearest(vector, layer=layer, head=head, count=_check_count(count))
        by, (at, number) = ("layer", (layer, None)) if head is None else ("head", head)
        shown = attention or head
        return Contexts(by, int(at or 0), number, tokens[token].text, shown, self._matches(best, shown))

    def neuron(self, layer: int, neuron: int, *, attention: Head | None = None, count: int = 20) -> Contexts:
        """The contexts in which a neuron is most active. Raises: DataError: it is not in the index."""
        best = self.index.top_activations(layer, neuron)[: _check_count(count)]
        return Contexts("neuron", layer, neuron, None, attention, self._matches(best, attention))

    def _matches(self, best: Sequence[tuple[int, float]], head: Head | None) -> list[Match]:
        windows: dict[int, tuple[IndexedWindow, Session | None]] = {}
        matches = []
        for token, score in best:
            number = self.index.window_of(token)
            if number not in windows:
                window = self.index.window(number, self.model.tokenizer)
                windows[number] = window, None if head is None else self._session(window)
            window, session = windows[number]
            position = token - window.first
            attention = None
            if session is not None and head is not None:
                attention = [float(f"{x:.7g}") for x in session.head(*head).probs(position)[0].float().tolist()]
            matches.append(Match(score, window.row, window.tokens, position, attention))
        return matches

    def _session(self, window: IndexedWindow) -> Session:
        batch = Batch(input_ids=torch.tensor([window.ids]))
        return Session(self.model.network, SessionInput((window.text,), batch, {"text": window.tokens}))


def position_of(tokens: Sequence[Token], token: int | str) -> int:
    """The position of a token that is named by its number, or by a word of the text, of which the first token counts.

    Raises: DataError: there is no such word.
    """
    if isinstance(token, int):
        return token
    for start, first in enumerate(tokens):
        if first.special or first.continues:
            continue
        word = first.text
        for piece in tokens[start + 1 :]:
            if word == token or not piece.continues:
                break
            word += piece.text
        if word == token or word.lower() == token.lower():
            return start
    words: list[str] = []
    for piece in tokens[:40]:
        if piece.continues and words:
            words[-1] += piece.text
        elif not piece.special:
            words.append(piece.text)
    listed = f"; it has {', '.join(map(repr, words))}; or give the position of a token" if words else ": it is empty"
    raise DataError(f"the text has no word {safe_repr(token)}{listed}")


def _check_count(count: int) -> int:
    check(Matches, count, "count")
    return count
