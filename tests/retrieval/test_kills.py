"""Indexing that is killed: answers meanwhile are right, and the store ends as one that was made without a kill."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import defaultdict
from pathlib import Path

import pytest

import glassformer
import glassformer.retrieval.indexing as indexing
from glassformer.retrieval.indexing import index_folder
from glassformer.retrieval.sqlite_store import open_folder
from tests.retrieval.encoders import make_encoder
from tests.retrieval.made import dump
from tests.training.kill import ended, fork

QUESTIONS = ("sentence 7", "apples and number 12", "file 3")


class Documents:
    """A folder whose files change; what each name had at any time."""

    def __init__(self, folder: Path, count: int, seed: int) -> None:
        self.folder, self.draw, self.made = folder, random.Random(seed), 0
        self.texts: dict[str, list[str]] = defaultdict(list)
        folder.mkdir()
        for _ in range(count):
            self.write(self.new_name())

    def new_name(self) -> str:
        self.made += 1
        return f"{self.made}.txt"

    def write(self, name: str) -> None:
        self.made += 1
        kind = self.draw.choice(["apples", "boats", "cliffs"])
        sentences = (f"File {self.made} has {kind} and sentence {n}." for n in range(self.draw.randrange(5, 60)))
        (self.folder / name).write_text(" ".join(sentences))
        self.note(name)

    def note(self, name: str) -> None:
        self.texts[name].append((self.folder / name).read_text())

    def change(self) -> None:
        """Change one file, add one, rename or copy one, exchange two, or delete one."""
        one, two = self.draw.sample(sorted(path.name for path in self.folder.iterdir()), 2)
        match self.draw.randrange(6):
            case 0:
                self.write(one)
            case 1:
                self.write(self.new_name())
            case 2:
                (self.folder / one).rename(self.folder / (name := self.new_name()))
                self.note(name)
            case 3:
                shutil.copy(self.folder / one, self.folder / two)
                self.note(two)
            case 4:
                for source, target in ((one, "swap"), (two, one), ("swap", two)):
                    (self.folder / source).rename(self.folder / target)
                self.note(one)
                self.note(two)
            case _:
                (self.folder / one).unlink()
                self.write(self.new_name())


def answers(store: Path) -> list[list[tuple[str, int, float]]]:
    """What a search by words gives, and how it scores: the full-text index has the same counts."""
    opened = open_folder(store)
    listed = []
    for question in QUESTIONS:
        scores = dict(opened.search_words(question, 1_000_000))
        listed.append(sorted((x.text, x.start, round(scores[x.id], 6)) for x in opened.matches(list(scores))))
    opened.close()
    return listed


@pytest.mark.parametrize("kills", [8, pytest.param(100, marks=pytest.mark.soak)])
def test_killed_at_any_time(tmp_path: Path, kills: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "BATCH_PASSAGES", 4)
    encoder = glassformer.load(make_encoder(tmp_path / "encoder"))
    documents, store = Documents(tmp_path / "documents", 40, seed=kills), tmp_path / "store"
    index_folder(documents.folder, tmp_path / "first", encoder)  # what is imported at first is there in every child
    start = time.monotonic()
    index_folder(documents.folder, tmp_path / "second", encoder)
    took, came, number, editions = time.monotonic() - start, 0, 0, set()
    while came < kills:
        number += 1
        assert number <= 5 * kills, f"runs end before they are killed: {came} kills in {number} runs"
        child = fork(lambda: index_folder(documents.folder, store, encoder) and None)
        time.sleep(documents.draw.uniform(0, took / (2 if came < kills / 2 else 10)))
        code = kill(child)
        assert code in (0, -signal.SIGKILL)
        came += code == -signal.SIGKILL
        editions.add(check_answers(store, documents))
        for _ in range(3 * (number > 4)):  # what the folder had at first is to be complete once
            documents.change()
    assert len(editions) >= kills / 4, "kills come before anything is written"
    index_folder(documents.folder, store, encoder)
    index_folder(documents.folder, tmp_path / "whole", encoder)
    assert dump(store) == dump(tmp_path / "whole")
    assert answers(store) == answers(tmp_path / "whole")
    assert open_folder(store).counts() == open_folder(tmp_path / "whole").counts()


def kill(child: int) -> int:
    """Kill a child: -9, or how it ended before."""
    os.kill(child, signal.SIGKILL)
    return ended(child)


def check_answers(store: Path, documents: Documents) -> int:
    """Each passage that a search gives is one that its file has or had. Returns: the edition of the store."""
    if not (store / "store.json").exists():
        return 0
    opened = open_folder(store)
    for match in opened.matches([id for id, _ in opened.search_words("sentence 7", 50)]):
        assert any(text[match.start : match.stop] == match.text for text in documents.texts[match.file])
    edition = opened.edition
    opened.close()
    return edition
