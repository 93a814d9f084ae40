"""Pruning while training: exact sparsity at the end, the same run however it is cut, and an ordinary folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from glassformer import load
from glassformer.compression.movement import MaskedLinear, PruningSpec, WeightPruning
from glassformer.compression.prune import prunable_weights, sparsity_of
from glassformer.core.heads import not_none
from glassformer.errors import ConfigError
from glassformer.runs.config import parse_config
from glassformer.runs.folder import read_event_log
from glassformer.training.callbacks import Callback
from tests.training.crews import together
from tests.training.tiny import BERT, GPT2, STILL, Words, digest, model_of, some, trainer_of

QUICK: dict[str, Any] = {"begin": 0.2, "end": 0.6, "every": 2}
METHODS = {
    "magnitude": PruningSpec(sparsity=0.75, **QUICK),
    "movement": PruningSpec(method="movement", sparsity=0.75, scope="layer", **QUICK),
    "movement-from-magnitudes": PruningSpec(method="movement", sparsity=0.75, first_scores="magnitude", **QUICK),
    "soft-movement": PruningSpec(method="soft-movement", penalty=3000, learning_rate=0.5, **QUICK),
    "rewinding": PruningSpec(sparsity=0.5, rewind=3, **QUICK),
}


class Watch(Callback):
    """The sparsity after each step, and something else at one of them."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.sparsity: list[float] = []
        self.fail_at = fail_at

    def on_step(self, trainer: Any, report: Any) -> None:
        self.sparsity.append(trainer.pruning.sparsity)
        if report.step == self.fail_at:
            raise RuntimeError("the power went")


def test_the_gradient_reaches_weights_that_stay_and_all_scores() -> None:
    torch.manual_seed(0)
    base = nn.Linear(3, 2)
    layer = MaskedLinear(base, torch.zeros_like(base.weight))
    layer.mask[0, 1] = layer.mask[1, 2] = False
    x, y = torch.randn(5, 3), torch.randn(5, 2)
    (layer(x) * y).sum().backward()
    through = y.T @ x  # the gradient of W · M
    assert layer.weight.grad is not None and layer.scores is not None and layer.scores.grad is not None
    torch.testing.assert_close(layer.weight.grad, through * layer.mask)
    torch.testing.assert_close(layer.scores.grad, through * base.weight.detach())
    torch.testing.assert_close(layer.plain()(x), layer(x))


@pytest.mark.parametrize("method", ["magnitude", "movement", "rewinding"])
@pytest.mark.parametrize("config", [BERT, GPT2], ids=["bert", "gpt2"])
def test_the_sparsity_grows_to_exactly_the_share_and_is_saved(
    tmp_path: Path, method: str, config: dict[str, Any]
) -> None:
    spec, watch = METHODS[method], Watch()
    kind = Words if config is GPT2 else None
    options: dict[str, Any] = {} if kind is None else {"kind": kind}
    trainer = trainer_of(
        tmp_path / "run",
        config=config,
        pruning=spec,
        steps=20,
        callbacks=[watch],
        validation=some(9, seed=3),
        **options,
    )
    trainer.train()
    assert watch.sparsity[2] == 0
    assert watch.sparsity == sorted(watch.sparsity)
    assert watch.sparsity[7] < watch.sparsity[9] < watch.sparsity[11]
    again = load(tmp_path / "run" / "model")
    for network in (trainer.model.network, again.network):
        report = sparsity_of(prunable_weights(network))
        total = sum(report.weights.values())
        assert sum(report.zeros.values()) == pytest.approx(spec.sparsity * total, abs=len(report.weights))
        assert not any(isinstance(module, MaskedLinear) for module in network.modules())
        assert not any("early" in name or "mask" in name for name, _ in network.named_buffers())
    assert not again.report.unused and not again.report.new
    for name, x in again.network.named_parameters():
        assert torch.equal(x, trainer.model.network.get_parameter(name)), name
    events = [event for event in read_event_log(tmp_path / "run" / "journal.jsonl") if event["event"] == "sparsity"]
    assert events[-1]["sparsity"] == pytest.approx(spec.sparsity, abs=0.01)


# Where pruning goes on; after its end, of which rewinding makes the most.
@pytest.mark.representative("7", "rewinding")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cut", [7, 13])
def test_cut_and_resumed_it_is_the_same_to_the_last_bit(tmp_path: Path, method: str, cut: int) -> None:
    options: dict[str, Any] = {"pruning": METHODS[method], "steps": 20, "save_every": 3}
    straight = trainer_of(tmp_path / "straight", **options)
    straight.train()
    with pytest.raises(RuntimeError, match="the power went"):
        trainer_of(tmp_path / "cut", callbacks=[Watch(fail_at=cut)], **options).train()
    resumed = trainer_of(tmp_path / "cut", **options)
    resumed.train()
    assert digest(resumed) == digest(straight)
    files = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("straight", "cut")]
    assert files[0] == files[1]


def test_only_models_with_the_final_sparsity_are_the_best(tmp_path: Path) -> None:
    trainer = trainer_of(
        tmp_path, pruning=METHODS["magnitude"], steps=20, validation=some(9, seed=3), validate_every=2, patience=2
    )
    result = trainer.train()
    assert result.best_step is not None and result.best_step >= 12
    validations = [event for event in read_event_log(tmp_path / "journal.jsonl") if event["event"] == "validation"]
    assert not any(event["best"] for event in validations if event["step"] < 12)
    assert result.steps >= 14  # patience begins with the final sparsity


