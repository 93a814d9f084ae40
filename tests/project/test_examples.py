"""Every example is a configuration that a command takes, and stands in the list of results."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.rows import files_of
from glassformer.data.sets import data_sets
from glassformer.files.schema import parse
from glassformer.runs.config import RunConfig, as_list, parse_config
from glassformer.runs.folder import read_config
from glassformer.runs.several import RUNS, split_runs
from glassformer.studies.few_labels import FewLabelsConfig, read_few_labels
from glassformer.studies.shrink import ShrinkPlan
from glassformer.studies.study import parse_study
from glassformer.studies.training import TrainingEvaluator

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "examples").glob("*.yaml"))
RECIPES = [path for path in FILES if "shrink" in read_config(path)]
"""Of variants of a model that another example trains."""
FEW_LABELS = [path for path in FILES if "few_labels" in read_config(path)]
"""Comparisons of methods by the number of labels."""
EXAMPLES = [path for path in FILES if path not in (*RECIPES, *FEW_LABELS)]


def config_of(found: dict[str, Any], folder: str | None = None) -> RunConfig:
    """The configuration of a file; of a study its base, of several runs, all of which are read, the first."""
    if RUNS in found:
        first, *_ = [parse_config(own) for own in split_runs(found).values()]
        return first
    if "study" not in found:
        return parse_config(found)
    evaluator = parse_study(found, folder=folder).evaluator
    assert isinstance(evaluator, TrainingEvaluator)
    return evaluator.base


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_read(path: Path) -> None:
    found = read_config(path)
    config = config_of(found)
    output = Path(config.output).parent if RUNS in found else Path(config.output)
    assert output.name.removesuffix("-model") == path.stem
    command = "study" if "study" in found else "train"
    assert f"glassformer {command} examples/{path.name}" in path.read_text()
    for page in ("docs/results.md", "examples/README.md"):
        assert f"| `{path.name}` |" in (ROOT / page).read_text()
    elsewhere = re.sub("package:glassformer(_guitar)?/", "", path.read_text())  # what is carried along, everybody has
    assert "shared" not in elsewhere and "package:" not in elsewhere, "a stranger has neither"
    sets = [config.data.fetch] if isinstance(config.data.fetch, str) else config.data.fetch
    assert not sets or f"glassformer data fetch {' '.join(sets)}" in path.read_text()
    validation = config.data.validation
    files = [*as_list(config.data.train), *([validation] if isinstance(validation, str) else [])]
    for file in files if sets else []:
        name, _, rest = file.partition("/")
        assert name in sets and {*files_of(rest)} <= {*data_sets()[name].files}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_of_variants_is_read(path: Path) -> None:
    values, text = read_config(path), path.read_text()
    assert parse(ShrinkPlan, values["shrink"], "shrink").named
    assert values["output"] == f"runs/{path.stem}" and f"glassformer shrink examples/{path.name}" in text
    trained = Path(values["model"]).name
    assert f"glassformer train examples/{trained}.yaml" in text and ROOT / "examples" / f"{trained}.yaml" in EXAMPLES
    for page in ("docs/results.md", "examples/README.md"):
        assert f"| `{path.name}` |" in (ROOT / page).read_text()


@pytest.mark.parametrize("path", FEW_LABELS, ids=lambda path: path.stem)
def test_an_example_of_few_labels_is_read(path: Path, shared: Path) -> None:
    values, text = read_config(path), path.read_text()
    config = parse(FewLabelsConfig, values)
    assert config.output == f"runs/{path.stem}" and f"glassformer few-labels examples/{path.name}" in text
    fetch = values["data"].get("fetch")
    assert (f"glassformer data fetch {fetch}" if fetch else "# Download ") in text
    rows = read_few_labels(replace(config.data, folder=str(shared / "data"), limit=1_500), config.few_labels)
    assert len(rows.pool) > 400 and rows.test is not None and len(rows.test) == config.few_labels.test_limit
    for page in ("docs/results.md", "examples/README.md"):
        assert f"| `{path.name}` |" in (ROOT / page).read_text()


COPIES = {"xquad/xquad.en.json.gz": "xquad/xquad.en.shared.json.gz"}
"""Fetched files of which the test data have a part under another name."""


def test_every_example_reads_the_data_as_it_is_fetched(shared: Path, tmp_path: Path) -> None:
    for file in (shared / "data").glob("*/*"):
        (tmp_path / file.parent.name).mkdir(exist_ok=True)
        (tmp_path / file.parent.name / file.name).symlink_to(file)
    for name, copy in COPIES.items():
        (tmp_path / name).symlink_to(shared / "data" / copy)
    for path in EXAMPLES:
        found = read_config(path)
        place = str(tmp_path)
        config = config_of(found, place)
        if config.data.fetch:
            here = replace(config.data, folder=place) if config.data.folder is None else config.data
            assert len(here.read(here.train)) > 0, path


def test_tokens_may_be_numbered_as_in_the_source_of_wikiann(tmp_path: Path) -> None:
    data = parse_config(read_config(ROOT / "examples" / "wikiann-en.yaml")).data
    (tmp_path / "two.conll").write_text("Ann\tB-PER\nlaughs\tO\n\n")
    (tmp_path / "three.conll").write_text("0\tAnn\tB-PER\n1\tlaughs\tO\n\n")
    two, three = (list(replace(data, folder=str(tmp_path)).read(f"{name}.conll")) for name in ("two", "three"))
    assert two == three == [{"tokens": ["Ann", "laughs"], "tags": ["B-PER", "O"]}]


def test_functions_to_learn_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = runpy.run_path(str(ROOT / "examples" / "python_functions.py"))
    (tmp_path / "two.py").write_text(
        'def larger(a, b):\n    """Return the larger.\n\n    Of two."""\n    return max(a, b)\n'
    )
    (tmp_path / "wrong.py").write_text("def larger(\n")
    (text,) = script["functions"](tmp_path)
    assert text == "# Return the larger.\ndef larger(a, b):\n    return max(a, b)\n"
    assert script["head_of"](text) == "# Return the larger.\ndef larger(a, b):" and script["is_python"](text)
    assert not script["is_python"]("# Return the larger.\ndef larger(a, b):\n    return max(a,\n")
