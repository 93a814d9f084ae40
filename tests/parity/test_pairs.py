"""Encoder-decoders give the reference library's numbers where they differ from one stack: two sides, and a memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from glassformer import DataError, Model
from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Tape
from glassformer.models import ConfigReader
from glassformer.models._seq2seq import shift_right
from tests.parity.families import ROWS, Row
from tests.parity.inputs import HIDDEN_ID, Pairs, Twice, draw_inputs, draw_labels, ended, pushed_left
from tests.parity.sides import (
    PRECISIONS,
    Folders,
    close,
    in_its_precision,
    lifted,
    load_ours,
    load_theirs,
    squares,
    tolerance,
)
from tests.parity.test_files import rewritten

PAIRS = [row for row in ROWS if row.translates]
rows = pytest.mark.parametrize("row", PAIRS, ids=lambda row: row.family)
TEXTS = [row for row in PAIRS if "translation" in row.record.tasks]
texts = pytest.mark.parametrize("row", TEXTS, ids=lambda row: row.family)
precisions = pytest.mark.parametrize("dtype", PRECISIONS, ids=["fp32", "fp64"])
PADDINGS = ("none", "right", "left")


def pair(config: dict[str, Any], source: str, target: str) -> Pairs:
    """A batch whose two sides are padded each in its own way."""
    one, other = draw_inputs(config, target), draw_inputs(config, source)
    assert isinstance(one, Pairs) and isinstance(other, Pairs)
    return replace(one, source=other.source, source_keep=other.source_keep)


@rows
@precisions
@torch.no_grad()
def test_each_side_padded_in_its_own_way(folders: Folders, row: Row, dtype: torch.dtype) -> None:
    folder = folders(row, row.main)
    ours, theirs, within = load_ours(folder, dtype), load_theirs(folder, row, dtype), tolerance(row, dtype)
    for source, target in product(PADDINGS, PADDINGS):
        case = f"source {source}, target {target}"
        inputs = pair(ours.config, source, target)
        labels, their_labels = draw_labels("translation", inputs, ours.config)
        output = ours(**inputs.ours, labels=labels)
        with lifted(row, dtype):
            expected = theirs(**inputs.theirs, **their_labels)
        for name in ("logits", "encoder_last_hidden_state"):
            mine, there = output[name][inputs.seen(name)], expected[name][inputs.seen_there(name)]
            close(mine, there, within, f"{name}, {case}")
        close(output.loss, expected.loss, within, f"loss, {case}")


@pytest.mark.parametrize("row", [row for row in PAIRS if row.family != "mbart"], ids=lambda row: row.family)
@torch.no_grad()
def test_labels_alone_are_what_we_shift(folders: Folders, row: Row) -> None:
    """The reference shifts labels to get the decoder's input; here the caller does, by `shifted_right`.

    mBART's begins with a text's own language instead, which stands behind its last label.
    """
    folder = folders(row, row.main)
    ours, theirs = load_ours(folder), load_theirs(folder, row)
    inputs = draw_inputs(ours.config, "right")
    assert isinstance(inputs, Pairs)
    read = inputs.read
    labels = inputs.ids.masked_fill(~inputs.keep, -100)
    begun = shift_right(labels, ours.config["decoder_start_token_id"], HIDDEN_ID)
    output, expected = ours(**read, decoder_input_ids=begun, labels=labels), theirs(**read, labels=labels)
    close(output.loss, expected.loss, row.fp32, "loss")
    close(output.logits[inputs.keep], expected.logits[inputs.keep], row.fp32, "logits")


# ------------------------------------------------------------------------------------------------------------ cache


@pytest.mark.representative("fp32")
@rows
@precisions
@torch.no_grad()
def test_cached(folders: Folders, row: Row, dtype: torch.dtype) -> None:
    """Keys of the target grow, those of the memory are made once; fused and explicit, both as the reference."""
    folder = folders(row, row.main)
    ours, theirs, within = load_ours(folder, dtype), load_theirs(folder, row, dtype), tolerance(row, dtype)
    for source, target, chunks in product(PADDINGS, ("none", "left"), ([6, 5], [1] * 11)):
        inputs = pair(ours.config, source, target)
        with lifted(row, dtype):
            expected = {"whole": theirs(**inputs.theirs).logits}
            if target == "none":
                expected["cached"] = reference_cached(theirs, inputs, chunks)
        for tape in (None, Tape("*.probs")):
            logits = cached(ours, inputs, chunks, tape)[inputs.keep]
            for what, there in expected.items():
                case = f"source {source}, target {target}, chunks {chunks}, theirs {what}, {tape}"
                close(logits, there[inputs.seen_there("logits")], within, case)


def cached(model: Model, inputs: Pairs, chunks: list[int], tape: Tape | None) -> Tensor:
    """Our logits when the target is fed in chunks; the encoder runs before the first of them alone. [B, T, V]"""
    cache, parts, end = KeyValueCache(block_tokens=4), [], 0
    for chunk in chunks:
        start, end = end, end + chunk
        output = model(
            **inputs.read,
            decoder_input_ids=inputs.ids[:, start:end],
            decoder_attention_mask=inputs.keep[:, :end].long(),
            cache=cache,
            tape=tape,
        )
        parts.append(output.logits)
    return torch.cat([part for part in parts if part is not None], dim=1)


def reference_cached(model: Any, inputs: Pairs, chunks: list[int]) -> Tensor:
    right = inputs.right()
    states = model.get_encoder()(**in_its_precision(model, (), right.read)[1])
    past, parts, end = None, [], 0
    for chunk in chunks:
        start, end = end, end + chunk
        answer = model(
            encoder_outputs=states,
            attention_mask=right.read.get("attention_mask"),
            decoder_input_ids=right.ids[:, start:end],
            decoder_attention_mask=right.keep[:, :end].long(),
            past_key_values=past,
            use_cache=True,
        )
        past = answer.past_key_values
        parts.append(answer.logits)
    return torch.cat(parts, dim=1)


FEW = {"t5": {"num_decoder_layers": 1}}
"""What keeps a random network from saying one word over and over, where it is spelled in a family's own way."""


