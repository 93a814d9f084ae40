"""Beam search finds the reference library's continuations, with its scores, and a row does not depend on its batch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import glassformer
from glassformer import ConfigError, Model, WeightsError, models
from glassformer.core.flow import Batch, Flow, Output
from glassformer.generation import beam
from glassformer.generation.beam import beam_search, seeded_generators
from glassformer.generation.beam_group import BeamGroup
from glassformer.generation.decoding import Generated, Interrupted
from glassformer.generation.filters import Filter, suppress
from glassformer.generation.generate import greedy_search
from glassformer.generation.rows import Rows
from glassformer.models import Network
from tests.generation.log_probs import sequence_log_probs
from tests.parity.families import ROWS, Row
from tests.parity.sides import PRECISIONS, lifted, load_ours, load_theirs, make

FAMILIES = ("gpt2", "llama", "mixtral", "t5", "bart", "pegasus", "marian")
PAD = 7  # not 0, for which the reference fills with an end token
NEW = 12

families = pytest.mark.parametrize("row", [row for row in ROWS if row.family in FAMILIES], ids=lambda row: row.family)
precisions = pytest.mark.parametrize("dtype", PRECISIONS, ids=["fp32", "fp64"])
kinds = pytest.mark.representative("llama", "t5", "bart")  # a decoder, and both kinds with an encoder

OPTIONS: dict[str, dict[str, Any]] = {
    "two": {"num_beams": 2},
    "five": {"num_beams": 5, "num_return_sequences": 5},
    "no length": {"num_beams": 4, "length_penalty": 0.0, "num_return_sequences": 2},
    "long": {"num_beams": 4, "length_penalty": 2.0},
    "early": {"num_beams": 4, "length_penalty": 0.8, "early_stopping": True, "num_return_sequences": 4},
    "never": {"num_beams": 4, "length_penalty": 2.0, "early_stopping": "never", "num_return_sequences": 3},
    "short": {"num_beams": 3, "length_penalty": -1.0, "early_stopping": "never"},
}
options = pytest.mark.parametrize("settings", OPTIONS.values(), ids=OPTIONS)


class Sides:
    """One model on both sides, and three prompts of different lengths for it."""

    def __init__(self, folder: Path, row: Row, dtype: torch.dtype = torch.float32) -> None:
        self.row, self.dtype = row, dtype
        self.ours, self.theirs = load_ours(folder, dtype), load_theirs(folder, row, dtype)
        draw = torch.Generator().manual_seed(3)
        lengths = torch.tensor([[6], [4], [2]])
        indices = torch.arange(6)[None]
        # decoders are padded on the left; an encoder counts padding in the reference, so it is on the right
        self.keep = indices < lengths if row.translates else indices >= 6 - lengths
        ids = torch.randint(8, self.ours.vocabulary, (3, 6), generator=draw)
        self.ids = ids.where(self.keep, 0)

    def one(self, number: int) -> tuple[Tensor, Tensor]:
        """A prompt without padding, and its mask."""
        ids = self.ids[number, self.keep[number]][None]
        return ids, torch.ones_like(ids, dtype=torch.bool)

    def rows(self, cached: bool = True) -> Rows:
        return self.rows_of(self.ids, self.keep, cached)

    def rows_of(self, ids: Tensor, keep: Tensor, cached: bool = True) -> Rows:
        network = self.ours.network
        if not self.row.translates:
            return Rows(network, ids, keep=keep, cached=cached)
        begun = torch.full((len(ids), 1), self.start)
        return Rows(network, begun, encoder_batch=Batch(input_ids=ids), encoder_keep=keep[:, None], cached=cached)

    @property
    def start(self) -> int:
        start: int = self.ours.config["decoder_start_token_id"]
        return start

    def expected(
        self, stop_ids: tuple[int, ...], read: tuple[Tensor, Tensor] | None = None, **settings: Any
    ) -> tuple[Tensor, Tensor]:
        """The reference's ids and scores, with nothing of what its own configuration forces."""
        from transformers import GenerationConfig

        begin = {"decoder_start_token_id": self.start} if self.row.translates else {}
        config = GenerationConfig(
            max_new_tokens=NEW,
            eos_token_id=list(stop_ids),
            pad_token_id=PAD,
            return_dict_in_generate=True,
            output_scores=True,
            **begin,
            **settings,
        )
        ids, keep = (self.ids, self.keep) if read is None else read
        model: Any = self.theirs
        model.generation_config = GenerationConfig()
        with lifted(self.row, self.dtype):
            result = model.generate(ids, attention_mask=keep.long(), generation_config=config)
        return result.sequences, result.sequences_scores

    def equal(self, result: Generated, expected: tuple[Tensor, Tensor]) -> None:
        assert result.ids.tolist() == expected[0].tolist()
        assert result.scores.dtype == self.dtype
        torch.testing.assert_close(result.scores.float(), expected[1].float(), atol=2e-5, rtol=2e-5)

    def often(self) -> tuple[int, ...]:
        """An end token that searches meet early, and one that they meet elsewhere: what greedy search says."""
        result = beam_search(self.rows(), num_beams=3, max_new_tokens=6, num_return_sequences=3).ids
        return int(result[0, -4]), int(result[-1, -2])


