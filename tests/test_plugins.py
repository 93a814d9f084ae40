"""Plug-ins: one file that is installed by pip and used everywhere, and what is said of those that are broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

import glassformer
from glassformer.data.lines import DataFormat
from glassformer.data.plain_text import PlainText
from glassformer.data.rows import FORMATS, read_rows
from glassformer.errors import ConfigError, DataError, PlugInError
from glassformer.explorer.registry import VIEWS, tabs
from glassformer.models import FAMILIES
from glassformer.plugins import GROUPS, plug_ins, register, registry_of
from glassformer.tasks.registry import TASKS, task_class
from tests import plug_in
from tests.cli.conftest import Command, command
from tests.e2e.tiny_models import make_folder
from tests.explorer.reader import Reader

__all__ = ["command"]

POEMS = "spring\nan old silent pond\na frog jumps in\n\nwinter\nfirst snow\nfalling on the bridge\n\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plug_in.install(tmp_path_factory.mktemp("plug-in"))


@pytest.fixture
def used(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with plug_in.on_path(site, monkeypatch):
        yield


@pytest.fixture
def poems(tmp_path: Path) -> Path:
    file = tmp_path / "haiku.poems"
    file.write_text(POEMS * 8, "utf-8")
    return file


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Install a package with these entry points: see `plug_in.write`."""
    site = tmp_path / "site"
    with plug_in.on_path(site, monkeypatch):

        def make(name: str, entries: str, **about: str) -> None:
            plug_in.write(site, name, entries, **about)
            plug_in.installed.cache_clear()

        yield make


def test_the_program_of_a_user_lists_it_without_importing_it(site: Path) -> None:
    listing = "import sys; from glassformer.cli.app import main\ntry: main(['--help'])\nfinally: {}"
    check = listing.format("assert not {'glassformer_poems', 'torch'} & set(sys.modules)")
    environment = {"PYTHONPATH": str(site), "NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb", "PATH": "/usr/bin"}
    done = subprocess.run(
        [sys.executable, "-c", check], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if "count-lines" in line)
    assert "Count the lines of poems." in line and "Plug-ins" in done.stdout


def test_all_its_parts_are_listed(used: None, command: Command) -> None:
    listed = json.loads(command("plugins", "--json").stdout)
    names = {
        "tasks": "season",
        "data": "poems",
        "metrics": "near",
        "commands": "count-lines",
        "views": "word-lengths",
        "families": "poet",
    }
    parts = [part for part in listed["parts"] if part[2] != "glassformer-guitar 0.1.0"]  # it may be installed here
    assert parts == [[group, names[group], "glassformer-poems 1.0", "ok"] for group in GROUPS]
    assert listed["problems"] == []
    assert "glassformer-poems 1.0" in command("plugins").stdout


def test_its_command_and_its_data_format(used: None, command: Command, poems: Path) -> None:
    done = command("count-lines", poems)
    assert done.returncode == 0 and done.stdout.splitlines()[:2] == ["spring 2", "winter 2"]
    assert "Count the lines of each poem." in command("count-lines", "--help").stdout
    rows = read_rows(poems)  # by its extension
    assert rows[1] == {"label": "winter", "text": "first snow / falling on the bridge"}
    assert rows.where(1).endswith("haiku.poems: line 5")
    assert read_rows(poems, kind="poems", joint=" ")[0]["text"] == "an old silent pond a frog jumps in"
    with pytest.raises(ConfigError, match="'join' is no option of poems; nearest: 'joint'"):
        read_rows(poems, kind="poems", join=" ")


