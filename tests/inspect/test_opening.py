"""What a session opens with, of heads whose attention is made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.inspect.opening import CELLS, MOST_LINKS, TOKENS, HeadFinding, explained_token, findings, link_from
from glassformer.inspect.session import Session
from glassformer.inspect.tokens import Token
from tests.inspect.passes import session_of


class Head:
    """A head with this attention; what is 0 above the diagonal is masked if `causal`."""

    def __init__(self, probs: Tensor, causal: bool) -> None:
        self._probs, self._causal = probs, causal

    def probs(self, rows: Tensor) -> Tensor:
        return self._probs[rows]

    def masked(self, rows: Tensor) -> Tensor | None:
        return torch.ones_like(self._probs).triu(1).bool()[rows] if self._causal else None


def session(layers: list[list[Tensor]], queries: str, keys: str | None = None, causal: bool = False) -> Any:
    """A session of one map: layers × heads of attention over words; one in square brackets is special."""
    names = ("text", "text") if keys is None else ("target", "source")
    streams = {
        name: [Token(word, word, at, special=word.startswith("[")) for at, word in enumerate(words.split())]
        for name, words in zip(names, (queries, keys or queries), strict=True)
    }
    about = SimpleNamespace(name="only", layers=len(layers), queries=names[0], keys=names[1], causal=False)
    decoder = SimpleNamespace(name="decoder", layers=0, queries="target", keys="target", causal=True)
    return SimpleNamespace(
        streams=streams,
        maps={"only": about} if keys is None else {"only": about, "decoder": decoder},
        attention_layer=lambda layer, name: SimpleNamespace(
            attention=SimpleNamespace(spec=SimpleNamespace(heads=len(layers[layer])))
        ),
        head=lambda layer, head, name: Head(layers[layer][head], causal),
    )


def looking(T: int, S: int, *pairs: tuple[int, int], share: float = 0.9) -> Tensor:
    """Attention of `share` from each query to its key and the rest to all keys alike; the other queries look at all."""
    probs = torch.full((T, S), 1 / S)
    for query, key in pairs:
        probs[query] = (1 - share) / S
        probs[query, key] += share
    return probs


PAIR = "[CLS] time flies like an arrow [SEP] fruit flies like an apple [SEP]"  # 13 tokens
TWINS = ((2, 8), (3, 9), (4, 10), (8, 2), (9, 3), (10, 4))
PREVIOUS = tuple((at, at - 1) for at in range(1, 13))
PATTERNS = [
    (PREVIOUS, None, "each token attends to the one before it: 84%"),
    (tuple((at, at + 1) for at in range(12)), None, "each token attends to the one after it: 84%"),
    (TWINS, None, "a token attends to its other occurrences: 91%"),
    (((8, 3), (9, 4), (10, 5)), None, "a token attends to what came after its last occurrence: 91%"),
    (tuple((at, at) for at in range(13)), None, "each token attends to itself: 91%"),
    (tuple((at, 0) for at in range(13)), None, "the tokens attend to the first one, [CLS]: 91%"),
    (tuple((at, 6 + at % 2 * 6) for at in range(13)), None, "the tokens attend to special tokens: 92%"),
    (((0, 0), (1, 2), (2, 4), (3, 6)), "a b c d e f g", "the target tokens attend to the source in order"),
    (((0, 6), (1, 4), (2, 2), (3, 0)), "pear c apple b flies a time", "a target token attends to the same token"),
]


@pytest.mark.parametrize(("pairs", "source", "words"), PATTERNS, ids=[words for _, _, words in PATTERNS])
def test_each_pattern_is_found_and_told_with_its_share(
    pairs: tuple[tuple[int, int], ...], source: str | None, words: str
) -> None:
    queries = PAIR if source is None else "time flies apple pear"
    T, S = len(queries.split()), len((source or queries).split())
    plain = looking(T, S)
    made = session([[plain, plain], [plain, looking(T, S, *pairs)]], queries, source)
    found = findings(made)[-1]
    assert (found.map, found.layer, found.head, found.query, found.key) == ("only", 1, 1, None, None)
    assert found.sentence.startswith(f"In layer 1, head 1, {words}") and found.sentence.endswith("% of the attention.")
    assert findings(made)[-1] == found


def test_a_relation_comes_before_a_sink_and_of_equals_the_first() -> None:
    sink = looking(13, 13, *((at, 0) for at in range(13)), share=1)
    previous = looking(13, 13, *PREVIOUS, share=0.6)
    faint = looking(13, 13, *PREVIOUS, share=0.2)
    assert_opens(session([[sink, previous], [previous, sink]], PAIR), 0, 1)
    assert_opens(session([[faint, sink], [sink, faint]], PAIR), 0, 1)


def assert_opens(made: Any, layer: int, head: int) -> None:
    found = findings(made)[-1]
    assert (found.layer, found.head) == (layer, head)


def links(made: Any) -> list[tuple[int, int, int, int]]:
    """Layer, head, query and key of each link."""
    return [(x.layer, x.head, x.query, x.key) for x in findings(made) if x.query is not None and x.key is not None]


def test_a_link_between_two_words_comes_first_and_is_told_with_its_share() -> None:
    plain = looking(13, 13)
    made = session([[plain, looking(13, 13, (1, 2))], [plain, looking(13, 13, *PREVIOUS)]], PAIR)
    first, last = findings(made)
    assert (first.layer, first.head, first.query, first.key) == (0, 1, 1, 2)
    assert first.sentence == "In layer 0, head 1, “time” gives 91% of its attention to “flies”."
    assert first.short == "time → flies 91%" and last.short == "the previous token 84%"


def test_what_a_head_does_for_every_token_is_no_link() -> None:
    """To the previous token, and to one token that all attend to."""
    made = session([[looking(13, 13, *PREVIOUS), looking(13, 13, *((at, 5) for at in range(13)))]], PAIR)
    assert links(made) == []


def test_a_link_of_cross_attention_says_what_the_decoder_writes_next() -> None:
    made = session([[looking(5, 5, (2, 3))]], "[s] eine rote Katze schläft", "[s] some purple kitten sleeps")
    first = findings(made)[0]
    assert (
        first.sentence == "In layer 0, head 0, “rote” gives 92% of its attention to “kitten”, and “Katze” comes next."
    )
    assert (first.short, first.query, first.key) == ("Katze ← kitten 92%", 2, 3)
    at_the_end = session([[looking(5, 5, (4, 2))]], "[s] eine rote Katze schläft", "[s] some purple kitten sleeps")
    assert findings(at_the_end)[0].sentence.endswith("“schläft” gives 92% of its attention to “purple”.")
    made.findings = findings(made)
    assert explained_token(made) == 2
    made.findings = []
    assert explained_token(made) is None


def test_a_session_computes_its_findings_once() -> None:
    made = session_of("bert")
    assert made.findings is made.findings and made.findings == findings(made)


def test_links_are_of_two_different_whole_words_with_letters_enough() -> None:
    pairs = {"special": (1, 0), "short": (1, 4), "from a short one": (10, 8), "the same word": (2, 8)}
    for what, pair in pairs.items():
        assert links(session([[looking(13, 13, pair)]], PAIR)) == [], what
    assert links(session([[looking(4, 4, (0, 2))]], "a b c d")) == [(0, 0, 0, 2)], "of short words, where all are"
    made = session([[looking(13, 13, (1, 2))]], PAIR)
    made.streams["text"][3] = Token("##x", "##x", 3, continues=True)
    assert links(made) == [], "a piece of a word"


def test_each_pair_and_each_head_has_one_link_and_a_few_are_told() -> None:
    pairs = [(1, 2), (1, 5), (2, 3), (3, 5), (7, 8), (8, 12 - 1)]
    heads = [looking(13, 13, pair, share=0.9 - at / 20) for at, pair in enumerate(pairs)]
    both = looking(13, 13, (1, 2), (5, 3), share=0.95)
    found = links(session([[*heads, both, looking(13, 13, (2, 1), share=0.99)]], PAIR))
    assert found == [(0, 7, 2, 1), (0, 6, 5, 3), (0, 1, 1, 5), (0, 2, 2, 3)] and len(found) == MOST_LINKS


def test_the_link_from_one_token_is_the_strongest_that_it_has_whatever_it_is() -> None:
    heads = [looking(13, 13, (3, 2), share=0.6), looking(13, 13, (3, 5), share=0.8), looking(13, 13, (1, 2), share=0.9)]
    made = session([[*heads, looking(13, 13, (3, 0), share=0.99)]], PAIR)  # “like” is no word of much meaning
    link = link_from(made, 3)
    assert link is not None and (link.layer, link.head, link.query, link.key) == (0, 1, 3, 5)
    assert link_from(made, 7) is None, "it looks at all alike"


def test_the_link_from_the_last_token_of_a_long_text_is_found() -> None:
    T = CELLS // 16
    made = session([[looking(T, T, (T - 1, 8))]], " ".join(f"word{'x' * (at % 7)}" for at in range(T)))
    link = link_from(made, T - 1)
    assert link is not None and link.key == 8


def test_a_causal_first_token_can_only_look_at_itself_and_that_is_no_pattern() -> None:
    """Uniform attention to what is visible: nothing stands out."""
    uniform = torch.ones(13, 13).tril()
    made = session([[uniform / uniform.sum(-1, keepdim=True)]], PAIR, causal=True)
    assert findings(made) == []
    assert findings(session([[torch.ones(1, 1)]], "alone")) == []


def test_few_tokens_have_no_pattern_and_no_link() -> None:
    """Of two tokens each head attends to the one before or to itself: that says nothing about the head."""
    for text, told in (
        ("time flies", 0),
        ("[CLS] time flies like [SEP]", 0),
        ("[CLS] time flies like arrows [SEP]", 2),
    ):
        count = len(text.split())
        found = findings(session([[looking(count, count, (count - 2, count - 3), (count - 3, count - 4))]], text))
        assert len(found) == told


def test_of_a_long_text_some_rows_and_layers_stand_for_all() -> None:
    T = TOKENS // 2
    words = " ".join(map(str, range(T)))
    asked: list[tuple[int, int]] = []

    def head(layer: int, head: int, name: str) -> Any:
        def probs(rows: Tensor) -> Tensor:
            asked.append((layer, len(rows)))
            return torch.full((len(rows), T), 1 / T)

        return SimpleNamespace(probs=probs, masked=lambda rows: None)

    made = session([[torch.zeros(1)]] * 8, words)
    made.head = head
    assert findings(made) == []
    assert asked == [(0, CELLS // T), (4, CELLS // T)]


@pytest.mark.parametrize("kind", ["bert", "gpt2", "transformer", "clip", "whisper", "lxmert", "mistral"])
def test_every_kind_of_map_has_an_opening_within_it(kind: str) -> None:
    made: Session = session_of(kind)
    found = made.findings[-1]
    assert isinstance(found, HeadFinding) and found.query is None
    about = made.maps[found.map]
    beside = made.overview(found.layer, found.map).summaries[found.head]
    share = found.sentence.rpartition(": ")[2].removesuffix(" of the attention.")
    assert beside.startswith(("mixed", "spread")) or beside.endswith(f", {share}"), "one rule for both"
    assert found.layer < about.layers and found.head < about.heads
    crosses = [each for each in made.maps.values() if each.queries != each.keys]
    assert (about.queries != about.keys) == bool(crosses)
