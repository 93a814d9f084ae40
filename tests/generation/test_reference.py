"""`generate` says what the reference library says: the same ids from the same folders, and the same kept tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import glassformer
from glassformer import Model
from tests.parity.families import ROWS, Row
from tests.parity.sides import PRECISIONS, lifted, load_ours, load_theirs, make

FAMILIES = ("gpt2", "granite", "llama", "mixtral", "t5", "bart", "pegasus", "marian")
ROOMY = {"gpt2": {"n_positions": 128}, "t5": {"num_decoder_layers": 1}}
"""Room for 64 tokens, and what keeps a random network from saying one word over and over."""

families = pytest.mark.parametrize("row", [row for row in ROWS if row.family in FAMILIES], ids=lambda row: row.family)
precisions = pytest.mark.parametrize("dtype", PRECISIONS, ids=["fp32", "fp64"])

NEW = 24

RULES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "repetition": {"repetition_penalty": 1.7},
    "bigrams": {"no_repeat_ngram_size": 2},
    "bad words": {"bad_words_ids": [[5], [6], [7, 9], [11, 12], [30, 31, 32]]},
    "not yet": {"min_new_tokens": 15},
    "all": {"repetition_penalty": 1.2, "no_repeat_ngram_size": 3, "bad_words_ids": [[40]], "min_new_tokens": 5},
}  # fmt: skip


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Row], Path]:
    made: dict[str, Path] = {}

    def folder(row: Row) -> Path:
        if row.family not in made:
            usual = {"max_position_embeddings": 128}
            if row.translates:
                usual |= {"scale_embedding": False, "decoder_layers": 1}
            changes = ROOMY.get(row.family, usual)
            made[row.family] = make(row, row.main, tmp_path_factory.mktemp(row.family), **changes)
        return made[row.family]

    return folder


def prompts(row: Row, vocabulary: int, count: int = 50) -> tuple[Tensor, Tensor]:
    """Random rows of 1 to 12 tokens, padded behind what is read, before what is continued."""
    draw = torch.Generator().manual_seed(8)
    lengths = torch.randint(1, 13, (count, 1), generator=draw)
    places = torch.arange(12)[None]
    keep = places < lengths if row.translates else places >= 12 - lengths
    return torch.randint(3, vocabulary, (count, 12), generator=draw).where(keep, 0), keep


def theirs_of(theirs: Any, ids: Tensor, keep: Tensor, **settings: Any) -> Tensor:
    result: Tensor = theirs.generate(ids, attention_mask=keep.long(), do_sample=False, num_beams=1, **settings)
    return result


@families
@precisions
def test_fifty_prompts(folder_of: Callable[[Row], Path], row: Row, dtype: torch.dtype) -> None:
    ours, theirs = load_ours(folder_of(row), dtype), load_theirs(folder_of(row), row, dtype)
    ids, keep = prompts(row, ours.vocabulary)
    mine = ours.generate(ids, attention_mask=keep.long(), max_new_tokens=64)
    with lifted(row, dtype):
        assert mine.tolist() == theirs_of(theirs, ids, keep, max_new_tokens=64).tolist()
    assert len({tuple(line) for line in mine[:, -64:].tolist()}) > 10  # the prompts were read


@pytest.mark.representative("fp32")
@families
@precisions
def test_fifty_prompts_with_beams(folder_of: Callable[[Row], Path], row: Row, dtype: torch.dtype) -> None:
    """What `test_beam.py` shows of a few prompts, of as many as greedy search is compared on."""
    ours, theirs = load_ours(folder_of(row), dtype), load_theirs(folder_of(row), row, dtype)
    ids, keep = prompts(row, ours.vocabulary)
    settings = {"max_new_tokens": 64, "num_beams": 4, "num_return_sequences": 2, "length_penalty": 0.8}
    mine = ours.generate(ids, attention_mask=keep.long(), return_scores=True, **settings)
    with lifted(row, dtype):
        expected: Any = theirs.generate(
            ids,
            attention_mask=keep.long(),
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
            **settings,
        )
    # Behind an end the reference writes an end token where the padding's number is 0.
    expected_ids = expected.sequences[:, mine.prompt_length :].where(mine.active, -1)
    assert mine.new_ids.where(mine.active, -1).tolist() == expected_ids.tolist()
    torch.testing.assert_close(mine.scores.double(), expected.sequences_scores.double(), atol=2e-5, rtol=2e-5)


@pytest.mark.representative("llama", "t5", "all")
@families
@pytest.mark.parametrize("settings", RULES.values(), ids=RULES)
def test_rules(folder_of: Callable[[Row], Path], row: Row, settings: dict[str, Any]) -> None:
    """One prompt at a time where n-grams count: the reference also counts those of padding."""
    ours, theirs = load_ours(folder_of(row)), load_theirs(folder_of(row), row)
    ids, keep = prompts(row, ours.vocabulary, 4)
    batch = ours.generate(ids, attention_mask=keep.long(), max_new_tokens=NEW, **settings)
    for i, line in enumerate(ids):
        alone = line[keep[i]][None]
        expected = theirs_of(theirs, alone, torch.ones_like(alone), max_new_tokens=NEW, **settings)[0]
        mine = ours.generate(alone, max_new_tokens=NEW, **settings)[0]
        assert mine.tolist() == expected.tolist()
        new = mine[0 if row.translates else len(alone[0]) :]
        begun = 0 if row.translates else ids.shape[1]
        assert batch[i, begun : begun + len(new)].tolist() == new.tolist()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_runs_of_the_source(folder_of: Callable[[Row], Path], size: int) -> None:
    row = next(row for row in ROWS if row.family == "bart")
    ours, theirs = load_ours(folder_of(row), torch.float64), load_theirs(folder_of(row), row, torch.float64)
    source = torch.randint(3, 99, (4, 60), generator=torch.Generator().manual_seed(2))
    settings = {"encoder_no_repeat_ngram_size": size, "max_new_tokens": 30}
    mine = ours.generate(source, **settings)
    assert mine.tolist() == theirs_of(theirs, source, torch.ones_like(source), **settings).tolist()
    if size == 1:
        assert mine.tolist() != ours.generate(source, max_new_tokens=30).tolist()


def test_scores(folder_of: Callable[[Row], Path]) -> None:
    """Log-probabilities under the distribution that was chosen from, and under the model's own."""
    row = next(row for row in ROWS if row.family == "llama")
    ours, theirs = load_ours(folder_of(row), torch.float64), load_theirs(folder_of(row), row, torch.float64)
    ids = torch.tensor([[5, 17, 3], [8, 8, 40]])
    settings = {"max_new_tokens": 9, "repetition_penalty": 1.5}
    result = ours.generate(ids, return_scores=True, top=4, **settings)
    expected: Any = theirs.generate(
        ids, do_sample=False, return_dict_in_generate=True, output_scores=True, output_logits=True, **settings
    )
    assert result.ids.tolist() == expected.sequences.tolist()
    for name, logits in (("filtered_logprobs", expected.scores), ("logprobs", expected.logits)):
        there = torch.stack([x.double().log_softmax(-1) for x in logits], dim=1)  # [R, new, V]
        message = there.gather(-1, result.new_ids[..., None])[..., 0].masked_fill(~result.active, 0.0)
        torch.testing.assert_close(getattr(result, name), message, atol=1e-5, rtol=1e-5)
        if name == "logprobs":
            best = there.topk(4)
            assert result.top_ids[result.active].equal(best.indices[result.active])
    torch.testing.assert_close(result.scores, result.logprobs.sum(-1))


