"""The stage-by-stage comparison: what it calls equal, and where it puts the finger when something is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer import Model
from glassformer.errors import UnsupportedError
from glassformer.evaluation.parity import (
    TOLERANCES,
    FirstDifference,
    ParityCase,
    ParityReport,
    ParityRun,
    StageDifference,
    compare_case,
    compare_stages,
    difference,
    random_cases,
    text_case,
)
from glassformer.evaluation.reference import fp64_arithmetic, reference_model
from glassformer.models import FAMILIES
from glassformer.weights.load import export_weights

TASKS = {"bert": "fill-mask", "gpt2": "text-generation", "llama": "text-generation"}
families = pytest.mark.parametrize("name", TASKS)


def model_of(name: str, task: str | None = None, **changes: Any) -> Model:
    torch.manual_seed(1)
    family, task = FAMILIES[name], task or TASKS[name]
    model = Model.from_config({**family.tiny, **family.requires.get(task, {}), **changes}, task=task).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn_like(parameter) * 0.2
    return model


def tensors_of(model: Model) -> dict[str, Tensor]:
    tensors = export_weights(
        model.network, model.family.names(model.spec, model.task), prefixed=model.task != "feature-extraction"
    )
    return {name: tensor.clone() for name, tensor in tensors.items()}


def checked(model: Model, tensors: Mapping[str, Tensor], **options: Any) -> ParityReport:
    """The model next to a reference model made from these tensors."""
    architecture = model.family.architecture(model.task)
    token_types = model.network.embedding.spec.token_types
    return compare_stages(
        model.network,
        lambda dtype: reference_model(architecture, model.config, tensors, dtype)[0],
        model.family.names(model.spec, model.task),
        random_cases(99, 40, token_types=token_types),
        **options,
    )


# ------------------------------------------------------------------------------------------------ where they part


@pytest.mark.parametrize(
    ("name", "task"),
    [(name, task) for name in TASKS for task in FAMILIES[name].tasks],
)
def test_equal_models_are_equal_at_every_stage(name: str, task: str) -> None:
    model = model_of(name, task)
    report = checked(model, tensors_of(model))
    assert report.equal and report.first is None
    assert {run.precision for run in report.runs} == {"fp32", "fp64"}
    stages = [d.stage for d in report.runs[0].stages]
    blocks = [f"blocks.{i}.{tap}" for i in range(3) for tap in ("attn.out", "ffn.out", "out")]
    fields = model.network.head.FIELDS if model.network.head else ()
    assert stages == ["embed.out", *blocks, "final", *fields]
    assert all(d.absolute > 0 for d in report.runs[0].stages[-1:]), "nothing was computed apart"


@families
@pytest.mark.parametrize(
    ("ours", "stage"),
    [
        ("embed.tokens.weight", "embed.out"),
        ("blocks.1.attn.qkv.weight", "blocks.1.attn.out"),
        ("blocks.1.attn.out.weight", "blocks.1.attn.out"),
        ("blocks.1.ffn.down.weight", "blocks.1.ffn.out"),
        ("blocks.2.attn_residual.{norm}.weight", "blocks.2.{first}"),
        ("final_norm.weight", "final"),
        ("head.decoder.bias", "logits"),
    ],
)
def test_a_tampered_tensor_is_pinned_to_its_stage(name: str, ours: str, stage: str) -> None:
    post = name == "bert"  # where the norm of a sub-layer stands: behind it, or before
    ours = ours.format(norm="on_residual" if post else "before")
    stage = stage.format(first="ffn.out" if post else "attn.out")
    model = model_of(name)
    tensors = tensors_of(model)
    parameters = dict(model.named_parameters())
    if ours not in parameters:
        assert (name, ours) in {
            ("bert", "final_norm.weight"),
            ("gpt2", "head.decoder.bias"),
            ("llama", "head.decoder.bias"),
        }
        return  # this family has no such tensor
    with torch.no_grad():
        parameters[ours] *= 1.01
    report = checked(model, tensors)
    assert not report.equal
    assert report.first is not None
    first = report.first
    assert first.stage == stage and first.absolute > first.tolerance


def test_fp64_sees_what_fp32_cannot() -> None:
    """An eps of 1e-6 where the checkpoint says 2e-6 is lost in the rounding of fp32."""
    model = model_of("llama", rms_norm_eps=1e-6)
    tensors = tensors_of(model)
    model.config["rms_norm_eps"] = 2e-6
    report = checked(model, tensors)
    assert all(d.within for run in report.runs if run.precision == "fp32" for d in run.stages)
    assert report.first is not None and report.first.precision == "fp64" and report.first.stage == "blocks.0.attn.out"


def test_a_nan_is_a_difference() -> None:
    model = model_of("gpt2")
    tensors = tensors_of(model)
    with torch.no_grad():
        dict(model.named_parameters())["blocks.1.ffn.up.bias"][0] = float("nan")
    report = checked(model, tensors)
    assert report.first is not None and report.first.stage == "blocks.1.ffn.out"


def test_scores_in_fp32_by_config_do_not_stop_the_fp64_run() -> None:
    model = model_of("gpt2", reorder_and_upcast_attn=True)
    assert checked(model, tensors_of(model)).equal


# ---------------------------------------------------------------------------------------------------- the measure


def test_a_difference_is_judged_absolutely_or_relatively() -> None:
    big = torch.tensor([1000.0, 1.0])
    assert difference("x", big + 0.05, big, 1e-4).within  # 5e-5 of the largest number
    assert not difference("x", big + 0.5, big, 1e-4).within
    small = torch.tensor([1e-6, 2e-6])
    assert difference("x", small * 2, small, 1e-4).within  # below 1e-4 as it is
    exact = difference("x", big, big, 1e-9)
    assert exact == StageDifference("x", 0.0, 0.0, 1e-9)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_never_equal(bad: float) -> None:
    good, broken = torch.zeros(2), torch.tensor([0.0, bad])
    for ours, theirs in ((good, broken), (broken, good), (broken, broken)):
        assert not difference("x", ours, theirs, 1e9).within


def test_shapes_must_be_equal() -> None:
    assert not difference("x", torch.zeros(2, 3), torch.zeros(3, 2), 1.0).within
    assert difference("x", torch.zeros(0, 3), torch.zeros(0, 3), 1.0).within


def test_the_first_stage_is_the_first_in_the_network() -> None:
    def run(*absolute: float) -> list[StageDifference]:
        return [StageDifference(f"stage {i}", a, a, 1.0) for i, a in enumerate(absolute)]

    runs = [("fp32", "a", run(0, 0, 2)), ("fp32", "b", run(0, 0, 0)), ("fp64", "a", run(0, 3, 3))]
    report = ParityReport([ParityRun(*each) for each in runs])
    assert report.first == FirstDifference("fp64", "a", "stage 1", 3, 3, 1.0)
    assert ParityReport([ParityRun("fp32", "a", run(0, 0))]).equal


# ------------------------------------------------------------------------------------------------------ the inputs


@pytest.mark.parametrize(("vocabulary", "longest"), [(2, 1), (3, 2), (50, 7), (50, None), (30_000, 512)])
@pytest.mark.parametrize("hidden", [0, 1])
def test_random_cases_fit_the_model(vocabulary: int, longest: int | None, hidden: int) -> None:
    cases = random_cases(vocabulary, longest, token_types=2, hidden=hidden)
    assert [case.name for case in cases] == ["random ids", "padded right", "padded left"]
    for case in cases:
        assert case.token_types is not None and case.ids.shape == case.keep.shape == case.token_types.shape
        assert (
            case.ids.min() >= 0
            and case.ids.max() < vocabulary
            and 0 <= case.token_types.min() <= case.token_types.max() < 2
        )
        assert case.ids.shape[1] <= (longest or 48)
        assert (case.ids[case.keep] != hidden).all() and (case.ids[~case.keep] == hidden).all()
    assert cases[2].left and not cases[1].left
    again = random_cases(vocabulary, longest, token_types=2, hidden=hidden)
    assert all(torch.equal(a.ids, b.ids) for a, b in zip(cases, again, strict=True))


def test_text_is_padded_on_the_right() -> None:
    case = text_case([[5, 6, 7], [8]], hidden=9)
    assert case.ids.tolist() == [[5, 6, 7], [8, 9, 9]]
    assert case.keep.tolist() == [[True, True, True], [True, False, False]]


# -------------------------------------------------------------------------------------------------- the reference


def test_widened_lifts_the_steps_that_stay_in_fp32() -> None:
    half = nn.functional.softmax(torch.tensor([1.0, 2.0], dtype=torch.float64), dim=-1, dtype=torch.float32)
    assert half.dtype == torch.float32
    with fp64_arithmetic(torch.float64):
        x = torch.tensor([1.0, 2.0], dtype=torch.float64)
        assert nn.functional.softmax(x, dim=-1, dtype=torch.float32).dtype == torch.float64
        assert x.to(torch.float32).dtype == x.float().dtype == torch.float64
        assert torch.arange(3, dtype=torch.float32).dtype == torch.float64
        assert x.to(torch.bfloat16).dtype == torch.bfloat16
    with fp64_arithmetic(torch.float32):
        assert torch.zeros(1).double().float().dtype == torch.float32


def test_the_reference_opens_no_file_and_no_connection(tmp_path: Any) -> None:
    """Nor does a config that asks for code, an adapter or a kernel make it."""
    code = f"""
