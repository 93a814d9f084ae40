"""The reference library's keywords of `generate` give what they give there; others are refused by name."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import glassformer
from glassformer import ConfigError, DataError, Model, UnsupportedError
from glassformer.audio.languages import CODES
from glassformer.generation.generate import encode_prompts, prompts_for
from glassformer.generation.options import GenerationOptions
from glassformer.generation.output import GenerateOutput
from glassformer.generation.streamers import TextIteratorStreamer, TextStreamer
from glassformer.models import FAMILIES

IDS = torch.tensor([[5, 17, 3, 9], [8, 8, 40, 41]])
FEATURES = torch.randn(1, 12, 26, generator=torch.Generator().manual_seed(1))
CLASSES = {
    "gpt2": transformers.GPT2LMHeadModel,
    "t5": transformers.T5ForConditionalGeneration,
    "whisper": transformers.WhisperForConditionalGeneration,
}
TASKS = {"gpt2": "text-generation", "t5": "translation", "whisper": "automatic-speech-recognition"}
Pair = tuple[Model, Any]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    """Ours and the reference's, with the same random weights."""
    made: dict[str, Pair] = {}

    def pair(family: str) -> Pair:
        if family not in made:
            torch.manual_seed(4)
            tiny = {**FAMILIES[family].tiny, "eos_token_id": 7, "pad_token_id": 0}
            task = TASKS[family]
            ours = Model.from_config({**tiny, "decoder_start_token_id": 2} if family != "gpt2" else tiny, task=task)
            with torch.no_grad():
                for parameter in ours.eval().parameters():  # so that the next token depends on the text
                    parameter.add_(torch.randn_like(parameter) * 0.2)
            folder = tmp_path_factory.mktemp(family)
            ours.save_pretrained(folder)
            if family == "whisper":
                (folder / "generation_config.json").write_text(json.dumps(SPEECH))
            theirs: Any = CLASSES[family].from_pretrained(folder, attn_implementation="eager")
            made[family] = glassformer.load(folder, task=task), theirs.eval()
        return made[family]

    return pair


def ends_at(length: int) -> Callable[[Tensor, Any], Tensor]:
    return lambda ids, scores: torch.full((len(ids),), ids.shape[1] >= length)


class NoOdd:
    """A logits processor that bans odd tokens."""

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        odd = torch.arange(scores.shape[-1]) % 2 == 1
        return scores.masked_fill(odd, -torch.inf)


PAD = {"pad_token_id": 3}  # where it is 0, the reference fills ended beams with end tokens
BEAMS = {"num_beams": 3, "max_new_tokens": 8, **PAD}
SPEECH = {
    "lang_to_id": {"<|en|>": 8, "<|de|>": 9},
    "task_to_id": {"transcribe": 10, "translate": 12},
    **{"no_timestamps_token_id": 11, "is_multilingual": True, "decoder_start_token_id": 2, "eos_token_id": 7},
    **{"pad_token_id": 0, "suppress_tokens": [91], "begin_suppress_tokens": [20], "alignment_heads": [[0, 0]]},
}
BOTH: list[dict[str, Any]] = [
    {},
    {"max_new_tokens": 9},
    {"max_length": 11},
    {"max_new_tokens": 12, "min_length": 9, "eos_token_id": [7, 11, 12, 13, 14, 15]},
    {"max_new_tokens": 12, "min_new_tokens": 4, "eos_token_id": list(range(5, 60)), "pad_token_id": 3},
    {"max_new_tokens": 9, "suppress_tokens": list(range(30, 90))},
    {"max_new_tokens": 9, "begin_suppress_tokens": list(range(30, 90))},
    {"max_new_tokens": 9, "forced_eos_token_id": 7},
    {"max_new_tokens": 9, "logits_processor": [NoOdd()]},
    {"max_new_tokens": 9, "stopping_criteria": [ends_at(8)]},
    {"max_new_tokens": 9, "prefix_allowed_tokens_fn": lambda row, ids: [5 + row, 20 + len(ids), 30]},
    {"max_new_tokens": 9, "bad_words_ids": [[5], [6, 7]], "repetition_penalty": 1.4, "no_repeat_ngram_size": 2},
    {"generation_config": transformers.GenerationConfig(max_new_tokens=7, num_beams=2, length_penalty=0.5), **PAD},
    {"generation_config": transformers.GenerationConfig(max_length=30, top_p=0.9), "max_new_tokens": 3},
    {**BEAMS, "num_return_sequences": 2, "early_stopping": True, "eos_token_id": list(range(5, 20))},
    {**BEAMS, "stopping_criteria": [ends_at(7)]},
    {**BEAMS, "logits_processor": [NoOdd()], "length_penalty": 0.3},
    {**BEAMS, "use_cache": False, "min_length": 8},
]  # fmt: skip
ANSWERS: list[dict[str, Any]] = [
    {"max_new_tokens": 9, "decoder_start_token_id": 5},
    {"max_new_tokens": 9, "forced_bos_token_id": 5},
    {"max_new_tokens": 9, "decoder_input_ids": torch.tensor([[2, 9, 11], [2, 8, 12]])},
    {"max_new_tokens": 9, "decoder_input_ids": torch.tensor([[9], [8]])},
    {**BEAMS, "decoder_start_token_id": 5},
]  # fmt: skip
ROWS = [("gpt2", given) for given in BOTH] + [("t5", given) for given in [*BOTH, *ANSWERS]]


