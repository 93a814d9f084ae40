"""CLIP by OpenAI's names and from open_clip's folders: outputs equal to the model that was written so.

The same was compared with the package open_clip_torch 3.3.0: image and text embeddings within 1.5e-7, ids equal.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from typer.testing import CliRunner

import glassformer
from glassformer.cli.app import app
from glassformer.errors import ConfigError, DataError, GlassformerError, UnsupportedError, WeightsError
from glassformer.foreign.vocabulary import byte_letters

MERGES = ["t h", "th e</w>", "c a", "ca t</w>"]
WORDS = 2 * 256 + len(MERGES) + 2
RENAMED = (
    ("text_model.encoder.layers", "transformer.resblocks"),
    ("vision_model.encoder.layers", "visual.transformer.resblocks"),
    ("text_model.final_layer_norm", "ln_final"),
    ("text_model.embeddings.token_embedding", "token_embedding"),
    ("text_model.embeddings.position_embedding.weight", "positional_embedding"),
    ("vision_model.embeddings.position_embedding.weight", "visual.positional_embedding"),
    ("vision_model.embeddings.class_embedding", "visual.class_embedding"),
    ("vision_model.embeddings.patch_embedding", "visual.conv1"),
    ("vision_model.pre_layrnorm", "visual.ln_pre"),
    ("vision_model.post_layernorm", "visual.ln_post"),
    ("layer_norm", "ln_"),
    ("mlp.fc1", "mlp.c_fc"),
    ("mlp.fc2", "mlp.c_proj"),
    ("self_attn", "attn"),
)


def original(model: Any) -> dict[str, Tensor]:
    """The state dict of a reference model by OpenAI's names."""
    state = {name: x for name, x in model.state_dict().items() if "position_ids" not in name}
    result: dict[str, Tensor] = {}
    for name, x in state.items():
        if name.endswith("projection.weight"):
            result["visual.proj" if name.startswith("visual") else "text_projection"] = x.T.contiguous()
        elif ".k_proj" in name or ".v_proj" in name:
            continue
        else:
            together = [state[name.replace("q_proj", f"{part}_proj")] for part in "qkv"] if ".q_proj" in name else [x]
            for theirs, ours in RENAMED:
                name = name.replace(theirs, ours)
            name = name.replace("q_proj.", "in_proj_")
            result[name] = torch.cat(together) if len(together) > 1 else x.clone()
    return result


@pytest.fixture(scope="module", params=["quick_gelu", "gelu"])
def reference(request: pytest.FixtureRequest) -> Any:
    transformers = pytest.importorskip("transformers", reason="makes the model: pip install 'glassformer[reference]'")
    text = {"vocab_size": WORDS, "max_position_embeddings": 12, "bos_token_id": WORDS - 2, "eos_token_id": WORDS - 1}
    vision = {"image_size": 16, "patch_size": 4}
    sizes = {"num_hidden_layers": 2, "intermediate_size": 96, "projection_dim": 24, "hidden_act": request.param}
    config = transformers.CLIPConfig(
        text_config={**text, **sizes, "hidden_size": 64, "num_attention_heads": 1},
        vision_config={**vision, **sizes, "hidden_size": 128, "num_attention_heads": 2},
        projection_dim=24,
    )
    torch.manual_seed(0)
    model = transformers.CLIPModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return model


def write_merges(folder: Path, merges: list[str] = MERGES) -> None:
    with gzip.open(folder / "bpe_simple_vocab_16e6.txt.gz", "wt", encoding="utf-8") as stream:
        stream.write("\n".join(['"version: 0.2"', *merges, "unused line"]) + "\n")


