"""Claims of lecture notes about well-known models, checked."""

from __future__ import annotations

import pytest

from glassformer.lessons.sizes import CLAIMS, CheckedClaim, check


@pytest.fixture(scope="module")
def checked() -> dict[str, CheckedClaim]:
    return {line.statement: line for line in check()}


@pytest.mark.parametrize(
    ("statement", "actual", "correct"),
    [
        ("GPT-3 has 175 billion parameters", "174,604,259,328 parameters", True),
        ("DistilBERT has 40% fewer parameters than BERT", "39.4% fewer", True),
        ("GPT-2 1.5B is 1,024 wide", "width 1,600", False),
        ("Llama 3 reads 128k tokens", "context 8,192", False),
        ("Llama 3 has a vocabulary of about 65,000", "vocabulary 128,256", False),
        ("Llama 3.1 405B is about 12,288 wide", "width 16,384", False),
        ("BERT has a vocabulary of 30,000", "vocabulary 30,522", False),
    ],
)
def test_what_is_computed(checked: dict[str, CheckedClaim], statement: str, actual: str, correct: bool) -> None:
    assert (checked[statement].actual, checked[statement].correct) == (actual, correct)


def test_every_claim_is_tested_above_and_every_line_teaches(checked: dict[str, CheckedClaim]) -> None:
    computed = {claim.statement for claim in CLAIMS}
    assert len(computed) == 7
    for words in ("405B was pre-trained", "C4", "GPT-1"):
        assert any(words in line and line not in computed for line in checked)
    assert all(line.lesson for line in checked.values())
