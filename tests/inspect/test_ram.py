"""The memory estimate against what autograd keeps, what a step really holds, and what a cache takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Batch, Flow
from glassformer.errors import ConfigError
from glassformer.inspect import ram
from glassformer.models import FAMILIES, ConfigReader, Network
from glassformer.models.presets import PRESETS

B, T = 2, 32
GENERATORS = sorted(
    name
    for name, family in FAMILIES.items()
    if "text-generation" in family.tasks and "feature-extraction" in family.tasks
)
READERS = sorted(
    name for name, family in FAMILIES.items() if {"fill-mask", "token-classification"} <= set(family.tasks)
)
TRANSLATORS = ["bart", "t5", "transformer"]


def build(family: str, task: str, device: str = "cpu", **changes: Any) -> Network:
    """A tiny network in training mode that drops nothing."""
    record = FAMILIES[family]
    spec = record.spec(ConfigReader({**record.tiny, **record.requires.get(task, {}), **changes}))
    with torch.device(device):
        network = record.build(spec, task)
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if getattr(getattr(module, "spec", None), "dropout", 0.0):
            object.__setattr__(module.spec, "dropout", 0.0)
    return network.train()


def inputs(batch: int, tokens: int, vocabulary: int = 99) -> Batch:
    ids = torch.randint(3, vocabulary, (batch, tokens), generator=torch.Generator().manual_seed(0))
    return Batch(input_ids=ids, decoder_input_ids=ids)


def kept_by_autograd(network: nn.Module, compute: Callable[[], Any]) -> int:
    """Bytes of what is saved for the backward pass, each storage once, weights left out."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    storages: dict[int, int] = {}
    alive: list[Tensor] = []  # so that no address is used twice

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        _result = compute()
    return sum(storages.values())


@pytest.mark.parametrize(
    ("family", "task"),
    [(family, "text-generation") for family in GENERATORS]
    + [(family, "fill-mask") for family in READERS]
    + [(family, "token-classification") for family in READERS]
    + [(family, "translation") for family in TRANSLATORS],
)
def test_activations_are_what_autograd_keeps(family: str, task: str) -> None:
    """Within an eighth on tiny networks, where masks, tables of angles and ids still weigh something."""
    network = build(family, task)
    batch = inputs(B, T)

    def compute() -> Tensor:
        assert batch.input_ids is not None and network.head is not None
        output = network(batch, Flow())
        assert output.logits is not None
        return network.head.loss(output, batch.input_ids % output.logits.shape[-1])

    found = ram(network, batch=B, tokens=T).training.activations
    if task != "token-classification":
        found -= 2 * 4 * 99 * B * T  # the logits and their gradient are alive too, but not for the backward pass
    assert found == pytest.approx(kept_by_autograd(network, compute), rel=1 / 8)


@pytest.mark.parametrize(
    ("family", "batch", "tokens"),
    [
        (
            "wav2vec2",
            Batch(input_values=torch.zeros(B, 40 * T)),
            T,
        ),  # the tiny one steps over 5 · 4 · 2 samples
        ("hubert", Batch(input_values=torch.zeros(B, 40 * T)), T),
        ("vit", Batch(pixel_values=torch.zeros(B, 3, 12, 12)), 10),  # 3 × 3 patches and [CLS]
    ],
)
def test_activations_of_sound_and_images(family: str, batch: Batch, tokens: int) -> None:
    network = build(family, "feature-extraction")
    found = ram(network, batch=B, tokens=tokens).training.activations
    assert found == pytest.approx(kept_by_autograd(network, lambda: network(batch, Flow())), rel=1 / 8)


def test_activations_by_hand() -> None:
    """GPT-2: D = 32, F = 48, 4 heads, 3 layers, V = 99, T = 10, B = 1."""
    D, F, H, L, V, tokens = 32, 48, 4, 3, 99, 10
    block = 2 * (D + 2) + D + 3 * D + H + D + D + 2 * F  # norms · qkv reads · q k v · heads · out, up read · ffn
    numbers = L * block + (D + 2) + D + 3 * V  # and the last norm, the head, its logits
    found = ram(build("gpt2", "text-generation", "meta"), batch=3, tokens=tokens)
    assert found.training.activations == 3 * tokens * 4 * numbers
    assert found.inference.activations == 3 * tokens * 4 * block


class Watch(TorchDispatchMode):
    """The most bytes that tensors held at one time while it was on."""

    def __init__(self, begun_with: list[Tensor]) -> None:
        super().__init__()
        self.alive: dict[StorageWeakRef, int] = {}
        self.peak = 0
        self.add(begun_with)

    def add(self, tensors: list[Any]) -> None:
        for tensor in tensors:
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                self.alive[StorageWeakRef(storage)] = storage.nbytes()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.add(tree_leaves(result))
        self.alive = {storage: size for storage, size in self.alive.items() if not storage.expired()}
        self.peak = max(self.peak, sum(self.alive.values()))
        return result


