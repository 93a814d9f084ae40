"""`glassformer info`, on tiny checkpoints written here and on real ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from glassformer.cli.info import info
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.model import Model
from glassformer.models import FAMILIES


def save(folder: Path, family: str = "bert", task: str | None = None, **changes: Any) -> str:
    Model.from_config({**FAMILIES[family].tiny, **changes}, task=task).save_pretrained(folder)
    return str(folder)


def shown(capsys: pytest.CaptureFixture[str], width: int = 120) -> str:
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    return out


def data_of(capsys: pytest.CaptureFixture[str], model: str, **options: Any) -> Any:
    info(model, json=True, **options)
    return json.loads(capsys.readouterr().out)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")


def test_minilm(minilm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    info(str(minilm))
    out = shown(capsys)
    for words in (
        "BertModel, for feature-extraction",
        "22,713,216 parameters · 90.9 MB as float32",
        "WordPiece tokenizer of 30,522 tokens",
        "none unused",
        "blocks.0-5  ×6, each",
        "12 heads × 32",
        "4 · 384 · 128 keys",
        "75 taps",
    ):
        assert words in out
    embed = next(line for line in out.splitlines() if "tokens" in line and "30522×384" in line)
    assert embed.split()[-3:] == ["46.9", "MB", "0"]


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_it_fits_the_terminal(minilm: Path, capsys: Any, monkeypatch: Any, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    info(str(minilm), names=True)
    out = shown(capsys, width)
    assert "…" not in out  # nothing is cut
    if width >= 80:
        assert any("attn_residual.on_residual" in line and line.rstrip().endswith(" 0") for line in out.splitlines())


def test_a_quantised_layer_is_one_line(minilm: Path, capsys: Any) -> None:
    """Levels are a module of their own; with the bias they are the layer's weights, and its product is no scores."""
    info(str(minilm), dtype="int8")
    out = shown(capsys)
    assert "stored" not in out and out.count("scores, z") == 1
    assert any(
        "qkv" in line and "1152×384 + 1152" in line and line.rstrip().endswith("885k") for line in out.splitlines()
    )


def test_stories(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    info(str(shared / "models" / "stories260k"), names=True)
    out = shown(capsys)
    for words in (
        "260,032 parameters",
        "8 heads × 8, 4 k/v",
        "scores, z (causal)",
        "= embed.tokens.weight",
        "model.layers.0-4.self_attn.{q_proj,k_proj,v_proj}.weight",
    ):
        assert words in out


@pytest.mark.parametrize("family", list(FAMILIES))
def test_every_family_with_the_names_in_its_file(family: str, tmp_path: Path, capsys: Any) -> None:
    folder = save(tmp_path / "model", family)
    report = data_of(capsys, folder)
    assert report["weights"] is True
    stored = load_file(tmp_path / "model" / "model.safetensors")
    assert {name for row in report["tensors"] for name in row["theirs"]} == set(stored)
    info(folder, names=True)
    assert "taps" in shown(capsys)


def test_a_file_with_a_head_has_prefixed_names_also_for_the_bare_body(tmp_path: Path, capsys: Any) -> None:
    report = data_of(capsys, save(tmp_path, task="fill-mask"), task="feature-extraction")
    assert report["tensors"][0]["theirs"] == ["bert.embeddings.word_embeddings.weight"]
    assert "cls.predictions.bias" in report["report"]["unused"]


def test_old_spellings_are_shown_as_they_stand_in_the_file(tmp_path: Path, capsys: Any) -> None:
    folder = save(tmp_path)
    old = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): tensor
        for name, tensor in load_file(tmp_path / "model.safetensors").items()
    }
    save_file(old, tmp_path / "model.safetensors")
    rows = {row["name"]: row["theirs"] for row in data_of(capsys, folder)["tensors"]}
    assert rows["embed.norm.weight"] == ["embeddings.LayerNorm.gamma"]


def test_new_and_unused_tensors_and_warnings_are_listed(tmp_path: Path, capsys: Any) -> None:
    folder = save(tmp_path, odd_key="\x1b[31mred")
    info(folder, task="text-classification", names=True)
    out = shown(capsys)
    assert "2 new (randomly initialised; train before use)" in out
    assert "head.classifier.weight" in out
    assert "(new)" in out
    assert "odd_key" in out
    assert "\x1b" not in out


def test_a_config_alone_is_enough_for_sizes(tmp_path: Path, capsys: Any) -> None:
    whole = data_of(capsys, save(tmp_path / "whole"))
    (tmp_path / "bare").mkdir()
    config = shutil.copy(tmp_path / "whole" / "config.json", tmp_path / "bare")
    for place in (tmp_path / "bare", config):
        report = data_of(capsys, str(place))
        assert report["weights"] is False
        for same in ("parameters", "flops", "taps", "root", "tensors"):
            assert report[same] == whole[same]
        info(str(place))
        assert "no weights: sizes from config.json alone" in shown(capsys)


