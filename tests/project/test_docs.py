"""What the documentation shows, works.

Every fenced `python` block of README.md, examples/README.md and docs/ is executed, the blocks of one file in order and
in one namespace, in a folder that holds nothing but the models that the page names. Every `console` block is read: of a
line `$ glassformer …` the command and its options have to exist, and so do the targets of `$ make …`. A block that
cannot run here has `<!-- no-run: reason -->` on the line before it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.project.forked import run_forked
from tests.project.line_links import CODE_LINK, renumbered, wrong_lines

ROOT = Path(__file__).parents[2]
FIRST = [ROOT / "README.md", ROOT / "examples" / "README.md"]
PAGES = [page for page in [*FIRST, *sorted((ROOT / "docs").rglob("*.md"))] if page.exists()]

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.M | re.S)
NO_RUN = re.compile(r"<!-- no-run: *(.*?) *-->\s*\Z")
LINK = re.compile(r"\]\((?!\w+:|#)(?P<target>[^)#\s]+)")


# fixture → the name that the pages use; offline, a folder of that name stands for the model on the Hub
MODELS = {"minilm": "all-MiniLM-L6-v2", "shared": "stories260k"}


@dataclass(frozen=True)
class Fence:
    """One fenced block of a page."""

    language: str
    body: str
    line: int  # of the first line inside
    no_run: str | None  # the reason


def fences(text: str) -> Iterator[Fence]:
    for match in FENCE.finditer(text):
        before = text[: match.start()]
        excused = NO_RUN.search(before)
        body = re.sub(rf"^{match['indent']}", "", match["body"], flags=re.M)
        yield Fence(match["language"], body, before.count("\n") + 2, excused[1] if excused else None)


def commands(text: str) -> Iterator[list[str]]:
    """Each `$ …` line of a console block, split as a shell would; `\\` at the end joins lines."""
    for fence in fences(text):
        if fence.language in {"console", "shell-session"}:
            for line in fence.body.replace("\\\n", " ").splitlines():
                if line.startswith("$ "):
                    yield shlex.split(line[2:], comments=True)


@pytest.fixture
def reader_folder(request: pytest.FixtureRequest, tmp_path: Path, page: Path) -> Path:
    """A folder as a reader has it: the real models that the page names lie in it under those names."""
    text = page.read_text("utf-8")
    for fixture, name in MODELS.items():
        if name in text:
            folder = request.getfixturevalue(fixture)
            for link in (tmp_path / name, tmp_path / "sentence-transformers" / name):
                link.parent.mkdir(exist_ok=True)
                link.symlink_to(folder if fixture == "minilm" else folder / "models" / name)
    return tmp_path


def run_python(source: str, folder: Path, log: Path) -> None:
    status = run_forked(source, folder, log)
    assert status == 0, f"{status}: {log.read_text(errors='replace')[-3000:]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page: Path, reader_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    blocks = [fence for fence in fences(page.read_text("utf-8")) if fence.language in {"python", "py"}]
    # Empty lines in front keep the line numbers of a traceback those of the page.
    program: list[str] = []
    for block in blocks:
        if block.no_run is not None:
            assert block.no_run, f"{page.name}:{block.line}: no-run needs a reason"
            print(f"{page.name}:{block.line} is not run: {block.no_run}")
            continue
        program += [""] * (block.line - 1 - len(program))
        program += block.body.splitlines()
    if not program:
        return  # a page without code has nothing to prove
    run_python("\n".join(program) + "\n", reader_folder, tmp_path_factory.mktemp("page") / "log")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_console_commands_exist(page: Path) -> None:
    import typer

    from glassformer.cli.app import app

    group = typer.main.get_command(app)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    for words in commands(page.read_text("utf-8")):
        if words[0] == "make":
            wanted = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
            assert set(wanted) <= set(targets), f"{page.name}: make has no {wanted}"
        elif words[0] == "glassformer":
            check_command(group, words[1:], page.name)


def check_command(group: object, words: list[str], page: str) -> None:
    """That the command of a line exists, and each of its options is one that it knows."""
    context = group.make_context("glassformer", [], resilient_parsing=True)  # type: ignore[attr-defined]
    command, known = group, {"--help", "--debug"}
    known |= {name for parameter in group.params for name in parameter.opts}  # type: ignore[attr-defined]
    while words and not words[0].startswith("-") and hasattr(command, "get_command"):  # groups hold commands
        command = command.get_command(context, words[0])
        assert command is not None, f"{page}: glassformer has no command {words[0]}"
        known |= {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
        words = words[1:]
    for word in words:
        if word in {">", "|", "2>", "&&"}:
            break
        if word.startswith("--"):
            assert word.split("=")[0] in known, f"{page}: {command.name} has no option {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(page.read_text("utf-8")):
        assert (page.parent / match["target"]).exists(), f"{page.name} links to {match['target']}"


TERMS = ("`nn.Linear`", "`nn.Dropout`", "`nn.LayerNorm`", "`nn.Embedding`", "`nn.GELU`", "`torch.bmm`", "`forward`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_lines_hold_their_code(page: Path) -> None:
    wrong = wrong_lines(page, page.read_text("utf-8"))
    assert not wrong, f"{wrong}; `python -m tests.project.line_links` renumbers them"


def test_a_wrong_line_is_found() -> None:
    page = ROOT / "docs" / "glossary.md"
    moved = "[`class LayerNorm(nn.LayerNorm)`](../src/glassformer/core/norms.py#L1)"
    (problem,) = wrong_lines(page, moved)
    assert "is not in line 1 of" in problem and "none" not in problem
    assert not wrong_lines(page, renumbered(page, moved))
    gone = moved.replace("class", "klass")
    assert wrong_lines(page, gone)[0].endswith("none") and renumbered(page, gone) == gone


@pytest.mark.parametrize("term", [*TERMS, "attention", "softmax", "residual connection"])
def test_the_glossary_links_terms_of_lectures_to_their_line(term: str) -> None:
    of_lectures, _ = (ROOT / "docs" / "glossary.md").read_text("utf-8").split("\n## Words on the page\n")
    rows = of_lectures.split("\n")
    (row,) = [row for row in rows if row.startswith(f"| {term} |")]
    assert CODE_LINK.search(row)


def test_what_is_out_of_scope_is_said() -> None:
    training = " ".join((ROOT / "docs" / "training.md").read_text("utf-8").split())
    assert "high-level `fit` (Keras on TensorFlow or JAX) is out of scope: it would need" in training


def test_blocks_are_found_and_excused() -> None:
    text = (
        "a\n```python\nx = 1\n```\n"
        "<!-- no-run: needs a GPU -->\n```python\ny\n```\n"
        "- b\n\n  ```console\n  $ make demo\n  ```\n"
    )
    first, second, third = fences(text)
    assert (first.body, first.line, first.no_run) == ("x = 1\n", 3, None)
    assert second.no_run == "needs a GPU"
    assert third.body == "$ make demo\n"
    assert list(commands(text)) == [["make", "demo"]]


def test_a_failing_block_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_python("1 / 0\n", tmp_path, tmp_path / "log")


def test_a_wrong_option_fails() -> None:
    import typer

    from glassformer.cli.app import app

    group = typer.main.get_command(app)
    check_command(group, ["--version"], "a page")
    with pytest.raises(AssertionError, match="no option --versoin"):
        check_command(group, ["--versoin"], "a page")
    with pytest.raises(AssertionError, match="no command"):
        check_command(group, ["nosuch"], "a page")
    check_command(group, ["data", "inspect", "a.csv", "--column", "label=x"], "a page")
    with pytest.raises(AssertionError, match="inspect has no option --fractions"):
        check_command(group, ["data", "inspect", "--fractions"], "a page")
    with pytest.raises(AssertionError, match="no command"):
        check_command(group, ["data", "nosuch"], "a page")
