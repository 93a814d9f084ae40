"""Pipelines with the answers of the reference library."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers
from transformers.pipelines import SUPPORTED_TASKS

from glassformer import ConfigError, DataError, UnsupportedError, hf
from glassformer.hf import pipeline
from glassformer.hf.pipelines import USUAL
from glassformer.model import Model
from glassformer.models import FAMILIES
from tests.e2e.tiny_models import WORDS, make_folder
from tests.hf.test_lines import _complete


def test_the_usual_models_are_those_of_the_reference() -> None:
    for task, about in SUPPORTED_TASKS.items():
        if task in USUAL and task != "text-generation":  # SmolLM3, which is no family here
            assert USUAL[task] == about["default"]["model"][0], task


def test_of_labels_that_may_hold_together_the_likeliest_is_answered(minilm: object) -> None:
    from glassformer.model import load

    config = FAMILIES["bert"].tiny | {"vocab_size": 30522, "problem_type": "multi_label_classification"}
    torch.manual_seed(0)
    model = Model.from_config(config, task="text-classification")
    torch.nn.init.constant_(list(model.network.head.parameters())[-1], -9.0)  # no label is probable
    model._tokenizer = load(minilm).tokenizer
    classify = pipeline("text-classification", model)
    every = classify("time flies", top_k=None)
    assert max(label["score"] for label in every) < 0.5
    assert classify("time flies") == every[:1]
    assert classify(["time flies"]) == every[:1]
    assert classify("time flies", threshold=0.5) == [[]]
    assert pipeline("text-classification", model, threshold=0.5)("time flies") == [[]]
    assert classify("time flies", num_workers=0) == every[:1]
    for name, value in (("num_workers", -1), ("batch_size", 0), ("max_length", "long"), ("top_k", -1)):
        with pytest.raises(ConfigError, match=f"{name} is .*; it must be a whole"):
            classify("time flies", **{name: value})
        with pytest.raises(ConfigError, match=r"it must be a whole number from [01] up"):
            pipeline("text-classification", model, **{name: value})


def _bert(tmp_path: Path, task: str) -> Path:
    folder = make_folder(tmp_path, "bert", task=task)
    _complete(folder / "tokenizer.json", mask=True)
    settings = {"mask_token": "[MASK]", "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**json.loads((folder / "tokenizer_config.json").read_text()), **settings})
    )
    return folder


def _shape(answer: Any) -> Any:
    """Lists and keys alone."""
    if isinstance(answer, list):
        return [_shape(x) for x in answer]
    return sorted(answer) if isinstance(answer, Mapping) else None


@pytest.mark.parametrize(
    "inputs", ["time [MASK]", ["time [MASK]"], ["time [MASK]", "a [MASK]"], "[MASK] [MASK]", ["[MASK] [MASK]"]]
)
def test_filled_masks_are_nested_as_there(tmp_path: Path, inputs: Any) -> None:
    folder = _bert(tmp_path, "fill-mask")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = transformers.pipeline("fill-mask", str(folder), tokenizer=tokenizer)(inputs, top_k=2)
    assert _shape(hf.pipeline("fill-mask", folder)(inputs, top_k=2)) == _shape(theirs)


def test_states_are_tensors_where_the_call_asks_for_them(tmp_path: Path) -> None:
    pipe = hf.pipeline("feature-extraction", make_folder(tmp_path, "bert", task="feature-extraction"))
    assert isinstance(pipe("time"), list) and isinstance(pipe("time", return_tensors=True), torch.Tensor)
    one, two = pipe(["time", "a time"], return_tensors="pt")
    assert one.shape[0] == two.shape[0] == 1 and isinstance(two, torch.Tensor)


def test_two_texts_in_a_list_are_no_pair(tmp_path: Path) -> None:
    pipe = hf.pipeline("text-classification", make_folder(tmp_path, "bert", task="text-classification"))
    with pytest.raises(DataError, match=r"give a text, or a pair as \{'text'"):
        pipe([["a", "b"]])
    assert pipe([[["a", "time"]]]) == pipe([{"text": "a", "text_pair": "time"}])


def test_a_loaded_model_and_a_device_that_is_not_there_are_taken_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = hf.AutoModel.from_pretrained(make_folder(tmp_path, "bert", task="feature-extraction"))
    with pytest.warns(UserWarning, match="dtype= changes nothing: the model is loaded"):
        pipe = hf.pipeline("feature-extraction", model, dtype=torch.float16)
    assert pipe.dtype == torch.float32
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: None)
    with pytest.warns(UserWarning, match="device=0: this machine has no accelerator"):
        pipe = hf.pipeline("feature-extraction", model, device=0)
    assert pipe.device.type == "cpu" and hf.pipeline("feature-extraction", model, device=-1).device.type == "cpu"


@pytest.mark.parametrize("sounds", [[0.1, 0.2, 0.3] * 200, [[0.1, 0.2] * 300, [0.1, -0.2] * 250], np.ones(600, "f4")])
def test_sounds_are_lists_of_numbers_too(tmp_path: Path, sounds: Any) -> None:
    folder = make_folder(tmp_path, "wav2vec2", task="audio-classification")
    own = hf.AutoFeatureExtractor.from_pretrained(folder)
    theirs = transformers.AutoFeatureExtractor.from_pretrained(folder)
    with pytest.warns(UserWarning, match=r"sampling_rate is not given: 16,000 Hz is assumed"):
        found = own(sounds, return_tensors="np", padding=True)
    expected = theirs(sounds, return_tensors="np", padding=True)
    np.testing.assert_allclose(found["input_values"], expected["input_values"], atol=1e-5)


@pytest.mark.parametrize("kind", ["wav2vec2", "whisper"])
def test_settings_within_those_of_a_processor(kind: str, tmp_path: Path) -> None:
    """As release 5 saves a processor: the settings of its parts are in processor_config.json alone."""
    extractor = {"wav2vec2": transformers.Wav2Vec2FeatureExtractor, "whisper": transformers.WhisperFeatureExtractor}
    folder = make_folder(tmp_path / "model", kind, task="automatic-speech-recognition")
    (folder / "preprocessor_config.json").unlink()
    saved = extractor[kind](**({"feature_size": 12} if kind == "whisper" else {}), sampling_rate=16_000)
    (folder / "processor_config.json").write_text(json.dumps({"feature_extractor": saved.to_dict()}))
    sound = np.random.default_rng(0).normal(size=3_000).astype("f4")
    expected = saved(sound, sampling_rate=16_000, return_tensors="pt")
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "processor_config.json").write_bytes((folder / "processor_config.json").read_bytes())
    for place in (folder, alone):
        own = hf.AutoFeatureExtractor.from_pretrained(place)
        assert own.sampling_rate == 16_000 and '"sampling_rate": 16000' in repr(own)
        found = own(sound, sampling_rate=16_000, return_tensors="pt")
        torch.testing.assert_close(
            found[own.model_input_names[0]], expected[own.model_input_names[0]], atol=1e-5, rtol=1e-5
        )
        own.save_pretrained(tmp_path / "again")
        assert transformers.AutoFeatureExtractor.from_pretrained(tmp_path / "again").sampling_rate == 16_000


def test_entities_are_named_by_their_tokens(tmp_path: Path) -> None:
    """As there: in lower case where the tokenizer's words are, and with the sign of a word that goes on."""
    labels = {"id2label": {0: "O", 1: "B-X", 2: "I-X"}, "label2id": {"O": 0, "B-X": 1, "I-X": 2}}
    folder = make_folder(tmp_path, "bert", task="token-classification", **labels)
    vocabulary = {word: i for i, word in enumerate([*WORDS[:4], "time", "fl", "##ies", "##ap", "like"])}
    engine = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    engine.normalizer, engine.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece()
    engine.save(str(folder / "tokenizer.json"))
    _complete(folder / "tokenizer.json", mask=False)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    texts = ["Time FLIES like flap", "TIME flapies", "Zebra, FLIES"]
    plain = [library.pipeline("ner", str(folder), ignore_labels=[])(texts) for library in (hf, transformers)]
    places = [[[(x["word"], x["start"], x["index"]) for x in row] for row in rows] for rows in plain]
    assert places[0] == places[1] and places[0][2][0][0] == "Zebra"
    for strategy in ("simple", "first", "average", "max"):
        own = hf.pipeline("ner", str(folder), aggregation_strategy=strategy, ignore_labels=[])(texts)
        theirs = transformers.pipeline("ner", str(folder), aggregation_strategy=strategy, ignore_labels=[])(texts)
        facts = ("entity_group", "word", "start", "end")
        assert [[[x[fact] for fact in facts] for x in row] for row in own] == [
            [[x[fact] for fact in facts] for x in row] for row in theirs
        ], strategy


