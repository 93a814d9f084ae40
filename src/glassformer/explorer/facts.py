"""Facts of a pass: the numbers and lists that a lesson names, each computed where it is named.

    facts = PassFacts(session, opening_link(session), PassPlace(query="time"))
    facts.attention        0.929
    facts.key              flies

What a place leaves out follows what the page opens with: its most telling link between two tokens.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from glassformer.core.attention import MultiHeadAttention
from glassformer.core.quantised import count_weights
from glassformer.errors import DataError, nearest
from glassformer.explorer import model_words
from glassformer.explorer.model_words import Item
from glassformer.files import is_int, safe_repr
from glassformer.inspect.answer import ModelAnswer, answer
from glassformer.inspect.lens import Lens
from glassformer.inspect.numbers import level_names
from glassformer.inspect.opening import link_sentence
from glassformer.inspect.outputs import reads_layers
from glassformer.inspect.patching.effects import patching
from glassformer.inspect.patching.patches import record_taps
from glassformer.inspect.patching.readout import predicts
from glassformer.inspect.session import Session
from glassformer.inspect.similarity import SimilarityMap
from glassformer.inspect.tokens import Token, find_token
from glassformer.reports.table import percent

SHOWN, MOST_TOKENS = 6, 24
"""Numbers of a vector, or rows of a list, that are shown; tokens that are."""
Value = str | int | float
Compare = Callable[[str, str], SimilarityMap]

_OCCURRENCE = re.compile(r"(?P<word>.*)#(?P<number>[1-9]\d{0,3})", re.ASCII | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class PassPlace:
    """Where in a pass facts are read; None = where the page opens.

    layer: from 0, or from the end
    query, key: a token's number, a word, `word#2`, or `#2`: the second occurrence of the longest repeated word
    temperature, top_k: of the prediction
    """

    map: str | None = None
    layer: int | None = None
    head: int | None = None
    query: int | str | None = None
    key: int | str | None = None
    temperature: float = 1.0
    top_k: int | None = None


@dataclass(frozen=True)
class OpeningLink:
    """The attention that the page opens with, and what it says."""

    map: str
    layer: int
    head: int
    query: int
    key: int
    sentence: str


def opening_link(session: Session) -> OpeningLink:
    """The first link of a pass that its findings name, as the page opens with it; or the strongest of its last token in
    the most telling head.
    """
    telling = session.findings
    for each in telling:
        if each.query is not None and each.key is not None:
            return OpeningLink(each.map, each.layer, each.head, each.query, each.key, each.sentence)
    about = session.maps[telling[0].map] if telling else next(iter(session.maps.values()))
    layer, head = (telling[0].layer, telling[0].head) if telling else (0, 0)
    query = _last(session.streams[about.queries])
    key = int(session.head(layer, head, about.name).probs([query])[0].argmax())
    return OpeningLink(about.name, layer, head, query, key, link_sentence(session, about, layer, head, query, key))


class PassFacts:
    """The facts at a place of a pass: each property with a docstring is a name that a lesson may use.

    Args:
        compare: two texts → the map of their similarity; None = the model makes no vectors of texts
    Raises: DataError: no such map, layer, head or token.
    """

    def __init__(self, session: Session, link: OpeningLink, place: PassPlace, compare: Compare | None = None) -> None:
        self._session, self._link, self._place, self._compare = session, link, place, compare
        if place.map is not None and place.map not in session.maps:
            raise DataError(f"map is {safe_repr(place.map)}; this pass has {', '.join(session.maps)}")
        self._about = session.maps[place.map or link.map]
        here = self._about.name == link.map
        self.layer = _within("layer", place.layer, link.layer if here else 0, self._about.layers)
        self.head = _within("head", place.head, link.head if here else 0, self._about.heads)
        self._queries, self._keys = session.streams[self._about.queries], session.streams[self._about.keys]
        own = link.query if here else _last(self._queries)
        self.query_at = own if place.query is None else token_at(place.query, self._queries)
        self._row = session.head(self.layer, self.head, self._about.name)
        at_link = here and (self.layer, self.head, self.query_at) == (link.layer, link.head, link.query)
        if place.key is not None:
            self.key_at = token_at(place.key, self._keys)
        else:
            self.key_at = link.key if at_link else int(self._shares.argmax())
        self._at_link = at_link and self.key_at == link.key

    def value(self, name: str) -> Value:
        """A fact by its name. Raises: DataError, UnsupportedError: this pass has none."""
        value: Value = getattr(self, name)
        return value

    @property
    def address(self) -> dict[str, str]:
        # The place as the address of the page has it.
        pairs = {"map": self._about.name, "l": self.layer, "h": self.head, "q": self.query_at, "k": self.key_at}
        return {name: str(value) for name, value in pairs.items()}

    def own_row(self, x: Tensor) -> Tensor:
        # Of a tensor by token, [T, …] or in heads [H, T, …], what belongs to the query token, and to the head.
        if x.dim() == 3 and x.shape[1] == self.tokens:
            x = x[self.head * x.shape[0] // self.heads]  # of grouped keys and values those of the group
        return x[self.query_at] if x.dim() == 2 and x.shape[0] == self.tokens else x

    @property
    def stream(self) -> str:
        # The stream of the query token.
        return self._about.queries

    # ------------------------------------------------------------------------------------------- the place

    @property
    def sentence(self) -> str:
        """what the head does here, in a sentence"""
        if self._at_link:
            return self._link.sentence
        return link_sentence(self._session, self._about, self.layer, self.head, self.query_at, self.key_at)

    @property
    def query(self) -> str:
        """the token that attends"""
        return self._queries[self.query_at].text

    @property
    def following(self) -> str:
        """the token after the query: what a decoder writes next"""
        return self._queries[min(self.query_at + 1, len(self._queries) - 1)].text

    @property
    def key(self) -> str:
        """the token that it attends to"""
        return self._keys[self.key_at].text

    @property
    def query_id(self) -> int:
        """number of the query token in the vocabulary"""
        return self._queries[self.query_at].id

    @property
    def tokens(self) -> int:
        """tokens of the text, or of the target"""
        return len(self._queries)

    @property
    def key_tokens(self) -> int:
        """tokens that could be attended to"""
        return len(self._keys)

    @property
    def pieces(self) -> int:
        """tokens that continue the word of the token before"""
        return sum(token.continues for token in self._queries)

    @property
    def special_tokens(self) -> int:
        """tokens that the tokenizer added"""
        return sum(token.special for token in self._queries)

    @property
    def layers(self) -> int:
        """layers of this kind of attention"""
        return self._about.layers

    @property
    def heads(self) -> int:
        """heads of a layer"""
        return self._about.heads

    @property
    def all_heads(self) -> int:
        """heads of all layers"""
        return self._about.layers * self._about.heads

    @property
    def head_width(self) -> int:
        """numbers of a query, a key or a value"""
        return self._about.head_width

    @property
    def width(self) -> int:
        """numbers of a token's vector"""
        return int(self._stream.shape[-1])

    @property
    def parameters(self) -> int:
        """weights of the model"""
        return count_weights(self._session.network)

    @property
    def block(self) -> str:
        """name of the block: blocks.4"""
        return self.attn.rpartition(".")[0]

    @property
    def attn(self) -> str:
        """name of the attention layer: blocks.4.attn"""
        return self._attention.path

    @property
    def embedding(self) -> str:
        """name of the token embedding: embed"""
        return self._session.network.embedding.path

    # ------------------------------------------------------------------------------- what this model does, in words

    @property
    def kinds_of_tokens(self) -> str:
        """what the tokens of the text are: words, pieces of words, signs such as [CLS]"""
        return model_words.kinds_of(self._queries)

    @property
    def query_kind(self) -> str:
        """what the query is: a token, a moment of a sound, or a piece of a picture"""
        return model_words.kind_of(self._session, self._about.queries)

    @property
    def key_kind(self) -> str:
        """the same of the key"""
        return model_words.kind_of(self._session, self._about.keys)

    @property
    def made_of(self) -> str:
        """what the vector of the query token is made of before the first layer"""
        return model_words.made_of(self._session, self.stream)

    @property
    def not_in_it(self) -> str:
        """a sentence that this vector does not say the token's place, where that is so"""
        return model_words.not_in_it(self._session, self.stream)

    @property
    def made_ready(self) -> str:
        """a sentence on what was done to query and key before their product, where something was"""
        return model_words.made_ready(self._attention)

    @property
    def to_score(self) -> str:
        """what makes the score of the product, up to “that is”"""
        return model_words.to_score(self._attention, self.scale, self.head_width, self.position_bias)

    @property
    def norms_between(self) -> str:
        """a sentence that norms rescale the sums of the block, where they do"""
        return model_words.norms_between(self._session.network.get_submodule(self.block))

    # ------------------------------------------------------------------------------------------- one cell

    @property
    def dot(self) -> float:
        """q · k, number by number, added up"""
        return float(self._row.q[self.query_at].double() @ self._row.k[self.key_at].double())

    @property
    def scale(self) -> float:
        """what q · k is multiplied by: 1 / √ head width"""
        return float(self._row.scale)

    @property
    def scaled(self) -> float:
        """q · k times the scale"""
        return self.dot * self.scale

    @property
    def score(self) -> float:
        """the score, with what positions add to it"""
        return float(self._row.scores([self.query_at])[0, self.key_at])

    @property
    def position_bias(self) -> float:
        """what positions add to the score, and a soft cap takes from it"""
        bias = self.score - self.scaled
        return 0.0 if abs(bias) < 1e-3 * max(1.0, abs(self.score)) else bias

    @property
    def attention(self) -> float:
        """the attention weight: the share of the key, from 0 to 1"""
        return float(self._shares[self.key_at])

    @property
    def strongest(self) -> str:
        """the token with the largest share"""
        return self._keys[int(self._shares.argmax())].text

    @property
    def strongest_score(self) -> float:
        """the largest score"""
        return self._scores[self._two_strongest[0]]

    @property
    def next_strongest(self) -> str:
        """the token with the next largest share"""
        return self._keys[self._two_strongest[1]].text

    @property
    def next_score(self) -> float:
        """the next largest score"""
        return self._scores[self._two_strongest[1]]

    @property
    def next_times(self) -> float:
        """how many times the next largest share the largest is"""
        first, second = self._two_strongest
        return float(self._shares[first] / self._shares[second])

    @property
    def self_attention(self) -> float:
        """the share that the token gives to itself; 0 in cross-attention"""
        return float(self._shares[self.query_at]) if self._about.queries == self._about.keys else 0.0

    @property
    def visible(self) -> int:
        """tokens that the mask lets the query attend to"""
        masked = self._row.masked([self.query_at])
        return self.key_tokens if masked is None else int((~masked[0]).sum())

    @property
    def hidden(self) -> int:
        """tokens that the mask hides from the query"""
        return self.key_tokens - self.visible

    # ---------------------------------------------------------------------------- the vector of the query token

    @property
    def length_start(self) -> float:
        """length of the vector that enters the first layer"""
        return float(self._stream[0].norm())

    @property
    def length_end(self) -> float:
        """length of the vector after the last layer"""
        return float(self._stream[-1].norm())

    @property
    def length_before(self) -> float:
        """length of the vector that enters the layer"""
        return float(self._stream[self.layer].norm())

    @property
    def length_after(self) -> float:
        """length of the vector after the layer"""
        return float(self._stream[self.layer + 1].norm())

    @property
    def length_attention(self) -> float:
        """length of what attention adds to the vector"""
        return float(self._tap(f"{self.attn}.out").norm())

    @property
    def attention_kind(self) -> str:
        """Attention, or Cross-attention where the map is of two streams"""
        return "Attention" if self._about.queries == self._about.keys else "Cross-attention"

    @property
    def attention_reads(self) -> str:
        """where heads of the map read: other tokens (or moments, or pieces), or the other stream, by its name"""
        return f"other {self.query_kind}s" if self._about.queries == self._about.keys else f"the {self._about.keys}"

    @property
    def length_feed_forward(self) -> float:
        """length of what the feed-forward layer adds to the vector"""
        return float(self._tap(f"{self.block}.ffn.out").norm())

    @property
    def level_after(self) -> int:
        """number of the level after the layer, where 0 enters the first layer"""
        return self.layer + 1

    @property
    def cosine_layer(self) -> float:
        """cosine of the vector before and after the layer"""
        return _cosine(self._stream[self.layer], self._stream[self.layer + 1])

    @property
    def cosine_end(self) -> float:
        """cosine of the vector before the first layer and after the last"""
        return _cosine(self._stream[0], self._stream[-1])

    @property
    def cosine_pair(self) -> float:
        """cosine of the vectors of query and key that enter the layer"""
        return _cosine(self._stream[self.layer], self._key_stream[self.layer])

    @property
    def cosine_pair_end(self) -> float:
        """cosine of the vectors of query and key after the last layer"""
        return _cosine(self._stream[-1], self._key_stream[-1])

    @property
    def cosine_pair_least(self) -> float:
        """the smallest cosine that the vectors of query and key have before, between and after the layers"""
        return min(map(_cosine, self._stream, self._key_stream))

    # --------------------------------------------------------------------------------------------- the output

    @property
    def answer(self) -> str:
        """what the model says about the text, in a sentence"""
        return self._answer.sentence

    @property
    def answer_from(self) -> str:
        """the vectors that the answer is read from: that of one token, or the last ones"""
        at, stream = self._answer_at, self._session.network.head_stream()
        return "the last vectors" if at is None else f"the last vector of “{self._session.streams[stream][at].text}”"

    @property
    def followed_instead(self) -> str:
        """a sentence on why another token than that of the answer was followed, where one was"""
        at = self._answer_at
        stream = self._session.network.head_stream()
        if at is None or at == self.query_at or not (self._about.queries == self._about.keys == stream):
            return ""
        own = self._queries[at].text
        return f" “{self.query}” was followed here, since no head links “{own}” to another word as clearly."

    @property
    def guess_column(self) -> int:
        """column of the lens that belongs to the query token; where the text as a whole has one answer, that of it"""
        return int(self._lens.targets[0]) if self._lens.about.columns == "text" else self._lens.first

    @property
    def guesses(self) -> str:
        """what the model would answer after the embedding and after the last layer, and how it came to it"""
        return model_words.guesses(self._lens, self.layer)

    @property
    def grid_shows(self) -> str:
        """what the columns of the lens are, in a sentence: tokens, or classes"""
        return model_words.grid_shows(self._lens)

    @property
    def text_similarity(self) -> float:
        """cosine of the vectors of two texts, each by itself"""
        return self._similarity.similarity

    @property
    def texts_alike(self) -> str:
        """what this cosine says, in words"""
        return model_words.alike(self.text_similarity)

    @property
    def closest_words(self) -> str:
        """the two words that add most to it"""
        return model_words.closest_words(self._similarity)

    @property
    def moved(self) -> str:
        """whether query and key have come closer or moved apart between this layer and the end"""
        before, after = self.cosine_pair, self.cosine_pair_end
        near = abs(after - before) < 0.02
        return "stayed as near" if near else "came closer" if after > before else "moved apart"

    @property
    def top(self) -> str:
        """the most likely output"""
        return self._choice(0)[0]

    @property
    def top_share(self) -> float:
        """its probability"""
        return self._choice(0)[1]

    @property
    def second(self) -> str:
        """the next most likely output"""
        return self._choice(1)[0]

    @property
    def second_share(self) -> float:
        """its probability"""
        return self._choice(1)[1]

    @property
    def outputs(self) -> int:
        """outputs that the model chooses from"""
        return len(self._prediction[1])

    @property
    def entropy(self) -> float:
        """entropy of the prediction in bits"""
        shares = self._prediction[1]
        return float(-(shares * shares.clamp_min(1e-30).log2()).sum())

    # ------------------------------------------------------------------------------------------------- lists

    def listed(self, name: str) -> list[Item]:
        """A list by its name. Raises: DataError, UnsupportedError: this pass has none."""
        return LISTS[name](self)

    def _list_tokens(self) -> list[Item]:
        return [(token.text, str(token.id), None) for token in self._queries[:MOST_TOKENS]]

    def _list_vector(self) -> list[Item]:
        return [(str(i), f"{x:.3f}", None) for i, x in enumerate(self._stream[0][:SHOWN].tolist())]

    def _list_output_vector(self) -> list[Item]:
        return [(str(i), f"{x:.3f}", None) for i, x in enumerate(self._stream[-1][:SHOWN].tolist())]

    def _list_attention(self) -> list[Item]:
        shares, keys = self._shares.sort(descending=True)
        strongest = list(zip(keys.tolist(), shares.tolist(), strict=True))[:SHOWN]
        return [(self._keys[key].text, f"{share:.1%}", share) for key, share in strongest]

    def _list_arithmetic(self) -> list[Item]:
        scale = [("× scale", f"{self.scale:.4g}", None)] if self.scale != 1 else []
        own = [("q · k", f"{self.dot:.4g}", None), *scale]
        bias = [("+ positions", f"{self.position_bias:.4g}", None)] if self.position_bias else []
        return [*own, *bias, ("score", f"{self.score:.4g}", None), ("share", f"{self.attention:.1%}", self.attention)]

    def _list_heads(self) -> list[Item]:
        heads = range(self._session.attention_layer(self.layer, self._about.name).attention.spec.heads)
        one = [self._session.head(self.layer, head, self._about.name) for head in heads]
        rows = [head.probs([self.query_at])[0] for head in one]
        return [
            (f"head {at}", f"{self._keys[int(row.argmax())].text} {percent(float(row.max()))}", float(row.max()))
            for at, row in enumerate(rows)
        ]

    def _list_residual(self) -> list[Item]:
        """What enters the layer, what each of its parts adds, and what leaves it, with lengths and cosines."""
        start = self._stream[self.layer]
        items: list[Item] = [("enters", f"length {float(start.norm()):.3g}, cosines are with this", None)]
        for name, words in (
            ("attn.out", "+ attention"), ("cross.out", "+ cross-attention"), ("mid", "between"),
            ("ffn.out", "+ feed-forward"), ("out", "leaves"),
        ):  # fmt: skip
            if self.in_block(tap := f"{self.block}.{name}"):
                vector = self._tap(tap)
                cosine = _cosine(start, vector)
                items.append((words, f"length {float(vector.norm()):.3g}, cosine {cosine:.3f}", max(0.0, cosine)))
        return items

    def _list_layers(self) -> list[Item]:
        return self._by_layer([self._stream[0]] * len(self._stream), self._stream)

    def _list_guesses(self) -> list[Item]:
        return model_words.list_guesses(self._lens)

    def _list_pair(self) -> list[Item]:
        return self._by_layer(self._stream, self._key_stream)

    def _list_answer(self) -> list[Item]:
        return [(choice.name, f"{choice.share:.1%}", choice.share) for choice in self._answer.choices]

    def _list_prediction(self) -> list[Item]:
        shares, numbers = self._prediction[1].topk(min(SHOWN, self.outputs))
        pairs = zip(numbers.tolist(), shares.tolist(), strict=True)
        return [(self._prediction[0](number), f"{share:.1%}", share) for number, share in pairs]

    def _list_similar_words(self) -> list[Item]:
        words = self._similarity.words()
        names = [[token.text for token in tokens] for tokens in words.tokens]
        top = words.top(SHOWN)
        return [(f"{names[0][i]} · {names[1][j]}", f"{x:+.3f}", max(0.0, x / abs(top[0][2]))) for i, j, x in top]

    def _by_layer(self, first: Sequence[Tensor] | Tensor, second: Sequence[Tensor] | Tensor) -> list[Item]:
        names = level_names(len(first))
        cosines = [_cosine(a, b) for a, b in zip(first, second, strict=True)]
        items: list[Item] = [(name, f"{x:.3f}", max(0.0, x)) for name, x in zip(names, cosines, strict=True)]
        return model_words.between_turns(items, cosines)

    # ------------------------------------------------------------------------------------- what they are made of

    @property
    def _attention(self) -> MultiHeadAttention:
        return self._session.attention_layer(self.layer, self._about.name).attention

    @cached_property
    def _shares(self) -> Tensor:
        """Attention weights of the query. [S]"""
        return self._row.probs([self.query_at])[0].float()

    @cached_property
    def _scores(self) -> list[float]:
        scores: list[float] = self._row.scores([self.query_at])[0].tolist()
        return scores

    @cached_property
    def _two_strongest(self) -> tuple[int, int]:
        """The keys with the two largest shares. Raises: DataError: only one has a share."""
        shares, keys = self._shares.topk(min(2, self.key_tokens))
        if int(shares.count_nonzero()) < 2:
            raise DataError(f"{safe_repr(self.query)} attends to one token alone, so no share is the next largest")
        return int(keys[0]), int(keys[1])

    @cached_property
    def _stream(self) -> Tensor:
        """The vector of the query token before each layer, and after the last. [L + 1, D]"""
        return self._states(self._about.queries, self.query_at)

    @cached_property
    def _key_stream(self) -> Tensor:
        return self._states(self._about.keys, self.key_at)

    def _states(self, stream: str, at: int) -> Tensor:
        layers = range(len(self._session.stream_taps(stream)))
        return torch.stack([self._session.states(layer, stream)[at].float() for layer in layers])

    def in_block(self, tap: str) -> bool:
        """Whether it is one of `block_taps`. A pass tells of one that the block may leave out, such as `cross`."""
        return tap in self._block_names and tap in self.block_taps

    @cached_property
    def block_taps(self) -> dict[str, Tensor]:
        """What the parts of the block add, and the stream between them, at all tokens. [T, D] each"""
        return record_taps(self._session, self._block_names)

    @cached_property
    def _block_names(self) -> set[str]:
        names = {f"{self.block}.{part}" for part in ("attn.out", "cross.out", "mid", "ffn.out", "out")}
        return names & set(self._session.network.taps())

    def _tap(self, name: str) -> Tensor:
        if not self.in_block(name):
            raise DataError(f"this model has no {name}; its block has {', '.join(sorted(self._block_names))}")
        return self.block_taps[name][self.query_at].float()

    @cached_property
    def _answer(self) -> ModelAnswer:
        reply = answer(self._session, None if self._about.queries == self._about.keys else self.query_at)
        if reply is None:
            raise DataError("the model says nothing about this text: it has no head, or the text no gap to fill")
        return reply

    @property
    def can_guess(self) -> bool:
        # Whether the lens reads the query token, or the text as a whole; start and end of a span are read elsewhere.
        network = self._session.network
        own = reads_layers(network) and self._about.queries == network.head_stream()
        if not own:
            return False
        about = self._session.lens(top=1, count=1).about
        return about.columns in ("tokens", "text") and not about.regression  # a number has no likeliest answer

    @cached_property
    def _lens(self) -> Lens:
        """The lens of the query token, or of the text as a whole: one column."""
        if not self.can_guess:
            raise DataError(f"the model answers nothing at {safe_repr(self.query)}, in no layer")
        whole = self._session.lens(top=1, count=1)
        return whole if whole.about.columns == "text" else self._session.lens(top=1, first=self.query_at, count=1)

    @property
    def _answer_at(self) -> int | None:
        choices = self._answer.choices
        return choices[0].at if choices and len({choice.at for choice in choices}) == 1 else None

    @cached_property
    def _similarity(self) -> SimilarityMap:
        if self._compare is None or len(self._session.texts) != 2:
            raise DataError("this needs two texts, and a model that makes vectors of texts")
        return self._compare(*self._session.texts)

    @cached_property
    def _prediction(self) -> tuple[Callable[[int], str], Tensor]:
        """Names of the outputs, and their probabilities at the temperature, among the top k. [C]"""
        here = self.stream == "target" and predicts(self._session.network) == "token"
        made = patching(self._session, {"position": self.query_at} if here else {})
        table, logits = made.metric.readout.table, made.base.double() / self._place.temperature
        if self._place.top_k is not None and self._place.top_k < len(logits):
            logits = logits.masked_fill(logits < logits.topk(self._place.top_k).values[-1], -torch.inf)
        shares = table.probabilities(logits)
        if shares is None:
            raise DataError("this model predicts a number, which has no probabilities")
        return table.name, shares

    def _choice(self, rank: int) -> tuple[str, float]:
        shares, numbers = self._prediction[1].topk(min(rank + 1, self.outputs))
        return self._prediction[0](int(numbers[-1])), float(shares[-1])


