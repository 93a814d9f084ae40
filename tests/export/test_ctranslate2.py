"""Saved folders convert to CTranslate2 by its own converter, and give the same numbers there."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer import Model
from tests.core.small import perturbed
from tests.e2e.tiny_models import make_folder
from tests.gguf.small_models import small, tokenizer

TEXT = "Once upon a time there was"
SPECIAL = {"bos_token": "[CLS]", "eos_token": "[SEP]", "unk_token": "[UNK]"}
WORDS = "time flies like an arrow"


def whole_model(folder: Path, family: str, **changes: Any) -> Model:
    """A saved model without a zero bias, whose tokenizer has the special tokens that the converter asks for."""
    model = glassformer.load(make_folder(folder, family, **{"vocab_size": 13, "pad_token_id": 0, **changes}))
    model.tokenizer.add_special_tokens(SPECIAL)
    perturbed(model.network)
    model.save_pretrained(folder)
    return model


def converted(folder: Path) -> str:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed: pip install ctranslate2")
    from ctranslate2.converters import TransformersConverter

    return str(TransformersConverter(str(folder)).convert(str(folder / "ctranslate2")))


def array(view: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(view).copy())


@pytest.mark.parametrize("name", ["gpt2", "llama", "llama with biases", "mistral", "qwen2", "qwen3", "gemma"])
def test_decoders(name: str, tmp_path: Path) -> None:
    rows = len(tokenizer("gpt-2")) if name == "gpt2" else None  # its converter fills no vocabulary
    model = small(name, **({} if rows is None else {"vocab_size": rows}))
    model.save_pretrained(tmp_path)
    place = converted(tmp_path)
    import ctranslate2

    ids = model.tokenizer(TEXT).input_ids
    generator = ctranslate2.Generator(place, device="cpu", compute_type="float32")
    logits = array(generator.forward_batch([model.tokenizer.convert_ids_to_tokens(ids)]))[0]
    with torch.no_grad():
        expected = model(input_ids=torch.tensor([ids])).logits[0]
    torch.testing.assert_close(logits, expected, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "xlm-roberta"])
def test_encoders(family: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"dim": 32, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 24}
    if family != "distilbert":
        # RoBERTa's positions begin behind the padding id, which the converter takes to be above 0.
        sizes = {
            "pad_token_id": int("roberta" in family),
            "hidden_size": 32,
            "num_attention_heads": 4,
            "intermediate_size": 48,
            "max_position_embeddings": 24,
        }
        changes = sizes | {
            "position_embedding_type": "absolute"
        }  # the converter asks for it; published configs have it
    model = whole_model(tmp_path, family, task="feature-extraction", **changes)
    place = converted(tmp_path)
    import ctranslate2

    ids = model.tokenizer(WORDS).input_ids
    encoder = ctranslate2.Encoder(place, device="cpu", compute_type="float32")
    states = array(encoder.forward_batch([ids]).last_hidden_state)[0]
    with torch.no_grad():
        expected = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
    torch.testing.assert_close(states, expected, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("family", ["bart", "mbart", "pegasus", "t5"])
def test_encoder_decoders(family: str, tmp_path: Path) -> None:
    # PEGASUS begins with padding; mBART's converter leaves the first token to the call.
    changes: dict[str, Any] = {"decoder_start_token_id": 0 if family == "pegasus" else 2, "eos_token_id": 2}
    if family == "t5":
        changes |= {"d_model": 32, "d_kv": 8, "num_heads": 4, "d_ff": 48}
    else:  # the converter asks for these, and published configs have them
        changes |= {"normalize_before": family != "bart", "normalize_embedding": family != "pegasus"}
    model = whole_model(tmp_path, family, **changes)
    place = converted(tmp_path)
    import ctranslate2

    words = model.tokenizer
    source, target = words(WORDS).input_ids, words("fruit a banana").input_ids
    translator = ctranslate2.Translator(place, device="cpu", compute_type="float32")
    tokens = words.convert_ids_to_tokens
    start = model.config["decoder_start_token_id"]
    with torch.no_grad():
        output = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[start, *target]]))
    (scored,) = translator.score_batch([tokens(source)], [tokens([start] * (family == "mbart") + target)])
    expected = output.logits.log_softmax(-1)[0, range(len(target)), target]
    assert all(math.isfinite(x) for x in scored.log_probs)
    torch.testing.assert_close(torch.tensor(scored.log_probs[: len(target)]), expected, atol=1e-3, rtol=1e-3)


def test_whisper_encodes_the_same(tmp_path: Path) -> None:
    model = whole_model(tmp_path, "whisper")
    place = converted(tmp_path)
    import ctranslate2

    features = torch.randn(1, model.spec.bins, 2 * model.spec.positions)
    whisper = ctranslate2.models.Whisper(place, device="cpu", compute_type="float32")
    states = array(whisper.encode(ctranslate2.StorageView.from_array(features.numpy())))
    with torch.no_grad():
        expected = model.get_encoder()(input_features=features).last_hidden_state
    torch.testing.assert_close(states, expected, atol=2e-4, rtol=1e-4)
