"""Small random models of the reference library with real tokenizers, made once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.text import Tokenizer
from tests.parity.families import ROWS
from tests.parity.sides import make, read_config, write_config
from tests.text import families

BERT_WORDS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] time flies like an arrow fruit a banana fl ##ies ##s ! , . ' the un ##aff ##able "
    "ca ##fe don t goes it is what you make of and so does gold is where find"
).split()


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A folder of a family with one of its heads; `changes` go into config.json, `next to` only into ours."""
    root, made = tmp_path_factory.mktemp("tasks"), dict[str, Path]()

    def folder(family: str, architecture: str, beside: dict[str, Any] | None = None, **changes: Any) -> Path:
        key = json.dumps([family, architecture, beside, changes], sort_keys=True)
        if key not in made:
            row = next(row for row in ROWS if row.family == family)
            place = root / str(len(made))
            if family in families.FAMILIES:
                families.make(family, place)
            else:
                place.mkdir()
                (place / "vocab.txt").write_text("\n".join(dict.fromkeys(BERT_WORDS)) + "\n", encoding="utf-8")
            tokenizer = Tokenizer.from_folder(place, model_type=family)
            make(row, architecture, place, vocab_size=tokenizer.largest_id + 1, **changes)
            tokenizer.save(place)
            if beside:
                write_config(place, {**read_config(place), **beside})
            made[key] = place
        return made[key]

    return folder
