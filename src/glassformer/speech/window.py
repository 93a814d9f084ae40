"""Decode windows of 30 s: encoder once, then greedy, beam search or sampling, with temperature fallback.

spectrogram ─ encoder ─ memory ─┬─ temperature 0: beams ─── too repetitive, or unlikely? ─ no ─> tokens
                                ├─ temperature 0.2: samples ─ … <── yes
                                └─ …
Source: Radford et al. 2022, section 4.5 (thresholds, fallback); Kasai et al. 2022 (patience).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core.flow import Batch, EncoderOutput, Flow
from glassformer.errors import UnsupportedError
from glassformer.generation.beam import beam_search
from glassformer.generation.decoding import Decoding, Multinomial, StoppingCriteria, TokenChooser, greedy
from glassformer.generation.filters import Filter, suppress
from glassformer.generation.generate import generation_defaults
from glassformer.generation.rows import Rows
from glassformer.loaded_model import LoadedModel
from glassformer.speech.decoder_fusion import DecoderFusion
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.results import Attempt
from glassformer.speech.vocabulary import SpeechVocabulary
from glassformer.speech.word_fusion import TextScore

QUIET_FRAMES = 50
"""Frames of silence after a sound, where the encoder context is as long as the sound."""
MARKS = '"#()*+/:;<=>@[\\]^_`{|}~「」『』'
MARK_GROUPS = "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪ ♩ ♪ ♫ ♬ ♭ ♮ ♯".split()
"""Written and never spoken: banned, so that sounds are not described."""


@dataclass(frozen=True)
class TimestampRules:
    """Logit filter that makes a transcript a sequence of segments with begin and end times.

        (ids [R, T], logits [R, V]) → logits [R, V]
        <|0.00|> And so my fellow Americans <|3.20|><|3.20|> ask not … <|7.10|>

    begin: prompt length
    max_initial: of the first timestamp, in steps of 0.02 s; None = no limit
    Source: Radford et al. 2022, section 4.5 and appendix on decoding: timestamps come in pairs and never go back; the
    first is at most one second; a timestamp is forced where all timestamps together are likelier than any text token.
    """

    vocabulary: SpeechVocabulary
    begin: int
    max_initial: int | None = 50

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        first, end = self.vocabulary.first_timestamp, self.vocabulary.end
        new, logits = ids[:, self.begin :], logits.clone()
        logits[:, self.vocabulary.no_timestamps] = -torch.inf
        if new.shape[1] == 0:
            logits[:, :first] = -torch.inf
            if self.max_initial is not None:
                logits[:, first + self.max_initial + 1 :] = -torch.inf
        # A few rows of a large vocabulary: ranges of each are cheaper to ban than masks of all are to make.
        for row, tokens in zip(logits, new.tolist() if new.shape[1] else (), strict=False):
            opened = tokens[-1] >= first and (len(tokens) > 1 and tokens[-2] < first)  # a pair that lacks its second
            if opened:
                row[:end] = -torch.inf
            elif tokens[-1] >= first:
                row[first:] = -torch.inf  # text follows a pair
            # A segment has a length: the timestamp that ends it is later than the one that begins it.
            latest = max(tokens) if max(tokens) >= first else first - 1
            row[first : latest if opened else latest + 1] = -torch.inf
        stamp_likelier = logits[:, first:].logsumexp(-1) > logits[:, :first].amax(-1)
        logits[:, :first].masked_fill_(stamp_likelier[:, None], -torch.inf)
        return logits


@dataclass(frozen=True)
class Decoded:
    """Tokens of one window, without prompt and end.

    attempts: all that were tried; the last one gave the tokens
    """

    tokens: tuple[int, ...]
    text: str
    no_speech_prob: float
    attempts: tuple[Attempt, ...]

    @property
    def attempt(self) -> Attempt:
        return self.attempts[-1]


class Hypothesis(NamedTuple):
    """A text of a window: tokens before the end, their score in the search, the sum of their log-probabilities.

    language: what a language model says of it that did not take part in the search
    """

    tokens: tuple[int, ...]
    score: float
    logprob: float
    language: TextScore = TextScore()

    def ranked(self, alpha: float, beta: float) -> float:
        """The score by which texts of a window are ordered: a token's, and with what the language model adds."""
        return (self.score + self.language.weighed(alpha, beta)) / max(1, len(self.tokens))