@pytest.fixture(scope="module")
def sides_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Row, torch.dtype], Sides]:
    folders: dict[str, Path] = {}
    made: dict[tuple[str, torch.dtype], Sides] = {}

    def sides(row: Row, dtype: torch.dtype) -> Sides:
        if row.family not in folders:
            folders[row.family] = make(row, row.main, tmp_path_factory.mktemp(row.family))
        if (row.family, dtype) not in made:
            made[row.family, dtype] = Sides(folders[row.family], row, dtype)
        return made[row.family, dtype]

    return sides


SidesOf = Callable[[Row, torch.dtype], Sides]


def without_repeated_pairs(ids: Tensor, logits: Tensor) -> Tensor:
    """A filter: no two tokens stand side by side twice in a row of ids."""
    logits = logits.clone()
    for row, line in enumerate(ids.tolist()):
        after = [b for a, b in pairwise(line) if a == line[-1]]
        logits[row, after] = -torch.inf
    return logits


# ----------------------------------------------------------------------------------------------- as the reference


@pytest.mark.representative("llama", "t5", "five")
@pytest.mark.representative("fp32", "llama")
@families
@precisions
@options
def test_ids_and_scores_are_the_references(
    sides_of: SidesOf, row: Row, dtype: torch.dtype, settings: dict[str, Any]
) -> None:
    sides = sides_of(row, dtype)
    often = sides.often()
    for stop_ids in ((), often[:1], often):
        result = beam_search(sides.rows(), max_new_tokens=NEW, stop_ids=stop_ids, pad_id=PAD, **settings)
        sides.equal(result, sides.expected(stop_ids, **settings))


@kinds
@pytest.mark.representative("fp32")
@families
@precisions
def test_filters_see_each_beam(sides_of: SidesOf, row: Row, dtype: torch.dtype) -> None:
    sides = sides_of(row, dtype)
    never = list(sides.often())
    filters: list[Filter] = [without_repeated_pairs, suppress(never)]
    for i in range(3):  # one by one: the reference takes padding for words that were said
        rows = sides.rows_of(*sides.one(i))
        result = beam_search(rows, num_beams=3, max_new_tokens=NEW, filters=filters, pad_id=PAD, num_return_sequences=3)
        expected = sides.expected(
            (),
            sides.one(i),
            num_beams=3,
            num_return_sequences=3,
            no_repeat_ngram_size=2,
            suppress_tokens=never,
        )
        sides.equal(result, expected)


@families
def test_drawn_beams_are_the_references(sides_of: SidesOf, row: Row) -> None:
    sides = sides_of(row, torch.float32)
    settings: dict[str, Any] = {"num_beams": 3, "num_return_sequences": 3}
    result = beam_search(
        sides.rows(), max_new_tokens=NEW, generator=torch.Generator().manual_seed(5), pad_id=PAD, **settings
    )
    torch.manual_seed(5)
    sides.equal(result, sides.expected((), do_sample=True, top_k=0, **settings))


PROMPTS = (
    "Once upon a time",
    "Tom and Lily went to the park.",
    "The dog",
    "One day, a little girl named Sue",
    "She",
)


@pytest.mark.representative("fp32")
@precisions
def test_stories(shared: Path, dtype: torch.dtype) -> None:
    from transformers import AutoModelForCausalLM

    folder = shared / "models" / "stories260k"
    ours = glassformer.load(folder, task="text-generation", dtype=dtype)
    theirs: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    for prompt in PROMPTS:
        ids = torch.tensor([ours.tokenizer(prompt).input_ids])
        settings: dict[str, Any] = {"num_beams": 5, "num_return_sequences": 5, "early_stopping": True}
        result = beam_search(Rows(ours.network, ids), max_new_tokens=64, stop_ids=(2,), pad_id=2, **settings)
        expected = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=64, eos_token_id=2, pad_token_id=2,
            return_dict_in_generate=True, output_scores=True, **settings,
        )  # fmt: skip
        assert result.ids.tolist() == expected.sequences.tolist()
        torch.testing.assert_close(result.scores.float(), expected.sequences_scores.float(), atol=1e-5, rtol=1e-5)


# ------------------------------------------------------------------------------------------------ against ourselves


