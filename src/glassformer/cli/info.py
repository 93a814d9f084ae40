"""`glassformer info MODEL`: model summary: modules, parameters, FLOPs, memory, tensor names, taps."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.options import IsModel, Json, Without, command
from glassformer.cli.screen import show, show_tables, terminal
from glassformer.inspect.options import SummaryOptions
from glassformer.loading import HeadLoading
from glassformer.progress import spinner


@command
def info(
    model: Annotated[
        str,
        IsModel,
        typer.Argument(
            help="Model folder, config.json, name of a published model (see `glassformer sizes`), "
            "or model name on the Hugging Face Hub; the first that exists."
        ),
    ],
    *,
    options: SummaryOptions,
    loading: Annotated[HeadLoading, Without(["device"])],
    json: Json = False,
) -> None:
    """Model summary: modules, shapes, parameters, bytes, FLOPs per token, memory, tensor names and taps.

    No weights are read, so the model may be larger than the machine. A config.json alone is enough, and so is
    the name of a published model.

    Examples:
      glassformer info MODEL
      # the memory of a training and of inference
      glassformer info MODEL --tokens 1024 --batch 8 --memory
      # a published model, without its weights
      glassformer info gpt3-175b
    """
    with spinner("loading the model"):
        from glassformer.inspect import ram, summary
        from glassformer.inspect.outline import outline

        outlined = outline(model, loading)
    network = outlined.model.network
    theirs = outlined.checkpoint_names(allow_pickle=loading.allow_pickle) if options.names or json else None
    result = summary(network, tokens=options.tokens, theirs=theirs)
    estimate = ram(network, batch=options.batch, tokens=options.tokens)
    if json:
        show(result, json, **outlined.facts(result), memory=estimate.to_dict())
        return
    from glassformer.cli import info_screen

    console = terminal()
    info_screen.show_head(console, outlined, result)
    info_screen.show_report(console, outlined.model.report)
    console.print()
    show_tables(result.tables(), result.remarks())
    console.print()
    if options.memory:
        show(estimate)
        console.print()
    tensors = [result.tensor_table()] if options.names else []
    show_tables([*tensors, result.tap_table(folded=not options.taps)])
