"""BERT, RoBERTa and XLM-R as decoders: a causal mask, the next token, generation as the reference's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import glassformer
from glassformer import Model
from glassformer.errors import UnsupportedError
from glassformer.models import FAMILIES
from tests.parity.families import DECODERS, Row
from tests.parity.sides import close, load_ours, load_theirs, make

ENCODERS = [row for row in DECODERS if "fill-mask" in row.record.tasks]
IDS = torch.tensor([[5, 9, 12, 44, 3], [7, 8, 60, 10, 11]])
rows = pytest.mark.parametrize("row", ENCODERS, ids=lambda row: row.family)


def test_these_families_are_tried() -> None:
    assert {"bert", "roberta", "xlm-roberta"} <= {row.family for row in ENCODERS}


@rows
@pytest.mark.parametrize("beams", [1, 3])
@torch.no_grad()
def test_it_continues_as_the_reference_does(row: Row, beams: int, tmp_path: Path) -> None:
    folder = make(row, row.main, tmp_path, eos_token_id=98)
    ours, theirs = load_ours(folder), load_theirs(folder, row)
    # The reference's `generate` numbers positions from 0 if `forward` is seen to take them, and `forward` itself from
    # behind the padding id: without their name in its signature, it is `forward` that numbers them.
    forward = theirs.forward
    theirs.forward = lambda *args, **given: forward(*args, **given)
    options: dict[str, Any] = {"num_beams": beams, "max_new_tokens": 8}
    expected = theirs.generate(IDS, attention_mask=torch.ones_like(IDS), do_sample=False, **options)  # type: ignore[operator]
    for use_cache in (True, False):
        assert torch.equal(ours.generate(IDS, use_cache=use_cache, **options), expected)
    assert torch.equal(
        ours.generate(IDS, prompt_lookup_num_tokens=2, max_new_tokens=8), ours.generate(IDS, max_new_tokens=8)
    )


@rows
@torch.no_grad()
def test_a_token_sees_none_after_it(row: Row) -> None:
    causal = Model.from_config(row.config(), task="text-generation").eval()
    changed = IDS.clone()
    changed[:, -1] = 50
    logits, others = causal(IDS).logits, causal(changed).logits
    assert torch.equal(logits[:, :-1], others[:, :-1]) and not torch.equal(logits[:, -1], others[:, -1])


@torch.no_grad()
def test_a_masked_model_becomes_a_decoder(tmp_path: Path) -> None:
    """The head that predicts masked tokens is the one that predicts the next; what is saved is a decoder."""
    Model.from_config(FAMILIES["bert"].tiny, task="fill-mask").save_pretrained(tmp_path / "masked")
    with pytest.raises(UnsupportedError, match=r"it must be True: load it with overrides=\{'is_decoder': True\}"):
        glassformer.load(tmp_path / "masked", task="generate")
    decoder = glassformer.load(tmp_path / "masked", task="generate", overrides={"is_decoder": True})
    assert not decoder.report.new and not decoder.report.unused
    decoder.save_pretrained(tmp_path / "decoder")
    theirs = transformers.BertLMHeadModel.from_pretrained(tmp_path / "decoder").eval()
    again = glassformer.load(tmp_path / "decoder", strict=True)
    assert again.task == "text-generation"
    close(again(IDS).logits, theirs(IDS).logits, 1e-5)
    loss = again(IDS, labels=IDS).loss
    close(loss, theirs(IDS, labels=IDS).loss, 1e-5)
