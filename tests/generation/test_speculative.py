"""Guesses change how fast a row grows, never what it says; what is drawn follows the same probabilities."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import glassformer
from glassformer import ConfigError, DataError, Model, UnsupportedError, WeightsError
from glassformer.core.flow import Batch
from glassformer.generation.decoding import StoppingCriteria
from glassformer.generation.rows import LookaheadRows, Rows
from glassformer.generation.speculative import (
    DraftModel,
    DraftTokens,
    PromptLookup,
    RejectionSampler,
    SeededUniforms,
    SpeculativeRows,
)
from glassformer.models import FAMILIES

FAMILY_NAMES = ("gpt2", "llama", "mixtral", "t5", "bart")
IDS = torch.tensor([[0, 0, 9, 4, 9, 4], [7, 2, 61, 7, 2, 30], [5, 17, 3, 44, 5, 17]])
MASK = torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6, [1] * 6])


def make(family: str, seed: int = 4, noise: float = 0.0, **changes: Any) -> Model:
    """A tiny network in fp64, every parameter perturbed; `noise` moves it away from the one of the same seed."""
    torch.manual_seed(seed)
    task = "translation" if "translation" in FAMILIES[family].tasks else "text-generation"
    model = Model.from_config({**FAMILIES[family].tiny, **changes}, task=task).eval()
    with torch.no_grad():
        for size in (0.2, noise):
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * size)
    return model.to(torch.float64)


@pytest.fixture(scope="module")
def models() -> Callable[..., Model]:
    made: dict[tuple[str, float], Model] = {}

    def model(family: str, noise: float = 0.0) -> Model:
        return made.setdefault((family, noise), make(family, noise=noise))

    return model


@pytest.fixture(scope="module")
def stories(shared: Path) -> Model:
    return glassformer.load(shared / "models" / "stories260k")


@contextmanager
def passes(model: Model) -> Iterator[list[int]]:
    """How often the network runs."""
    count: list[int] = []
    handle = model.network.register_forward_hook(lambda *_: count.append(1))
    yield count
    handle.remove()


SPECULATIONS: dict[str, dict[str, Any]] = {
    "lookup": {"prompt_lookup_num_tokens": 4},
    "short lookup": {"prompt_lookup_num_tokens": 9, "max_matching_ngram_size": 1},
    "draft": {"noise": 0.01},
    "poor draft": {"noise": 0.2, "num_assistant_tokens": 2},
}
"""A draft is the network itself with so much noise on its weights."""

RULES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "penalty": {"repetition_penalty": 1.6},
    "bigrams": {"no_repeat_ngram_size": 2},
    "words": {"bad_words_ids": [[7], [9, 4], [30, 31]], "min_new_tokens": 9},
    "ends": {"eos_token_id": list(range(0, 99, 6))},
}

families = pytest.mark.parametrize("family", FAMILY_NAMES)


def speculation(models: Callable[..., Model], family: str, name: str) -> dict[str, Any]:
    settings = dict(SPECULATIONS[name])
    return (
        settings if "noise" not in settings else {"assistant_model": models(family, settings.pop("noise")), **settings}
    )


# --------------------------------------------------------------------------------------------------- the same is said


@pytest.mark.representative("llama", "t5", "penalty")
@families
@pytest.mark.parametrize("rule", RULES)
def test_nothing_that_is_said_changes(models: Callable[..., Model], family: str, rule: str) -> None:
    same(models(family), [speculation(models, family, name) for name in SPECULATIONS], RULES[rule])


@families
def test_nor_what_is_drawn_where_the_text_guesses(models: Callable[..., Model], family: str) -> None:
    sampled = {"do_sample": True, "seed": 5, "top_p": 0.9, "temperature": 0.7}
    same(models(family), [SPECULATIONS["lookup"]], sampled)


def same(model: Model, speculations: list[dict[str, Any]], settings: dict[str, Any]) -> None:
    """Ids, reasons, log-probabilities, alternatives; all at once, and as a stream."""
    settings = {**settings, "max_new_tokens": 23, "attention_mask": MASK}
    plain = model.generate(IDS, return_scores=True, top=3, **settings)
    for ahead in speculations:
        same_as(plain, model, ahead, settings)


def same_as(plain: Any, model: Model, ahead: dict[str, Any], settings: dict[str, Any]) -> None:
    result = model.generate(IDS, return_scores=True, top=3, **settings, **ahead)
    assert result.ids.equal(plain.ids) and result.reasons == plain.reasons
    torch.testing.assert_close(result.logprobs, plain.logprobs, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(result.filtered_logprobs, plain.filtered_logprobs, atol=1e-10, rtol=1e-10)
    assert result.top_ids.equal(plain.top_ids) and result.active.equal(plain.active)
    assert plain.proposed is None and (result.accepted <= result.proposed).all()
    streamed = model.stream(IDS, **settings, **ahead)
    assert torch.stack(list(streamed), dim=1).equal(result.new_ids)


def new_tokens(model: Model, ids: Tensor, **settings: Any) -> list[list[int]]:
    """What each row says, without what stands behind its end."""
    result = model.generate(ids, return_scores=True, **settings)
    return [row[lookahead].tolist() for row, lookahead in zip(result.new_ids, result.active, strict=True)]


@pytest.mark.representative("llama", "t5")
@families
def test_a_row_does_not_depend_on_those_beside_it(models: Callable[..., Model], family: str) -> None:
    model, settings = models(family), {"max_new_tokens": 20, "repetition_penalty": 1.2}
    for name in SPECULATIONS:
        ahead = speculation(models, family, name)
        batch = new_tokens(model, IDS, attention_mask=MASK, **settings, **ahead)
        alone = [new_tokens(model, IDS[row, MASK[row] == 1][None], **settings, **ahead)[0] for row in range(3)]
        assert batch == alone


@pytest.mark.parametrize("new", [0, 1, 2, 3, 7, 34, 35])
def test_it_stops_where_it_should(models: Callable[..., Model], new: int) -> None:
    """In the midst of guesses too, and no position is read that the network does not have: it has 40."""
    model = models("gpt2")
    plain = model.generate(IDS, max_new_tokens=new)
    for name in SPECULATIONS:
        ahead = speculation(models, "gpt2", name)
        assert model.generate(IDS, max_new_tokens=new, **ahead).equal(plain)
        long = {"max_new_tokens": new, "min_new_tokens": new}
        assert model.generate(IDS, do_sample=True, seed=1, **long, **ahead).shape == (3, 6 + new)


def test_without_a_cache(models: Callable[..., Model]) -> None:
    for family in ("llama", "bart"):
        plain = models(family).generate(IDS, max_new_tokens=12)
        for name in SPECULATIONS:
            ahead = speculation(models, family, name)
            assert models(family).generate(IDS, max_new_tokens=12, use_cache=False, **ahead).equal(plain)


STORIES = ["Once upon a time", "Tom had a big red ball. Tom had a big red", "One day"]


@pytest.mark.parametrize("tokens", [60, pytest.param(120, marks=pytest.mark.soak)])
@pytest.mark.parametrize("settings", [{}, {"stop_strings": ["park", "was so"]}, {"no_repeat_ngram_size": 3}])
def test_stories(stories: Model, settings: dict[str, Any], tokens: int) -> None:
    draft = glassformer.load(stories.folder)
    with torch.no_grad():
        for parameter in draft.parameters():
            parameter.mul_(1 + 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    plain = stories.generate(STORIES, max_new_tokens=tokens, return_scores=True, **settings)
    for ahead in ({"prompt_lookup_num_tokens": 6}, {"assistant_model": draft}):
        result = stories.generate(STORIES, max_new_tokens=tokens, return_scores=True, **settings, **ahead)
        assert result.texts == plain.texts and result.reasons == plain.reasons
        assert 0 < int(result.accepted.sum()) < int(result.proposed.sum())
        assert "".join(stories.stream(STORIES[1], max_new_tokens=tokens, **settings, **ahead)) == plain.texts[1]


# ------------------------------------------------------------------------------------------------------- it is faster


def test_a_perfect_draft_saves_passes(models: Callable[..., Model]) -> None:
    """24 tokens in passes of 5 guesses and one more: 4 of the network."""
    model, draft = models("llama"), make("llama")
    with passes(model) as own, passes(draft) as theirs:
        result = model.generate(IDS, max_new_tokens=24, assistant_model=draft, return_scores=True)
    assert (len(own), len(theirs)) == (4, 20)
    assert result.proposed.tolist() == result.accepted.tolist() == [20, 20, 20]


def test_a_useless_draft_costs_no_pass(models: Callable[..., Model]) -> None:
    model = models("gpt2")
    with passes(model) as own:
        result = model.generate(IDS[:1], max_new_tokens=24, assistant_model=make("gpt2", seed=9), return_scores=True)
    assert len(own) == 24 - int(result.accepted) <= 24
    assert int(result.proposed) > 80 > 8 * int(result.accepted)


def test_repetition_is_looked_up(models: Callable[..., Model]) -> None:
    model = models("llama")
    with passes(model) as own:
        result = model.generate(IDS, max_new_tokens=40, prompt_lookup_num_tokens=8, return_scores=True)
    assert len(own) == 40 - int(result.accepted.min()) or len(own) < 40
    assert (result.accepted <= result.proposed).all() and int(result.accepted.sum()) > 0


def test_a_row_that_has_ended_guesses_no_more(models: Callable[..., Model]) -> None:
    """One row ends with a token of which the other knows nothing: in a pass of 5 guesses and one more."""
    model, settings = models("llama"), {"max_new_tokens": 24, "return_scores": True}
    ids = torch.cat([IDS, IDS + 7])
    rows = [row[:12] for row in model.generate(ids, **settings).new_ids.tolist()]
    i, j = next((i, j) for i in range(6) for j in range(6) if set(rows[i]) - set(rows[j]))
    end = next(token for token in rows[i] if token not in rows[j])
    length = rows[i].index(end) + 1
    with passes(model) as own:
        result = model.generate(ids[[i, j]], assistant_model=make("llama"), eos_token_id=end, **settings)
    assert len(own) <= 5  # its end is one that was not foreseen; what it is filled with then is
    assert int(result.active[0].sum()) == length < 13 <= int(result.active[1].sum())
    assert result.proposed[0] == 5 * -(-length // 6) < result.accepted[1]


# ------------------------------------------------------------------------------------------------------------- lookup


def lookahead(ids: list[list[int]], padded: list[list[bool]] | None = None) -> LookaheadRows:
    """Rows as a proposer sees them."""
    rows = LookaheadRows.__new__(LookaheadRows)
    rows.ids = torch.tensor(ids)
    rows.filter_ids = rows.ids if padded is None else rows.ids.masked_fill(torch.tensor(padded), -1)
    return rows


@pytest.mark.parametrize(
    ("text", "longest", "drafted"),
    [
        ([5, 6, 7, 8, 9, 5, 6], 2, [7, 8, 9, 5]),  # what followed before
        ([5, 6, 7, 1, 6, 8, 2, 5, 6], 2, [7, 1, 6, 8]),  # the longest run counts,
        ([5, 6, 7, 1, 6, 8, 2, 5, 6], 1, [8, 2, 5, 6]),  # of as many tokens as one the latest
        ([5, 6, 7, 5, 6, 8, 5, 6], 2, [8, 5, 6, 8]),  # the copy goes on with what it has copied
        ([3, 4, 4], 3, [4, 4, 4, 4]),
        ([1, 2, 3], 3, [-1] * 4),  # never seen before
        ([1], 3, [-1] * 4),
    ],
)
def test_lookup(text: list[int], longest: int, drafted: list[int]) -> None:
    assert PromptLookup(longest)(lookahead([text]), 4).tokens.tolist() == [drafted]
    beside = lookahead([text, list(range(10, 10 + len(text)))])
    assert PromptLookup(longest)(beside, 4).tokens.tolist() == [drafted, [-1] * 4]


def test_padding_is_no_text() -> None:
    hidden = [[True, True, False]]
    assert PromptLookup(3)(lookahead([[0, 0, 0]], hidden), 3).tokens.tolist() == [[-1] * 3]
    assert PromptLookup(3)(lookahead([[0, 0, 0]]), 3).tokens.tolist() == [[0] * 3]


def test_lookup_reads_the_source_too() -> None:
    source = torch.tensor([[4, 5, 6, 7, -1], [9, 8, 7, 6, 5]])
    result = PromptLookup(2, source)(lookahead([[2, 5], [2, 5]]), 3).tokens.tolist()
    assert result == [[6, 7, -1], [2, 5, 2]]  # the second row's 5 was followed by the answer itself


def test_an_answer_that_copies_its_source(models: Callable[..., Model]) -> None:
    """An encoder-decoder whose source holds its answer needs hardly a pass."""
    model = models("bart")
    answer = model.generate(IDS[1:2], max_new_tokens=17)[:, :17]  # the token behind is forced
    rows = Rows(model.network, answer[:, :1], encoder_batch=Batch(input_ids=IDS[1:2]))
    ahead = SpeculativeRows(rows, PromptLookup(2, answer), num_tokens=5, max_columns=17, stop=StoppingCriteria(1))
    with passes(model) as own, torch.inference_mode():
        for _ in range(16):
            ahead.append(ahead.logits().argmax(-1))
    assert ahead.ids.equal(answer) and len(own) <= 5


def test_behind_a_hole_nothing_is_guessed(models: Callable[..., Model]) -> None:
    tokens = torch.tensor([[5, -1, 7], [-1, 3, 3], [1, -1, -1]])
    rows = Rows(models("gpt2").network, IDS)
    ahead = SpeculativeRows(
        rows,
        lambda lookahead, count: DraftTokens(tokens),
        num_tokens=3,
        max_columns=20,
        stop=StoppingCriteria(3),
    )
    with torch.inference_mode():
        ahead.logits()
    assert ahead.proposed is not None and ahead.proposed.tolist() == [1, 0, 1]
    assert rows.ids.shape == (3, 7)


# --------------------------------------------------------------------------------------------- the same probabilities


SMALL = {"vocab_size": 4, "n_layer": 1, "n_embd": 8, "n_head": 2, "n_inner": 8, "n_positions": 8}
SMALL |= {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}


def joint(model: Model, prompt: Tensor, length: int, settings: dict[str, Any]) -> dict[tuple[int, ...], float]:
    """The probability of each continuation, by the chain rule: written out, with a pass for every beginning."""
    result: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        longer: dict[tuple[int, ...], float] = {}
        for lookahead, share in result.items():
            logits = model(torch.tensor([[*prompt[0].tolist(), *lookahead]])).logits[0, -1].detach()
            probs = (logits / settings.get("temperature", 1.0)).softmax(-1)
            order = probs.argsort(descending=True)[: settings.get("top_k", 4)]
            probs = torch.zeros(4).double().index_copy(0, order, probs[order] / probs[order].sum())
            order, sums = probs.argsort(descending=True), probs.sort(descending=True).values.cumsum(0)
            remaining = order[: int((sums < settings.get("top_p", 1.0) - 1e-12).sum()) + 1]
            for token in remaining.tolist():
                longer[(*lookahead, token)] = share * float(probs[token] / probs[remaining].sum())
        result = longer
    return {lookahead: share for lookahead, share in result.items() if share > 0}


def chi_squared(counts: dict[tuple[int, ...], int], probs: dict[tuple[int, ...], float]) -> float:
    """As a number of standard deviations above what chance gives (Wilson and Hilferty's cube root)."""
    total = sum(counts.values())
    assert set(counts) <= set(probs), "something was said that cannot be"
    statistic = sum((counts.get(x, 0) - share * total) ** 2 / (share * total) for x, share in probs.items())
    freedom = len(probs) - 1
    spread = 2 / (9 * freedom)
    return float(((statistic / freedom) ** (1 / 3) - (1 - spread)) / spread**0.5)


def counted(rows: Tensor) -> dict[tuple[int, ...], int]:
    kinds, counts = rows.unique(dim=0, return_counts=True)
    return {tuple(kind): int(count) for kind, count in zip(kinds.tolist(), counts, strict=True)}


SHAPES: list[dict[str, Any]] = [{}, {"temperature": 0.6}, {"top_k": 3}, {"top_p": 0.8, "temperature": 1.3}]


@pytest.mark.parametrize(("settings", "count"), [*zip(SHAPES, (1, 2, 5, 3), strict=True)], ids=str)
def test_draws_follow_the_networks_probabilities(settings: dict[str, Any], count: int) -> None:
    """The joint distribution of three tokens, by 8,000 rows; a draft alone says something else."""
    model, draft, prompt = make("gpt2", 1, **SMALL), make("gpt2", 2, **SMALL), torch.tensor([[1, 3]])
    sampled = {"do_sample": True, "seed": 3, "max_new_tokens": 3, "num_return_sequences": 8_000, **settings}
    rows = model.generate(prompt, assistant_model=draft, num_assistant_tokens=count, **sampled)[:, 2:]
    truth = joint(model, prompt, 3, settings)
    assert chi_squared(counted(rows), truth) < 3.1  # once in a thousand
    shared = {
        lookahead: count
        for lookahead, count in counted(draft.generate(prompt, **sampled)[:, 2:]).items()
        if lookahead in truth
    }
    assert chi_squared(shared, truth) > 20, "the test can tell"


@pytest.mark.soak
def test_a_row_alone_follows_them_too() -> None:
    """One row at a time, so that several guesses in a row are kept and the network runs less often than it speaks."""
    model, draft = make("gpt2", 1, **SMALL), make("gpt2", 1, noise=0.1, **SMALL)
    prompt, lengths, result = torch.tensor([[1, 3]]), [], []
    for seed in range(900):
        with passes(model) as own:
            settings = {"do_sample": True, "seed": seed, "max_new_tokens": 3}
            result.append(model.generate(prompt, assistant_model=draft, num_assistant_tokens=2, **settings)[0, 2:])
        lengths.append(len(own))
    assert chi_squared(counted(torch.stack(result)), joint(model, prompt, 3, {})) < 3.1
    assert set(lengths) == {1, 2, 3}


def test_a_perfect_draft_is_always_believed() -> None:
    model = make("gpt2", 1, **SMALL)
    settings = {"do_sample": True, "num_return_sequences": 200, "max_new_tokens": 6, "return_scores": True}
    settings |= {"top_p": 0.7, "temperature": 0.8}  # which shape what it draws from too
    result = model.generate(torch.tensor([[1, 3]]), assistant_model=model, num_assistant_tokens=3, **settings)
    assert result.proposed.equal(result.accepted) and int(result.proposed.min()) == 4  # 3, and 1 of the last 2


def test_a_seed_repeats_and_rows_do_not_meet(models: Callable[..., Model]) -> None:
    model = models("gpt2")
    settings = {"do_sample": True, "max_new_tokens": 12, "assistant_model": models("gpt2", 0.2)}
    batch = model.generate(IDS, attention_mask=MASK, seed=1, **settings)
    assert model.generate(IDS, attention_mask=MASK, seed=1, **settings).equal(batch)
    assert not model.generate(IDS, attention_mask=MASK, seed=2, **settings).equal(batch)
    alone = new_tokens(model, IDS[:1, 2:], seed=1, **settings)[0]
    assert alone == batch[0, 6 : 6 + len(alone)].tolist()
    for count in (1, 2, 9):  # nor does it matter how many are guessed at a time
        result = model.generate(IDS, attention_mask=MASK, seed=1, num_assistant_tokens=count, **settings)
        assert result.equal(batch)
    several = model.generate(IDS, attention_mask=MASK, seed=1, num_return_sequences=3, **settings)
    assert len(several.unique(dim=0)) == 9


def test_lots_are_of_their_row_purpose_and_place() -> None:
    many = list(itertools.product(("guess", "keep", "again"), range(50)))
    message = torch.tensor([SeededUniforms(3, 7).of(*each) for each in many])
    assert message.unique().numel() == message.numel() and float(message.min()) >= 0 and float(message.max()) < 1
    assert (
        SeededUniforms(1, 7).of("keep", 4)
        == SeededUniforms(3, 7).of("keep", 4)[:1]
        != SeededUniforms(1, 8).of("keep", 4)
    )


def test_where_the_network_agrees_with_the_draft_nothing_is_left_over() -> None:
    """p - q is nowhere above 0, as rounding may leave it: p itself is drawn from where a guess is refused."""
    model = make("gpt2", 1, **SMALL)
    ahead = SpeculativeRows(
        Rows(model.network, torch.tensor([[1]] * 50)),
        PromptLookup(1),
        num_tokens=1,
        max_columns=9,
        stop=StoppingCriteria(50),
    )
    uniforms = SeededUniforms(50, 0)
    probs = torch.tensor([[0.0, 0.5, 0.5, 0.0]]).double().expand(50, -1)
    ahead.draft_token = lambda: (torch.ones(50).long(), probs * 2)  # type: ignore[method-assign]
    assert set(RejectionSampler(ahead, uniforms)(probs.log()).tolist()) == {1, 2}


# ------------------------------------------------------------------------------------------------------- what may come


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"prompt_lookup_num_tokens": 0}, ConfigError, "prompt_lookup_num_tokens is 0"),
        (
            {"max_matching_ngram_size": 2},
            ConfigError,
            "belongs to prompt_lookup_num_tokens, which is not given",
        ),
        ({"num_assistant_tokens": 2}, ConfigError, "belongs to assistant_model"),
        ({"assistant_model": "small"}, ConfigError, "assistant_model is 'small'; it must be a smaller Model"),
        ({"prompt_lookup_num_tokens": 3, "num_beams": 2}, UnsupportedError, "does not go with num_beams=2"),
        (
            {"prompt_lookup_num_tokens": 3, "penalty_alpha": 0.5, "top_k": 4},
            UnsupportedError,
            "prompt_lookup_num_tokens does not go with penalty_alpha",
        ),
    ],
)
def test_wrong_options(models: Callable[..., Model], given: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        models("gpt2").generate(IDS, **given)


def test_drafts_that_do_not_fit(models: Callable[..., Model], stories: Model) -> None:
    model = models("gpt2")

    def refused(draft: Model, error: type[Exception], message: str, **settings: Any) -> None:
        with pytest.raises(error, match=message):
            model.generate(IDS, assistant_model=draft, **settings)

    refused(stories, ConfigError, "vocabulary of 512 tokens, the model one of 99")
    refused(models("bart"), UnsupportedError, r"the model continues it, the assistant_model answers")
    refused(make("gpt2", n_positions=10), DataError, "the assistant_model has 10 positions")
    far = Model.from_config(FAMILIES["gpt2"].tiny, task="text-generation", device="meta")
    refused(far, ConfigError, r"the assistant_model is on meta, the model on cpu; move it: model\.to\('cpu'\)")
    refused(model, UnsupportedError, "does not go with num_beams=3", num_beams=3)
    refused(model, UnsupportedError, "does not go with assistant_model", prompt_lookup_num_tokens=3)
    bare = Model.from_config(FAMILIES["gpt2"].tiny, task="feature-extraction")
    refused(bare, UnsupportedError, "needs a language-model head")


def test_a_tokenizer_of_other_words(stories: Model) -> None:
    class Other:
        class engine:
            @staticmethod
            def get_vocab() -> dict[str, int]:
                return {**stories.tokenizer.engine.get_vocab(), "<unk>": 3}

    draft = glassformer.load(stories.folder)
    draft._tokenizer = Other()  # type: ignore[assignment]
    with pytest.raises(ConfigError, match="another vocabulary: '<unk>' is token 3 there, token 0 here"):
        stories.generate("One day", assistant_model=draft)


def test_a_draft_that_is_nan(models: Callable[..., Model]) -> None:
    draft = make("gpt2")
    with torch.no_grad():
        next(draft.parameters())[9] = torch.nan
    for settings in ({}, {"do_sample": True}):
        with pytest.raises(WeightsError, match=r"1 tensors of the assistant_model hold NaN.*damaged"):
            models("gpt2").generate(IDS, assistant_model=draft, **settings)


def test_a_draft_reads_only_what_is_new(models: Callable[..., Model]) -> None:
    model, fed = make("gpt2", noise=0.05), list[int]()
    model.network.register_forward_pre_hook(lambda _, given: fed.append(given[0].input_ids.shape[1]))
    models("gpt2").generate(IDS[:1], assistant_model=model, max_new_tokens=20)
    assert fed[0] == 6 and set(fed[1:]) <= {1, 2}


def test_draft_without_draws_has_no_probabilities(models: Callable[..., Model]) -> None:
    rows = Rows(models("gpt2").network, IDS)
    with torch.inference_mode():
        result = DraftModel(rows)(LookaheadRows(Rows(models("gpt2").network, IDS)), 3)
    assert result.tokens.shape == (3, 3) and result.probs is None
