"""Marian with two vocabularies: a table for each side, perhaps a third for the head, and a tokenizer for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import glassformer
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.models import FAMILIES
from tests.parity.sides import close, perturb
from tests.text.families import marian as write_pieces
from tests.text.families import pieces_of

SOURCE, TARGET = 99, 70
UNTIED = {
    **FAMILIES["marian"].tiny,
    "share_encoder_decoder_embeddings": False,
    "decoder_vocab_size": TARGET,
    "pad_token_id": 0,
}
IDS = torch.tensor([[98, 5, 71, 2], [7, 80, 97, 2]])  # some of them in the source's vocabulary alone


def both(folder: Path, **changes: Any) -> tuple[Any, glassformer.Model]:
    torch.manual_seed(3)
    theirs = transformers.MarianMTModel(transformers.MarianConfig.from_dict({**UNTIED, **changes})).eval()
    perturb(theirs)
    theirs.save_pretrained(folder)
    return theirs, glassformer.load(folder, strict=True)


@pytest.mark.parametrize("family", ["marian", "pegasus"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_table_of_positions_must_be_the_one_that_is_computed(tmp_path: Path, family: str, dtype: torch.dtype) -> None:
    model = glassformer.Model.from_config(FAMILIES[family].tiny, task="translation")
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    table = model.network.encoder.embed.positions(torch.arange(40)[None], torch.float32)[0]
    shuffled, narrow = table.flip(0), table[:, :-1].contiguous()
    for stored, fits in ((table, True), (shuffled, False), (narrow, False)):
        tensors["model.encoder.embed_positions.weight"] = stored.to(dtype)
        save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
        if fits:
            assert not glassformer.load(tmp_path, strict=True).report.unused
        else:
            with pytest.raises(UnsupportedError, match=r"embed_positions\.weight in the file is not the table"):
                glassformer.load(tmp_path)


@pytest.mark.parametrize("tied_head", [True, False])
@pytest.mark.parametrize("beams", [1, 3])
@torch.no_grad()
def test_it_writes_what_the_reference_writes(tmp_path: Path, tied_head: bool, beams: int) -> None:
    theirs, ours = both(tmp_path, tie_word_embeddings=tied_head)
    decoder_ids = torch.tensor([[2, 69, 4], [2, 9, 11]])
    output = ours(IDS, decoder_input_ids=decoder_ids)
    assert output.logits is not None and output.logits.shape == (2, 3, TARGET)
    close(output.logits, theirs(IDS, decoder_input_ids=decoder_ids).logits, 1e-5)
    options: dict[str, Any] = {"num_beams": beams, "max_new_tokens": 8}
    expected = theirs.generate(IDS, do_sample=False, **options)
    assert torch.equal(ours.generate(IDS, **options), expected)


@pytest.mark.parametrize("tied_head", [True, False])
@torch.no_grad()
def test_it_is_saved_as_it_was(tmp_path: Path, tied_head: bool) -> None:
    theirs, ours = both(tmp_path / "theirs", tie_word_embeddings=tied_head)
    tables = {ours.network.encoder.embed.tokens, ours.network.decoder.embed.tokens, ours.network.head.decoder}
    assert len({table.weight.data_ptr() for table in tables}) == 3 - tied_head
    ours.save_pretrained(tmp_path / "ours")
    again = transformers.MarianMTModel.from_pretrained(tmp_path / "ours").eval()
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name


def test_ids_beyond_either_vocabulary_are_named(tmp_path: Path) -> None:
    _, ours = both(tmp_path)
    assert (ours.network.vocabulary, ours.network.target_vocabulary) == (SOURCE, TARGET)
    with pytest.raises(DataError, match=r"decoder_input_ids .*70"):
        ours(IDS, decoder_input_ids=torch.tensor([[2, TARGET], [2, 3]]))
    with pytest.raises(DataError, match=r"input_ids .*99"):
        ours.generate(torch.tensor([[SOURCE]]))
    with pytest.raises(ConfigError, match="another vocabulary for each"):
        ours.generate(IDS, encoder_no_repeat_ngram_size=2)
    with pytest.raises(ConfigError, match="num_beams is 80, and the vocabulary has 70"):
        ours.generate(IDS, num_beams=80)


def with_tokenizers(folder: Path) -> tuple[Any, Path]:
    """A model with a vocabulary a language, and the files of both."""
    folder.mkdir()
    write_pieces(folder)  # source.spm and target.spm; their common vocab.json is replaced
    sizes = {}
    for name, path in (("source", "vocab.json"), ("target", "target_vocab.json")):
        file = pieces_of(folder / f"{name}.spm")
        pieces = [file.id_to_piece(i) for i in range(3, len(file))]
        tokens = ["<pad>", "<unk>", "</s>", *pieces]
        sizes[name] = len(tokens)
        numbers = {token: number for number, token in enumerate(tokens)}
        (folder / path).write_text(json.dumps(numbers), encoding="utf-8")
    settings = {"separate_vocabs": True, "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    theirs, _ = both(folder, vocab_size=sizes["source"], decoder_vocab_size=sizes["target"])
    return theirs, folder


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@torch.no_grad()
def test_texts_are_read_with_one_and_written_with_the_other(tmp_path: Path) -> None:
    theirs, folder = with_tokenizers(tmp_path / "model")
    reference = transformers.MarianTokenizer.from_pretrained(folder)
    text = "the head of a layer"
    ids = theirs.generate(**reference(text, return_tensors="pt"), do_sample=False, num_beams=1, max_new_tokens=9)
    expected = reference.decode(ids[0], skip_special_tokens=True)
    glassformer.load(folder).save_pretrained(tmp_path / "saved")
    for place in (folder, tmp_path / "saved"):
        ours = glassformer.load(place)
        assert ours.generate(text, max_new_tokens=9) == expected != ""
        assert "".join(ours.stream(text, max_new_tokens=9)) == expected
        session = ours.inspect(text, "a layer")
        words = [token.text for token in session.streams["target"]][1:]
        assert words == ours.tokenizer.target.decode(ours.tokenizer.target.encode("a layer")[:-1]).split()
    (tmp_path / "saved" / "target_tokenizer.json").unlink()
    with pytest.raises(DataError, match=r"its folder has no tokenizer for that"):
        glassformer.load(tmp_path / "saved").generate(text, max_new_tokens=2)
