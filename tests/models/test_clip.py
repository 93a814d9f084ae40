"""CLIP beyond the parity table: both towers layer by layer, end tokens, captioned photographs, training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

import glassformer
from glassformer import Model
from glassformer.core.flow import Tape
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.evaluation.reference import fp64_arithmetic
from glassformer.models import FAMILIES
from tests.e2e.tiny_models import word_tokenizer
from tests.parity.inputs import draw_inputs, pushed_left
from tests.parity.sides import close, perturb, write_config

TINY = dict(FAMILIES["clip"].tiny)
END = 97


def saved(folder: Path, **text: Any) -> Path:
    """A perturbed tiny model of the reference library."""
    torch.manual_seed(3)
    config = {**TINY, "text_config": {**TINY["text_config"], **text}}
    model = transformers.CLIPModel(transformers.CLIPConfig.from_dict(config))
    perturb(model)
    model.save_pretrained(folder)
    return folder


def both(folder: Path, dtype: torch.dtype = torch.float32) -> tuple[Any, Model]:
    theirs = transformers.CLIPModel.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    return theirs, glassformer.load(folder, dtype=dtype, strict=True)


def random_inputs(padding: str) -> tuple[Tensor, Tensor, Tensor]:
    """ids [3, T], attention mask [3, T], pixels [3, 3, 12, 12]"""
    given = draw_inputs({**TINY, "architectures": ["CLIPModel"]}, padding).ours
    return given["input_ids"], given["attention_mask"], given["pixel_values"]


# ---------------------------------------------------------------------------------------------- state by state


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("padding", ["none", "right", "left"])
@torch.no_grad()
def test_both_towers(tmp_path: Path, padding: str, dtype: torch.dtype) -> None:
    """Every state and every attention of both towers; padding stands where the caller puts it, and is not counted."""
    theirs, ours = both(saved(tmp_path, eos_token_id=END), dtype)
    ids, mask, pixels = random_inputs(padding)
    within = 1e-9 if dtype == torch.float64 else 1e-5
    with fp64_arithmetic(dtype):
        expected = theirs(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
            pixel_values=pixels,
            output_hidden_states=True,
            output_attentions=True,
        )
    output = ours(ids, mask, pixel_values=pixels, tape=Tape("embed.out", "blocks.*.out", "*.attn.probs", "final"))
    keep = mask.bool()
    for tower, tower_output in (
        ("text", expected.text_model_output),
        ("vision", expected.vision_model_output),
    ):
        visible = keep if tower == "text" else torch.ones(3, 10, dtype=torch.bool)
        layers = len(tower_output.attentions)
        names = [f"{tower}.embed.out", *(f"{tower}.blocks.{i}.out" for i in range(layers))]
        for name, state in zip(names, tower_output.hidden_states, strict=True):
            close(output.taps[name][visible], state[visible], within, name)
        close(
            output.taps[f"{tower}.final"][visible],
            tower_output.last_hidden_state[visible],
            within,
            f"{tower}.final",
        )
        for i, probs in enumerate(tower_output.attentions):
            mine = output.taps[f"{tower}.blocks.{i}.attn.probs"].transpose(1, 2)[visible]
            close(mine, probs.transpose(1, 2)[visible], within, f"{tower} {i}")
    for name in ("text_embeds", "image_embeds", "logits_per_text", "logits_per_image"):
        close(output[name], expected[name], within, name)
        close(ours(ids, mask, pixel_values=pixels)[name], expected[name], within, f"{name}, fused")


@torch.no_grad()
def test_padding_changes_nothing(tmp_path: Path) -> None:
    _, ours = both(saved(tmp_path, eos_token_id=END), torch.float64)
    ids, mask, _ = random_inputs("left")
    moved = ours(pushed_left(ids, mask.bool()), pushed_left(mask, mask.bool())).text_embeds
    assert moved is not None
    close(ours(ids, mask).text_embeds, moved, 1e-9)
    for row in range(3):
        alone = ids[row : row + 1, mask[row].bool()]
        close(ours(alone).text_embeds, moved[row : row + 1], 1e-9)


@torch.no_grad()
def test_one_tower_alone(tmp_path: Path) -> None:
    theirs, ours = both(saved(tmp_path))
    ids, _, pixels = random_inputs("none")
    full = ours(ids, pixel_values=pixels[:2])
    assert full.logits_per_text.shape == (3, 2) and full.logits_per_image.shape == (2, 3)
    texts, images = ours(ids), ours(pixel_values=pixels[:2])
    assert set(texts.present()) == {"text_embeds"} and set(images.present()) == {"image_embeds"}
    assert torch.equal(texts.text_embeds, full.text_embeds)
    assert torch.equal(images.image_embeds, full.image_embeds)
    features = theirs.get_text_features(input_ids=ids).pooler_output
    close(texts.text_embeds, features / features.norm(dim=-1, keepdim=True), 1e-5)
    features = theirs.get_image_features(pixel_values=pixels[:2]).pooler_output
    close(images.image_embeds, features / features.norm(dim=-1, keepdim=True), 1e-5)
    assert not any(name.startswith("vision") for name in ours(ids, tape=Tape("blocks.*.out")).taps)
    with pytest.raises(ConfigError, match=r"input_ids .*, pixel_values .*, or both; got none"):
        ours()


# -------------------------------------------------------------------------------------------------- end tokens


@pytest.mark.parametrize("end", [2, END])
@torch.no_grad()
def test_where_a_text_ends(tmp_path: Path, end: int) -> None:
    """With the old mistake in the config, at the highest id; else at the first end token, other ones are padding."""
    theirs, ours = both(saved(tmp_path, eos_token_id=end))
    ids = torch.tensor([[5, 98, 7, END, 3, END], [END, 1, 98, 98, 2, 4], [50, END, 60, 70, 80, 2]])
    pixels = random_inputs("none")[2]
    expected = theirs(input_ids=ids, pixel_values=pixels)
    close(ours(ids, pixel_values=pixels).logits_per_text, expected.logits_per_text, 1e-5)


def test_a_text_without_an_end(tmp_path: Path) -> None:
    _, ours = both(saved(tmp_path, eos_token_id=END))
    with pytest.raises(DataError, match=r"text 1 has no end token.* the token 97 \(config.json: eos_token_id"):
        ours(torch.tensor([[5, END], [6, 7]]))


def test_a_text_longer_than_its_positions(tmp_path: Path) -> None:
    _, ours = both(saved(tmp_path, max_position_embeddings=5))
    with pytest.raises(DataError, match="the model has 5 positions"):
        ours(torch.arange(6)[None])


# -------------------------------------------------------------------------------------------------------- loss


def test_the_loss_of_pairs_in_any_order(tmp_path: Path) -> None:
    theirs, ours = both(saved(tmp_path))
    ids, _, pixels = random_inputs("none")
    expected = theirs(input_ids=ids, pixel_values=pixels, return_loss=True).loss
    close(ours(ids, pixel_values=pixels, labels=torch.arange(3)).loss, expected, 1e-5)
    order = torch.tensor([2, 0, 1])
    close(ours(ids[order], pixel_values=pixels, labels=order).loss, expected, 1e-5)
    close(ours(ids, pixel_values=pixels[order], labels=order.argsort()).loss, expected, 1e-5)


@pytest.mark.parametrize("labels", [[0, 1, 1], [0, 1], [0.0, 1.0, 2.0], [1, 2, 3], [-100, 0, 1]])
def test_labels_that_are_no_pairs(tmp_path: Path, labels: list[float]) -> None:
    _, ours = both(saved(tmp_path))
    ids, _, pixels = random_inputs("none")
    with pytest.raises(DataError, match="each text must have an image of its own"):
        ours(ids, pixel_values=pixels, labels=torch.tensor(labels))
    with pytest.raises(DataError, match="needs input_ids and pixel_values"):
        ours(ids, labels=torch.arange(3))


# ------------------------------------------------------------------------------------------------------ folders


def test_numbers_of_positions_in_old_files(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    old = {f"{tower}_model.embeddings.position_ids": torch.arange(9)[None] for tower in ("text", "vision")}
    save_file({**tensors, **old}, folder / "model.safetensors", {"format": "pt"})
    assert glassformer.load(folder, strict=True).report.unused == []


def test_a_tower_of_pictures_is_taken_out(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    model = glassformer.load(folder, task="image-classification")
    assert model.report.new == ["head.classifier.weight", "head.classifier.bias"]
    assert {name.split(".")[0] for name in model.report.unused} == {
        "logit_scale",
        "text_model",
        "text_projection",
        "visual_projection",
    }


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"vision_config": {"image_size": "12"}}, ConfigError, "vision_config: image_size is '12'"),
        ({"text_config": {"eos_token_id": [1, 2]}}, ConfigError, r"text_config: eos_token_id is \[1, 2\]"),
        ({"text_config": {"hidden_size": 10}}, ConfigError, "width 10 is not a multiple of heads 8"),
        ({"text_config": [1]}, ConfigError, "text_config is"),
        ({"text_config": {"is_decoder": True}}, UnsupportedError, "is_decoder = True"),
        ({"vision_config": {"hidden_act": "relu7"}}, UnsupportedError, "relu7"),
    ],
)
def test_a_wrong_config_is_named(changes: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Model.from_config({**TINY, **changes}, device="meta")


def test_a_config_of_the_first_release_is_read_to_the_last_key() -> None:
    """Its towers hold everything that any config could, most of it off."""
    everything = {
        "add_cross_attention": False,
        "architectures": None,
        "bad_words_ids": None,
        "chunk_size_feed_forward": 0,
        "cross_attention_hidden_size": None,
        "dropout": 0.0,
        "initializer_factor": 1.0,
        "initializer_range": 0.02,
        "is_decoder": False,
        "is_encoder_decoder": False,
        "num_beams": 1,
        "pruned_heads": {},
        "tie_encoder_decoder": False,
        "tie_word_embeddings": True,
        "torchscript": False,
        "use_bfloat16": False,
    }
    config = {
        **TINY,
        "initializer_factor": 1.0,
        "logit_scale_init_value": 2.6592,
        "text_config": {**everything, **TINY["text_config"], "model_type": "clip_text_model"},
        "text_config_dict": None,
        "torch_dtype": "float32",
        "transformers_version": None,
        "vision_config": {**everything, **TINY["vision_config"], "model_type": "clip_vision_model"},
        "vision_config_dict": None,
    }
    assert Model.from_config(config, device="meta").report.warnings == []


def test_a_silent_config_is_that_of_the_paper() -> None:
    """ViT-B/32: 151,277,313 parameters."""
    model = Model.from_config({"model_type": "clip"}, device="meta")
    theirs = transformers.CLIPConfig()
    assert sum(parameter.numel() for parameter in model.parameters()) == 151_277_313
    assert model.network.text.end == theirs.text_config.eos_token_id
    assert model.network.vision.embed.spec.tokens == 50


# ------------------------------------------------------------------------------------- photographs and captions


@torch.no_grad()
def test_photographs_with_captions(shared: Path, tmp_path: Path) -> None:
    """Files and words → scores, the pictures by each side's own front end."""
    table = shared / "data" / "photos" / "captions.tsv"
    if not table.is_file():
        pytest.skip("needs ../shared/data/photos (a few photographs) next to the repository")
    rows = [line.split("\t") for line in table.read_text().splitlines()[1:]]
    photographs = [table.parent / row[0] for row in rows]
    words = [row[1].split() for row in rows]
    numbers = {word: 3 + i for i, word in enumerate(sorted({word for caption in words for word in caption})[:90])}
    ids = [[*[numbers.get(word, 1) for word in caption][:10], END] for caption in words]
    longest = max(map(len, ids))
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in ids])
    padded = torch.tensor([row + [0] * (longest - len(row)) for row in ids])
    folder = saved(tmp_path, eos_token_id=END)
    CLIPImageProcessorPil(size=12, crop_size=12).save_pretrained(folder)
    theirs, ours = both(folder)
    pixels = CLIPImageProcessorPil.from_pretrained(folder)([str(path) for path in photographs], return_tensors="pt")
    expected = theirs(input_ids=padded, attention_mask=mask, **pixels)
    output = ours(padded, mask, **ours.processor(photographs))
    close(output.logits_per_image, expected.logits_per_image, 1e-5)
    assert output.logits_per_image.shape == (len(rows), len(rows))


