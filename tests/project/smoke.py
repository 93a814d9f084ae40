"""A smoke test of an installed wheel, run by `make package` outside the source tree: main jobs without a network."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

COMMAND = [sys.executable, "-m", "glassformer"]
SHAKESPEARE = "package:glassformer/checkpoints/shakespeare"
TRAINING = """
task: classify
scratch: {model_type: bert, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16,
  vocab_size: 300, max_position_embeddings: 32}
tokenizer: {kind: wordpiece, size: 60}
output: run
data: {train: mood.csv, validation: 0.25}
training: {steps: 2, batch_size: 4}
"""


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run([*COMMAND, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"glassformer {' '.join(arguments)} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    import glassformer

    folder = Path(tempfile.mkdtemp())
    assert Path(glassformer.__file__).parts[-3] == "site-packages", glassformer.__file__
    assert run(folder, "--version").split() == ["glassformer", glassformer.__version__]
    assert "train" in run(folder, "--help")
    assert len(run(folder, "generate", SHAKESPEARE, "ROMEO:", "--max-new-tokens", "5")) > 5
    run(folder, "look", SHAKESPEARE, "O time", "--html", "page.html")
    assert "<html" in (folder / "page.html").read_text(encoding="utf-8")[:500].lower()
    rows = [
        f"{word} day number {n},{label}" for n in range(12) for word, label in (("lovely", "joy"), ("awful", "anger"))
    ]
    (folder / "mood.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    (folder / "run.yaml").write_text(TRAINING)
    run(folder, "train", "run.yaml")
    assert json.loads(run(folder, "predict", "classify", "run", "lovely day", "--json")), "no prediction"
    print(
        f"Python {sys.version.split()[0]}: glassformer {glassformer.__version__} generates, draws, trains and predicts"
    )


if __name__ == "__main__":
    main()
