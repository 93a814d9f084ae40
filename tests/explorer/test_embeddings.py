"""The map of embeddings as the page gets it: of a session's tokens, or of the texts that it was opened with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.errors import DataError
from glassformer.explorer import embedding_page
from glassformer.explorer.binary_frames import decode
from glassformer.explorer.embedding_page import PageMap, session_map
from glassformer.explorer.look import InitialView, Look
from glassformer.explorer.registry import request_of
from glassformer.explorer.scene import MAX_WAITING
from glassformer.explorer.session_runs import PassStopped, SessionRuns
from glassformer.inspect.embeddings.embedding_map import MAX_COMPARED, EmbeddingMap
from glassformer.inspect.embeddings.occurrences import embed_words
from glassformer.inspect.embeddings.word_study import WordStudy
from glassformer.model import Model
from tests.explorer.client import Client
from tests.explorer.reader import Reader

TEXTS = ["time flies like an arrow", "fruit flies like a banana", "time flies . time flies ."]
Serve = Callable[..., Client]


@pytest.fixture(scope="module")
def corpus(models: dict[str, Model]) -> PageMap:
    embeddings = embed_words(models["bert"], TEXTS, "flies", labels=["a", "b", "a"])
    study = WordStudy(embeddings)
    return PageMap.of(EmbeddingMap.of(embeddings), study.caption, study=study)


@pytest.fixture(scope="module")
def client(models: dict[str, Model], corpus: PageMap) -> Iterator[Client]:
    look = Look(SessionRuns(models["bert"].session_factory()), TEXTS[:1], corpus=corpus)
    look.serve()
    yield Client(look)
    look.close()


def test_each_level_tells_its_nearest_words(models: dict[str, Model]) -> None:
    """Of different words alone, without special tokens; of vectors without a second text, how much the map holds."""
    session = models["bert"].inspect("time flies like an arrow", "time flies like a banana")
    made = session_map(session, "text")
    words = [token.text for token in session.streams["text"]]
    for level, told in enumerate(made.findings):
        unit = torch.nn.functional.normalize(session.states(level, "text"), dim=-1)
        best = max(
            (float(unit[i] @ unit[j]), a, b)
            for (i, a), (j, b) in combinations(enumerate(words), 2)
            if a != b and not {a, b} & {"[CLS]", "[SEP]"}
        )
        name = made.embedding_map.levels[level].capitalize()
        assert told == f"{name}: “{best[1]}” and “{best[2]}” are nearest, with a cosine of {best[0]:.2f}."
    assert made.description()["findings"] == made.findings
    alike = PageMap.of(EmbeddingMap.of_vectors(np.eye(3), ["one"] * 3), "three")
    assert alike.findings == ["Vectors: this map holds 100% of the variance of 3 vectors."]
    assert EmbeddingMap.of_vectors(np.ones((MAX_COMPARED + 1, 1))).nearest_pair() is None


def test_tokens_of_a_session(serve: Serve) -> None:
    """Each token at every level; the places are the principal components of the states."""
    client = serve("bert", "time flies like an arrow")
    where: dict[str, Any] = {"s": client.session()["id"], "stream": "text"}
    about = client.view("embedding", **where).fields
    assert about["kind"] == "tokens" and about["points"] == about["total"] == 7
    texts = [text[start:end] for text, (start, end) in zip(about["texts"], about["spans"], strict=True)]
    assert texts[:3] == ["[CLS]", "time", "flies"] and about["classes"]["label"]["names"] == ["text 1", "special"]
    assert client.frame("places", **where).arrays["places"].shape == (len(about["levels"]), 7, 2)
    near = client.view("neighbours", **where, point=1, level=1).fields["neighbours"]
    assert len(near) == 6 and near[0][1] >= near[1][1]
    assert "there is no stream" in client.view("embedding", **{**where, "stream": "sound"}).error
    assert "there is no point 99" in client.view("neighbours", **where, point=99, level=0).error
    assert "'level' is no option" in client.view("embedding", **where, level=3).error
    assert client.view("embedding", s="gone", stream="text").status == 410


def test_a_map_of_directions_says_so(models: dict[str, Model]) -> None:
    session = models["bert"].inspect("time flies like an arrow")
    made = session_map(session, "text")
    assert made.scaled == "" and made.description()["scaled"] == ""
    scaled = replace(made, embedding_map=replace(made.embedding_map, directions=True))
    level, point, times = scaled.embedding_map.longest
    word, name = session.streams["text"][point].text, scaled.embedding_map.levels[level]
    assert scaled.scaled.endswith(f"after {name} the vector of “{word}” is {times:.0f} times longer than the median.")
    lengths = decode(scaled.places()).arrays["lengths"]
    np.testing.assert_allclose(lengths[0], session.states(0).norm(dim=1).numpy(), rtol=1e-5)


def test_a_corpus_with_its_study(client: Client, corpus: PageMap) -> None:
    about = client.view("embedding", s="none", stream="text").fields
    assert about["title"].startswith("“flies”: 4 occurrences in 3 of 3 texts")
    assert about["keys"] == ["0:2", "1:2", "2:2", "2:5"] and set(about["classes"]) >= {"label"}
    assert len(about["study"]["cosine"]) == 4 and about["study"]["curve"]["within"][1] <= 1
    places = client.frame("places", s="none", stream="text").arrays["places"]
    np.testing.assert_allclose(places, corpus.embedding_map.pca, atol=1e-6)


def test_a_projection(client: Client) -> None:
    asked: dict[str, Any] = {"s": client.session()["id"], "stream": "text", "method": "tsne", "levels": [1]}
    asked |= {"perplexity": 5, "neighbours": 5, "min_dist": 0.1, "seed": 0}
    frame = client.frame("projection", **asked)
    assert frame.arrays["places"].shape == (1, 4, 2) and frame.fields["levels"] == [1]
    assert "method is 'x'" in client.view("projection", **{**asked, "method": "x"}).error
    assert "there is no level 9" in client.view("projection", **{**asked, "levels": [9]}).error
    assert "a list of one level or more" in client.view("projection", **{**asked, "levels": []}).error
    assert client.view("projection", **{**asked, "s": "gone"}).status == 410


def test_a_saved_page_holds_the_projections_that_were_made(client: Client, serve: Serve) -> None:
    """Those of the map on screen, the last one of each method and level, and with no second copy among its views."""
    for asking, id, points in (
        (client, "embedding", 4),
        (serve("bert", "time flies like an arrow"), "embedding/text", 7),
    ):
        session = asking.session()["id"]
        asked: dict[str, Any] = {"s": session, "stream": "text", "method": "tsne", "perplexity": 2.0}
        asking.frame("projection", **asked, levels=[1, 2], seed=1)
        last = asking.frame("projection", **asked, levels=[1], seed=2).arrays["places"]
        page = Reader(asking.ask(f"/api/page?s={session}").body.decode())
        assert page.json(id)["projections"] == ["tsne/1", "tsne/2"] and page.json(id)["points"] == points
        frame = decode(page.frames()[f"{id}/tsne/1"])
        np.testing.assert_array_equal(frame.arrays["places"], last)
        assert last.shape == (1, points, 2) and frame.fields == {"method": "tsne", "levels": [1]}
        assert not [each for each in page.session()["readings"] if each["view"] == "projection"]
        assert not any(key.startswith("view/") and b"tsne" in each for key, each in page.frames().items())


def test_a_page_holds_the_map(models: dict[str, Model], corpus: PageMap, tmp_path: Path) -> None:
    """The corpus, with neighbours of every level; a page without one holds the map of its tokens."""
    runs = SessionRuns(models["bert"].session_factory())
    with Look(runs, TEXTS[:1], InitialView(view="embedding"), corpus=corpus) as look:
        look.save(tmp_path / "page.html")
    page = Reader((tmp_path / "page.html").read_text())
    about = page.json("embedding")
    assert about["keys"] == ["0:2", "1:2", "2:2", "2:5"] and about["projections"] == []
    nearest = decode(page.frames()["embedding/neighbours/1"]).arrays
    similar = dict(map(tuple, corpus.neighbours(2, 1)))
    assert sorted(nearest["nearest"][2].tolist()) == sorted(similar)
    np.testing.assert_allclose(nearest["cosine"][2], [similar[i] for i in nearest["nearest"][2].tolist()], atol=1e-5)
    models["bert"].look(TEXTS[0], html=tmp_path / "own.html")
    assert Reader((tmp_path / "own.html").read_text()).json("embedding/text")["points"] == 7


def test_more_points_than_a_page_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample, and the page says of how many."""
    monkeypatch.setattr(embedding_page, "MAX_POINTS", 50)
    vectors = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    page = PageMap.of(EmbeddingMap.of_vectors(vectors, labels=["x", "y"] * 200), "many")
    about = page.description()
    assert (about["points"], about["total"]) == (50, 400) and len(about["texts"]) == len(
        about["classes"]["label"]["of"]
    ) == 50
    texts = [int(text) for text in about["texts"]]
    assert texts == sorted(set(texts))


