"""Every family gives the reference library's numbers: each head, each config key, each way to run."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from glassformer import Model
from glassformer.core.flow import Tape
from glassformer.models import FAMILIES
from glassformer.weights.load import export_weights
from tests.parity.families import DECODERS, DISTINCT, HEADS, ROWS, VARIATIONS, Row
from tests.parity.inputs import Inputs, Twice, draw_inputs, draw_labels, pushed_left
from tests.parity.sides import (
    PRECISIONS,
    Folders,
    as_saved,
    cached,
    close,
    lifted,
    load_ours,
    load_theirs,
    read_config,
    squares,
    tolerance,
    write_config,
)
from tests.senses import READ_NO_FILES

heads = pytest.mark.parametrize(("row", "architecture"), HEADS, ids=[architecture for _, architecture in HEADS])
mains = pytest.mark.parametrize(  # of what does not depend on the head, `make test` takes one for each family
    ("row", "architecture"),
    [pytest.param(*each, marks=() if each[1] == each[0].main else pytest.mark.soak) for each in HEADS],
    ids=[architecture for _, architecture in HEADS],
)
rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.family)
distinct = pytest.mark.parametrize("row", DISTINCT, ids=lambda row: row.family)
decoders = pytest.mark.parametrize("row", DECODERS, ids=lambda row: row.family)
precisions = pytest.mark.parametrize("dtype", PRECISIONS, ids=["fp32", "fp64"])


def test_every_family_has_a_row() -> None:
    ours_alone = {"transformer"}  # has no reference format; tests/models holds it against torch.nn.Transformer
    assert {row.family for row in ROWS} == set(FAMILIES) - ours_alone - READ_NO_FILES


# ----------------------------------------------------------------------------------------------- heads and losses


@heads
@precisions
@torch.no_grad()
def test_head(folders: Folders, row: Row, architecture: str, dtype: torch.dtype) -> None:
    folder = folders(row, architecture)
    ours, theirs = load_ours(folder, dtype), load_theirs(folder, row, dtype)
    for padding in row.paddings_of(architecture):
        compare_heads(ours, theirs, row, architecture, padding, dtype)


def compare_heads(
    ours: Model, theirs: nn.Module, row: Row, architecture: str, padding: str, dtype: torch.dtype
) -> None:
    """Every output that both sides have, and the loss."""
    within, case = tolerance(row, dtype), f"padding {padding}"
    inputs = draw_inputs(ours.config, padding)
    task = row.record.architectures[architecture]
    labels, their_labels = draw_labels(task, inputs, ours.config) or (None, {})
    moved = {
        name: pushed_left(x, inputs.keep) if getattr(x, "shape", None) == inputs.keep.shape else x
        for name, x in their_labels.items()
    }
    if isinstance(inputs, Twice):
        their_labels = moved

    output = ours(**inputs.ours, labels=labels)
    with lifted(row, dtype):
        expected = theirs(**inputs.theirs, **their_labels)
    assert ours.network.head is None or not missing(expected, ours.network.head.FIELDS), case
    shared = [name for name in expected if name in output.present() and isinstance(expected[name], Tensor)]
    assert shared, case
    shared = [name for name in shared if name != "loss"]
    of_texts = [name for name in shared if expected[name].shape[:2] != inputs.seen(name).shape]
    for name in shared:
        if name not in of_texts:
            close(
                output[name][inputs.seen(name)],
                expected[name][inputs.seen_there(name)],
                within,
                f"{name}, {case}",
            )

    pools = bool(of_texts) and not row.decodes and not row.senses
    if padding == "left" and pools and row.moved_by_padding:
        return  # theirs pools padding, and a text on the right sees other keys
    if padding == "left" and pools:  # theirs reads the first token, padding or not: it gets its texts on the right
        with lifted(row, dtype):
            expected = theirs(**inputs.right().theirs, **moved)
    for name in of_texts:
        close(output[name], expected[name], within, f"{name}, {case}")

    hidden_rows_count = task == "question-answering" and (
        (row.decodes and padding == "left") or (row.translates and padding != "none")
    )
    if labels is not None and not hidden_rows_count:  # a row that sees nothing is 0 here, a mean of all there
        summed = row.fp32 if expected.loss.dtype == torch.float32 else within  # some sum theirs in fp32 always
        close(output.loss, expected.loss, summed, f"loss, {case}")


def missing(output: Any, fields: tuple[str, ...]) -> list[str]:
    return [name for name in fields if name not in output]


# The losses are the same code for every family; what a family may do to the logits, any of them shows.
@pytest.mark.representative("single_label_classification", "bert", "llama", "bart")
@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=pytest.mark.soak if row.repeats else ())
        for row in ROWS
        if "text-classification" in row.record.tasks
    ],
    ids=lambda r: r.family,
)
@pytest.mark.parametrize(
    ("problem", "kinds", "floats"),
    [
        ("single_label_classification", 3, False),
        ("multi_label_classification", 3, True),
        ("regression", 1, True),
        (None, 1, True),
        (None, 3, False),
    ],
)
@torch.no_grad()
def test_problem_type(folders: Folders, row: Row, problem: str | None, kinds: int, floats: bool) -> None:
    changes = {"id2label": {str(i): f"kind {i}" for i in range(kinds)}, "problem_type": problem}
    folder = folders(row, row.record.architecture("text-classification"), **changes)
    ours, theirs = load_ours(folder), load_theirs(folder, row)
    inputs = draw_inputs(ours.config, "right")
    labels = torch.tensor([1, 0, 2])
    if floats:
        labels = torch.tensor([[0.0, 1.0, 1.0]] * 3) if kinds > 1 else torch.tensor([0.3, -1.0, 2.0])
    output, expected = ours(**inputs.ours, labels=labels), theirs(**inputs.theirs, labels=labels)
    close(output.logits, expected.logits.view_as(output.logits), row.fp32, "logits")  # one label: some flatten them
    close(output.loss, expected.loss, row.fp32, "loss")


@pytest.mark.parametrize("row", [row for row in ROWS if row.family in ("gpt2", "llama")], ids=lambda r: r.family)
@torch.no_grad()
def test_a_causal_classifier_finds_the_end_of_padded_rows(folders: Folders, row: Row) -> None:
    """Without a mask: the last token is the last that is no padding, as in the reference."""
    folder = folders(row, row.record.architecture("text-classification"), pad_token_id=0)
    ours, theirs = load_ours(folder), load_theirs(folder, row)
    ids = torch.tensor([[5, 6, 7, 8, 9, 0, 0], [5, 0, 7, 0, 0, 0, 0], [0, 0, 5, 6, 7, 8, 9], [0] * 7])
    close(ours(input_ids=ids).logits, theirs(input_ids=ids).logits, row.fp32, "logits")
    close(ours(input_ids=ids[:1]).logits, ours(input_ids=ids[:1, :5]).logits, row.fp32, "logits")


# ----------------------------------------------------------------------------------------------------- config keys


def variations() -> Iterator[Any]:
    """Each in fp64, in which most can be seen; in fp32, and of a network that repeats, in `make soak`."""
    for row, name in VARIATIONS:
        for dtype in PRECISIONS[:1] if name in row.fp32_only else PRECISIONS:
            again = dtype == torch.float32 and name not in row.fp32_only
            marks = [pytest.mark.soak] if again or row.repeats else []
            yield pytest.param(row, name, dtype, id=f"{row.family}: {name}{', fp32' * again}", marks=marks)


@pytest.mark.parametrize(("row", "name", "dtype"), variations())
@torch.no_grad()
def test_variation(folders: Folders, row: Row, name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """With config.json as the reference saves it, every key of it, and with the changed keys alone.

    The reference read those alone when it made the checkpoint, so it answers once.
    """
    changes = row.variations[name]
    saved = folders(row, row.main, **changes)
    as_written = shutil.copytree(saved, tmp_path / "as written")
    write_config(as_written, {**row.config(**changes), "architectures": [row.main]})
    given = draw_inputs(read_config(saved), "none" if name in row.by_longest else "right")
    with lifted(row, dtype):
        expected = load_theirs(saved, row, dtype)(**given.theirs)[row.logits]
    by_token = expected.shape[:2] == given.seen_there("logits").shape
    expected = expected[given.seen_there("logits")] if by_token else expected
    for spelling, folder in {"as saved": saved, "as written": as_written}.items():
        logits = load_ours(folder, dtype)(**given.ours)[row.logits]
        assert (logits.shape[:2] == given.seen("logits").shape) == by_token, spelling
        seen = logits[given.seen("logits")] if by_token else logits
        close(seen, expected, tolerance(row, dtype), f"{name}, {spelling}")


@rows
@torch.no_grad()
def test_variations_change_the_numbers(folders: Folders, row: Row) -> None:
    """A variation that computes the same as the tiny config would test nothing."""
    ours = load_ours(folders(row, row.main))
    inputs = draw_inputs(ours.config, "none")
    for name, changes in row.variations.items():
        varied = type(ours).from_config({**row.config(), "architectures": [row.main], **changes}).eval()
        if [p.shape for p in varied.parameters()] != [p.shape for p in ours.parameters()]:
            continue  # another set of tensors: if it were ignored, loading would fail
        for theirs, mine in zip(varied.parameters(), ours.parameters(), strict=True):
            theirs.copy_(mine)  # by position: one that layers share has more names where there are more layers
        gap = (ours(**inputs.ours)[row.logits] - varied(**inputs.ours)[row.logits]).abs().max()
        assert (gap < 1e-4) == (name in row.inert), f"{name}: {gap}"


@distinct
@torch.no_grad()
def test_bfloat16_is_loaded_as_it_is(folders: Folders, row: Row) -> None:
    folder = folders(row, row.main, dtype=torch.bfloat16)
    ours = load_ours(folder, dtype=None)
    theirs = load_theirs(folder, row, torch.bfloat16, attention="sdpa")
    for parameter in theirs.parameters():  # some keep biases in fp32, and cannot multiply what they add them to
        parameter.data = parameter.data.to(torch.bfloat16)
    assert {p.dtype for p in ours.parameters()} == {torch.bfloat16}
    inputs = draw_inputs(ours.config, "none")
    output, expected = ours(**inputs.ours)[row.logits], theirs(**inputs.theirs)[row.logits]
    assert output.dtype == torch.bfloat16
    exact = load_ours(folder, torch.float64)(**inputs.ours)[row.logits]
    ours_off, theirs_off = (output - exact).abs().mean(), (expected - exact).abs().mean()
    assert ours_off <= 1.5 * theirs_off, "rounded more often than the reference"


# -------------------------------------------------------------------------------------------------- ways to run


@pytest.mark.representative("fp32")
@decoders
@precisions
@torch.no_grad()
def test_cached(folders: Folders, row: Row, dtype: torch.dtype) -> None:
    """In two chunks, token by token, and mixed."""
    compare_cached(folders(row, row.main), row, dtype)


LENGTH_DEPENDENT = {
    "llama: dynamic rotary": ("llama", "dynamic rotary"),
    "phi3: longrope, long text": ("phi3", "longrope, long text"),
}


@pytest.mark.parametrize(("family", "name"), LENGTH_DEPENDENT.values(), ids=LENGTH_DEPENDENT)
@precisions
@torch.no_grad()
def test_cached_beyond_the_trained_length(folders: Folders, family: str, name: str, dtype: torch.dtype) -> None:
    """Keys keep the angles that they came in with, when later ones turn by other frequencies."""
    row = next(row for row in ROWS if row.family == family)
    compare_cached(folders(row, row.main, **row.variations[name]), row, dtype, paddings=("none",), whole=False)


def compare_cached(
    folder: Path,
    row: Row,
    dtype: torch.dtype,
    *,
    paddings: tuple[str, ...] = ("none", "left"),
    whole: bool = True,
) -> None:
    """Our logits over a cache, against the reference's over its own, and, if `whole`, against those without one."""
    ours, theirs, within = load_ours(folder, dtype), load_theirs(folder, row, dtype), tolerance(row, dtype)
    for padding, chunks in product(paddings, ([6, 5], [1] * 11, [4, 1, 1, 5])):
        inputs = draw_inputs(ours.config, padding)
        alone = {name: x for name, x in inputs.theirs.items() if name != "token_type_ids"}  # of one text
        with lifted(row, dtype):
            reference = {"whole": theirs(**alone).logits} if whole else {}
            if row.reference_caches and not (padding == "left" and isinstance(inputs, Twice)):
                reference["cached"] = reference_cached(theirs, inputs, chunks)
        fused = cached(ours, inputs, chunks)
        explicit = cached(ours, inputs, chunks, Tape("*.probs"))
        for what, logits in reference.items():
            case = f"theirs {what}, padding {padding}, chunks {chunks}"
            expected = logits[inputs.seen_there("logits") if what == "whole" else inputs.keep]
            close(fused[inputs.keep], expected, within, f"fused, {case}")
            close(explicit[inputs.keep], expected, within, f"explicit, {case}")