@families
def test_one_beam_is_greedy(sides_of: SidesOf, row: Row) -> None:
    sides = sides_of(row, torch.float32)
    rows = sides.rows()
    one: dict[str, Any] = {"keep": sides.keep, "ids": sides.ids}
    if row.translates:
        one = {
            "ids": rows.ids,
            "encoder_batch": Batch(input_ids=sides.ids),
            "encoder_keep": sides.keep[:, None],
        }
    alone = greedy_search(sides.ours.network, max_new_tokens=NEW, stop_ids=sides.often(), pad_id=PAD, **one)
    result = beam_search(rows, num_beams=1, max_new_tokens=NEW, stop_ids=sides.often(), pad_id=PAD)
    assert result.ids.tolist() == alone.tolist()


@kinds
@pytest.mark.representative("fp32")
@families
@precisions
def test_a_prompt_does_not_depend_on_its_batch(sides_of: SidesOf, row: Row, dtype: torch.dtype) -> None:
    sides = sides_of(row, dtype)
    settings: dict[str, Any] = {
        "num_beams": 4, "max_new_tokens": NEW, "stop_ids": sides.often(), "pad_id": PAD, "num_return_sequences": 2,
        "filters": [without_repeated_pairs],
    }  # fmt: skip
    together = beam_search(sides.rows(), **settings)
    for i in range(3):
        rows = sides.rows_of(*sides.one(i))
        begun = rows.ids.shape[1]
        alone = beam_search(rows, **settings)
        here = slice(2 * i, 2 * i + 2)
        result, expected = alone.ids[:, begun:], together.ids[here, sides.rows().ids.shape[1] :]
        assert result.tolist() == expected[:, : result.shape[1]].tolist()
        assert (expected[:, result.shape[1] :] == PAD).all()
        torch.testing.assert_close(alone.scores, together.scores[here], atol=1e-5, rtol=1e-5)


@families
def test_the_cache_changes_nothing(sides_of: SidesOf, row: Row) -> None:
    sides = sides_of(row, torch.float64)
    settings: dict[str, Any] = {"num_beams": 4, "max_new_tokens": NEW, "num_return_sequences": 4}
    result, expected = (
        beam_search(sides.rows(), **settings),
        beam_search(sides.rows(cached=False), **settings),
    )
    assert result.ids.tolist() == expected.ids.tolist()
    torch.testing.assert_close(result.scores, expected.scores, atol=1e-12, rtol=1e-12)


@kinds
@pytest.mark.representative("fp32")
@families
@precisions
def test_a_score_is_the_sum_of_log_probabilities_for_the_length(
    sides_of: SidesOf, row: Row, dtype: torch.dtype
) -> None:
    sides = sides_of(row, dtype)
    stop_ids = sides.often()
    result = beam_search(
        sides.rows(),
        num_beams=3,
        max_new_tokens=NEW,
        stop_ids=stop_ids,
        num_return_sequences=2,
        length_penalty=0.8,
    )
    source, keep = sides.ids.repeat_interleave(2, 0), sides.keep.repeat_interleave(2, 0)
    start = 1 if row.translates else 6
    read = read_with(row, source, keep, result)
    message = sequence_log_probs(sides.ours.network, result.ids, start, stop_ids=stop_ids, **read)
    assert message.dtype == dtype
    length = (message != 0).sum(dim=1)
    assert length.min() < length.max()
    torch.testing.assert_close(message.sum(dim=1) / length**0.8, result.scores, atol=1e-5, rtol=1e-5)


# ------------------------------------------------------------------------------------------------- a made-up network


class Spoken(Network):
    """A network whose next token depends on the last alone: log P(b after a) is `table[a, b]`."""

    def __init__(self, table: Tensor) -> None:
        nn.Module.__init__(self)
        self.table = table

    def forward(self, batch: Batch, flow: Flow) -> Output:
        assert batch.input_ids is not None
        return Output(logits=self.table[batch.input_ids[:, -1:]])


def scripted(*lines: list[float]) -> Rows:
    return Rows(Spoken(torch.tensor(lines, dtype=torch.float64).log()), torch.tensor([[0]]), cached=False)


def test_a_likelier_whole_begins_with_a_less_likely_token() -> None:
    rows = scripted([0, 0.6, 0.4, 0], [0, 0.4, 0.3, 0.3], [0, 0.05, 0.05, 0.9], [0, 0, 0, 1])
    assert beam_search(rows, num_beams=1, max_new_tokens=2).ids.tolist() == [[0, 1, 1]]
    rows = scripted([0, 0.6, 0.4, 0], [0, 0.4, 0.3, 0.3], [0, 0.05, 0.05, 0.9], [0, 0, 0, 1])
    result = beam_search(rows, num_beams=2, max_new_tokens=2, num_return_sequences=2, length_penalty=0.0)
    assert result.ids.tolist() == [[0, 2, 3], [0, 1, 1]]
    torch.testing.assert_close(result.scores.exp(), torch.tensor([0.36, 0.24], dtype=torch.float64))
    tree = [(step.parents.tolist(), step.tokens.tolist()) for step in result.beams]
    assert tree[0] == ([[0, 0]], [[1, 2]])
    assert len(tree) == 2


