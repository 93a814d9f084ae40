"""Stop strings that are, or hold, special tokens end a text, as in the reference library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

import glassformer
from glassformer import Model, hf

PROMPT, END = "hi", "<|im_end|>"
METHODS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beams": {"num_beams": 3},
    "sampling": {"do_sample": True, "seed": 1},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GPT-2 over single bytes and two special tokens, one of which ends a turn and is not its end token."""
    folder = tmp_path_factory.mktemp("turns")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    engine = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    engine.add_special_tokens(["<|endoftext|>", END])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=engine, eos_token="<|endoftext|>")
    tokenizer.save_pretrained(folder)
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64, "eos_token_id": tokenizer.eos_token_id}
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=len(tokenizer), **sizes)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return glassformer.load(folder)


@pytest.fixture
def scripted(model: Model) -> Callable[[Tensor, Tensor], Tensor]:
    """A logits processor with which every row continues its prompt with this text."""
    script = model.tokenizer("ab<|im_end|>cdefg").input_ids
    prompt = len(model.tokenizer(PROMPT).input_ids)

    def say(ids: Tensor, scores: Tensor) -> Tensor:
        # The others are so far behind that no beam or draw takes them.
        scores = torch.full_like(scores, -1e4)
        scores[:, script[min(ids.shape[1] - prompt, len(script) - 1)]] = 0
        return scores

    return say


@pytest.mark.parametrize("stop", [END, "b<|im_end|>", "|im_end|>", "never", "cd"])
@pytest.mark.parametrize("method", METHODS)
def test_special_tokens_count_in_stop_strings(
    model: Model, folder: Path, scripted: Any, method: str, stop: str
) -> None:
    given: dict[str, Any] = {"max_new_tokens": 6, "stop_strings": [stop]}
    ours = model.generate(PROMPT, **given, **METHODS[method], logits_processor=[scripted], return_scores=True)
    options = {name: value for name, value in METHODS[method].items() if name != "seed"}
    reference = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = reference.generate(
        torch.tensor([tokenizer(PROMPT)["input_ids"]]),
        tokenizer=tokenizer,
        pad_token_id=0,
        logits_processor=transformers.LogitsProcessorList([scripted]),
        **({"do_sample": False} | given | options),
    )
    assert model.tokenizer.decode(ours.new_ids[0]) == tokenizer.decode(theirs[0])[len(PROMPT) :]
    assert ours.reasons == (["max_new_tokens"] if stop == "never" else ["stop_string"])
    assert ours.texts == [{END: "ab", "b<|im_end|>": "ab", "|im_end|>": "ab", "never": "abcde", "cd": "abcd"}[stop]]


def test_batches_streams_and_the_names_of_hugging_face(model: Model, folder: Path, scripted: Any) -> None:
    options: dict[str, Any] = {"max_new_tokens": 6, "stop_strings": [END], "logits_processor": [scripted]}
    assert model.generate([PROMPT, PROMPT], **options) == ["ab", "ab"]
    assert "".join(model.stream(PROMPT, **options)) == "ab"
    named = hf.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    ids = named.generate(**tokenizer(PROMPT, return_tensors="pt"), tokenizer=tokenizer, **options)
    assert tokenizer.decode(ids[0]) == "hiab<|im_end|>"


def test_rows_stop_by_themselves(model: Model) -> None:
    """One row says the marker at once, the other never does."""
    marker, letter = model.tokenizer(END).input_ids[0], model.tokenizer("x").input_ids[0]

    def say(ids: Tensor, scores: Tensor) -> Tensor:
        scores = torch.full_like(scores, -1e4)
        scores[0, marker] = scores[1, letter] = 0
        return scores

    given = {"max_new_tokens": 3, "stop_strings": END, "logits_processor": [say]}
    result = model.generate(["hi", "ho"], **given, return_scores=True)
    assert result.texts == ["", "xxx"]
    assert result.reasons == ["stop_string", "max_new_tokens"]
