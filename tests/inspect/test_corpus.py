"""A corpus index: searches equal brute force, a stopped run goes on to the same bytes, damage is an error."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.core.flow import Batch, Tape
from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.inspect import Session, SessionInput
from glassformer.inspect.corpus import CorpusIndex, CorpusSearch, build, files, index_corpus
from glassformer.inspect.corpus.search import position_of
from glassformer.model import Model, load
from tests.files.test_full_disk import full_disk

TEXTS = [
    "time flies like an arrow",
    "fruit flies like a banana, unbelievably",
    "",
    "the pilot flies the plane to Paris and back, " * 12,
    "one",
    "she likes the old banana plane",
]
LAYER, HEAD = 2, (1, 3)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


@pytest.fixture(scope="module")
def stories(shared: Path) -> Model:
    return load(shared / "models" / "stories260k")


@pytest.fixture(scope="module")
def index(stories: Model, source: Path) -> CorpusIndex:
    return index_corpus(stories, source, source.parent / "index", **OPTIONS)


OPTIONS: dict[str, Any] = {"layers": [LAYER, 5], "heads": [HEAD], "top": 4, "max_tokens": 24}


def brute_force(model: Model, index: CorpusIndex) -> dict[str, np.ndarray]:
    """The vectors and neurons of every token, by one pass a window."""
    parts: dict[str, list[torch.Tensor]] = {"layer": [], "head": [], "neurons": []}
    for number in range(index.progress.windows):
        window = index.window(number, model.tokenizer)
        batch = Batch(input_ids=torch.tensor([window.ids]))
        session = Session(model.network, SessionInput(("",), batch, {"text": window.tokens}))
        parts["layer"].append(session.states(LAYER))
        parts["head"].append(session.head(*HEAD).z())
        tape = Tape("blocks.1.ffn.neurons")
        model(input_ids=batch.input_ids, tape=tape)
        parts["neurons"].append(tape.taps["blocks.1.ffn.neurons"][0].detach())
    return {name: torch.cat(states).numpy() for name, states in parts.items()}


@pytest.mark.parametrize("which", ["stories", "minilm"])
def test_searches_equal_brute_force(which: str, source: Path, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    given = request.getfixturevalue(which)
    model = given if isinstance(given, Model) else load(given)
    index = index_corpus(model, source, tmp_path / "index", **OPTIONS)
    expected = brute_force(model, index)
    content = index.flags & files.SPECIAL == 0
    corpus = CorpusSearch(model, index)
    session = model.inspect("a plane flies")
    for kind, options, vector in (
        ("layer", {"layer": LAYER}, session.states(LAYER)[2]),
        ("head", {"head": HEAD}, session.head(*HEAD).z(2)[0]),
    ):
        unit = expected[kind] / np.linalg.norm(expected[kind], axis=1, keepdims=True)
        scores = unit @ (vector / vector.norm()).numpy()
        stored = index.vectors(**options)
        np.testing.assert_allclose(stored, unit, atol=1e-3)
        exact = stored.astype(np.float64) @ (vector / vector.norm()).double().numpy()
        best = index.nearest(vector, count=10, **options)
        order = np.argsort(-np.where(content, exact, -2), kind="stable")[:10]
        np.testing.assert_allclose([x for _, x in best], exact[order], atol=1e-6)
        assert all(abs(exact[token] - score) < 1e-6 and content[token] for token, score in best)
        np.testing.assert_allclose([x for _, x in best], np.sort(scores[content])[::-1][:10], atol=1e-3)
        matches = corpus.contexts(session, 2, count=10, **options).matches
        assert [match.score for match in matches] == [score for _, score in best]
    for neuron in (0, 7, 100):
        activations = np.where(content, expected["neurons"][:, neuron], -np.inf)
        best = index.top_activations(1, neuron)
        np.testing.assert_allclose([x for _, x in best], np.sort(activations)[::-1][:4], atol=1e-5)
        np.testing.assert_allclose([activations[token] for token, _ in best], [x for _, x in best], atol=1e-5)


def test_blocks_change_nothing(index: CorpusIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    vector = torch.from_numpy(index.vectors(LAYER)[5]).float()
    whole = index.nearest(vector, layer=LAYER)
    monkeypatch.setattr("glassformer.inspect.corpus.index.BLOCK_TOKENS", 7)
    blocks = index.nearest(vector, layer=LAYER)
    np.testing.assert_allclose([x for _, x in blocks], [x for _, x in whole], atol=1e-6)
    assert whole[0][1] == pytest.approx(1, abs=1e-3)


def test_windows_hold_every_token_once(stories: Model, index: CorpusIndex) -> None:
    windows = [index.window(i, stories.tokenizer) for i in range(index.progress.windows)]
    before, after = map(len, stories.tokenizer.prefix_and_suffix)
    for row, text in enumerate(text for text in TEXTS if text):
        own = [window for window in windows if window.row == row]
        ids = [i for window in own for i in window.ids[before : len(window.ids) - after]]
        assert ids == stories.tokenizer(text, add_special_tokens=False)["input_ids"]
        assert "".join("".join(window.text.split()) for window in own) == "".join(text.split())
        assert all(len(window.ids) <= 24 for window in own)
        assert not any(window.tokens[before].continues for window in own)
    assert len(windows) > 5


# ── stopped and resumed ──────────────────────────────────────────────────────────────────────────────────


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


class Killed(BaseException):
    """The process ends here."""


def test_killed_at_any_write_and_resumed(
    stories: Model, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "CHUNK_TOKENS", 100)  # several chunks, which end within a text
    whole = index_corpus(stories, source, tmp_path / "whole", **OPTIONS)
    assert whole.progress.chunks > 2
    expected = contents(tmp_path / "whole")
    left = 0

    def deadly(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            return function(*arguments, **options)

        return call

    for name in ("os.fsync", "atomic_file", "flush_folder"):
        owner, _, attribute = name.rpartition(".")
        where = getattr(files, owner) if owner else files
        monkeypatch.setattr(where, attribute, deadly(getattr(where, attribute)))
    kills = 0
    for at in range(1, 200, 5):
        folder = tmp_path / str(at)
        left = at
        try:
            index_corpus(stories, source, folder, **OPTIONS)
        except Killed:
            kills += 1
        else:
            break
        # What the system leaves of a file that was not renamed yet, when it ends a process.
        for name in ("index.json", "neurons.1.bin"):
            (folder / f".{name}.3f9a.partial").write_bytes(b"{")
        if (folder / "index.json").exists():
            with pytest.raises(DataError, match=r"only . of 5 texts are indexed"):
                CorpusIndex(folder)
        left = 0
        index_corpus(stories, source, folder, **OPTIONS)
        assert contents(folder) == expected, f"killed at write {at}"
    assert kills > 5


def test_a_full_disk_leaves_a_whole_index(
    stories: Model, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes of a chunk that is not recorded would fill a disk that is full: they are cut off at once."""
    monkeypatch.setattr(build, "CHUNK_TOKENS", 60)
    expected = contents(index_corpus(stories, source, tmp_path / "whole", neurons=False, **OPTIONS).folder)
    folder, chunks = tmp_path / "index", []
    for limit in (4_000, 9_000, 12_000, 15_000):
        with full_disk(limit), pytest.raises(DataError) as caught:
            index_corpus(stories, source, folder, neurons=False, **OPTIONS)
        assert "File too large; what is recorded is kept, up to row" in str(caught.value)
        progress = files.read_metadata(folder)[1]
        chunks.append(progress.chunks)
        sizes = {path.name: path.stat().st_size for path in folder.iterdir() if path.name not in ("index.json", "lock")}
        assert {name: size for name, size in sizes.items() if size} == {
            name: size for name, (size, _) in progress.files.items() if size
        }
        assert sizes.keys() <= progress.files.keys()
    assert chunks[0] == 0 and chunks[-1] > 1
    index_corpus(stories, source, folder, neurons=False, **OPTIONS)
    assert contents(folder) == expected


