"""Pedals from sound: trained by a configuration, written token by token, scored next to a plain classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from glassformer_guitar import PEDALS
from glassformer_guitar.naming import NamePedals
from glassformer_guitar.naming.baselines import mel_means, predict_pedals
from glassformer_guitar.naming.cepstrum import BANDS, cepstral_bands
from glassformer_guitar.naming.chains import TOKENS, write_chains
from glassformer_guitar.naming.scores import chain_scores

import glassformer
from glassformer.core.flow import Batch, Flow
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.evaluate import evaluate
from glassformer.model import Model
from glassformer.models import FAMILIES
from glassformer.runs.config import parse_config
from glassformer.training.run import make_trainer

SMALL = {
    "model_type": "whisper",
    **{"num_mel_bins": 16, "max_source_positions": 25, "max_target_positions": 12, "d_model": 16},
    **{"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2},
    **{"encoder_ffn_dim": 32, "decoder_ffn_dim": 32},
}
CLIPS = {"kind": "guitar", "seconds": 0.5, "contents": ["note"], "pedals": {"fuzz": 0.5, "delay": 0.5}}


def made(**changes: int) -> Model:
    torch.manual_seed(0)
    return Model.from_config(
        NamePedals.head_config(None, SMALL | changes, own=False, columns=None, options={}), task=NamePedals.HEAD
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
    task = NamePedals(model).for_evaluation()
    task.train_examples = lambda: task.encode(rows)  # as a run keeps them
    (_, kept) = task.baselines(rows, found.predictions)
    assert all(one.correct for one in kept.predictions)


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
    features = torch.randn(5, 16, 50, generator=torch.Generator().manual_seed(1))
    written = write_chains(model, features, [1] * 5)
    together = names_of(written)
    assert together == names_of([write_chains(model, row[None], [1])[0] for row in features])
    assert all(len(chain) <= len(PEDALS) + 1 and set(chain) <= set(PEDALS) for chain in together)
    assert all(1 / 10 <= probability <= 1 for chain in written for _, probability in chain), "the best of ten"
    ids = torch.tensor([[1]])
    with torch.no_grad():
        logits = model.network(Batch(input_features=features[:1], decoder_input_ids=ids), Flow()).logits[0, -1]
    first = int(logits[2:].argmax()) + 2
    assert together[0][:1] == ([] if first == 2 else [list(PEDALS)[first - 3]])


def names_of(chains: list[list[tuple[str, float]]]) -> list[list[str]]:
    return [[name for name, _ in chain] for chain in chains]


def test_windows_of_a_recording_write_one_chain_by_their_mean_log_probabilities() -> None:
    model = made().eval()
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter += torch.randn_like(parameter) * 0.3
    features = torch.randn(5, 16, 50, generator=torch.Generator().manual_seed(1))
    alone, three, same = write_chains(model, features[[0, 1, 2, 3, 4, 4]], [1, 3, 2])
    assert [alone] == write_chains(model, features[:1], [1])
    twice, once = (write_chains(model, features[rows], [len(rows)])[0] for rows in ([4, 4], [4]))
    assert same == twice and names_of([twice]) == names_of([once])
    assert [p for _, p in twice] == pytest.approx([p for _, p in once])
    with torch.no_grad():
        batch = Batch(input_features=features[1:4], decoder_input_ids=torch.ones(3, 1, dtype=torch.long))
        logits = model.network(batch, Flow()).logits[:, -1, 2:]
    mean = logits.log_softmax(-1).mean(0)
    expected = [] if int(mean.argmax()) == 0 else [(list(PEDALS)[int(mean.argmax()) - 1], float(mean.softmax(0).max()))]
    assert names_of([three[:1]]) == names_of([expected])
    assert [p for _, p in three[:1]] == pytest.approx([p for _, p in expected])


def test_spectrograms_of_a_new_model_are_those_of_the_options(tmp_path: Path) -> None:
    task = NamePedals(model := made(), window_samples=1024, hop_samples=320)
    assert (task.windows.samples, task.windows.extractor.window_samples) == (16_000, 1024)
    model.save_pretrained(tmp_path)
    again = glassformer.load(tmp_path, offline=True)
    assert NamePedals(again).windows.extractor == task.windows.extractor
    with pytest.raises(ConfigError, match="reads spectrograms with n_fft 1024, not 400"):
        NamePedals(again, window_samples=400)
    with pytest.raises(ConfigError, match="hop_samples is 0; it must be a whole number of samples from 16 up"):
        NamePedals(made(), hop_samples=0)


def test_a_cepstrum_peaks_at_the_delay_of_a_copy() -> None:
    noise = torch.randn(1, 16_000, generator=torch.Generator().manual_seed(0))
    alone = cepstral_bands(noise, 16_000, 320)
    assert alone.shape == (1, BANDS, 50)
    for seconds in (0.003, 0.0202):
        echo = torch.nn.functional.pad(noise, (round(seconds * 16_000), 0))[:, :16_000]
        rise = (cepstral_bands(noise + 0.8 * echo, 16_000, 320) - alone).mean((0, 2))
        assert int(rise.argmax()) == int((seconds - 0.0005) / 0.00025 + 1e-6), "bands of a quarter of a millisecond"
    assert cepstral_bands(torch.zeros(1, 16_000), 16_000, 320).isfinite().all()


def test_a_model_with_a_cepstrum_knows_it_again(tmp_path: Path) -> None:
    task = NamePedals(model := made(num_mel_bins=16 + BANDS), hop_samples=320, cepstrum=True)
    wave = torch.randn(900, generator=torch.Generator().manual_seed(0)) * 0.2
    features = task.windows.features(wave)
    assert features.shape == (16 + BANDS, 50) and task.windows.extractor.bins == 16
    model.save_pretrained(tmp_path)
    again = glassformer.load(tmp_path, offline=True)
    assert torch.equal(NamePedals(again).windows.features(wave), features)
    assert len(names_of(write_chains(again, features[None], [1]))) == 1
    with pytest.raises(ConfigError, match="the model reads a cepstrum, and cepstrum is False; leave it out"):
        NamePedals(again, cepstrum=False)
    with pytest.raises(ConfigError, match="num_mel_bins is 16, of which 138 are bands of the cepstrum"):
        NamePedals(made(), cepstrum=True)
    with pytest.raises(ConfigError, match="cepstrum is 'yes'; it must be true or false"):
        NamePedals(made(), cepstrum="yes")  # type: ignore[arg-type]


def test_loudness_is_nothing_to_learn_from() -> None:
    windows = NamePedals(made()).windows
    wave = torch.randn(900, generator=torch.Generator().manual_seed(0)) * 0.2
    assert torch.allclose(windows.features(wave), windows.features(0.01 * wave), atol=1e-5)
    assert windows.features(torch.zeros(900)).isfinite().all()


def test_augmentation_masks_spans_in_training_alone() -> None:
    task = NamePedals(made(), augmentation={"time_masks": 1, "time_mask_seconds": 0.1, "mel_masks": 1})
    rows = read_rows([{"file": {"array": [0.1] * 900, "sampling_rate": 16_000}, "pedals": ["fuzz"]}])
    [example] = task.encode(rows)
    before = example["input_features"].copy()
    drawn = [task.perturb(example, np.random.default_rng(seed))["input_features"] for seed in range(8)]
    assert (example["input_features"] == before).all() and example["input_features"].dtype == np.float16
    assert any((one == 0).all(0).any() for one in drawn) and any((one == 0).all(1).any() for one in drawn)
    assert all((one[one != 0] == before[one != 0]).all() for one in drawn)
    with pytest.raises(ConfigError, match="augmentation: speed changes samples, and pedals are learnt from stored"):
        NamePedals(made(), augmentation={"speed": [0.9, 1.1]})


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
    waves = [torch.from_numpy(rows.clip(index).sound[0]) for index in range(2)]
    named = names_of(write_chains(task.model, torch.stack([task.windows.features(wave) for wave in waves]), [1, 1]))
    for example, row, chain in zip(shown, rows, named, strict=True):
        assert example.facts == {
            "pedals named": " → ".join(chain) or "none",
            "truly": " → ".join(row["pedals"]) or "none",
            "exact": "yes" if chain == row["pedals"] else "no",
        }
    bare = read_rows([{"file": row["file"]} for row in rows])
    assert [name for example in task.listen(bare) for name in example.facts] == ["pedals named"] * 2
    (silent,) = task.listen(read_rows([{"file": {"array": np.zeros(8_000), "sampling_rate": 16_000}}]))
    assert silent.facts == {"pedals named": "none can be heard: it is silent"}
