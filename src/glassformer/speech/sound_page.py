"""HTML page of a transcription: sound, spectrogram, words and cross-attention on one axis of time.

The page is built from web/src/views/sound, as the explorer's standalone page, whose format this is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from glassformer.explorer.sound import transcript_parts
from glassformer.explorer.standalone_page import page_around
from glassformer.loaded_model import LoadedModel
from glassformer.reports.page import write_page_parts
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.transcription_trace import TranscriptionTrace


class TranscriptionPage(TranscriptionTrace):
    """A recording that is transcribed with word times, window by window, and the page that shows how.

    page = TranscriptionPage(model, "lecture.mp3", options)
    for step in page:
        print(step.segments)
    page.save("lecture.html")
    """

    def __init__(self, model: LoadedModel, sound: str | Path, options: TranscriptionOptions) -> None:
        """Args:
            options: with word times.
        Raises: as `open_recording`; PageMissingError: the page's files.
        """
        page_around()  # an early error
        super().__init__(model, sound, options)

    def parts(self) -> Iterator[str]:
        """The page as pieces of HTML, which are written one after another."""
        return transcript_parts(self)

    def save(self, path: str | Path) -> int:
        """Write the page atomically. Returns: its size in bytes. Raises: DataError: it cannot be written."""
        return write_page_parts(path, self.parts())
