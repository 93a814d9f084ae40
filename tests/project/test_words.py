"""Names are the field's: words that were retired stand in no identifier, and a class name stands for one thing."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.project.budgets import ROOT, SOURCES, trees

# What each stood for has a name that a search engine knows: prediction, match, sample, cached, message, active, argmax,
# inverse CDF, result, distributed, validation loop, finding, attention layout, confidence, statistics, null object.
RETIRED = set(
    "said found drawn kept told spoken likeliest fallen standing crew examiner oddity sights surely tally nowhere "
    "judge judged".split()
)


ODD = re.compile(
    r"\b(beside|nobody|whoever|somebody|lest|anew|unasked|surest|astray|one's own|"
    r"so many (tokens|words|rows|windows|points|samples|of each)|(is|are) (told|said|heard)\b|"
    r"goes? on (where|with|from)|stands? (twice|alone|beside|here)|"
    r"from nothing|to mend|mended|learnt by heart|what is (said|heard|read|written|seen))\b",
    re.IGNORECASE,
)
"""Wordings for which an engineer, and a search engine, has a plainer one: unknown, the caller, again, custom, N tokens,
takes, is set by, continues, is duplicated, from scratch, fix, the input."""


FILLING = {word.rstrip("s") for word in "the a an of its this is are and or to in by for with".split()}
"""Words that say nothing which a name does not."""


def sources() -> list[Path]:
    """The modules of the package, and of the plug-ins that are made here."""
    return sorted(path for source in SOURCES for path in source.rglob("*.py"))


def words(name: str) -> set[str]:
    """`_FoundRow` and `found_row` both hold the word `found`."""
    return set(re.split(r"_+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()))


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of everything that a module names: variables, attributes, arguments, functions, classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def test_the_reader_of_names_sees_them_all() -> None:
    tree = ast.parse("class FoundRow:\n    def say(self, told): self.kept_rows = [drawn for drawn in told]\n")
    assert {word for _, name in identifiers(tree) for word in words(name)} & RETIRED == {
        "found", "told", "kept", "drawn"
    }  # fmt: skip


def test_no_retired_word_in_a_name() -> None:
    names: dict[str, list[str]] = {}
    for path, tree in trees(*SOURCES):
        key = path.relative_to(ROOT).as_posix()
        for line, name in identifiers(tree):
            if words(name) & RETIRED:
                names.setdefault(key, []).append(f"line {line}: {name}")
    assert not names, f"say what it is instead: {names}"


def test_a_class_name_stands_for_one_thing() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in trees(*SOURCES):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(ROOT).as_posix())
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert not twice, f"one name, several things: {twice}"


def test_docstrings_comments_messages_and_docs_are_plain() -> None:
    odd = []
    for path in sources():
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type in (tokenize.COMMENT, tokenize.STRING) and (match := ODD.search(token.string)):
                    odd.append(f"{path.relative_to(ROOT)}:{token.start[0]}: {match[0]!r}")
    root = Path(__file__).parents[2]
    pages = [root / "README.md", root / "CHANGELOG.md", *(root / "docs").glob("*.md"), *(root / "examples").glob("*.*")]
    for path in sorted(pages):
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
            odd += [f"{path.relative_to(root)}:{number}: {match[0]!r}" for match in ODD.finditer(line)]
    assert not odd, "say it plainly: " + "; ".join(odd)


def arguments(node: ast.AST) -> set[str]:
    """Names of the arguments of a function, or of the fields of a class and the arguments that make it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return {inner.arg for inner in ast.walk(node.args) if isinstance(inner, ast.arg)}
    names: set[str] = set()
    for inner in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
            names.add(inner.target.id)
        elif isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
            names |= arguments(inner)
    return names


def joined_arguments(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of arguments that are documented in running text, where editors and documentation see none."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not (docstring := ast.get_docstring(node)):
            continue
        names = "|".join(map(re.escape, sorted(arguments(node)))) or "(?!)"
        begin = "(?m:^)|" if not isinstance(node, ast.ClassDef) else ""  # fields stand below the first sentence
        running = re.compile(rf"\bArgs: .*|(?:{begin} · |[.)\"`] )`?(?:{names})`?(?:, \w+)*: .*")
        for match in running.finditer(docstring):
            yield node.lineno, match[0]


def test_each_argument_has_a_line_of_its_own() -> None:
    source = '''def f(rows, size):
        """Cut rows. {}"""'''
    for text in (
        "Args: size: of each",
        "rows: texts",
        "\n\n    rows: texts",
        "\n\n    Args:\n        rows: [R] · size: of each",
    ):
        assert list(joined_arguments(ast.parse(source.format(text)))), text
    assert not list(
        joined_arguments(ast.parse(source.format("\n\n    Args:\n        rows: [R] · x\n        size: of each")))
    )
    joined = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path, tree in trees(*SOURCES)
        for line, text in joined_arguments(tree)
    ]
    assert not joined, "below `Args:`, or as fields, one a line: " + "; ".join(joined)


def repeats_name(name: str, docstring: str) -> bool:
    """Whether a docstring has no word beyond those of a name, and no example."""
    stated = {word.rstrip("s") for word in re.findall(r"[a-z]+", docstring.lower())} - FILLING
    return not re.search(r"[`\d\[]", docstring) and stated <= {word.rstrip("s") for word in words(name)}


def test_no_docstring_repeats_a_name() -> None:
    assert repeats_name("read_all_lines", "Read all the lines.") and not repeats_name("read_lines", "Read UTF-8 lines.")
    repeated = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {docstring}"
        for path, tree in trees(*SOURCES)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and (docstring := ast.get_docstring(node))
        if repeats_name(node.name, docstring)
    ]
    assert not repeated, "say what the name does not, or nothing: " + "; ".join(repeated)
