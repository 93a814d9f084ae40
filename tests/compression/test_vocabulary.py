"""Vocabulary trimming: the same tokens and vectors for the texts of one language, from a smaller table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from glassformer import Model, load
from glassformer.compression.structure import Parts
from glassformer.compression.vocabulary import TrimmedVocabulary, trim_tables, trim_vocabulary
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.models import FAMILIES
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.train import train_tokenizer
from glassformer.text.trim import trim_tokenizer, used_ids

ENGLISH = [
    "The weather is fine today and the children are playing in the garden.",
    "She has read the whole book in a single evening, again!",
    "Where can one buy good bread in this town?",
    "We were walking along the river when it began to rain.",
] * 3
GERMAN = [
    "Das Wetter ist heute schön und die Kinder spielen im Garten.",
    "Sie hat das ganze Buch an einem einzigen Abend gelesen.",
    "Wo kann man in dieser Stadt gutes Brot kaufen?",
    "Wir gingen am Fluss entlang, als es zu regnen begann.",
] * 3
RUSSIAN = [
    "Сегодня хорошая погода, и дети играют в саду.",
    "Она прочитала всю книгу за один вечер.",
    "Где в этом городе можно купить хороший хлеб?",
] * 3
KINDS = {"bert": "wordpiece", "xlm-roberta": "unigram", "roberta": "byte-bpe", "gpt2": "byte-bpe", "t5": "unigram"}


def multilingual(family: str) -> Tokenizer:
    return train_tokenizer([*ENGLISH, *GERMAN, *RUSSIAN], kind=KINDS[family], size=360, family=family)


def model_of(family: str, tokenizer: Tokenizer) -> Model:
    torch.manual_seed(0)
    special = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "pad")}
    known = {name: number for name, number in special.items() if number is not None}
    config: dict[str, Any] = {**FAMILIES[family].tiny, "vocab_size": tokenizer.largest_id + 9, **known}
    return Model.from_config(config, tokenizer=tokenizer).eval()


@pytest.mark.parametrize("family", KINDS)
def test_texts_of_the_language_have_the_same_tokens(family: str, tmp_path: Path) -> None:
    tokenizer = multilingual(family)
    ids = used_ids(tokenizer, ENGLISH)
    trimmed = trim_tokenizer(tokenizer, ids)
    assert len(trimmed) == len(ids) < len(tokenizer)
    pairs = list(zip(ENGLISH, reversed(ENGLISH), strict=True))
    for first, second in pairs:
        assert trimmed.tokenize(first, second, True) == tokenizer.tokenize(first, second, True)
        assert [ids[i] for i in trimmed.encode(first)] == tokenizer.encode(first)
        assert trimmed.decode(trimmed.encode(first)) == tokenizer.decode(tokenizer.encode(first))
    assert trimmed.special_tokens == tokenizer.special_tokens
    trimmed.save(tmp_path)
    assert Tokenizer.from_folder(tmp_path).encode(ENGLISH[0]) == trimmed.encode(ENGLISH[0])
    if KINDS[family] == "byte-bpe":
        assert trimmed.decode(trimmed.encode(RUSSIAN[0]), skip_special_tokens=True) == RUSSIAN[0]


@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "roberta"])
def test_texts_of_the_language_have_the_same_vectors(family: str, tmp_path: Path) -> None:
    tokenizer = multilingual(family)
    model = model_of(family, tokenizer)
    before = model.encode(ENGLISH)
    rows, parameters = model.network.vocabulary, sum(p.numel() for p in model.network.parameters())
    report = trim_vocabulary(model, ENGLISH)
    assert (report.tokens, report.tokens_before) == (model.network.vocabulary, rows)
    width = model.network.width
    assert report.parameters == parameters - (rows - report.tokens) * width
    assert TrimmedVocabulary.from_dict(report.to_dict()) == report
    assert abs(model.encode(ENGLISH) - before).max() < 1e-6
    model.save_pretrained(tmp_path)
    again = load(tmp_path)
    assert abs(again.encode(ENGLISH) - before).max() < 1e-6
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["vocab_size"] == report.tokens == len(again.tokenizer)
    assert config["pad_token_id"] == again.tokenizer.pad_token_id
    assert again.network.embedding.tokens.padding_idx == again.tokenizer.pad_token_id
    reader, theirs = (
        transformers.AutoTokenizer.from_pretrained(tmp_path),
        transformers.AutoModel.from_pretrained(tmp_path),
    )
    ids = reader(ENGLISH[0], return_tensors="pt")["input_ids"]
    assert ids[0].tolist() == again.tokenizer.encode(ENGLISH[0])
    with torch.no_grad():
        expected = theirs.eval()(input_ids=ids).last_hidden_state
        torch.testing.assert_close(again(input_ids=ids).last_hidden_state, expected, atol=1e-5, rtol=1e-5)


def test_a_decoder_writes_the_same_text() -> None:
    tokenizer = multilingual("gpt2")
    torch.manual_seed(0)
    config = {**FAMILIES["gpt2"].tiny, "vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id}
    model = Model.from_config(config, task="text-generation", tokenizer=tokenizer).eval()
    model.generation_config["suppress_tokens"] = [tokenizer.eos_token_id, tokenizer.encode("слово")[0]]
    prompt = tokenizer.encode(ENGLISH[0])
    with torch.no_grad():
        before = model(input_ids=torch.tensor([prompt])).logits
        trim_vocabulary(model, ENGLISH)
        after = model(input_ids=torch.tensor([model.tokenizer.encode(ENGLISH[0])])).logits
    ids = used_ids(tokenizer, ENGLISH, always=[tokenizer.eos_token_id])
    torch.testing.assert_close(after, before[..., ids])
    assert model.generation_config["suppress_tokens"][0] == model.tokenizer.eos_token_id
    assert model.config["eos_token_id"] == model.tokenizer.eos_token_id


def test_rare_tokens_can_go_too() -> None:
    tokenizer = multilingual("bert")
    once = used_ids(tokenizer, [*ENGLISH, GERMAN[0]])
    often = used_ids(tokenizer, [*ENGLISH, GERMAN[0]], least=3)
    assert set(often) < set(once)


def test_the_least_probable_piece_stays_so_that_unknown_characters_cost_the_same() -> None:
    tokenizer = multilingual("xlm-roberta")
    trimmed = trim_tokenizer(tokenizer, used_ids(tokenizer, ENGLISH))
    scores = [min(x for _, x in json.loads(t.engine.to_str())["model"]["vocab"]) for t in (tokenizer, trimmed)]
    assert scores[0] == scores[1]
    text = "The 天 weather is 天気 fine"
    assert trimmed.tokenize(text) == tokenizer.tokenize(text)


def test_what_cannot_be_trimmed() -> None:
    tokenizer = multilingual("bert")
    model = model_of("bert", tokenizer)
    with pytest.raises(DataError, match="there are none"):
        trim_vocabulary(model, [])
    with pytest.raises(ConfigError, match="special token"):
        trim_tokenizer(tokenizer, [5, 6])
    with pytest.raises(ConfigError, match="ascending"):
        trim_tables(Parts.of(model), [3, 1])
    model.generation_config["forced_decoder_ids"] = [[1, 5]]
    with pytest.raises(UnsupportedError, match="ids of tokens in 'forced_decoder_ids'"):
        trim_vocabulary(model, ENGLISH)
    assert model.network.vocabulary == tokenizer.largest_id + 9
