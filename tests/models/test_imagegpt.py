"""Image GPT beyond the parity table: photographs as colours, image completion, unsupported uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.models.imagegpt.image_processing_pil_imagegpt import ImageGPTImageProcessorPil

import glassformer
from glassformer import Model
from glassformer.core.flow import Batch
from glassformer.errors import DataError, UnsupportedError
from glassformer.models import FAMILIES
from glassformer.vision import ImageProcessor
from tests.parity.sides import perturb

TINY = dict(FAMILIES["imagegpt"].tiny)
COLOURS = np.random.default_rng(1).uniform(-1, 1, (16, 3)).round(3).tolist()
PICTURES: dict[str, Any] = {**TINY, "vocab_size": 17, "n_positions": 36}
START = 16


def saved(folder: Path) -> Path:
    """A perturbed tiny model of the reference library that writes pictures of 6 × 6, with its image processor."""
    torch.manual_seed(3)
    model = transformers.ImageGPTForCausalImageModeling(transformers.ImageGPTConfig.from_dict(PICTURES))
    perturb(model)
    model.save_pretrained(folder)
    ImageGPTImageProcessorPil(clusters=COLOURS, size={"height": 6, "width": 6}).save_pretrained(folder)
    return folder


@torch.no_grad()
def test_from_a_photograph_to_its_next_colours(shared: Path, tmp_path: Path) -> None:
    photographs = sorted((shared / "data" / "photos").glob("*.[jp][pn]g"))
    if not photographs:
        pytest.skip("needs ../shared/data/photos (a few photographs) next to the repository")
    folder = saved(tmp_path)
    theirs = transformers.ImageGPTForCausalImageModeling.from_pretrained(folder).eval()
    model = glassformer.load(folder)
    processor = ImageGPTImageProcessorPil.from_pretrained(folder)
    inputs = processor([str(path) for path in photographs], return_tensors="pt")
    ours_inputs = model.processor(photographs)
    assert torch.equal(ours_inputs["input_ids"], inputs["input_ids"])
    logits = model(**ours_inputs).logits
    assert logits is not None and logits.shape == (len(photographs), 36, 16)
    assert torch.allclose(logits, theirs(**inputs).logits, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_the_lower_half_is_the_reference_librarys(tmp_path: Path) -> None:
    """The same colours as the reference's own greedy loop, cached or not; and a picture of them."""
    folder = saved(tmp_path)
    theirs = transformers.ImageGPTForCausalImageModeling.from_pretrained(folder, dtype=torch.float64).eval()
    model = glassformer.load(folder, dtype=torch.float64)
    upper = torch.randint(0, 16, (3, 18), generator=torch.Generator().manual_seed(0))
    ids = torch.cat([torch.full((3, 1), START), upper], dim=1)
    expected = ids
    while expected.shape[1] < 37:
        chosen = theirs(input_ids=expected[:, -36:]).logits[:, -1].argmax(-1)
        expected = torch.cat([expected, chosen[:, None]], dim=1)
    for cached in (True, False):
        assert torch.equal(model.generate(ids, max_new_tokens=18, use_cache=cached), expected)
    assert isinstance(model.processor, ImageProcessor)
    pictures = model.processor.images_from_ids(expected[:, 1:])
    assert pictures.shape == (3, 6, 6, 3)
    exact = np.rint(127.5 * (np.array(COLOURS) + 1))[upper[0].numpy()].reshape(3, 6, 3)
    assert np.abs(pictures[0, :3] - exact).max() <= 1
    with pytest.raises(DataError, match="the model has 36"):
        model.generate(ids, max_new_tokens=19)


def test_a_picture_is_what_it_sees() -> None:
    network = Model.from_config(PICTURES).network
    assert list(network.stacks()) == ["image"]
    ids = torch.tensor([[START, *range(8)]])
    assert network.token_labels(Batch(input_ids=ids))["image"][:4] == ["[start]", "r0 c0", "r0 c1", "r0 c2"]
    assert network.token_labels(Batch(input_ids=ids[:, 1:]))["image"][-2:] == ["r1 c0", "r1 c1"]


def test_the_start_is_never_next() -> None:
    model = Model.from_config(PICTURES, task="text-generation")
    ids = torch.tensor([[START, 1, 2, 3]])
    output = model(ids, labels=ids)
    assert output.loss is not None and output.logits is not None and output.logits.shape[-1] == 16
    with pytest.raises(DataError, match="numbers from 1 to 16; allowed: 0 to 15"):
        model(ids, labels=ids.flip(1))
    assert ids[0, 0] == START  # labels are the caller's


def test_a_tied_head_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="tie_word_embeddings = True"):
        Model.from_config({**PICTURES, "tie_word_embeddings": True})


def test_it_learns_to_complete_digits() -> None:
    """MF-24: trained on 8 × 8 digits, it writes lower halves of new ones, nearer to their own than others' are."""
    datasets = pytest.importorskip("sklearn.datasets", reason="needs scikit-learn: pip install scikit-learn")
    torch.manual_seed(0)
    shades = torch.tensor(datasets.load_digits().images).long().flatten(1) // 6  # [1797, 64], from 0 to 2
    shades = shades[torch.randperm(len(shades))]
    ids = torch.cat([torch.full((len(shades), 1), 3), shades], dim=1)
    train, new = ids[:1500], ids[1500:1600]
    model = Model.from_config(
        {**TINY, "vocab_size": 4, "n_positions": 64, "n_layer": 1, "initializer_range": 0.15},
        task="text-generation",
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=6e-3)
    for _ in range(5):
        for rows in torch.randperm(len(train)).split(50):
            read = train[rows, :64]
            loss = model(read, labels=read).loss
            assert loss is not None
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    completed = model.eval().generate(new[:, :33], max_new_tokens=32)
    assert torch.equal(completed[:, :33], new[:, :33]) and int(completed[:, 33:].max()) < 3

    def error(lower: torch.Tensor) -> float:
        return float((lower - new[:, 33:]).double().abs().mean())

    assert error(completed[:, 33:]) < 0.85 * error(new[:, 33:].roll(1, dims=0))