def test_a_tokenizers_result_prints_as_a_dictionary(tmp_path: Path) -> None:
    encoding = hf.AutoTokenizer.from_pretrained(make_folder(tmp_path, "bert"))("time")
    assert repr(encoding) == str(encoding) == repr(dict(encoding))


def test_the_names_that_pipelines_go_with(tmp_path: Path) -> None:
    from transformers.pipelines import AggregationStrategy

    from glassformer.hf import pipelines

    assert {x.name: x.value for x in pipelines.AggregationStrategy} == {x.name: x.value for x in AggregationStrategy}
    tag = pipeline("token-classification", str(make_folder(tmp_path / "tag", "bert", task="token-classification")))
    strategy = pipelines.AggregationStrategy.SIMPLE
    assert tag("time flies", aggregation_strategy=strategy) == tag("time flies", aggregation_strategy="simple")
    fill = pipeline("fill-mask", str(_bert(tmp_path / "fill", "fill-mask")))
    with pytest.raises(pipelines.PipelineException, match="mask"):
        fill("no mask in it")


def test_a_pipeline_is_of_the_class_of_its_task(tmp_path: Path) -> None:
    pipe = hf.pipeline("sentiment-analysis", make_folder(tmp_path, "bert", task="text-classification"))
    assert type(pipe) is hf.TextClassificationPipeline and type(pipe).__name__ == "TextClassificationPipeline"
    assert isinstance(pipe, hf.Pipeline) and not isinstance(pipe, hf.FillMaskPipeline)
    assert pipe.predict(["time"]) == pipe.transform(["time"]) == pipe(["time"])
    assert pickle.loads(pickle.dumps(type(pipe))) is type(pipe)
    assert pickle.loads(pickle.dumps(pipe))("time") == pipe("time")
    again = hf.TextClassificationPipeline(model=pipe.model, tokenizer=pipe.tokenizer, top_k=None)
    assert again("time") == [pipe("time", top_k=None)]  # as there
    assert pipe.image_processor is None and hf.Text2TextGenerationPipeline.__name__ == "Text2TextGenerationPipeline"


