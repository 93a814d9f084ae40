"""Contrastive search takes the token that the formula names, written out here with a whole pass for every candidate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import glassformer
from glassformer import ConfigError, DataError, Model, UnsupportedError
from glassformer.models import FAMILIES

FAMILY_NAMES = ("gpt2", "llama", "t5", "bart")
IDS = torch.tensor([[0, 0, 9, 4, 9, 4], [7, 2, 61, 7, 2, 30], [5, 17, 3, 44, 5, 17]])
MASK = torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6, [1] * 6])
families = pytest.mark.parametrize("family", FAMILY_NAMES)


@pytest.fixture(scope="module")
def models() -> Callable[[str], Model]:
    """Tiny networks in fp64, every parameter perturbed."""
    made: dict[str, Model] = {}

    def model(family: str) -> Model:
        if family not in made:
            torch.manual_seed(4)
            task = "translation" if "translation" in FAMILIES[family].tasks else "text-generation"
            made[family] = Model.from_config(FAMILIES[family].tiny, task=task).eval()
            with torch.no_grad():
                for parameter in made[family].parameters():
                    parameter.add_(torch.randn_like(parameter) * 0.2)
            made[family].to(torch.float64)
        return made[family]

    return model


@torch.no_grad()
def written_out(model: Model, prompt: list[int], new: int, alpha: float, k: int) -> list[int]:
    """Section 4.2 of the paper, one candidate at a time, without a cache; stops at the model's end tokens."""
    answers = "decoder_input_ids" in model.network.READS
    row_ids = [model.config["decoder_start_token_id"]] if answers else list(prompt)
    prompt_length, ends = len(row_ids), {model.config["eos_token_id"]}

    def run(ids: list[int]) -> tuple[Tensor, Tensor]:
        given = {"input_ids": torch.tensor([prompt]), "decoder_input_ids": torch.tensor([ids])}
        output = model(**given) if answers else model(torch.tensor([ids]))
        return output.logits[0, -1], output.last_hidden_state[0]

    while len(row_ids) < prompt_length + new and not ends & set(row_ids[prompt_length:]):
        logits, states = run(row_ids)
        if answers and model.config.get("forced_eos_token_id") and len(row_ids) == prompt_length + new - 1:
            row_ids.append(model.config["forced_eos_token_id"])
            break
        probs, scores = logits.softmax(0), {}
        for token in probs.argsort(descending=True)[:k].tolist():
            own = run([*row_ids, token])[1][-1]
            likeness = max(float(torch.cosine_similarity(own, state, dim=0)) for state in states)
            scores[token] = (1 - alpha) * float(probs[token]) - alpha * likeness
        row_ids.append(max(scores, key=lambda token: scores[token]))
    return row_ids[prompt_length:]


def new_tokens(model: Model, ids: Tensor, **settings: Any) -> list[list[int]]:
    """What each row says, without what stands behind its end."""
    result = model.generate(ids, return_scores=True, **settings)
    return [row[row_ids].tolist() for row, row_ids in zip(result.new_ids, result.active, strict=True)]


@pytest.mark.representative("0.6")
@families
@pytest.mark.parametrize(("alpha", "k"), [(0.6, 4), (0.3, 2), (1.0, 7)])
def test_as_written_out(models: Callable[[str], Model], family: str, alpha: float, k: int) -> None:
    model, settings = models(family), {"penalty_alpha": alpha, "top_k": k, "max_new_tokens": 14}
    batch = new_tokens(model, IDS, attention_mask=MASK, **settings)
    for row in range(3):
        prompt = IDS[row, MASK[row] == 1]
        assert batch[row] == written_out(model, prompt.tolist(), 14, alpha, k)
        assert batch[row] == new_tokens(model, prompt[None], **settings)[0]
        assert batch[row] == new_tokens(model, prompt[None], use_cache=False, **settings)[0]


@families
def test_without_a_penalty_it_is_greedy(models: Callable[[str], Model], family: str) -> None:
    model, settings = models(family), {"attention_mask": MASK, "max_new_tokens": 16}
    greedy = model.generate(IDS, return_scores=True, **settings)
    for given in ({"penalty_alpha": 0.0, "top_k": 5}, {"penalty_alpha": 0.9, "top_k": 1}):
        result = model.generate(IDS, return_scores=True, **given, **settings)
        assert result.ids.equal(greedy.ids) and result.reasons == greedy.reasons
        torch.testing.assert_close(result.logprobs, greedy.logprobs, atol=1e-10, rtol=1e-10)
    assert not model.generate(IDS, penalty_alpha=0.9, top_k=5, **settings).equal(greedy.ids)


