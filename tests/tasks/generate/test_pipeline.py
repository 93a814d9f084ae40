"""The tasks that write: as the reference's pipeline does, or its `generate` where the pipeline is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import glassformer
from glassformer import ConfigError, DataError, UnsupportedError
from tests.text.test_chat import CHATML

Folders = Callable[..., Path]

TEXTS = [
    "Everything below runs",
    "a vector for each",
    "Every tensor has a name, and a tape listens to those you ask for",
]
CHATS = [
    [{"role": "user", "content": "what is a head?"}],
    [{"role": "user", "content": "what is"}, {"role": "assistant", "content": "a tape"}],
]
FLAN = {
    "summarization": {
        "prefix": "summarize: ",
        "num_beams": 3,
        "max_length": 14,
        "min_length": 6,
        "length_penalty": 2.0,
    },
    "translation_en_to_de": {
        "prefix": "translate English to German: ",
        "max_length": 9,
        "no_repeat_ngram_size": 2,
    },
}


@pytest.fixture(scope="module")
def gpt2(folder_of: Folders) -> Path:
    return folder_of("openai-gpt", "OpenAIGPTLMHeadModel", n_positions=128)


@pytest.fixture(scope="module")
def llama(folder_of: Folders) -> Path:
    return folder_of("llama", "LlamaForCausalLM", max_position_embeddings=128)


@pytest.fixture(scope="module")
def t5(folder_of: Folders) -> Path:
    return folder_of("t5", "T5ForConditionalGeneration", beside={"task_specific_params": FLAN})


@pytest.fixture(scope="module")
def bart(folder_of: Folders) -> Path:
    return folder_of("bart", "BartForConditionalGeneration", max_position_embeddings=128)


def reference(folder: Path, kind: str) -> tuple[Any, Any]:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    model = getattr(transformers, kind).from_pretrained(folder, dtype=torch.float32).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def dicts(found: Any) -> Any:
    return [dicts(each) for each in found] if isinstance(found, list) else dict(found)


# ----------------------------------------------------------------------------------------------------- text-generation


@pytest.mark.parametrize("whole", [True, False])
def test_as_the_reference_continues(gpt2: Path, whole: bool) -> None:
    import transformers

    model, tokenizer = reference(gpt2, "AutoModelForCausalLM")
    theirs = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer, device="cpu")
    ours = glassformer.pipeline("text-generation", gpt2)
    asked = {"max_new_tokens": 12, "return_full_text": whole}

    def stripped(found: Any) -> Any:
        """This reference leaves out the space between the prompt and what follows it."""
        if isinstance(found, list):
            return [stripped(each) for each in found]
        return found["generated_text"].replace(" ", "")

    for given in (TEXTS[0], TEXTS):
        expected = theirs(given, do_sample=False, **asked)
        assert stripped(ours(given, **asked)) == stripped(expected)
    beams = {"num_beams": 3, "num_return_sequences": 2, **asked}
    assert stripped(ours(TEXTS[0], **beams)) == stripped(theirs(TEXTS[0], do_sample=False, **beams))


def test_shapes_and_spaces(shared: Path) -> None:
    """The first word that is written keeps its space, though a decoder alone leaves it out."""
    folder = shared / "models" / "stories260k"
    write = glassformer.pipeline("text-generation", folder, max_new_tokens=8)
    prompt = "Lily and Ben"
    (result,) = write(prompt)
    assert result.generated_text.startswith("Lily and Ben were playing") and set(result) == {"generated_text"}
    new = write(prompt, return_full_text=False)[0].generated_text
    assert prompt + new == result.generated_text and new.startswith(" were")
    assert write.texts([prompt, "Once"]) == [new, write("Once", return_full_text=False)[0].text]
    assert "".join(write.stream(prompt)).strip() == new.strip()
    assert write([prompt]) == [[result]] == [write(prompt)]


def test_a_stream_of_texts_is_answered_as_it_comes(gpt2: Path) -> None:
    write = glassformer.pipeline("text-generation", gpt2, max_new_tokens=4, batch_size=2)
    taken: list[str] = []

    def source() -> Iterator[str]:
        for text in TEXTS * 2:
            taken.append(text)
            yield text

    answers = write(source())
    assert next(answers) == write(TEXTS[0]) and len(taken) == 2  # a batch, no more
    assert [*answers] == write(TEXTS * 2)[1:]
    assert write([]) == [] and list(write(iter([]))) == []


@pytest.mark.parametrize("asked", [{}, {"max_length": 26}, {"min_length": 24, "max_length": 28}])
def test_no_text_depends_on_its_neighbours(gpt2: Path, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    write = glassformer.pipeline("text-generation", gpt2, **(asked or {"max_new_tokens": 6}))
    generate, lengths = write.model.generate, list[int]()

    def heard(ids: Tensor, **told: Any) -> Tensor:
        found: Tensor = generate(ids, **told)
        lengths.append(found.shape[1])
        return found

    monkeypatch.setattr(write.model, "generate", heard)
    alone = [write(text) for text in TEXTS]
    if "max_length" in asked:  # of a text alone, prompt and new tokens
        assert all(asked.get("min_length", 0) <= length <= asked["max_length"] for length in lengths)
    assert write(TEXTS) == alone == write(TEXTS, batch_size=1)


def test_draws_belong_to_texts_not_to_batches(gpt2: Path) -> None:
    write = glassformer.pipeline("text-generation", gpt2, max_new_tokens=6, do_sample=True, temperature=9.0, seed=4)
    assert write(TEXTS) == write(TEXTS, batch_size=2) == list(write(iter(TEXTS), batch_size=1))
    assert write(TEXTS)[0] == write(TEXTS[0]) and write(TEXTS) != write(TEXTS, seed=5)
    assert len({answer[0].text for answer in write([TEXTS[0]] * 4)}) > 1
    assert len(write(TEXTS[0], num_return_sequences=3)) == 3


def test_conversations(llama: Path, folder_of: Folders) -> None:
    import transformers

    from glassformer.text.settings import ChatTemplates

    model = glassformer.load(llama)
    model._tokenizer = model.tokenizer.__class__(
        model.tokenizer.engine, model.tokenizer.settings, ChatTemplates({"default": CHATML})
    )
    theirs_model, tokenizer = reference(llama, "AutoModelForCausalLM")
    tokenizer.chat_template = CHATML
    theirs = transformers.pipeline("text-generation", model=theirs_model, tokenizer=tokenizer, device="cpu")
    ours = glassformer.pipeline("text-generation", model, max_new_tokens=9)

    for chat in CHATS:
        (mine,) = ours(chat)
        expected = theirs(chat, do_sample=False, max_new_tokens=9)[0]["generated_text"]
        assert [m["role"] for m in mine.generated_text] == [m["role"] for m in expected]
        said, others = (messages[-1]["content"].replace(" ", "") for messages in (mine.generated_text, expected))
        assert said == others and mine.text == mine["generated_text"][-1]["content"]
        new = ours(chat, return_full_text=False)[0].generated_text
        assert isinstance(new, str) and mine.text.endswith(new)
        assert list(ours.stream(chat)) == list(model.stream(chat, max_new_tokens=9))
        assert new.strip()[:2] == model.generate(chat, max_new_tokens=9).strip()[:2]  # then bytes of no characters
    assert ours(CHATS) == [ours(chat) for chat in CHATS]
    assert model.generate(CHATS, max_new_tokens=9) == [model.generate(chat, max_new_tokens=9) for chat in CHATS]
    assert CHATS[1][-1]["content"] == "a tape"  # what was given is not changed

    # The template writes all special tokens: none is put around its text.
    ids = torch.tensor([model.tokenizer.apply_chat_template(CHATS[0], add_generation_prompt=True)["input_ids"]])
    bos = model.tokenizer.bos_token_id
    assert bos not in ids[0] and bos == model.tokenizer.encode("a")[0]
    new_ids = model.generate(ids, max_new_tokens=9)[0, ids.shape[1] :]
    assert model.tokenizer.decode(new_ids, skip_special_tokens=True) == model.generate(CHATS[0], max_new_tokens=9)
    for wrong in (["text", CHATS[0]], [CHATS[0], "text"]):
        with pytest.raises(DataError):
            model.generate(wrong, max_new_tokens=2)


# -------------------------------------------------------------------------------- summarization, translation, text2text


def test_what_the_makers_recommend_for_a_task(t5: Path) -> None:
    """Beams, lengths and prefix stand in config.json; a call says otherwise where it wants to."""
    model, tokenizer = reference(t5, "AutoModelForSeq2SeqLM")
    own = {name: value for name, value in FLAN["summarization"].items() if name != "prefix"}
    summarise = glassformer.pipeline("summarization", t5)
    for text in TEXTS:
        ids = tokenizer("summarize: " + text, return_tensors="pt")
        expected = model.generate(**ids, do_sample=False, **own)
        said = tokenizer.decode(expected[0], skip_special_tokens=True)
        assert summarise(text) == [{"summary_text": said}]
    assert summarise(TEXTS) == [summarise(text) for text in TEXTS]
    assert summarise.texts(TEXTS) == [summarise(text)[0].summary_text for text in TEXTS]
    ids = tokenizer("summarize: " + TEXTS[0], return_tensors="pt")
    for asked in (
        {"max_new_tokens": 5},
        {"max_length": 5, "min_length": 2},
        {"num_beams": 1, "min_length": 0},
    ):
        theirs = {**own, **asked}
        if "max_new_tokens" in asked:
            theirs = {
                **{k: v for k, v in theirs.items() if k not in ("max_length", "min_length")},
                "min_new_tokens": 5,
            }
        if asked.get("num_beams") == 1:
            theirs.pop("length_penalty")
        expected = model.generate(**ids, do_sample=False, **theirs)
        assert summarise(TEXTS[0], **asked)[0].text == tokenizer.decode(expected[0], skip_special_tokens=True)


def test_translation_and_text2text(t5: Path) -> None:
    model, tokenizer = reference(t5, "AutoModelForSeq2SeqLM")
    translate = glassformer.pipeline("translation_en_to_de", t5)
    assert (translate.task, glassformer.pipeline("translate", t5).task) == (
        "translation_en_to_de",
        "translation",
    )
    same = glassformer.pipeline("translation", t5, src_lang="en", tgt_lang="de")
    ids = tokenizer("translate English to German: " + TEXTS[0], return_tensors="pt")
    expected = model.generate(**ids, do_sample=False, max_length=9, no_repeat_ngram_size=2)
    said = tokenizer.decode(expected[0], skip_special_tokens=True)
    assert translate(TEXTS[0]) == [{"translation_text": said}] == same(TEXTS[0])

    answer = glassformer.pipeline("text2text-generation", t5, max_new_tokens=7)
    ids = tokenizer("cola sentence: " + TEXTS[1], return_tensors="pt")
    expected = model.generate(**ids, do_sample=False, max_new_tokens=7, num_beams=4, num_return_sequences=3)
    found = answer("cola sentence: " + TEXTS[1], num_beams=4, num_return_sequences=3)
    assert [r.generated_text for r in found] == tokenizer.batch_decode(expected, skip_special_tokens=True)
    assert answer(TEXTS[1], prefix="cola sentence: ") == answer("cola sentence: " + TEXTS[1])


def test_how_far_without_a_word_about_it(bart: Path) -> None:
    """256 tokens, or as many as there is room for."""
    write = glassformer.pipeline("text2text-generation", bart, eos_token_id=5)
    ids = write.model.tokenizer.encode(write(TEXTS[0])[0].text)
    assert len(ids) > 60
    with pytest.raises(DataError, match="has 128 positions"):
        write(TEXTS[0], max_new_tokens=400)


def test_a_fixed_prefix_and_lengths_of_a_folder(folder_of: Folders) -> None:
    own = {"task_specific_params": {"text-generation": {"max_length": 10, "prefix": "a vector ", "do_sample": True}}}
    place = folder_of("openai-gpt", "OpenAIGPTLMHeadModel", beside=own, n_positions=128)
    write = glassformer.pipeline("text-generation", place, seed=1)
    plain = glassformer.pipeline("text-generation", place, seed=1, prefix="")
    (result,) = write("for each")
    assert result.text.startswith("for each") and result != plain("for each")[0]
    assert len(write.model.tokenizer.encode("a vector for each")) < 10
    greedy = write("for each", do_sample=False, max_new_tokens=3)
    assert greedy == write("for each", do_sample=False, max_new_tokens=3, seed=None, max_length=None)
    assert len(write.texts(["a vector " * 20])[0]) > 0  # longer than that already: then it is no limit


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ({"num_beams": "two"}, "^config.json: num_beams is 'two'; it must be a whole number"),
        ({"max_length": -5}, "^config.json: max_length is -5; it must be a whole number"),
        ({"repetition_penalty": [1]}, r"^config.json: repetition_penalty is \[1\]; it must be a number"),
        ({"prefix": ["a"]}, r"^config.json: prefix is \['a'\]; it must be a text"),
        (
            {"task_specific_params": {"text-generation": {"do_sample": "yes"}}},
            "^config.json: task_specific_params: do_sample is 'yes'; it must be True or False",
        ),
    ],
)
def test_what_a_folder_recommends_and_cannot_mean(folder_of: Folders, beside: dict[str, Any], said: str) -> None:
    place = folder_of("openai-gpt", "OpenAIGPTLMHeadModel", beside=beside)
    with pytest.raises(ConfigError, match=said):
        glassformer.pipeline("text-generation", place)("for each")


# --------------------------------------------------------------------------------------------------------- bad requests


def test_bad_requests(gpt2: Path, t5: Path) -> None:
    write, summarise = (
        glassformer.pipeline("text-generation", gpt2),
        glassformer.pipeline("summarization", t5),
    )
    for call, said in (
        (
            lambda: write("x", max_lenght=3),
            "the task 'text-generation' takes no 'max_lenght'; nearest: 'max_length'",
        ),
        (lambda: write("x", streamer=1), "yields pieces of text"),
        (lambda: write("x", prefix=5), "prefix is 5; it must be a text"),
        (lambda: write("x", max_length=1, max_new_tokens=1), "give one of them"),
        (lambda: write(TEXTS[2], max_length=2), "counts the .* tokens that the row begins with"),
        (lambda: write("x", max_new_tokens="9"), "max_new_tokens is '9'; it must be a whole number"),
        (lambda: write("x", max_new_tokens=3, min_length=30), "at least .* new tokens are asked for"),
        (lambda: write("x", temperature=0.5), "add do_sample=True"),
        (lambda: summarise("x", return_full_text=True), "takes no 'return_full_text'"),
        (lambda: summarise("x", src_lang="en"), "takes no 'src_lang'"),
        (
            lambda: glassformer.pipeline("translation", t5)("x", src_lang="de"),
            "is set when the pipeline is made",
        ),
        (lambda: glassformer.pipeline("translation", t5, src_lang="ab", tgt_lang="cd"), "src_lang is 'ab'"),
    ):
        with pytest.raises(ConfigError, match=said):
            call()
    for call, said in (
        (lambda: write(5), "the input is 5; it must be a text, or several"),
        (lambda: write(["a", None]), "text 1: the input is None; it must be a text"),
        (lambda: write(""), "the text is empty"),
        (lambda: write(TEXTS[2] * 20), "has 128 positions"),
        (lambda: write([{"role": "user", "content": "x"}]), "has no chat template"),
        (lambda: summarise({"a": 1}), "it must be a text, or several"),
        (lambda: summarise.texts("x"), r"texts\(…\) takes a list of texts"),
    ):
        with pytest.raises(DataError, match=said):
            call()


def test_the_wrong_kind_of_model(gpt2: Path, t5: Path) -> None:
    with pytest.raises(UnsupportedError, match="an encoder which reads and a decoder which answers"):
        glassformer.pipeline("summarization", gpt2)
    with pytest.raises(UnsupportedError, match="'text2text-generation'"):
        glassformer.pipeline("text-generation", t5)