def test_fewer_ways_than_were_asked_for() -> None:
    """All that may be said is one token, then the end: the second best is nothing."""
    rows = scripted([0, 1, 0], [0, 0, 1], [0, 0, 1])
    result = beam_search(rows, num_beams=2, max_new_tokens=5, stop_ids=(2,), pad_id=9, num_return_sequences=2)
    assert result.ids.tolist() == [[0, 1, 2], [0, 9, 9]]
    assert result.scores.tolist() == [0.0, -torch.inf]
    assert len(result.beams) == 2  # and nothing is left to search


def test_beams_go_on_though_each_would_rather_end_in_either_way() -> None:
    """Of two beams' likeliest continuations four are ends; the fifth and the sixth are carried on."""
    line = [0.0, 0.1, 0.1, 0.41, 0.39]
    rows = scripted([0.0, 0.5, 0.5, 0.0, 0.0], line, line, line, line)
    result = beam_search(rows, num_beams=2, max_new_tokens=9, stop_ids=(3, 4), length_penalty=0.0)
    torch.testing.assert_close(result.beams[1].scores.exp(), torch.full((1, 2), 0.05, dtype=torch.float64))
    assert len(result.beams) == 2
    assert result.ids.shape == (1, 3)


@pytest.mark.parametrize("early_stopping", [False, "never"])
def test_where_short_ones_are_favoured_nothing_is_hoped_of_long_ones(early_stopping: bool | str) -> None:
    """When two have ended, "1 2" could be better than the second if it ended soon, though not at the longest."""
    rows = scripted([0, 0.6, 0, 0.3, 0.1], [0, 0, 0.7, 0.3, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1])
    result = beam_search(
        rows, num_beams=2, max_new_tokens=5, stop_ids=(3,), pad_id=9, num_return_sequences=2,
        length_penalty=-1.0, early_stopping=early_stopping,
    )  # fmt: skip
    assert result.ids.tolist() == [[0, 3, 9, 9], [0, 1, 2, 3]]
    expected = torch.tensor([0.3, 0.42**3], dtype=torch.float64).log()
    torch.testing.assert_close(result.scores, expected)


def test_groups_say_different_things() -> None:
    """By hand: the second group loses λ = 1 for the 0.5 that the first has said, and says the 0.3 instead."""
    line = [0.0, 0.5, 0.3, 0.2]
    settings: dict[str, Any] = {
        "num_beams": 2,
        "num_beam_groups": 2,
        "max_new_tokens": 1,
        "num_return_sequences": 2,
    }
    result = beam_search(scripted(line, line, line, line), diversity_penalty=1.0, **settings)
    assert result.ids.tolist() == [[0, 1], [0, 2]]
    torch.testing.assert_close(result.scores.exp(), torch.tensor([0.5, 0.3], dtype=torch.float64))
    weak = beam_search(scripted(line, line, line, line), diversity_penalty=0.1, **settings)
    assert weak.ids.tolist() == [[0, 1], [0, 1]]
    torch.testing.assert_close(
        weak.scores, torch.tensor([0.5, 0.5], dtype=torch.float64).log() - torch.tensor([0, 0.1])
    )


def test_each_group_carries_on_its_own_words() -> None:
    rows = scripted([0.0, 0.5, 0.3, 0.2], [0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0])
    result = beam_search(
        rows, num_beams=2, num_beam_groups=2, max_new_tokens=3, num_return_sequences=2, diversity_penalty=1.0
    )
    assert result.ids.tolist() == [[0, 1, 3, 3], [0, 2, 1, 3]]
    message = torch.tensor([0.5, 0.3], dtype=torch.float64).log()
    torch.testing.assert_close(result.scores, (message - torch.tensor([0, 1])) / 3)  # the last 3 was said before


def test_groups_without_a_penalty_are_searches_of_their_own(sides_of: SidesOf) -> None:
    row = next(row for row in ROWS if row.family == "gpt2")
    sides = sides_of(row, torch.float64)
    settings: dict[str, Any] = {"max_new_tokens": NEW, "stop_ids": sides.often(), "pad_id": PAD}
    alone = beam_search(sides.rows(), num_beams=2, num_return_sequences=2, **settings)
    result = beam_search(sides.rows(), num_beams=6, num_beam_groups=3, num_return_sequences=6, **settings)
    twice = alone.scores.reshape(3, 2).repeat_interleave(3, dim=1)  # each of the two, once a group
    torch.testing.assert_close(result.scores.reshape(3, 6), twice)
    for i in range(3):
        generated = {tuple(line) for line in result.ids[6 * i : 6 * i + 6].tolist()}
        assert generated == {tuple(line) for line in alone.ids[2 * i : 2 * i + 2].tolist()}


