"""`glassformer encode MODEL FILE --out vectors.npy`: a vector for each line of a text file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import AllowPickle, Device, Json, ModelName, Offline, Revision

if TYPE_CHECKING:
    import numpy as np

PRECISIONS = ("fp32", "fp16", "bf16", "int8")


def encode(
    model: ModelName,
    file: Annotated[str, typer.Argument(help="A UTF-8 text file, one text a line; - reads standard input.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where the vectors go: a .npy file, one float32 row a line.")
    ],
    precision: Annotated[
        str,
        typer.Option(help="fp32 is exact; bf16 and int8 are faster on some machines and differ a little."),
    ] = "fp32",
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many tokens go through the model at once. Default: 1024.", show_default=False
        ),
    ] = None,
    truncate: Annotated[
        bool, typer.Option("--truncate/--no-truncate", help="Cut texts that are too long, or refuse them.")
    ] = True,
    device: Device = "cpu",
    revision: Revision = None,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Turn each line of a text file into a vector, and save them as one NumPy array.

    Row i of the array is line i of the file; an empty line is a text too. Read it with numpy.load.
    """
    import warnings
    from time import perf_counter

    from glassformer.errors import ConfigError

    if precision not in PRECISIONS:
        raise ConfigError(f"--precision is {precision!r}; allowed: {', '.join(PRECISIONS)}")
    _check_place(out)
    texts = _read_lines(file)

    from glassformer.model import load

    found = load(model, device=device, revision=revision, allow_pickle=allow_pickle, offline=offline)
    found.prepare(precision)
    options = {} if batch_tokens is None else {"pass_tokens": batch_tokens}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = perf_counter()
        vectors = found.encode(texts, truncate=truncate, **options)
        seconds = perf_counter() - start
    for warning in caught:
        typer.echo(f"note: {warning.message}", err=True)
    _save(out, vectors)

    count, width = vectors.shape
    rate = count / seconds if count else 0.0
    if json:
        import json as json_format

        report = {
            "texts": count,
            "width": width,
            "seconds": seconds,
            "texts_per_second": rate,
            "precision": precision,
            "out": str(out),
            "notes": [str(warning.message) for warning in caught],
        }
        typer.echo(json_format.dumps(report, ensure_ascii=False, indent=2))
    elif count:
        typer.echo(
            f"{count:,} texts → {width} numbers each, in {seconds:.2f} s: {rate:,.0f} texts/s ({precision})"
        )
        typer.echo(f"saved in {out}")
    else:
        typer.echo(f"{_name(file)} is empty: saved an array of shape [0, {width}] in {out}")


def _name(file: str) -> str:
    return "standard input" if file == "-" else file


def _read_lines(file: str) -> list[str]:
    """The lines of a UTF-8 file, without their ends. Only \\n and \\r\\n end a line; a last empty one is none.

    Raises: DataError: no such file, a folder, or not text.
    """
    from glassformer.errors import DataError

    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as error:
        raise DataError(
            f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}; give a text file, one text a line"
        ) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{_name(file)}: line {line} is not UTF-8 text; save the file as UTF-8, one text a line"
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(
            f"{_name(file)}: line {line} holds a NUL byte, so this is no text file; give one text a line"
        )
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _check_place(out: Path) -> None:
    """Is this a place to save to? Better known before the work than after it."""
    from glassformer.errors import DataError

    if out.suffix != ".npy":
        raise DataError(
            f"--out is {str(out)!r}; vectors are saved as a NumPy array, so its name must end in .npy"
        )
    if out.is_dir():
        raise DataError(f"{out}: is a folder; name a file in it, such as {out / 'vectors.npy'}")
    folder = out.absolute().parent
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder to save {out.name} in; make it first")
    if not os.access(folder, os.W_OK):
        raise DataError(f"{folder}: this folder cannot be written to; choose another place for {out.name}")


def _save(out: Path, vectors: np.ndarray) -> None:
    """Write the whole array beside its place, then move it there: an old file stays until a new one is complete."""
    import numpy as np

    from glassformer.errors import DataError
    from glassformer.weights.write import atomic_file

    place = out.resolve()  # of a link, the file that it stands for
    try:
        with atomic_file(place) as stream:
            np.save(stream, vectors, allow_pickle=False)
    except OSError as error:
        raise DataError(f"{out}: cannot be written: {error.strerror or error}") from error