def reference_cached(model: Any, inputs: Inputs, chunks: list[int]) -> Tensor:
    past, parts, end = None, [], 0
    for chunk in chunks:
        start, end = end, end + chunk
        answer = model(
            input_ids=inputs.ids[:, start:end],
            attention_mask=inputs.keep[:, :end].long(),
            position_ids=inputs.positions[:, start:end] + inputs.first,
            past_key_values=past,
            use_cache=True,
        )
        past = answer.past_key_values
        parts.append(answer.logits)
    return torch.cat(parts, dim=1)


@pytest.mark.parametrize(
    ("row", "padding"),
    [(row, padding) for row in ROWS if row.one_stack for padding in row.paddings],
    ids=[f"{row.family}-{padding}" for row in ROWS if row.one_stack for padding in row.paddings],
)
@pytest.mark.representative("fp64")
@precisions
@torch.no_grad()
def test_taps(folders: Folders, row: Row, padding: str, dtype: torch.dtype) -> None:
    """Hidden states and attentions, and with them the explicit path; the fused one gives the same."""
    folder = folders(row, row.main)
    ours, theirs, within = load_ours(folder, dtype), load_theirs(folder, row, dtype), tolerance(row, dtype)
    inputs = draw_inputs(ours.config, padding)
    with lifted(row, dtype):
        expected = theirs(**inputs.theirs, output_hidden_states=True, output_attentions=True)
    tapped = "final" if row.logits == "last_hidden_state" else row.logits
    output = ours(**inputs.ours, tape=Tape("embed.out", "blocks.*.out", "final", "*.attn.probs", tapped))
    seen, seen_there = inputs.seen("states"), inputs.seen_there("states")
    if row.senses and bool(seen.all()):
        seen = seen_there = torch.ones(output.taps["final"].shape[:2], dtype=torch.bool)
    layers = len(expected.attentions)
    assert len(expected.hidden_states) == layers + 1
    last = "final" if row.final_is_last else f"blocks.{layers - 1}.out"
    states = ["embed.out", *(f"blocks.{i}.out" for i in range(layers - 1)), last]
    for name, state in zip(states, expected.hidden_states, strict=True):
        close(output.taps[name][seen], state[seen_there], within, name)
    for i, probs in enumerate(expected.attentions):
        mine = squares(output.taps[f"blocks.{i}.attn.probs"], seen, seen)
        close(mine, squares(row.probs_of(probs), seen_there, seen_there), within, f"attentions of block {i}")

    def real(logits: Tensor, seen: Tensor) -> Tensor:
        return logits[seen] if logits.shape[:2] == seen.shape else logits

    explicit, there = real(output[row.logits], seen), real(expected[row.logits], seen_there)
    close(explicit, there, within, "explicit")
    close(real(ours(**inputs.ours)[row.logits], seen), there, within, "fused")
    with lifted(row, dtype):
        fused_there = load_theirs(folder, row, dtype, attention="sdpa")(**inputs.theirs)[row.logits]
    close(explicit, real(fused_there, seen_there), within, "theirs fused")


