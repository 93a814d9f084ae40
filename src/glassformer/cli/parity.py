"""`glassformer parity FOLDER`: numerical parity with Hugging Face transformers, stage by stage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from glassformer.cli.options import Loading, ModelName, Without, command
from glassformer.cli.screen import plain_table, print_json, terminal
from glassformer.errors import DataError, GlassformerError, MissingExtraError, UnsupportedError
from glassformer.progress import spinner

if TYPE_CHECKING:
    from glassformer.evaluation.parity import ParityCase, ParityReport
    from glassformer.model import Model

TEXTS = ("Time flies like an arrow.", "Fruit flies like a banana, and a banana flies like no arrow at all.")


@command
def parity(
    model: ModelName,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs, with each input separately.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Random seed of the input ids.", min=0, max=2**63 - 1)] = 0,
    loading: Annotated[Loading, Without(["device", "dtype", "base"])],
) -> None:
    """Numerical parity with Hugging Face transformers: embeddings, every block and the head, in fp32 and in fp64.

    For models that read token ids: random ones, with padding on either side, and texts where there is a tokenizer.

    Exit code 0: equal within the tolerances. 1: they differ, and the first stage that does is named.

    Example:

    [cyan]glassformer parity ./all-MiniLM-L6-v2[/]
    """
    with spinner("comparing with transformers, in fp32 and fp64", logged=20):
        report, about = compare_folder(
            model,
            seed=seed,
            revision=loading.revision,
            allow_pickle=loading.allow_pickle,
            offline=loading.offline,
        )
    if json:
        print_json({**about, **as_dict(report)})
    else:
        _show(report, about)
    if not report.equal:
        raise typer.Exit(1)


def compare_folder(
    name: str | Path, *, seed: int = 0, revision: str | None = None, allow_pickle: bool = False, offline: bool = False
) -> tuple[ParityReport, dict[str, Any]]:
    """Load a model in both libraries and compare them; with a description of what was compared.

    Args: name: of a folder, or on the Hub · seed: of the ids · others: as in `load`
    Raises: MissingExtraError: the reference library is not installed. UnsupportedError: it reads more than token ids.
        Whatever `load` raises for a model that is damaged or not supported.
    """
    try:
        import transformers
    except ImportError:
        raise MissingExtraError("transformers", "reference", "glassformer parity") from None
    from glassformer.hub import resolve

    folder = resolve(name, revision=revision, offline=offline, allow_pickle=allow_pickle)

    import torch
    from torch import nn

    from glassformer.evaluation.parity import compare_stages
    from glassformer.evaluation.reference import reference_model
    from glassformer.model import load
    from glassformer.weights.read import open_checkpoint

    model = load(folder, dtype=torch.float32, allow_pickle=allow_pickle, offline=True)
    architecture = (model.config.get("architectures") or [model.family.architecture(model.task)])[0]
    if hasattr(transformers, architecture):  # else the error below names it
        _check_reads_ids(model)
    notes = ["fp64: both libraries compute entirely in fp64, also steps that transformers keeps in fp32"]
    with open_checkpoint(folder, allow_pickle=allow_pickle) as checkpoint:
        tensors = {name: checkpoint.read(name) for name in checkpoint.tensors}
    tensors = {  # fp64 weights are rounded to fp32 for both libraries, so that rounding is no difference
        name: tensor.float() if tensor.dtype == torch.float64 else tensor for name, tensor in tensors.items()
    }

    def reference_of(dtype: torch.dtype) -> nn.Module:
        reference, remarks = reference_model(architecture, model.config, tensors, dtype)
        notes.extend(remark for remark in remarks if remark not in notes)
        return reference

    names = model.family.names(model.spec, model.task)
    report = compare_stages(model.network, reference_of, names, _cases(model, seed, notes), notes=notes)
    about = {
        "folder": str(folder),
        "architecture": architecture,
        "reference": f"transformers {transformers.__version__}",
    }
    return report, about


def _check_reads_ids(model: Model) -> None:
    """Raises: UnsupportedError: a model that reads something beside token ids, such as pictures or sound."""
    import torch

    from glassformer.core.flow import Batch, Flow

    network, problem = model.network, ""
    if "input_ids" not in network.READS or "pixel_values" in network.READS or network.sizes.codebooks:
        problem = f"reads {'ids of codebooks' if network.sizes.codebooks else ' and '.join(network.READS)}"
    else:
        try:
            with torch.inference_mode():
                network(Batch(input_ids=torch.zeros(1, 2, dtype=torch.long)), Flow())
        except GlassformerError as error:
            problem = f"needs more: {error}"
    if problem:
        raise UnsupportedError(
            f"parity compares models on token ids alone, and this {model.family.model_type!r} model {problem}"
        )


def _cases(model: Model, seed: int, notes: list[str]) -> list[ParityCase]:
    from glassformer.evaluation.parity import random_cases, text_case

    embed = model.network.embedding.spec
    hidden = model.config.get("pad_token_id") or 0
    longest = None if embed.positions is None else embed.positions.count
    cases = random_cases(model.vocabulary, longest, token_types=embed.token_types, hidden=hidden, seed=seed)
    try:
        tokenizer = model.tokenizer
    except DataError:
        notes.append("the folder has no tokenizer, so no text was compared")
        return cases
    rows = [list(row)[:longest] for row in tokenizer(list(TEXTS))["input_ids"]]
    return [*cases, text_case(rows, hidden=hidden)]


def as_dict(report: ParityReport) -> dict[str, Any]:
    """The report as JSON data; a difference that is NaN or infinite is null."""

    def number(value: float) -> float | None:
        return value if value < float("inf") else None

    runs = [
        {
            "precision": precision,
            "input": case,
            "stages": [
                {
                    "stage": d.stage,
                    "absolute": number(d.absolute),
                    "relative": number(d.relative),
                    "tolerance": d.tolerance,
                    "within": d.within,
                }
                for d in differences
            ],
        }
        for (precision, case), differences in report.stages.items()
    ]
    first = report.first
    named = first and {"precision": first[0], "input": first[1], "stage": first[2].stage}
    return {"equal": report.equal, "first": named, "runs": runs, "notes": list(report.notes)}


def _show(report: ParityReport, about: dict[str, Any]) -> None:
    console = terminal()
    console.print(Text(f"{about['architecture']} of {about['folder']}, compared with {about['reference']}"))
    precisions = list(dict.fromkeys(precision for precision, _ in report.stages))
    cases = list(dict.fromkeys(case for _, case in report.stages))
    console.print(Text(f"maximum difference over {len(cases)} inputs: {', '.join(cases)}\n"))

    table = plain_table()
    table.add_column("stage")
    for precision in precisions:
        table.add_column(precision, justify="right")
        table.add_column("relative", justify="right")
    table.add_column("verdict")
    for differences in zip(*report.stages.values(), strict=True):
        row = [differences[0].stage]
        for precision in precisions:
            own = [d for (p, _), d in zip(report.stages, differences, strict=True) if p == precision]
            row += [f"{max(d.absolute for d in own):.1e}", f"{max(d.relative for d in own):.1e}"]
        equal = all(d.within for d in differences)
        table.add_row(*row, Text("equal", style="green") if equal else Text("differs", style="bold red"))
    console.print(table)
    console.print()

    limits = {precision: stages[0].tolerance for (precision, _), stages in report.stages.items()}
    allowed = ", ".join(f"{limit:.0e} in {precision}" for precision, limit in limits.items())
    if report.first is None:
        console.print(Text(f"equal at every stage (within {allowed}, absolute or relative)", style="green"))
    else:
        precision, case, d = report.first
        console.print(
            Text(
                f"differs first at {d.stage}, in {precision}, on {case}: by {d.absolute:.1e}, "
                f"relative {d.relative:.1e} (allowed: {allowed}, absolute or relative)",
                style="bold red",
            )
        )
    for note in report.notes:
        console.print(Text(f"note: {note}", style="dim"))
