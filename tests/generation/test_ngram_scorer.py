"""Shallow fusion with an n-gram model of tokens, in every search."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer import ConfigError, Model
from glassformer.generation.scorer import NgramScorer
from glassformer.ngram.kneser_ney import train_ngram

TOKENS = [f"t{i}" for i in range(20)]
END = 2
TEXTS = [["t5", "t6", "t7"], ["t5", "t6", "t8"], ["t9", "t5", "t6", "t7"]] * 3
IDS = torch.tensor([[3, 4], [11, 12]])


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(0)
    config = {"model_type": "gpt2", "vocab_size": 20, "n_positions": 32, "n_embd": 16, "n_layer": 1, "n_head": 2}
    return Model.from_config(config, task="text-generation").eval()


def test_scores_are_those_of_the_texts_so_far() -> None:
    ngram = train_ngram(TEXTS, 3)
    scorer = NgramScorer(ngram, TOKENS, end=[END])
    for generated in ([], [5], [5, 6], [5, 6, 19], [7]):
        ids = torch.tensor([[3, 4, *generated], [3, 4, *reversed(generated)]])
        for row, scores in zip(ids.tolist(), scorer(ids, 2), strict=True):
            expected = ngram.log_probs(ngram.state([TOKENS[i] for i in row[2:]]))
            assert scores[7].item() == pytest.approx(expected[ngram.ids(["t7"])[0]], rel=1e-5)
            assert scores[END].item() == pytest.approx(expected[2], rel=1e-5)
            assert scores[19].item() == pytest.approx(expected[0], rel=1e-5)  # never seen


@pytest.mark.parametrize("search", [{}, {"num_beams": 4}, {"do_sample": True, "seed": 1}])
def test_a_weight_of_0_is_the_plain_search(model: Model, search: dict[str, object]) -> None:
    scorer = NgramScorer(train_ngram(TEXTS, 3), TOKENS, end=[END])
    settings = {"max_new_tokens": 6, "eos_token_id": END, "return_scores": True, **search}
    plain, fused = model.generate(IDS, **settings), model.generate(IDS, scorers=[(scorer, 0.0)], **settings)
    assert fused.ids.equal(plain.ids)
    assert fused.scores is None or fused.scores.equal(plain.scores)


def test_a_large_weight_says_what_the_texts_say(model: Model) -> None:
    scorer = NgramScorer(train_ngram(TEXTS, 3), TOKENS, end=[END])
    written = model.generate(IDS, num_beams=4, max_new_tokens=8, eos_token_id=END, scorers=[(scorer, 50.0)])
    assert [row[2:6] for row in written.tolist()] == [[5, 6, 7, END]] * 2
    again = model.generate(IDS[:1, :1], max_new_tokens=3, eos_token_id=END, scorers=[(scorer, 50.0)])
    assert again.tolist() == [[3, 5, 6, 7]]  # a prompt of another length


def test_words_of_another_tokenizer_are_refused() -> None:
    ngram = train_ngram([["the", "cat"]], 2)
    with pytest.raises(ConfigError, match="knows none of the 20 tokens"):
        NgramScorer(ngram, TOKENS, end=[END])
    assert math.isfinite(ngram.score(["the"]))
