"""`glassformer encode MODEL FILE --out vectors.npy`: sentence embeddings of the lines of a text file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import AllowPickle, Device, Json, ModelName, Offline, Revision
from glassformer.cli.screen import print_json

if TYPE_CHECKING:
    import numpy as np

PRECISIONS = ("fp32", "fp16", "bf16", "int8")


TextFile = Annotated[
    str, typer.Argument(help="Text file (UTF-8), one text per line; - reads standard input.")
]
Output = Annotated[
    Path, typer.Option("--out", "-o", help="Output file: a NumPy array (.npy), one float32 row per line.")
]
PackedPrecision = Annotated[
    str,
    typer.Option(
        "--precision",
        help="Inference precision: fp32 is exact; fp16, bf16 and int8 are faster on some machines.",
    ),
]
BatchTokens = Annotated[
    int | None, typer.Option(min=1, help="Batch size, in tokens. Default: 1024.", show_default=False)
]
Truncate = Annotated[
    bool,
    typer.Option("--truncate/--no-truncate", help="Truncate texts that are too long, or raise an error."),
]


def encode(
    model: ModelName,
    file: TextFile,
    out: Output,
    precision: PackedPrecision = "fp32",
    batch_tokens: BatchTokens = None,
    truncate: Truncate = True,
    device: Device = "cpu",
    revision: Revision = None,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Compute embeddings: one vector for each line of a text file, saved as one NumPy array.

    Row i of the array is line i of the file; an empty line is a text too. Read the array with numpy.load.
    """
    import warnings
    from time import perf_counter

    from glassformer.errors import ConfigError

    if precision not in PRECISIONS:
        raise ConfigError(f"--precision is {precision!r}; allowed: {', '.join(PRECISIONS)}")
    _check_output(out)
    texts = _read_lines(file)

    from glassformer.model import load

    loaded = load(model, device=device, revision=revision, allow_pickle=allow_pickle, offline=offline)
    loaded.prepare(precision)
    options = {} if batch_tokens is None else {"batch_tokens": batch_tokens}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = perf_counter()
        vectors = loaded.encode(texts, truncate=truncate, **options)
        seconds = perf_counter() - start
    for warning in caught:
        typer.echo(f"note: {warning.message}", err=True)
    _save(out, vectors)

    count, width = vectors.shape
    rate = count / seconds if count else 0.0
    if json:
        report = {
            "texts": count,
            "width": width,
            "seconds": seconds,
            "texts_per_second": rate,
            "precision": precision,
            "out": str(out),
            "notes": [str(warning.message) for warning in caught],
        }
        print_json(report)
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
    """Read the lines of a UTF-8 file. Only \\n and \\r\\n end a line; a last empty line is dropped.

    Raises: DataError: no such file, a folder, or not text.
    """
    from glassformer.errors import DataError

    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as error:
        raise DataError(
            f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}; give a text file, one text per line"
        ) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{_name(file)}: line {line} is not UTF-8 text; save the file as UTF-8, one text per line"
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(
            f"{_name(file)}: line {line} holds a NUL byte, so this is a binary file; give a text file"
        )
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _check_output(out: Path) -> None:
    """Check, before the work, that the output file can be written. Raises: DataError: it cannot."""
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
        raise DataError(f"{folder}: is not writable; choose another folder for {out.name}")


def _save(out: Path, vectors: np.ndarray) -> None:
    """Write the array atomically: an existing file stays until the new one is complete."""
    import numpy as np

    from glassformer.errors import DataError
    from glassformer.files.atomic import atomic_file

    target = out.resolve()  # a symbolic link keeps pointing to the file
    try:
        with atomic_file(target) as stream:
            np.save(stream, vectors, allow_pickle=False)
    except OSError as error:
        raise DataError(f"{out}: cannot be written: {error.strerror or error}") from error