# --------------------------------------------------------------------------------------------------- a trained model


@pytest.fixture(scope="module")
def stories(shared: Path) -> Model:
    return glassformer.load(shared / "models" / "stories260k")


@pytest.fixture(scope="module")
def beginnings(shared: Path) -> list[str]:
    """50 beginnings of 1 to 12 words."""
    words = (shared / "models" / "stories260k" / "golden.txt").read_text().split()
    return [" ".join(words[i : i + 1 + i % 12]) for i in range(50)]


def test_fifty_stories(stories: Model, beginnings: list[str], shared: Path) -> None:
    theirs: Any = transformers.AutoModelForCausalLM.from_pretrained(shared / "models" / "stories260k")
    encoded = stories.tokenizer(beginnings, padding=True, padding_side="left", return_tensors="pt")
    ids, mask = encoded["input_ids"], encoded["attention_mask"]
    expected = theirs_of(theirs.eval(), ids, mask, max_new_tokens=64, pad_token_id=2)
    assert stories.generate(ids, attention_mask=mask, max_new_tokens=64).tolist() == expected.tolist()


def test_a_story_does_not_depend_on_those_beside_it(stories: Model, beginnings: list[str]) -> None:
    for settings in ({}, {"no_repeat_ngram_size": 2, "repetition_penalty": 1.3}, {"num_beams": 2}):
        together = stories.generate(beginnings[:8], max_new_tokens=NEW, **settings)
        assert together == [stories.generate(text, max_new_tokens=NEW, **settings) for text in beginnings[:8]]


def test_what_is_drawn_depends_on_seed_and_row_alone(stories: Model, beginnings: list[str]) -> None:
    settings = {"do_sample": True, "top_p": 0.95, "seed": 4, "max_new_tokens": 30}
    together = stories.generate(beginnings[:6], **settings)
    others = [*beginnings[20:23], beginnings[3]]
    assert stories.generate(others, **settings)[3] == together[3]
    assert stories.generate(beginnings[:1], **settings) == together[:1]
    assert stories.generate(beginnings[:6], **{**settings, "seed": 5}) != together
    assert stories.generate(beginnings[:6], **{**settings, "max_new_tokens": 5}) != together
