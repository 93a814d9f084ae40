"""Kernels are chosen by what the processor has; an environment variable of torch hides what is beyond AVX2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from glassformer.core import processor

ROOT = Path(__file__).resolve().parents[2]
AVX2_ALONE = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "AVX2",
    "FBGEMM_ENABLE_INSTRUCTIONS": "AVX2",
}
"""What `make test CPU=avx2` sets."""


@pytest.fixture(autouse=True)
def uncached() -> None:
    processor.has.cache_clear()
    processor.is_fast.cache_clear()


def test_fp32_and_other_devices_are_fast() -> None:
    assert processor.is_fast(torch.float32) and processor.is_fast(torch.float64)
    assert processor.is_fast(torch.bfloat16, "cuda")


def test_an_unknown_name_is_no_instruction() -> None:
    assert not processor.has("abacus")


def test_torchs_limit_hides_what_is_beyond_avx2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert not any(map(processor.has, ["avx512", "avx512_bf16", "vnni", "amx_tile"]))
    assert processor.has("avx2") == torch.cpu._is_avx2_supported()


def test_make_hides_the_same() -> None:
    """The option of the suite and these tests stand for one processor."""
    (line,) = (x for x in (ROOT / "Makefile").read_text("utf-8").splitlines() if x.startswith("CPU_avx2 :="))
    assert dict(word.split("=") for word in line.split(":=")[1].split()) == AVX2_ALONE


@pytest.mark.skipif(not processor.has("avx2"), reason="needs a processor with AVX2")
def test_a_processor_with_avx2_alone() -> None:
    """What it computes in each precision, and that the compiled kernels hold no instruction that it lacks."""
    program = """
import json, sys, warnings, torch
from glassformer import Model
from glassformer.core import processor
from glassformer.engine import native
from glassformer.models import FAMILIES
torch.manual_seed(0)
encoder = Model.from_config(FAMILIES["bert"].tiny).eval()
ids = torch.arange(2, 34)[None] % 60
plain, off, notes = encoder(ids).last_hidden_state.detach(), {}, {}
for precision in ("fp32", "fp16", "bf16", "int8"):
    with warnings.catch_warnings(record=True) as caught, torch.inference_mode():
        warnings.simplefilter("always")
        got = encoder.prepare(precision)(ids).last_hidden_state
    off[precision] = ((got - plain).abs().max() / plain.abs().max()).item()
    notes[precision] = [str(w.message) for w in caught]
features = native._features().split(",") if native.available() else []
beyond = [x for x in features if x[0] == "+" and x[1:].startswith(processor.BEYOND_AVX2)]
json.dump([off, notes, beyond, processor.is_fast(torch.bfloat16), processor.is_fast(torch.float16)], sys.stdout)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | AVX2_ALONE, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    off, notes, beyond, bf16, fp16 = json.loads(done.stdout)
    assert not (bf16 or fp16 or beyond)
    assert off["fp32"] < min(1e-5, off["fp16"]) and off["fp16"] < off["bf16"] < off["int8"] < 5e-2
    assert notes["fp32"] == notes["fp16"] == notes["int8"] == []
    (note,) = notes["bf16"]
    assert "no instructions for bf16" in note and "fp32, which is faster here" in note