@texts
@torch.no_grad()
def test_greedy(folders: Folders, row: Row) -> None:
    """The same tokens as the reference's own loop, from sources padded on the left."""
    folder = folders(row, row.main, **FEW.get(row.family, {"scale_embedding": False, "decoder_layers": 1}))
    ours, theirs = load_ours(folder, torch.float64), load_theirs(folder, row, torch.float64)
    inputs = pair(ours.config, "left", "none")
    mine = ours.generate(inputs.source, attention_mask=inputs.source_keep.long(), max_new_tokens=12)
    ids = torch.full((3, 1), ours.config["decoder_start_token_id"])
    right, running = inputs.right(), torch.ones(3, dtype=torch.bool)
    while ids.shape[1] < mine.shape[1]:
        answer = theirs(input_ids=right.source, attention_mask=right.source_keep.long(), decoder_input_ids=ids)
        chosen = answer.logits[:, -1].argmax(-1)
        if ids.shape[1] == 12 and (last := ours.config.get("forced_eos_token_id")) is not None:
            chosen = torch.full_like(chosen, last)
        chosen = chosen.where(running, HIDDEN_ID)
        ids = torch.cat([ids, chosen[:, None]], dim=1)
        running &= chosen != ours.config["eos_token_id"]
    assert torch.equal(mine, ids)
    assert len({tuple(line) for line in mine.tolist()}) > 1  # the sources were read


# ------------------------------------------------------------------------------------------------------------- taps