def test_an_index_whose_record_was_replaced_is_not_cut(
    stories: Model, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may fail after the rename of index.json: what it says counts, not what the process remembers."""
    monkeypatch.setattr(build, "CHUNK_TOKENS", 60)
    expected = contents(index_corpus(stories, source, tmp_path / "whole", **OPTIONS).folder)
    recorded, record = 0, files.IndexWriter._record

    def fails(self: files.IndexWriter, progress: files.IndexProgress) -> None:
        nonlocal recorded
        before, recorded = self.progress, recorded + 1
        record(self, progress)
        if recorded == 3:
            self.progress = before
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(files.IndexWriter, "_record", fails)
    with pytest.raises(DataError, match="Input/output error; what is recorded is kept"):
        index_corpus(stories, source, tmp_path / "index", **OPTIONS)
    assert files.read_metadata(tmp_path / "index")[1].chunks == 2
    index_corpus(stories, source, tmp_path / "index", **OPTIONS)
    assert contents(tmp_path / "index") == expected


def test_a_complete_index_is_not_made_again(stories: Model, source: Path, index: CorpusIndex) -> None:
    before = contents(index.folder)
    assert len(index_corpus(stories, source, index.folder, **OPTIONS)) == len(index)
    assert contents(index.folder) == before


def test_a_second_process_changes_nothing(
    stories: Model, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before it cuts off what the first one has appended and not recorded yet."""
    monkeypatch.setattr(build, "CHUNK_TOKENS", 64)
    expected = contents(index_corpus(stories, source, tmp_path / "whole", **OPTIONS).folder)
    folder, refused = tmp_path / "index", 0

    def second(done: int, of: int) -> None:
        nonlocal refused
        before = contents(folder)
        with pytest.raises(ConfigError, match=rf"index: is in use by process {os.getpid()} .*; wait for it to end"):
            in_fresh_writer(folder)
        assert contents(folder) == before
        refused += 1

    index_corpus(stories, source, folder, progress=second, **OPTIONS)
    assert refused > 3 and contents(folder) == expected


def in_fresh_writer(folder: Path) -> None:
    with files.IndexWriter(folder, files.read_metadata(folder)[0]):
        pass


def test_another_process_in_the_folder_is_noticed(
    stories: Model, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "CHUNK_TOKENS", 64)

    def intrude(done: int, of: int) -> None:
        with open(tmp_path / "index" / "tokens.bin", "ab") as stream:
            stream.write(b"1234")

    with pytest.raises(DataError, match="another process writes to this index"):
        index_corpus(stories, source, tmp_path / "index", progress=intrude, **OPTIONS)


# ── what the reader sees ─────────────────────────────────────────────────────────────────────────────────


def test_contexts_have_attention_and_counts(stories: Model, index: CorpusIndex) -> None:
    corpus = CorpusSearch(stories, index)
    result = corpus.search("time flies like an arrow", token="flies", layer=LAYER, attention=(0, 1), count=3)
    first = result.matches[0]
    assert first.score == pytest.approx(1, abs=2e-3)
    assert first.row == 0
    assert first.attention is not None
    expected = stories.inspect("time flies like an arrow").head(0, 1).probs(first.position)[0]
    np.testing.assert_allclose(first.attention, expected, atol=1e-6)
    assert sum(count for _, count in result.counts["token"]) == 3
    assert set(result.counts) == {"token", "next", "attended"}
    attended = max((w, -i) for i, w in enumerate(first.attention) if not first.tokens[i].special)
    assert first.attended is first.tokens[-attended[1]]
    assert json.loads(json.dumps(result.to_dict()))["matches"][0]["texts"][first.position] == "f"
    alone = corpus.search("time flies", token=1, layer=LAYER, count=1)
    assert alone.matches[0].attention is None
    assert "attended" not in alone.counts


def test_a_neuron_has_contexts(stories: Model, index: CorpusIndex) -> None:
    result = CorpusSearch(stories, index).neuron(1, 7, attention=(0, 1))
    assert [match.score for match in result.matches] == [x for _, x in index.top_activations(1, 7)]
    assert result.query is None
    assert not any(match.tokens[match.position].special for match in result.matches)


def test_a_word_names_its_first_token(minilm: Path) -> None:
    tokens = load(minilm).inspect("The unbelievably old Banana").streams["text"]
    at = position_of(tokens, "unbelievably")
    assert tokens[at].text == "un"
    assert position_of(tokens, "banana") == len(tokens) - 2
    assert position_of(tokens, 3) == 3
    with pytest.raises(DataError, match="no word 'apple'; it has 'The', 'unbelievably', 'old', 'Banana'"):
        position_of(tokens, "apple")


def test_a_search_changes_no_file(stories: Model, source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    index_corpus(stories, source, folder, **OPTIONS)
    before = contents(folder)
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    try:
        corpus = CorpusSearch(stories, folder)
        corpus.search("time flies", token=1, head=HEAD)
        assert corpus.index.vectors(LAYER).flags.writeable  # a private copy of a page, never of the file
        corpus.index.vectors(LAYER)[0] = 0
        assert contents(folder) == before
    finally:
        folder.chmod(0o755)


# ── bad input ────────────────────────────────────────────────────────────────────────────────────────────


def broken(index: CorpusIndex, tmp_path: Path) -> Path:
    return Path(shutil.copytree(index.folder, tmp_path / "broken"))


@pytest.mark.parametrize("name", ["layer.2.bin", "head.1.3.bin", "tokens.bin", "texts.bin", "windows.bin"])
def test_a_cut_file_is_an_error(index: CorpusIndex, tmp_path: Path, name: str) -> None:
    path = broken(index, tmp_path) / name
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DataError, match=rf"{name}: has .* bytes, and .* were written; delete the folder"):
        CorpusIndex(path.parent)
    path.unlink()
    with pytest.raises(DataError, match=f"{name}: is missing"):
        CorpusIndex(path.parent)


@pytest.mark.parametrize("name", ["windows.bin", "neurons.1.bin", "offsets.bin", "layer.2.bin"])
def test_a_changed_byte_is_an_error(index: CorpusIndex, tmp_path: Path, name: str) -> None:
    path = broken(index, tmp_path) / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"is damaged \(its checksum\)"):
        CorpusIndex(path.parent, verify=name.startswith("layer"))


