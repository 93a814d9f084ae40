"""What a client may be handed by mistake: an answer, the client's own error, or one of ours that says what to give."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer import ConfigError, DataError

pytestmark = pytest.mark.clients

MEGABYTE = "time flies " * 95_000
INPUTS: dict[str, Callable[[], Any]] = {
    "nothing": list,
    "None": lambda: None,
    "a generator": lambda: (text for text in ["time", "flies"]),
    "a list of None": lambda: [None],
    "a number": lambda: 3,
    "a megabyte": lambda: [MEGABYTE],
    "one text": lambda: "time flies",
}


@pytest.fixture(scope="module")
def calls(minilm: Path) -> dict[str, Callable[[Any], Any]]:
    """Client → its call with texts."""
    import spacy
    from haystack import Document

    from glassformer.integrations.chroma import GlassformerEmbeddingFunction
    from glassformer.integrations.haystack import GlassformerDocumentEmbedder
    from glassformer.integrations.langchain import GlassformerEmbeddings
    from glassformer.integrations.llama_index import GlassformerEmbedding
    from glassformer.integrations.sentence_transformers import GlassformerSentenceTransformer
    from glassformer.integrations.sklearn import Embedder

    import_module("glassformer.integrations.spacy")  # registers the component
    nlp = spacy.blank("en")
    nlp.max_length = 2 * len(MEGABYTE)
    nlp.add_pipe("glassformer", config={"model": str(minilm)})
    haystack = GlassformerDocumentEmbedder(str(minilm))
    return {
        "langchain": GlassformerEmbeddings(str(minilm)).embed_documents,
        "llama_index": GlassformerEmbedding(str(minilm)).get_text_embedding_batch,
        "haystack": lambda texts: haystack.run(documents=[Document(content=text) for text in texts]),
        "chroma": GlassformerEmbeddingFunction(str(minilm)),
        "sklearn": Embedder(str(minilm)).fit(["time"]).transform,
        "sentence_transformers": GlassformerSentenceTransformer(str(minilm)).encode,
        "spacy": lambda texts: [doc.vector for doc in nlp.pipe(texts)],
    }


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize(
    "client", ["langchain", "llama_index", "haystack", "chroma", "sklearn", "sentence_transformers", "spacy"]
)
def test_an_answer_or_a_clear_error(calls: dict[str, Callable[[Any], Any]], client: str, given: str) -> None:
    try:
        calls[client](INPUTS[given]())
    except DataError as error:
        assert given != "a megabyte"
        assert any(hint in str(error) for hint in ("give a list", "must be", "give at least one"))
    except (TypeError, ValueError) as error:  # the client's own
        assert given != "a megabyte" and str(error)


@pytest.fixture(scope="module")
def writers(shared: Path) -> dict[str, Callable[[Any], Any]]:
    """Client → a prompt continued by its language model."""
    from glassformer.integrations.haystack import GlassformerGenerator
    from glassformer.integrations.langchain import GlassformerPipeline
    from glassformer.integrations.llama_index import GlassformerLLM

    stories = str(shared / "models" / "stories260k")
    langchain = GlassformerPipeline(model=stories, options={"max_new_tokens": 4})
    llama_index = GlassformerLLM(stories, max_new_tokens=4)
    haystack = GlassformerGenerator(stories, {"max_new_tokens": 4})
    return {
        "langchain": langchain.invoke,
        "langchain stream": lambda prompt: "".join(langchain.stream(prompt)),
        "llama_index": lambda prompt: llama_index.complete(prompt).text,
        "llama_index stream": lambda prompt: list(llama_index.stream_complete(prompt))[-1].text,
        "haystack": lambda prompt: haystack.run(prompt=prompt)["replies"][0],
    }


WRITERS = ["langchain", "langchain stream", "llama_index", "llama_index stream", "haystack"]


@pytest.mark.parametrize("client", WRITERS)
def test_what_is_no_prompt(writers: dict[str, Callable[[Any], Any]], client: str) -> None:
    for given in (None, 3, [None], {"a": 1}, iter(["a"])):
        with pytest.raises((DataError, TypeError, ValueError, NotImplementedError), match=r"\w{4}"):
            writers[client](given)
    assert writers[client]("") and writers[client](" ")  # from the token that begins a text
    with pytest.raises(DataError, match=r"the prompt has [0-9,]+ tokens, and the model reads 512; shorten it"):
        writers[client](MEGABYTE)


def test_threads_share_a_language_model(writers: dict[str, Callable[[Any], Any]]) -> None:
    prompts = ["Once upon a time", "Lily was", "Tom"] * 3
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(writers["langchain"], prompts))
    assert together == [writers["langchain"](prompt) for prompt in prompts]


def test_prompts_and_conversations_that_are_too_long(shared: Path, tmp_path: Path) -> None:

    from glassformer import load
    from glassformer.integrations.langchain import ChatGlassformer, GlassformerPipeline

    load(shared / "models" / "stories260k").save_pretrained(tmp_path)
    settings = tmp_path / "tokenizer_config.json"
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "chat_template": template}))
    story = "Lily liked to play. " * 200
    chat = ChatGlassformer(model=tmp_path, options={"max_new_tokens": 4})
    with pytest.raises(DataError, match="the model reads 512"):
        chat.invoke(story)
    with pytest.raises(DataError, match="the conversation has no message"):
        chat.invoke([])
    assert chat.invoke("Lily", stop=[]).content == chat.invoke("Lily").content
    cut = GlassformerPipeline(model=tmp_path, options={"max_new_tokens": 4, "truncation": True})
    with pytest.warns(UserWarning, match="cut on the left to 509"):
        assert cut.invoke(story)


def test_one_text_and_several(calls: dict[str, Callable[[Any], Any]], minilm: Path) -> None:
    from glassformer.integrations.haystack import GlassformerDocumentEmbedder, GlassformerTextEmbedder
    from glassformer.integrations.langchain import GlassformerEmbeddings
    from glassformer.integrations.llama_index import GlassformerEmbedding

    for client in ("langchain", "chroma"):
        with pytest.raises(DataError, match="texts is one string; give a list of strings"):
            calls[client]("time flies")
    query = {
        "langchain": GlassformerEmbeddings(str(minilm)).embed_query,
        "llama_index": GlassformerEmbedding(str(minilm)).get_query_embedding,
        "haystack": lambda text: GlassformerTextEmbedder(str(minilm)).run(text=text),
    }
    for ask in query.values():
        for given in (["time flies"], None, []):
            with pytest.raises(DataError, match="give one text, a string"):
                ask(given)
    for given in (None, ["time flies"], "time flies"):
        with pytest.raises(DataError, match="give a list of Documents"):
            GlassformerDocumentEmbedder(str(minilm)).run(documents=given)  # type: ignore[arg-type]


def test_features_of_what_are_no_texts(minilm: Path) -> None:
    from glassformer.integrations.sentence_transformers import GlassformerSentenceTransformer

    body = GlassformerSentenceTransformer(str(minilm))
    for given in ("time flies", [None], 3, iter(["time", "flies"])):  # its own look at the first text takes it away
        with pytest.raises(DataError, match=r"texts? .*(give|must be)"):
            body.preprocess(given)


def test_lm_eval_refuses_what_it_would_ignore(shared: Path) -> None:
    from lm_eval.api.instance import Instance

    from glassformer.integrations.lm_eval import GlassformerLM

    stories = str(shared / "models" / "stories260k")
    for options, message in (
        ({"batch_tokens": 0}, "batch_tokens is 0; it must be a whole number"),
        ({"max_length": 0}, "max_length is 0; it must be a whole number"),
        ({"max_length": "long"}, "max_length is 'long'"),
        ({"dtyp": "float32"}, "takes no 'dtyp'; nearest: 'dtype'"),
    ):
        with pytest.raises(ConfigError, match=message):
            GlassformerLM(stories, **options)
    model = GlassformerLM(stories, batch_size="auto", max_batch_size=None)

    def asked(prompt: Any, **wanted: Any) -> Any:
        return model.generate_until([Instance("generate_until", {}, (prompt, wanted), 0)], disable_tqdm=True)

    for count in (0, -1, "x", 512):
        with pytest.raises(ConfigError, match="max_gen_toks is"):
            asked("Lily", max_gen_toks=count)
    assert isinstance(asked("", max_gen_toks=4, do_sample=True)[0], str)
    for given in ([], ["a", "b"], None, 3):
        with pytest.raises(DataError, match="give one text, a string"):
            asked(given, max_gen_toks=4)
        with pytest.raises(DataError, match="give one text, a string"):
            model.loglikelihood_rolling([Instance("loglikelihood_rolling", {}, (given,), 0)])
    assert isinstance(asked(MEGABYTE, max_gen_toks=4)[0], str)  # its end


def test_a_hundred_thousand_texts(minilm: Path, tmp_path: Path) -> None:
    from shutil import copy

    from transformers import BertConfig, BertModel

    from glassformer.integrations.sentence_transformers import GlassformerSentenceTransformer

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    BertModel(BertConfig(**sizes)).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        copy(minilm / name, tmp_path)
    body = GlassformerSentenceTransformer(tmp_path)
    vectors = body.encode(["a", "b"] * 50_000)
    assert vectors.shape == (100_000, 8)
    np.testing.assert_allclose(vectors[-2:], body.encode(["a", "b"]), atol=1e-5)


def test_threads_share_a_model(calls: dict[str, Callable[[Any], Any]]) -> None:
    texts = [[f"text {number}"] for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(calls["langchain"], texts))
    np.testing.assert_array_equal(together, [calls["langchain"](text) for text in texts])


def test_forked_workers(minilm: Path) -> None:
    from datasets import Dataset

    from glassformer.integrations.langchain import GlassformerEmbeddings

    embeddings = GlassformerEmbeddings(str(minilm))
    rows = Dataset.from_dict({"text": ["time flies", "a banana", "the hours", "pass"]})
    mapped = rows.map(lambda batch: {"vector": embeddings.embed_documents(batch["text"])}, batched=True, num_proc=2)
    np.testing.assert_allclose(mapped["vector"][:], embeddings.embed_documents(rows["text"][:]), atol=1e-6)
