"""What every answer has in common: packed where the client takes it, a line at a time, and failures as JSON."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import torch
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from glassformer.errors import DataError, GlassformerError
from glassformer.explorer.guard import refusal
from glassformer.explorer.runs import Run, SessionGone

log = logging.getLogger(__name__)

MOST_BODY = 1_000_000
"""Bytes of texts; no model here reads more."""
MOST_DRAINED = 64_000_000
"""Bytes of a body that is too long, read all the same, so that its sender gets to hear why it is refused."""
WORTH_GZIP = 1_000
BETWEEN_LOOKS = 0.02
"""Seconds between two looks at how far a pass has come."""

Endpoint = Callable[[Request], Awaitable[Response]]
Lines = AsyncIterator[dict[str, Any]]

PACKED = {"content-encoding": "gzip", "vary": "accept-encoding"}


async def frame(request: Request, make: Callable[[], bytes]) -> Response:
    """A frame, made in a thread."""
    wanted = takes_gzip(request)

    def compute() -> tuple[bytes, bool]:
        made = make()
        packed = gzip.compress(made, 4, mtime=0) if wanted and len(made) >= WORTH_GZIP else made
        return (packed, True) if len(packed) < 0.9 * len(made) else (made, False)

    content, packed = await run_in_threadpool(compute)
    return Response(content, media_type="application/octet-stream", headers=PACKED if packed else None)


def stream(request: Request, lines: Lines) -> Response:
    """Lines of JSON, each sent as soon as it is there."""
    kind = "application/x-ndjson"
    if takes_gzip(request):
        return StreamingResponse(_packed(lines), media_type=kind, headers=PACKED)
    return StreamingResponse(_plain(lines), media_type=kind)


async def progress(run: Run, describe: Callable[[], dict[str, Any]]) -> Lines:
    """How far a pass has come, whenever it has come further; at last its session, or why there is none."""
    shown = (0, 0)
    while not run.over:
        if run.at != shown:
            shown = run.at
            yield {"done": shown[0], "of": shown[1]}
        await asyncio.sleep(BETWEEN_LOOKS)
    try:
        yield {"ready": describe()}
    except Exception as error:
        yield {"error": sentence(error)[1]}


def logged(parts: Iterator[str]) -> Iterator[str]:
    """A failure in the middle breaks the download off, which is how a browser learns that it is not whole."""
    try:
        yield from parts
    except Exception as error:
        sentence(error)
        raise


async def _plain(lines: Lines) -> AsyncIterator[bytes]:
    async for words in lines:
        yield json.dumps(words, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


async def _packed(lines: Lines) -> AsyncIterator[bytes]:
    """A gzip stream that can be read up to each line's end as soon as the line is sent."""
    packer = zlib.compressobj(6, wbits=31)
    async for line in _plain(lines):
        yield packer.compress(line) + packer.flush(zlib.Z_SYNC_FLUSH)
    yield packer.flush()


# ------------------------------------------------------------------------------------------------------ requests


async def body(request: Request) -> dict[str, Any]:
    """The JSON object that was sent.

    Raises: HTTPException: it is too long. DataError: it is no JSON object.
    """
    kept, size = bytearray(), 0
    async for part in request.stream():
        size += len(part)
        if size <= MOST_BODY:
            kept += part
        elif size > MOST_DRAINED:
            break
    if size > MOST_BODY:
        raise HTTPException(
            413, f"the text is too long: at most {MOST_BODY:,} bytes are taken; give a part of it"
        )
    try:
        asked = json.loads(bytes(kept))
    except (ValueError, RecursionError) as error:
        raise DataError(f"the request is no JSON: {error}") from error
    if not isinstance(asked, dict):
        raise DataError("the request must be a JSON object, such as {}")
    return asked


def check_characters(text: str) -> None:
    """Raises: DataError: the text holds what is no character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            "the text holds half of a surrogate pair, which is no character; leave it out"
        ) from error


def takes_gzip(request: Request) -> bool:
    """Does the client say so? `gzip;q=0` says no."""
    for part in request.headers.get("accept-encoding", "").split(","):
        name, _, quality = part.partition(";")
        if name.strip().lower() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


# ----------------------------------------------------------------------------------------------------- errors


def caught(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with every failure as a line of JSON; the server lives on."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except (HTTPException, ClientDisconnect):
            raise
        except Exception as error:
            return refusal(*sentence(error))

    return answer


def sentence(error: Exception) -> tuple[int, str]:
    """Status and message of a failure; what is a bug goes to the log too."""
    match error:
        case SessionGone():
            return 410, str(error)
        case GlassformerError():
            return 400, str(error)
        case MemoryError() | torch.OutOfMemoryError():
            return 400, "there is not enough memory for this; give a shorter text"
    what = f"{type(error).__name__}: {error}"
    log.error("%s; this is a bug in glassformer; run again with --debug to see where", what)
    log.debug("where it happened", exc_info=error)
    return 500, f"{what}; this is a bug in glassformer: please report it with what you did"


async def nothing_here(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.url.path}: there is nothing here" if error.status_code == 404 else error.detail
    return refusal(error.status_code, message)
