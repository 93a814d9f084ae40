"""Generated texts as data: each answer with its score, and the most likely tokens of each of its steps.

generated = model.generate("Once upon a time", top=3, return_scores=True)
answers(generated, model.tokenizer.target)[0]["steps"][0]["likeliest"]
"""

from __future__ import annotations

from typing import Any

from glassformer.generation.decoding import Generated
from glassformer.text import Tokenizer


def answers(generated: Generated, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The answers as JSON data: text, score, why each ended, ids; with steps where alternatives were asked for."""
    assert generated.texts is not None and generated.scores is not None  # both were requested
    rows = zip(generated.texts, generated.scores.tolist(), generated.reasons, generated.new_ids.tolist(), strict=True)
    return [
        {
            "text": text,
            "score": score,
            "ended_by": reason,
            "ids": ids,
            **_speculation(row, generated),
            **({} if generated.logprobs is None else {"steps": steps_of(row, generated, tokenizer)}),
        }
        for row, (text, score, reason, ids) in enumerate(rows)
    ]


def _speculation(row: int, generated: Generated) -> dict[str, int]:
    """Of speculative decoding: how many tokens were proposed, and how many of them accepted."""
    if generated.proposed is None or generated.accepted is None:
        return {}
    return {"proposed": int(generated.proposed[row]), "accepted": int(generated.accepted[row])}


def steps_of(row: int, generated: Generated, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The tokens of a row, each with its probability and the most likely alternatives."""
    assert generated.logprobs is not None and generated.active is not None
    # Beam search has no alternatives: it does not choose one token from one distribution.
    none: list[list[Any]] = [[]] * generated.logprobs.shape[1]
    return [
        {
            "id": token,
            "token": _token(tokenizer, token),
            "probability": probability,
            "likeliest": [
                {"id": other, "token": _token(tokenizer, other), "probability": share}
                for other, share in zip(others, shares, strict=True)
            ],
        }
        for token, probability, others, shares, active in zip(
            generated.new_ids[row].tolist(),
            generated.logprobs[row].exp().tolist(),
            none if generated.top_ids is None else generated.top_ids[row].tolist(),
            none if generated.top_logprobs is None else generated.top_logprobs[row].exp().tolist(),
            generated.active[row].tolist(),
            strict=True,
        )
        if active
    ]


def _token(tokenizer: Tokenizer, token_id: int) -> str:
    """The vocabulary entry of an id, with its marker of a space; the id itself if it has none."""
    return tokenizer.engine.id_to_token(token_id) or f"#{token_id}"