def test_later_groups_differ_more_with_a_penalty(sides_of: SidesOf) -> None:
    row = next(row for row in ROWS if row.family == "llama")
    sides = sides_of(row, torch.float32)
    settings: dict[str, Any] = {
        "num_beams": 4,
        "num_beam_groups": 2,
        "max_new_tokens": NEW,
        "num_return_sequences": 4,
    }
    same, other = (beam_search(sides.rows(), diversity_penalty=λ, **settings) for λ in (0.0, 2.0))
    assert len(other.ids.unique(dim=0)) > len(same.ids.unique(dim=0))


# ------------------------------------------------------------------------------------------- what is known of answers


@kinds
@pytest.mark.representative("fp32")
@families
@precisions
def test_each_token_with_its_log_probability(sides_of: SidesOf, row: Row, dtype: torch.dtype) -> None:
    """As the network gives it, whatever filters and groups made of it."""
    sides = sides_of(row, dtype)
    stop_ids = sides.often()
    start = 1 if row.translates else 6
    source, keep = sides.ids.repeat_interleave(3, 0), sides.keep.repeat_interleave(3, 0)
    settings: dict[str, Any] = {"max_new_tokens": NEW, "stop_ids": stop_ids, "num_return_sequences": 3}
    for others in ({"num_beams": 3}, {"num_beams": 6, "num_beam_groups": 2, "diversity_penalty": 0.7}):
        for filters in ([], [without_repeated_pairs]):
            result = beam_search(sides.rows(), filters=filters, **settings, **others)
            message = sequence_log_probs(
                sides.ours.network,
                result.ids,
                start,
                stop_ids=stop_ids,
                **read_with(row, source, keep, result),
            )
            assert result.logprobs is not None and result.active is not None
            torch.testing.assert_close(result.logprobs, message, atol=1e-5, rtol=1e-5)
            stops = torch.isin(result.new_ids, torch.tensor(stop_ids))
            assert result.active.equal(stops.cumsum(1) - stops.long() == 0)
            if not filters and "num_beam_groups" not in others:
                torch.testing.assert_close(result.logprobs.sum(1) / result.active.sum(1), result.scores)
    assert len({tuple(line) for line in result.active.tolist()}) > 1, "some end before others"


def read_with(row: Row, source: Tensor, keep: Tensor, result: Generated) -> dict[str, Any]:
    if row.translates:
        return {"encoder_batch": Batch(input_ids=source), "encoder_keep": keep[:, None]}
    new = torch.ones(len(keep), result.new_ids.shape[1], dtype=torch.bool)
    return {"keep": torch.cat([keep, new], dim=1)}


def test_the_tree_reaches_the_caller(stories: Model) -> None:
    """Read backwards from the best of the last step, it is the answer."""
    result = stories.generate(PROMPTS[0], num_beams=3, max_new_tokens=9, return_scores=True, length_penalty=0.0)
    longer = stories.generate(PROMPTS[0], num_beams=3, max_new_tokens=10, return_scores=True, length_penalty=0.0)
    for step, same in zip(result.beams[:8], longer.beams[:8], strict=True):
        assert step.tokens.equal(same.tokens) and step.parents.equal(same.parents)
    chains = [[beam] for beam in range(3)]
    for step in reversed(longer.beams[:9]):
        for chain in chains:
            chain[:1] = [int(step.parents[0, chain[0]]), int(step.tokens[0, chain[0]])]
    assert result.new_ids[0].tolist() in [chain[1:] for chain in chains]
    assert stories.generate(PROMPTS[0], max_new_tokens=2, return_scores=True).beams is None


# --------------------------------------------------------------------------------------- stop strings, time and Ctrl-C


@pytest.fixture(scope="module")
def stories(shared: Path) -> Model:
    # Prepared, as a long generation would leave it: another order of tests would compare numbers of two products.
    return glassformer.load(shared / "models" / "stories260k").prepare("fp32")


STOPS = (["little girl", "big"], ["outside"], ["She", "."], ["y"])