class WindowDecoder:
    """A speech model with a decoder, and how its windows are decoded."""

    def __init__(self, model: LoadedModel, options: TranscriptionOptions) -> None:
        self.model = model
        self.options = options
        self.vocabulary = SpeechVocabulary.of(model)

    @property
    def quiet_frames(self) -> int:
        """Frames of silence that a window is to have after its sound."""
        return QUIET_FRAMES if self.options.audio_context == "sound" else 0

    @torch.inference_mode()
    def encode(self, features: Tensor, frames: Sequence[int] = ()) -> EncoderOutput:
        """Encoder states of windows. [N, M, frames] → [N, T, D]

        Args:
            frames: of sound in each window, for a short encoder context; none = whole windows
        """
        features = features.to(self.model.device)
        if frames and self.options.audio_context == "sound":
            return self._memory(*short_context(features, [context_positions(count) for count in frames]))
        # One window keeps a CPU busy; what several hold on their way would fit into no cache.
        at_once = 1 if features.device.type == "cpu" else len(features)
        return EncoderOutput(torch.cat([self._memory(part, Flow()).states for part in features.split(at_once)]))

    def _memory(self, features: Tensor, flow: Flow) -> EncoderOutput:
        memory = self.model.network.memory(Batch(input_features=features), flow)
        if memory is None:
            raise UnsupportedError(f"a {self.model.family.model_type!r} model has no encoder of sounds")
        return memory

    @torch.inference_mode()
    def languages(self, memory: EncoderOutput) -> list[dict[str, float]]:
        """The probability of each language, by code, for each window; the likeliest first."""
        codes = sorted(self.vocabulary.languages, key=self.vocabulary.languages.__getitem__)
        ids = torch.full((len(memory.states), 1), self.vocabulary.start, device=memory.states.device)
        logits = Rows(self.model.network, ids, memory=memory).logits().float()
        shares = logits[:, [self.vocabulary.languages[code] for code in codes]].softmax(-1)
        return [
            dict(sorted(zip(codes, row, strict=True), key=lambda pair: -pair[1]))  # stable where they are equal
            for row in shares.tolist()
        ]

    def decode(self, memory: EncoderOutput, language: str, previous: Sequence[int] = ()) -> list[Decoded]:
        """Decode windows that share a language and the text before them; each falls back by itself."""
        prompt = self.vocabulary.prompt(
            language, self.options.task, timestamps=self.options.timestamps, previous=previous
        )
        results = dict[int, Decoded]()
        pending = list(range(len(memory.states)))
        for temperature in self.options.temperatures:
            fresh = self._decode_at(temperature, memory.rows(pending), prompt)
            for index, decoded in zip(pending, fresh, strict=True):
                before = results[index].attempts if index in results else ()
                results[index] = Decoded(
                    decoded.tokens, decoded.text, decoded.no_speech_prob, before + decoded.attempts
                )
            pending = [index for index in pending if self._is_poor(results[index])]
            if not pending:
                break
        return [results[index] for index in range(len(memory.states))]

    def _is_poor(self, decoded: Decoded) -> bool:
        """Whether a higher temperature is tried."""
        options, attempt = self.options, decoded.attempt
        limit = options.logprob_threshold
        unlikely = limit is not None and attempt.avg_logprob < limit
        silent = options.no_speech_threshold is not None and decoded.no_speech_prob > options.no_speech_threshold
        ratio = options.compression_ratio_threshold
        repetitive = ratio is not None and attempt.compression_ratio > ratio
        return (repetitive or unlikely) and not (silent and unlikely)

    def is_silent(self, decoded: Decoded) -> bool:
        """Whether a window is skipped: silence is likely, and what was decoded is not."""
        options = self.options
        if options.no_speech_threshold is None or decoded.no_speech_prob <= options.no_speech_threshold:
            return False
        return options.logprob_threshold is None or decoded.attempt.avg_logprob <= options.logprob_threshold

    def rescored(self, memory: EncoderOutput, language: str, weights: Sequence[tuple[float, float]]) -> list[list[str]]:
        """The text of each window by each pair of weights (alpha, beta), all of one search at the first temperature."""
        prompt = self.vocabulary.prompt(language, self.options.task, timestamps=self.options.timestamps)
        _, candidates = self._candidates(self.options.temperatures[0], memory, prompt)
        return [[self.text(_best(some, *pair).tokens).strip() for pair in weights] for some in candidates]

    def _decode_at(self, temperature: float, memory: EncoderOutput, prompt: Sequence[int]) -> list[Decoded]:
        """Decode windows at one temperature."""
        decoded = list[Decoded]()
        for share, hypotheses in zip(*self._candidates(temperature, memory, prompt), strict=True):
            best = _best(hypotheses, self.options.alpha, self.options.beta)
            text = self.text(best.tokens).strip()
            attempt = Attempt(temperature, best.logprob / (len(best.tokens) + 1), compression_ratio(text))
            decoded.append(Decoded(best.tokens, text, share, (attempt,)))
        return decoded

    @torch.inference_mode()
    def _candidates(
        self, temperature: float, memory: EncoderOutput, prompt: Sequence[int]
    ) -> tuple[list[float], list[list[Hypothesis]]]:
        """Of each window the probability of no speech, and the texts that a search finds."""
        count, device = len(memory.states), memory.states.device
        ids = torch.tensor([list(prompt)] * count, device=device)
        rows = Rows(self.model.network, ids, memory=memory)
        # The prompt ends with <|startoftranscript|> and what follows it; the logits there tell how likely no speech is.
        start = len(prompt) - 1 - prompt[::-1].index(self.vocabulary.start)
        silence = rows.read_prompts(len(prompt) - start)[:, 0].float().softmax(-1)[:, self.vocabulary.no_speech]
        return silence.tolist(), self._search(rows, temperature, len(prompt))

    def _search(self, rows: Rows, temperature: float, begin: int) -> list[list[Hypothesis]]:
        """Hypotheses of each window."""
        count, options, end = len(rows), self.options, self.vocabulary.end
        width = options.num_beams if temperature == 0 else options.best_of
        limit = min(self.vocabulary.context // 2, self.vocabulary.context - begin)
        filters, fusion = self._filters(begin), self._fusion.of_words(begin)
        if temperature == 0 and width > 1:
            generated = beam_search(
                rows,
                num_beams=width,
                max_new_tokens=limit,
                stop_ids=(end,),
                pad_id=end,
                length_penalty=0.0,
                patience=options.patience,
                num_return_sequences=width,
                filters=[*filters, lambda _, logits: logits.log_softmax(-1), *fusion],
            )
            scores = generated.scores
        else:
            choose: TokenChooser = greedy
            if temperature > 0:
                rows.pick(torch.arange(count, device=rows.ids.device).repeat_interleave(width))
                draw = Multinomial(len(rows), options.seed)
                choose = lambda logits: draw(logits / temperature)  # noqa: E731
            stop = StoppingCriteria(len(rows), ids=(end,), device=rows.ids.device)
            generated = Decoding(
                rows,
                max_new_tokens=limit,
                stop=stop,
                pad_id=end,
                filters=[*filters, *fusion],
                choose=choose,
                scores=True,
            ).run()
            scores = None if generated.filtered_logprobs is None else generated.filtered_logprobs.sum(-1)
        assert scores is not None  # both methods were asked for them
        # Thresholds ask how likely the sound makes a text, whatever a model of words says of it.
        logprobs = scores if not fusion or generated.logprobs is None else generated.logprobs.sum(-1)
        language = self._fusion.of_texts(generated)
        hypotheses = [
            Hypothesis(_before(row, end), *rest)
            for row, *rest in zip(generated.new_ids.tolist(), scores.tolist(), logprobs.tolist(), language, strict=True)
        ]
        each = len(hypotheses) // count
        finite = [[x for x in hypotheses[i * each : (i + 1) * each] if x.score > -torch.inf] for i in range(count)]
        return [some or [Hypothesis((), 0.0, 0.0)] for some in finite]

    def _filters(self, begin: int) -> list[Filter]:
        """Logit filters: nothing that is not spoken, no empty transcript, timestamps by their rules, fusion."""
        options, vocabulary = self.options, self.vocabulary
        filters = [*self._fusion.of_tokens(begin), suppress(self._blank, at=begin), suppress(self._suppressed)]
        if options.timestamps:
            steps = self.model.generation_config.get("max_initial_timestamp_index", 50)
            filters.append(TimestampRules(vocabulary, begin, steps if isinstance(steps, int) else None))
        return filters

    @cached_property
    def _fusion(self) -> DecoderFusion:
        return DecoderFusion(self.model, self.options, self.vocabulary)

    @cached_property
    def _blank(self) -> list[int]:
        """A transcript does not begin with a space alone, nor with its end."""
        space: list[int] = self.model.tokenizer(" ", add_special_tokens=False)["input_ids"]
        return [*space, self.vocabulary.end]

    @cached_property
    def _suppressed(self) -> list[int]:
        """Suppressed tokens: those of generation_config.json, or marks of writing; and special tokens."""
        vocabulary, tokenizer = self.vocabulary, self.model.tokenizer
        ids = set(generation_defaults(self.model).token_ids("suppress_tokens"))
        if not ids:
            ids = {tokenizer(prefix, add_special_tokens=False)["input_ids"][0] for prefix in (" -", " '")}
            for mark in [*MARKS, *MARK_GROUPS]:
                for spelled in (mark, " " + mark):
                    tokens = tokenizer(spelled, add_special_tokens=False)["input_ids"]
                    if len(tokens) == 1 or mark in "♩♪♫♬♭♮♯":
                        ids.add(tokens[0])
        special = range(vocabulary.end + 1, vocabulary.first_timestamp - 1)
        return sorted(ids | set(special))

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without timestamps and special tokens."""
        decoded: str = self.model.tokenizer.decode([token for token in tokens if token < self.vocabulary.end])
        return decoded


def context_positions(frames: int) -> int:
    """Encoder states of a short context: of the sound, and of the silence after it."""
    return -(-frames // 2) + QUIET_FRAMES // 2


def short_context(features: Tensor, positions: Sequence[int]) -> tuple[Tensor, Flow]:
    """Spectrograms cut to the longest encoder context, and the flow by which each has its own.

    The context of a sound does not depend on its neighbours: other positions are masked, and the spectrogram there is
    0, as the convolution pads it.

    Args:
        features: [N, M, frames]
        positions: encoder states of each, two frames one state
    """
    longest = min(max(positions), features.shape[-1] // 2)
    features = features[..., : 2 * longest].clone()
    for matrix, count in zip(features, positions, strict=True):
        matrix[:, 2 * count :] = 0.0
    order = torch.arange(longest, device=features.device)
    keep = order < torch.tensor(positions, device=features.device)[:, None]
    return features, Flow(keep=None if min(positions) >= longest else keep[:, None], positions=order[None])


def compression_ratio(text: str) -> float:
    """Bytes of a text / bytes after compression (gzip's method): high where it repeats itself."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data) / len(zlib.compress(data))


def _best(hypotheses: Sequence[Hypothesis], alpha: float, beta: float) -> Hypothesis:
    return max(hypotheses, key=lambda each: each.ranked(alpha, beta))


def _before(row: list[int], end: int) -> tuple[int, ...]:
    """The tokens before the end token."""
    return tuple(row[: row.index(end)] if end in row else row)
