"""GGUF files, written as llama.cpp's conversion writes them, give the numbers of the models that they came from."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind

import glassformer
from glassformer import ConfigError, DataError, GlassformerError, Model, UnsupportedError, WeightsError
from glassformer.export import export_gguf
from glassformer.gguf.architectures import FOUR_NORMS, NAMES, QK_NORMS
from glassformer.gguf.header import read_header
from glassformer.gguf.scaled_positions import FACTORS
from glassformer.gguf.vocabulary import SPLITS, write_tokenizer
from glassformer.text.tokenizer import Tokenizer
from tests.core.small import perturbed
from tests.gguf.small_models import small

GEMMA = {"head_dim": 8, "query_pre_attn_scalar": 8, "tie_word_embeddings": True, "sliding_window": 4}
FAMILY_OF = {
    "llama": ("llama", {}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {"head_dim": 8}),
    "phi3": ("phi3", {}),
    "gemma": ("gemma", {"head_dim": 8, "tie_word_embeddings": True}),
    "gemma2": ("gemma2", GEMMA),
    "gemma3": ("gemma3_text", GEMMA),
}
WORDS = ["<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁a", "▁ab", *(f"<0x{i:02X}>" for i in range(256))]
IDS = torch.tensor([[1, 5, 9, 14, 7, 30]])
WIDTH = 32  # of a block of Q8_0


def source(family: str, **changes: Any) -> Model:
    torch.manual_seed(0)
    sizes = {"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": len(WORDS)}
    basis = {"model_type": family, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
    model = Model.from_config({**basis, **sizes, **heads, **changes}, task="text-generation").eval()
    perturbed(model.network)
    return model


def their_name(name: str, architecture: str) -> str:
    """The name in GGUF of a tensor of the reference library, by the table read backwards."""
    extra = {"qwen3": QK_NORMS, "gemma2": FOUR_NORMS, "gemma3": FOUR_NORMS + QK_NORMS}.get(architecture, "")
    extra += "attn_qkv self_attn.qkv_proj\nffn_up mlp.gate_up_proj" if architecture == "phi3" else ""
    table = {}
    for line in f"{NAMES}\n{extra}".splitlines():
        if line.strip():
            theirs, ours = line.split()
            table = {key: value for key, value in table.items() if value != theirs} | {ours: theirs}
    stem, _, leaf = name.rpartition(".")
    if stem.startswith("model.layers."):
        number, _, rest = stem.removeprefix("model.layers.").partition(".")
        return f"blk.{number}.{table[rest]}.{leaf}"
    return f"{table[stem]}.{leaf}"


def write(
    path: Path, model: Model, architecture: str, kind: Kind = Kind.F32, metadata: dict[str, Any] | None = None
) -> dict[str, torch.Tensor]:
    """Write a model as llama.cpp's conversion does; returns the tensors that the file holds, dequantized."""
    folder = path.with_suffix("")
    model.save_pretrained(folder)
    from safetensors.torch import load_file

    config, tensors = model.config, load_file(folder / "model.safetensors")
    out = gguf.GGUFWriter(str(path), architecture)
    out.add_embedding_length(config["hidden_size"])
    out.add_block_count(config["num_hidden_layers"])
    out.add_head_count(config["num_attention_heads"])
    out.add_head_count_kv(config["num_key_value_heads"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_context_length(config["max_position_embeddings"])
    out.add_layer_norm_rms_eps(config.get("rms_norm_eps", 1e-6))
    out.add_rope_freq_base(config.get("rope_theta", 1e6 if architecture == "gemma3" else 1e4))
    if "head_dim" in config:
        out.add_key_length(config["head_dim"])
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if config.get(key):
            out.add_float32(f"{architecture}.{key}", config[key])
    if config.get("sliding_window"):
        out.add_sliding_window(config["sliding_window"])
    out.add_tokenizer_model("llama")
    out.add_token_list(WORDS)
    out.add_token_scores([-float(i) for i in range(len(WORDS))])
    out.add_token_types([2, 3, 3, *[1] * 6, *[6] * 256])
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    for key, value in (metadata or {}).items():
        out.add_string(key, value)
    dequantized = {}
    for name, tensor in tensors.items():
        stored = tensor.float().numpy()
        if architecture == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
            rows = stored.reshape(heads, 2, stored.shape[0] // heads // 2, -1)
            stored = rows.swapaxes(1, 2).reshape(stored.shape)  # as their conversion permutes
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            stored = stored + 1
        own = kind if stored.ndim == 2 else Kind.F32
        quantized = gguf.quants.quantize(np.ascontiguousarray(stored), own)
        out.add_tensor(their_name(name, architecture), quantized, raw_dtype=own)
        back = torch.from_numpy(gguf.quants.dequantize(quantized, own).reshape(stored.shape).copy())
        if architecture == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            back = back.unflatten(0, (heads, -1, 2)).transpose(1, 2).reshape(tensor.shape)
        dequantized[name] = back - 1 if architecture.startswith("gemma") and name.endswith("norm.weight") else back
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return dequantized


def logits(model: Model) -> torch.Tensor:
    with torch.no_grad():
        output = model(input_ids=IDS)
    assert output.logits is not None
    return output.logits


@pytest.mark.parametrize("architecture", FAMILY_OF)
def test_the_numbers_of_the_model_that_it_came_from(architecture: str, tmp_path: Path) -> None:
    family, changes = FAMILY_OF[architecture]
    model = source(family, **changes)
    write(tmp_path / "model.gguf", model, architecture)
    loaded = glassformer.load(tmp_path / "model.gguf")
    assert loaded.family.model_type == family and not loaded.report.new and not loaded.report.unused
    torch.testing.assert_close(logits(loaded), logits(model), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", ["gemma2", "gemma3"])
def test_the_largest_gemma_scales_its_scores_by_the_width_of_the_model(architecture: str, tmp_path: Path) -> None:
    """Gemma 2 and 3 27B, known by heads of 128: no file states the scale."""
    large = GEMMA | {"head_dim": 128, "query_pre_attn_scalar": WIDTH // 4}
    model = source(FAMILY_OF[architecture][0], **large)
    write(tmp_path / "model.gguf", model, architecture)
    loaded = glassformer.load(tmp_path / "model.gguf")
    torch.testing.assert_close(logits(loaded), logits(model), atol=1e-5, rtol=1e-5)


def test_the_reference_library_reads_the_same_numbers(tmp_path: Path) -> None:
    import transformers

    write(tmp_path / "model.gguf", source("llama"), "llama", Kind.Q8_0)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="model.gguf").eval()
    with torch.no_grad():
        expected = theirs(input_ids=IDS).logits
    torch.testing.assert_close(logits(glassformer.load(tmp_path / "model.gguf")), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q5_1])
def test_quantized_weights_are_what_their_package_makes_of_them(kind: Kind, tmp_path: Path) -> None:
    model = source("llama")
    dequantized = write(tmp_path / "model.gguf", model, "llama", kind)
    loaded = glassformer.load(str(tmp_path / "model.gguf"))
    loaded.save_pretrained(tmp_path / "again")
    from safetensors.torch import load_file

    for name, tensor in load_file(tmp_path / "again" / "model.safetensors").items():
        assert torch.equal(tensor, dequantized[name]), name
    half = glassformer.load(tmp_path / "model.gguf", dtype="bfloat16")
    assert half.dtype == torch.bfloat16 and logits(half).isfinite().all()


def test_its_tokenizer_reads_and_writes_and_it_generates(tmp_path: Path) -> None:
    template = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
    write(tmp_path / "model.gguf", source("llama"), "llama", metadata={"tokenizer.chat_template": template})
    model = glassformer.load(tmp_path / "model.gguf")
    tokenizer = model.tokenizer
    assert tokenizer.convert_ids_to_tokens(tokenizer("ab a").input_ids) == ["<s>", "▁ab", "▁a"]
    assert tokenizer.decode(tokenizer("ab aß").input_ids, skip_special_tokens=True) == "ab aß"
    assert tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False) == "[a]"
    assert isinstance(model.generate("ab", max_new_tokens=3), str)
    pipe = glassformer.pipeline("text-generation", tmp_path / "model.gguf")
    assert pipe("ab", max_new_tokens=3, do_sample=False)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("gpt-2 olmo", "It|'s|Ġ12345|ĠcamelCase|,|Ġx|/|ĊĊĠ|Ġy"),
        ("llama-bpe dbrx falcon3", "It|'s|Ġ|123|45|ĠcamelCase|,|Ġx|/ĊĊ|Ġ|Ġy"),
        ("qwen2 stablelm2", "It|'s|Ġ|1|2|3|4|5|ĠcamelCase|,|Ġx|/ĊĊ|Ġ|Ġy"),
        ("smollm starcoder command-r", "It|'s|Ġ|1|2|3|4|5|ĠcamelCase|,|Ġx|/|ĊĊĠ|Ġy"),
        ("gpt-4o", "It's|Ġ|123|45|Ġcamel|Case|,|Ġx|/ĊĊ|Ġ|Ġy"),
        ("tekken", "It|'s|Ġ|1|2|3|4|5|Ġcamel|Case|,|Ġx|/ĊĊ|Ġ|Ġy"),
    ],
)
def test_texts_are_split_by_the_name_that_the_file_has(names: str, words: str) -> None:
    for name in names.split():
        assert [w for w, _ in SPLITS[name].step.pre_tokenize_str("It's 12345 camelCase, x/\n\n  y")] == words.split("|")


