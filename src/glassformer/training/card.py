"""Model card of a trained model (README.md), and the same facts for programs (metrics.json).

    run ──facts──> metrics.json
          └──card──> README.md      what it learnt from, how well it does, how to load it, how to train it again

No path of the machine is in either: of a file its name, and the fingerprint of what was in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from glassformer.errors import DataError
from glassformer.files import as_path, json_value
from glassformer.files.atomic import atomic_file, disk_errors, write_json
from glassformer.reports.table import markdown_table, markdown_text, number
from glassformer.runs.config import config_values
from glassformer.runs.folder import CARD, METRICS, describe_environment, run_name
from glassformer.tasks.metrics.metric import Interval

if TYPE_CHECKING:
    from glassformer.tasks.types import Examples
    from glassformer.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class CardNotes:
    """Facts for the model card that only people know.

    license: an SPDX name, such as "mit"
    data_license: of the training data
    about, limits: intended use, and limitations, in Markdown
    """

    license: str | None = None
    data_license: str | None = None
    about: str | None = None
    limits: str | None = None


def write_card(
    trainer: Trainer,
    folder: str | Path,
    notes: CardNotes | None = None,
    *,
    comparison: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write `README.md` and `metrics.json` into a trained model's folder.

    Args:
        comparison: comparison with baselines, see `EvaluationReport.card_comparison`
    Returns: the facts, as `metrics.json` has them.
    Raises: DataError, WeightsError: the folder cannot be written.
    """
    known = facts(trainer)
    if comparison is not None:
        known["comparison"] = json_value(comparison)
    folder = as_path(folder, "folder")
    with disk_errors(folder, DataError, "the model card"):
        write_json(folder / METRICS, known)
        with atomic_file(folder / CARD) as stream:
            stream.write(card(known, notes or CardNotes()).encode("utf-8", "replace"))
    return known


def facts(trainer: Trainer) -> dict[str, Any]:
    """The facts of a training, as strict JSON can hold them."""
    state, options = trainer.state, asdict(trainer.options)
    config = {} if trainer.config is None else config_values(trainer.config)
    data = config.get("data", {})
    return {
        "name": run_name(trainer.folder or "model"),
        "task": trainer.model.task,
        "task_class": type(trainer.task).__name__,
        "architecture": trainer.model.family.architecture(trainer.model.task),
        "parameters": sum(p.numel() for p in trainer.model.network.parameters()),
        "began_with": _without_paths(config.get("model")),
        "steps": state.step,
        "tokens": state.tokens,
        "seconds": round(state.seconds, 3),
        "cpu_seconds": round(state.cpu_seconds, 3),
        "best_step": state.best_step,
        "metric": trainer.metric,
        "metrics": json_value(state.best_metrics),
        "train": _data_facts(trainer.train_examples, data.get("train")),
        "validation": _data_facts(trainer.validation_examples, data.get("validation")),
        "seed": options.get("seed"),
        "config": _without_paths(config or {"training": options}),
        "date": datetime.now(UTC).date().isoformat(),
        "environment": (machine := describe_environment(trainer.model.device)),
        "environment_key": hashlib.sha256(json.dumps(machine, sort_keys=True).encode()).hexdigest()[:12],
    }


def card(known: Mapping[str, Any], notes: CardNotes) -> str:
    """The model card in Markdown, with the YAML front matter that model hubs read."""
    import yaml

    front_matter = {
        "library_name": "glassformer",
        "pipeline_tag": known["task"],
        "license": notes.license,
        "base_model": known["began_with"],
    }
    header = {name: value for name, value in front_matter.items() if value}
    parts = [
        f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---",
        f"# {known['name']}",
        notes.about
        or f"A model for {known['task']}, trained with [Glassformer](https://pypi.org/project/glassformer/).",
        _evaluation_section(known),
        _loading_section(known),
        _data_section(known, notes),
        *([f"## Limits\n\n{notes.limits}"] if notes.limits else []),
        f"## Licence\n\n{notes.license or 'Not stated by those who trained it; ask them before you use it.'}",
        _reproduce_section(known),
    ]
    return "\n\n".join(parts) + "\n"


