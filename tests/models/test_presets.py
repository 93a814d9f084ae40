"""Presets: parameter counts equal those published with the models."""

from __future__ import annotations

import json

import pytest

from glassformer.models import FAMILIES, ConfigReader, Network
from glassformer.models.presets import PRESETS

EXACT = {
    # Counted in the published checkpoints themselves: the numbers of all tensors in the safetensors files on the Hub.
    "openai-gpt": 116_534_784,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "bert-base-uncased": 109_482_240,
    "bert-large-uncased": 335_141_888,
    "bert-base-cased": 108_310_272,
    "distilbert-base-uncased": 66_362_880,
    "roberta-base": 124_645_632,
    "roberta-large": 355_359_744,
    "xlm-roberta-base": 278_043_648,
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
    "llama-33b": 32_528_943_616,
    "llama-65b": 65_285_660_672,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "phi-1": 1_418_270_720,
    "phi-2": 2_779_683_840,
    "phi3-mini": 3_821_079_552,
    "qwen2-0.5b": 494_032_768,
    "qwen2-1.5b": 1_543_714_304,
    "qwen2-7b": 7_615_616_512,
    "qwen2-72b": 72_706_203_648,
    "bart-base": 139_420_416,
    "bart-large": 406_291_456,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
    "vit-base-patch16": 86_567_656,
    "vit-large-patch16": 304_326_632,
}

ROUNDED = {
    # What papers and announcements say, and how near that is.
    "transformer-base": (65e6, 0.03),  # Vaswani et al. 2017, table 3; the vocabulary is "about 37000"
    "transformer-big": (213e6, 0.01),  # the same
    "modernbert-base": (149e6, 0.01),  # Warner et al. 2024, section 2.1.2, and the next
    "modernbert-large": (395e6, 0.01),
    "nomic-embed-text": (137e6, 0.01),  # Nussbaum et al. 2024, abstract
    "gpt3-125m": (125e6, 0.01),  # Brown et al. 2020, table 2.1, and the next five
    "gpt3-350m": (350e6, 0.02),
    "gpt3-760m": (760e6, 0.01),
    "gpt3-2.7b": (2.7e9, 0.02),
    "gpt3-6.7b": (6.7e9, 0.01),
    "gpt3-175b": (175e9, 0.005),
    "xlm-roberta-large": (550e6, 0.02),  # Conneau et al. 2020, section 5.1
    "llama2-7b": (6.7e9, 0.01),  # the table of Llama 1 has it to two digits; the sizes are the same
    "llama2-13b": (13.0e9, 0.01),
    "llama3.1-405b": (405e9, 0.005),  # Grattafiori et al. 2024, table 3
    "mixtral-8x22b": (141e9, 0.005),  # the announcement of April 2024
    "phi-1.5": (1.3e9, 0.1),  # Li et al. 2023, section 2, leaves the table of tokens out
    "pegasus-large": (568e6, 0.005),  # Zhang et al. 2020, section 6
    "bert-large-cased": (340e6, 0.02),  # Devlin et al. 2019, section 3
    "whisper-tiny": (39e6, 0.04),  # Radford et al. 2022, table 1, and the next four
    "whisper-base": (74e6, 0.02),
    "whisper-small": (244e6, 0.01),
    "whisper-medium": (769e6, 0.01),
    "whisper-large": (1550e6, 0.005),
    "vit-huge-patch14": (632e6, 0.001),  # Dosovitskiy et al. 2021, table 1
}


def built(name: str) -> Network:
    config = PRESETS[name].config
    family = FAMILIES[config["model_type"]]
    return family.build_on_meta(family.spec(ConfigReader(config)), family.architectures[config["architectures"][0]])


def count(name: str) -> int:
    return sum(parameter.numel() for parameter in built(name).parameters())


@pytest.mark.parametrize(("name", "parameters"), EXACT.items())
def test_parameters_are_those_of_the_checkpoint(name: str, parameters: int) -> None:
    assert count(name) == parameters


@pytest.mark.parametrize("name", ROUNDED)
def test_parameters_are_near_what_was_published(name: str) -> None:
    published, near = ROUNDED[name]
    assert count(name) == pytest.approx(published, rel=near)


def test_405b() -> None:
    assert round(count("llama3.1-405b") / 1e9, 1) == 405.9


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_config_that_is_read_whole(name: str) -> None:
    preset = PRESETS[name]
    reader = ConfigReader(json.loads(json.dumps(preset.config)))
    FAMILIES[preset.config["model_type"]].spec(reader)
    assert not reader.unused_key_warnings()
    assert preset.source
    assert preset.training_tokens is None or 1e9 < preset.training_tokens < 1e14


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_published_count_and_needs_no_memory(name: str) -> None:
    later = {"llama3.1-8b": "llama3-8b", "llama3.1-70b": "llama3-70b"}  # longer texts, the same network
    assert name in EXACT or name in ROUNDED or count(name) == count(later[name])
    assert all(parameter.is_meta for parameter in built(name).parameters())


def test_two_gpt3s_are_left_out_since_their_paper_contradicts_itself() -> None:
    """Brown et al. 2020, table 2.1: (width, heads, head width) that cannot all be true."""
    assert 24 * 128 != 2048 and 40 * 128 != 5140
    assert not {"gpt3-1.3b", "gpt3-xl", "gpt3-13b"} & set(PRESETS)
