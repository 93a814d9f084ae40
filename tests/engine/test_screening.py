"""The largest logits by bounds: those of the whole product, bit for bit, or none at all."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer import Model
from glassformer.engine import native, packed_linear, screening
from glassformer.engine.few_tokens import FewTokensProduct
from glassformer.engine.prepare import prepare, unprepare
from glassformer.engine.products import Matrix
from glassformer.engine.screening import LargestLogits, _Screen
from glassformer.errors import WeightsError
from glassformer.generation.generate import WRITING_TASKS
from glassformer.models import FAMILIES
from tests.core.small import perturbed

pytestmark = pytest.mark.skipif(not native.available(), reason="needs numba and an x86 processor")


def matrix_of(precision: str = "fp32", *, bias: bool = False, V: int = 3_000, D: int = 48) -> Matrix:
    """Rows of many lengths, some with a weight far above the others, and some that are equal."""
    draw = torch.Generator().manual_seed(3)
    weight = torch.randn(V, D, generator=draw) * torch.rand(V, 1, generator=draw).exp()
    weight[::7, 5] *= 30
    weight[40:44] = weight[20]
    return Matrix.of(weight, torch.randn(V, generator=draw) if bias else None, precision, inside=False)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("bias", [False, True])
def test_the_largest_are_those_of_the_whole_product(precision: str, k: int, bias: bool) -> None:
    matrix = matrix_of(precision, bias=bias)
    screen, product, left = _Screen(matrix), FewTokensProduct(matrix), 0
    for seed, R in enumerate((1, 1, 2, 5, 8) * 4):
        x = torch.randn(R, matrix.weight.shape[1], generator=torch.Generator().manual_seed(seed)) * 10 ** (seed % 3)
        got, wanted = screen.logits(x, matrix.bias, k), product(x)
        assert got is not None and wanted is not None
        assert torch.equal(got.topk(k).values, wanted.topk(k).values)
        assert torch.equal(got.argmax(-1), wanted.argmax(-1))
        found = got > -torch.inf
        assert torch.equal(got[found], wanted[found])
        assert bool((found | (wanted < wanted.topk(k).values[:, -1:])).all())  # ties are there
        left += int(found.sum())
    assert left / 20 < 3_000 * 3 * screening.MAX_SHARE / 3  # most are ruled out


def test_bounds_hold() -> None:
    matrix = matrix_of()
    screen = _Screen(matrix)
    x = torch.randn(1, 48, generator=torch.Generator().manual_seed(5))
    middle = screen._product(x)
    assert middle is not None
    off = (matrix.weight.double() @ x.double().T).T - middle.double()
    assert bool((off.abs() <= torch.from_numpy(screen.errors) * x.norm()).all())


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_is_not_finite_takes_the_whole_product(bad: float) -> None:
    matrix = matrix_of()
    assert _Screen(matrix).logits(torch.full((1, 48), bad), None, 3) is None
    matrix.weight[17, 3] = bad
    assert _Screen(matrix).logits(torch.zeros(1, 48), None, 3) is None


def test_what_rules_out_too_few_takes_the_whole_product() -> None:
    matrix = Matrix.of(torch.ones(3_000, 48), None, "fp32", inside=False)
    assert _Screen(matrix).logits(torch.ones(1, 48), None, 1) is None
    assert _Screen(matrix_of()).logits(torch.ones(1, 48), None, 10_000) is None


# ------------------------------------------------------------------------------------------------------- generating


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Screening of small heads too, from the first step on; how many tokens each of its steps looked at."""
    looked: list[int] = []
    original = _Screen.logits

    def logits(self: _Screen, x: Tensor, bias: Tensor | None, k: int) -> Tensor | None:
        y = original(self, x, bias, k)
        looked.append(0 if y is None else int((y > -torch.inf).sum()))
        return y

    monkeypatch.setattr(packed_linear, "LARGE", 1)
    monkeypatch.setattr(screening, "MIN_STEPS", 1)
    monkeypatch.setattr(screening, "MAX_SHARE", 0.5)
    monkeypatch.setattr(_Screen, "logits", logits)
    return looked


def model_of(family: str) -> Model:
    torch.manual_seed(0)
    able = FAMILIES[family].tasks
    task = next(task for task in WRITING_TASKS if task in able)
    model = Model.from_config({**FAMILIES[family].tiny, "vocab_size": 900}, task=task).eval()
    perturbed(model.network)
    return model