def test_its_task_is_trained_and_evaluated(
    used: None, command: Command, poems: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(tmp_path / "body", "bert", task="feature-extraction")
    monkeypatch.chdir(tmp_path)
    line = "train --task season --model body --data haiku.poems -v haiku.poems --steps 2 --batch-size 4 --output run"
    done = command(*line.split())
    assert done.returncode == 0, done.stderr
    assert "season" in (tmp_path / "run" / "config.yaml").read_text("utf-8")
    done = command("evaluate", "run", "--data", "haiku.poems")
    assert done.returncode == 0 and "accuracy" in done.stdout, done.stderr
    poems.write_text("mud\nrain\n\nspring\nsun\n", "utf-8")
    done = command(*line.replace("run", "other").split())
    assert done.returncode == 2 and "haiku.poems: line 1: the label is 'mud'" in done.stderr.replace("\n", " ")


def test_its_family_is_a_model(used: None, command: Command, tmp_path: Path) -> None:
    model = glassformer.Model.from_config(FAMILIES["poet"].tiny, task="fill-mask")
    model.save_pretrained(tmp_path / "poet")
    assert glassformer.load(tmp_path / "poet").family.model_type == "poet"
    about = command("info", tmp_path / "poet").stdout
    assert "PoetForMaskedLM" in about and "glassformer-poems 1.0" in about
    assert "BERT by another name" in command("families", "poet").stdout
    assert "PoetModel" in FAMILIES["poet"].architectures and "poet" in list(FAMILIES)


def test_its_view_has_a_tab_and_answers(used: None, tmp_path: Path) -> None:
    model = glassformer.load(make_folder(tmp_path / "bert", "bert", task="fill-mask"))
    page = tmp_path / "page.html"
    look = model.look("time flies", view="word-lengths", browser=False, block=False)
    with look:
        from tests.explorer.client import Client

        client = Client(look)
        session = client.session()
        assert session["views"][-1] == "word-lengths"
        words = {"title": "Lengths", "sentence": "How many characters each token has."}
        assert session["reports"] == {"word-lengths": words}
        frame = client.frame("word-lengths", s=session["id"], longest=5)
        (report,) = frame.fields["reports"]
        assert report["kind"] == "word-lengths" and report["tables"][0]["rows"] == [["4", "1"], ["5", "3"]]
        assert "glassformerSeries" in client.ask("/static/reports.js").body.decode()
        assert b"/static/reports.js" in client.ask("/").body
    model.look("time flies", view="word-lengths", html=page)
    text = page.read_text("utf-8")
    assert "glassformerReport" in Reader(text).program() and 'data-key="view/' in text


def test_without_plug_ins_a_page_carries_no_program_of_reports(tmp_path: Path) -> None:
    model = glassformer.load(make_folder(tmp_path / "bert", "bert", task="fill-mask"))
    model.look("time flies", html=tmp_path / "page.html")
    assert "glassformerSeries=" not in Reader((tmp_path / "page.html").read_text("utf-8")).program()


# ── broken ones ───────────────────────────────────────────────────────────────────────────────────────


def test_one_that_raises_is_named_and_breaks_nothing_else(broken: Callable[..., None], command: Command) -> None:
    broken(
        "halfdone",
        "[glassformer.commands]\nhalf = halfdone:half\n[glassformer.families]\nhalf = halfdone:FAMILY\n"
        "[glassformer.tasks]\nhalf = halfdone:Half\n[glassformer.views]\nhalf = halfdone:VIEW\n"
        "[glassformer.data]\nhalf = halfdone:HALF\n[glassformer.metrics]\nhalf = halfdone:HALF\n",
        module="raise ImportError('no module named quill')",
    )
    done = command("half")
    assert done.returncode == 2 and done.stdout == ""
    sentence = (
        "error: the command 'half' of the plug-in halfdone 1.0 cannot be imported (ImportError: no module named "
        "quill); update it (pip install --upgrade halfdone) or remove it (pip uninstall halfdone)\n"
    )
    assert done.stderr == sentence
    assert command("--help").returncode == 0
    done = command("families", "bert")
    assert done.returncode == 0 and "bert" in done.stdout
    assert done.stderr == ""
    done = command("families")
    assert done.returncode == 0 and "bert" in done.stdout
    assert done.stderr.count("note: the model family 'half' of the plug-in halfdone 1.0 cannot be imported") == 1
    for name in ("half", "hal"):
        done = command("families", name)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: the model family 'half' of the plug-in halfdone 1.0 cannot be imported")
    with pytest.raises(PlugInError, match=r"the task .half. of the plug-in halfdone 1\.0 cannot be imported"):
        task_class("half")
    with pytest.warns(UserWarning, match="the task 'half'"):
        assert "classify" in dict(TASKS.items())
    with pytest.warns(UserWarning, match="the view 'half'"):
        assert "model" in tabs()
    with pytest.raises(PlugInError, match="the data format 'half'"):
        read_rows("rows.half", kind="half")
    states = {state for _, name, _, state in plug_ins().parts if name == "half"}
    assert len(states) == len(GROUPS) and all("cannot be imported" in state for state in states)


def test_one_that_raises_is_a_note_of_look(site: Path, tmp_path: Path) -> None:
    """In a process of its own, where nothing has warned of it yet."""
    packages = tmp_path / "packages"
    entries = "[glassformer.views]\nhalf = halfdone:VIEW\n"
    plug_in.write(packages, "halfdone", entries, module="raise ImportError('no quill')")
    make_folder(tmp_path / "bert", "bert", task="fill-mask")
    page = tmp_path / "page.html"
    words = ["-m", "glassformer", "look", str(tmp_path / "bert"), "time flies", "--html", str(page)]
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    done = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0 and page.is_file(), done.stderr
    assert done.stderr.count("note: the view 'half' of the plug-in halfdone 1.0 cannot be imported") == 1
    assert "UserWarning" not in done.stderr and "registry.py" not in done.stderr


def test_a_requirement_that_is_not_met_is_named(broken: Callable[..., None], command: Command) -> None:
    module = "from numpy import no_such_name"
    broken("torn", "[glassformer.commands]\ntorn = torn:f\n", module=module, requires="numpy>=99")
    done = command("torn")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: the command 'torn' of the plug-in torn 1.0 requires numpy>=99, which is {version('numpy')} here "
        "(ImportError: cannot import name 'no_such_name'"
    )
    broken("bare", "[glassformer.commands]\nbare = bare:f\n", module="import quillpen", requires="quillpen<2")
    assert "requires quillpen<2, which is not installed (ModuleNotFoundError: " in command("bare").stderr
    extra = 'quillpen; extra == "pens"'
    broken("more", "[glassformer.commands]\nmore = more:f\n", module="import quillpen", requires=extra)
    assert "'more' of the plug-in more 1.0 cannot be imported (ModuleNotFoundError" in command("more").stderr