@pytest.mark.parametrize(("family", "given"), ROWS)
def test_as_the_reference(pairs: Callable[[str], Pair], family: str, given: dict[str, Any]) -> None:
    ours, theirs = pairs(family)
    beams = given.get("num_beams", 1) > 1
    output = {"return_dict_in_generate": True, "output_scores": True, "output_logits": not beams}
    mask = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1]])
    output["output_logits"] &= "generation_config" not in given
    mine = ours.generate(input_ids=IDS, attention_mask=mask, **output, **given)
    expected = theirs.generate(input_ids=IDS, attention_mask=mask, **output, **given)
    assert isinstance(mine, GenerateOutput) and mine.sequences.tolist() == expected.sequences.tolist()
    assert mine.keys() <= expected.keys() and mine[0] is mine["sequences"]
    for name in ("scores", "logits", "sequences_scores"):
        here, there = getattr(mine, name), getattr(expected, name, None)
        assert (here is None) == (there is None), name
        if isinstance(here, tuple):
            assert there is not None and len(here) == len(there)
            torch.testing.assert_close(here, there, atol=2e-5, rtol=2e-5)
        elif here is not None:
            torch.testing.assert_close(here, there, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize(
    "given",
    [{"language": "de"}, {"language": "German"}, {"language": "<|en|>", "num_beams": 3}, {"task": "translate"}],
)
def test_speech_as_the_reference(pairs: Callable[[str], Pair], given: dict[str, Any]) -> None:
    """The reference neither counts nor returns the tokens of language and task; ours are new tokens."""
    ours, theirs = pairs("whisper")
    expected = theirs.generate(FEATURES, max_new_tokens=6, **({"language": "en"} | given))
    assert ours.generate(input_features=FEATURES, max_new_tokens=6, **given)[:, 4:].tolist() == expected.tolist()


def test_a_language_or_a_task_that_is_not_known(pairs: Callable[[str], Pair]) -> None:
    ours, _ = pairs("whisper")
    assert ours.generate(FEATURES, language="de", task="translate", max_new_tokens=4).tolist()[0][:4] == [2, 9, 12, 11]
    with pytest.raises(ConfigError, match="language is 'xx'; this model knows de, en"):
        ours.generate(FEATURES, language="xx")


def test_languages_have_the_names_of_the_field() -> None:
    from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

    assert CODES == TO_LANGUAGE_CODE


def test_samples_are_sounds(pairs: Callable[[str], Pair], tmp_path: Path) -> None:
    pairs("whisper")[0].save_pretrained(tmp_path)
    settings = {"feature_size": 12, "hop_length": 160, "n_fft": 400, "sampling_rate": 16_000, "chunk_length": 1}
    processor = {"feature_extractor_type": "WhisperFeatureExtractor", **settings}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))
    model = glassformer.load(tmp_path, task="automatic-speech-recognition")
    wave = torch.randn(4_000, generator=torch.Generator().manual_seed(2))
    reader: Any = model.processor
    expected = reader(wave, 16_000)["input_features"]
    for prompt in (wave, wave.numpy(), [wave.numpy()], (wave,)):
        prompts = prompts_for(model, prompt)
        assert prompts is not None and len(prompts) == 1
        assert encode_prompts(model, prompts, None, 16_000)[0].equal(expected)
    with pytest.raises(DataError, match="give sample_rate_hz"):
        model.generate(wave.numpy())


@pytest.fixture(scope="module")
def stories(shared: Path) -> Model:
    return glassformer.load(shared / "models" / "stories260k")


def test_what_is_no_prompt(pairs: Callable[[str], Pair], stories: Model) -> None:
    ours, _ = pairs("gpt2")
    assert ours.generate(bos_token_id=5).tolist() == ours.generate(torch.tensor([[5]])).tolist()
    refused = [
        (torch.zeros(0, 4, dtype=torch.long), "which holds no prompt; give at least one row"),
        (torch.randn(2, 4), r"input_ids is float32 of shape \[2, 4\]"),
        (torch.randn(4), r"input_ids is float32 of shape \[4\]"),
        (IDS.numpy(), "token ids are a tensor"),
        (torch.randn(4).numpy(), "token ids are a tensor"),
    ]
    for prompt, message in refused:
        with pytest.raises(DataError, match=message):
            ours.generate(prompt)
    with pytest.raises(ConfigError, match="sample_rate_hz is that of sounds"):
        ours.generate(IDS, sample_rate_hz=16_000)
    with pytest.raises(UnsupportedError, match="reads no token_type_ids other than 0"):
        ours.generate(IDS, token_type_ids=torch.ones_like(IDS))
    assert ours.generate(IDS, token_type_ids=torch.zeros_like(IDS)).equal(ours.generate(IDS))
    assert stories.generate(**stories.tokenizer("One day", return_tensors="pt"), max_new_tokens=3).shape[0] == 1


