"""`glassformer push FOLDER ORG/NAME`: upload a trained model to the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.options import Json, command
from glassformer.cli.screen import note, print_json, say
from glassformer.hub.push import UploadOptions
from glassformer.progress import spinner
from glassformer.reports.table import byte_amount

Folder = Annotated[Path, typer.Argument(help="Folder of a model, or of a run.", show_default=False)]
Name = Annotated[str, typer.Argument(help="Repository on the Hugging Face Hub: org/name.", show_default=False)]

FACTS = {"README.md": "no model card", "metrics.json": "no metrics"}
"""What a training writes next to the model, and what is missing without it."""


@command
def push(folder: Folder, name: Name, *, options: UploadOptions, json: Json = False) -> None:
    """Upload a trained model to the Hugging Face Hub: weights, config, tokenizer, model card and metrics.

    Of a run, its best model; nothing else of the folder. Nothing else uploads: a training, an export and a save write
    to this machine alone.

    Examples:
      glassformer push runs/mood me/mood --dry-run
      glassformer push runs/mood me/mood --private
    """
    from glassformer.hub.push import files_to_push, push_model

    sizes = files_to_push(folder)
    for file, missing in FACTS.items():
        if file not in sizes:
            note(f"{folder}: {missing} ({file}): glassformer train writes it")
    address = None
    if not options.dry_run:
        with spinner(f"uploading {byte_amount(sum(sizes.values()))}"):
            address = push_model(folder, name, private=options.private or None, revision=options.revision)
    if json:
        print_json({"files": sizes, "address": address})
        return
    for file, size in sizes.items():
        say(f"{byte_amount(size):>8}  {file}")
    say(f"nothing was uploaded: --dry-run; {len(sizes)} files" if address is None else f"uploaded: {address}")
