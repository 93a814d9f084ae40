"""Models of many languages: the source's code around a text, the target's at the head of the answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer import ConfigError
from glassformer.tasks.generate.settings import code_of, split_task
from glassformer.text import Tokenizer

Folders = Callable[..., Path]
TEXT = "Everything below runs as it stands"


@pytest.fixture(scope="module")
def mbart(folder_of: Folders) -> Path:
    return folder_of("mbart", "MBartForConditionalGeneration", max_position_embeddings=64, forced_bos_token_id=None)


def test_mbart_as_the_reference(mbart: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(mbart, dtype=torch.float32).eval()
    translate = glassformer.pipeline("translation", mbart, src_lang="de_DE", tgt_lang="fr_XX", max_new_tokens=8)
    tokenizer = glassformer.load(mbart).tokenizer
    codes = {code: tokenizer.convert_tokens_to_ids(code) for code in ("en_XX", "de_DE", "fr_XX")}

    plain = tokenizer.encode(TEXT)
    assert plain[-1] == codes["en_XX"]
    ids = torch.tensor([[*plain[:-1], codes["de_DE"]]])
    assert tokenizer.in_language("de_DE").encode(TEXT) == ids[0].tolist()
    expected = model.generate(ids, forced_bos_token_id=codes["fr_XX"], max_new_tokens=8, do_sample=False, num_beams=1)
    assert expected[0, 1] == codes["fr_XX"]
    (result,) = translate(TEXT)
    assert result.translation_text == tokenizer.decode(expected[0], skip_special_tokens=True)
    assert translate([TEXT, "a vector"])[0] == [result]

    model = glassformer.load(mbart)
    mine = model.generate(ids, forced_bos_token_id=codes["fr_XX"], max_new_tokens=8)
    assert mine.tolist() == expected.tolist()
    assert glassformer.pipeline("translation_de_to_fr", model, max_new_tokens=8)(TEXT) == [result]  # short codes
    other = glassformer.pipeline("translation", model, tgt_lang="fr_XX", max_new_tokens=8)
    assert other(TEXT) == [{"translation_text": _said(model, torch.tensor([plain]), codes["fr_XX"])}]
    assert glassformer.pipeline("translation", model, src_lang="de_DE").model is model  # it is not changed
    assert model.tokenizer.encode(TEXT) == plain


def _said(model: Any, ids: torch.Tensor, first: int) -> str:
    found = model.generate(ids, forced_bos_token_id=first, max_new_tokens=8)
    text: str = model.tokenizer.decode(found[0], skip_special_tokens=True)
    return text


def test_marian_of_many_languages(folder_of: Folders) -> None:
    place = folder_of("marian", "MarianMTModel", max_position_embeddings=64)
    translate = glassformer.pipeline("translation", place, src_lang="en", tgt_lang="fra", max_new_tokens=5)
    plain = glassformer.pipeline("translation", place, max_new_tokens=5)
    assert translate(TEXT) == plain(f">>fra<< {TEXT}")
    ids = plain.model.tokenizer.encode(f">>fra<< {TEXT}")
    assert plain.model.tokenizer.convert_ids_to_tokens(ids[0]) == ">>fra<<"
    with pytest.raises(ConfigError, match="tgt_lang is 'deu', and this tokenizer has no token for that language"):
        glassformer.pipeline("translation", place, tgt_lang="deu")
    assert glassformer.pipeline("translation_en_to_deu", place).task == "translation_en_to_deu"  # a model of two


def test_codes(mbart: Path, folder_of: Folders) -> None:
    tokenizer = Tokenizer.from_folder(mbart)
    assert [code_of(tokenizer, name) for name in ("de_DE", "de", "xx", "e")] == ["de_DE", "de_DE", None, None]
    assert split_task("translation_en_to_de") == ("en", "de") and split_task("translation_en_XX_to_de_DE") == (
        "en_XX",
        "de_DE",
    )
    assert split_task("translation") is None
    with pytest.raises(ConfigError, match="has no token 'xx_XX'"):
        tokenizer.in_language("xx_XX")
    with pytest.raises(ConfigError, match="no language code"):
        Tokenizer.from_folder(folder_of("t5", "T5ForConditionalGeneration")).in_language("▁the")
    with pytest.raises(ConfigError, match="src_lang is 'xx'"):
        glassformer.pipeline("translation", mbart, src_lang="xx")


def test_a_first_token_is_an_encoder_decoders(mbart: Path, folder_of: Folders) -> None:
    llama = glassformer.load(folder_of("llama", "LlamaForCausalLM"))
    with pytest.raises(ConfigError, match="begins the answer of an encoder-decoder"):
        llama.generate("time", forced_bos_token_id=3)
    for wrong in (-1, 10**6, "de"):
        with pytest.raises(ConfigError, match="forced_bos_token_id"):
            glassformer.load(mbart).generate("time", forced_bos_token_id=wrong)
