"""The model as a PyTorch module: whatever takes an `nn.Module` takes a model."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel
from torch.utils.data import DataLoader

from glassformer import Model, load
from glassformer.errors import ConfigError
from glassformer.models import FAMILIES
from tests.e2e.tiny_models import make_folder

IDS = torch.tensor([[1, 4, 5, 2], [1, 6, 7, 2]])
TEXT = "time flies like an arrow"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("bert"), "bert", task="text-classification")


@pytest.fixture
def model(folder: Path) -> Model:
    return load(folder)


def saved(model: Model) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES: dict[str, Callable[[Model], Model]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "torch.save": saved,
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("prepared", [False, True])
def test_a_copy_is_a_whole_model(model: Model, how: str, prepared: bool) -> None:
    if prepared:
        model.prepare("fp32")
    twin = COPIES[how](model)
    assert type(twin) is Model and twin.family is model.family and twin.config == model.config
    assert not twin.training and repr(twin) == repr(model)
    with torch.no_grad():
        assert torch.equal(twin(IDS).logits, model(IDS).logits)
    assert (twin.encode(TEXT) == model.encode(TEXT)).all()
    if how != "copy":
        assert not {p.data_ptr() for p in twin.parameters()} & {p.data_ptr() for p in model.parameters()}


@pytest.mark.parametrize("name", list(FAMILIES))
def test_every_family_is_pickled(name: str, tmp_path: Path) -> None:
    model = load(make_folder(tmp_path, name))
    twin = pickle.loads(pickle.dumps(model))
    assert twin.family is model.family and list(twin.state_dict()) == list(model.state_dict())
    assert twin.has_tokenizer == model.has_tokenizer
    copied = copy.deepcopy(model)
    assert len(list(copied.parameters())) == len(list(model.parameters())), "tied tensors stay tied"
    assert all(a is not b for a, b in zip(copied.parameters(), model.parameters(), strict=True))


def test_parameters_have_the_names_of_the_network(model: Model) -> None:
    names = [name for name, _ in model.network.named_parameters()]
    assert [name for name, _ in model.named_parameters()] == names == list(model.state_dict())
    assert [name for name, _ in model.named_parameters(prefix="m")] == [f"m.{name}" for name in names]
    assert dict(model.named_buffers()).keys() == dict(model.network.named_buffers()).keys()
    assert model.get_parameter("blocks.0.attn.out.weight") is model.network.blocks[0].attn.out.weight
    assert model.get_submodule("head") is model.network.head
    doubled = {name: 2 * x.detach() for name, x in model.named_parameters()}
    assert not torch.equal(torch.func.functional_call(model, doubled, (IDS,)).logits, model(IDS).logits)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = model.nothing


class Wrapper(nn.Module):
    def __init__(self, model: Model) -> None:
        super().__init__()
        self.body = model
        self.out = nn.Linear(2, 1)

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.out(self.body(ids).logits)
        return x


def test_state_is_loaded_alone_and_in_a_larger_module(model: Model, folder: Path) -> None:
    other = load(folder, overrides={"num_labels": 2})
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    result = model.load_state_dict(other.state_dict())
    assert not result.missing_keys and not result.unexpected_keys
    assert torch.equal(model(IDS).logits, other(IDS).logits)
    assert not model.load_state_dict(other.state_dict(), assign=True).missing_keys
    model.network.load_state_dict(other.state_dict())  # the network's own names

    one, two = Wrapper(load(folder)), Wrapper(other)
    assert "body.blocks.0.attn.out.weight" in one.state_dict()
    assert list(one.state_dict()) == [name for name, _ in one.named_parameters()]
    assert one.get_parameter("body.blocks.0.attn.out.weight") is one.body.network.blocks[0].attn.out.weight
    one.load_state_dict(two.state_dict())
    assert torch.equal(one(IDS), two(IDS))
    state = two.state_dict()
    del state["body.blocks.0.attn.out.weight"]
    with pytest.raises(RuntimeError, match=r"attn\.out\.weight"):
        one.load_state_dict({**state, "body.more": torch.zeros(1)})


def test_training_by_hand(model: Model) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen: list[int] = []
    handle = model.register_forward_hook(lambda module, args, output: seen.append(len(output.logits)))
    before = model(IDS, labels=torch.tensor([0, 1])).loss
    for _ in range(5):
        optimizer.zero_grad()
        model.train()(IDS, labels=torch.tensor([0, 1])).loss.backward()
        optimizer.step()
    assert model.training and model.network.training and not model.eval().network.training
    assert model(IDS, labels=torch.tensor([0, 1])).loss.item() < before.item()
    handle.remove()
    assert seen == [2] * 7
    assert not any(p.requires_grad for p in model.requires_grad_(False).parameters())


@pytest.mark.parametrize("change", ["half", "bfloat16", "double", "float", "cpu"])
def test_dtypes_and_devices(folder: Path, change: str) -> None:
    model = load(folder)
    assert getattr(model, change)() is model
    dtype = {"half": torch.float16, "bfloat16": torch.bfloat16, "double": torch.float64}.get(change, torch.float32)
    assert model.dtype is dtype and model(IDS).logits.dtype is dtype and model.device.type == "cpu"


def test_meta_has_shapes_and_no_weights(model: Model) -> None:
    assert model.to("meta").device.type == "meta" and model.to_empty(device="cpu").device.type == "cpu"


def test_accelerate_and_data_parallel(model: Model, folder: Path) -> None:
    from accelerate import Accelerator

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    accelerator = Accelerator(cpu=True, mixed_precision="bf16")
    prepared, optimizer = accelerator.prepare(model, optimizer)
    output = prepared(IDS, labels=torch.tensor([0, 1]))
    assert output.logits.dtype is torch.float32, "accelerate widens what autocast made narrow"
    accelerator.backward(output.loss)
    assert all(p.grad is not None for p in prepared.network.head.parameters())
    optimizer.step()
    assert accelerator.unwrap_model(prepared) is model
    plain = load(folder)
    assert torch.equal(DataParallel(plain)(IDS).logits, plain(IDS).logits)


def test_distributed(folder: Path, tmp_path: Path) -> None:
    # In a process that ends without destroying its group: the threads of that may wait for the interpreter lock, while
    # who destroys it holds the lock and waits for them.
    script = f"""