ENDED: list[dict[str, Any]] = [
    {"generation_config": {"max_new_tokens": 3}},
    {"streamer": None},
    {"max_length": 5, "max_new_tokens": 2},
    {"return_text": True},
    {"return_full_text": True},
]


@pytest.mark.filterwarnings("ignore:max_new_tokens and max_length were both given")
@pytest.mark.parametrize("options", ENDED, ids=str)
@pytest.mark.parametrize("prompt", ["time", ["time flies", "a"], ""])
def test_options_of_text_generation(options: dict[str, Any], prompt: Any, tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "llama", task="text-generation")
    _complete(folder / "tokenizer.json", mask=False)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "[CLS]", "unk_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    answers = []
    for library in (hf, transformers):
        given = dict(options)
        if "generation_config" in given:
            given["generation_config"] = library.GenerationConfig(**given["generation_config"])
        own = {"max_new_tokens": 7} if not {"max_new_tokens", "generation_config"} & options.keys() else {}
        pipe = library.pipeline("text-generation", str(folder))
        answers.append(str(pipe(prompt, do_sample=False, **own, **given)).replace(" ", ""))  # which the two set apart
    assert answers[0] == answers[1]
    pipe = hf.pipeline("text-generation", str(folder), do_sample=False, max_new_tokens=9)
    for ends in ("a", ["like", "an"]):
        assert pipe(prompt, stop_sequence=ends) == pipe(prompt, stop_strings=ends) != pipe(prompt)


