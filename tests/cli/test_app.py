"""The command line as a whole: help, errors, exit codes, completion."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import glassformer
from glassformer.cli import app
from glassformer.cli.app import COMMANDS, _help
from glassformer.errors import DataError, MissingExtraError
from glassformer.plugins import Registry
from tests.cli.conftest import Command

# The process of the program itself, with a command put next to the real ones.
WITH_A_FAKE = """
from glassformer.cli import app
from tests.cli.test_app import add_fake

add_fake()
app.main()
"""


ENTRY = """
from tests.cli.test_app import add_fake
from glassformer.__main__ import main

add_fake()
"""
IMPORTED = """
import os, signal, sys, types

class Interrupted(types.ModuleType):
    def __getattr__(self, name):
        os.kill(os.getpid(), signal.SIGINT)

from glassformer.__main__ import main
sys.modules["glassformer.cli.app"] = Interrupted("app")
"""
ENDING = """
import atexit, os, signal
atexit.register(os.kill, os.getpid(), signal.SIGINT)
"""


def fake(what: str) -> None:
    """Do WHAT."""
    if what == "lines":
        for i in range(200_000):
            print(i)
    elif what == "letters":
        print("q kᵀ")
    elif what == "interrupt":
        raise KeyboardInterrupt
    elif what.startswith("signals"):
        number = int(what.removeprefix("signals "))
        try:
            os.kill(os.getpid(), number)
            time.sleep(60)
        finally:
            os.kill(os.getpid(), signal.SIGINT)  # the second one, while it is cleaned up
            print("cleaned up")
    elif what == "missing file":
        Path("no/such/file").read_text()
    elif what == "bug":
        raise RuntimeError("half a [bold]word")
    elif what == "extra":
        raise MissingExtraError("transformers", "reference", "parity")
    elif what != "--debug":
        raise DataError("text is [1] empty; give at least one word")


def add_fake(put: Callable[..., None] = setattr) -> None:
    """Make `fake` the one command."""
    module = types.ModuleType("fake")
    module.fake = fake  # type: ignore[attr-defined]
    sys.modules["glassformer.cli.fake"] = module
    put(app, "COMMANDS", Registry("commands", {"fake": "glassformer.cli.fake:fake"}, fits=lambda *_: True, must="any"))


@pytest.fixture
def faked(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Command lines of the command `fake`, in this process."""
    monkeypatch.setitem(sys.modules, "glassformer.cli.fake", types.ModuleType("fake"))
    add_fake(monkeypatch.setattr)
    return command


