"""Rows become copies of rows: the same numbers as from the start, and nothing is copied that is shared."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from glassformer import ConfigError, DataError, Model, load
from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Batch
from glassformer.generation.rows import Rows, row_argmax, row_maximum, truncate, without_tokens
from glassformer.models import FAMILIES, Network
from tests.e2e.tiny_models import make_folder

IDS = torch.tensor([[0, 0, 9, 4], [7, 2, 61, 30]])
KEEP = torch.tensor([[False, False, True, True], [True] * 4])


def network_of(family: str) -> Network:
    torch.manual_seed(4)
    task = "translation" if "translation" in FAMILIES[family].tasks else "text-generation"
    network = Model.from_config(FAMILIES[family].tiny, task=task).eval().network
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return network.double()


def rows_of(network: Network, cached: bool = True) -> Rows:
    if "decoder_input_ids" not in network.READS:
        return Rows(network, IDS, keep=KEEP, cached=cached)
    begun = torch.tensor([[2], [2]])
    return Rows(network, begun, encoder_batch=Batch(input_ids=IDS), encoder_keep=KEEP[:, None], cached=cached)


families = pytest.mark.parametrize("family", ["gpt2", "llama", "t5", "bart"])

PICKS = [
    [0, 0, 0, 1, 1, 1],
    [1, 0, 0, 3, 5, 4],
    [0, 1, 2, 3, 4, 5],
    [2, 2, 1, 3, 3, 3],
    [5, 4, 0],
    [2, 2, 0, 1],
]
"""Twice three beams, reordered within their prompts; then rows across prompts, fewer and more."""


@families
def test_picked_rows_go_on_as_if_they_had_always_been(family: str) -> None:
    network, draw = network_of(family), torch.Generator().manual_seed(1)
    rows, whole = rows_of(network), rows_of(network, cached=False)
    for pick in PICKS:
        torch.testing.assert_close(rows.logits(), whole.logits(), atol=1e-10, rtol=1e-10)
        new = torch.randint(3, 60, (len(pick),), generator=draw)
        for each in (rows, whole):
            each.pick(torch.tensor(pick))
            each.append(new)
        assert rows.ids.equal(whole.ids) and len(rows) == len(pick)
    torch.testing.assert_close(rows.logits(), whole.logits(), atol=1e-10, rtol=1e-10)


def grown(network: Network, *tokens: list[int]) -> Rows:
    """Three beams of each of two prompts that have said these tokens."""
    rows = rows_of(network)
    rows.logits()
    rows.pick(torch.tensor([0, 0, 0, 1, 1, 1]))
    for columns in tokens:
        rows.append(torch.tensor(columns))
        rows.logits()
    return rows


def overwritten(rows: Rows, pick: list[int]) -> list[tuple[list[int], list[int], int]]:
    """Which places of the cache a pick writes, with what, and from which token on."""
    calls: list[tuple[list[int], list[int], int]] = []

    def overwrite(cache: KeyValueCache, indices: Tensor, rows: Tensor, start: int) -> None:
        calls.append((indices.tolist(), rows.tolist(), start))

    with (
        patch.object(KeyValueCache, "copy_rows", overwrite),
        patch.object(KeyValueCache, "reorder_rows", lambda *_: pytest.fail("everything was copied")),
    ):
        rows.pick(torch.tensor(pick))
    return calls


@families
@pytest.mark.parametrize("cached", [True, False])
def test_rows_that_have_ended_are_read_no_more(family: str, cached: bool) -> None:
    """Two beams of each of two prompts: one row ends, then its prompt's other one; the rest go on as they would."""
    network, draw = network_of(family), torch.Generator().manual_seed(1)
    rows, whole = rows_of(network, cached), rows_of(network, cached=False)
    for each in (rows, whole):
        each.pick(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]))
    own = list(range(8))
    for ended, pick, count in [
        ([], own, 8),
        ([2], own, 8),  # too few to pay
        ([1, 2], own, 6),
        ([1, 2], [3, 0, 0, 0, 5, 5, 7, 4], 6),
        ([0, 1, 2, 3], [0, 1, 2, 3, 7, 7, 4, 6], 4),
        ([0, 1, 2, 3, 5, 7], own, 2),
        ([0, 1, 2, 3, 4, 5, 7], own, 1),
        ([*own], own, 1),  # somebody else ends it
    ]:
        rows.retire(torch.tensor([row in ended for row in own]))
        for each in (rows, whole):
            each.pick(torch.tensor(pick))
        assert (8 if rows.live is None else len(rows.live)) == count
        live = list(range(8)) if rows.live is None else rows.live.tolist()
        logits = rows.logits()
        torch.testing.assert_close(logits[live], whole.logits()[live], atol=1e-10, rtol=1e-10)
        assert not logits[[row for row in own if row not in live]].any()
        tokens = torch.randint(3, network.target_vocabulary, (8,), generator=draw)
        rows.append(tokens)
        whole.append(tokens)
    assert rows.ids.equal(whole.ids)
    if rows._memory is not None:
        assert len(rows._memory.states) == 1  # that of the prompt that is left