@pytest.mark.representative("5")
@pytest.mark.parametrize("strings", STOPS, ids=str)
@pytest.mark.parametrize("num_beams", [2, 5])
def test_stop_strings_end_beams_as_the_references(
    shared: Path, stories: Model, strings: list[str], num_beams: int
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = shared / "models" / "stories260k"
    theirs: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for prompt in PROMPTS:
        ids = torch.tensor([stories.tokenizer(prompt).input_ids])
        settings: dict[str, Any] = {
            "num_beams": num_beams, "num_return_sequences": 2, "max_new_tokens": 30, "stop_strings": strings,
        }  # fmt: skip
        result = stories.generate(ids, return_scores=True, **settings)
        expected = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), eos_token_id=2, pad_token_id=2, tokenizer=tokenizer,
            return_dict_in_generate=True, output_scores=True, **settings,
        )  # fmt: skip
        assert result.ids.tolist() == expected.sequences.tolist()
        torch.testing.assert_close(result.scores, expected.sequences_scores, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("strings", STOPS, ids=str)
def test_a_stop_string_is_the_end_of_its_row(stories: Model, strings: list[str]) -> None:
    result = stories.generate(
        list(PROMPTS), num_beams=4, num_return_sequences=3, max_new_tokens=30, stop_strings=strings,
        return_scores=True,
    )  # fmt: skip
    assert "stop_string" in result.reasons
    for row, (text, reason) in enumerate(zip(result.texts, result.reasons, strict=True)):
        generated = result.new_ids[row, result.active[row]]
        before = stories.tokenizer.decode(generated[:-1])
        assert (reason == "stop_string") == any(string in text for string in strings)
        assert not any(string in before for string in strings)


def test_time_is_up(stories: Model) -> None:
    result = stories.generate(PROMPTS[0], num_beams=3, max_new_tokens=400, max_time=1e-9, return_scores=True)
    assert result.reasons == ["max_time"] and result.new_ids.shape == (1, 1)
    first = stories.generate(PROMPTS[0], num_beams=3, max_new_tokens=1, return_scores=True)
    assert result.ids.equal(first.ids) and result.scores.equal(first.scores)
    later = stories.generate(PROMPTS[0], num_beams=3, max_new_tokens=6, max_time=600, return_scores=True)
    assert later.reasons == ["max_new_tokens"]


@pytest.mark.parametrize("settings", [{}, {"do_sample": True, "seed": 1}, {"num_beam_groups": 2}], ids=str)
@pytest.mark.parametrize("whole", [0, 1, 5])
def test_ctrl_c_keeps_the_best_so_far(
    stories: Model, monkeypatch: pytest.MonkeyPatch, whole: int, settings: dict[str, Any]
) -> None:
    """After so many whole steps all is as if the search had ended there."""
    settings = {"num_beams": 4, "num_return_sequences": 2, "return_scores": True, **settings}
    # the end of a sentence ends a row: some have ended before, others are carried on
    stop = {"eos_token_id": stories.tokenizer("x.").input_ids[-1]}
    ended = stories.generate(PROMPTS[1], max_new_tokens=whole, **settings, **stop) if whole else None
    logits, calls = Rows.live_logits, []

    def interrupted(rows: Rows) -> Tensor:
        calls.append(1)
        if len(calls) == whole + 1 and whole:
            raise KeyboardInterrupt
        return logits(rows)

    def at_once(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Rows, "live_logits", interrupted)
    if not whole:
        monkeypatch.setattr(beam._BeamSearch, "_step", at_once)
    with pytest.raises(Interrupted) as caught:
        stories.generate(PROMPTS[1], max_new_tokens=50, **settings, **stop)
    partial = caught.value.partial
    assert set(partial.reasons) <= {"interrupted", "end_token"}
    assert partial.beams is not None and len(partial.beams) == whole
    if ended is None:
        assert partial.texts == ["", ""] and partial.new_ids.shape == (2, 0)
    else:
        assert "interrupted" in partial.reasons
        if "do_sample" not in settings:  # else the last of all draws decides which end
            assert partial.ids.equal(ended.ids) and partial.scores.equal(ended.scores)
            assert partial.texts == ended.texts
        elif "end_token" not in partial.reasons:
            assert partial.scores.equal(partial.beams[-1].scores[0].topk(2).values / whole)


def test_ctrl_c_after_one_of_two_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has been found stands: beams of a search that is over do not count, likely though they are."""
    table = torch.tensor([[0, 0.5, 0.1, 0.4], [0, 0.7, 0, 0.3], [0, 0, 1, 0], [0, 0, 0, 1]]).log()
    rows = Rows(Spoken(table), torch.tensor([[0], [2]]), cached=False)
    logits, calls = Rows.live_logits, []

    def at_the_fourth(rows: Rows) -> Tensor:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return logits(rows)

    monkeypatch.setattr(Rows, "live_logits", at_the_fourth)
    with pytest.raises(Interrupted) as caught:
        beam_search(
            rows, num_beams=2, max_new_tokens=9, stop_ids=(3,), pad_id=0, num_return_sequences=2,
            length_penalty=0.0, early_stopping=True,
        )  # fmt: skip
    partial = caught.value.partial
    assert partial.new_ids.tolist() == [[3, 0, 0], [1, 3, 0], [2, 2, 2], [0, 0, 0]]
    assert partial.reasons[:3] == ["end_token", "end_token", "interrupted"]


def test_ctrl_c_between_two_groups(stories: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that only one group has taken does not count."""
    settings: dict[str, Any] = {
        "num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0, "num_return_sequences": 4,
        "return_scores": True,
    }  # fmt: skip
    ended = stories.generate(PROMPTS[0], max_new_tokens=3, **settings)
    step, calls = BeamGroup.step, []

    def interrupted(*given: Any) -> Any:
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return step(*given)

    monkeypatch.setattr(BeamGroup, "step", interrupted)
    with pytest.raises(Interrupted) as caught:
        stories.generate(PROMPTS[0], max_new_tokens=50, **settings)
    assert caught.value.partial.ids.equal(ended.ids) and caught.value.partial.scores.equal(ended.scores)


# ------------------------------------------------------------------------------------------------------- by chance


@families
def test_what_is_drawn_does_not_depend_on_the_batch(sides_of: SidesOf, row: Row) -> None:
    sides = sides_of(row, torch.float64)
    settings: dict[str, Any] = {
        "num_beams": 3,
        "num_return_sequences": 3,
        "max_new_tokens": NEW,
        "pad_id": PAD,
    }
    together = beam_search(sides.rows(), generator=seeded_generators(3, 11), **settings)
    for i in range(3):
        rows = sides.rows_of(*sides.one(i))
        alone = beam_search(rows, generator=seeded_generators(3, 11)[i : i + 1], **settings)
        assert alone.new_ids.equal(together.new_ids[3 * i : 3 * i + 3])
    again = beam_search(sides.rows(), generator=seeded_generators(3, 11), **settings)
    other = beam_search(sides.rows(), generator=seeded_generators(3, 12), **settings)
    assert again.ids.equal(together.ids) and not other.ids.equal(together.ids)


def test_the_first_row_is_drawn_as_alone(stories: Model) -> None:
    settings: dict[str, Any] = {"num_beams": 3, "do_sample": True, "seed": 7, "temperature": 2.0}
    texts = stories.generate(list(PROMPTS), **settings)
    assert texts[0] == stories.generate(PROMPTS[0], **settings)
    twice = stories.generate([PROMPTS[0]] * 2, **settings)
    assert twice[0] == texts[0] and twice[1] != twice[0], "each row has draws of its own"


def test_a_seed_repeats_what_was_drawn(sides_of: SidesOf) -> None:
    row = next(row for row in ROWS if row.family == "t5")
    sides = sides_of(row, torch.float32)

    def sampled(seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return beam_search(sides.rows(), num_beams=2, max_new_tokens=NEW, generator=generator).ids

    assert sampled(1).equal(sampled(1))
    assert not sampled(1).equal(sampled(2))


def test_draws_are_as_frequent_as_their_probability() -> None:
    """One beam, one token: chi-squared of 2,000 draws, 2 degrees of freedom, 1 in 1,000."""
    line, generator = [0.2, 0.5, 0.3], torch.Generator().manual_seed(0)
    network = Spoken(torch.tensor([line] * 3).log())
    rows = Rows(network, torch.zeros(2_000, 1, dtype=torch.long), cached=False)
    generated = beam_search(rows, num_beams=1, max_new_tokens=1, generator=generator).ids[:, 1].bincount(minlength=3)
    expected = torch.tensor(line) * 2_000
    assert ((generated - expected) ** 2 / expected).sum() < 13.8


# ------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_beams": 0}, "num_beams is 0; it must be a whole number from 1 up"),
        ({"num_beams": -2}, "num_beams is -2"),
        ({"num_beams": 2.0}, "num_beams is 2.0"),
        ({"num_beams": True}, "num_beams is True"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"num_return_sequences": 0}, "num_return_sequences is 0"),
        (
            {"num_return_sequences": 3},
            "num_return_sequences is 3, and num_beams is 2; there are no more answers than beams",
        ),
        ({"num_beam_groups": 0}, "num_beam_groups is 0"),
        (
            {"num_beams": 3, "num_beam_groups": 2},
            "num_beam_groups is 2, and num_beams is 3; it must be a multiple",
        ),
        ({"num_beams": 4}, "num_beams is 4; the vocabulary has 3 tokens"),
        ({"length_penalty": float("nan")}, "length_penalty is nan; it must be a number"),
        ({"length_penalty": "long"}, "length_penalty is 'long'"),
        ({"diversity_penalty": -1.0}, "diversity_penalty is -1.0; it must be a number from 0 up"),
        ({"early_stopping": "always"}, "early_stopping is 'always'; it must be True, False or 'never'"),
        ({"early_stopping": 1}, "early_stopping is 1; it must be"),
    ],
)
def test_what_cannot_be_asked(settings: dict[str, Any], message: str) -> None:
    line = [0.2, 0.5, 0.3]
    with pytest.raises(ConfigError, match=message):
        beam_search(scripted(line, line, line), **{"num_beams": 2, "max_new_tokens": 3, **settings})


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
@pytest.mark.parametrize("sampled", [False, True])
def test_numbers_that_are_none(broken: float, sampled: bool) -> None:
    generator = torch.Generator() if sampled else None
    with pytest.raises(WeightsError, match="the logits of token 2 are NaN or infinite"):
        beam_search(scripted([0.5, 0.5], [broken, 0.5]), num_beams=2, max_new_tokens=3, generator=generator)