def words_file(path: Path, split: str | None) -> None:
    """A file of a byte-level tokenizer alone, which says how texts are split, or does not."""
    out = gguf.GGUFWriter(str(path), "qwen2")
    out.add_tokenizer_model("gpt2")
    if split is not None:
        out.add_tokenizer_pre(split)
    out.add_token_list([*"abcĠ1", "ab", "Ġab", "<|end|>"])
    out.add_token_types([*[1] * 7, 3])
    out.add_token_merges(["a b", "Ġ ab"])
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.close()


def test_a_file_that_does_not_say_how_texts_are_split_is_named(tmp_path: Path) -> None:
    words_file(path := tmp_path / "words.gguf", None)
    with pytest.warns(UserWarning, match=r"words.gguf: does not say how texts are split .*as GPT-2's"):
        write_tokenizer(read_header(path), tmp_path)
    tokenizer = Tokenizer.find(tmp_path, model_type="qwen2")
    assert tokenizer is not None and tokenizer.convert_ids_to_tokens(tokenizer("ab 11").input_ids)[0] == "ab"


def test_byte_level_tokenizers(tmp_path: Path) -> None:
    words_file(tmp_path / "words.gguf", "qwen2")
    write_tokenizer(read_header(tmp_path / "words.gguf"), tmp_path)
    tokenizer = Tokenizer.find(tmp_path, model_type="qwen2")
    assert tokenizer is not None
    ids = tokenizer("ab abc11<|end|>").input_ids
    assert tokenizer.convert_ids_to_tokens(ids) == ["ab", "Ġab", "c", "1", "1", "<|end|>"]
    assert tokenizer.decode(ids) == "ab abc11<|end|>"


