"""Without the packages of an extra, each command and feature that needs one names the extra, and shows no traceback."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import glassformer
from glassformer.cli.app import COMMANDS
from glassformer.retrieval.words import stemmer
from glassformer.runs.config import parse_config
from glassformer.training.run import make_trainer
from tests.cli.conftest import Command
from tests.e2e.tiny_models import word_tokenizer

SHAKESPEARE = "package:glassformer/checkpoints/shakespeare"
CONFIG = {
    "task": "classify",
    "scratch": {"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
                "intermediate_size": 8, "max_position_embeddings": 16},
    "tokenizer": "words",
    "output": "run",
    "data": {"train": "rows.csv", "validation": 0.2},
    "training": {"steps": 1, "batch_size": 8},
}  # fmt: skip
SEARCH = {"trials": 1, "space": {"training.learning_rate": [1e-3, 1e-2]}}


class Blocked(MetaPathFinder):
    """Makes packages look as if they were not installed."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] in self.packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Hide packages, also those that are imported already."""

    def hide(*packages: str) -> None:
        monkeypatch.setattr(sys, "meta_path", [Blocked(packages), *sys.meta_path])
        for name in [*sys.modules]:  # torch.utils.tensorboard imports the package once
            if name.removeprefix("torch.utils.").partition(".")[0] in packages:
                monkeypatch.delitem(sys.modules, name)

    return hide


# package to hide, extra that is named, command
LINES = [
    ("sklearn", "map", f"embed-map {SHAKESPEARE} flies.txt --word flies"),
    ("rouge_score", "evaluate", "compare --data rows.csv -c source=text -c target=label lead-3"),
    ("sacrebleu", "evaluate", "compare --data rows.csv -c source=text -c target=label --task translation lead-3"),
    ("tensorboard", "track", "train train.yaml --output other --tracker tensorboard"),
    ("wandb", "track", "train train.yaml --output other --tracker wandb"),
    ("trackio", "track", "train train.yaml --output other --tracker trackio"),
    ("optuna", "search", "search search.yaml"),
    ("transformers", "reference", "parity run/model"),
    ("onnx", "onnx", "export run --output exported"),
    ("onnxscript", "onnx", "export run --output exported"),
    ("gguf", "gguf", f"export {SHAKESPEARE} --output exported --format gguf"),
    ("sklearn", "evaluate", "few-labels --data many.csv --model run/model --output few"),
    ("llguidance", "constrain", f"generate {SHAKESPEARE} ROMEO: --regex [a-z]+"),
    ("pyarrow", "data", "data inspect x.parquet"),
    ("py3langid", "clean", "data clean rows.csv --language uk -c audio=text"),
    ("pyarrow", "data", "encode run x.parquet --output vectors.npy"),
    ("pyarrow", "data", "train train.yaml --data x.parquet --output other"),
    ("pyarrow", "data", "shrink run --to distilled --output small"),
    ("Stemmer", "documents", "index words --output store --model none"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run, next to its data and configurations."""
    folder = tmp_path_factory.mktemp("extras")
    (folder / "words").mkdir()
    word_tokenizer().save(str(folder / "words" / "tokenizer.json"))
    rows = [f"{word} flies,{label}" for word, label in (("time", "a"), ("fruit", "b"))] * 10
    (folder / "rows.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    (folder / "many.csv").write_text(
        "text,label\n" + "".join(f"{word} {i},{word}\n" for i in range(40) for word in "ab")
    )
    (folder / "flies.txt").write_text("time flies\nwhere the fruit flies go\nhe flies to Rome\n")
    (folder / "x.parquet").write_bytes(b"PAR1")
    (folder / "search.yaml").write_text(yaml.safe_dump({**CONFIG, "search": SEARCH}))
    (folder / "train.yaml").write_text(yaml.safe_dump(CONFIG))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        make_trainer(parse_config(CONFIG)).train()
    return folder / "run"


@pytest.mark.parametrize(("package", "extra", "line"), LINES, ids=[f"{line} {package}" for package, _, line in LINES])
def test_a_command_names_the_extra(
    package: str, extra: str, line: str, command: Command, run: Path, without: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(run.parent)
    without(package)
    stemmer.cache_clear()
    done = command(*line.split())
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"pip install 'glassformer[{extra}]'" in " ".join(done.stderr.split()), done.stderr
    assert "Traceback" not in done.stderr


NEED_NONE = set(
    """demo look shot lesson
    info families sizes tokens tokenizer ngram trace lens attribute patch similar corpus predict curves
    transcribe reproduce study bench listen evaluate errors review push
    plugins find ask advise
    """.split()
)
"""Commands that run without any; what they read may need one: a picture, a sound, a GGUF file, a metric."""


@pytest.mark.parametrize(
    "line",
    ["evaluate run", "errors run --print", "compare run", "evaluate run/model --task classify --data rows.csv"],
)
def test_scores_need_no_extra(
    line: str, command: Command, run: Path, without: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    without("sklearn", "scipy", "seqeval")
    done = command(*line.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "accuracy" in done.stdout or "Confusion matrix" in done.stdout


def test_every_command_is_tried() -> None:
    assert {line.split()[0] for _, _, line in LINES} == set(COMMANDS) - set(COMMANDS.plug_ins()) - NEED_NONE


OPTIONAL = set(
    """PIL soundfile av scipy gguf onnx onnxscript onnxruntime llguidance transformers sentence_transformers ctranslate2
    bertviz accelerate sacrebleu rouge_score sklearn seqeval jiwer pyarrow pandas tensorboard wandb trackio optuna
    datasets jaxtyping py3langid Stemmer pathspec docx selectolax pypdfium2 charset_normalizer markdown_it
    """.split()
)


def test_no_module_needs_an_extra_to_be_imported() -> None:
    """Those of `integrations` import the client that each is named after."""
    source = Path(glassformer.__file__).parent
    for path in set(source.rglob("*.py")) - set((source / "integrations").glob("*.py")):
        for statement in ast.parse(path.read_text("utf-8")).body:
            names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
            names += [statement.module or ""] if isinstance(statement, ast.ImportFrom) else []
            assert OPTIONAL.isdisjoint(name.partition(".")[0] for name in names), f"{path}: {names}"
