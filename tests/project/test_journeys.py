"""Four ways through the code, no longer than docs/architecture.md says: the modules in which a function runs."""

from __future__ import annotations

import gc
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import glassformer
from glassformer.cli.app import main
from glassformer.files import safe_repr
from tests.e2e.tiny_models import make_folder

ROOT = Path(__file__).resolve().parents[2]
SOURCE = str(Path(glassformer.__file__).parent)
TEXT = "time flies like an arrow"
LAZY = f"{SOURCE}/files/lazy.py"  # what it does is to import
AT_IMPORT = {"<module>", "<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


@contextmanager
def entered() -> Iterator[list[str]]:
    """The modules of which a function is called meanwhile, in order; what runs while a module is imported is none."""
    modules: dict[str, None] = {}
    ours, start_thread = {threading.current_thread()}, threading.Thread.start

    def start(thread: threading.Thread) -> None:
        # What an earlier test left running, such as the server of a page, starts threads of its own meanwhile.
        if threading.current_thread() in ours:
            ours.add(thread)
        start_thread(thread)

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code, caller = frame.f_code, frame.f_back
        path = code.co_filename
        if event != "call" or path in modules or not path.startswith(SOURCE) or code.co_name in AT_IMPORT:
            return
        if path == LAZY or threading.current_thread() not in ours:
            return
        while caller is not None:
            if caller.f_code.co_name == "<module>" and caller.f_code.co_filename.startswith(SOURCE):
                return
            caller = caller.f_back
        modules[path] = None

    found: list[str] = []
    gc.collect()  # now, and not meanwhile: what earlier tests left has finalisers too
    before = sys.getprofile()
    threading.Thread.start = start  # type: ignore[method-assign]
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)
        threading.setprofile(before)
        threading.Thread.start = start_thread  # type: ignore[method-assign]
        found += [path.removeprefix(f"{SOURCE}/") for path in modules]


def test_threads_of_others_are_no_part_of_a_way() -> None:
    begun, end, called = threading.Event(), threading.Event(), list[str]()

    def call() -> None:
        called.append(safe_repr(1))

    def stranger() -> None:
        begun.wait(60)
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        end.set()

    other = threading.Thread(target=stranger)
    other.start()
    with entered() as modules:
        begun.set()
        assert end.wait(60)
    other.join()
    assert called == ["1"] and modules == []
    with entered() as modules:
        own = threading.Thread(target=call)
        own.start()
        own.join()
    assert modules == ["files/__init__.py"]


def said(beginning: str) -> int:
    """The number of modules that the documentation gives for a way through the code."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    figure = re.search(rf"\*\*{beginning}\*\*:[^*]*?(\d+) modules", text)
    assert figure is not None, f"docs/architecture.md: `**{beginning}**: …, N modules`"
    return int(figure[1])


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str, str], Any]:
    return lambda family, task: glassformer.load(make_folder(tmp_path / family, family, task=task))


def test_a_sentence_becomes_a_vector(load: Callable[[str, str], Any]) -> None:
    model = load("bert", "feature-extraction")
    with entered() as modules:
        model.encode([TEXT])
    assert len(modules) <= said("A sentence becomes a vector"), modules


def test_a_token_is_generated(load: Callable[[str, str], Any]) -> None:
    model = load("gpt2", "text-generation")
    with entered() as modules:
        model.generate("a", max_new_tokens=1)
    assert len(modules) <= said("A token is generated"), modules


def test_a_head_is_looked_at(load: Callable[[str, str], Any]) -> None:
    model = load("bert", "fill-mask")
    with entered() as modules:
        session = model.inspect(TEXT)
        session.head(0, 0).probs(1)
        session.overview(0)
    assert len(modules) <= said("A head is looked at"), modules


def test_a_row_of_a_csv_becomes_a_model_and_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", reason="the report needs the extra `evaluate`")
    make_folder(tmp_path / "body", "bert", task="feature-extraction")
    for name, rows in (("train", 24), ("val", 8)):
        lines = (f"{('time flies', 'a banana')[i % 2]} {'like ' * (i % 3)},{'ab'[i % 2]}\n" for i in range(rows))
        (tmp_path / f"{name}.csv").write_text("text,label\n" + "".join(lines))
    monkeypatch.chdir(tmp_path)
    call = "train --task classify --model body --data train.csv -v val.csv --steps 2 --batch-size 8 --output run"
    monkeypatch.setattr(sys, "argv", ["glassformer", *call.split()])
    with entered() as modules, pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code and (tmp_path / "run" / "evaluation").is_dir()
    assert len(modules) <= said("A row of a CSV becomes a model and a report"), modules
