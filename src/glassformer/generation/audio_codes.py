"""Generate the codes of an audio codec: continue from a recording, or convert one into another.

    codes [K, T] ─ delayed ids ─ network, a step at a time ─ an id of each codebook ─ codes [K, T + frames]

Each step predicts one id of every codebook, each of them a frame later than the codebook before it (`CodePattern`), so
that T frames take T + K - 1 steps. They are sampled unless asked otherwise: greedy search mostly ends in repeating one
code. Sounds longer than the network was trained on are made in windows: each continues from the last part of what there
is.

A decoder converts where the source is its first codebooks and the target the others:

    step    1   2   3   4   5   6   7
    a      a1  a2  a3  a4   ·   ·   ·      a, b   the source, known throughout
    b       ·  b1  b2  b3  b4   ·   ·      x, y   the target: x1 is predicted by all steps before its own,
    x       ·   ·  x1  x2  x3  x4   ·             which hold a2 too, a frame that comes later
    y       ·   ·   ·  y1  y2  y3  y4

Source: Copet et al. 2023 (MusicGen), section 2.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from glassformer.audio.code_patterns import CodePattern
from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Batch, EncoderOutput, Flow
from glassformer.engine.prepare import MIN_STEPS_TO_PACK, prepare_for_steps
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.generation.decoding import Multinomial, TokenChooser, greedy, invalid_logits_error
from glassformer.generation.generator import sampling_filters
from glassformer.generation.options import GenerationOptions, check_combinations, check_value
from glassformer.models import Network, eval_mode

Progress = Callable[[int], None]
"""Called with how many more frames are made."""
CONVERSION_TEMPERATURE = 0.6
"""Of conversions, unless asked otherwise: the source says what is to be written, and likely codes are nearer to it."""


def code_pattern(network: Network) -> CodePattern:
    """How a network reads codes. Raises: UnsupportedError: it reads none."""
    if not network.sizes.codebooks:
        raise UnsupportedError(
            f"a {type(network).__name__} reads no codes of several codebooks; load a model of the type "
            "'musicgen_decoder', or a 'transformer' with codebooks"
        )
    return CodePattern(kind="delayed", books=network.sizes.codebooks, entries=network.vocabulary - 1)


def source_pattern(network: Network) -> CodePattern:
    """The codes that a network converts: of a decoder, half of its codebooks.

    Raises: UnsupportedError: it reads no codes, or an odd number of codebooks.
    """
    pattern = code_pattern(network)
    if "decoder_input_ids" in network.READS:
        return pattern
    if pattern.books % 2:
        raise UnsupportedError(
            f"a decoder of {pattern.books} codebooks continues a recording: continue_codes(codes, frames); one that "
            "converts has those of the source and as many of the target"
        )
    return replace(pattern, books=pattern.books // 2)


def longest_window(network: Network) -> int:
    """The most frames that a network reads or writes at once."""
    return (network.max_tokens or 2**31) - network.sizes.codebooks


def continue_codes(
    network: Network,
    codes: Tensor,
    frames: int,
    *,
    progress: Progress | None = None,
    prepare: bool = False,
    **options: object,
) -> Tensor:
    """Go on from a recording: its codes, and those of this many more frames. [K, T] → [K, T + frames]

    Args:
        codes: of the recording, one frame at least
        frames: how many more
        progress: see `Progress`
        prepare: a plain network for many steps, see `prepare_for_steps`
        options: do_sample (True), temperature, top_k, top_p, min_p, typical_p, seed
    Raises: UnsupportedError: the network reads no codes. DataError: codes of another codec. ConfigError: the options.
    """
    pattern = code_pattern(network)
    if "decoder_input_ids" in network.READS:
        raise UnsupportedError("an encoder-decoder over codes converts a recording into another: convert_codes(codes)")
    if type(frames) is not int or frames < 1:
        raise ConfigError(f"frames is {safe_repr(frames)}; it must be a whole number from 1 up")
    pattern.tokens(codes)  # an early error
    generator = _CodeGenerator(network, pattern, {"do_sample": True, **options}, progress)
    if prepare and frames >= MIN_STEPS_TO_PACK:
        prepare_for_steps(network)
    made, total, window = codes.long().cpu(), codes.shape[1] + frames, longest_window(network)
    while (left := total - made.shape[1]) > 0:
        new = min(left, max(window - made.shape[1], window // 2))
        begin = max(made.shape[1] - (window - new), 0)
        made = torch.cat([made[:, :begin], generator.extend(made[:, begin:], new)], 1)
    return made


def convert_codes(
    network: Network, codes: Tensor, *, progress: Progress | None = None, prepare: bool = False, **options: object
) -> Tensor:
    """Convert a recording into another of the same length. [K, T] → [K, T]

    By an encoder-decoder, or by a decoder of 2 K codebooks: those of the source, then those of the target.
    Args:
        progress, prepare, options: as of `continue_codes`; temperature is 0.6 unless it is given
    Raises: as `continue_codes`.
    """
    pattern = code_pattern(network)
    source_pattern(network).tokens(codes)  # an early error
    options = {"do_sample": True, **options}
    if options["do_sample"] is True:
        options.setdefault("temperature", CONVERSION_TEMPERATURE)
    generator = _CodeGenerator(network, pattern, options, progress)
    if prepare and codes.shape[1] >= MIN_STEPS_TO_PACK:
        prepare_for_steps(network)
    source, window = codes.long().cpu(), longest_window(network)
    made, total = source[:, :0], source.shape[1]
    while (done := made.shape[1]) < total:
        begin = 0 if done == 0 else max(min(done - window // 2, total - window), 0)
        end = min(begin + window, total)
        made = torch.cat([made[:, :begin], generator.extend(made[:, begin:], end - done, source[:, begin:end])], 1)
    return made


class _CodeGenerator:
    """Steps of generation of one network, with one sampling method."""

    def __init__(
        self, network: Network, pattern: CodePattern, options: dict[str, object], progress: Progress | None
    ) -> None:
        known = ("do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "seed")
        for name in options:
            if name not in known:
                raise ConfigError(f"codes are generated with {', '.join(known)}; got {safe_repr(name)}")
            check_value(name, options[name], pattern.entries)
        if network.head is None:
            raise ConfigError("this model was loaded without its head; load it with task='text-to-audio'")
        checked = GenerationOptions(**options)  # type: ignore[arg-type]
        check_combinations(checked, pattern.entries)
        self.network, self.pattern, self._progress = network, pattern, progress
        self._filters = sampling_filters(checked) if checked.do_sample else []
        self._choose: TokenChooser = Multinomial(pattern.books, checked.seed or 0) if checked.do_sample else greedy

    @torch.inference_mode()
    def extend(self, prompt: Tensor, frames: int, source: Tensor | None = None) -> Tensor:
        """A prompt and this many more frames. [K, P] → [K, P + frames], P may be 0; source: what is converted [K, T]"""
        pattern, known = self.pattern, prompt.shape[1]
        codes = torch.cat([prompt, prompt.new_zeros(len(prompt), frames)], 1)
        given_books = pattern.books - len(prompt)  # codebooks of a source, before those that are written
        if given_books:
            assert source is not None  # `convert_codes` gives it
            codes, source = torch.cat([source, codes]), None
        ids = pattern.tokens(codes)  # [T + K - 1, K]
        begun = torch.arange(len(ids))[:, None] - torch.arange(pattern.books)  # the frame that each place is of
        given = (begun < known) | (begun >= known + frames)
        given[:, :given_books] = True
        given_ids = ids.where(given, pattern.padding)
        written = torch.cat([ids.new_full((1, pattern.books), pattern.padding), given_ids])
        cache, memory, read = KeyValueCache(), self._memory(source), 0
        with eval_mode(self.network):
            for step in range(known, len(ids)):
                chosen = self._step(written[read : step + 1], cache, memory)
                read = step + 1
                written[read] = given_ids[step].where(given[step], chosen)
                if self._progress is not None and step < known + frames:
                    self._progress(1)
        return pattern.codes(written[1:])[given_books:].clone()

    def _memory(self, source: Tensor | None) -> EncoderOutput | None:
        if source is None:
            return None
        return self.network.memory(Batch(input_ids=source.T[None].to(self._device)), Flow())

    @property
    def _device(self) -> torch.device:
        return next(self.network.parameters()).device

    def _step(self, ids: Tensor, cache: KeyValueCache, memory: EncoderOutput | None) -> Tensor:
        """The ids that follow new ones [n, K]. [K] Raises: WeightsError: the logits are NaN."""
        name = "input_ids" if memory is None else "decoder_input_ids"
        batch = Batch(**{name: ids[None].to(self._device)})
        output = self.network(batch, Flow(cache=cache, memory=memory, last=1))
        assert output.logits is not None
        logits = output.logits[0, -1, :, : self.pattern.entries].float().cpu()
        if not bool(logits.isfinite().all()):
            raise invalid_logits_error(cache.length, self.network)
        for apply in self._filters:
            logits = apply(ids, logits)
        return self._choose(logits)
