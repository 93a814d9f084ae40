"""What a model does with places, scores and norms, in words that are true of it: for the texts of lessons.

made_of         its row in a table that the model has learned, plus the vector of its place in the text
not_in_it       They do not say where in the text it stands: heads learn that otherwise, as we shall see.
made_ready      Both were turned by the places of their tokens (rotary positions).
to_score        Times 0.125, plus -1.3 for the distance of the two, that is
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from glassformer.core.attention import MultiHeadAttention
from glassformer.core.blocks import Block
from glassformer.core.embeddings import LearnedPositions
from glassformer.inspect.lens import Lens
from glassformer.inspect.lookup import input_embedding
from glassformer.inspect.session import Session
from glassformer.inspect.similarity import SimilarityMap
from glassformer.inspect.tokens import Token
from glassformer.reports.chance import near_chance
from glassformer.reports.table import percent

Item = tuple[str, str, float | None]
"""What a step lists: a name, what stands next to it, and a share from 0 to 1, or None."""
MOST_LEVELS, JUMPS = 13, 2
"""Levels that are listed one by one; and of more those that are, where their values jump."""


def kinds_of(tokens: Sequence[Token]) -> str:
    """What tokens are: words, pieces of words, signs of the model's own."""
    special = next((token.text for token in tokens if token.special), None)
    kinds = ["words"] if any(not token.special for token in tokens) else []
    kinds += ["pieces of words"] if any(token.continues for token in tokens) else []
    kinds += [f"signs of its own, such as {special}"] if special is not None else []
    return " and ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds)


def kind_of(session: Session, stream: str) -> str:
    """What a vector of a stream stands for: a token, a moment of a sound, or a piece of a picture."""
    batch = session.batch
    heard = batch.input_features is not None or batch.input_values is not None
    if stream == "sound" or (stream == "source" and heard):
        return "moment"
    return "piece" if stream == "image" else "token"


def made_of(session: Session, stream: str) -> str:
    """What the vector of a token is made of before the first layer."""
    embedding = input_embedding(session, stream)
    row = "its row in a table that the model has learned"
    spec, positions = getattr(embedding, "spec", None), getattr(embedding, "positions", None)
    added = []
    if isinstance(positions, LearnedPositions):
        added.append(f"the vector of its place in the text, one of {positions.num_embeddings:,} in another such table")
    elif positions is not None:
        added.append("waves that say its place in the text")
    if getattr(embedding, "segments", None) is not None:
        added.append("one that says which of two texts it is of")
    scaled = f", times {spec.scale:.3g}," if spec is not None and getattr(spec, "scale", 1.0) != 1.0 else ""
    norm = getattr(embedding, "norm", None)
    normed = "; the sum is brought to a common scale" if norm is not None and not isinstance(norm, nn.Identity) else ""
    return f"{row}{scaled}{' plus ' if added else ''}{', and '.join(added)}{normed}"


def not_in_it(session: Session, stream: str) -> str:
    """That a vector does not say which place its token has, where heads learn it otherwise; with a space in front."""
    if getattr(input_embedding(session, stream), "positions", None) is not None:
        return ""
    known = any(about.rotary or about.biased for about in session.maps.values() if about.queries == stream)
    return " They do not say where in the text it stands: that reaches the heads, as we shall see." if known else ""


def made_ready(attention: MultiHeadAttention) -> str:
    """What was done to query and key before they are multiplied; with a space behind."""
    words = ["brought to one length"] if attention.spec.qk_norm is not None else []
    if attention.spec.rotary is not None:
        words.append("turned by the places of their tokens (rotary positions), so that distance counts")
    return f"Both were {' and '.join(words)}. " if words else ""


def to_score(attention: MultiHeadAttention, scale: float, width: int, position_bias: float) -> str:
    """What makes a score of the product of query and key."""
    cap = attention.spec.score_cap
    root = f", which is 1/√{width}" if math.isclose(scale, 1 / math.sqrt(width)) else ""
    words = [f"times {scale:.4g}{root}"] if scale != 1 else []
    if cap is not None:
        words.append(f"held below {cap:.4g}")
    elif position_bias:
        words.append(f"{'plus' if position_bias > 0 else 'minus'} {abs(position_bias):.4g} for the distance of the two")
    return f"{', '.join(words).capitalize()}, that is" if words else "That is"


def norms_between(block: nn.Module) -> str:
    """A sentence that norms rescale the sums of a block, where they do; with a space in front."""
    after = isinstance(block, Block) and not isinstance(block.ffn_residual.on_residual, nn.Identity)
    return " A norm brings each sum to a common scale." if after else ""


ALIKE = ((0.8, "nearly the same"), (0.5, "closely related"), (0.25, "somewhat related"), (-2.0, "hardly related"))
"""Cosines of two texts, from which on they are so to a model that compares texts."""


def alike(cosine: float) -> str:
    """What a cosine of two texts says."""
    return next(words for least, words in ALIKE if cosine >= least)


