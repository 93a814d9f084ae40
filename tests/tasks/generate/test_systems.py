"""Systems by name: baselines, encoder-decoders that answer, decoders that go on behind TL;DR."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer import ConfigError, UnsupportedError, load
from glassformer.tasks.generate.long import ChunkAndMerge
from glassformer.tasks.generate.prompts import tldr
from glassformer.tasks.generate.systems import model_system, named_systems
from tests.e2e.tiny_models import make_folder

TEXT = "time flies like an arrow. fruit flies like a banana."


def test_baselines() -> None:
    (lead,) = named_systems(["lead-1"], "summarization")
    assert (lead.name, lead.write(["One. Two."])) == ("lead-1", ["One."])
    with pytest.raises(ConfigError, match="0 sentences"):
        named_systems(["lead-0"], "summarization")
    with pytest.raises(ConfigError, match="lead-3 is a baseline for summaries"):
        named_systems(["lead-3"], "translation")


@pytest.mark.parametrize("family", ["t5", "bart", "pegasus"])
def test_encoder_decoders_answer(tmp_path: Path, family: str) -> None:
    folder = make_folder(tmp_path / family, family)
    (system,) = named_systems([str(folder)], "summarization", max_new_tokens=5)
    assert system.name == family
    assert system.write([TEXT]) == [load(folder).generate(TEXT, max_new_tokens=5).strip()]
    (system,) = named_systems([str(folder)], "translation", max_new_tokens=5, num_beams=2)
    assert system.write([TEXT]) == [load(folder).generate(TEXT, max_new_tokens=5, num_beams=2).strip()]


def test_what_the_makers_put_before_a_text(tmp_path: Path) -> None:
    told = {"summarization": {"prefix": "a banana "}, "translation_en_to_de": {"prefix": "no "}}
    folder = make_folder(tmp_path / "t5", "t5", task_specific_params=told)
    model = load(folder)
    wanted = model.generate("a banana " + TEXT, max_new_tokens=5).strip()
    assert model_system(model, "summarization", "t5", max_new_tokens=5).write([TEXT]) == [wanted]
    other = model_system(model, "summarization", "t5", max_new_tokens=5, prefix="an arrow ")
    assert other.write([TEXT]) == [model.generate("an arrow " + TEXT, max_new_tokens=5).strip()]


def test_documents_longer_than_the_model_go_through_chunks(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "bart", "bart")  # 64 positions
    system = model_system(load(folder), "summarization", "bart", max_new_tokens=5)
    assert isinstance(system.write, ChunkAndMerge) and system.write.room == 64
    (summary,) = system.write([TEXT * 40])
    assert isinstance(summary, str)


def test_a_decoder_goes_on_behind_tldr(shared: Path) -> None:
    model = load(shared / "models" / "stories260k")
    system = model_system(model, "summarization", "stories", max_new_tokens=8)
    text = "Once upon a time there was a little girl. She had a dog."
    assert system.write([text]) == [model.generate(tldr(text), max_new_tokens=8).strip()]
    assert len(system.write([text * 40])) == 1  # 512 positions
    with pytest.raises(UnsupportedError, match="stories continues texts; for translation give"):
        model_system(model, "translation", "stories")
    with pytest.raises(ConfigError, match="stories reads 512 tokens; with 512 new ones there is no room"):
        model_system(model, "summarization", "stories", max_new_tokens=512)


def test_names(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        make_folder(tmp_path / place / "t5", "t5")
    paths = [str(tmp_path / place / "t5") for place in ("a", "b")]
    assert [system.name for system in named_systems(paths, "summarization")] == paths
    with pytest.raises(ConfigError, match="two systems are called"):
        named_systems([paths[0], paths[0]], "summarization")


def test_a_model_that_does_not_write(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "bert", "bert")
    with pytest.raises(UnsupportedError, match=r"bert was loaded for .*; to be compared it must write"):
        named_systems([str(folder)], "summarization")
