"""Check claims of lecture notes about well-known models against computed sizes and cited papers.

    for line in check():
        print(line.statement, line.actual, line.correct)

Sizes are computed from the network; what a network cannot tell, such as its training data, is cited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glassformer.inspect import Size, sizes
from glassformer.reports.report import Report
from glassformer.reports.table import Table

ROUNDING_TOLERANCE = 0.02  # relative; for numbers that are given in two or three digits


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim about a size: its number, how to compute the actual one, and an explanation of the difference."""

    statement: str
    value: float
    compute: Callable[[dict[str, Size]], float | None]
    template: str  # a format string for the computed number
    lesson: str
    tolerance: float = 0.0  # relative; widths and vocabularies must be exact, or no checkpoint can be loaded


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """A claim next to the actual fact: whether it is correct, and an explanation."""

    statement: str
    actual: str
    correct: bool
    lesson: str


class CheckedClaims(Report, list[CheckedClaim], kind="size-claims", keys=("claims",)):
    """Claims next to computed sizes: a list that shows itself as a table."""

    @property
    def claims(self) -> list[CheckedClaim]:
        return list(self)

    def tables(self) -> list[Table]:
        rows = [[x.statement, "right" if x.correct else "wrong", x.actual, x.lesson] for x in self]
        return [Table(["claim in the notes", "", "computed", "explanation"], rows, left=4, longest=400)]


CLAIMS = (
    Claim(
        "GPT-3 has 175 billion parameters",
        175e9,
        lambda s: s["gpt3-175b"].parameters,
        "{:,.0f} parameters",
        "twelve times the square of the width a block, and the table of tokens",
        tolerance=ROUNDING_TOLERANCE,
    ),
    Claim(
        "DistilBERT has 40% fewer parameters than BERT",
        0.40,
        lambda s: 1 - s["distilbert-base-uncased"].parameters / s["bert-base-uncased"].parameters,
        "{:.1%} fewer",
        "half the blocks, but all of the table of tokens",
        tolerance=ROUNDING_TOLERANCE,
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
FALSE_TRAINING_CLAIMS = (
    CheckedClaim(
        "Llama 3.1 405B was pre-trained on several modalities",
        "on text alone; images, films and speech came later, through adapters",
        False,
        "Grattafiori et al. 2024, sections 3, 7 and 8",
    ),
    CheckedClaim(
        "Llama was trained on C4",
        "C4 is 15% of it: CommonCrawl 67%, and code, Wikipedia, books, papers, questions and answers",
        False,
        "Touvron et al. 2023a, table 1",
    ),
    CheckedClaim(
        "GPT-1 was trained on Wikipedia",
        "on BooksCorpus, for its long passages",
        False,
        "Radford et al. 2018, section 4.1",
    ),
)
"""Claims about training, which no network can tell: what its paper says instead, and where."""


def check() -> CheckedClaims:
    computed = {size.name: size for size in sizes()}
    checked = (_check_claim(claim, claim.compute(computed)) for claim in CLAIMS)
    return CheckedClaims([*checked, *FALSE_TRAINING_CLAIMS])


def _check_claim(claim: Claim, actual: float | None) -> CheckedClaim:
    assert actual is not None  # each of these models has a context and a vocabulary
    correct = abs(actual - claim.value) <= claim.tolerance * claim.value
    return CheckedClaim(claim.statement, claim.template.format(actual), correct, claim.lesson)