@mains
def test_every_tap_fires_once(folders: Folders, row: Row, architecture: str) -> None:
    ours = load_ours(folders(row, architecture))
    inputs = draw_inputs(ours.config, "none")
    for path, slow in {
        "fused": ("attn.scores", "attn.probs", "cross.scores", "cross.probs"),
        "explicit": (),
    }.items():
        fired: Counter[str] = Counter()

        class Counting(Tape):
            def record(self, name: str, x: Tensor, fired: Counter[str] = fired) -> Tensor:
                fired[name] += 1
                return super().record(name, x)

        asked = [tap for tap in ours.taps() if not tap.endswith(slow)]
        output = ours(**inputs.ours, tape=Counting(*asked))
        assert fired == Counter(asked), path
        assert set(output.taps) == set(asked), path


# ------------------------------------------------------------------------------------------------------ gradients


@mains
@pytest.mark.representative("fp64")
@precisions
def test_gradients(folders: Folders, row: Row, architecture: str, dtype: torch.dtype) -> None:
    folder = folders(row, architecture, **row.no_dropout)
    theirs = load_theirs(folder, row, dtype).train()
    for padding in row.paddings_of(architecture)[:2]:
        ours = load_ours(folder, dtype).train()  # a new one: gradients take the place of its parameters
        theirs.zero_grad()
        if ours.task == "question-answering" and row.translates and padding != "none":
            continue  # the reference's loss reads padding, whose positions it counts
        compare_gradients(ours, theirs, row, architecture, padding, dtype)


