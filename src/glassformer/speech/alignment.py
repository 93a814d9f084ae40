"""Word times: cross-attention of some heads is a path through the sound, which dynamic time warping follows.

    tokens  brown ┤        ▓▓▓           tokens are read once more, all at a time; the weights of alignment heads are
            fox   ┤           ▓▓         normalised, smoothed and averaged; the cheapest monotonic path says when each
            jumps ┤             ▓▓▓▓     token begins
                  └───────────────── frames of 0.02 s

Source: Radford et al. 2022, section 4.5 and released code (heads, smoothing); Sakoe and Chiba 1978 (time warping).
Differs: paths are found in numpy, a row of the table at a time.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.core.flow import Batch, EncoderOutput, Flow, Tape
from glassformer.speech.results import Segment, TimedWord
from glassformer.speech.window import WindowDecoder

FRAMES_PER_SECOND = 50  # of the encoder's output: 1500 for 30 s
SMOOTHED_FRAMES = 7
"""Width of the median filter over time."""
WITHOUT_SPACES = frozenset({"zh", "ja", "th", "lo", "my", "yue"})
"""Languages that write no spaces: each character is a word."""
OPENING, CLOSING = "\"'“¿([{-", "\"'.。,，!！?？:：”)]}、"
"""Punctuation that belongs to the word after it, and to the word before it."""
SENTENCE_ENDS = ".。!！?？"
USUAL_SECONDS = 0.7
"""A word is seldom longer; where the median of a window is, this is in its place."""
GAP_WORDS = 4
"""A pause is a gap of this many words of the median length."""


@dataclass(frozen=True)
class Alignment:
    """Cross-attention of one window, along which its word times were found.

    begin: of the window, in seconds
    heads: (layer, head) of each of the weights
    weights: normalised, smoothed attention of each token, and of the end. [heads, T + 1, frames]
    pieces: each word's text and number of tokens; punctuation by itself
    segments: with the times of their words
    size: of the recording in the window, in frames of the spectrogram
    ids: what the decoder reads: a prompt of `prompt_length` tokens, the text, its end. Each token is predicted, and
        looks for its sound, at the one before it
    """

    begin: float
    heads: tuple[tuple[int, int], ...]
    weights: Tensor
    pieces: tuple[tuple[str, int], ...]
    segments: tuple[Segment, ...]
    size: int
    ids: tuple[int, ...]
    prompt_length: int


class WordAligner:
    """Times of words by cross-attention.

    Args:
        heads: (layer, head) of the decoder's cross-attention, counted from 0
        on_alignment: called with the attention of each window
    """

    def __init__(
        self,
        decoder: WindowDecoder,
        heads: Sequence[tuple[int, int]],
        on_alignment: Callable[[Alignment], None] | None = None,
    ) -> None:
        self._decoder = decoder
        self._heads = list(heads)
        self._on_alignment = on_alignment
        self._last_end = 0.0  # of the speech before, in seconds

    def align(
        self, memory: EncoderOutput, segments: Sequence[Segment], size: int, begin: float, language: str
    ) -> list[Segment]:
        """Segments of one window with the times of their words, which are the segments' times too.

        Args:
            memory: encoder states of the window. [1, T, D]
            size: of the recording in the window, in frames of the spectrogram
            begin: of the window, in seconds
        """
        texts = [[t for t in segment.tokens if t < self._decoder.vocabulary.end] for segment in segments]
        tokens = [token for text in texts for token in text]
        if not tokens:
            return list(segments)
        matrix, probabilities = self.attention(memory, tokens, size, language)
        starts = [frame / FRAMES_PER_SECOND + begin for frame in token_starts(-matrix.mean(0).double().numpy())]
        words, pieces = list[list[TimedWord]](), list[tuple[str, int]]()
        at = 0
        for text in texts:
            row = list[TimedWord]()
            for piece in self._pieces(text, language):
                span = probabilities[at : at + len(piece)]
                share = sum(span) / len(span)
                row.append(TimedWord(self._decoder.text(piece), starts[at], starts[at + len(piece)], share))
                pieces.append((row[-1].word, len(piece)))
                at += len(piece)
            words.append(row)
        timed = self._timed(segments, words)
        if self._on_alignment is not None:
            prompt = self._prompt(language)
            self._on_alignment(
                Alignment(
                    begin=begin,
                    heads=tuple(self._heads),
                    weights=matrix,
                    pieces=tuple(pieces),
                    segments=tuple(timed),
                    size=size,
                    ids=(*prompt, *tokens, self._decoder.vocabulary.end),
                    prompt_length=len(prompt),
                )
            )
        return timed

    def _prompt(self, language: str) -> list[int]:
        return self._decoder.vocabulary.sequence(language, self._decoder.options.task, timestamps=False)

    @torch.inference_mode()
    def attention(
        self, memory: EncoderOutput, tokens: Sequence[int], size: int, language: str
    ) -> tuple[Tensor, list[float]]:
        """Normalised, smoothed attention of the heads where they predict each token and the end; and probabilities.

        Returns: [heads, T + 1, frames], and the probability of each token.
        """
        decoder, vocabulary = self._decoder, self._decoder.vocabulary
        prompt = self._prompt(language)
        ids = torch.tensor([[*prompt, *tokens, vocabulary.end]], device=memory.states.device)
        layers = sorted({layer for layer, _ in self._heads})
        names = {layer: f"decoder.blocks.{layer}.cross.probs" for layer in layers}
        tape = Tape(*names.values()).attach(decoder.model.network)
        output = decoder.model.network(Batch(decoder_input_ids=ids), Flow(memory=memory, tape=tape))
        logits = output.logits[0, len(prompt) - 1 : -2, : vocabulary.end].float()
        shares = logits.softmax(-1).gather(1, torch.tensor(tokens, device=logits.device)[:, None])[:, 0]
        frames = max(1, size // 2)
        weights = torch.stack([tape.taps[names[layer]][0, head, :, :frames] for layer, head in self._heads]).float()
        weights = weights / weights.sum(-1, keepdim=True)  # as if the rest of the window had been masked
        weights = (weights - weights.mean(1, keepdim=True)) / weights.std(1, keepdim=True, correction=0)
        return median_filter(weights.nan_to_num(), SMOOTHED_FRAMES)[:, len(prompt) - 1 : -1].cpu(), shares.tolist()

    def _pieces(self, tokens: list[int], language: str) -> list[list[int]]:
        """The tokens of each word."""
        characters = list[list[int]]()
        for token in tokens:  # a character may have several tokens
            if characters and "\ufffd" in self._decoder.text(characters[-1]):
                characters[-1].append(token)
            else:
                characters.append([token])
        if language in WITHOUT_SPACES:
            return characters
        words = list[list[int]]()
        for piece in characters:
            text = self._decoder.text(piece)
            if text.startswith(" ") or text.strip() in string.punctuation or not words:
                words.append(list(piece))
            else:
                words[-1] += piece
        return words

    def _timed(self, segments: Sequence[Segment], words: Sequence[list[TimedWord]]) -> list[Segment]:
        """Segments with words whose lengths are plausible, and with punctuation at its word."""
        lengths = [word.end - word.start for row in words for word in row if word.end > word.start]
        usual = min(USUAL_SECONDS, median(lengths)) if lengths else 0.0
        flat = shorten_at_sentences([word for row in words for word in row], 2 * usual)
        timed = list[Segment]()
        for segment, row in zip(segments, words, strict=True):
            own, flat = join_punctuation(flat[: len(row)]), flat[len(row) :]
            if own:
                own, start, end = self._after_pause(own, segment, usual)
                self._last_end = end
                segment = replace(segment, start=start, end=end, words=tuple(own))
            timed.append(segment)
        return timed

    def _after_pause(
        self, words: list[TimedWord], segment: Segment, usual: float
    ) -> tuple[list[TimedWord], float, float]:
        """Words after a pause do not begin in it: attention says little about silence. Also the segment's new times."""
        longest, (first, *others) = 2 * usual, words
        gap = first.end - self._last_end > GAP_WORDS * usual
        if gap and (first.end - first.start > longest or (others and others[0].end - first.start > 2 * longest)):
            if others and others[0].end - others[0].start > longest:
                edge = max(others[0].end / 2, others[0].end - longest)
                first, others[0] = replace(first, end=edge), replace(others[0], start=edge)
            first = replace(first, start=max(0.0, first.end - longest))
        start, end = first.start, words[-1].end
        if segment.start < first.end and segment.start - 0.5 > first.start:
            start = max(0.0, min(first.end - usual, segment.start))
            first = replace(first, start=start)
        words = [first, *others]
        if segment.end > words[-1].start and segment.end + 0.5 < words[-1].end:
            end = max(words[-1].start + usual, segment.end)
            words[-1] = replace(words[-1], end=end)
        else:
            end = words[-1].end
        return words, start, end