@pytest.mark.parametrize("family", ["gpt2", "t5"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"return_scores": True, "repetition_penalty": 1.3},
        {"num_beams": 3, "num_return_sequences": 2, "return_scores": True},
        {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "return_scores": True},
        {"num_beams": 2, "encoder_repetition_penalty": 1.4, "return_scores": True},
    ],
    ids=str,
)
def test_texts_do_not_depend_on_those_that_end_before(family: str, options: dict[str, Any]) -> None:
    network = network_of(family)
    model = Model.from_config(FAMILIES[family].tiny, task="translation" if family == "t5" else "text-generation").eval()
    model.network.load_state_dict(network.state_dict())
    model.network.double()
    prompts = torch.randint(5, 90, (6, 4), generator=torch.Generator().manual_seed(2))
    options = {"max_new_tokens": 14, "eos_token_id": list(range(20, 60)), "pad_token_id": 3, **options}
    together, read = [], Rows.read

    def counting(rows: Rows, *args: Any, **named: Any) -> Any:
        together.append(len(rows) if rows.live is None else len(rows.live))
        return read(rows, *args, **named)

    with patch.object(Rows, "read", counting):
        whole = model.generate(prompts, **options)
    each = options.get("num_return_sequences", 1)
    assert (min(together[1:]) < max(together)) == ("encoder_repetition_penalty" not in options)
    for number, prompt in enumerate(prompts):
        alone = model.generate(prompt[None], **options)
        rows = slice(each * number, each * number + each)
        if "return_scores" in options:
            torch.testing.assert_close(whole.scores[rows], alone.scores, atol=1e-9, rtol=1e-9)
            assert whole.reasons[rows] == alone.reasons
        ids, own = (x.ids if "return_scores" in options else x for x in (whole, alone))
        assert ids[rows, : own.shape[1]].equal(own) and (ids[rows, own.shape[1] :] == 3).all()


def test_who_counts_rows_keeps_them() -> None:
    rows = rows_of(network_of("gpt2"))
    rows.retires = False
    rows.retire(torch.tensor([True, False]))
    assert rows.live is None


def test_only_what_differs_is_copied() -> None:
    network = network_of("gpt2")
    columns = [5, 5, 5, 8, 8, 8], [6, 6, 9, 8, 9, 9], [1, 2, 3, 1, 2, 3]
    assert overwritten(grown(network, *columns), [0, 1, 2, 3, 4, 5]) == []
    assert overwritten(grown(network, *columns), [1, 1, 2, 3, 4, 5]) == [([0], [1], 6)]
    assert overwritten(grown(network, *columns), [0, 2, 2, 3, 5, 4]) == [([1, 4, 5], [2, 5, 4], 5)]
    same = [5, 5, 5, 8, 8, 8], [6, 6, 9, 8, 9, 9]
    assert overwritten(grown(network, *same), [1, 0, 2, 3, 5, 4]) == []  # they have said the same


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_beams_share_what_was_read(family: str) -> None:
    """The encoder runs once, each layer's keys of its memory are made once, and reordering beams copies neither."""
    network, calls = network_of(family), {"memory": 0, "keys": 0}
    kv: Any = next(module for name, module in network.named_modules() if name.endswith("cross.kv"))
    kv.register_forward_hook(lambda *_: calls.update(keys=calls["keys"] + 1))
    encoder: Any = network.encoder
    encoder.register_forward_hook(lambda *_: calls.update(memory=calls["memory"] + 1))
    rows = grown(network, [5, 6, 7, 8, 9, 10], [5, 5, 5, 6, 6, 6])
    assert rows._memory is not None and rows._cache is not None
    assert len(rows._memory.states) == 2 and len(rows) == 6  # a prompt's beams read one row
    before = [x.data_ptr() for pair in rows._cache._encoder_buffers.values() for x in pair]
    states = rows._memory.states
    rows.pick(torch.tensor([1, 0, 0, 3, 5, 4]))
    rows.append(torch.tensor([3] * 6))
    rows.logits()
    assert [x.data_ptr() for pair in rows._cache._encoder_buffers.values() for x in pair] == before
    assert rows._memory.states is states
    assert calls == {"memory": 1, "keys": 1}