def closest_words(similarity: SimilarityMap) -> str:
    """The two words that add most to the similarity of two texts."""
    words = similarity.words()
    first, second = words.tokens
    pairs = ((first[i], second[j]) for i, j, x in words.top(words.cells.size) if x > 0)
    chosen = next((pair for pair in pairs if not (pair[0].special or pair[1].special)), None)
    if chosen is None:
        return "no two words"
    return f"“{chosen[0].text}” of the first and “{chosen[1].text}” of the second"


FEW_CHOICES = 64
"""Of more answers than these, the place of one among them tells more than its being the first or not."""
FIRST_GUESSES, LAST_GUESSES = 2, 4
"""Of answers that change from layer to layer, those that are listed."""


def guesses(lens: Lens, layer: int) -> str:
    """What a model would answer after the embedding and after the last layer, and how it came to it.

    Args:
        lens: of one column
        layer: before and after which the place of the answer is named
    """
    (first, share), (last, end) = (lens.top(row, 0)[0] for row in (0, -1))
    rows, settled = lens.rows, lens.settled(0)
    words = (
        f"It would say “{first}” ({_likely(lens, share)}) after {_after(rows[0])}, and “{last}” "
        f"({_likely(lens, end)}) after {rows[-1]}."
    )
    if settled == 0:
        return f"{words} “{last}” is the first choice all the way."
    if lens.choices <= FEW_CHOICES:
        again = f"the first choice after {_after(rows[0])}, and again" if first == last else "the first choice"
        return f"{words} “{last}” is {again} from {rows[settled]} on."
    ranks = dict.fromkeys(row for row in (0, layer, layer + 1) if row < settled)
    places = [f"number {int(lens.ranks[row, 0]):,} after {_after(rows[row])}" for row in ranks]
    of = f"Of {lens.choices:,} answers “{last}” is {', '.join(places)}, and the first from {rows[settled]} on."
    return f"{words} {of}"


def _likely(lens: Lens, share: float) -> str:
    """A probability, and of one of a few answers that it is hardly better than chance, where it is."""
    chance = 1 / lens.choices
    few = 1 < lens.choices <= FEW_CHOICES and lens.about.normalised
    near = f", hardly better than the {percent(chance)} of chance" if few and near_chance(share, chance) else ""
    return f"{percent(share)}{near}"


def grid_shows(lens: Lens) -> str:
    """What the columns of the grid of a lens are, in a sentence: tokens, or the classes of a text."""
    if lens.about.columns == "text":
        return "The grid has a column for each class: the stronger a colour, the more likely the class."
    return "The grid has this for all tokens: the stronger a colour, the more likely the answer."


def list_guesses(lens: Lens) -> list[Item]:
    """The answers after the embedding and each layer, equal ones as one with the range of their probabilities; of many
    the first and the last.
    """
    tops = [lens.top(row, 0)[0] for row in range(len(lens.rows))]
    starts = [row for row in range(len(tops)) if row == 0 or tops[row][0] != tops[row - 1][0]]
    runs: list[Item] = []
    for start, end in pairwise([*starts, len(tops)]):
        last = lens.rows[end - 1] if start == 0 else lens.rows[end - 1].rpartition(" ")[2]
        name = lens.rows[start] + (f" to {last}" if end > start + 1 else "")
        shares = [share for _, share in tops[start:end]]
        runs.append((name, f"“{tops[start][0]}” {_range(shares)}", shares[-1]))
    between = runs[FIRST_GUESSES:-LAST_GUESSES]
    if len(between) < 2:
        return runs
    more = f"{starts[len(runs) - LAST_GUESSES] - starts[FIRST_GUESSES]} layers"
    return [*runs[:FIRST_GUESSES], (more, "other answers", None), *runs[-LAST_GUESSES:]]


def _range(shares: Sequence[float]) -> str:
    """The smallest and the largest of some probabilities, the one that comes first first."""
    ends = sorted((shares.index(min(shares)), shares.index(max(shares))))
    return " to ".join(dict.fromkeys(percent(shares[at]) for at in ends))


def _after(row: str) -> str:
    return f"the {row}" if row == "embedding" else row


def between_turns(items: Sequence[Item], values: Sequence[float]) -> list[Item]:
    """Of many levels the first, the last, and where their values jump most; of those between, from where to where."""
    if len(items) <= MOST_LEVELS:
        return list(items)
    jumps = sorted(range(1, len(values)), key=lambda at: -abs(values[at] - values[at - 1]))[:JUMPS]
    shown: list[Item] = [items[0]]
    for before, at in pairwise(sorted({0, *jumps, len(values) - 1})):
        between = values[before + 1 : at]
        if len(between) > 1:
            name = f"{items[before + 1][0]} to {items[at - 1][0].rpartition(' ')[2]}"
            shown.append((name, f"{min(between):.3f} to {max(between):.3f}", max(0.0, *between)))
        else:
            shown += items[before + 1 : at]
        shown.append(items[at])
    return shown
