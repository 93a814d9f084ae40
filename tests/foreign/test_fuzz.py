"""Damaged files of OpenAI's Whisper, CTranslate2 and the original DAC: a clear error, or a model that computes."""

from __future__ import annotations

import random
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import glassformer
from glassformer.errors import GlassformerError
from glassformer.weights import read
from tests.e2e.fuzz_worker import damaged, damaged_json, damaged_value
from tests.foreign.conftest import convert_here
from tests.foreign.test_foreign import openai_tensors, perturbed_whisper, write_ct2, write_pt
from tests.foreign.test_original_dac import RATIOS, original
from tests.models.test_dac import reference as dac_reference
from tests.peak import measured

HANG_S, GROWN_BYTES = 5.0, 1 << 30


def damaged_tensors(tensors: dict[str, Tensor], dice: random.Random) -> dict[str, Any]:
    """One tensor lost, renamed, or of another shape, type or kind."""
    name = dice.choice(list(tensors))
    x = tensors[name]
    changed: dict[str, Any] = {key: value for key, value in tensors.items() if key != name}
    number = dice.randrange(8)
    if number == 0:
        return changed
    if number == 1:
        return {**changed, name + dice.choice([".x", "_g", "_v", "\n", ".0.weight"]): x}
    others: list[Any] = [
        x[:0],
        x.flatten(),
        x[None],
        x.double(),
        x.to(torch.int8),
        torch.tensor(1.0),
        torch.empty(0, 0),
    ]
    others += [x.repeat(2, *[1] * (x.dim() - 1)) if x.dim() else x, torch.full_like(x, float("nan")), "text", None, 3]
    return {**changed, name: dice.choice(others)}


def whisper_pt(tensors: dict[str, Tensor]) -> Callable[[Path, random.Random], Path]:
    whole: dict[str, bytes] = {}

    def write(home: Path, dice: random.Random) -> Path:
        path = home / "x.pt"
        if not whole:
            whole["bytes"] = write_pt(path, tensors).read_bytes()
        if dice.random() < 0.4:
            path.write_bytes(damaged(whole["bytes"], dice))
            return path
        dims = damaged_value({"n_audio_head": 4, "n_text_head": 4, "n_vocab": 51_865, "n_mels": 8}, dice)
        state = damaged_tensors(tensors, dice) if dice.random() < 0.5 else tensors
        torch.save({"dims": dims, "model_state_dict": state}, path)
        return path

    return write


def dac_pth(tensors: dict[str, Tensor]) -> Callable[[Path, random.Random], Path]:
    kwargs = {"encoder_rates": RATIOS, "sample_rate": 24_000, "n_codebooks": 3}

    def write(home: Path, dice: random.Random) -> Path:
        state = damaged_tensors(tensors, dice) if dice.random() < 0.5 else tensors
        metadata = damaged_value({"kwargs": kwargs}, dice) if dice.random() < 0.7 else {"kwargs": kwargs}
        torch.save({"state_dict": state, "metadata": metadata}, home / "x.pth")
        return home / "x.pth"

    return write


def ctranslate2(home: Path, model: Any) -> Callable[[Path, random.Random], Path]:
    write_ct2(home, model, int8=True)
    data, config = (home / "model.bin").read_bytes(), (home / "config.json").read_bytes()
    names = [i for i in range(len(data) - 8) if data[i : i + 7] in (b"encoder", b"decoder")]

    def write(home: Path, dice: random.Random) -> Path:
        """Three of four damages are met in the headers of variables, of which most of the file is not."""
        changed = bytearray(data)
        if dice.random() < 0.25:
            changed = bytearray(damaged(data, dice))
        else:
            start = dice.choice(names) - 2
            end = min(data.index(b"\0", start + 2) + 12, len(data))
            for _ in range(dice.randint(1, 3)):
                changed[dice.randrange(start, end)] = dice.choice([0, 1, 2, 5, 127, 128, 255])
        (home / "model.bin").write_bytes(changed)
        (home / "config.json").write_bytes(config if dice.random() < 0.7 else damaged_json(config, dice))
        return home

    return write


@torch.no_grad()
def use(model: glassformer.Model) -> None:
    if model.family.model_type == "whisper":
        model(input_features=torch.zeros(1, model.spec.bins, 20), decoder_input_ids=torch.tensor([[1, 2]]))
    else:
        model(input_values=torch.zeros(1, 800))


def load_damaged(kind: str, count: int, folder: Path) -> Counter[str]:
    """Load damaged files. Returns: how often each error was raised, and how often a model was made."""
    read.convert = convert_here  # in a process of its own
    write = {
        "whisper": lambda: whisper_pt(openai_tensors(perturbed_whisper())),
        "ctranslate2": lambda: ctranslate2(folder, perturbed_whisper()),
        "dac": lambda: dac_pth(original(dac_reference(downsampling_ratios=RATIOS))),
    }[kind]()
    outcomes: Counter[str] = Counter()
    for case in range(count):
        path = write(folder, random.Random(f"{kind} {case}"))
        start = time.process_time()  # a busy machine is no hang
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                use(glassformer.load(path))
            outcomes["loaded"] += 1
        except GlassformerError as error:
            outcomes[type(error).__name__] += 1
            assert len(str(error)) < 2_000 and str(error).replace("\n", "").isprintable(), f"case {case}: {error}"
        except Exception as error:
            raise AssertionError(f"case {case}: a raw {error!r:.500}") from error
        assert time.process_time() - start < HANG_S, f"case {case}"
    return outcomes


@pytest.mark.parametrize("kind", ["whisper", "ctranslate2", "dac"])
@pytest.mark.parametrize("count", [24, pytest.param(3_000, marks=pytest.mark.soak)])
def test_damaged_files(tmp_path: Path, kind: str, count: int) -> None:
    outcomes, grown = measured(load_damaged, kind, count, tmp_path, timeout_s=7_200)
    assert grown < GROWN_BYTES
    assert outcomes["WeightsError"] > count / 20 and sum(outcomes.values()) == count, outcomes