@pytest.mark.representative("fp32")
@rows
@pytest.mark.parametrize("padding", ["none", "right", "left"])
@precisions
@torch.no_grad()
def test_taps(folders: Folders, row: Row, padding: str, dtype: torch.dtype) -> None:
    """Hidden states, attentions and cross-attentions of both sides, and with them the explicit path."""
    folder = folders(row, row.main)
    ours, theirs, within = load_ours(folder, dtype), load_theirs(folder, row, dtype), tolerance(row, dtype)
    inputs = pair(ours.config, padding, padding)
    with lifted(row, dtype):
        expected = theirs(**inputs.theirs, output_hidden_states=True, output_attentions=True)
    output = ours(**inputs.ours, tape=Tape("embed.out", "blocks.*.out", "memory", "final", "probs", "logits"))
    masks = {"encoder": (inputs.source_keep, inputs.right().source_keep)}
    masks["decoder"] = (inputs.keep, inputs.right().keep)

    for side, last in (("encoder", "memory"), ("decoder", "final")):
        here, there = masks[side]
        layers = len(expected[f"{side}_attentions"])
        taps = [f"{side}.embed.out", *(f"{side}.blocks.{i}.out" for i in range(layers - 1)), last]
        for tap, state in zip(taps, expected[f"{side}_hidden_states"], strict=True):
            close(output.taps[tap][here], state[there], within, tap)
        for i, probs in enumerate(expected[f"{side}_attentions"]):
            tap = f"{side}.blocks.{i}.attn.probs"
            close(squares(output.taps[tap], here, here), squares(probs, there, there), within, tap)
    (queries, queries_there), (keys, keys_there) = masks["decoder"], masks["encoder"]
    for i, probs in enumerate(expected.cross_attentions):
        tap = f"decoder.blocks.{i}.cross.probs"
        close(squares(output.taps[tap], queries, keys), squares(probs, queries_there, keys_there), within, tap)

    seen, seen_there = inputs.seen("logits"), inputs.seen_there("logits")
    close(output.logits[seen], expected.logits[seen_there], within, "explicit")
    close(ours(**inputs.ours).logits[seen], expected.logits[seen_there], within, "fused")
    with lifted(row, dtype):
        fused_there = load_theirs(folder, row, dtype, attention="sdpa")(**inputs.theirs).logits
    close(output.logits[seen], fused_there[seen_there], within, "theirs fused")


# ------------------------------------------------------------------------------------------------- files as found


OTHER_NAMES = ("{}encoder.embed_tokens.weight", "{}decoder.embed_tokens.weight", "lm_head.weight")


def table(tensors: Mapping[str, Tensor]) -> Tensor:
    return tensors[f"{prefix(tensors)}shared.weight"]


def prefix(tensors: Mapping[str, Tensor]) -> str:
    name = next(name for name in tensors if name.endswith("shared.weight"))
    return name.removesuffix("shared.weight")


@texts
@torch.no_grad()
def test_the_table_may_be_repeated(folders: Folders, row: Row, tmp_path: Path) -> None:
    """Older files hold the shared table under each of its names."""
    folder = folders(row, row.main)
    copy = rewritten(
        folder,
        tmp_path / "copy",
        lambda t: {**t, **{name.format(prefix(t)): table(t).clone() for name in OTHER_NAMES}},
    )
    translates_alike(copy, folder)