def shorten_at_sentences(words: Sequence[TimedWord], longest: float) -> list[TimedWord]:
    """The silence between two sentences belongs to neither: their last mark, or the word after it, is cut short."""
    words = list(words)
    for i in range(1, len(words)):
        word, before = words[i], words[i - 1]
        if word.end - word.start <= longest:
            continue
        if word.word.strip() and word.word.strip() in SENTENCE_ENDS:
            words[i] = replace(word, end=word.start + longest)
        elif before.word.strip() and before.word.strip() in SENTENCE_ENDS:
            words[i] = replace(word, start=word.end - longest)
    return words


def join_punctuation(words: Sequence[TimedWord]) -> list[TimedWord]:
    """Punctuation becomes part of the word that it opens, or closes; the word keeps its own times."""
    joined = list[TimedWord]()
    opening = ""
    for word in words:
        mark = word.word.strip()
        if word.word.startswith(" ") and mark and mark in OPENING:
            opening += word.word
        elif joined and not opening and mark and not word.word.startswith(" ") and mark in CLOSING:
            joined[-1] = replace(joined[-1], word=joined[-1].word + word.word)
        else:
            joined.append(replace(word, word=opening + word.word))
            opening = ""
    if opening and joined:
        joined[-1] = replace(joined[-1], word=joined[-1].word + opening)
    return joined


