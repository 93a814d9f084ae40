"""`glassformer parity FOLDER`: numerical parity with Hugging Face transformers, stage by stage."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.options import ModelName, Without, command
from glassformer.cli.screen import show
from glassformer.files.schema import given
from glassformer.loading import Loading
from glassformer.progress import spinner


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
      glassformer parity ./all-MiniLM-L6-v2
    """
    with spinner("comparing with transformers, in fp32 and fp64", logged=20):
        from glassformer.evaluation.parity import compare_folder

        report = compare_folder(
            model,
            seed=seed,
            **given(loading),
        )
    show(report, json)
    if not report.equal:
        raise typer.Exit(1)
