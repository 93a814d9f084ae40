"""ViT beyond the parity table: photographs end to end, published folders, training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import glassformer
from glassformer import Model
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.models import FAMILIES
from tests.parity.sides import perturb

TINY = dict(FAMILIES["vit"].tiny)


def saved(architecture: str, folder: Path, **changes: object) -> Path:
    """A perturbed tiny model of the reference library, with its image processor."""
    torch.manual_seed(3)
    kind = getattr(transformers, architecture)
    model = kind(kind.config_class.from_dict({**TINY, **changes}))
    perturb(model)
    model.save_pretrained(folder)
    size = model.config.image_size
    ViTImageProcessorPil(size={"height": size, "width": size}).save_pretrained(folder)
    return folder


@torch.no_grad()
def test_from_a_photograph_to_labels(shared: Path, tmp_path: Path) -> None:
    """File → pixels → logits, each side by its own front end."""
    photographs = sorted((shared / "data" / "photos").glob("*.[jp][pn]g"))
    if not photographs:
        pytest.skip("needs ../shared/data/photos (a few photographs) next to the repository")
    folder = saved("ViTForImageClassification", tmp_path, image_size=48, patch_size=8)
    model = glassformer.load(folder)
    theirs = transformers.ViTForImageClassification.from_pretrained(folder).eval()
    processor = ViTImageProcessorPil.from_pretrained(folder)
    logits = model(**model.processor(photographs)).logits
    expected = theirs(**processor([str(path) for path in photographs], return_tensors="pt")).logits
    assert logits is not None and torch.allclose(logits, expected, atol=1e-5, rtol=1e-5)
    assert logits.std(dim=0).min() > 1e-3  # the photographs differ


@torch.no_grad()
def test_a_photograph_is_looked_at(tmp_path: Path) -> None:
    folder = saved("ViTForImageClassification", tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    model = glassformer.load(folder)
    session = model.inspect(str(tmp_path / "photo.png"))
    assert [token.text for token in session.streams["image"]][:3] == ["[CLS]", "r0 c0", "r0 c1"]
    theirs = transformers.ViTForImageClassification.from_pretrained(folder, attn_implementation="eager").eval()
    expected = theirs(**model.processor(pixels), output_attentions=True).attentions
    probs = session.head(2, 1).probs()
    assert torch.allclose(probs, expected[2][0, 1], atol=1e-5)


def test_a_body_saved_without_a_pooler(tmp_path: Path) -> None:
    folder = tmp_path / "bare"
    model = transformers.ViTModel(transformers.ViTConfig.from_dict(TINY), add_pooling_layer=False)
    model.save_pretrained(folder)
    loaded = glassformer.load(folder)
    assert loaded.report.new == ["head.dense.weight", "head.dense.bias"]


def test_a_body_that_learned_to_fill_in_patches(tmp_path: Path) -> None:
    """Its mask token, and the decoder of pixels, are of no use to another head."""
    folder = saved("ViTForMaskedImageModeling", tmp_path, encoder_stride=4)
    with pytest.raises(UnsupportedError, match="ViTForMaskedImageModeling"):
        glassformer.load(folder)
    loaded = glassformer.load(folder, task="feature-extraction")
    assert loaded.report.unused == ["decoder.0.bias", "decoder.0.weight"]


def test_what_a_picture_must_be() -> None:
    model = Model.from_config(TINY)
    with pytest.raises(DataError, match="image_size"):
        model(pixel_values=torch.randn(1, 3, 16, 12))
    with pytest.raises(DataError, match=r"pixel_values is torch.uint8"):
        model(pixel_values=torch.zeros(1, 3, 12, 12, dtype=torch.uint8))
    with pytest.raises(ConfigError, match="takes no input_ids"):
        model(input_ids=torch.tensor([[1]]), pixel_values=torch.randn(1, 3, 12, 12))
    with pytest.raises(ConfigError, match="reads pixel_values"):
        model()


@pytest.mark.parametrize("key", ["image_size", "patch_size"])
@pytest.mark.parametrize("value", [0, -4, 10_000, "12", True, 2.0, [4], [4, 4, 4], {"height": 4}])
def test_sizes_that_are_none(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"config.json: {key} is"):
        Model.from_config({**TINY, key: value})


def test_a_patch_larger_than_the_picture() -> None:
    with pytest.raises(ConfigError, match="there must be at least one patch"):
        Model.from_config({**TINY, "patch_size": 13})


def test_a_pooler_of_another_width_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="pooler_output_size = 16"):
        Model.from_config({**TINY, "pooler_output_size": 16})


def test_it_learns_digits() -> None:
    """MF-22: from nothing to nine of ten handwritten digits that it has not seen."""
    datasets = pytest.importorskip("sklearn.datasets", reason="needs scikit-learn: pip install scikit-learn")
    digits = datasets.load_digits()
    pictures = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 8 - 1  # [1797, 1, 8, 8]
    answers = torch.tensor(digits.target)
    torch.manual_seed(0)
    order = torch.randperm(len(answers))
    pictures, answers = pictures[order], answers[order]
    model = Model.from_config(
        {
            **TINY,
            "num_hidden_layers": 2,
            "image_size": 8,
            "patch_size": 4,
            "initializer_range": 0.15,  # so narrow a network would start too quiet with 0.02
            "num_channels": 1,
            "id2label": {str(i): str(i) for i in range(10)},
        },
        task="image-classification",
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(12):
        for rows in torch.randperm(1400).split(70):
            loss = model(pixel_values=pictures[rows], labels=answers[rows]).loss
            assert loss is not None
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    with torch.no_grad():
        logits = model.eval()(pixel_values=pictures[1400:]).logits
    assert logits is not None
    assert (logits.argmax(-1) == answers[1400:]).float().mean() > 0.9