def median_filter(x: Tensor, width: int) -> Tensor:
    """The median of this many neighbours, along the last axis; edges are mirrored. [..., frames]"""
    half = width // 2
    if x.shape[-1] <= half:
        return x
    padded = torch.nn.functional.pad(x, (half, half), mode="reflect")
    return padded.unfold(-1, width, 1).median(-1).values


def token_starts(costs: NDArray[np.float64]) -> list[int]:
    """Dynamic time warping: the frame at which each token begins, on the cheapest monotonic path. [T, frames] → [T]

    The path goes from the first token and frame to the last ones, by one token, one frame, or both at a time.
    """
    rows, columns = costs.shape
    total = np.full((rows + 1, columns + 1), math.inf)
    total[0, 0] = 0.0
    # Cells of one diagonal depend on the two before it, so a whole diagonal is computed at a time.
    for diagonal in range(2, rows + columns + 1):
        i = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        j = diagonal - i
        best = np.minimum(np.minimum(total[i - 1, j - 1], total[i - 1, j]), total[i, j - 1])
        total[i, j] = costs[i - 1, j - 1] + best
    starts, (i, j) = [0] * rows, (rows, columns)
    while i > 0 and j > 0:
        starts[i - 1] = j - 1
        steps = (total[i - 1, j - 1], total[i - 1, j], total[i, j - 1])
        # A step straight on is taken only where it is cheaper than both others.
        if steps[0] < steps[1] and steps[0] < steps[2]:
            i, j = i - 1, j - 1
        elif steps[1] < steps[0] and steps[1] < steps[2]:
            i -= 1
        else:
            j -= 1
    return starts