def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write(path, source("llama"), "llama")
    whole = path.read_bytes()
    with pytest.raises(WeightsError, match="cannot be opened"):
        glassformer.load(tmp_path / "nowhere.gguf")
    for cut in (3, 20, 300, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:cut])
        with pytest.raises(WeightsError, match=r"no GGUF file|cut off|at most"):
            glassformer.load(path)
    path.write_bytes(
        whole.replace(b"\x05\x00\x00\x00\x00\x00\x00\x00llama", b"\x05\x00\x00\x00\x00\x00\x00\x00lamma", 1)
    )
    with pytest.raises(UnsupportedError, match="the architecture is 'lamma'; read from GGUF files: llama, qwen2"):
        glassformer.load(path)


def test_damaged_files_are_errors_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write(path, source("llama"), "llama")
    whole = bytearray(path.read_bytes())
    header = whole.index(b"blk.1.") + 400
    draw = np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(whole)
        for at in draw.integers(4, header, 3):
            damaged[at] = draw.integers(256)
        path.write_bytes(damaged)
        try:
            glassformer.load(path)
        except (GlassformerError, ConfigError, DataError) as error:
            assert str(error)


def with_offset(whole: bytes, tensor: str, offset: int) -> bytes:
    """A file whose header gives a tensor another offset."""
    name = tensor.encode()
    at = whole.index(struct.pack("<Q", len(name)) + name) + 8 + len(name)
    (dimensions,) = struct.unpack_from("<I", whole, at)
    at += 4 + 8 * dimensions + 4
    return whole[:at] + struct.pack("<Q", offset) + whole[at + 8 :]