# ---------------------------------------------------------------------------------------------------------- guesses


@families
@pytest.mark.parametrize("cached", [True, False])
def test_what_is_taken_back_was_never_read(family: str, cached: bool) -> None:
    """Guesses are read several at a time, and then the rows say something else from where they differ."""
    network, draw = network_of(family), torch.Generator().manual_seed(3)
    rows, whole = rows_of(network, cached), rows_of(network, cached=False)
    for remaining, new in [(0, 2), (3, 1), (1, 4), (0, 1), (2, 1), (5, 2)]:
        columns = whole.ids
        rows.append(torch.randint(3, 60, (2, 5), generator=draw))
        guessed = rows.ids
        speculation = rows.read(last=6).logits
        assert speculation is not None
        torch.testing.assert_close(speculation[:, 0], whole.logits(), atol=1e-10, rtol=1e-10)
        kept_part, other = (
            guessed[:, : columns.shape[1] + remaining],
            torch.randint(3, 60, (2, new), generator=draw),
        )
        ids = torch.cat([kept_part, other], dim=1)
        rows.rewrite(ids)
        whole.append(ids[:, columns.shape[1] :])
        assert rows.ids.equal(whole.ids)
        assert rows.filter_ids.equal(whole.filter_ids)


def test_only_what_is_new_is_read_again() -> None:
    rows, fed = grown(network_of("gpt2"), [5, 5, 5, 8, 8, 8]), []
    rows.network.register_forward_pre_hook(lambda _, given: fed.append(given[0].input_ids.shape[1]))
    rows.append(torch.full((6, 3), 9))
    rows.read(last=4)
    ids = rows.ids.clone()
    ids[4, -3] = 1  # what stands behind is the same, but it was read behind something else
    rows.rewrite(ids)
    rows.logits()
    rows.rewrite(ids[:, :-1])  # all of it was read, and its logits are wanted again
    rows.logits()
    assert fed == [3, 3, 1]


# A prompt that is too long is cut where that is asked for, announced, and refused where it is not.


SPECIAL = (0, 1)


def cut(rows: list[list[int]], room: int, side: str) -> list[list[int]]:
    """The rows without their padding, which is 9 and on the left."""
    width = max(map(len, rows))
    ids = torch.tensor([[9] * (width - len(row)) + row for row in rows])
    keep = torch.tensor([[False] * (width - len(row)) + [True] * len(row) for row in rows])[:, None]
    short, remaining = truncate(ids, keep, room, side=side, special=SPECIAL, pad_id=9)
    assert remaining is not None and (short[~remaining[:, 0]] == 9).all() and bool(remaining[..., -1].all())
    return [row[seen[0]].tolist() for row, seen in zip(short, remaining, strict=True)]


def test_what_is_kept() -> None:
    rows = [[0, 2, 3, 4, 5, 1], [2, 3], [2, 3, 4, 5, 6, 7, 8]]
    with pytest.warns(UserWarning, match="2 of 3 prompts, of up to 7 tokens, cut on the left to 4: up to 3 tokens"):
        assert cut(rows, 4, "left") == [[0, 4, 5, 1], [2, 3], [5, 6, 7, 8]]
    with pytest.warns(UserWarning, match="cut on the right to 4"):
        assert cut(rows, 4, "right") == [[0, 2, 3, 1], [2, 3], [2, 3, 4, 5]]
    with pytest.warns(UserWarning):
        assert cut([[0, 1, 0, 1], [2, 3, 4, 0, 0]], 2, "left") == [[0, 1], [0, 0]]