# -------------------------------------------------------------------------------------------------------- watching


@pytest.mark.parametrize("groups", [1, 2])
def test_each_step_is_shown_with_what_was_found_so_far(shared: Path, groups: int) -> None:
    model = glassformer.load(shared / "models" / "stories260k")
    ids = torch.tensor([model.tokenizer.encode("Once upon a time")])
    settings: dict[str, Any] = {
        "num_beams": 4,
        "max_new_tokens": 8,
        "num_return_sequences": 4,
        "num_beam_groups": groups,
    }
    settings |= {"stop_ids": (model.tokenizer.encode(".")[-1], 419), "pad_id": PAD}
    seen: list[Generated] = []
    result = beam_search(Rows(model.network, ids), on_step=seen.append, **settings)
    plain = beam_search(Rows(model.network, ids), **settings)
    assert torch.equal(result.ids, plain.ids) and torch.equal(result.scores, plain.scores)
    assert [len(each.beams or ()) for each in seen] == list(range(1, len(result.beams) + 1))
    assert torch.equal(seen[-1].ids, result.ids) and torch.equal(seen[-1].scores, result.scores)
    best = [float(each.scores[0]) for each in seen]
    assert best == sorted(best)  # the pool only gets better
    assert seen[0].ids.shape == ids.expand(4, -1).shape and bool(seen[0].scores.isneginf().all())