def saved(folder: Path, reference: Any, name: str | None = None) -> Path:
    """The file of OpenAI's names, or open_clip's folder, whichever has the activation."""
    write_merges(folder)
    quick = reference.config.text_config.hidden_act == "quick_gelu"
    if quick:
        path = folder / (name or "ViT.pt")
        torch.save({**original(reference), "input_resolution": torch.tensor(16)}, path)
        return path
    save_file(original(reference), folder / "open_clip_model.safetensors")
    settings = {"model_cfg": {"embed_dim": 24}, "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.25] * 3}}
    (folder / "open_clip_config.json").write_text(json.dumps(settings))
    return folder


def test_outputs_equal_and_the_saved_folder_too(tmp_path: Path, reference: Any) -> None:
    model = glassformer.load(saved(tmp_path, reference))
    assert not model.report.unused and not model.report.new
    assert model.folder is not None and model.folder.exists()  # the file's, and not that of what was made of it
    assert model.tokenizer.tokenize("The cat") == ["the</w>", "cat</w>"]
    ids, pictures = torch.tensor([[WORDS - 2, 513, 515, WORDS - 1]]), torch.randn(2, 3, 16, 16)
    assert model.tokenizer("the cat")["input_ids"] == ids[0].tolist()
    with torch.no_grad():
        theirs = reference(input_ids=ids, pixel_values=pictures)
        ours = model(input_ids=ids, pixel_values=pictures)
    for field in ("image_embeds", "text_embeds", "logits_per_image"):
        torch.testing.assert_close(ours[field], getattr(theirs, field), atol=1e-5, rtol=1e-5)
    model.save_pretrained(tmp_path / "saved")
    again = glassformer.load(tmp_path / "saved")
    torch.testing.assert_close(again(input_ids=ids, pixel_values=pictures)["text_embeds"], ours["text_embeds"])
    pixels = json.loads((tmp_path / "saved" / "preprocessor_config.json").read_text())
    assert pixels["crop_size"] == {"height": 16, "width": 16}
    assert pixels["image_std"][0] == (0.25 if (tmp_path / "open_clip_config.json").exists() else 0.26862954)


def test_without_a_vocabulary_pictures_alone_are_encoded(tmp_path: Path, reference: Any) -> None:
    path = saved(tmp_path, reference)
    (tmp_path / "bpe_simple_vocab_16e6.txt.gz").unlink()
    model = glassformer.load(path)
    assert (
        model(input_ids=torch.tensor([[1, WORDS - 1]]), pixel_values=torch.zeros(1, 3, 16, 16))
        .image_embeds.isfinite()
        .all()
    )
    with pytest.raises(DataError, match="tokenizer"):
        _ = model.tokenizer


@pytest.mark.usefixtures("without_child")
def test_what_is_damaged_or_of_another_kind_is_said(tmp_path: Path, reference: Any) -> None:
    path = saved(tmp_path, reference)
    open_clip = path.is_dir()
    wrong: list[tuple[type[GlassformerError], str, str, str]] = [
        (DataError, "is no list of merges", "bpe_simple_vocab_16e6.txt.gz", "not gzip"),
    ]
    if open_clip:
        wrong += [
            (
                UnsupportedError,
                "tower of another kind",
                "open_clip_config.json",
                '{"model_cfg": {"vision_cfg": {"timm_model_name": "x"}}}',
            ),
            (ConfigError, "it must be an object", "open_clip_config.json", '{"model_cfg": 3}'),
        ]
    for error, words, name, content in wrong:
        before = (tmp_path / name).read_bytes()
        (tmp_path / name).write_text(content)
        with pytest.raises(error, match=words):
            glassformer.load(path)
        (tmp_path / name).write_bytes(before)
    write_merges(tmp_path, MERGES[:1])
    with pytest.raises(DataError, match="merges, and 518 tokens need 4"):
        glassformer.load(path)
    write_merges(tmp_path)
    state = original(reference)
    del state["visual.ln_post.weight"]
    if open_clip:
        save_file(state, tmp_path / "open_clip_model.safetensors")
    else:
        torch.save(state, path)
    with pytest.raises(WeightsError, match=r"post_layernorm\.weight.*cut off"):
        glassformer.load(path)
    if open_clip:
        (tmp_path / "open_clip_model.safetensors").unlink()
        with pytest.raises(WeightsError, match=r"and no weights; put open_clip_model\.safetensors next to it"):
            glassformer.load(path)


def test_open_clips_weights_need_their_settings(tmp_path: Path, reference: Any) -> None:
    save_file(original(reference), tmp_path / "open_clip_model.safetensors")
    with pytest.raises(ConfigError, match=r"open_clip_config\.json: is missing"):
        glassformer.load(tmp_path / "open_clip_model.safetensors")


def test_byte_letters_are_numbered_as_clip_does() -> None:
    letters = sorted(byte_letters())
    assert letters[:3] == ["!", '"', "#"] and letters[188] == chr(256) and len(set(letters)) == 256


def test_a_torchscript_archive_says_what_to_do(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "ViT-B-32.pt")
    with pytest.raises(WeightsError, match="TorchScript"):
        glassformer.load(tmp_path / "ViT-B-32.pt")


def test_info_names_the_file_and_its_tensors(tmp_path: Path, reference: Any) -> None:
    path = saved(tmp_path, reference)
    done = CliRunner().invoke(app, ["info", str(path), "--json"])
    report = json.loads(done.output)
    assert done.exit_code == 0 and report["folder"] == str(path)
