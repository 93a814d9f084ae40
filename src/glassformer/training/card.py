"""What goes with a trained model: a card for people (README.md), and the same facts for programs (metrics.json).

    run ──facts──> metrics.json
          └──card──> README.md      what it learnt from, how well it does, how to load it, how to train it again

No path of the machine stands in either: of a file its name, and the fingerprint of what was in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Protocol

from glassformer.errors import DataError
from glassformer.files import reason
from glassformer.files.parsing import strict
from glassformer.runs.charts import number
from glassformer.runs.environment import environment
from glassformer.runs.folder import CARD, METRICS, name_of_run
from glassformer.runs.history import read_config
from glassformer.tasks.metrics.intervals import Interval
from glassformer.training.callbacks import State, Training
from glassformer.weights.write import atomic_file, write_json

if TYPE_CHECKING:
    from glassformer.model import Model
    from glassformer.tasks.base import Examples


class Progressed(State, Protocol):
    """How far it came.

    tokens: read, without padding · seconds, cpu_seconds: that it took
    figures: of the best validation · best_step: where that was
    """

    @property
    def tokens(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def cpu_seconds(self) -> float: ...
    @property
    def figures(self) -> Mapping[str, float]: ...
    @property
    def best_step(self) -> int | None: ...


class Trained(Training, Protocol):
    """A trainer as its card sees it."""

    @property
    def model(self) -> Model: ...
    @property
    def objective(self) -> object: ...
    @property
    def train_examples(self) -> Examples: ...
    @property
    def validation_examples(self) -> Examples | None: ...
    @property
    def state(self) -> Progressed: ...


@dataclass(frozen=True, kw_only=True)
class Notes:
    """What only people know of a model.

    license: an SPDX name, such as "mit" · data_license: of what it learnt from
    about, limits: what it is for, and what it is not for, in Markdown
    """

    license: str | None = None
    data_license: str | None = None
    about: str | None = None
    limits: str | None = None


def write_card(
    trainer: Trained,
    folder: str | Path,
    notes: Notes | None = None,
    *,
    beside: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write `README.md` and `metrics.json` into a trained model's folder.

    Args: beside: how it stands beside baselines: metric, method, rows; systems → figure and difference, as `Interval`s
    Returns: the facts, as `metrics.json` has them.
    Raises: DataError, WeightsError: the folder cannot be written.
    """
    found = facts(trainer)
    if beside is not None:
        found["beside"] = strict(beside)
    try:
        write_json(Path(folder) / METRICS, found)
        with atomic_file(Path(folder) / CARD) as stream:
            stream.write(card(found, notes or Notes()).encode("utf-8", "replace"))
    except OSError as problem:
        raise DataError(f"{folder}: the model's card cannot be written: {reason(problem)}") from problem
    return found


def facts(trainer: Trained) -> dict[str, Any]:
    """All that is known of a training, as strict JSON can hold it."""
    state, options = trainer.state, asdict(trainer.options)
    config = {} if trainer.folder is None else read_config(trainer.folder)
    data = config.get("data", {})
    return {
        "name": name_of_run(trainer.folder or "model"),
        "task": trainer.model.task,
        "objective": type(trainer.objective).__name__,
        "architecture": trainer.model.family.architecture(trainer.model.task),
        "parameters": sum(p.numel() for p in trainer.model.network.parameters()),
        "began_with": _portable(config.get("model")),
        "steps": state.step,
        "tokens": state.tokens,
        "seconds": round(state.seconds, 3),
        "cpu_seconds": round(state.cpu_seconds, 3),
        "best_step": state.best_step,
        "metric": trainer.metric,
        "figures": strict(state.figures),
        "train": _data(trainer.train_examples, data.get("train")),
        "validation": _data(trainer.validation_examples, data.get("validation")),
        "seed": options.get("seed"),
        "config": _portable(config or {"training": options}),
        "date": datetime.now(UTC).date().isoformat(),
        "environment": (where := environment(trainer.model.device)),
        "environment_key": hashlib.sha256(json.dumps(where, sort_keys=True).encode()).hexdigest()[:12],
    }


def card(found: Mapping[str, Any], notes: Notes) -> str:
    """The card in Markdown, with the head that model hubs read."""
    import yaml

    head = {
        "library_name": "glassformer",
        "pipeline_tag": found["task"],
        "license": notes.license,
        "base_model": found["began_with"],
    }
    known = {name: value for name, value in head.items() if value}
    parts = [
        f"---\n{yaml.safe_dump(known, sort_keys=False, allow_unicode=True)}---",
        f"# {found['name']}",
        notes.about
        or f"A model for {found['task']}, trained with [Glassformer](https://pypi.org/project/glassformer/).",
        _how_well(found),
        _loading(found),
        _learnt_from(found, notes),
        *([f"## Limits\n\n{notes.limits}"] if notes.limits else []),
        f"## Licence\n\n{notes.license or 'Not stated by those who trained it; ask them before you use it.'}",
        _again(found),
    ]
    return "\n\n".join(parts) + "\n"