def test_a_name_that_is_taken_stays_whose_it_was(broken: Callable[..., None], command: Command) -> None:
    mine = task_class("classify")
    for name in ("first", "second"):
        entries = f"[glassformer.tasks]\nclassify = {name}:T\n[glassformer.commands]\ninfo = {name}:f\nnew = {name}:f\n"
        broken(name, entries, module="def f():\n    print(__name__)\nT = 1")
    assert task_class("classify") is mine and "classify" in TASKS
    done = command("--help")
    assert done.returncode == 0
    taken = "the command 'info' of the plug-in {} 1.0 is not used, because glassformer has one of that name; rename one"
    assert f"note: {taken.format('first')}" in done.stderr
    (winner,) = [package for group, name, package, _ in plug_ins().parts if name == "new"]
    loser = {"first 1.0": "second 1.0", "second 1.0": "first 1.0"}[winner]
    assert command("new").stdout == winner.split()[0] + "\n"
    problems = plug_ins().problems
    assert f"the command 'new' of the plug-in {loser} is not used, because the plug-in {winner} has one" in str(
        problems
    )
    assert "the task 'classify' of the plug-in first 1.0 is not used" in str(problems)


@pytest.mark.parametrize("group", GROUPS)
def test_one_of_the_wrong_kind(group: str, broken: Callable[..., None]) -> None:
    broken("wrong", f"[glassformer.{group}]\nwrong = wrong:PART\n", module="PART = 17")
    with pytest.raises(
        PlugInError, match=r"'wrong' of the plug-in wrong 1.0 is 17, and must be a .*; correct its entry"
    ):
        registry_of(group)["wrong"]