FACTS: dict[str, str] = {
    **dict.fromkeys(("layer", "head"), "its number, from 0"),
    **dict.fromkeys(("query_at", "key_at"), "number of the token, from 0"),
    **{
        name: str(member.__doc__)
        for name, member in vars(PassFacts).items()
        if isinstance(member, property) and member.__doc__
    },
}
"""Name → what it is, of every fact that a lesson may name in braces."""

LISTS: dict[str, Callable[[PassFacts], list[Item]]] = {
    name.removeprefix("_list_").replace("_", " "): member
    for name, member in vars(PassFacts).items()
    if name.startswith("_list_")
}
"""Name → list, of what a step may show below its words."""


def token_at(at: int | str, tokens: Sequence[Token]) -> int:
    """The number of a token: from its number, a word, or an occurrence of one.

    Raises: DataError: there is none.
    """
    numbered = _OCCURRENCE.fullmatch(at) if isinstance(at, str) else None
    if numbered is None:
        return find_token(at, tokens)
    word, number = numbered["word"], int(numbered["number"])
    texts = [token.text for token in tokens if not token.special]
    if not word:
        repeated = [text for text, count in Counter(texts).items() if count > 1]
        if not repeated:
            raise DataError(f"{at} is an occurrence of a word that the text has twice, and this text has none")
        word = max(repeated, key=len)
    places = [i for i, token in enumerate(tokens) if token.text == word and not token.special]
    if len(places) < number:
        there = f"; there are {', '.join(f'{word}#{i + 1}' for i in range(len(places)))}" if places else ""
        hint = there or nearest(word, dict.fromkeys(texts))
        raise DataError(f"the text has {word!r} {len(places)} times; there is no {at}{hint}")
    return places[number - 1]


def _within(what: str, number: int | None, otherwise: int, size: int) -> int:
    if number is None:
        return otherwise
    if not is_int(number, -size, size):
        raise DataError(f"{what} is {safe_repr(number)}; the model has {what}s 0 to {size - 1}")
    return number % size


def _last(tokens: Sequence[Token]) -> int:
    return max((at for at, token in enumerate(tokens) if not token.special), default=len(tokens) - 1)


def _cosine(first: Tensor, second: Tensor) -> float:
    return float(cosine_similarity(first.double(), second.double(), dim=-1))
