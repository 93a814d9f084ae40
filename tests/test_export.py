"""Programs of `torch.export`: every family's body and every decoder's step, at sizes other than the exported one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer import ConfigError, Model, UnsupportedError
from glassformer.export import export_encoder, export_program, export_step
from glassformer.models import FAMILIES
from tests.core.small import assert_close, perturbed
from tests.senses import draw_boxes, draw_fields, with_codebooks

EXPORTED = (2, 7)  # rows, tokens
OTHERS = ((3, 11), (1, 5), (4, 1))
CHUNKS = ((0, 3), (3, 4), (4, 5))
"""Of five tokens, which a step takes one after the other, or several at once."""
SHORT = {"big_bird": {"block_size": 2}}  # whose attention is full up to 7 blocks
EARLY = ("llama", "gemma2")
"""Rotary positions; capped scores in a window."""
DECODERS = [
    pytest.param(family, marks=() if family in EARLY else pytest.mark.soak)  # the others in `make soak`
    for family in FAMILIES
    if "text-generation" in FAMILIES[family].tasks
]


def body(family: str, **changes: Any) -> Model:
    """A tiny model of a family without a head, or with its first one; no number of it is 0 or 1."""
    tasks = FAMILIES[family].tasks
    changes = SHORT.get(family, {}) | changes
    return made(family, "feature-extraction" if "feature-extraction" in tasks else tasks[0], **changes)


def made(family: str, task: str, **changes: Any) -> Model:
    torch.manual_seed(0)
    model = Model.from_config({**FAMILIES[family].tiny, **changes}, task=task)
    perturbed(model.network)
    return model.eval()


def call(model: Model, rows: int, tokens: int) -> dict[str, Tensor]:
    """The arguments of a call with padding in its first row, whatever the model reads."""
    draw, reads, config = torch.Generator().manual_seed(rows), model.network.READS, model.config
    given = draw_fields(config, reads, rows)

    def mask(length: int, hidden: int) -> Tensor:
        keep = torch.ones(rows, length, dtype=torch.long)
        keep[0, length - hidden :] = 0
        return keep

    if "input_values" in reads:  # as long as the first frames need, at least
        given["input_values"] = torch.randn(rows, 400 + 100 * tokens, generator=draw)
        given["attention_mask"] = mask(400 + 100 * tokens, 150)
    if "visual_feats" in reads:
        given |= {name: given[name].repeat(1, 3, 1)[:, : tokens + 1] for name in ("visual_feats", "visual_pos")}
        given["visual_attention_mask"] = mask(tokens + 1, 1)
    if "input_ids" in reads:
        given["input_ids"] = with_codebooks(model.network, torch.randint(3, 16, (rows, tokens), generator=draw))
        given["attention_mask"] = mask(tokens, tokens // 3)
    if "bbox" in reads:
        given["bbox"] = draw_boxes(config, rows, tokens)
    if "decoder_input_ids" in reads:  # of another length than the source
        given["decoder_input_ids"] = torch.randint(3, 20, (rows, tokens + 2), generator=draw)
        given["decoder_attention_mask"] = mask(tokens + 2, 1)
    counts = model.network.token_types
    if isinstance(counts, int) and counts and "token_type_ids" in reads:
        given["token_type_ids"] = torch.randint(0, counts, (rows, tokens), generator=draw)
    if isinstance(counts, tuple):
        columns = [torch.randint(0, min(count, 3), (rows, tokens), generator=draw) for count in counts]
        given["token_type_ids"] = torch.stack(columns, dim=-1)
    return given


@torch.no_grad()
def assert_equal_at(model: Model, program: nn.Module, rows: int, tokens: int) -> None:
    given = call(model, rows, tokens)
    expected = {name: x for name, x in model(**given).present().items() if isinstance(x, Tensor)}
    actual = program(**given)
    assert actual.keys() == expected.keys() and expected
    for name, x in expected.items():
        assert_close(actual[name], x, 1e-6)


@pytest.mark.representative("bert", "big_bird", "gemma2", "t5", "vit", "wav2vec2", "whisper")  # parts of their own
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "encodec"])
def test_every_body_is_exported_with_free_sizes(family: str) -> None:
    model = body(family)
    program = export_program(model, **call(model, *EXPORTED)).module()
    for rows, tokens in OTHERS:
        assert_equal_at(model, program, rows, tokens)


@pytest.mark.soak
def test_a_body_with_an_lstm_is_exported_for_any_number_of_sounds_of_a_length() -> None:
    model, (rows, tokens) = body("encodec"), EXPORTED
    program = export_program(model, **call(model, rows, tokens)).module()
    for other in (1, 3):
        assert_equal_at(model, program, other, tokens)
    with pytest.raises(AssertionError, match="Guard failed"):
        program(**call(model, rows, tokens + 4))


LENGTH_DEPENDENT = {
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "longrope": {
        **{"rope_type": "longrope", "original_max_position_embeddings": 8},
        **{"short_factor": [1.0, 1.1, 1.3, 1.6], "long_factor": [1.0, 2.0, 4.0, 8.0]},
    },
}


@pytest.mark.parametrize("kind", LENGTH_DEPENDENT)
def test_rotary_scaling_that_depends_on_the_length_is_exported_for_both_sides_of_it(kind: str) -> None:
    model = body("llama", max_position_embeddings=8, rope_parameters=LENGTH_DEPENDENT[kind])
    program = export_program(model, **call(model, *EXPORTED)).module()
    for rows, tokens in ((3, 11), (2, 5)):
        assert_equal_at(model, program, rows, tokens)


def test_block_sparse_attention_is_exported_for_long_texts() -> None:
    model = body("big_bird", block_size=2)
    program = export_program(model, **call(model, 2, 17)).module()  # 7 blocks are seen whole
    for rows, tokens in ((3, 15), (1, 24), (2, 33)):
        assert_equal_at(model, program, rows, tokens)
    with pytest.raises(AssertionError, match="Guard failed"):
        program(**call(model, 2, 9))


@pytest.mark.parametrize("family", DECODERS)
@torch.no_grad()
def test_a_step_takes_and_returns_keys_and_values(family: str) -> None:
    model = made(family, "text-generation", **FAMILIES[family].requires.get("text-generation", {}))
    step = export_step(model).module()
    ids = torch.randint(3, 20, (3, 5), generator=torch.Generator().manual_seed(1))
    keep = torch.ones_like(ids)
    keep[0, :2] = 0  # generation pads on the left
    expected = model(input_ids=ids, attention_mask=keep).logits
    (stack,) = model.network.stacks().values()
    keys = [torch.zeros(3, block.attn.spec.K, 0, block.attn.spec.E) for block in stack]
    values = [x.clone() for x in keys]
    for begin, end in CHUNKS:
        given = keys, values
        masks = {"attention_mask": keep[:, begin:end].bool(), "past_mask": keep[:, :begin].bool()}
        out = step(input_ids=ids[:, begin:end], **masks, keys=keys, values=values)
        keys, values = out["keys"], out["values"]
        assert all(x.shape[2] == begin for part in given for x in part), "nothing is written in place"
        seen = keep[:, begin:end].bool()
        assert_close(out["logits"][seen], expected[:, begin:end][seen], 1e-5)


EARLY_PAIRS = ("t5", "whisper")
PAIRS = [
    pytest.param(family, marks=() if family in EARLY_PAIRS else pytest.mark.soak)
    for family in FAMILIES
    if {"translation", "automatic-speech-recognition"} & set(FAMILIES[family].tasks)
    and family not in ("wav2vec2", "hubert")  # which write letters without a decoder
]


@pytest.mark.parametrize("family", PAIRS)
@torch.no_grad()
def test_an_encoder_and_its_decoders_steps(family: str) -> None:
    tasks = FAMILIES[family].tasks
    model = made(family, next(t for t in ("translation", "automatic-speech-recognition") if t in tasks))
    source = {name: x for name, x in call(model, *EXPORTED).items() if not name.startswith("decoder")}
    encoder = export_encoder(model, **source).module()
    step = export_step(model).module()
    given = call(model, 3, 5)
    ids = given.pop("decoder_input_ids")
    del given["decoder_attention_mask"]
    expected = model(**given, decoder_input_ids=ids).logits
    seen = encoder(**given)
    layers = len(model.network.stacks()["target"])
    assert len(seen["encoder_keys"]) == len(seen["encoder_values"]) == layers
    B, K, S, E = seen["encoder_keys"][0].shape
    mask = given.get("attention_mask", torch.ones(B, S)).bool()
    keys = [torch.zeros(B, K, 0, E) for _ in range(layers)]
    values = [x.clone() for x in keys]
    for begin, end in CHUNKS:
        ones = torch.ones(B, end, dtype=torch.bool)
        masks = {"attention_mask": ones[:, begin:], "past_mask": ones[:, :begin]}
        out = step(input_ids=ids[:, begin:end], **masks, keys=keys, values=values, encoder_mask=mask, **seen)
        keys, values = out["keys"], out["values"]
        assert_close(out["logits"], expected[:, begin:end], 1e-5)


def test_a_program_is_saved_and_read_without_the_library(tmp_path: Path) -> None:
    model = body("bert")
    torch.export.save(export_program(model, **call(model, *EXPORTED)), tmp_path / "model.pt2")
    assert_equal_at(model, torch.export.load(tmp_path / "model.pt2").module(), 3, 11)


def test_what_cannot_be_exported_is_refused() -> None:
    model = body("bert")
    ids = torch.tensor([[5, 6, 7]])
    with pytest.raises(ConfigError, match=r"input_ids has shape \[1, 3\]; a size of 1 would be fixed"):
        export_program(model, input_ids=ids)
    with pytest.raises(ConfigError, match="takes no 'pixels'"):
        export_program(model, input_ids=ids.repeat(2, 1), pixels=ids.repeat(2, 1))
    with pytest.raises(UnsupportedError, match="needs a decoder"):
        export_step(model)
    with pytest.raises(UnsupportedError, match="belong to an encoder-decoder"):
        export_encoder(model, input_ids=ids.repeat(2, 1))
    with pytest.raises(ConfigError, match="training mode"):
        export_program(model.train(), input_ids=ids.repeat(2, 1))
    with pytest.raises(ConfigError, match="packed"):
        export_program(model.eval().prepare(), input_ids=ids.repeat(2, 1))


def test_a_module_around_a_loaded_model_is_exported() -> None:
    class Scorer(nn.Module):
        def __init__(self, model: Model) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    scorer = Scorer(body("bert")).eval()
    free = {0: torch.export.Dim("rows"), 1: torch.export.Dim("tokens", max=16)}
    first, other = (call(scorer.model, *sizes) for sizes in (EXPORTED, OTHERS[0]))
    names = ("input_ids", "attention_mask")
    program = torch.export.export(scorer, tuple(first[name] for name in names), dynamic_shapes=(free, free))
    arguments = [other[name] for name in names]
    with torch.no_grad():
        assert_close(program.module()(*arguments), scorer(*arguments))