FORMS: list[dict[str, Any]] = [
    {},
    {"do_sample": True, "top_k": 5, "seed": 3, "temperature": 0.7},
    {"do_sample": True, "top_k": 8, "top_p": 0.9, "seed": 4},
    {"min_new_tokens": 7, "bad_words_ids": [[7], [20, 21]], "no_repeat_ngram_size": 2},
    {"do_sample": True, "top_k": 4, "seed": 4, "min_new_tokens": 7, "suppress_tokens": [5, 6, 700]},
]


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "bart", "t5"])
def test_generated_tokens_are_the_same(family: str, at_once: list[int]) -> None:
    model = model_of(family)
    prompts = torch.randint(5, 800, (2, 6), generator=torch.Generator().manual_seed(1))
    for form in FORMS:
        options = {"max_new_tokens": 8, "min_new_tokens": None, **form}
        wanted = model.unprepare().generate(prompts, **options)
        model.prepare("fp32")
        assert torch.equal(model.generate(prompts, **options), wanted)
        assert any(at_once), form
        at_once.clear()


@pytest.mark.parametrize(
    "options",
    [
        {"return_scores": True},
        {"repetition_penalty": 1.2},
        {"do_sample": True, "seed": 1, "top_p": 0.9},
        {"do_sample": True, "seed": 1, "top_k": 5, "repetition_penalty": 1.2},
        {"penalty_alpha": 0.6, "top_k": 4},
        {"prompt_lookup_num_tokens": 3},
        {"num_beams": 2},
    ],
    ids=str,
)
def test_who_reads_other_logits_gets_them(options: dict[str, Any], at_once: list[int]) -> None:
    model = model_of("gpt2").prepare("fp32")
    model.generate(torch.tensor([[5, 6, 7, 5, 6]]), max_new_tokens=4, **options)
    assert not at_once


def test_levels_are_made_when_they_pay(at_once: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screening, "MIN_STEPS", 5)
    model = model_of("gpt2").prepare("fp32")
    model.generate(torch.tensor([[5, 6]]), max_new_tokens=4)
    assert not at_once
    model.generate(torch.tensor([[5, 6]]), max_new_tokens=4)
    assert len(at_once) == 4


def test_int8_has_nothing_to_gain(at_once: list[int]) -> None:
    model_of("gpt2").prepare("int8").generate(torch.tensor([[5, 6]]), max_new_tokens=4)
    assert not at_once


def test_copies_and_unprepare(at_once: list[int]) -> None:
    network = model_of("gpt2").network
    prepare(network, "fp32")
    head = network.require_head()
    for other in (copy.deepcopy(head), pickle.loads(pickle.dumps(head))):
        assert isinstance(other.largest_logits, LargestLogits) and other.largest_logits._screen is None
    unprepare(network)
    assert head.largest_logits is None  # type: ignore[attr-defined]


def test_changed_weights_are_seen(at_once: list[int]) -> None:
    model = model_of("gpt2").prepare("fp32")
    prompt = torch.tensor([[5, 6]])
    model.generate(prompt, max_new_tokens=3)
    with torch.no_grad():
        model.network.require_head().decoder.weight.mul_(-1)  # type: ignore[union-attr]
    got = model.generate(prompt, max_new_tokens=3)
    assert torch.equal(got, model.unprepare().generate(prompt, max_new_tokens=3))


def test_a_damaged_head_is_named(at_once: list[int]) -> None:
    model = model_of("gpt2")
    with torch.no_grad():
        model.network.require_head().decoder.weight[3, 0] = torch.nan  # type: ignore[union-attr]
    with pytest.raises(WeightsError, match="NaN"):
        model.prepare("fp32").generate(torch.tensor([[5, 6]]), max_new_tokens=3)


def test_a_forced_token_is_looked_for_among_all(at_once: list[int]) -> None:
    model = model_of("bart")
    options = {"max_new_tokens": 6, "forced_bos_token_id": 9, "forced_eos_token_id": 2}
    wanted = model.generate(torch.tensor([[5, 6, 7]]), **options)
    assert model.prepare("fp32").generate(torch.tensor([[5, 6, 7]]), **options).equal(wanted)
    assert wanted[0, 1] == 9 and len(at_once) == wanted.shape[1] - 3