CHAT = [{"role": "user", "content": "time flies"}, {"role": "assistant", "content": "a banana"}]
TEMPLATE = (
    "{% if tools %}{{ tools[0].function.name }} {% endif %}{% if documents %}{{ documents[0].title }} {% endif %}"
    "{% if thinking %}fruit {% endif %}{% for m in messages %}{{ m.content }} {% endfor %}"
    "{% if add_generation_prompt %}like {% endif %}"
)
TOOL = {"type": "function", "function": {"name": "arrow", "parameters": {}}}
SPOKEN: list[dict[str, Any]] = [
    {},
    {"continue_final_message": True},
    {"continue_final_message": False},
    {"tools": [TOOL]},
    {"documents": [{"title": "an", "text": "x"}]},
    {"tokenizer_encode_kwargs": {"thinking": True}, "tools": [TOOL]},
]


@pytest.mark.parametrize("options", SPOKEN, ids=str)
@pytest.mark.parametrize("chat", [CHAT, CHAT[:1], [CHAT[:1], CHAT[:1]]], ids=range(3))
def test_conversations_by_their_template(chat: Any, options: dict[str, Any], tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "llama", task="text-generation")
    _complete(folder / "tokenizer.json", mask=False)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "[CLS]", "unk_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    found, expected = (
        str(library.pipeline("text-generation", str(folder))(chat, do_sample=False, max_new_tokens=5, **options))
        for library in (hf, transformers)
    )
    assert found.replace(" ", "") == expected.replace(" ", "")  # which the two set apart


def test_variables_of_a_template_are_checked(tmp_path: Path) -> None:
    pipe = hf.pipeline("text-generation", make_folder(tmp_path, "llama", task="text-generation"))
    with pytest.raises(ConfigError, match="template_variables is"):
        pipe(CHAT, tokenizer_encode_kwargs={"tokenize": True})
    with pytest.raises(UnsupportedError, match="takes no template_variables"):
        pipe.inner.stream(CHAT, template_variables={"thinking": True})


def test_a_prompt_beyond_the_context_is_shortened_where_the_caller_says_so(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "gpt2", task="text-generation")
    pipe = hf.pipeline("text-generation", folder, do_sample=False, max_new_tokens=4, return_full_text=False)
    positions, long = pipe.model.network.max_tokens, "time flies " * 200
    with pytest.raises(DataError, match="truncation=True shortens"):
        pipe(long)
    with pytest.warns(UserWarning, match="cut on the left"):
        shortened = pipe(long, handle_long_generation="hole")
    ids = pipe.tokenizer(long)["input_ids"][-(positions + 1 - 4) :]
    expected = pipe.model.generate(torch.tensor([ids]), max_new_tokens=4)[0, len(ids) :]
    assert len(expected) and shortened[0]["generated_text"].split() == pipe.tokenizer.decode(expected).split()
    with pytest.raises(ConfigError, match="must be 'hole'"):
        pipe(long, handle_long_generation="cut")
    with pytest.raises(ConfigError, match="return_text and return_full_text"):
        pipe("time", return_text=True, return_full_text=True)


def test_zero_shot_labels_by_name(tmp_path: Path) -> None:
    labels = {"id2label": {0: "contradiction", 1: "neutral", 2: "entailment"}}
    folder = make_folder(tmp_path, "bert", task="text-classification", **labels)
    pipe = hf.pipeline("zero-shot-classification", folder)
    assert pipe(sequences="time flies", candidate_labels=["a", "time"]) == pipe("time flies", ["a", "time"])
    assert pipe.entailment_id == 2
    with pytest.raises(ValueError, match="empty text"):
        pipe("", candidate_labels=["a"])


def test_words_of_letters_have_no_space_before_them(tmp_path: Path) -> None:
    task = "automatic-speech-recognition"
    pipe = hf.pipeline(task, make_folder(tmp_path, "wav2vec2", task=task, vocab_size=len(WORDS)))
    noise = np.random.default_rng(0).normal(size=16_000).astype("f4")
    spoken = pipe({"raw": noise, "sampling_rate": 16_000}, return_timestamps="word")
    assert spoken["chunks"] and all(chunk["text"] == chunk["text"].strip() for chunk in spoken["chunks"])
