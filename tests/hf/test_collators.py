"""Data collators mask what may be masked, as often as they are asked to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from glassformer import ConfigError, DataError
from glassformer.hf import AutoTokenizer, DataCollatorForLanguageModeling
from tests.e2e.tiny_models import make_folder
from tests.hf.test_lines import _complete


def test_masked_language_modelling(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert", task="fill-mask")
    _complete(folder / "tokenizer.json", mask=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, mask_token="[MASK]", pad_token="[PAD]")
    rows = [tokenizer("time flies like an arrow " * 200), tokenizer("fruit flies")]
    collate = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.3)
    torch.manual_seed(3)
    batch = collate(rows)
    torch.manual_seed(3)
    assert torch.equal(collate(rows)["input_ids"], batch["input_ids"])

    ids = tokenizer.pad(rows, return_tensors="pt")["input_ids"]
    chosen = batch["labels"] != -100
    assert torch.equal(batch["labels"][chosen], ids[chosen]) and torch.equal(batch["input_ids"][~chosen], ids[~chosen])
    assert not torch.isin(ids[chosen], torch.tensor(tokenizer.all_special_ids)).any()
    counts = [int((collate(rows)["labels"][0] != -100).sum()) for _ in range(20)]
    assert all(220 < count < 380 for count in counts) and len(set(counts)) > 5  # each of 1,000 tokens by itself
    for rate, share in ((0, 0.0), (1, 1.0)):
        labels = DataCollatorForLanguageModeling(tokenizer, mlm_probability=rate)(rows)["labels"]
        eligible = ~torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
        assert float((labels[eligible] != -100).float().mean()) == share
    masked = (batch["input_ids"][chosen] == tokenizer.mask_token_id).float().mean()
    assert 0.7 < float(masked) < 0.9

    first = [{**tokenizer("time flies"), "special_tokens_mask": [1, 0, 1, 1]}]
    seen = {int(x) for _ in range(20) for x in (collate(first)["labels"][0] != -100).nonzero()[:, 0]}
    assert seen == {1}
    assert collate([[5, 6, 7], torch.tensor([5, 6])])["labels"].shape == (2, 3)
    for nothing in (None, [], "text", [3]):
        with pytest.raises(DataError, match="must be a list of examples"):
            collate(nothing)
    for wrong in (-0.1, 1.5, "x", True):
        with pytest.raises(ConfigError, match=r"must be a number from 0 to 1"):
            DataCollatorForLanguageModeling(tokenizer, mlm_probability=wrong)
