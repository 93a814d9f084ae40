"""A lesson in not believing tables: what lecture notes say of well-known models, beside what can be computed or cited.

    for checked in check():
        print(checked.said, checked.found, checked.right)

What is a size is computed from the network; what is not, such as the text a model has read, is cited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from glassformer.inspect import Size, sizes

ROUNDED = 0.02  # a number given in two or three digits is right if it is this near


@dataclass(frozen=True, slots=True)
class Claim:
    """A number that notes give, how to compute it, and what to learn from the difference."""

    said: str
    value: float
    compute: Callable[[dict[str, Size]], float | None]
    words: str  # how to say the computed number, as a format
    lesson: str
    near: float = (
        0.0  # an exact size is right if it is exact: what is near enough for a talk loads no checkpoint
    )


@dataclass(frozen=True, slots=True)
class Belief:
    """What notes say of a model's training, and what its paper says; no network can tell."""

    said: str
    found: str
    source: str


@dataclass(frozen=True, slots=True)
class Checked:
    """A line of notes: what they say, what is found, whether they are right, and why it matters."""

    said: str
    found: str
    right: bool
    lesson: str

    def to_dict(self) -> dict[str, Any]:
        """A plain dict, for JSON."""
        return asdict(self)


CLAIMS = (
    Claim(
        "GPT-3 has 175 billion parameters",
        175e9,
        lambda s: s["gpt3-175b"].parameters,
        "{:,.0f} parameters",
        "twelve times the square of the width a block, and the table of tokens",
        near=ROUNDED,
    ),
    Claim(
        "DistilBERT has 40 % fewer parameters than BERT",
        0.40,
        lambda s: 1 - s["distilbert-base-uncased"].parameters / s["bert-base-uncased"].parameters,
        "{:.1%} fewer",
        "half the blocks, but all of the table of tokens",
        near=ROUNDED,
    ),
    Claim(
        "GPT-2 1.5B is 1,024 wide",
        1024,
        lambda s: s["gpt2-xl"].width,
        "width {:,.0f}",
        "1,024 is its context, and the width of gpt2-medium",
    ),
    Claim(
        "Llama 3 reads 128k tokens",
        131_072,
        lambda s: s["llama3-8b"].context,
        "context {:,.0f}",
        "128k came with Llama 3.1",
    ),
    Claim(
        "Llama 3 has a vocabulary of about 65,000",
        65_000,
        lambda s: s["llama3-8b"].vocabulary,
        "vocabulary {:,.0f}",
        "four times that of Llama 2: its table alone holds half a billion parameters",
    ),
    Claim(
        "Llama 3.1 405B is about 12,288 wide",
        12_288,
        lambda s: s["llama3.1-405b"].width,
        "width {:,.0f}",
        "12,288 is the width of GPT-3 175B",
    ),
    Claim(
        "BERT has a vocabulary of 30,000",
        30_000,
        lambda s: s["bert-base-uncased"].vocabulary,
        "vocabulary {:,.0f}",
        "the paper rounds; a table of 30,000 rows cannot hold the checkpoint, nor ids up to 30,521",
    ),
)
BELIEFS = (
    Belief(
        "Llama 3.1 405B was pre-trained on several modalities",
        "on text alone; images, films and speech came later, through adapters",
        "Grattafiori et al. 2024, sections 3, 7 and 8",
    ),
    Belief(
        "Llama was trained on C4",
        "C4 is 15 % of it: CommonCrawl 67 %, and code, Wikipedia, books, papers, questions and answers",
        "Touvron et al. 2023a, table 1",
    ),
    Belief(
        "GPT-1 was trained on Wikipedia",
        "on BooksCorpus, for its long passages",
        "Radford et al. 2018, section 4.1",
    ),
)


def check() -> list[Checked]:
    """Every line of the notes beside what is found."""
    measured = {size.name: size for size in sizes()}
    return [
        *(_checked(claim, claim.compute(measured)) for claim in CLAIMS),
        *(Checked(belief.said, belief.found, False, belief.source) for belief in BELIEFS),
    ]


def _checked(claim: Claim, found: float | None) -> Checked:
    assert found is not None  # each of these models has a context and a vocabulary
    right = abs(found - claim.value) <= claim.near * claim.value
    return Checked(claim.said, claim.words.format(found), right, claim.lesson)
