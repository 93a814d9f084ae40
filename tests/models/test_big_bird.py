"""BigBird beyond the parity table: block-sparse attention, random blocks of the paper, question answering."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer import Model, UnsupportedError
from glassformer.core import Attention, Tape
from glassformer.inspect import Session
from glassformer.models import FAMILIES, ConfigReader, big_bird
from glassformer.models.big_bird import BlockSparseAttention
from tests.inspect.passes import heard, network_of, reading_of
from tests.parity.families import ROWS
from tests.parity.inputs import Inputs
from tests.parity.sides import PRECISIONS, close, load_ours, load_theirs, make, tolerance

ROW = next(row for row in ROWS if row.family == "big_bird")
BLOCKS = {"block_size": 4, "num_random_blocks": 1, "max_position_embeddings": 64}
SEPARATOR = 66

Checkpoint = Callable[..., Path]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """(architecture, **changes) → a folder; read it, never write to it."""

    @cache
    def folder(architecture: str, **changes: Any) -> Path:
        return make(ROW, architecture, tmp_path_factory.mktemp(architecture), **changes)

    return folder


def random_inputs(lengths: list[int], tokens: int, padding: str = "right") -> Inputs:
    generator = torch.Generator().manual_seed(2)
    positions, count = torch.arange(tokens)[None], torch.tensor(lengths)[:, None]
    keep = positions >= tokens - count if padding == "left" else positions < count
    ids = torch.randint(1, 60, keep.shape, generator=generator).where(keep, 0)
    token_types = torch.randint(0, 2, keep.shape, generator=generator)
    return Inputs(ids, keep, token_types)


def both_models(folder: Path, dtype: torch.dtype = torch.float64) -> tuple[Any, Any]:
    """Ours and theirs; theirs is loaded anew each time, since a short text changes it for good."""
    return load_ours(folder, dtype), load_theirs(folder, ROW, dtype)


# ── blocks of several tokens ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("random", [1, 2])
@pytest.mark.parametrize("tokens", [37, 40, 43, 61])
@pytest.mark.parametrize("padding", ["none", "right", "left"])
@pytest.mark.parametrize("dtype", PRECISIONS, ids=["fp32", "fp64"])
@torch.no_grad()
def test_blocks(checkpoint: Checkpoint, random: int, tokens: int, padding: str, dtype: torch.dtype) -> None:
    """Texts that fill their last block and texts that do not, padded inside a block and over several."""
    ours, theirs = both_models(checkpoint(ROW.main, **BLOCKS | {"num_random_blocks": random}), dtype)
    lengths = [tokens] * 3 if padding == "none" else [tokens, tokens - 3, 6]
    inputs = random_inputs(lengths, tokens, padding)
    expected = theirs(**inputs.theirs).logits
    for tape in (None, Tape("attn.probs")):
        output = ours(**inputs.ours, tape=tape)
        close(output.logits[inputs.keep], expected[inputs.keep], tolerance(ROW, dtype), f"{tape}")
        for probs in output.taps.values():
            row_sums = probs.sum(-1).transpose(1, 2)[inputs.keep]
            close(row_sums, torch.ones_like(row_sums), 1e-5)


@pytest.mark.parametrize("tokens", [28, 29])
@torch.no_grad()
def test_a_text_is_full_up_to_five_blocks_and_two_a_draw(checkpoint: Checkpoint, tokens: int) -> None:
    ours, theirs = both_models(checkpoint(ROW.main, **BLOCKS))
    inputs = random_inputs([tokens] * 2, tokens)
    close(ours(**inputs.ours).logits, theirs(**inputs.theirs).logits, 1e-9)


@torch.no_grad()
def test_a_short_text_leaves_no_trace(checkpoint: Checkpoint) -> None:
    """Differs: the reference keeps full attention for good."""
    ours, theirs = both_models(checkpoint(ROW.main, **BLOCKS))
    short, long = random_inputs([9], 9), random_inputs([50], 50)
    fresh = theirs(**long.theirs).logits
    for model in (ours, theirs):
        model(**(short.ours if model is ours else short.theirs))
    close(ours(**long.ours).logits, fresh, 1e-9)
    assert (theirs(**long.theirs).logits - fresh).abs().max() > 1e-3


@pytest.mark.parametrize("tokens", [45, 800, 1024])
def test_training_draws_the_same_blocks(checkpoint: Checkpoint, tokens: int) -> None:
    """By two rules: of lengths that the paper trained on, and of all others."""
    changes = BLOCKS if tokens == 45 else {"block_size": 64, "num_random_blocks": 3, "max_position_embeddings": 1100}
    width = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 5}
    ours, theirs = both_models(checkpoint(ROW.main, **changes, **width))
    ours, theirs = ours.train(), theirs.train()
    inputs = random_inputs([tokens, tokens - 9], tokens)
    output, expected = ours(**inputs.ours).logits[inputs.keep], theirs(**inputs.theirs).logits[inputs.keep]
    close(output, expected, 1e-9)
    assert (ours.eval()(**inputs.ours).logits[inputs.keep] - expected).abs().max() > 1e-3
    output.square().mean().backward()
    expected.square().mean().backward()
    close(
        ours.network.embed.tokens.weight.grad,
        theirs.bert.embeddings.word_embeddings.weight.grad,
        1e-9,
    )


def test_each_layer_draws_by_its_own_number() -> None:
    record = FAMILIES["big_bird"]
    spec = record.spec(ConfigReader({**record.tiny, "max_position_embeddings": 512}))
    attention = [block.attention for block in spec.blocks.blocks]
    assert [(part.seed, part.longest) for part in attention] == [(0, 512), (1, 512), (2, 512)]
    kinds = {
        kind: {type(block.attn) for block in big_bird.build(record.spec(ConfigReader(config)), "fill-mask").blocks}
        for kind in ("block_sparse", "original_full")
        for config in [{**record.tiny, "attention_type": kind}]
    }
    assert kinds == {"block_sparse": {BlockSparseAttention}, "original_full": {Attention}}


# ── looking at it ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tokens", [20, 38])
def test_a_session_shows_the_blocks_that_are_seen(tokens: int) -> None:
    """Also of a network in training mode, since a session looks at a pass in evaluation."""
    network, reading = network_of("big_bird", torch.float64, **BLOCKS), reading_of("big_bird", tokens)
    taps = heard(network, reading, "attn.scores", "attn.probs")
    session = Session(network.train(), reading)
    for layer in range(3):
        for number in range(4):
            head = session.head(layer, number)
            close(head.scores(), taps[f"blocks.{layer}.attn.scores"][number], 1e-10)
            close(head.probs([0, 7, tokens - 1]), taps[f"blocks.{layer}.attn.probs"][number][[0, 7, -1]], 1e-10)
    head = session.head(0, 0)
    hidden, bias = head.masked(20 - 1), head.bias(20 - 1)  # of a query in block 4
    assert hidden is not None
    if tokens == 20:
        assert bias is None and not hidden.any()
    else:
        attended = [0] * 4, [1] * 8, [0] * 12, [1] * 12, [0] * 2
        assert bias is not None and hidden[0].int().tolist() == [*chain(*attended)]
        assert bias[0, 0].exp() == pytest.approx(2) and not bias[0, 4:].any()


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────


def ids_with_questions(keep: Tensor, ends: list[int]) -> Tensor:
    """Ids whose questions end at these positions; a negative one is none."""
    ids = torch.randint(1, 60, keep.shape, generator=torch.Generator().manual_seed(4)).where(keep, 0)
    for row, end in enumerate(ends):
        if end >= 0:
            ids[row, end] = ids[row, end + 4] = SEPARATOR
    return ids


@pytest.mark.parametrize("types_given", [False, True], ids=["segments from the question", "segments given"])
@pytest.mark.parametrize("dtype", PRECISIONS, ids=["fp32", "fp64"])
@torch.no_grad()
def test_no_answer_lies_in_the_question(checkpoint: Checkpoint, types_given: bool, dtype: torch.dtype) -> None:
    ours, theirs = both_models(checkpoint(ROW.record.architecture("question-answering")), dtype)
    keep = torch.arange(11)[None] < torch.tensor([11, 9, 11, 6])[:, None]
    fields = {"input_ids": ids_with_questions(keep, [3, 1, -1, 0]), "attention_mask": keep.long()}
    if types_given:
        fields["token_type_ids"] = torch.randint(0, 2, keep.shape, generator=torch.Generator().manual_seed(6))
    marked = {"start_positions": torch.tensor([5, 8, 0, 0]), "end_positions": torch.tensor([6, 8, 10, 3])}
    positions = Inputs(fields["input_ids"], keep, None).positions
    output, expected = ours(**fields, labels=marked), theirs(**fields, **marked, position_ids=positions)
    within = tolerance(ROW, dtype)
    for name in ("start_logits", "end_logits", "loss"):
        close(output[name], expected[name], within, name)
    barred = output.start_logits < -1e5
    assert barred.int().tolist() == [
        [0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0] * 11,
        [0] * 11,
    ]


@torch.no_grad()
def test_a_question_padded_on_the_left_is_the_same_question(checkpoint: Checkpoint) -> None:
    """Texts short enough for full attention, which padding does not move."""
    ours: Any = load_ours(checkpoint(ROW.record.architecture("question-answering"), block_size=64), torch.float64)
    keep = torch.ones(1, 9, dtype=torch.bool)
    ids = ids_with_questions(keep, [3])
    padded = torch.cat([torch.zeros(1, 2, dtype=torch.long), ids], dim=1)
    mask = torch.cat([torch.zeros(1, 2, dtype=torch.long), keep.long()], dim=1)
    close(ours(padded, mask).start_logits[:, 2:], ours(ids).start_logits, 1e-9)


# ── what it refuses ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("is_decoder", True),
        ("add_cross_attention", True),
        ("attention_type", "sparse"),
        ("position_embedding_type", "relative_key"),
        ("tie_word_embeddings", False),
    ],
)
def test_what_changes_the_mathematics_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(UnsupportedError, match=key):
        Model.from_config({**ROW.config(), key: value}, task="fill-mask")
