"""A GGUF file that is written is read again as the same model, and what such a file cannot state is refused."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from tokenizers import Tokenizer as Engine
from tokenizers import normalizers, pre_tokenizers
from tokenizers.models import BPE

import glassformer
from glassformer import ConfigError, DataError, Model, UnsupportedError
from glassformer.export import export_gguf
from glassformer.gguf import vocabulary_metadata
from glassformer.gguf.k_quants import quantize_k
from glassformer.gguf.vocabulary import SPLITS
from glassformer.gguf.vocabulary_metadata import tokenizer_metadata
from glassformer.text.tokenizer import Tokenizer
from tests.gguf.runtime import LlamaCpp
from tests.gguf.small_models import FAMILIES, LLAMA3, TEMPLATE, TEXTS, logits, small, tokenizer

TEXT = "Once upon a time, there was 1 little girl"
ERRORS = {"f16": 5e-4, "bf16": 4e-3, "q8_0": 0.01, "q4_0": 0.15, "q4_k": 0.12}
"""Relative root mean square error of normally distributed weights, at most."""


@pytest.mark.parametrize("name", FAMILIES)
def test_a_file_is_the_same_model(name: str, tmp_path: Path) -> None:
    model = small(name)
    path, _ = export_gguf(model, tmp_path, "f32")
    for given in (path, tmp_path):  # the file, and the folder with it alone
        again = glassformer.load(given)
        assert not again.report.new and not again.report.unused
        for text in (*TEXTS[:3], TEXT, "  two  spaces\n", "ﬁ 日本 🙂"):
            assert again.tokenizer(text).input_ids == model.tokenizer(text).input_ids
        ids = model.tokenizer(TEXT).input_ids
        torch.testing.assert_close(logits(again, ids), logits(model, ids), atol=1e-5, rtol=1e-5)
    assert again.tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False) == "[a]"
    assert again.tokenizer.chat_template == TEMPLATE
    assert again.generate(TEXT, max_new_tokens=12) == model.generate(TEXT, max_new_tokens=12)


def test_digits_that_are_split_off_have_a_name() -> None:
    words = tokenizer("smollm")
    engine = Engine.from_str(words.engine.to_str())
    engine.pre_tokenizer = pre_tokenizers.Sequence(  # as SmolLM2's own tokenizer.json has it
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    made = Tokenizer(engine)
    made.add_special_tokens({"eos_token": "<|endoftext|>"})
    assert tokenizer_metadata(made, len(made))["tokenizer.ggml.pre"] == "smollm"


def test_ids_are_those_of_llama_cpp_by_every_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cyllama.llama.llama_cpp", reason="llama.cpp is not installed: pip install cyllama")
    parts = [*"ab cd'sT12٣½Ⅷ三 \n\t\r.,!?-_/#éßΩжי한日🙂\u00a0\u3000", "'ll", "'S", " the", "  ", "\r\n", "12345", "ſ"]
    draw, model = Random(0), small("gpt2")
    for name, split in SPLITS.items():
        monkeypatch.setattr(vocabulary_metadata, "SPLITS", {name: split})  # several names mean the same
        model.tokenizer = tokenizer(name)
        model.resize_token_embeddings(len(model.tokenizer) + 5)
        path, _ = export_gguf(model, tmp_path / name, "f16")
        theirs = LlamaCpp(path)
        for text in ("".join(draw.choices(parts, k=draw.randint(1, 40))) for _ in range(200)):
            assert model.tokenizer(text).input_ids == theirs.ids(text), name


@pytest.mark.parametrize("type", ERRORS)
def test_weights_differ_by_no_more_than_their_type_rounds(type: Any, tmp_path: Path) -> None:
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8}
    model = small("llama", **sizes)
    model.network.apply(lambda module: [p.data.normal_() for p in module.parameters(recurse=False) if p.dim() == 2])
    path, table = export_gguf(model, tmp_path, type)
    again = glassformer.load(path)
    for (name, ours), theirs in zip(model.network.named_parameters(), again.network.parameters(), strict=True):
        if ours.dim() == 1:
            assert torch.equal(ours, theirs), name
        else:
            error = ((ours - theirs).pow(2).mean() / ours.pow(2).mean()).sqrt()
            assert 0 < error < ERRORS[type], name
    kinds = {row[0] for row in table.rows}
    assert kinds == {type.upper(), "F32"} | ({"Q6_K"} if type in ("q4_0", "q4_k") else set())


@pytest.mark.parametrize(("kind", "limit"), [("Q4_K", 0.08), ("Q6_K", 0.02)])
def test_k_quants_are_what_the_package_reads(kind: str, limit: float) -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 512) * torch.logspace(-2, 2, 6)[:, None]
    x[2] = 0  # an empty row
    x[3, :256] = 5.0  # one of equal numbers
    x[3, 256:] = -5.0
    x[4] = x[4].abs()  # no number below zero
    packed = quantize_k(x, kind).numpy()
    assert packed.nbytes == x.numel() // 256 * gguf.GGML_QUANT_SIZES[Kind[kind]][1]
    back = torch.from_numpy(gguf.quants.dequantize(packed, Kind[kind]).copy())
    assert not back[2].any() and back.isfinite().all()
    error = (back - x).pow(2).mean(1).sqrt() / x.pow(2).mean(1).sqrt().clamp(min=1e-30)
    assert error.max() < limit


def test_q4_k_is_as_near_as_that_of_llama_cpp(tmp_path: Path) -> None:
    model = small("llama", hidden_size=256, intermediate_size=512, num_attention_heads=8)
    wide, _ = export_gguf(model, tmp_path / "wide", "f32")
    ours, _ = export_gguf(model, tmp_path / "ours", "q4_k")
    runtime = LlamaCpp(wide)
    options = runtime.library.LlamaModelQuantizeParams()
    options.ftype, options.nthread = 14, 1
    theirs = tmp_path / "theirs.gguf"
    runtime.library.model_quantize(str(wide), str(theirs), options)
    errors = {}
    exact = dict(model.network.named_parameters())
    for name, path in {"ours": ours, "theirs": theirs}.items():
        read = dict(glassformer.load(path).network.named_parameters())
        errors[name] = sum((read[key] - x).pow(2).sum().item() for key, x in exact.items() if "gate" in key)
    assert errors["ours"] <= 1.02 * errors["theirs"]


def test_rows_that_no_block_divides_have_the_kinds_of_llama_cpp(tmp_path: Path) -> None:
    _, table = export_gguf(small("llama", intermediate_size=80), tmp_path, "q4_k")
    assert [tuple(row[i] for i in (0, 1, 3)) for row in table.rows] == [
        ("Q5_0", "13", "rows of 64 are no multiple of 256"),
        ("Q8_0", "1", "rows of 64 are no multiple of 256"),
        ("F16", "2", "rows of 80 are no multiple of 32"),
        ("F32", "5", ""),
    ]
    assert glassformer.load(tmp_path).generate(TEXT, max_new_tokens=2)


@pytest.mark.parametrize("name", FAMILIES)
def test_llama_cpp_reads_the_same_model(name: str, tmp_path: Path) -> None:
    model = small(name)
    path, _ = export_gguf(model, tmp_path, "f32")
    runtime = LlamaCpp(path)
    for text in (*TEXTS[:3], TEXT, "  two  spaces\n", "ﬁ 日本 🙂"):
        assert runtime.ids(text) == model.tokenizer(text).input_ids
    ids = model.tokenizer(TEXT).input_ids
    # Where a family has GELU, llama.cpp looks it up in a table of float16.
    torch.testing.assert_close(runtime.logits(ids), logits(model, ids), atol=5e-3, rtol=0)
    greedy = model.generate(TEXT, max_new_tokens=12, return_dict_in_generate=True)
    assert runtime.greedy(ids, 12) == greedy.sequences[0][len(ids) :].tolist()


def test_scaled_positions_far_into_a_text(tmp_path: Path) -> None:
    """Where the angles of Llama 3.1 and plain ones are far apart."""
    model, plain = (small("llama 3.1", max_position_embeddings=512, rope_scaling=scaling) for scaling in (LLAMA3, None))
    path, _ = export_gguf(model, tmp_path, "f32")
    ids = (model.tokenizer(" ".join(TEXTS)).input_ids * 4)[:400]
    expected, last = logits(model, ids), slice(300, 400)
    assert float((expected - logits(plain, ids))[last].abs().max()) > 0.01
    for actual in (LlamaCpp(path, 512).logits(ids), logits(glassformer.load(path), ids)):
        torch.testing.assert_close(actual[last], expected[last], atol=1e-3, rtol=0)


@pytest.mark.parametrize("type", ["f16", "bf16", "q8_0", "q4_0", "q4_k"])
def test_llama_cpp_writes_the_stories_that_we_do(type: Any, shared: Path, tmp_path: Path) -> None:
    """Its products of quantized weights round the inputs to 8 bits too: a story of 40 tokens, not of 400."""
    path, _ = export_gguf(glassformer.load(shared / "models" / "stories260k"), tmp_path, type)
    model, runtime = glassformer.load(path), LlamaCpp(path, 256)
    for prompt in ("Once upon a time", "Lily and Tom went to the park", ""):
        ids = model.tokenizer(prompt).input_ids
        ours = model.generate(input_ids=torch.tensor([ids]), max_new_tokens=40)[0, len(ids) :].tolist()
        assert runtime.greedy(ids, 40) == ours


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("llama", {"hidden_act": "gelu"}, "has blocks.blocks.0.feed_forward.activation 'gelu', and a GGUF file"),
        ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "attention.rotary.scaling"),
        ("llama", {"rope_scaling": LLAMA3 | {"high_freq_factor": 5.0}}, "attention.rotary.scaling"),
        ("qwen3", {"rope_scaling": LLAMA3}, "attention.rotary.scaling"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "blocks.blocks.1.attention.scale"),
        ("gemma2", {"query_pre_attn_scalar": 64}, "attention.scale"),
        ("gemma3", {"rope_local_base_freq": 5000.0}, "attention.rotary.theta 5000.0"),
        ("gemma3", {"sliding_window_pattern": 3}, "attention"),
        ("phi3", {"partial_rotary_factor": 0.5}, "attention.rotary.width"),
    ],
)
def test_a_network_that_a_file_cannot_state_is_refused(
    name: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        export_gguf(small(name, **changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_has_no_place_in_a_file_is_refused(tmp_path: Path) -> None:
    model = small("llama")
    with pytest.raises(ConfigError, match="type is 'q3_k'; it must be one of f32, f16"):
        export_gguf(model, tmp_path, "q3_k")  # type: ignore[arg-type]
    body = Model.from_config({**model.config}, task="text-classification").eval()
    body.tokenizer = model.tokenizer
    with pytest.raises(UnsupportedError, match="this one is for text-classification: load it with"):
        export_gguf(body, tmp_path)
    other = Model.from_config(FAMILIES["qwen2"][2] | {"model_type": "stablelm", "vocab_size": 9}).eval()
    with pytest.raises(UnsupportedError, match="a 'stablelm' model cannot be written as a GGUF file; written: gemma"):
        export_gguf(other, tmp_path)
    model.tokenizer = None
    with pytest.raises(DataError, match="holds its tokenizer, and the folder of this model has none"):
        export_gguf(model, tmp_path)


def test_numbers_beyond_float16(tmp_path: Path) -> None:
    model = small("llama")
    next(iter(model.network.parameters())).data[0, 0] = 1e6
    with pytest.raises(ConfigError, match="numbers up to 1e\\+06, which float16 cannot hold; choose the type bf16"):
        export_gguf(model, tmp_path, "f16")
    assert not list(tmp_path.iterdir())


def changed(kind: str, change: Any) -> Tokenizer:
    made = tokenizer(kind)
    engine = Engine.from_str(made.engine.to_str())
    change(engine)
    return Tokenizer(engine, made.settings)


def lower(engine: Engine) -> None:
    engine.normalizer = normalizers.Lowercase()


def compatible(engine: Engine) -> None:
    engine.normalizer = normalizers.Sequence([normalizers.NFKC(), engine.normalizer])


def without_merges(engine: Engine) -> None:
    engine.model = BPE(engine.get_vocab(with_added_tokens=False), [])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("qwen2", without_merges, "a byte-level BPE without merges: llama.cpp loads no such file"),
        ("qwen2", lower, "splits or normalises texts in a way that has no name"),
        ("llama", compatible, "cannot be written to a GGUF file: it encodes"),
    ],
)
def test_a_tokenizer_that_a_file_cannot_state_is_refused(name: str, change: Any, message: str, tmp_path: Path) -> None:
    model = small(name)
    model.tokenizer = changed(FAMILIES[name][1], change)
    with pytest.raises(UnsupportedError, match=message):
        export_gguf(model, tmp_path)


def test_texts_are_no_longer_than_a_window_that_llama_cpp_does_not_know(tmp_path: Path) -> None:
    path, table = export_gguf(small("mistral"), tmp_path)
    assert table.caption.startswith("Texts of up to 48 tokens, not 64")
    assert glassformer.load(path).config["max_position_embeddings"] == 48


def test_a_turn_of_a_chat_ends_a_text_too(tmp_path: Path) -> None:
    model = small("qwen2", eos_token_id=[1, 0])
    path, _ = export_gguf(model, tmp_path)
    assert glassformer.load(path).config["eos_token_id"] == [0, 1]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small("llama")
    path, _ = export_gguf(model, tmp_path)
    before = path.read_bytes()

    def full(self: Any, tensor: np.ndarray[Any, Any], *_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gguf.GGUFWriter, "write_tensor_data", full)
    with pytest.raises(DataError, match="the GGUF file cannot be written: No space left on device"):
        export_gguf(model, tmp_path, "f32")
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json", "model.gguf"]
