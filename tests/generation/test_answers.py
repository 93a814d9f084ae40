"""Generated texts as data: scores, ids, and the most likely tokens of each step."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.generation.answers import answers, steps_of
from glassformer.model import load


def test_answers_and_their_steps(shared: Path) -> None:
    model = load(shared / "models" / "stories260k")
    generated = model.generate("Once upon a time", max_new_tokens=4, top=3, return_scores=True)
    (answer,) = answers(generated, model.tokenizer.target)
    assert answer["text"] == model.generate("Once upon a time", max_new_tokens=4)
    assert [step["id"] for step in answer["steps"]] == answer["ids"]
    for step in answer["steps"]:
        best = step["likeliest"][0]
        assert (best["id"], len(step["likeliest"])) == (step["id"], 3), "greedy search takes the most likely token"
        assert best["probability"] == pytest.approx(step["probability"], abs=1e-6)
    assert steps_of(0, generated, model.tokenizer.target) == answer["steps"]