def test_rules_hold_and_a_banned_token_is_no_candidate(models: Callable[[str], Model]) -> None:
    """Of 99 tokens all but two are banned: the others have probability 0, however unlike their states are."""
    banned = [[token] for token in range(99) if token not in (30, 31)]
    result = models("gpt2").generate(IDS, penalty_alpha=1.0, top_k=20, bad_words_ids=banned, max_new_tokens=12)
    assert set(result[:, 6:].flatten().tolist()) == {30, 31}
    result = models("llama").generate(IDS, penalty_alpha=0.1, top_k=4, no_repeat_ngram_size=1, max_new_tokens=20)
    assert all(len(set(row[6:])) == len(row[6:]) for row in result.tolist())


def test_a_pass_a_token_and_one_for_the_prompt(models: Callable[[str], Model]) -> None:
    model, fed = models("gpt2"), list[tuple[int, ...]]()
    handle = model.network.register_forward_pre_hook(lambda _, given: fed.append(given[0].input_ids.shape))
    model.generate(IDS, penalty_alpha=0.5, top_k=4, max_new_tokens=9)
    handle.remove()
    assert fed == [(3, 6)] + [(12, 1)] * 9


def test_more_candidates_than_tokens(models: Callable[[str], Model]) -> None:
    settings = {"penalty_alpha": 0.6, "max_new_tokens": 6}
    model = models("gpt2")
    assert model.generate(IDS, top_k=500, **settings).equal(model.generate(IDS, top_k=99, **settings))


def test_the_last_token_is_read_too(models: Callable[[str], Model]) -> None:
    """It needs a position: of 40, 6 are the prompt's."""
    settings = {"penalty_alpha": 0.6, "top_k": 4}
    assert models("gpt2").generate(IDS, max_new_tokens=34, **settings).shape == (3, 40)
    with pytest.raises(DataError, match="at most 34 new tokens"):
        models("gpt2").generate(IDS, max_new_tokens=35, **settings)
    assert models("gpt2").generate(IDS, max_new_tokens=0, **settings).equal(IDS)


def test_a_stream(models: Callable[[str], Model]) -> None:
    settings = {"penalty_alpha": 0.6, "top_k": 4, "max_new_tokens": 9}
    streamed = torch.stack(list(models("llama").stream(IDS, **settings)), dim=1)
    assert streamed.equal(models("llama").generate(IDS, **settings)[:, 6:])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            {"penalty_alpha": 1.5, "top_k": 4},
            ConfigError,
            "penalty_alpha is 1.5; it must be a number from 0 to 1",
        ),
        ({"penalty_alpha": 0.5}, ConfigError, "top_k is None; add it, such as top_k=4"),
        ({"penalty_alpha": 0.5, "top_k": 0}, ConfigError, "top_k is 0"),
        (
            {"penalty_alpha": 0.5, "top_k": 4, "top_p": 0.9},
            ConfigError,
            "top_p changes the sampling distribution",
        ),
        (
            {"penalty_alpha": 0.5, "top_k": 4, "do_sample": True},
            UnsupportedError,
            "does not go with do_sample",
        ),
        (
            {"penalty_alpha": 0.5, "top_k": 4, "num_beams": 3},
            UnsupportedError,
            "does not go with num_beams=3",
        ),
        ({"penalty_alpha": 0.5, "top_k": 4, "num_return_sequences": 2}, ConfigError, "has one answer"),
    ],
)
def test_wrong_options(models: Callable[[str], Model], given: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        models("gpt2").generate(IDS, **given)


def test_a_story_repeats_itself_less(shared: Path) -> None:
    stories = glassformer.load(shared / "models" / "stories260k")
    prompt = "Tom had a ball. Tom had a ball. Tom had a ball."
    texts = [
        stories.generate(prompt, max_new_tokens=150, **settings)
        for settings in ({}, {"penalty_alpha": 0.6, "top_k": 5})
    ]
    shares = []
    for text in texts:
        words = text.split()
        runs = [tuple(words[i : i + 3]) for i in range(len(words) - 2)]
        shares.append(len(set(runs)) / len(runs))
    assert shares[1] > shares[0]