def test_nan_in_a_file_is_an_error(index: CorpusIndex, tmp_path: Path) -> None:
    path = broken(index, tmp_path) / "layer.2.bin"
    path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises(DataError, match="holds NaN, so a file is damaged"):
        CorpusIndex(path.parent).nearest(torch.ones(64), layer=LAYER)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "index.json"),
        ("[]", "index.json"),
        ("{}", "is no corpus index of version 1"),
        ('{"format": "glassformer corpus index", "version": 1}', "is damaged"),
        ('{"format": "glassformer corpus index", "version": 1, "settings": {}, "progress": 3}', "is damaged"),
    ],
)
def test_damaged_metadata_is_an_error(index: CorpusIndex, tmp_path: Path, content: str, message: str) -> None:
    folder = broken(index, tmp_path)
    (folder / "index.json").write_text(content)
    with pytest.raises(DataError, match=message):
        CorpusIndex(folder)


def test_an_index_of_another_model_is_an_error(minilm: Path, index: CorpusIndex) -> None:
    with pytest.raises(DataError, match="was made by another model"):
        CorpusSearch(load(minilm), index)


def test_what_is_not_in_the_index_is_an_error(stories: Model, index: CorpusIndex, tmp_path: Path) -> None:
    corpus = CorpusSearch(stories, index)
    for options, message in (
        ({"layer": 3}, "layer 3 is not in this index; its layers: 2, 5"),
        ({"head": (1, 4)}, r"head 1.4 is not in this index; its heads: 1.3"),
        ({"layer": 2, "head": HEAD}, "give a layer, or a head"),
        ({}, "give a layer, or a head"),
        ({"layer": 2, "attention": (9, 0)}, "there is no layer 9"),
    ):
        with pytest.raises(DataError, match=message):
            corpus.search("time flies", token=1, **options)
    with pytest.raises(DataError, match="there is no token 99"):
        corpus.search("time flies", token=99, layer=2)
    with pytest.raises(DataError, match="there is no neuron 5000; a layer has neurons 0 to"):
        corpus.neuron(1, 5000)
    with pytest.raises(DataError, match="neurons of layer 7 are not in this index"):
        corpus.neuron(7, 0)
    with pytest.raises(ConfigError, match="count is 0"):
        corpus.neuron(1, 0, count=0)
    with pytest.raises(DataError, match="holds no corpus index"):
        CorpusIndex(tmp_path)
    with pytest.raises(DataError, match=r"must have \[64\]"):
        index.nearest(torch.ones(3), layer=2)
    with pytest.raises(DataError, match="not 0"):
        index.nearest(torch.zeros(64), layer=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": [6]}, "there is no layer 6; give one from 0 to 5"),
        ({"heads": [(1, 8)]}, "there is no head 8 of layer 1; give one from 0 to 7"),
        ({"heads": [(5, 0)]}, "there is no layer 5 with heads; give one from 0 to 4"),
        ({"top": 0}, "top is 0"),
        ({"max_tokens": 1}, "max_tokens= is 1; it must be a whole number from 2 up"),
        ({"max_tokens": "9"}, "max_tokens= is '9'"),
    ],
)
def test_bad_options_are_errors(
    stories: Model, source: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        index_corpus(stories, source, tmp_path / "index", **options)
    assert not (tmp_path / "index").exists()


def test_a_folder_of_something_else_is_left_alone(stories: Model, source: Path, index: CorpusIndex) -> None:
    with pytest.raises(DataError, match="is not empty and holds no corpus index"):
        index_corpus(stories, source, source.parent)
    with pytest.raises(DataError, match=r"holds an index with other settings \(heads, top, head_width\)"):
        index_corpus(stories, source, index.folder, max_tokens=24)


def test_small_files(stories: Model, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    with pytest.raises(DataError, match="empty"):
        index_corpus(stories, tmp_path / "empty.txt", tmp_path / "index")
    (tmp_path / "one.txt").write_text("one")
    index = index_corpus(stories, tmp_path / "one.txt", tmp_path / "one", layers=[0], neurons=False)
    assert len(CorpusSearch(stories, index).search("one", token=1, layer=0).matches) == len(index) - 1
    with pytest.raises(DataError, match="its layers: none"):
        index.top_activations(0, 0)


def test_no_word_at_all(minilm: Path, tmp_path: Path) -> None:
    """A text of which the tokenizer leaves nothing is no window, and an index without a window has no match."""
    (tmp_path / "blank.txt").write_text("\u200b\n\u200b\n")
    model = load(minilm)
    index = index_corpus(model, tmp_path / "blank.txt", tmp_path / "index", layers=[1])
    assert len(index) == 0
    assert CorpusSearch(model, index).search("one", token=1, layer=1).matches == []


def test_nan_is_an_error(shared: Path, source: Path, tmp_path: Path) -> None:
    model = load(shared / "models" / "stories260k")
    with torch.no_grad():
        next(model.network.parameters()).fill_(float("nan"))
    with pytest.raises(WeightsError, match="hold NaN"):
        index_corpus(model, source, tmp_path / "index")


def test_a_table_has_a_column_of_texts(stories: Model, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("body,label\none two,1\nthree,2\n")
    index = index_corpus(stories, tmp_path / "rows.csv", tmp_path / "index", column="body", neurons=False)
    assert index.window(0, stories.tokenizer).text == "one two"
    with pytest.raises(DataError, match="no column 'text'"):
        index_corpus(stories, tmp_path / "rows.csv", tmp_path / "other")


def test_two_stacks_are_refused(source: Path, tmp_path: Path) -> None:
    class Double:
        class network:
            @staticmethod
            def stacks() -> dict[str, None]:
                return {"source": None, "target": None}

    with pytest.raises(UnsupportedError, match="this one has source and target"):
        index_corpus(Double(), source, tmp_path / "index")  # type: ignore[arg-type]


KILLED = """
import os, signal, sys
from glassformer import load
from glassformer.inspect.corpus import build, index_corpus
build.CHUNK_TOKENS = 100
model, source, folder, left = sys.argv[1:]
def progress(done, of, calls=[]):
    calls.append(done)
    if len(calls) == int(left):
        os.kill(os.getpid(), signal.SIGKILL)
index_corpus(load(model), source, folder, layers=[2, 5], heads=[(1, 3)], top=4, max_tokens=24, progress=progress)
"""


@pytest.mark.soak
def test_a_killed_process_is_resumed(shared: Path, source: Path, tmp_path: Path) -> None:
    model, folders = shared / "models" / "stories260k", (tmp_path / "whole", tmp_path / "killed")
    for folder, left in ((folders[0], 0), (folders[1], 2), (folders[1], 2), (folders[1], 0)):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, model, source, folder, str(left)], timeout=300, check=False
        )
        assert done.returncode == (-signal.SIGKILL if left else 0)
    assert contents(folders[0]) == contents(folders[1])


# ── an index from elsewhere ──────────────────────────────────────────────────────────────────────────────


def stopped(stories: Model, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An index that was stopped after a chunk; what its index.json holds."""
    monkeypatch.setattr(build, "CHUNK_TOKENS", 100)

    def stop(done: int, of: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index_corpus(stories, source, folder, progress=stop, **OPTIONS)
    values: dict[str, Any] = json.loads((folder / "index.json").read_text())
    assert not values["progress"]["complete"]
    return values


@pytest.mark.parametrize("name", ["../thesis.txt", "ABSOLUTE", "thesis.txt", "sub/thesis.txt"])
def test_files_that_settings_do_not_name_are_not_cut(
    stories: Model, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = tmp_path / "index"
    values = stopped(stories, source, folder, monkeypatch)
    name = str(tmp_path / "thesis.txt") if name == "ABSOLUTE" else name
    thesis = folder / name
    thesis.parent.mkdir(exist_ok=True)
    thesis.write_text("many years of work")
    values["progress"]["files"][name] = [0, 0]
    (folder / "index.json").write_text(json.dumps(values))
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(DataError, match=r"is damaged .*do not include"):
        index_corpus(stories, source, folder, **OPTIONS)
    assert thesis.read_text() == "many years of work"
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("name", ["tokens.bin", "head.1.3.bin", "neurons.1.bin", "index.json"])
def test_links_in_an_index_are_not_written_through(
    stories: Model, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder, thesis = tmp_path / "index", tmp_path / "thesis.txt"
    stopped(stories, source, folder, monkeypatch)
    (folder / name).rename(thesis)
    thesis.write_bytes(thesis.read_bytes() + b" " * 99)
    before = thesis.read_bytes()
    (folder / name).symlink_to(thesis)
    others = {path: path.read_bytes() for path in folder.iterdir()}
    if name == "index.json":  # replaced, as every file that is written as a whole
        index_corpus(stories, source, folder, **OPTIONS)
    else:
        with pytest.raises(DataError, match=f"{name}: is a link"):
            index_corpus(stories, source, folder, **OPTIONS)
        assert {path: path.read_bytes() for path in folder.iterdir()} == others
    assert thesis.read_bytes() == before


def with_right_checksums(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    values = json.loads((folder / "index.json").read_text())
    values["progress"]["files"][name] = [len(content), zlib.crc32(content)]
    (folder / "index.json").write_text(json.dumps(values))


@pytest.mark.parametrize("name", ["tokens.bin", "offsets.bin", "windows.bin", "texts.bin", "neurons.1.bin"])
@pytest.mark.parametrize("value", [-1, 1 << 30])
def test_wrong_content_with_right_checksums_is_a_clear_error(
    stories: Model, index: CorpusIndex, tmp_path: Path, name: str, value: int
) -> None:
    folder = broken(index, tmp_path)
    size, dtype = (folder / name).stat().st_size, {"windows.bin": "<i8", "texts.bin": "u1"}.get(name, "<i4")
    content = np.full(size // np.dtype(dtype).itemsize, 255 if dtype == "u1" else value, dtype).tobytes()
    with_right_checksums(folder, name, content)
    with pytest.raises(DataError, match=f"{name}: "):
        corpus = CorpusSearch(stories, folder)
        corpus.search("time flies", token=1, layer=LAYER, attention=(0, 1), count=50)
        corpus.neuron(1, 7)


@pytest.mark.parametrize(
    ("where", "key", "value"),
    [
        ("settings", "rows", True),
        ("settings", "heads", [[1, -3]]),
        ("settings", "layers", ["../2"]),
        ("settings", "model", 3),
        ("settings", "width", 1 << 70),
        ("progress", "tokens", "many"),
        ("progress", "windows", -1),
        ("progress", "complete", 1),
        ("progress", "chunks", 1 << 70),
        ("progress", "rows", 10**6),
        ("progress", "files", {"tokens.bin": ["x" * 10_000, 0]}),
        ("progress", "files", {"tokens.bin": 3}),
        ("progress", "other", 3),
    ],
)
def test_odd_metadata_is_a_clear_error(index: CorpusIndex, tmp_path: Path, where: str, key: str, value: Any) -> None:
    folder = broken(index, tmp_path)
    values = json.loads((folder / "index.json").read_text())
    values[where][key] = value
    (folder / "index.json").write_text(json.dumps(values))
    with pytest.raises(DataError, match="is damaged") as raised:
        CorpusIndex(folder)
    assert len(str(raised.value)) < 500