def test_families_of_which_none_can_be_used(broken: Callable[..., None], command: Command) -> None:
    entries = "[glassformer.families]\nverse = torn:VERSE\nversed = torn:VERSED\n"
    broken("torn", entries, module="raise ImportError('no module named quill')")
    for names in (("vers",), ("verse", "versed"), ("vers", "sed")):
        done = command("families", *names)
        assert (done.returncode, done.stdout) == (2, ""), names
        assert done.stderr.splitlines()[-1].startswith("error: the model family 'verse"), names
    done = command("families", "vers", "roberta")
    assert done.returncode == 0 and "xlm-roberta" in done.stdout


def test_a_family_of_another_name(broken: Callable[..., None]) -> None:
    module = "from glassformer.models.bert import FAMILY"
    broken("other", "[glassformer.families]\nverse = other:FAMILY\n", module=module)
    with pytest.raises(PlugInError, match="whose model_type is this name"):
        FAMILIES["verse"]


def test_one_for_another_version(broken: Callable[..., None], command: Command) -> None:
    module = "def old():\n    print('ran')"
    broken("ripe", "[glassformer.commands]\nripe = ripe:old\n", module=module, requires="glassformer>=0.1,<9")
    broken("old", "[glassformer.commands]\nold = old:old\n", module=module, requires="Glassformer <0.1")
    assert command("ripe").stdout == "ran\n"
    done = command("old")
    assert done.returncode == 2 and done.stderr == (
        "error: the command 'old' of the plug-in old 1.0 is made for glassformer <0.1, and this is "
        f"{glassformer.__version__}; update it (pip install --upgrade old) or remove it (pip uninstall old)\n"
    )


def test_a_group_that_there_is_not_and_a_damaged_file(broken: Callable[..., None], command: Command) -> None:
    broken("typo", "[glassformer.task]\nhaiku = typo:T\n")
    broken("torn", "[glassformer.tasks]\nno equals sign\n")
    problems = json.loads(command("plugins", "--json").stdout)["problems"]
    assert sum("'glassformer.task', which there is not; nearest: 'tasks'" in problem for problem in problems) == 1
    assert "entry_points.txt of the package torn 1.0 is damaged; reinstall or remove it" in problems
    assert command("--help").returncode == 0


def test_a_bug_of_its_command_is_not_ours(broken: Callable[..., None], command: Command) -> None:
    broken("buggy", "[glassformer.commands]\nbug = buggy:bug\n", module="def bug():\n    raise RuntimeError('half')")
    done = command("bug")
    assert done.returncode == 1
    assert done.stderr == (
        "error: RuntimeError: half\nthis is a bug in the plug-in buggy 1.0; run again with --debug to see where\n"
    )


# ── without a package ─────────────────────────────────────────────────────────────────────────────────


def test_a_notebook_registers_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with plug_in.on_path(tmp_path, monkeypatch):
        from glassformer.data.lines import DataFormat

        format = DataFormat(open=lambda path, options: read_rows([{"text": "a"}]), any_path=True)  # type: ignore[arg-type,return-value]
        register("data", "nothing", format)
        register("data", "nothing", format)  # a cell that is run again
        with pytest.raises(ConfigError, match="there is a data format 'nothing' already; choose another name"):
            register("data", "nothing", DataFormat(open=format.open))
        with pytest.raises(ConfigError, match="the task 'x' is 17; it must be a subclass of"):
            register("tasks", "x", 17)
        with pytest.raises(ConfigError, match="there is no group 'task'; nearest: 'tasks'"):
            register("task", "x", 17)
        register("tasks", "mine", task_class("classify"))
        assert task_class("mine") is task_class("classify")
    assert "mine" not in TASKS and "nothing" not in registry_of("data") and "lens" in VIEWS
    with pytest.raises((ConfigError, DataError)):
        read_rows("x", kind="nothing")


def test_the_name_of_a_published_data_set_stays_whose_it_was(broken: Callable[..., None], tmp_path: Path) -> None:
    broken("first", "[glassformer.data]\npanx = json:loads\n")
    assert "panx" not in FORMATS
    assert any("the data format 'panx' of the plug-in first 1.0 is not used" in each for each in plug_ins().problems)
    with pytest.raises(ConfigError, match="there is a data format 'panx' already; choose another name"):
        register("data", "panx", DataFormat.of_lines("panx", PlainText, ".x"))
