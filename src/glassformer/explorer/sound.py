"""Sound view: the recording of the page is transcribed in a thread; its words, its attention and its sound as routes.

POST /api/transcribe {}             a line a window: {"done", "of"} in seconds … {"ready"} or {"error"}
GET  /api/spectrogram               a frame
GET  /api/alignment?window=N        a frame
GET  /api/recording                 the file itself, to be played
POST /api/listen {"window": N}      as /api/runs: the session of a window and its text
GET  /api/transcript                the page of the transcription, as one HTML file

No request names a file: a page must not be able to read any file of this machine.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from glassformer.errors import DataError, UnsupportedError
from glassformer.explorer import http
from glassformer.explorer.describe import describe
from glassformer.explorer.http import json_errors
from glassformer.explorer.requests import EmptyRequest, WindowRequest
from glassformer.explorer.session_runs import Job, Jobs, SessionGone, SessionRuns, TranscribedSound
from glassformer.explorer.standalone_page import data_element, frame_block, json_block, page_around
from glassformer.files.schema import parse, parse_query
from glassformer.reports.page import command_line

EMBEDDED_BYTES, SERVED_BYTES = 4_000_000, 200_000_000
"""Largest sound that a standalone page carries, and that the server sends; another one is chosen by the reader."""
MEDIA_TYPES = {
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".mp3": "audio/mpeg",
    ".m4a": "audio/mp4",
    ".mp4": "audio/mp4",
    ".ogg": "audio/ogg",
    ".oga": "audio/ogg",
    ".opus": "audio/ogg",
    ".webm": "audio/webm",
}
"""What browsers play."""


def media_type(sound: Path, limit: int) -> str | None:
    """The media type of a file that browsers play and that is not larger than the limit."""
    kind = MEDIA_TYPES.get(sound.suffix.lower())
    return kind if kind is not None and sound.stat().st_size <= limit else None


def transcript_parts(trace: TranscribedSound) -> Iterator[str]:
    """The page of a transcription as HTML in pieces, from its beginning to its end."""
    before, after = page_around(views=["sound"])
    yield before
    yield frame_block("spectrogram", trace.spectrogram())
    for number, frame in enumerate(trace.alignments):
        yield frame_block(f"alignment/{number}", frame)
    kind = media_type(trace.sound, EMBEDDED_BYTES)
    if kind is not None:
        data = base64.b64encode(trace.sound.read_bytes()).decode()
        yield data_element(data, id="sound", data_media=kind)
    about = trace.description(playable=kind is not None)
    yield json_block("transcript", {**about, "command": command_line() or about["command"]})
    yield after


class TranscriptionRun(Job[TranscribedSound]):
    """One transcription.

    seconds_done: of the recording, and its length
    """

    def __init__(self, make: Callable[[], TranscribedSound]) -> None:
        super().__init__()
        self.seconds_done = (0, 0)
        self._make = make

    def work(self) -> TranscribedSound:
        with self.awaited():  # it continues after its reader has left: an hour of speech is not transcribed twice
            return self._transcribe()

    def _transcribe(self) -> TranscribedSound:
        trace = self._make()
        of = max(1, round(trace.duration))
        self.seconds_done = (0, of)

        def progress(seconds: float) -> None:
            self.seconds_done = (min(round(seconds), of), of)

        trace.run(progress, self.check_running)
        return trace


class TranscriptionStore:
    """The transcription of the recording that a page was opened with; it begins when it is first asked for."""

    def __init__(self, make: Callable[[str], TranscribedSound] | None) -> None:
        self._make = make
        self._run: TranscriptionRun | None = None
        self._lock = threading.Lock()
        self._jobs = Jobs()

    def begin(self, sound: str) -> TranscriptionRun:
        """The transcription: finished, running, or new. Raises: UnsupportedError: the model transcribes nothing."""
        make = self._make
        if make is None:
            raise UnsupportedError("this model does not transcribe speech; Whisper and wav2vec 2.0 do")
        with self._lock:
            if self._run is None or self._run.failure is not None:
                self._run = TranscriptionRun(lambda: make(sound))
                self._jobs.start(self._run, lambda: None)
            return self._run

    def get(self) -> TranscribedSound:
        """What was transcribed. Raises: SessionGone: nothing yet."""
        run = self._run
        if run is None or run.value is None:
            raise SessionGone("this recording is not transcribed yet; open the view Sound")
        return run.value

    def close(self) -> None:
        """Stop, and wait for the thread."""
        self._jobs.close()


def sound_routes(runs: SessionRuns, store: TranscriptionStore, sound: str) -> list[Route]:
    """The routes.

    Args:
        sound: the file that the page was opened with
    """

    async def transcribe(request: Request) -> Response:
        parse(EmptyRequest, await http.body(request))  # it is of the sound that the page was opened with
        run = store.begin(sound)

        def ready() -> dict[str, Any]:
            trace = run.result()
            return trace.description(playable=media_type(trace.sound, SERVED_BYTES) is not None)

        return http.stream(request, http.progress(run, lambda: run.seconds_done, ready))

    async def listen(request: Request) -> Response:
        window = parse(WindowRequest, await http.body(request)).window
        run = await run_in_threadpool(runs.listen, sound, store.begin(sound).result, window)

        def described() -> dict[str, Any]:
            return {**describe(run.result(), runs.facts, run.texts, run.id), "heard": {"window": window}}

        return http.stream(request, http.progress(run, lambda: run.blocks_done, described))

    return [
        Route("/api/transcribe", json_errors(transcribe), methods=["POST"]),
        Route("/api/listen", json_errors(listen), methods=["POST"]),
        *_transcript_routes(store),
    ]


def _transcript_routes(store: TranscriptionStore) -> list[Route]:
    """What there is once the recording is transcribed."""

    async def spectrogram(request: Request) -> Response:
        parse_query(EmptyRequest, request.query_params.multi_items())
        trace = store.get()
        return await http.frame(request, trace.spectrogram)

    async def alignment(request: Request) -> Response:
        alignments = store.get().alignments
        window = parse_query(WindowRequest, request.query_params.multi_items()).window
        if window >= len(alignments):
            raise DataError(f"window {window} has no attention here; {len(alignments)} windows have")
        return await http.frame(request, lambda: alignments[window])

    async def recording(request: Request) -> Response:
        parse_query(EmptyRequest, request.query_params.multi_items())
        path = store.get().sound
        kind = media_type(path, SERVED_BYTES) if path.is_file() else None
        if kind is None:
            raise DataError(f"{path.name} cannot be played here: it is gone, too large, or of a kind no browser plays")
        return FileResponse(path, media_type=kind)

    async def page(request: Request) -> Response:
        parse_query(EmptyRequest, request.query_params.multi_items())
        return StreamingResponse(http.logged(transcript_parts(store.get())), media_type="text/html")

    return [
        Route("/api/spectrogram", json_errors(spectrogram)),
        Route("/api/alignment", json_errors(alignment)),
        Route("/api/recording", json_errors(recording)),
        Route("/api/transcript", json_errors(page)),
    ]