def test_what_a_watcher_raises_ends_the_search(shared: Path) -> None:
    model = glassformer.load(shared / "models" / "stories260k")
    seen: list[Generated] = []

    def watch(result: Generated) -> None:
        seen.append(result)
        if len(seen) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        rows = Rows(model.network, torch.tensor([[1, 403]]))
        beam_search(rows, num_beams=2, max_new_tokens=9, on_step=watch)
    assert len(seen) == 3


# The log-probability of texts that are there, token by token.


IDS = torch.tensor([[5, 17, 3, 9, 9, 4], [8, 8, 40, 21, 9, 30]])


def network_of(family: str, task: str = "text-generation") -> Network:
    torch.manual_seed(4)
    network = Model.from_config(models.FAMILIES[family].tiny, task=task).eval().network
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return network


@pytest.mark.parametrize("start", [1, 3, 5])
@torch.no_grad()
def test_each_token_by_those_before_it(start: int) -> None:
    network = network_of("llama")
    message = sequence_log_probs(network, IDS, start)
    assert message.shape == (2, 6 - start)
    for t in range(start, 6):
        logits = network(Batch(input_ids=IDS[:, :t]), Flow()).logits[:, -1]
        expected = logits.softmax(-1)[torch.arange(2), IDS[:, t]].log()
        torch.testing.assert_close(message[:, t - start], expected, atol=1e-5, rtol=1e-5)


def test_padding_changes_nothing() -> None:
    network = network_of("gpt2")
    padded = torch.cat([torch.zeros(2, 3, dtype=torch.long), IDS], dim=1)
    keep = torch.tensor([[False] * 3 + [True] * 6] * 2)
    result = sequence_log_probs(network, padded, 4, keep=keep)
    torch.testing.assert_close(result, sequence_log_probs(network, IDS), atol=1e-5, rtol=1e-5)


def test_an_answer_is_judged_by_what_was_read() -> None:
    network = network_of("t5", "translation")
    read = Batch(input_ids=IDS)
    keep = torch.tensor([[[True] * 4 + [False] * 2]] * 2)
    result = sequence_log_probs(network, IDS, encoder_batch=read, encoder_keep=keep)
    short = sequence_log_probs(network, IDS, encoder_batch=Batch(input_ids=IDS[:, :4]))
    torch.testing.assert_close(result, short, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(result, sequence_log_probs(network, IDS, encoder_batch=read))


def test_nothing_counts_behind_the_end() -> None:
    network = network_of("gpt2")
    free, message = sequence_log_probs(network, IDS), sequence_log_probs(network, IDS, stop_ids=(9, 40))
    assert message[0].tolist() == [*free[0, :3].tolist(), 0.0, 0.0]
    assert message[1].tolist() == [*free[1, :2].tolist(), 0.0, 0.0, 0.0]


def test_bfloat16_is_summed_in_fp32() -> None:
    assert sequence_log_probs(network_of("gpt2").bfloat16(), IDS).dtype == torch.float32


@pytest.mark.parametrize("start", [0, 6, -1])
def test_a_start_out_of_range(start: int) -> None:
    with pytest.raises(ConfigError, match=f"start is {start}, the rows have 6 tokens; it must be from 1 to 5"):
        sequence_log_probs(network_of("gpt2"), IDS, start)