def run(
    *arguments: str, code: str | None = None, input: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A command line in a new process; `command` of conftest runs one in this process, which is faster."""
    program = ["-m", "glassformer"] if code is None else ["-c", code]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("_GLASSFORMER")}
    return subprocess.run(
        [sys.executable, *program, *arguments],
        input=input,
        capture_output=True,
        text=True,
        env={**plain, "NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb", **environment},
        cwd=Path(__file__).parents[2],
        timeout=300,
    )


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"glassformer {glassformer.__version__}\n", "")


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_has_every_command_and_examples(option: str, command: Command) -> None:
    done = command(option)
    assert done.returncode == 0
    for text in (*COMMANDS, "Examples:", "glassformer demo", "--install-completion", "--debug"):
        assert text in done.stdout


EACH = """
import io, sys
from contextlib import redirect_stdout
from glassformer.cli.app import main
for words in sys.stdin.read().splitlines():
    with redirect_stdout(io.StringIO()) as help:
        try:
            main([*words.split(), "--help"])
        except SystemExit as ended:
            assert not ended.code, words
    assert f"glassformer {words}" in help.getvalue(), words
    heavy = {"torch", "numpy", "transformers"} & set(sys.modules)
    assert not heavy, f"{words} imports {heavy}; import what computes inside of the function of the command"
    print(words)
"""


def test_each_command_has_help_and_imports_nothing_heavy() -> None:
    groups = {
        "tokenizer": ["tokenizer train"],
        "data": ["data list", "data fetch", "data inspect", "data split", "data card"],
        "review": ["review out", "review in"],
    }
    commands = [words for name in COMMANDS for words in groups.get(name, [name])]
    done = run(code=EACH, input="\n".join(commands))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == commands


MISSING = """
import shlex, sys
sys.modules["torch"] = None  # importing it fails
from glassformer.cli.app import main
for line in sys.argv[1:]:
    print("==", line, file=sys.stderr)
    try:
        main(shlex.split(line))
    except SystemExit as end:
        assert end.code == 2, line
"""
LINES = """
evaluate NO-SUCH | errors NO-SUCH | curves NO-SUCH | review out NO-SUCH sheet.csv
review in NO-SUCH sheet.csv --output rows.csv
lens ./NO-SUCH a | attribute ./NO-SUCH a | trace ./NO-SUCH a | generate ./NO-SUCH a | similar ./NO-SUCH a b
patch ./NO-SUCH a | parity ./NO-SUCH | export ./NO-SUCH --output new | encode ./NO-SUCH a --output v.npy
bench ./NO-SUCH | shrink ./NO-SUCH | info ./NO-SUCH | look ./NO-SUCH a
study NO-SUCH | search NO-SUCH | few-labels NO-SUCH | advise NO-SUCH
"""


def test_a_path_that_is_not_there_is_named_before_anything_large_is_imported() -> None:
    lines = [line.strip() for line in re.split("[|\n]", LINES) if line.strip()]
    run = subprocess.run(
        [sys.executable, "-c", MISSING, *lines], capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert run.returncode == 0, run.stderr
    answers = [part.splitlines() for part in run.stderr.split("== ")[1:]]
    assert len(answers) == len(lines)
    for line, *errors in answers:
        assert re.search(r"^error: NO-SUCH: (no such|cannot be opened: No such)", errors[-1]), (line, errors)


def test_paragraphs_of_help_break_where_the_terminal_ends() -> None:
    unwrapped = _help("Heading.\n\n    One paragraph\n    in two lines.\n\n    a:\n      b: 1\n")
    assert unwrapped == "Heading.\n\nOne paragraph in two lines.\n\na:\n  b: 1"


EXAMPLES = """
import re, shlex
from glassformer.cli.app import COMMANDS, EXAMPLE_WIDTH, _import_command, app
import typer

def commands_of(words, command):
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands_of([*words, name], inner)
    if not hasattr(command, "commands"):
        yield words, command

root = typer.main.get_command(app)
texts = {"": root.epilog}
known = {}
for name in COMMANDS:
    for words, command in commands_of([name], _import_command(name)):
        texts[" ".join(words)], known[tuple(words)] = command.help, command
for name, text in texts.items():
    section = next((part for part in text.split("\\n\\n") if re.match("Examples?:", part)), None)
    assert section, f"{name} has no example"
    shown = re.sub(r"\\[(/|dim|cyan)\\]", "", section).replace("\\\\[", "[")
    assert max(map(len, shown.splitlines())) <= EXAMPLE_WIDTH, shown
    lines = re.sub(r" \\\\\\n +", " ", shown).splitlines()[1:]
    examples = [shlex.split(line) for line in lines if not line.lstrip().startswith("#")]
    assert examples, name
    for words in examples:
        words = words[words.index("glassformer") + 1 :]
        words = words[: words.index("|")] if "|" in words else words
        named = next(key for key in known if tuple(words[: len(key)]) == key)
        options = {name for parameter in known[named].params for name in (*parameter.opts, *parameter.secondary_opts)}
        unknown = {word for word in words if re.fullmatch("--?[a-z][a-z-]*", word)} - options
        assert not unknown, (name, unknown)
    print(name)
"""


def test_every_command_has_examples_that_can_be_copied_at_80_columns() -> None:
    done = run(code=EXAMPLES)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) > {"", *(set(COMMANDS) - {"tokenizer", "ngram", "data", "corpus", "review"})}


def test_without_arguments_help_is_shown(command: Command) -> None:
    done = command()
    assert "Usage: glassformer" in done.stdout + done.stderr


def test_a_mistyped_command_is_answered_with_the_nearest(command: Command) -> None:
    done = command("demmo")
    assert done.returncode == 2
    assert "No such command 'demmo'" in done.stderr
    assert "'demo'" in done.stderr


def test_what_the_user_can_mend_is_one_line(faked: Command) -> None:
    done = faked("fake", "")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: text is [1] empty; give at least one word\n"


def test_a_missing_extra_names_the_install_command(faked: Command) -> None:
    done = faked("fake", "extra")
    assert done.returncode == 2
    assert "pip install 'glassformer[reference]'" in done.stderr and "pip install -e '.[reference]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_file_is_no_bug(faked: Command) -> None:
    done = faked("fake", "missing file")
    assert done.returncode == 2
    assert done.stderr == "error: no/such/file: No such file or directory\n"


def test_a_bug_says_so_without_a_traceback(faked: Command) -> None:
    done = faked("fake", "bug")
    assert done.returncode == 1
    assert done.stderr.startswith("error: RuntimeError: half a [bold]word\nthis is a bug")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [("--debug", "fake", "bug"), ("fake", "bug", "--debug")])
def test_debug_shows_the_traceback_wherever_it_stands(arguments: tuple[str, ...]) -> None:
    done = run(*arguments, code=WITH_A_FAKE)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert 'raise RuntimeError("half' in done.stderr or "in fake" in done.stderr


def test_after_two_dashes_debug_is_a_word(faked: Command) -> None:
    done = faked("fake", "--", "--debug")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_without_a_letter_gets_its_number() -> None:
    done = run("fake", "letters", code=WITH_A_FAKE, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout, done.stderr) == (0, "q k\\u1d40\n", "")


def test_an_interrupt_exits_with_130(faked: Command) -> None:
    done = faked("fake", "interrupt")
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WITH_A_FAKE, "fake", "lines"],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=300) == 141


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str) -> None:
    done = run("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0
    assert "_GLASSFORMER_COMPLETE" in done.stdout


def test_completion_offers_the_commands() -> None:
    done = run(_GLASSFORMER_COMPLETE="complete_bash", COMP_WORDS="glassformer de", COMP_CWORD="1")
    assert done.stdout.split() == ["demo"]


def test_completion_installs_into_the_home_folder(tmp_path: object) -> None:
    done = run("--install-completion", "bash", HOME=str(tmp_path), _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0
    assert "bash completion installed" in done.stdout


@pytest.mark.skipif(os.name != "posix", reason="needs signals that a process sends to itself, which Windows lacks")
@pytest.mark.parametrize(
    ("program", "arguments", "output", "code"),
    [
        (ENTRY, ["fake", f"signals {signal.SIGINT:d}"], "cleaned up\n", 130),
        (ENTRY, ["fake", f"signals {signal.SIGTERM:d}"], "cleaned up\n", 143),
        (IMPORTED, [], "", 130),
        (ENTRY + ENDING, ["fake", "interrupt"], "", -signal.SIGINT),
    ],
    ids=["two at once", "SIGTERM, then one more", "while it is imported", "while it ends"],
)
def test_a_signal_is_no_traceback(program: str, arguments: list[str], output: str, code: int) -> None:
    process = subprocess.run(
        [sys.executable, "-c", f"{program}\nmain()", *arguments], capture_output=True, text=True, timeout=300
    )
    assert (process.stdout, process.returncode) == (output, code), process.stderr
    assert "Traceback" not in process.stderr
