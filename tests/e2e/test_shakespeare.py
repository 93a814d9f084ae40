"""The model that the package carries writes what it wrote, in ours and in the reference library."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import Model, load

NAME = "package:glassformer/checkpoints/shakespeare"
PROMPT = "ROMEO:\nIt is the"


@pytest.fixture(scope="module")
def plays() -> Model:
    return load(NAME, offline=True)


def test_it_writes_plays(plays: Model) -> None:
    text = plays.generate(PROMPT, max_new_tokens=60)
    assert re.search(r"\n\n[A-Z ]+:\n", text), "somebody else speaks"


def test_it_knows_its_plays(plays: Model) -> None:
    """Random letters cost 10 bits a token; lines that it has read, or nearly, half of that."""
    ids = plays.tokenizer("But, soft! what light through yonder window breaks?", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        logits = plays(input_ids=ids).logits
    assert logits is not None
    loss = torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:])
    assert float(loss) / torch.tensor(2.0).log() < 5


def test_the_reference_continues_alike(plays: Model) -> None:
    from transformers import GPT2LMHeadModel

    ids = plays.tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    folder = Path(glassformer.__file__).parent / "checkpoints" / "shakespeare"
    reference = GPT2LMHeadModel.from_pretrained(folder)
    theirs = reference.generate(ids, max_new_tokens=60, do_sample=False, pad_token_id=0)
    assert plays.generate(ids, max_new_tokens=60).equal(theirs)