@texts
@pytest.mark.parametrize("name", OTHER_NAMES)
@torch.no_grad()
def test_the_table_may_stand_under_one_of_its_other_names(
    folders: Folders, row: Row, name: str, tmp_path: Path
) -> None:
    """As a writer leaves it that keeps each shared tensor once, under whichever name it meets first."""
    folder = folders(row, row.main)

    def moved(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        remaining = {theirs: x for theirs, x in tensors.items() if not theirs.endswith("shared.weight")}
        return {**remaining, name.format(prefix(tensors)): table(tensors)}

    copy = rewritten(folder, tmp_path / "copy", moved)
    translates_alike(copy, folder)
    load_ours(copy).save_pretrained(tmp_path / "saved")
    assert set(load_file(tmp_path / "saved/model.safetensors")) == set(load_file(folder / "model.safetensors"))
    load_theirs(tmp_path / "saved", row)  # says that it misses nothing


def translates_alike(copy: Path, folder: Path) -> None:
    """The same logits, from one table."""
    inputs = draw_inputs(load_ours(folder).config, "none")
    model = load_ours(copy)
    assert torch.equal(model(**inputs.ours).logits, load_ours(folder)(**inputs.ours).logits)
    shared = model.network.encoder.embed.tokens.weight
    assert model.network.decoder.embed.tokens.weight is shared and model.network.head.decoder.weight is shared


with_constant = pytest.mark.parametrize(
    "row",
    [
        row
        for row in TEXTS
        if row.record.names(row.record.spec(ConfigReader(row.config())), "translation").zero_if_missing
    ],
    ids=lambda row: row.family,
)


@with_constant
@torch.no_grad()
def test_a_file_without_the_constant_means_zero(folders: Folders, row: Row, tmp_path: Path) -> None:
    folder = folders(row, row.main)
    name = "final_logits_bias"
    bare = rewritten(folder, tmp_path / "bare", lambda t: {k: x for k, x in t.items() if k != name})
    zero = rewritten(folder, tmp_path / "zero", lambda t: {**t, name: torch.zeros_like(t[name])})
    inputs = draw_inputs(load_ours(folder).config, "none")
    assert torch.equal(load_ours(bare)(**inputs.ours).logits, load_ours(zero)(**inputs.ours).logits)


@with_constant
@torch.no_grad()
def test_the_constant_is_added(folders: Folders, row: Row, tmp_path: Path) -> None:
    folder = folders(row, row.main)
    constant = load_file(folder / "model.safetensors")["final_logits_bias"]
    assert constant.abs().min() > 0
    zero = rewritten(folder, tmp_path / "zero", lambda t: {**t, "final_logits_bias": torch.zeros_like(constant)})
    inputs = draw_inputs(load_ours(folder).config, "none")
    gap = load_ours(folder)(**inputs.ours).logits - load_ours(zero)(**inputs.ours).logits
    close(gap, constant.expand_as(gap), 1e-4, "constant")


@with_constant
@torch.no_grad()
def test_a_bare_body_translates(folders: Folders, row: Row) -> None:
    """Its constant is 0; the projection is the table, and stays as it was loaded."""
    bare = folders(row, next(iter(row.record.architectures)))
    import glassformer

    model = glassformer.load(bare, task="translation")
    assert not model.report.new
    assert model.network.head.constant.values.abs().max() == 0
    inputs = draw_inputs(model.config, "none")
    states = load_ours(bare)(**inputs.ours).last_hidden_state
    table = load_file(bare / "model.safetensors")["shared.weight"]
    close(model(**inputs.ours).logits, states @ table.T, row.fp32, "logits")


# ---------------------------------------------------------------------------------------- texts that are read twice

again = [row for row in PAIRS if "text-classification" in row.record.tasks]
twice = pytest.mark.parametrize("row", again, ids=lambda row: row.family)
bodies = pytest.mark.parametrize("row", [row for row in again if row.family != "t5"], ids=lambda row: row.family)


@bodies  # the bare body of T5 wants to be told
@pytest.mark.parametrize("padding", ["none", "right", "left"])
@torch.no_grad()
def test_a_bare_body_reads_its_source_twice(folders: Folders, row: Row, padding: str) -> None:
    folder = folders(row, next(iter(row.record.architectures)))
    ours, theirs = load_ours(folder), load_theirs(folder, row)
    plain = draw_inputs(ours.config, padding)
    inputs = Twice(plain.ids, plain.keep, None)
    output, expected = ours(**inputs.ours), theirs(**inputs.theirs)
    for name in ("last_hidden_state", "encoder_last_hidden_state"):
        close(output[name][inputs.seen(name)], expected[name][inputs.seen_there(name)], row.fp32, name)


@twice
@torch.no_grad()
def test_the_last_of_several_end_tokens_is_read(folders: Folders, row: Row) -> None:
    folder = folders(row, row.record.architecture("text-classification"))
    ours, theirs = load_ours(folder), load_theirs(folder, row)
    plain = draw_inputs(ours.config, "right")
    end = ours.config["eos_token_id"]
    ids = ended(plain.ids, plain.keep, end)
    ids[:, 0] = end
    inputs = Twice(ids, plain.keep, None)
    close(ours(**inputs.ours).logits, theirs(**inputs.theirs).logits, row.fp32, "logits")
    assert torch.equal(pushed_left(ids, plain.keep), ids)


@twice
def test_a_text_without_an_end_is_refused(folders: Folders, row: Row) -> None:
    ours = load_ours(folders(row, row.record.architecture("text-classification")))
    with pytest.raises(DataError, match="end every text with it"):
        ours(torch.tensor([[5, 6, 2], [5, 6, 7]]))
    with pytest.raises(DataError, match="leave decoder_input_ids out"):
        ours(torch.tensor([[5, 6, 2]]), decoder_input_ids=torch.tensor([[2, 5]]))
