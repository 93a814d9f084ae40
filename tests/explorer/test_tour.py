"""The steps of the tour, next to the numbers of the session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer.explorer.tour import tour
from glassformer.inspect.opening import opening
from tests.inspect.passes import session_of

PAIR = ("time flies like an arrow", "fruit flies like a banana")


def test_the_steps_follow_the_opening_link_with_the_numbers_of_the_session(minilm: Path) -> None:
    session = glassformer.load(minilm).inspect(*PAIR)
    best = opening(session)
    assert best is not None
    tokens, vector, head, arithmetic, layers, output = tour(session)["steps"]
    for step in (tokens, vector, head, arithmetic, output):
        assert step["state"] == {"map": "self", "layers": [4, 4], "heads": [9], "query": best.query, "key": best.key}
    assert [(name, number) for name, number, _ in tokens["items"]] == [
        (token.text, str(token.id)) for token in session.streams["text"]
    ]
    assert [value for _, value, _ in vector["items"]] == [f"{x:.3f}" for x in session.states(0)[1, :6].tolist()]
    assert head["text"].startswith(best.sentence)
    one = session.head(4, 9)
    dot, score, share = float(one.q[1] @ one.k[2]), float(one.scores([1])[0, 2]), float(one.probs([1])[0, 2])
    assert [value for _, value, _ in arithmetic["items"]] == [f"{dot:.4g}", f"{score:.4g}", f"{share:.4g}"]
    assert "with what positions add" not in arithmetic["text"]
    end = torch.nn.functional.cosine_similarity(session.states(6)[1], session.states(0)[1], dim=0)
    assert layers["items"][0][1] == "1.000" and layers["items"][-1][:2] == ("layer 5", f"{float(end):.3f}")
    assert output["views"] == ["similarity", "embedding"]


@pytest.mark.parametrize("kind", ["bert", "gpt2", "transformer", "t5", "clip", "whisper", "mistral"])
def test_every_kind_of_model_has_six_steps_within_it(kind: str) -> None:
    session = session_of(kind)
    steps: list[dict[str, Any]] = tour(session)["steps"]
    assert len(steps) == 6
    for step in steps:
        about, state = session.maps[step["state"]["map"]], step["state"]
        assert state["layers"][0] < about.layers and state["heads"][0] < about.heads
        assert state["query"] < len(session.streams[about.queries])
        assert state["key"] is None or state["key"] < len(session.streams[about.keys])
        assert step["title"] and step["text"] and step["items"]