def _evaluation_section(known: Mapping[str, Any]) -> str:
    held_out = known["validation"]
    if not known["metrics"] or held_out is None:
        return "## How well it does\n\nIt was not validated, so nothing is known of that."
    metrics = known["metrics"].items()
    rows = [[name, value if isinstance(value, str) else number(value)] for name, value in metrics]
    same = known["train"]["fingerprint"] == held_out["fingerprint"]
    caution = (
        "**They are the examples that it learnt from**, so the metrics say little about new ones."
        if same
        else "They chose the step, so expect a little less of new ones."
    )
    return (
        f"## How well it does\n\nOn {held_out['examples']:,} validation examples, {known['date']}, after step "
        f"{known['best_step']:,} of {known['steps']:,}, the best by {markdown_text(known['metric'])}. {caution}\n\n"
        f"{markdown_table(['metric', 'value'], rows)}{_comparison_table(known)}"
    )


def _comparison_table(known: Mapping[str, Any]) -> str:
    """The table of the model and its baselines; empty where it was not evaluated."""
    if (comparison := known.get("comparison")) is None:
        return ""
    headings = ["system", comparison["metric"], "the model is better by"]
    rows = [
        [name, _interval(of.get("value")), _interval(of.get("better"), signed=True)]
        for name, of in comparison["systems"].items()
    ]
    return (
        f"\n\nBeside what simple means reach on the same {comparison['rows']:,} rows, with 95% intervals "
        f"({markdown_text(comparison['method'])}):\n\n{markdown_table(headings, rows)}"
    )


def _interval(values: Mapping[str, float] | None, signed: bool = False) -> str:
    return "" if values is None else Interval(**values).written(3, signed=signed)


def _loading_section(known: Mapping[str, Any]) -> str:
    return (
        '## How to load it\n\n```python\nimport glassformer\n\nmodel = glassformer.load("path/to/this/folder")\n```\n\n'
        f"The reference library reads the folder too: `transformers.{known['architecture']}.from_pretrained(...)`."
    )


def _data_section(known: Mapping[str, Any], notes: CardNotes) -> str:
    rows = [
        [name, ", ".join(part["files"]) or "–", f"{part['examples']:,}", f"`{part['fingerprint'][:16]}`"]
        for name in ("train", "validation")
        if (part := known[name]) is not None
    ]
    table = markdown_table(["part", "from", "examples", "fingerprint"], rows)
    licence = notes.data_license or "Not stated by those who trained the model."
    began = f" It began with `{known['began_with']}`." if known["began_with"] else ""
    return (
        f"## What it learnt from\n\n{known['tokens']:,} tokens in {known['steps']:,} steps.{began}\n\n"
        f"{table}\n\nLicence of the data: {licence}"
    )


def _reproduce_section(known: Mapping[str, Any]) -> str:
    import yaml

    config = yaml.safe_dump(known["config"], sort_keys=False, allow_unicode=True, width=110)
    machine = markdown_table(["environment", ""], known["environment"].items())
    return (
        f"## How to train it again\n\n```yaml\n{config}```\n\nWith seed {known['seed']}, the same data and the "
        f"same environment (key `{known['environment_key']}`) the same weights come out, to the bit; elsewhere, about "
        f"the same.\n\n{machine}"
    )


def _data_facts(examples: Examples | None, source: object) -> dict[str, Any] | None:
    """The files, the number of examples, and the fingerprint of all of them."""
    if examples is None:
        return None
    if isinstance(source, float):
        files = [f"{source:g} of the training rows, held out"]
    else:
        files = [str(_without_paths(each)) for each in (source if isinstance(source, list) else [source]) if each]
    return {"files": files, "examples": len(examples), "fingerprint": examples.fingerprint}


def _without_paths(value: Any) -> Any:
    """A configuration without the folders of one machine: of an absolute path, the file name."""
    if isinstance(value, Mapping):
        return {str(name): _without_paths(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [_without_paths(x) for x in value]
    if isinstance(value, str):
        for kind in (PurePosixPath, PureWindowsPath):
            path = kind(value)
            if path.is_absolute() or value.startswith(("~", "..")):
                return path.name
    return json_value(value)