import os, sys, torch
os.chdir({str(tmp_path)!r})
from glassformer import Model
from glassformer.evaluation.reference import reference_model
from glassformer.models import FAMILIES
from glassformer.weights.load import export_weights
model = Model.from_config(FAMILIES["gpt2"].tiny, task="text-generation")
tensors = export_weights(model.network, model.family.names(model.spec, model.task), prefixed=True)
reference_model("GPT2LMHeadModel", model.config, tensors, torch.float32)  # imports are done after this
def refuse(event, arguments):
    if event.startswith("socket."):
        raise SystemExit(f"{{event}} {{arguments}}")
    if event == "open" and str(arguments[0]).startswith({str(tmp_path)!r}):
        raise SystemExit(f"opened {{arguments[0]}}")
sys.addaudithook(refuse)
evil = dict(auto_map={{"AutoModelForCausalLM": "evil.Model"}}, _attn_implementation="kernels-community/evil")
config = dict(model.config, _name_or_path="someone/evil", transformers_weights="evil.bin", **evil)
model, notes = reference_model("GPT2LMHeadModel", config, tensors, torch.float32)
print(type(model).__module__, model.config._attn_implementation, notes)
"""
    (tmp_path / "evil.py").write_text("raise SystemExit('ran code')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["transformers.models.gpt2.modeling_gpt2", "eager", "[]"], done.stderr[-2000:]


def test_tensors_that_the_reference_misses_are_noted() -> None:
    model = model_of("gpt2")
    tensors = tensors_of(model)
    del tensors["transformer.h.1.ln_2.weight"]
    _, notes = reference_model("GPT2LMHeadModel", model.config, tensors, torch.float32)
    assert len(notes) == 1 and "transformer.h.1.ln_2.weight" in notes[0]


def test_a_class_that_the_reference_has_not() -> None:
    with pytest.raises(UnsupportedError, match="no class 'GPT5LMHeadModel'"):
        reference_model("GPT5LMHeadModel", {}, {}, torch.float32)


def test_a_module_that_the_reference_has_not() -> None:
    gpt2, llama = model_of("gpt2"), model_of("llama")
    reference, _ = reference_model("LlamaForCausalLM", llama.config, tensors_of(llama), torch.float32)
    case = ParityCase(name="x", ids=torch.ones(1, 2, dtype=torch.long), keep=torch.ones(1, 2, dtype=torch.bool))
    with pytest.raises(UnsupportedError, match=r"LlamaForCausalLM has no module 'h\.0"):
        compare_case(gpt2.network, reference, gpt2.family.names(gpt2.spec, gpt2.task), case)


def test_the_tolerances_are_those_of_real_checkpoints() -> None:
    assert {torch.float32: 1e-4, torch.float64: 1e-9} == TOLERANCES
