"""How many cells of published notebooks give the same with `glassformer.hf` as with `transformers`.

    python benchmarks/notebooks.py FOLDER...            .ipynb files, and Markdown files with fenced Python
    python benchmarks/notebooks.py FOLDER... --show     and what each cell that is not equal gives

Names of the Hub become tiny random checkpoints, and data sets a few rows (`_tiny_hub.py`, `_rows.py`), so nothing is
downloaded. Every document runs twice with transformers and once with glassformer, each time in a process of its own and
from the same weights. The values of the variables that a cell sets, of its last line and of what it prints are compared
at 1e-4.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _same_values import plain, same

HERE = Path(__file__).parent
SIDES = ("transformers", "transformers again", "glassformer.hf")
"""The reference runs twice: where it differs from itself (times, addresses), no comparison says anything."""
KINDS = {
    "equal": "within 1e-4",
    "different": "other variables, value or printed text",
    "refused": "glassformer raises an error of its own",
    "bare": "another Python error",
    "follows": "a name is missing, since an earlier cell failed",
    "unsteady": "a second run with transformers gives something else too",
}
CHANGES = (  # for both libraries: what release 5 renamed, what needs a network or a GPU, and how long it runs
    (r"^(\s*)[!%].*$", r"\1pass"),
    (r"^(\s*)\S*\.push_to_hub\(.*\)\s*$", r"\1pass"),
    (r"push_to_hub\s*=\s*True", "push_to_hub=False"),
    (r"\b(fp16|bf16)\s*=\s*True", r"\1=False"),
    (r"num_train_epochs\s*=\s*[\d.]+", "num_train_epochs=1"),
    (r"\bmax_steps\s*=\s*\d+", "max_steps=4"),
    (r"\bevaluation_strategy\b", "eval_strategy"),
    (r"warmup_ratio\s*=\s*[\d.e-]+", "warmup_steps=1"),
    (r"device_map\s*=\s*[^\s,)]+", "device_map=None"),
    (r"(Trainer\([^()]*?)\btokenizer\s*=", r"\1processing_class="),
)


def cells_of(path: Path) -> list[str]:
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text("utf-8"))["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    fences = re.findall(r"^```(?:py|python)\b[^\n]*\n(.*?)^```", path.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [re.sub(r"^(>>>|\.\.\.) ?", "", code, flags=re.MULTILINE) for code in fences]


def adapted(code: str, side: str) -> str:
    if (magic := re.match(r"\s*%%(\w+)", code)) is not None:  # a whole cell: a shell script, or Python that is timed
        code = code.split("\n", 1)[-1] if magic[1] in ("time", "capture") else ""
    for pattern, new in CHANGES:
        code = re.sub(pattern, new, code, flags=re.MULTILINE)
    if side == "glassformer.hf":
        code = re.sub(r"^(\s*)import transformers(\.\w+)*\s*$", rf"\1import {side} as transformers", code, flags=re.M)
        code = re.sub(r"\b(from|import) transformers\b", rf"\1 {side}", code)
    return code


def run_cell(code: str, scope: dict[str, Any], limit: int) -> dict[str, Any]:
    """Run one cell. Returns: its variables, the value of its last line, its text, or its error."""
    printed, names, last = io.StringIO(), set(), None
    try:
        tree = ast.parse(code)
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
        signal.alarm(limit)
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            exec(compile(tree, "<cell>", "exec"), scope)
            value = eval(compile(last, "<cell>", "eval"), scope) if last is not None else None
            shown = repr(value)[:3000] if value is not None and plain(value) is None else ""
        kept = {name: scope[name] for name in sorted(names & scope.keys())}
        result = {"value": plain(value), "shown": shown, "variables": {key: plain(each) for key, each in kept.items()}}
    except BaseException as error:
        places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
        kinds = [kind.__name__ for kind in type(error).__mro__]
        result = {"error": f"{kinds[0]}: {error}"[:600], "kinds": kinds, "places": places[-3:]}
    signal.alarm(0)
    return {**result, "printed": printed.getvalue()[:6000]}


def run_documents(documents: list[Path], side: str, out: Path, limit: int) -> None:
    """Run all documents with one library, each in a fork of this process, which has imported everything."""
    import _same_start

    _same_start.prepare(side)
    signal.signal(signal.SIGALRM, _too_slow)
    for number, path in enumerate(documents):
        if (pid := os.fork()) == 0:
            os.chdir(tempfile.mkdtemp(dir=out))
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            main.__dict__.update(display=print)
            with (out / f"{side}-{number}.jsonl").open("w") as file:
                for index, code in enumerate(cells_of(path)):
                    _same_start.seed(index)
                    result = run_cell(adapted(code, side), main.__dict__, limit)
                    file.write(json.dumps(result, default=str) + "\n")
                    file.flush()
            os._exit(0)
        start = time.monotonic()
        while os.waitpid(pid, os.WNOHANG)[0] == 0:  # a call that no signal interrupts ends with the document
            time.sleep(0.05)
            if time.monotonic() - start > 8 * limit:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                break
        print(f"{side} {number + 1}/{len(documents)} {path.name} {time.monotonic() - start:.0f} s", file=sys.stderr)


def _too_slow(*_: Any) -> None:
    raise TimeoutError("the cell takes too long")


def judge(ours: dict[str, Any], theirs: dict[str, Any], failed: bool) -> tuple[str, list[str]]:
    """The kind of a cell that runs with the reference, and what differs; `failed`: an earlier cell of ours did."""
    if "error" in ours:
        missing = failed and ours["kinds"][0] == "NameError"
        kind = "follows" if missing else "refused" if "GlassformerError" in ours["kinds"] else "bare"
        return kind, [f"{ours['error']} ({' '.join(ours['places'])})"]
    parts = {key: (ours[key], theirs[key]) for key in ("value", "shown", "printed")}
    parts |= {name: (ours["variables"].get(name), value) for name, value in theirs["variables"].items()}
    wrong = [
        f"{name}: {str(one)[:300]} <> {str(other)[:300]}"
        for name, (one, other) in parts.items()
        if not same(one, other)
    ]
    return ("different", wrong) if wrong else ("equal", [])


def compare(documents: list[Path], out: Path) -> Iterator[tuple[Path, int, str, list[str]]]:
    """Document, number of the cell, kind and differences of each cell that runs with the reference or fails there."""
    for number, path in enumerate(documents):
        reference, again, ours = [(out / f"{side}-{number}.jsonl").read_text().splitlines() for side in SIDES]
        codes, failed = cells_of(path), False
        for index, theirs in enumerate(map(json.loads, reference)):
            body = adapted(codes[index], SIDES[0])
            if all(line.strip() in ("", "pass") or line.lstrip().startswith("#") for line in body.split("\n")):
                continue
            failed = failed or (0 < index <= len(ours) and "error" in json.loads(ours[index - 1]))
            if "error" in theirs:
                yield path, index, "not runnable", [theirs["error"]]
            elif index < len(again) and judge(json.loads(again[index]), theirs, False)[0] != "equal":
                yield path, index, "unsteady", []
            elif index < len(ours):
                yield path, index, *judge(json.loads(ours[index]), theirs, failed)
            else:
                yield path, index, "bare", ["the document did not end in time"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folders", nargs="*", type=Path, help="folders with notebooks and Markdown files, or files")
    options.add_argument("--show", action="store_true", help="print each cell that is not equal")
    options.add_argument("--limit", type=int, default=60, help="seconds a cell; a document has eight times as many")
    options.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options.add_argument("--out", type=Path, help="folder of the checkpoints and results; default: a temporary one")
    given = options.parse_args()
    found = (file for each in given.folders for file in ([each] if each.is_file() else sorted(each.rglob("*"))))
    documents = [path.resolve() for path in found if path.suffix in (".ipynb", ".md") and cells_of(path)]
    out = (given.out or Path(tempfile.mkdtemp())).resolve()
    if not documents:
        print("no notebooks: give folders, for example of huggingface/notebooks")
        return
    if given.side:
        run_documents(documents, given.side, out, given.limit)
        return
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(out / "home"), "HF_HUB_CACHE": str(out / "hub")}
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    import _tiny_hub

    _tiny_hub.write_hub(out / "hub", (code for path in documents for code in cells_of(path)))
    for side in SIDES:
        command = [sys.executable, __file__, "--side", side, "--out", out, "--limit", str(given.limit), *documents]
        subprocess.run(command, check=True)
    counted: Counter[str] = Counter()
    for path, index, kind, wrong in compare(documents, out):
        counted[kind] += 1
        if given.show and wrong and kind != "not runnable":
            print(f"{path.name}, cell {index}: {kind}\n   " + "\n   ".join(wrong))
    runnable = counted.total() - counted["not runnable"]
    print(f"{len(documents)} documents, {counted.total()} cells with code, {runnable} run with transformers\n")
    print("| cells | share | kind |\n| --- | --- | --- |")
    for kind, meaning in KINDS.items():
        print(f"| {counted[kind]} | {counted[kind] / max(1, runnable):.1%} | {kind}: {meaning} |")
    print(f"| {counted['not runnable']} | | not runnable by transformers without a network |")


if __name__ == "__main__":
    main()