def test_tensors_that_are_misplaced_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write(path, source("llama"), "llama")
    whole, reader = path.read_bytes(), gguf.GGUFReader(path)
    offsets = {x.name: x.data_offset - reader.data_offset for x in reader.tensors}
    q, k = "blk.0.attn_q.weight", "blk.0.attn_k.weight"
    for offset, words in (
        (offsets[q] + 4, "no multiple of the alignment, 32"),
        (offsets[q], "both begin at offset"),
        (offsets[q] + 32, "overlap"),
    ):
        path.write_bytes(with_offset(whole, k, offset))
        with pytest.raises(WeightsError, match=words):
            glassformer.load(path)


def strings(key: str, count: int) -> bytes:
    name = key.encode()
    return struct.pack(f"<Q{len(name)}sIIQ", len(name), name, 9, 8, count) + struct.pack("<Q2s", 2, b"ab") * count


def test_metadata_is_bounded_and_its_architecture_is_refused_first(tmp_path: Path) -> None:
    path, name, value = tmp_path / "model.gguf", b"general.architecture", b"lamma"
    arrays = b"".join(strings(f"key.{i}", 700_000) for i in range(4))
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 4) + arrays)
    with pytest.raises(WeightsError, match="has 700000 more entries in arrays; at most 697152 are read"):
        glassformer.load(path)
    first = struct.pack(f"<Q{len(name)}sIQ{len(value)}s", len(name), name, 8, len(value), value)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 5) + first + arrays)
    begin = time.process_time()
    with pytest.raises(UnsupportedError, match="the architecture is 'lamma'"):
        glassformer.load(path)
    assert time.process_time() - begin < 1


def test_a_scaled_position_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write(path, source("llama"), "llama", metadata={"llama.rope.scaling.type": "yarn"})
    with pytest.raises(UnsupportedError, match="positions are scaled"):
        glassformer.load(path)


def test_factors_of_positions_that_are_not_those_of_llama_3(tmp_path: Path) -> None:
    path, _ = export_gguf(small("llama 3.1"), tmp_path, "f32")
    stored = read_header(path).tensors[FACTORS]
    data = path.read_bytes()
    for numbers, message in (
        ([1.0] * 7 + [6.0], "by factors that are not those of Llama 3.1"),
        ([0.0] * 8, "by factors that are not"),
        ([float("nan")] * 8, "by factors that are not"),
    ):
        changed = struct.pack("<8f", *numbers)
        path.write_bytes(data[: stored.offset] + changed + data[stored.offset + len(changed) :])
        with pytest.raises(UnsupportedError, match=message):
            glassformer.load(path)
    path.write_bytes(data[:-1])  # they are the last tensor of the file
    with pytest.raises(WeightsError, match="no vector of float32, or cut off"):
        glassformer.load(path)