def _how_well(found: Mapping[str, Any]) -> str:
    held_out = found["validation"]
    if not found["figures"] or held_out is None:
        return "## How well it does\n\nIt was not validated, so nothing is known of that."
    rows = "\n".join(
        f"| {_cell(name)} | {value if isinstance(value, str) else number(value)} |"
        for name, value in found["figures"].items()
    )
    same = found["train"]["fingerprint"] == held_out["fingerprint"]
    caution = (
        "**They are the examples that it learnt from**, so the figures say little about new ones."
        if same
        else "They chose the step, so expect a little less of new ones."
    )
    return (
        f"## How well it does\n\nOn {held_out['examples']:,} validation examples, {found['date']}, after step "
        f"{found['best_step']:,} of {found['steps']:,}, the best by {_cell(found['metric'])}. {caution}\n\n"
        f"| figure | value |\n| --- | --- |\n{rows}{_beside(found)}"
    )


def _beside(found: Mapping[str, Any]) -> str:
    """The table of the model and its baselines; nothing where it was not judged."""
    if (beside := found.get("beside")) is None:
        return ""
    rows = "\n".join(
        f"| {_cell(name)} | {_interval(of.get('figure'))} | {_interval(of.get('better'), signed=True)} |"
        for name, of in beside["systems"].items()
    )
    return (
        f"\n\nBeside what simple means reach on the same {beside['rows']:,} rows, with 95 % intervals "
        f"({_cell(beside['method'])}):\n\n| system | {_cell(beside['metric'])} | the model is better by |\n"
        f"| --- | --- | --- |\n{rows}"
    )


def _interval(values: Mapping[str, float] | None, signed: bool = False) -> str:
    return "" if values is None else Interval(**values).written(3, signed=signed)


def _loading(found: Mapping[str, Any]) -> str:
    return (
        '## How to load it\n\n```python\nimport glassformer\n\nmodel = glassformer.load("path/to/this/folder")\n```\n\n'
        f"The reference library reads the folder too: `transformers.{found['architecture']}.from_pretrained(...)`."
    )


def _learnt_from(found: Mapping[str, Any], notes: Notes) -> str:
    rows = "\n".join(
        f"| {name} | {_cell(', '.join(part['files']) or '–')} | {part['examples']:,} | `{part['fingerprint'][:16]}` |"
        for name in ("train", "validation")
        if (part := found[name]) is not None
    )
    licence = notes.data_license or "Not stated by those who trained the model."
    began = f" It began with `{found['began_with']}`." if found["began_with"] else ""
    return (
        f"## What it learnt from\n\n{found['tokens']:,} tokens in {found['steps']:,} steps.{began}\n\n"
        f"| part | from | examples | fingerprint |\n| --- | --- | --- | --- |\n{rows}\n\nLicence of the data: {licence}"
    )


def _again(found: Mapping[str, Any]) -> str:
    import yaml

    config = yaml.safe_dump(found["config"], sort_keys=False, allow_unicode=True, width=110)
    where = "\n".join(f"| {name} | {_cell(value)} |" for name, value in found["environment"].items())
    return (
        f"## How to train it again\n\n```yaml\n{config}```\n\nWith seed {found['seed']}, the same data and the "
        f"same environment (key `{found['environment_key']}`) the same weights come out, to the bit; elsewhere, about "
        f"the same.\n\n| environment | |\n| --- | --- |\n{where}"
    )


def _data(examples: Examples | None, source: object) -> dict[str, Any] | None:
    """How many examples there are, what of, and the fingerprint of all of them."""
    if examples is None:
        return None
    if isinstance(source, float):
        files = [f"{source:g} of the training rows, held out"]
    else:
        files = [str(_portable(each)) for each in (source if isinstance(source, list) else [source]) if each]
    return {"files": files, "examples": len(examples), "fingerprint": examples.fingerprint}


def _portable(value: Any) -> Any:
    """A configuration without the folders of one machine: of an absolute path, the name."""
    if isinstance(value, Mapping):
        return {str(name): _portable(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [_portable(x) for x in value]
    if isinstance(value, str):
        for kind in (PurePosixPath, PureWindowsPath):
            path = kind(value)
            if path.is_absolute() or value.startswith(("~", "..")):
                return path.name
    return strict(value)


def _cell(text: object) -> str:
    """A text in a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|")
