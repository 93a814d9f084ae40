"""Streamers: objects that `generate(streamer=…)` gives tokens as they are chosen: text on the screen, or in a loop.

    model.generate(ids, streamer=TextStreamer(tokenizer))                           prints
    streamer = TextIteratorStreamer(tokenizer)
    Thread(target=model.generate, args=(ids,), kwargs={"streamer": streamer}).start()
    for piece in streamer: …                                                        in another thread

`model.stream(prompt)` yields the same pieces without a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from queue import Queue
from typing import Any

from torch import Tensor

from glassformer.errors import DataError
from glassformer.generation.detokenizer import IncrementalDetokenizer


class TextStreamer:
    """Print generated text as it comes, of one row.

    Args:
        skip_prompt: leave the prompt out.
        decode_kwargs: `skip_special_tokens`, as in the tokenizer's `decode`.
    """

    def __init__(self, tokenizer: Any, skip_prompt: bool = False, **decode_kwargs: Any) -> None:
        self.tokenizer = tokenizer
        self.skip_prompt = skip_prompt
        self.decode_kwargs = {"skip_special_tokens": False, **decode_kwargs}
        self._expects_prompt = True
        self._pieces = IncrementalDetokenizer(tokenizer, **self.decode_kwargs)

    def put(self, value: Tensor) -> None:
        """Take the prompt [1, T], and then each token [1]."""
        if value.dim() > 1 and value.shape[0] > 1:
            raise DataError(f"a text streamer takes one row, and there are {value.shape[0]}; give one prompt")
        is_prompt, self._expects_prompt = self._expects_prompt, False
        if is_prompt and self.skip_prompt:
            return
        if piece := "".join(self._pieces.add(token) for token in value.flatten().tolist()):
            self.on_finalized_text(piece)

    def end(self) -> None:
        """Show the rest of the text."""
        rest = self._pieces.flush()
        self._expects_prompt = True
        self._pieces = IncrementalDetokenizer(self.tokenizer, **self.decode_kwargs)
        self.on_finalized_text(rest, stream_end=True)

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        """What becomes of a piece of text."""
        print(text, flush=True, end="\n" if stream_end else "")


class TextIteratorStreamer(TextStreamer):
    """Iterate over generated text while another thread generates it.

    Args:
        timeout: seconds to wait for a piece; None = as long as it takes
    Raises: queue.Empty: on iteration, after the timeout.
    """

    def __init__(
        self, tokenizer: Any, skip_prompt: bool = False, timeout: float | None = None, **decode_kwargs: Any
    ) -> None:
        super().__init__(tokenizer, skip_prompt, **decode_kwargs)
        self.timeout = timeout
        self.text_queue: Queue[str | None] = Queue()

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        self.text_queue.put(text, timeout=self.timeout)
        if stream_end:
            self.text_queue.put(None, timeout=self.timeout)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        piece = self.text_queue.get(timeout=self.timeout)
        if piece is None:
            raise StopIteration
        return piece
