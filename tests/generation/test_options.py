"""Wrong options are refused, with what to do; a folder's rules hold, its method does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer import ConfigError, DataError, Model, UnsupportedError, load
from glassformer.generation.defaults import GenerationDefaults
from glassformer.generation.options import GenerationOptions
from glassformer.models import FAMILIES

IDS = torch.tensor([[5, 17, 3, 9]])
SETTINGS = GenerationDefaults({}, {"eos_token_id": 2}, 99)


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(4)
    model = Model.from_config(FAMILIES["gpt2"].tiny, task="text-generation").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


@pytest.fixture(scope="module")
def stories(shared: Path) -> Model:
    return load(shared / "models" / "stories260k")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"temprature": 0.7}, r"generate\(…\) takes no 'temprature'; nearest: 'temperature'"),
        ({"streamer": 1}, r"streamer is 1; it must have the methods put\(ids\) and end\(\)"),
        ({"min_length": 3, "min_new_tokens": 3}, "give one of them: min_length counts"),
        ({"return_dict_in_generate": True, "return_scores": True}, "leave one out"),
        ({"return_dict_in_generate": 1.5}, "it must be True or False"),
        ({"generation_config": 3}, "generation_config is 3; it must be a dict of options"),
        ({"generation_config": {"tempo": 3}}, "takes no 'tempo'"),
        ({"inputs": IDS}, "the prompt is given more than once"),
        ({"guidance_scale": 1.5}, "a logits_processor changes the logits"),
        ({"sequence_bias": {(99,): 1.0}}, "sequence_bias names the token 99"),
        ({"sequence_bias": [3]}, "words with a bias each"),
        ({"past_key_values": 1}, "the cache is generate.s own"),
        ({"stopping_criteria": [lambda ids, scores: 3]}, "it must return a bool, or one for each of the 1 rows"),
        ({"prefix_allowed_tokens_fn": lambda row, ids: []}, "no token is allowed"),
        ({"prefix_allowed_tokens_fn": lambda row, ids: [99]}, "it must return a list of token ids, from 0 to 98"),
        ({"prefix_allowed_tokens_fn": lambda row, ids: None}, "prefix_allowed_tokens_fn returned None"),
        ({"logits_processor": [lambda ids, logits: None]}, "a logits_processor returned NoneType"),
        ({"logits_processor": [lambda ids, logits: logits[:, :3]]}, r"returned \[1, 3\]; it must return logits"),
        ({"stopping_criteria": [lambda ids, scores: None]}, "stopping_criteria returned None"),
        ({"decoder_input_ids": IDS}, "this model has no encoder"),
        ({"generation_config": {3: 1}}, "takes no 3"),
        ({"suppress_tokens": [99]}, "allowed: 0 to 98"),
        ({"language": "en"}, "options of speech models"),
        ({"num_beams": 2, "length_penalty": 100}, "it must be a number from -10 to 10"),
        ({"temperature": 10**400, "do_sample": True}, "it must be a number above 0"),
        ({"repetition_penalty": 1e300}, "it must be a number above 0"),
        ({"seed": 10**5000, "do_sample": True}, "it must be a whole number"),
        ({"num_return_sequences": 2**70, "do_sample": True}, "it must be a whole number"),
        ({"max_time": float("inf")}, "it must be a number of seconds"),
        ({"max_new_tokens": -1}, "max_new_tokens is -1; it must be a whole number from 0 up"),
        ({"max_new_tokens": 2.0}, "max_new_tokens is 2.0"),
        ({"max_new_tokens": True}, "max_new_tokens is True"),
        ({"max_length": 0}, "max_length is 0; it must be a whole number from 1 up"),
        ({"max_length": 9, "max_new_tokens": 2}, "give one of them"),
        ({"max_time": 0}, "max_time is 0; it must be a number of seconds above 0"),
        ({"temperature": 0, "do_sample": True}, "do_sample=False takes the most likely token"),
        ({"temperature": -1.0, "do_sample": True}, "temperature is -1.0"),
        ({"temperature": float("nan"), "do_sample": True}, "temperature is nan"),
        ({"temperature": "hot", "do_sample": True}, "temperature is 'hot'"),
        ({"temperature": 0.5}, "greedy search does not sample; add do_sample=True"),
        ({"top_k": 5}, "add do_sample=True"),
        ({"top_k": -1, "do_sample": True}, "top_k is -1; it must be a whole number from 1 up, or 0"),
        ({"top_p": 0.0, "do_sample": True}, "top_p is 0.0; it must be a number above 0 and up to 1"),
        ({"top_p": 1.1, "do_sample": True}, "top_p is 1.1"),
        ({"min_p": 1.5, "do_sample": True}, "min_p is 1.5; it must be a number from 0 to 1"),
        ({"typical_p": 0, "do_sample": True}, "typical_p is 0"),
        ({"do_sample": 1}, "do_sample is 1; it must be True or False"),
        ({"seed": 1.5}, "seed is 1.5; it must be a whole number"),
        ({"num_beams": 0}, "num_beams is 0"),
        ({"num_beams": 100}, "num_beams is 100, and the vocabulary has 99 tokens; ask for fewer"),
        ({"num_beams": 3, "num_return_sequences": 4}, "there are no more answers than beams"),
        ({"num_beams": 3, "num_beam_groups": 2}, "it must be a multiple"),
        ({"num_beams": 3, "early_stopping": "soon"}, "early_stopping is 'soon'; it must be True, False or 'never'"),
        ({"num_return_sequences": 2}, "greedy search has one answer"),
        ({"length_penalty": 1.0}, "num_beams is 1; ask for more"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0; it must be a number above 0"),
        ({"no_repeat_ngram_size": -2}, "no_repeat_ngram_size is -2"),
        ({"bad_words_ids": [[]]}, "a list of words, each a list of token ids"),
        ({"bad_words_ids": [5]}, "a list of words, each a list of token ids"),
        ({"bad_words_ids": [[99]]}, "bad_words_ids names the token 99; allowed: 0 to 98"),
        ({"bad_words": [""]}, "none of them empty"),
        ({"stop_strings": ["a", 3]}, "none of them empty"),
        ({"eos_token_id": "</s>"}, "a token id, or a list of them"),
        ({"eos_token_id": 99}, "allowed: 0 to 98"),
        ({"min_new_tokens": 30}, "at most 20 new tokens are generated; raise max_new_tokens"),
        ({"max_length": 4}, "max_length is 4, and the rows begin with 4 tokens"),
    ],
)  # fmt: skip
def test_what_is_refused(model: Model, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        model.generate(IDS, **given)


def test_what_beams_do_not_do(model: Model) -> None:
    with pytest.raises(UnsupportedError, match="num_beams"):
        model.generate(IDS, num_beams=2, top=3)


def test_what_is_not_streamed(model: Model) -> None:
    with pytest.raises(ConfigError, match="without beams"):
        model.stream(IDS, num_beams=2)
    with pytest.raises(DataError, match="takes one text"):
        model.stream(["a", "b"])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="takes no 'tempo'"):
        model.stream(IDS, tempo=2)  # at once, not when the first token is asked for


def test_none_is_not_asked_for() -> None:
    assert GenerationOptions.resolve({"temperature": None, "num_beams": 1}, SETTINGS) == GenerationOptions()


def test_max_length_counts_the_prompt(model: Model) -> None:
    assert model.generate(IDS, max_length=9).equal(model.generate(IDS, max_new_tokens=5))


def test_end_tokens_of_ones_own(model: Model) -> None:
    free = model.generate(IDS, max_new_tokens=10)[0, 4:].tolist()
    result = model.generate(IDS, max_new_tokens=10, eos_token_id=[free[3]], return_scores=True)
    assert result.new_ids[0].tolist() == free[: free.index(free[3]) + 1]
    assert result.reasons == ["end_token"]
    longer = model.generate(IDS, max_new_tokens=10, eos_token_id=free[3], min_new_tokens=8)[0, 4:].tolist()
    assert free[3] not in longer[:8] and len(longer) >= 8


def test_beams_are_searched(model: Model) -> None:
    result = model.generate(IDS, num_beams=4, num_return_sequences=3, return_scores=True, max_new_tokens=6)
    assert result.ids.shape == (3, 10) and result.scores.tolist() == sorted(result.scores.tolist(), reverse=True)
    sampled = [model.generate(IDS, num_beams=4, do_sample=True, seed=seed, max_new_tokens=6) for seed in (1, 1, 2)]
    assert sampled[0].equal(sampled[1]) and not sampled[0].equal(sampled[2])
    assert model.generate(IDS, num_beams=4, max_new_tokens=0).equal(IDS)


def test_bad_words_are_texts(stories: Model) -> None:
    free = stories.generate("Once upon a time", max_new_tokens=30)
    assert "girl" in free
    without = stories.generate("Once upon a time", max_new_tokens=30, bad_words=["girl", "boy"])
    assert "girl" not in without and "boy" not in without


def test_texts_and_what_is_known_of_them(stories: Model) -> None:
    result = stories.generate(["One day", "The dog"], return_scores=True, top=2, max_new_tokens=5)
    assert result.texts == stories.generate(["One day", "The dog"], max_new_tokens=5)
    assert result.top_ids.shape == (2, 5, 2) and (result.scores < 0).all()
    assert len(stories.generate("One day", do_sample=True, num_return_sequences=3)) == 3
    assert stories.generate("One day", attention_mask=None, max_new_tokens=0) == ""
    with pytest.raises(ConfigError, match="the prompt is text; leave it out"):
        stories.generate("One day", attention_mask=torch.ones(1, 2))


def test_the_prompt_and_its_continuation_are_one_text(stories: Model) -> None:
    """SentencePiece leaves out the space before the first word that it decodes."""
    prompts = ["Once upon a time, there", "One day", "Once upon a time, there was a li"]
    ids = [stories.generate(torch.tensor([stories.tokenizer.encode(p)]), max_new_tokens=9) for p in prompts]
    texts = [stories.tokenizer.decode(row[0], skip_special_tokens=True) for row in ids]
    new = stories.generate(prompts, max_new_tokens=9)
    assert [prompt + text for prompt, text in zip(prompts, new, strict=True)] == texts
    assert new[0].startswith(" ") and not new[2].startswith(" ")
    assert [prompt + "".join(stories.stream(prompt, max_new_tokens=9)) for prompt in prompts] == texts


@pytest.mark.parametrize("text", ["Once upon a time", "The dog"])
@pytest.mark.parametrize("settings", [{}, {"do_sample": True, "seed": 3}, {"stop_strings": ["a"]}])
def test_a_stream_is_the_text(stories: Model, text: str, settings: dict[str, Any]) -> None:
    pieces = list(stories.stream(text, max_new_tokens=40, **settings))
    assert "".join(pieces) == stories.generate(text, max_new_tokens=40, **settings)
    assert len(pieces) > 1 or settings


# ------------------------------------------------------------------------------------------------- what a folder says


def with_file(generation: dict[str, Any], **given: Any) -> GenerationOptions:
    return GenerationOptions.resolve(given, GenerationDefaults(generation, {}, 99))


def test_a_folders_rules_hold_where_none_is_named() -> None:
    folder = {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3}
    assert with_file(folder) == GenerationOptions(**folder)
    assert with_file(folder, no_repeat_ngram_size=0).no_repeat_ngram_size == 0


def test_a_folders_method_does_not() -> None:
    folder = {"do_sample": True, "num_beams": 4, "temperature": 0.6, "length_penalty": 2.0}
    assert with_file(folder) == GenerationOptions()
    assert with_file(folder, do_sample=True) == GenerationOptions(do_sample=True, temperature=0.6)
    assert with_file(folder, do_sample=True, temperature=1.1).temperature == 1.1
    assert with_file(folder, num_beams=2) == GenerationOptions(num_beams=2, length_penalty=2.0)


@pytest.mark.parametrize(
    ("folder", "given", "expected"),
    [
        ({}, {}, (20, 0)),
        ({"max_length": 200}, {}, (100, 0)),  # no more than there is room for
        ({"max_length": 60}, {}, (56, 0)),
        ({"max_length": 4}, {}, (20, 0)),  # gives way to the prompt
        ({"max_length": 60, "max_new_tokens": 7}, {}, (7, 0)),
        ({"max_length": 60}, {"max_new_tokens": 3}, (3, 0)),
        ({"max_length": 60}, {"max_length": 9}, (5, 0)),
        ({"max_length": 60, "min_length": 30}, {}, (56, 26)),
        ({"max_length": 60, "min_length": 30}, {"max_new_tokens": 3}, (3, 3)),
        ({"min_length": 30}, {"min_new_tokens": 0}, (20, 0)),
        ({}, {"min_length": 10}, (20, 6)),
    ],
)
def test_lengths(folder: dict[str, Any], given: dict[str, Any], expected: tuple[int, int]) -> None:
    assert with_file(folder, **given).new_tokens(4, GenerationDefaults(folder, {}, 99), room=100) == expected


def test_a_folder_that_is_wrong() -> None:
    with pytest.raises(ConfigError, match=r"generation_config\.json: top_p is 7"):
        with_file({"top_p": 7}, do_sample=True)
    with pytest.raises(ConfigError, match=r"generation_config\.json: max_length is 'long'"):
        with_file({}).new_tokens(4, GenerationDefaults({"max_length": "long"}, {}, 99))
    with pytest.raises(ConfigError, match=r"config\.json: eos_token_id is 'x'; it must be a token id"):
        GenerationDefaults({}, {"eos_token_id": "x"}, 99).token_ids("eos_token_id")


@pytest.mark.parametrize(
    ("name", "value"),
    [("top_p", 7), ("temperature", "hot"), ("num_beams", -1), ("num_beams", [2]), ("do_sample", "yes"), ("seed", "x")],
)
def test_odd_values_of_a_file_that_a_call_does_not_read_are_said(name: str, value: Any) -> None:
    with pytest.warns(UserWarning, match=rf"generation_config\.json: {name} is .*does not read it; it must be"):
        assert with_file({name: value}) == GenerationOptions()


def test_values_of_a_file_that_are_off_or_not_odd(recwarn: pytest.WarningsRecorder) -> None:
    with_file({"top_p": 0.9, "num_beams": 4, "stop_strings": None, "suppress_tokens": []})
    assert not recwarn.list


def test_a_folder_ends_its_answers(tmp_path: Path) -> None:
    torch.manual_seed(1)
    tiny = {**FAMILIES["bart"].tiny, "forced_eos_token_id": 2}
    Model.from_config(tiny, task="translation").save_pretrained(tmp_path)
    model = load(tmp_path)
    result = model.generate(IDS, max_new_tokens=6)
    assert result[0, -1] == 2
    (tmp_path / "generation_config.json").write_text(json.dumps({"no_repeat_ngram_size": 1}))
    tokens = load(tmp_path).generate(IDS, max_new_tokens=6)[0, 1:-1].tolist()
    assert len(set(tokens)) == len(tokens)