@pytest.mark.parametrize(
    ("family", "batch", "tokens"),
    [("gpt2", 16, 128), ("gpt2", 1, 8), ("llama", 16, 128), ("llama", 1, 8), ("mixtral", 8, 64)],
)
def test_the_peak_of_training_is_what_a_step_holds(family: str, batch: int, tokens: int) -> None:
    """Within 15 %, where activations are most of it and where gradients are."""
    sizes: dict[str, Any] = (
        {"n_embd": 128, "n_inner": 512, "n_positions": 128}
        if family == "gpt2"
        else {"hidden_size": 128, "intermediate_size": 344, "max_position_embeddings": 128}
    )
    network = build(family, "text-generation", vocab_size=500, **sizes)
    optimiser = torch.optim.AdamW(network.parameters(), foreach=False)
    ids = inputs(batch, tokens, 500)

    def step() -> None:
        optimiser.zero_grad()
        output = network(ids, Flow())
        assert network.head is not None and ids.input_ids is not None
        network.head.loss(output, ids.input_ids).backward()
        optimiser.step()

    step()  # the moments appear
    optimiser.zero_grad()
    moments = [value for state in optimiser.state.values() for value in state.values()]
    with Watch([*network.parameters(), *moments]) as watch:
        step()
    assert ram(network, batch=batch, tokens=tokens).training.peak == pytest.approx(watch.peak, rel=0.15)


def test_blocks_computed_once_more_hold_less() -> None:
    """Twelve layers, a step of training as a real one holds it; the estimate is within 15 % of it."""
    network = build("gpt2", "text-generation", n_layer=12, n_embd=64, n_inner=256, n_positions=128)
    ids = inputs(8, 128)
    assert ids.input_ids is not None
    peaks = {}
    for recompute in (False, True):
        with Watch(network.parameters()) as watch:
            (loss,) = network.loss_sums(ids, Flow(recompute=recompute), ids.input_ids).values()
            loss.backward()
        peaks[recompute] = watch.peak
        network.zero_grad()
        del loss
    assert peaks[True] < 0.35 * peaks[False]
    found = ram(network, batch=8, tokens=128)
    logits = 3 * 4 * 99 * 8 * 128  # of which `learn` keeps none
    moments = found.training.optimiser
    assert found.recomputed.peak - moments - logits == pytest.approx(peaks[True], rel=0.15)
    assert found.training.peak - moments - logits == pytest.approx(peaks[False], rel=0.15)
    assert found.offloaded.activations < found.recomputed.activations < 0.35 * found.training.activations


@pytest.mark.parametrize("family", [*GENERATORS, *TRANSLATORS])
def test_cache_is_what_a_cache_takes(family: str) -> None:
    task = "translation" if family in TRANSLATORS else "text-generation"
    network = build(family, task).eval()
    cache = KeyValueCache(block_tokens=T)
    with torch.inference_mode():
        network(inputs(B, T), Flow(cache=cache))
    assert ram(network, batch=B, tokens=T).inference.cache == cache.nbytes


def test_an_encoder_has_no_cache_and_a_narrow_network_half_of_it() -> None:
    assert ram(build("bert", "fill-mask", "meta")).inference.cache == 0
    wide, narrow = (
        ram(build("llama", "text-generation", "meta").to(dtype)).inference for dtype in (torch.float32, torch.bfloat16)
    )
    assert wide.cache == 2 * narrow.cache > 0
    assert wide.weights == 2 * narrow.weights


def test_bytes_a_weight() -> None:
    """Rajbhandari et al. 2020, section 3.1: 16 a weight, in mixed precision as in fp32."""
    preset = PRESETS["gpt2"]
    record = FAMILIES["gpt2"]
    network = record.build_on_meta(record.spec(ConfigReader(preset.config)), "text-generation")
    found, count = ram(network), 124_439_808
    for use in (found.training, found.mixed):
        assert use.weights + use.gradients + use.optimiser == 16 * count
    assert found.mixed.activations < found.training.activations
    assert found.inference.weights == 4 * count and found.inference.optimiser == 0
    data = json.loads(json.dumps(found.to_dict()))
    assert data["training"]["peak"] == found.training.peak


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"tokens": -1}])
def test_sizes_below_one_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="give at least 1"):
        ram(build("gpt2", "text-generation", "meta"), **wrong)
