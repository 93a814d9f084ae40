"""`glassformer look` of a codec, and `--view sound` of a model over codes: the page of a recording as codes."""

from __future__ import annotations

from pathlib import Path

from glassformer.audio_coding import CODEC
from glassformer.cli.listen import print_example, show_page
from glassformer.cli.screen import notes, print_json, progress_of
from glassformer.errors import DataError
from glassformer.explorer.codes_page import attention_example, codec_example
from glassformer.explorer.listening_page import ListeningPage
from glassformer.model import Model, load
from glassformer.models._codec import AudioCodec
from glassformer.reports.page import check_html_path, command_line


def shows_sound(model: Model, view: str | None) -> bool:
    """Whether the page is that of a recording as codes: always of a codec, which has no attention."""
    return isinstance(model.network, AudioCodec) or (view == "sound" and model.network.sizes.codebooks > 0)


def look_at_codes(
    model: Model, files: list[str], *, codec: str | None, html: Path | None, browser: bool | None, json: bool
) -> None:
    """Print what the recording is, and show the page.

    Raises: DataError: not one file. ConfigError: a codec of other codes than the model's.
    """
    if len(files) != 1:
        raise DataError(f"a model of sound as codes is looked at with the file of one recording; got {len(files)}")
    if html is not None:
        check_html_path(html)
    with notes(repeats=False):
        if isinstance(model.network, AudioCodec):
            example = codec_example(model.network, files[0])
        else:
            made_by = load(codec or CODEC)
            with progress_of("forward pass") as bar:
                session = model.inspect(files[0], codec=made_by, progress=bar)
            example = attention_example(session, made_by.network)
    page = ListeningPage([example], example.title, command=command_line())
    if json:
        saved = {} if html is None else {"out": str(html), "bytes": page.save(html)}
        print_json({**example.to_dict(), **saved}, indent=None)
        return
    print_example(example)
    show_page(page, html, browser)