def test_rewinding_gives_all_weights_those_of_the_earlier_step() -> None:
    seen: dict[int, dict[str, torch.Tensor]] = {}

    class Note(Callback):
        def on_step(self, trainer: Any, report: Any) -> None:
            seen[report.step] = {name: x.detach().clone() for name, x in trainer.network.named_parameters()}

    trainer_of(pruning=METHODS["rewinding"], steps=20, callbacks=[Note()]).train()
    assert all(torch.equal(x, seen[3][name]) for name, x in seen[12].items())
    assert any(not torch.equal(x, seen[3][name]) for name, x in seen[11].items())
    assert any(not torch.equal(x, seen[3][name]) for name, x in seen[13].items())


def test_a_penalty_makes_zeros() -> None:
    shares = []
    for penalty in (0.0, 1e5):
        watch = Watch()
        spec = PruningSpec(method="soft-movement", penalty=penalty, learning_rate=0.5, **QUICK)
        trainer_of(config={**BERT, **STILL}, pruning=spec, steps=40, callbacks=[watch]).train()
        shares.append(watch.sparsity[-1])
    assert shares[0] < 0.2 < 0.5 < shares[1]


def test_scores_have_a_rate_of_their_own_and_do_not_decay() -> None:
    trainer = trainer_of(pruning=METHODS["movement"])
    groups = {name: group for group in trainer.optimizer.param_groups for name in group["names"]}
    assert groups["blocks.0.ffn.up.scores"]["peak"] == 0.01
    assert groups["blocks.0.ffn.up.scores"]["weight_decay"] == 0
    assert groups["blocks.0.ffn.up.weight"]["weight_decay"] == 0.01
    assert trainer_of(pruning=METHODS["magnitude"]).network.get_submodule("blocks.0.ffn.up").scores is None


def test_a_run_with_other_pruning_is_another_run(tmp_path: Path) -> None:
    trainer_of(tmp_path, pruning=METHODS["magnitude"]).train()
    with pytest.raises(ConfigError, match="pruning"):
        trainer_of(tmp_path, pruning=METHODS["movement"]).train()
    with pytest.raises(ConfigError, match="pruning"):
        trainer_of(tmp_path).train()


def test_a_configuration_has_a_section() -> None:
    values = {"task": "classify", "model": "m", "output": "runs/x", "data": {"train": "rows.csv"}}
    config = parse_config({**values, "pruning": {"method": "movement", "sparsity": 0.9}})
    assert config.pruning == PruningSpec(method="movement", sparsity=0.9)
    assert parse_config(values).pruning is None


@pytest.mark.parametrize(
    ("section", "more", "message"),
    [
        ({"sparsity": 1}, {}, "pruning.sparsity is 1; .*not including, 1"),
        ({"sparsity": 0.2, "initial": 0.5}, {}, "above pruning.sparsity"),
        ({"method": "movment"}, {}, "allowed: magnitude, movement, soft-movement"),
        ({"method": "movement", "rewind": 10}, {}, "goes with method: magnitude"),
        ({"first_scores": "magnitude"}, {}, "goes with method: movement"),
        ({}, {"adapter": {"rank": 2}}, "does not go with adapter"),
        ({}, {"sharded": True}, "does not go with sharded"),
    ],
)
def test_sections_that_make_no_sense(section: dict[str, Any], more: dict[str, Any], message: str) -> None:
    values = {"task": "classify", "model": "m", "output": "runs/x", "data": {"train": "rows.csv"}, **more}
    with pytest.raises(ConfigError, match=message):
        parse_config({**values, "pruning": section})


def test_times_and_networks_that_make_no_sense() -> None:
    network = model_of(BERT, "text-classification").network
    with pytest.raises(ConfigError, match="step 8 to step 8 of 10"):
        WeightPruning(network, PruningSpec(begin=0.8, end=8), 10)
    with pytest.raises(ConfigError, match="not later than the run"):
        WeightPruning(network, PruningSpec(end=20), 10)
    with pytest.raises(ConfigError, match="before step 6"):
        WeightPruning(network, PruningSpec(begin=2, end=6, rewind=7), 10)
    network.requires_grad_(False)
    with pytest.raises(ConfigError, match="nothing to prune"):
        WeightPruning(network, PruningSpec(), 10)


def test_scores_begin_at_magnitudes() -> None:
    network = model_of(BERT, "text-classification").network
    zeros = next(iter(prunable_weights(network).values())).detach().zero_()
    spec = PruningSpec(method="movement", first_scores="magnitude", begin=0, end=1)
    for layer in WeightPruning(network, spec, 10).layers.values():
        scores, size = not_none(layer.scores).detach(), layer.weight.detach().abs()
        torch.testing.assert_close(scores * size.mean(), size)
        assert scores.mean().item() == pytest.approx(0 if layer.weight.data_ptr() == zeros.data_ptr() else 1)


def test_two_processes_choose_the_same_masks(tmp_path: Path) -> None:
    same: dict[str, Any] = {
        "config": {**BERT, **STILL},
        "pruning": METHODS["movement"],
        "steps": 20,
        "epsilon": 1e-3,
        "learning_rate": 1e-3,
        "validation": some(9, seed=3),
    }
    expected = trainer_of(tmp_path / "alone", **same).train()

    def work() -> Any:
        trainer = trainer_of(tmp_path / "both", **same)
        result = trainer.train()
        share = sparsity_of(prunable_weights(trainer.model.network)).sparsity
        mine = digest(trainer), share, result.metrics["loss"]
        trainer.distributed.close()
        return mine

    (one, share, loss), (other, *_) = together(work, tmp_path)
    assert one == other
    assert share == pytest.approx(0.75, abs=0.01)
    assert loss == pytest.approx(expected.metrics["loss"], abs=1e-3)
