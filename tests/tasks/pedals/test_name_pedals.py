"""Pedals from sound: trained by a configuration, written token by token, scored beside a plain classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer.core.flow import Batch, Flow
from glassformer.data.guitar import PEDALS
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.evaluate import evaluate
from glassformer.model import Model
from glassformer.models import FAMILIES
from glassformer.runs.config import parse_config
from glassformer.tasks.pedals import NamePedals
from glassformer.tasks.pedals.baselines import mel_means, predict_pedals
from glassformer.tasks.pedals.scores import chain_scores
from glassformer.tasks.pedals.task import TOKENS
from glassformer.training.run import make_trainer

SMALL = {
    "model_type": "whisper",
    **{"num_mel_bins": 16, "max_source_positions": 25, "max_target_positions": 12, "d_model": 16},
    **{"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2},
    **{"encoder_ffn_dim": 32, "decoder_ffn_dim": 32},
}
CLIPS = {"kind": "guitar", "seconds": 0.5, "contents": ["note"], "pedals": {"fuzz": 0.5, "delay": 0.5}}


def made() -> Model:
    torch.manual_seed(0)
    return Model.from_config(
        NamePedals.head_config(None, SMALL, own=False, columns=None, options={}), task=NamePedals.HEAD
    )  # type: ignore[arg-type]


def config(folder: Path, **changes: Any) -> Any:
    data = {
        "train": "a guitar",
        "format": {**CLIPS, "clips": 24, "part": "train"},
        "validation": "another guitar",
        "validation_format": {"clips": 6, "part": "test"},
        "ignore": ["notes"],
    }
    training = {"steps": 16, "batch_size": 8, "learning_rate": 3e-3, "validate_every": 8, "schedule": "constant"}
    return parse_config(
        {"task": "pedals", "output": str(folder), "scratch": SMALL, "data": data, "training": training, **changes}
    )


def test_from_a_configuration_to_chains_and_their_report(tmp_path: Path) -> None:
    result = make_trainer(config(tmp_path / "run")).train()
    assert result.metrics["loss"] < 2.0, "of 12 tokens, chance gives 2.5"
    model = glassformer.load(tmp_path / "run", strict=True, offline=True)
    assert model.config["vocab_size"] == 12 and model.processor.extractor.bins == 16
    rows = read_rows("more", **CLIPS, clips=8, part="test", seed=2)
    found = evaluate("pedals", NamePedals(model).for_evaluation(), rows, train=rows, resamples=20)
    assert {"exact", "f1_macro", "f1_micro", "f1_fuzz", "f1_delay"} <= set(found.report.metrics)
    assert list(found.report.baselines) == ["no pedals", "mel means"]
    assert found.report.baselines["mel means"].metrics["exact"].value == 1.0, "it has learnt these very rows"
    assert [one.label for one in found.predictions] == [row["pedals"] for row in rows]


def test_what_the_decoder_learns_is_the_chain_shifted() -> None:
    task = NamePedals(made())
    rows = read_rows([{"file": {"array": [0.1] * 900, "sampling_rate": 16_000}, "pedals": ["fuzz", "delay"]}])
    [example] = task.encode(rows)
    batch = task.collate([example])
    assert [TOKENS[i] for i in batch.labels[0].tolist()] == ["<fuzz>", "<delay>", "<end>"]
    assert [TOKENS[i] for i in batch.batch.decoder_input_ids[0].tolist()] == ["<start>", "<fuzz>", "<delay>"]
    assert example["input_features"].shape == (16, 50)


def test_chains_are_what_greedy_search_gives_and_end() -> None:
    """Row by row the same as together, with the whole network in the place of a cache."""
    model = made().eval()
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter += torch.randn_like(parameter) * 0.3
    task = NamePedals(model)
    features = torch.randn(5, 16, 50, generator=torch.Generator().manual_seed(1))
    together = task.write(features)
    assert together == [task.write(row[None])[0] for row in features]
    assert all(len(chain) <= len(PEDALS) + 1 and set(chain) <= set(PEDALS) for chain in together)
    ids = torch.tensor([[1]])
    with torch.no_grad():
        logits = model.network(Batch(input_features=features[:1], decoder_input_ids=ids), Flow()).logits[0, -1]
    first = int(logits[2:].argmax()) + 2
    assert together[0][:1] == ([] if first == 2 else [list(PEDALS)[first - 3]])


def test_scores_by_hand() -> None:
    pairs = [(["fuzz"], ["fuzz"]), (["fuzz", "delay"], ["delay"]), ([], ["delay"]), ([], [])]
    scores = chain_scores(pairs).values()
    assert scores["exact"] == 0.5 and scores["f1_micro"] == pytest.approx(4 / 6)
    assert scores["f1_fuzz"] == pytest.approx(2 / 3) and scores["f1_delay"] == pytest.approx(2 / 3)
    assert scores["f1_macro"] == pytest.approx(2 / 3), "pedals that occur nowhere have no F1"
    assert chain_scores([(["fuzz", "delay"], ["delay", "fuzz"])]).values()["exact"] == 0


def test_the_plain_classifier_learns_what_means_tell() -> None:
    draw = np.random.default_rng(0)
    chains = [[name for name in ("fuzz", "reverb") if draw.random() < 0.5] for _ in range(80)]
    features = torch.tensor(draw.standard_normal((80, 4, 10)), dtype=torch.float32) * 0.1
    for row, chain in zip(features, chains, strict=True):
        row[0] += "fuzz" in chain
        row[1] += "reverb" in chain
    means = mel_means(features)
    assert means.shape == (80, 8)
    assert predict_pedals(means[:60], chains[:60], means[60:]) == chains[60:]


def test_models_and_rows_that_it_does_not_take() -> None:
    with pytest.raises(
        ConfigError, match="does not write pedals; take the family whisper, from scratch, whose vocab_size is then 12"
    ):
        NamePedals(Model.from_config(FAMILIES["whisper"].tiny, task=NamePedals.HEAD))
    task = NamePedals(made())
    sound = {"array": [0.1] * 99, "sampling_rate": 16_000}
    with pytest.raises(DataError, match="row 0: 'phaser' is no pedal"):
        task.encode(read_rows([{"file": sound, "pedals": ["phaser"]}]))
    with pytest.raises(DataError, match="row 0: 'pedals' is 'fuzz'; it must be a list of pedals"):
        task.encode(read_rows([{"file": sound, "pedals": "fuzz"}]))
    with pytest.raises(DataError, match="'pedals'"):
        task.encode(read_rows([{"file": sound}]))


def test_it_names_pedals_of_what_is_listened_to() -> None:
    task = NamePedals(made().eval())
    rows = read_rows("some", **CLIPS, clips=2)
    shown = list(task.listen(rows))
    named = task.write(torch.stack([task.features(rows.clip(index).sound[0]) for index in range(2)]))
    for example, row, chain in zip(shown, rows, named, strict=True):
        assert dict(example.facts) == {
            "pedals named": " → ".join(chain) or "none",
            "truly": " → ".join(row["pedals"]) or "none",
            "exact": "yes" if chain == row["pedals"] else "no",
        }
    bare = read_rows([{"file": row["file"]} for row in rows])
    assert [fact[0] for example in task.listen(bare) for fact in example.facts] == ["pedals named"] * 2
