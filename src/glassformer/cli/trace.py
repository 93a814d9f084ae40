"""`glassformer trace MODEL TEXT [TEXT]`: shapes and statistics of every tensor of a forward pass."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.inputs import opened
from glassformer.cli.options import ModelName, Texts, Truncate, command
from glassformer.cli.screen import show, terminal, text_of
from glassformer.loading import HeadLoading


@command
def trace(
    model: ModelName,
    texts: Texts,
    taps: Annotated[
        list[str] | None,
        typer.Option(
            help="Taps to show, such as attn.probs or 'blocks.*.out'; repeatable. Default: all but scores and probs.",
            show_default=False,
        ),
    ] = None,
    all_layers: Annotated[bool, typer.Option("--all", help="Show every layer, without folding equal ones.")] = False,
    *,
    loading: HeadLoading,
    truncate: Truncate = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs, of every layer.")] = False,
) -> None:
    """Trace a forward pass: shape, axes, mean, standard deviation, minimum and maximum of every tensor.

    No tensor is stored, so the trace takes no extra memory. An encoder-decoder takes a source and a target text.

    Examples:
      glassformer trace ./all-MiniLM-L6-v2 'time flies like an arrow'
      glassformer trace ./all-MiniLM-L6-v2 'time flies' 'fruit flies' --taps attn.probs --all
    """
    loaded, session = opened(model, texts, loading, truncation=truncate)
    from glassformer.inspect.trace import SLOW

    rows = session.trace(*(taps or ()))
    architecture = loaded.family.architecture(loaded.task)
    if not json:
        tokens = ", ".join(f"{len(tokens):,} {side} tokens" for side, tokens in session.streams.items())
        terminal().print(text_of(f"{architecture}, for {loaded.task} · {tokens}"))
    show(
        rows.unfolded() if all_layers else rows,
        json,
        architecture=architecture,
        task=loaded.task,
        folder=str(loaded.folder),
        texts=list(session.texts),
        tokens={side: len(tokens) for side, tokens in session.streams.items()},
        left_out=[] if taps else [name for name in loaded.taps() if name.split(".")[-1] in SLOW],
    )