def compare_gradients(
    ours: Model, theirs: nn.Module, row: Row, architecture: str, padding: str, dtype: torch.dtype
) -> None:
    """The gradient of every parameter, under the names of the reference's files."""
    within, case = tolerance(row, dtype), f"padding {padding}"
    inputs = draw_inputs(ours.config, padding)
    labels, their_labels = draw_labels(row.record.architectures[architecture], inputs, ours.config) or (
        None,
        {},
    )
    output = ours(**inputs.ours, labels=labels)
    with lifted(row, dtype):
        expected = theirs(**inputs.theirs, **their_labels)
        if labels is None:
            both = [name for name in STATES if all(getattr(x, name, None) is not None for x in (output, expected))]
            loss, their_loss = (goals([x[name] for name in both], inputs.keep) for x in (output, expected))
        else:
            loss, their_loss = output.loss, expected.loss
        their_loss.backward()
    loss.backward()

    with torch.no_grad():  # gradients in place of parameters, to find them under the reference's names
        silent = {name for name, parameter in ours.named_parameters() if parameter.grad is None}
        assert silent <= row.untrained, case
        for parameter in ours.parameters():
            parameter.copy_(0 if parameter.grad is None else parameter.grad)
    prefixed = ours.task != "feature-extraction"
    names = ours.family.names(ours.spec, ours.task)
    mine = export_weights(ours.network, names, prefixed=prefixed)
    gradients = {
        name: parameter.grad
        for name, parameter in theirs.named_parameters(remove_duplicate=False)
        if parameter.grad is not None and name not in theirs.all_tied_weights_keys  # other names, never saved
    }
    reference = as_saved(theirs, gradients)
    for name in silent:
        for constant in names.find(name, prefixed=prefixed and names.prefixed)[1]:
            mine.pop(constant)
            reference.pop(constant, None)
    assert set(mine) == set(reference), case
    for name, gradient in mine.items():
        close(gradient, reference[name], within, f"{name}, {case}")