def test_a_long_text_is_cut_around_the_word() -> None:
    text = "a " * 500 + "word" + " b" * 500
    vectors = np.ones((1, 3), np.float32)
    page = PageMap.of(EmbeddingMap(("v",), vectors[None], [{"text": text}], None, [(1000, 1004)], "word"), "one")
    about = page.description()
    (start, end), shown = about["spans"][0], about["texts"][0]
    assert shown[start:end] == "word" and len(shown) < 200 and shown[0] == shown[-1] == "…"


def test_projections_run_one_after_another(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a process of hundreds of megabytes; equal ones are one, and one without a reader never begins."""
    begun: list[int] = []
    go = threading.Event()

    def slow(self: PageMap, options: Any, levels: Any, progress: Any, check: Any) -> bytes:
        begun.append(options.seed)
        while not go.wait(0.01):
            check()
        return b"frame"

    monkeypatch.setattr(PageMap, "projection", slow)
    jobs, id = client.look.explorer.jobs, client.session()["id"]

    def begin(seed: int) -> Any:
        view, request = request_of("projection", {"stream": "text", "method": "tsne", "levels": [1], "seed": seed})
        return jobs.begin(id, "projection", view, request)

    first, left, last = begin(0), begin(1), begin(2)
    assert begin(0) is first
    with left.awaited():
        pass
    with pytest.raises(PassStopped):
        left.result()
    waiting = [begin(number) for number in range(3, 1 + MAX_WAITING)]
    with pytest.raises(DataError, match="of the view 'projection' are waiting"):
        begin(99)
    assert begun == [0]
    for run in waiting:
        run.stop()
    go.set()
    assert first.result().frame == last.result().frame == jobs.frame(id, first.result().key) == b"frame"
    assert begun == [0, 2]
