"""Functions of Python's own standard library, to learn to write on; and how often the output is Python.

    python examples/python_functions.py                              writes runs/python/functions.jsonl
    glassformer train examples/python.yaml
    python examples/python_functions.py runs/python-model            completes fifty that it has not read

Each text is what a function does, the first line of its docstring, and the function:

    # Return the larger of two numbers.
    def larger(a, b):
        return a if a > b else b
"""

from __future__ import annotations

import ast
import json
import random
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

from glassformer import load
from glassformer.data.docstrings import docstring_pairs
from glassformer.errors import DataError

PLACE = Path("runs/python/functions.jsonl")
LONGEST = 1_000
"""Characters; most functions are shorter, and longer ones are cut into windows that begin in the middle of nothing."""
LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "site-packages", "turtledemo"}


def main(model: str | None = None) -> None:
    if model is None:
        collect()
    else:
        complete(model)


def collect() -> None:
    texts = [*dict.fromkeys(functions(Path(sysconfig.get_paths()["stdlib"])))]
    random.Random(0).shuffle(texts)  # the last twentieth is held out: some of each module
    PLACE.parent.mkdir(parents=True, exist_ok=True)
    PLACE.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    print(f"{len(texts):,} functions, {sum(map(len, texts)):,} characters in {PLACE}")


def functions(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*.py")):
        if LEFT_OUT & {*file.relative_to(folder).parts}:
            continue
        try:
            pairs = list(docstring_pairs(file.read_text("utf-8"), file.name))
        except (DataError, UnicodeDecodeError):  # a few are there to be wrong
            continue
        for pair in pairs:
            text = f"# {pair['docstring'].strip().splitlines()[0]}\n{pair['code'].rstrip()}\n"
            if len(text) <= LONGEST:
                yield text


def complete(folder: str, count: int = 50) -> None:
    """Functions that were held out, from their first two lines on: greedily, until the model ends."""
    model = load(folder)
    held_out = [json.loads(line)["text"] for line in PLACE.read_text().splitlines()]
    held_out = [text for text in held_out[-len(held_out) // 20 :] if head_of(text)][:count]
    python = 0
    for number, text in enumerate(held_out):
        written = head_of(text) + str(model.generate(head_of(text), max_new_tokens=120, no_repeat_ngram_size=12))
        python += is_python(written)
        if number < 5:
            print(f"{written.rstrip()}\n{'─' * 60}")
    print(f"{python} of {len(held_out)} completed functions are Python that can be compiled")


def head_of(text: str) -> str:
    """What it does, and its name: up to the colon, since the end of that line is a token together with what follows."""
    comment, definition, *body = text.split("\n")
    return f"{comment}\n{definition}" if definition.endswith(":") and body else ""


def is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
