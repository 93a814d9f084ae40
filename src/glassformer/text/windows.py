"""Windows over a text that is longer than a model reads: which tokens each reads, and for which it answers.

    tokens      0 1 2 3 4 5 6 7 8 9
    window 0    0 1 2 3 4 5              size 6, stride 3: neighbours share 3 tokens
    window 1          3 4 5 6 7 8
    window 2                6 7 8 9
    middle      0 0 0 0 1 1 1 2 2 2      each token by the window in which it has most neighbours on both sides
    context     0 0 0 0 0 0 1 1 1 2      each token by the first window that reads it: most tokens before it

`stride` is the number of tokens that neighbours share, as in a tokenizer's call and in question answering.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from glassformer.errors import ConfigError


class TextWindow(NamedTuple):
    """A stretch of tokens that is read together.

    Fields:
        start: the first token that it reads.
        end: the token after the last one that it reads.
        keep: the tokens for which its output is used; those of all windows are all tokens, once and in order.
    """

    start: int
    end: int
    keep: range

    def own(self, output: Any) -> Any:
        """The part of its output, one for each token that it reads, that is used; laid end to end they are the text's.

        Args:
            output: a list, array or tensor. [end - start, …]
        """
        return output[self.keep.start - self.start : self.keep.stop - self.start]


def windows(
    length: int,
    size: int | None,
    stride: int = 0,
    *,
    keep: str = "middle",
    begins_word: Callable[[int], bool] = lambda token: True,
) -> list[TextWindow]:
    """Cut a text of `length` tokens into windows of at most `size`.

    Args:
        length: tokens of the text.
        size: most tokens of a window; None = no limit.
        stride: tokens that neighbouring windows share, at least; 0 = none is read twice.
        keep: "middle": a shared token is answered for by the window in which it is further from where a window ends;
            "context": by the first window that reads it.
        begins_word: whether a window may begin with a token. It begins with the last such token before the place that
            `stride` gives, and cuts a word only where that would move it on by less than half as much.

    Returns: the windows, in order; none of a text without tokens.

    Raises: ConfigError: a window has no room for a token, or neighbours would share all tokens.
    """
    if size is None or length <= size:
        return [TextWindow(0, length, range(length))] if length else []
    if size < 1:
        raise ConfigError("the model reads so few tokens that the special ones leave no room for text")
    if not 0 <= stride < size:
        raise ConfigError(
            f"stride is {stride}; windows of {size} tokens share 0 to {size - 1} of them with their neighbours"
        )
    spans, step = [(0, size)], size - stride
    while spans[-1][1] < length:
        start = spans[-1][0]
        planned = start + step
        begin = next((token for token in range(planned, start + step // 2, -1) if begins_word(token)), planned)
        if not stride:
            spans[-1] = (start, begin)
        spans.append((begin, min(begin + size, length)))
    cuts = [end if keep == "context" else (begin + end) // 2 for (_, end), (begin, _) in pairwise(spans)]
    owned = [range(*edges) for edges in pairwise([0, *cuts, length])]
    return [TextWindow(*span, tokens) for span, tokens in zip(spans, owned, strict=True)]