import os, torch
from torch.nn.parallel import DistributedDataParallel
from glassformer import load
torch.distributed.init_process_group("gloo", init_method="file://{tmp_path}/store", rank=0, world_size=1)
model = DistributedDataParallel(load({str(folder)!r}).train())
model(torch.tensor({IDS.tolist()}), labels=torch.tensor([0, 1])).loss.backward()
assert all(p.grad is not None for p in model.module.parameters())
assert {{name.removeprefix("module.") for name in model.state_dict()}} == set(model.module.state_dict())
print("equal", flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout == "equal\n", done.stderr


class Encoded(torch.utils.data.Dataset[Any]):
    """Examples that a worker makes with the model itself."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return self.model.encode([TEXT, "time"][index])


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_a_data_loader(model: Model, start: str) -> None:
    rows = DataLoader(Encoded(model), batch_size=2, num_workers=1, multiprocessing_context=start, timeout=300)
    torch.testing.assert_close(next(iter(rows)), torch.from_numpy(model.encode([TEXT, "time"])))


def test_narrow_weights_still_refuse_gradients(model: Model) -> None:
    with pytest.raises(ConfigError, match="gradients are asked for"):
        copy.deepcopy(model.prepare("int8")).train()(IDS)


@pytest.fixture(autouse=True)
def accelerate_forgets() -> Iterator[None]:
    """accelerate keeps what it was told in a state of the process."""
    yield
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)


FORKED = """
import os, signal, sys, torch
import glassformer
torch.set_num_threads(2)
model = glassformer.load(sys.argv[1])
texts = ["time flies like an arrow"] * 64
vectors = model.encode(texts)  # in two threads
child = os.fork()
if not child:
    signal.alarm(60)  # of a child that waits for threads of its parent
    same = abs(model.encode(texts) - vectors).max() < 1e-5
    os._exit(0 if same and torch.get_num_threads() == 1 else 3)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert torch.get_num_threads() == 2
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_of_a_process_with_threads_computes(minilm: Path) -> None:
    environment = {name: x for name, x in os.environ.items() if name not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    subprocess.run([sys.executable, "-c", FORKED, str(minilm)], check=True, timeout=120, env=environment)