def test_what_fits_is_left_alone() -> None:
    ids = torch.tensor([[2, 3, 4]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert truncate(ids, None, 3, side="left", special=SPECIAL, pad_id=0) == (ids, None)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    home = tmp_path_factory.mktemp("models")
    return {family: load(make_folder(home / family, family)) for family in ("gpt2", "bart", "t5")}


LONG = "time flies like an arrow . " * 30


def test_a_prompt_keeps_its_newest_tokens(models: dict[str, Model]) -> None:
    model = models["gpt2"]  # 16 positions, and the last new token needs none
    with pytest.raises(DataError, match=r"the model has 16 positions; shorten the prompt.*truncation=True"):
        model.generate(LONG, max_new_tokens=5)
    ids = torch.tensor([model.tokenizer(LONG).input_ids])
    with pytest.warns(UserWarning, match="cut on the left to 12"):
        result = model.generate(ids, max_new_tokens=5, truncation=True)
    assert result[:, :12].equal(ids[:, -12:])
    assert result.equal(model.generate(ids[:, -12:], max_new_tokens=5))
    with pytest.warns(UserWarning, match="cut on the left"):
        text = model.generate(LONG, max_new_tokens=5, truncation="left")
    assert text.lstrip() == model.tokenizer.decode(result[0, 12:], skip_special_tokens=True)
    with pytest.warns(UserWarning, match="cut on the left"):
        assert "".join(model.stream(LONG, max_new_tokens=5, truncation=True)) == text
    with pytest.warns(UserWarning, match="cut on the right"):
        assert model.generate(ids, max_new_tokens=5, truncation="right")[:, :12].equal(ids[:, :12])
    with pytest.raises(DataError, match="the model has 16 positions"):
        model.generate(LONG, max_new_tokens=17, truncation=True)


def test_more_than_a_model_was_made_for_is_said(tmp_path: Path) -> None:
    model = load(make_folder(tmp_path / "llama", "llama"))  # rotations go on for ever; its config names a context
    made_for = model.config["max_position_embeddings"]
    ids = torch.tensor([[3, 4] * (made_for // 2)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.generate(ids[:, 2:], max_new_tokens=2)
    with pytest.warns(UserWarning, match=rf"{made_for} tokens and 2 new ones are more than the {made_for} that"):
        model.generate(ids, max_new_tokens=2)
    with pytest.warns(UserWarning, match="cut on the left"):
        model.generate(ids, max_new_tokens=2, truncation=True)


LONGROPE = {
    "original_max_position_embeddings": 6,
    "rope_scaling": {
        **{"type": "longrope", "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.0, 2.0, 6.0]},
        "original_max_position_embeddings": 6,
    },
}


def longrope_network() -> Network:
    torch.manual_seed(4)
    model = Model.from_config({**FAMILIES["phi3"].tiny, **LONGROPE}, task="text-generation").eval()
    for parameter in model.network.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.2)
    return model.network.double()


def test_rows_that_outgrow_the_trained_length_are_read_anew() -> None:
    """One row after the other, with beams in between, and back below that length."""
    network = longrope_network()
    rows, whole = rows_of(network), rows_of(network, cached=False)
    for step in range(6):  # lengths 2 and 4 at first
        torch.testing.assert_close(rows.logits(), whole.logits(), atol=1e-10, rtol=1e-10)
        tokens = torch.tensor([3 + step, 5 + step])
        for either in (rows, whole):
            either.append(tokens)
            either.pick(torch.tensor([0, 1] if step % 2 else [1, 0]))
    for either in (rows, whole):
        either.rewrite(either.ids[:, :5])
    torch.testing.assert_close(rows.logits(), whole.logits(), atol=1e-10, rtol=1e-10)


def test_generation_beyond_the_trained_length_is_the_reference_librarys(tmp_path: Path) -> None:
    from transformers import Phi3Config, Phi3ForCausalLM

    torch.manual_seed(4)
    theirs = Phi3ForCausalLM(Phi3Config(**{**FAMILIES["phi3"].tiny, **LONGROPE})).eval()
    for parameter in theirs.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.2)
    theirs.save_pretrained(tmp_path)
    ids = torch.tensor([[7, 2, 61]])
    expected = theirs.generate(ids, max_new_tokens=12, do_sample=False, eos_token_id=98)
    model = load(tmp_path)
    for cached in (True, False):
        ours = model.generate(ids, max_new_tokens=12, eos_token_id=98, use_cache=cached)
        assert ours.tolist() == expected.tolist()


def test_rows_of_a_batch_are_cut_alone(models: dict[str, Model]) -> None:
    model = models["gpt2"]
    with pytest.warns(UserWarning, match="1 of 2 prompts"):
        together = model.generate([LONG, "time flies"], max_new_tokens=5, truncation=True)
    assert together[1] == model.generate("time flies", max_new_tokens=5)
    with pytest.warns(UserWarning):
        assert together[0] == model.generate(LONG, max_new_tokens=5, truncation=True)


def test_a_source_keeps_its_beginning(models: dict[str, Model]) -> None:
    model = models["bart"]  # 64 positions
    with pytest.raises(DataError, match="the model has 64 positions"):
        model.generate(LONG, max_new_tokens=5)
    read = model.tokenizer(LONG, truncation=True, max_length=64, return_tensors="pt")["input_ids"]
    for settings in ({}, {"num_beams": 3}):
        with pytest.warns(UserWarning, match="cut on the right to 64"):
            result = model.generate(LONG, max_new_tokens=5, truncation=True, **settings)
        cut = model.generate(read, max_new_tokens=5, **settings)[0, 1:]
        assert result == model.tokenizer.decode(cut, skip_special_tokens=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(models["t5"].generate(LONG, max_new_tokens=5, truncation=True), str), "it has no end"


def test_stories_keep_their_first_token(shared: Path) -> None:
    model = load(shared / "models" / "stories260k")
    long = "Once upon a time there was a dog. " * 60
    settings: dict[str, Any] = {"max_new_tokens": 20, "truncation": True, "return_scores": True}
    with pytest.warns(UserWarning, match="cut on the left to 493"):
        result = model.generate(long, **settings)
    ids = model.tokenizer(long).input_ids
    assert result.ids[0, :493].tolist() == [ids[0], *ids[-492:]]


def test_what_cannot_be_asked(models: dict[str, Model]) -> None:
    for wrong in ("both", 1, 0.5):
        with pytest.raises(ConfigError, match=r"truncation is .*; it must be True, False, 'left' or 'right'"):
            models["gpt2"].generate(LONG, truncation=wrong)
    with pytest.raises(ConfigError, match="max_length is 9 and counts the prompt"):
        models["gpt2"].generate(LONG, truncation=True, max_length=9)
    ids = torch.ones(2, 40, dtype=torch.long)
    mask = torch.ones_like(ids)
    with pytest.raises(ConfigError, match="attention_mask has shape"):
        models["gpt2"].generate(ids, attention_mask=mask[:, :3], truncation=True)
    mask[0, -1] = 0
    with pytest.raises(DataError, match="padded on the right"):
        models["gpt2"].generate(ids, attention_mask=mask, truncation=True)


LOGITS = torch.tensor([[0.0, 3.0, 3.0, -1.0], [-torch.inf] * 4, [1.0, torch.nan, 2.0, 0.0], [5.0, 0.0, torch.inf, 1.0]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_numpy_and_torch_reduce_logits_to_the_same(dtype: torch.dtype) -> None:
    logits = LOGITS.to(dtype)
    plain = logits.clone().requires_grad_()  # which torch reads
    for function in (row_argmax, row_maximum):
        assert torch.equal(function(logits).double().nan_to_num(7), function(plain).detach().double().nan_to_num(7))
    assert row_argmax(logits).tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize("banned", [[1], [0, 3], []])
def test_banned_tokens_are_gone_from_a_copy(banned: list[int]) -> None:
    def ban(logits: Tensor) -> Tensor:
        return without_tokens(logits, banned)

    got = ban(LOGITS[:1])
    assert torch.equal(got, ban(LOGITS[:1].clone().requires_grad_()).detach())
    assert [i for i in range(4) if got[0, i] == -torch.inf] == banned and LOGITS[0, 1] == 3