def test_options_in_an_object(pairs: Callable[[str], Pair]) -> None:
    ours, _ = pairs("gpt2")
    expected = ours.generate(IDS, max_new_tokens=4, num_beams=2)
    for config in ({"num_beams": 2, "max_length": 50}, GenerationOptions(num_beams=2)):
        assert ours.generate(IDS, generation_config=config, max_new_tokens=4).equal(expected)
    assert ours.generate(IDS, generation_config={"temperature": 0.5, "max_new_tokens": 4}).shape == (2, 8)


# -------------------------------------------------------------------------------------------------------- streamers


def test_text_as_it_comes(stories: Model, capsys: pytest.CaptureFixture[str]) -> None:
    ids = stories.tokenizer("One day", return_tensors="pt")["input_ids"]
    tokenizer = stories.tokenizer
    result = stories.generate(ids, streamer=TextStreamer(tokenizer), max_new_tokens=8)
    assert capsys.readouterr().out == tokenizer.decode(result[0]) + "\n"
    stories.generate(ids, streamer=TextStreamer(tokenizer, skip_prompt=True), max_new_tokens=8)
    assert capsys.readouterr().out == tokenizer.decode(result[0, ids.shape[1] :]) + "\n"
    streamer = TextIteratorStreamer(tokenizer, timeout=300, skip_special_tokens=True)
    thread = Thread(target=stories.generate, args=(ids,), kwargs={"streamer": streamer, "max_new_tokens": 8})
    thread.start()
    assert "".join(streamer) == tokenizer.decode(result[0], skip_special_tokens=True)
    thread.join()


def test_a_streamer_of_ones_own(pairs: Callable[[str], Pair]) -> None:
    class Record:
        def __init__(self) -> None:
            self.values: list[Any] = []

        def put(self, value: Tensor) -> None:
            self.values.append(value.tolist())

        def end(self) -> None:
            self.values.append("end")

    ours, theirs = pairs("gpt2")
    mine, expected, failed = Record(), Record(), Record()
    ours.generate(IDS[:1], streamer=mine, max_new_tokens=4)
    theirs.generate(IDS[:1], streamer=expected, max_new_tokens=4)
    assert mine.values == expected.values
    with pytest.raises(DataError):
        ours.generate(IDS[:1], streamer=failed, max_new_tokens=1_000_000)
    assert failed.values == ["end"]  # or who waits for it would wait for ever
    several: list[dict[str, Any]] = [{"num_beams": 2}, {"num_return_sequences": 2, "do_sample": True}]
    for given in several:
        with pytest.raises(ConfigError, match="a streamer takes the tokens of one row"):
            ours.generate(IDS[:1], streamer=Record(), **given)


# ------------------------------------------------------------------------------------------------------- the results


@pytest.mark.parametrize("given", [{}, {"num_beams": 2}, {"max_new_tokens": 0}, {"prompt_lookup_num_tokens": 2}])
def test_results_are_normal_tensors(pairs: Callable[[str], Pair], given: dict[str, Any]) -> None:
    ours, _ = pairs("gpt2")
    result = ours.generate(IDS, return_scores=True, **given)
    assert not any(x.is_inference() for x in vars(result).values() if isinstance(x, Tensor))
    result.ids[0, 0] = 1
    assert int(IDS[0, 0]) == 5
    logits = ours(input_ids=result.ids).logits
    assert logits is not None and logits.requires_grad
    if "num_beams" not in given:
        assert not any(tokens.is_inference() for tokens in ours.stream(IDS, **given))


def test_no_dropout_in_training_mode() -> None:
    tiny = {**FAMILIES["gpt2"].tiny, "resid_pdrop": 0.5, "embd_pdrop": 0.5}
    model = Model.from_config(tiny, task="text-generation").eval()
    expected = model.generate(IDS, max_new_tokens=12)
    model.train()
    assert all(model.generate(IDS, max_new_tokens=12).equal(expected) for _ in range(3))
    tokens = model.stream(IDS, max_new_tokens=12)
    assert torch.stack(list(tokens), dim=1).equal(expected[:, 4:])
    assert all(module.training for module in model.network.modules() if isinstance(module, nn.Dropout))


def test_a_text_that_is_cut_is_no_match(stories: Model) -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 9}
    with pytest.warns(UserWarning, match="1 of 1 texts ended before their end token, by max_new_tokens"):
        stories.generate("One day", json_schema=schema, max_new_tokens=5)
    with pytest.warns(UserWarning, match="only the beginning of a match"):
        list(stories.stream("One day", json_schema=schema, max_new_tokens=5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stories.generate("One day", choices=["a", "b"], max_new_tokens=9)
    for number in (10**300, 2**53 + 1, float("inf")):
        with pytest.raises(ConfigError, match="json_schema holds"):
            stories.generate("One day", json_schema={"anyOf": [{"type": "integer", "minimum": number}]})