STATES = (
    *("last_hidden_state", "language_output", "vision_output", "pooler_output", "pooled_output"),
    *("text_embeds", "image_embeds"),
    *("start_logits", "end_logits", "relevance_logits"),  # of a reader of passages, which has no loss
)


def goals(states: list[Tensor], keep: Tensor) -> Tensor:
    """A loss for a model without labels: its states and what it pools should be random numbers."""
    draw = torch.Generator().manual_seed(5)
    losses = []
    for x in states:
        seen = keep[(..., *[None] * (x.dim() - 2))] if x.shape[:2] == keep.shape else torch.ones((), dtype=torch.bool)
        losses.append((x * torch.randn(x.shape, generator=draw, dtype=x.dtype) * seen).mean())
    return torch.stack(losses).sum()


# ----------------------------------------------------------------------------------------------------- round trip


@mains
@torch.no_grad()
def test_round_trip(folders: Folders, row: Row, architecture: str, tmp_path: Path) -> None:
    folder = folders(row, architecture)
    ours = load_ours(folder)
    ours.save_pretrained(tmp_path)

    before, after = load_file(folder / "model.safetensors"), load_file(tmp_path / "model.safetensors")
    assert set(after) == set(before)
    for name in after:
        assert before[name].dtype == after[name].dtype
        assert before[name].numpy().tobytes() == after[name].numpy().tobytes(), name
    old, new = read_config(folder), json.loads((tmp_path / "config.json").read_text())
    assert {key: new.get(key) for key in old} == old

    theirs = load_theirs(tmp_path, row)  # says that no key is missing or unexpected
    again = load_ours(tmp_path)
    inputs = draw_inputs(ours.config, "right")
    expected = load_theirs(folder, row)(**inputs.theirs)[0]
    assert torch.equal(theirs(**inputs.theirs)[0], expected)
    field = "last_hidden_state" if ours.network.head is None else ours.network.head.FIELDS[0]
    assert torch.equal(again(**inputs.ours)[field], ours(**inputs.ours)[field])