@torch.no_grad()
def test_both_sides_are_looked_at(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    CLIPImageProcessorPil(size=12, crop_size=12).save_pretrained(folder)
    word_tokenizer().save(str(folder / "tokenizer.json"))
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    theirs, model = both(folder)
    session = model.inspect(str(tmp_path / "photo.png"), "time flies like an arrow")
    assert set(session.maps) == {"text", "image"}
    assert [token.text for token in session.streams["text"]][1:3] == ["time", "flies"]
    assert [token.text for token in session.streams["image"]][:2] == ["[CLS]", "r0 c0"]
    expected = theirs(
        input_ids=model.tokenizer("time flies like an arrow", return_tensors="pt")["input_ids"],
        **model.processor(pixels),
        output_attentions=True,
    )
    close(session.head(1, 2, "text").probs(), expected.text_model_output.attentions[1][0, 2], 1e-5)
    close(session.head(2, 3, "image").probs(), expected.vision_model_output.attentions[2][0, 3], 1e-5)


# ----------------------------------------------------------------------------------------------------- training


def test_it_learns_which_picture_a_text_describes() -> None:
    """FD-08: pictures of two squares and words for their colours and places; new pairs find each other."""
    torch.manual_seed(0)
    draw = torch.Generator().manual_seed(1)

    def pairs(count: int) -> tuple[Tensor, Tensor]:
        """A word for the place and one for the shade of each of 3 × 3 patches that are not black."""
        positions = torch.stack([torch.randperm(9, generator=draw)[:2].sort().values for _ in range(count)])
        shades = torch.randint(0, 3, (count, 2), generator=draw)
        pictures = torch.zeros(count, 9, 3)
        pictures[torch.arange(count)[:, None], positions] = torch.nn.functional.one_hot(shades, 3) * 2.0
        pixels = pictures.mT.reshape(count, 3, 3, 3).repeat_interleave(4, 2).repeat_interleave(4, 3)
        words = torch.stack([positions[:, 0], 10 + shades[:, 0], positions[:, 1], 10 + shades[:, 1]], dim=1) + 3
        return torch.cat([words, torch.full((count, 1), 98)], dim=1), pixels

    model = Model.from_config(TINY)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(150):
        ids, pixels = pairs(48)
        loss = model(ids, pixel_values=pixels, labels=torch.arange(48)).loss
        assert loss is not None
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    ids, pixels = pairs(40)
    with torch.no_grad():
        scores = model.eval()(ids, pixel_values=pixels).logits_per_image
    assert scores is not None
    assert (scores.argmax(-1) == torch.arange(40)).float().mean() > 0.5  # chance: 1 in 40


# ------------------------------------------------------------------------------------------------ towers alone


@pytest.mark.parametrize("end", [2, END])
@torch.no_grad()
def test_the_text_tower_alone(tmp_path: Path, end: int) -> None:
    """What its end token's state is, by both rules; files of old releases have a prefix, and numbers of positions."""
    torch.manual_seed(3)
    config = {**FAMILIES["clip_text_model"].tiny, "eos_token_id": end}
    theirs = transformers.CLIPTextModel(transformers.CLIPTextConfig.from_dict(config)).eval()
    perturb(theirs)
    theirs.save_pretrained(tmp_path)
    ids = torch.tensor([[5, 98, 7, END, 3, END], [END, 1, 98, 98, 2, 4], [50, END, 60, 70, 80, 2]])
    expected = theirs(input_ids=ids)
    ours = glassformer.load(tmp_path, strict=True)
    close(ours(ids).pooler_output, expected.pooler_output, 1e-5)
    close(ours(ids).last_hidden_state, expected.last_hidden_state, 1e-5)

    tensors = load_file(tmp_path / "model.safetensors")
    old = {f"text_model.{name}": x for name, x in tensors.items()}
    old["text_model.embeddings.position_ids"] = torch.arange(40)[None]
    save_file(old, tmp_path / "model.safetensors", {"format": "pt"})
    again = glassformer.load(tmp_path, strict=True)
    assert torch.equal(again(ids).pooler_output, ours(ids).pooler_output)


def test_a_tower_with_its_projection_has_the_keys_of_the_reference(tmp_path: Path) -> None:
    config = transformers.CLIPTextConfig.from_dict(FAMILIES["clip_text_model"].tiny)
    theirs = transformers.CLIPTextModelWithProjection(config).eval()
    theirs.save_pretrained(tmp_path)
    ids = torch.tensor([[5, 98, 7, config.eos_token_id]])
    output, expected = glassformer.load(tmp_path)(ids), theirs(input_ids=ids)
    assert list(output) == list(expected) == ["text_embeds", "last_hidden_state"]
    close(output[0], expected[0], 1e-5)
    assert output.pooler_output is not None


def test_a_text_without_an_end_for_the_tower_alone() -> None:
    model = Model.from_config({**FAMILIES["clip_text_model"].tiny, "eos_token_id": END})
    with pytest.raises(DataError, match="text 0 has no end token"):
        model(torch.tensor([[5, 6]]))


@torch.no_grad()
def test_the_tower_of_pictures_alone_is_that_of_the_whole(tmp_path: Path) -> None:
    """The state that it pools, projected and made as long as 1, is the vector of the whole model."""
    _, full = both(saved(tmp_path / "whole"))
    tensors = load_file(tmp_path / "whole" / "model.safetensors")
    tower = {name: x for name, x in tensors.items() if name.startswith("vision_model.")}
    (tmp_path / "tower").mkdir()
    save_file(tower, tmp_path / "tower" / "model.safetensors", {"format": "pt"})
    write_config(
        tmp_path / "tower",
        {**TINY["vision_config"], "model_type": "clip_vision_model", "architectures": ["CLIPVisionModel"]},
    )
    alone = glassformer.load(tmp_path / "tower", strict=True)
    pixels = random_inputs("none")[2]
    projected = alone(pixel_values=pixels).pooler_output @ tensors["visual_projection.weight"].T
    vectors = full(pixel_values=pixels).image_embeds
    close(projected / projected.norm(dim=-1, keepdim=True), vectors, 1e-5)