def test_a_large_model_needs_no_memory(tmp_path: Path, capsys: Any) -> None:
    """The published sizes of Llama 3 8B."""
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
        "torch_dtype": "bfloat16",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    report = data_of(capsys, str(tmp_path))
    assert (report["parameters"], report["bytes"]) == (8_030_261_248, 2 * 8_030_261_248)
    assert data_of(capsys, str(tmp_path), dtype="float32")["bytes"] == 4 * 8_030_261_248


def test_a_published_model_needs_no_folder(capsys: Any) -> None:
    report = data_of(capsys, "gpt3-175b")
    assert (report["parameters"], report["weights"], report["folder"]) == (174_604_259_328, False, None)
    assert "Brown et al. 2020" in report["sizes_from"]
    assert report["memory"]["inference"]["weights"] == 4 * report["parameters"]
    info("gpt3-175b", dtype="bfloat16")
    out = shown(capsys)
    for words in (
        "349 GB as bfloat16",
        "698 GB as float32 · 349 GB in 16 bits · 175 GB as int8",
        "×96, each",
    ):
        assert words in out
    assert "tokenizer" not in out
    info("mixtral-8x7b")
    assert "46,702,792,704 parameters, 12.9B active per token" in shown(capsys)


def test_a_folder_wins_over_a_published_name_and_that_over_the_hub(tmp_path: Path, monkeypatch: Any) -> None:
    from glassformer import hub

    asked: list[str] = []

    def resolve(name: str, **_: Any) -> Path:
        asked.append(name)
        raise DataError("no network here")

    monkeypatch.setattr(hub, "resolve", resolve)
    monkeypatch.setattr("glassformer.load_options.resolve", resolve)
    monkeypatch.chdir(tmp_path)
    info("gpt2")
    assert not asked
    with pytest.raises(DataError, match="no network"):  # a revision is the Hub's
        info("gpt2", revision="main")
    assert asked == ["gpt2"]
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "config.json").write_text(json.dumps(FAMILIES["bert"].tiny))
    info("gpt2")
    assert asked == ["gpt2"]


def test_a_folder_of_a_published_name_is_the_one_that_is_shown(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "gpt2", "bert")
    assert data_of(capsys, "gpt2")["model_type"] == "bert"


def test_an_unknown_name_gets_the_nearest_published_ones(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="sizes are known of: 'gpt3-175b'"):
        info("gpt3-175", offline=True)


def test_memory_is_split_by_what_it_is_for(tmp_path: Path, capsys: Any) -> None:
    info("gpt2", memory=True, batch=8, tokens=512)
    out = shown(capsys)
    assert "with gradient checkpointing" in " ".join(out.split())
    rows = {line.split("  ")[0]: line.split("  ") for line in out.splitlines()}
    assert any("8 × 512 tokens" in row for row in rows)
    cells = {name: [cell.strip() for cell in row[1:] if cell.strip()] for name, row in rows.items()}
    assert cells["gradients"] == ["498 MB", "249 MB", "0 B"]
    assert cells["optimiser"] == ["996 MB", "1.49 GB", "0 B"]
    assert cells["cache"] == ["0 B", "0 B", "302 MB"]  # 2 · 12 layers · 768 · 4 bytes · 8 · 512
    info("gpt2")
    assert "optimiser" not in shown(capsys)


def test_unused_heads_fold_into_lines(tmp_path: Path, capsys: Any) -> None:
    info(save(tmp_path, task="pre-training"), task="feature-extraction")
    out = shown(capsys)
    line = next(line for line in out.splitlines() if line.startswith("cls.predictions.*"))
    assert line.split()[-1] == "5" and "32×32" in line
    assert "such as the head of another task" in out
    assert "cls.predictions.transform.dense.weight" not in out


def test_each_tap_can_be_listed(tmp_path: Path, capsys: Any) -> None:
    folder = save(tmp_path)
    info(folder, taps=True)
    lines = shown(capsys).splitlines()
    for tap in data_of(capsys, folder)["taps"]:
        assert tap in map(str.rstrip, lines)


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        info(str(tmp_path / "missing"))
    (tmp_path / "model.txt").write_text("words")
    with pytest.raises(DataError, match="is a file"):
        info(str(tmp_path / "model.txt"))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError):
        info(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "bort"}')
    with pytest.raises(UnsupportedError, match="'bert'"):
        info(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({**FAMILIES["bert"].tiny, "dtype": ["int3"]}))
    with pytest.raises(ConfigError, match="dtype"):
        info(str(tmp_path))
