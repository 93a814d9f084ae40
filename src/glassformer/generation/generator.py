"""Text generation of one network: validate inputs, make the logit filters of the options, decode with their method.

generator.generate(inputs, mask, options)    all of it: a Generated
generator.decoding(inputs, mask, options)    streaming: a step at a time
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.core.flow import Batch, EncoderOutput, Tape
from glassformer.core.quantised import FixedProgram
from glassformer.edge import check_ids, check_numbers, check_prompts_end, check_room, keep_of
from glassformer.engine.prepare import MIN_STEPS_TO_PACK, prepare_for_steps
from glassformer.errors import ConfigError, DataError
from glassformer.generation import filters
from glassformer.generation.beam import beam_search, seeded_generators
from glassformer.generation.constrain import Constraint, grammar_of
from glassformer.generation.contrastive import ContrastiveSearch
from glassformer.generation.decoding import (
    Decoding,
    DecodingStep,
    Generated,
    Interrupted,
    Multinomial,
    StoppingCriteria,
    TokenChooser,
    as_normal,
    greedy,
    multinomial,
)
from glassformer.generation.detokenizer import StopStringMatcher
from glassformer.generation.filters import Filter
from glassformer.generation.options import GenerationOptions, as_biases, as_texts
from glassformer.generation.rows import LookaheadRows, Rows, truncate
from glassformer.generation.scorer import shallow_fusion
from glassformer.generation.speculative import (
    ASSISTANT_TOKENS,
    MATCHING_NGRAM,
    DraftModel,
    PromptLookup,
    RejectionSampler,
    SeededUniforms,
    SpeculativeRows,
)
from glassformer.models import Network
from glassformer.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from glassformer.generation.defaults import GenerationDefaults


@dataclass(frozen=True)
class GenerationInputs:
    """Validated rows, the number of new tokens, and logit filters.

    source: encoder input ids, -1 where they are padding; None for other models. [R, S]
    draft: the same rows for the draft model
    """

    rows: Rows
    new_tokens: int
    filters: list[Filter]
    source: Tensor | None = None
    draft: Rows | None = None


@dataclass(frozen=True)
class Generator:
    """A network with a language-model head, and its generation defaults.

    Args:
        is_encoder_decoder: whether it generates an answer to its input, instead of continuing it.
        tokenizer: returns the tokenizer, for options that are texts; raises where there is none.
        special_ids: returns the special tokens around a text, which truncation keeps.
        draft: the draft model of speculative decoding.
    """

    network: Network
    defaults: GenerationDefaults
    is_encoder_decoder: bool
    tokenizer: Callable[[], Tokenizer]
    special_ids: Callable[[], frozenset[int]]
    draft: Generator | None = None

    def generate(self, inputs: Tensor, mask: Tensor | None, options: GenerationOptions) -> Generated:
        """Generate with the method of the options; arguments as in `prepare`."""
        return self.run(self.prepare(inputs, mask, options), options)

    def run(
        self,
        inputs: GenerationInputs,
        options: GenerationOptions,
        on_step: Callable[[DecodingStep], None] | None = None,
    ) -> Generated:
        """Generate from prepared inputs, which it consumes.

        Args:
            on_step: called after each step, of every method but beam search.
        """
        try:
            beams = options.num_beams > 1 and inputs.new_tokens > 0
            return as_normal(self.search(inputs, options) if beams else self.decode(inputs, options).run(on_step))
        except Interrupted as interrupt:
            interrupt.partial = as_normal(interrupt.partial)
            raise

    def decoding(self, inputs: Tensor, mask: Tensor | None, options: GenerationOptions) -> Decoding:
        """Every method but beam search, to be iterated over step by step."""
        return self.decode(self.prepare(inputs, mask, options), options)

    # -------------------------------------------------------------------------------------------------------- inputs

    def prepare(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        options: GenerationOptions,
        decoder_ids: Tensor | None = None,
        *,
        given: Tensor | None = None,
        tape: Tape | None = None,
    ) -> GenerationInputs:
        """Validate the inputs, truncate them where the options say so, and make rows.

        Args:
            inputs: token ids, padded on the left [R, T], or audio features [R, M, frames].
            mask: attention mask, 0 where ids are padding. [R, T]
            decoder_ids: tokens with which an encoder-decoder's answers begin. [R, T]; None = its start token
            given: what stands for the inputs, whose ids may be -1: vectors of the tokens, or of an encoder-decoder what
                its encoder made of them. [R, T, width]
            tape: records the passes of the network
        Raises: DataError: an empty prompt, padding on the right, no room.
        """
        ids, keep, encoder_batch, source = self._checked_inputs(inputs, mask, options, given)
        if self.is_encoder_decoder:
            ids = self._decoder_start(ids, decoder_ids, options)
        elif decoder_ids is not None:
            raise ConfigError(
                "decoder_input_ids begin the answers of an encoder-decoder, and this model has no encoder"
            )
        new_tokens = self._new_tokens(ids.shape[1], options)
        chain = logit_filters(self, ids, new_tokens, source, options)

        def rows(network: Network, tape: Tape | None = None) -> Rows:
            if new_tokens >= MIN_STEPS_TO_PACK and options.use_cache:
                prepare_for_steps(network)
            make = partial(Rows, network, ids, tape=tape, cached=options.use_cache)
            if not self.is_encoder_decoder:
                return make(keep=None if keep is None else keep[:, 0], vectors=given)
            memory = None if given is None else EncoderOutput(given, keep)
            return make(encoder_batch=encoder_batch, encoder_keep=keep, memory=memory)

        draft = None if self.draft is None else rows(self.draft.network)
        own = rows(self.network, tape)
        own.retires = not reads_every_row(options)
        return GenerationInputs(own, new_tokens, chain, source, draft)

    def _checked_inputs(
        self, inputs: Tensor, mask: Tensor | None, options: GenerationOptions, given: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Batch | None, Tensor | None]:
        """Ids or features, their mask [R, 1, T], what an encoder reads, and its ids, -1 where they are padding."""
        if given is not None:
            keep = keep_of("attention_mask", mask, inputs, None)
            if keep is not None and not self.is_encoder_decoder:
                check_prompts_end(keep)
            return inputs, keep, None, None
        if inputs.is_floating_point() and "input_features" in self.network.READS:
            check_numbers("input_features", inputs, "[B, mel bins, frames]")
            return inputs, None, Batch(input_features=inputs), None
        ids, keep = self._checked_ids(inputs, mask, options)
        if not self.is_encoder_decoder:
            return ids, keep, None, None
        return ids, keep, Batch(input_ids=ids), ids if keep is None else ids.masked_fill(~keep[:, 0], -1)

    def _decoder_start(self, inputs: Tensor, decoder_ids: Tensor | None, options: GenerationOptions) -> Tensor:
        """The tokens with which answers begin: the start token, then those that are given. [R, T]"""
        if decoder_ids is not None:
            check_ids("decoder_input_ids", decoder_ids, self.network.target_vocabulary)
            if len(decoder_ids) != len(inputs):
                raise DataError(f"decoder_input_ids has {len(decoder_ids)} rows; the input has {len(inputs)}")
            decoder_ids = decoder_ids.to(inputs.device)
        start = self.defaults.with_options(options).start_id
        first = torch.full((len(inputs), 1), start, device=inputs.device)
        if decoder_ids is None:
            return first
        return decoder_ids if bool((decoder_ids[:, :1] == first).all()) else torch.cat([first, decoder_ids], dim=1)

    def _checked_ids(
        self, ids: Tensor, mask: Tensor | None, options: GenerationOptions
    ) -> tuple[Tensor, Tensor | None]:
        """Valid ids and their mask [B, 1, T], truncated where the options say so."""
        if ids.dim() == 2 and ids.shape[0] == 0:
            raise DataError(f"input_ids has shape {list(ids.shape)}, which holds no prompt; give at least one row")
        if ids.dim() == 2 and ids.shape[1] == 0:
            raise DataError("the prompt is empty; give at least one token, such as the tokenizer's bos_token")
        check_ids("input_ids", ids, self.network.vocabulary)
        keep = keep_of("attention_mask", mask, ids, None)
        if keep is not None and not self.is_encoder_decoder:
            check_prompts_end(keep)
        return self._truncated(ids, keep, options) if options.truncation else (ids, keep)

    def _truncated(self, ids: Tensor, keep: Tensor | None, options: GenerationOptions) -> tuple[Tensor, Tensor | None]:
        """Ids and their mask [B, 1, T], truncated to the context length."""
        lengths = [self.network.max_tokens or self.defaults.context]
        if not self.is_encoder_decoder:
            lengths += [None if self.draft is None else self.draft.network.max_tokens]
        room = min((length for length in lengths if length is not None), default=None)
        if room is not None and not self.is_encoder_decoder:
            # The last token is not read, except by contrastive search, which compares hidden states of candidates.
            room += (options.penalty_alpha is None) - options.new_tokens(0, self.defaults)[0]
        if room is None or room < 1:
            return ids, keep
        default = "right" if self.is_encoder_decoder else "left"
        side = options.truncation if isinstance(options.truncation, str) else default
        pad_id = self.defaults.with_options(options).pad_id
        return truncate(ids, keep, room, side=side, special=self.special_ids(), pad_id=pad_id)

    def _new_tokens(self, prompt_length: int, options: GenerationOptions) -> int:
        """The maximum number of new tokens, for which both networks must have room."""
        limits = [self.network.max_tokens, None if self.draft is None else self.draft.network.max_tokens]
        known = [limit for limit in limits if limit is not None]
        reads_all = options.penalty_alpha is not None
        room = min(known) - prompt_length + (not reads_all) if known else None
        new_tokens, _ = options.new_tokens(prompt_length, self.defaults, room)
        if "input_features" in self.network.READS:  # language, task and no-timestamps begin a transcript: not counted
            begin = 1 + max(self.defaults.with_options(options).forced_tokens, default=0)
            uncounted = max(0, begin - prompt_length) + prompt_length * (options.max_new_tokens is None)
            new_tokens = min(new_tokens + uncounted, max(new_tokens, room or 0))
        check_room(prompt_length, new_tokens, self.network.max_tokens, reads_all=reads_all)
        if not self.is_encoder_decoder:
            self._check_context(prompt_length, new_tokens)
        if self.draft is not None:
            limit = self.draft.network.max_tokens
            check_room(prompt_length, new_tokens, limit, who="the assistant_model")
        return new_tokens

    def _check_context(self, prompt_length: int, new_tokens: int) -> None:
        """Warn where positions are unlimited, but exceed the context length that the model was trained with."""
        context = self.defaults.context
        positions = prompt_length + new_tokens - 1  # the last token is not read
        if self.network.max_tokens is None and context is not None and positions > context:
            warnings.warn(
                f"a prompt of {prompt_length} tokens and {new_tokens} new ones are more than the {context} that the "
                "model was made for (max_position_embeddings): it can read them, and may generate nonsense; shorten "
                "the prompt, or give truncation=True (--truncate)",
                stacklevel=2,
            )

    # ------------------------------------------------------------------------------------------------------- methods

    def decode(self, inputs: GenerationInputs, options: GenerationOptions) -> Decoding:
        """Every method but beam search; it consumes the inputs."""
        rows, defaults = inputs.rows, self.defaults.with_options(options)
        device = rows.ids.device
        if options.num_return_sequences > 1:
            prompts = torch.arange(len(rows), device=device)
            for each in [rows] if inputs.draft is None else [rows, inputs.draft]:
                each.pick(prompts.repeat_interleave(options.num_return_sequences))
        strings = as_texts(options.stop_strings)
        stop = StoppingCriteria(
            len(rows),
            ids=defaults.stop_ids,
            strings=strings,
            tokenizer=self.tokenizer() if strings else None,
            seconds=options.max_time,
            criteria=options.stopping_criteria or (),
            device=device,
        )
        rows_or_lookahead, choose = self._method(inputs, options, stop)
        if rows_or_lookahead is rows:
            rows.largest = largest_read(options, inputs.filters)
        return Decoding(
            rows_or_lookahead,
            max_new_tokens=inputs.new_tokens,
            stop=stop,
            pad_id=defaults.pad_id,
            filters=inputs.filters,
            choose=choose,
            scores=options.return_scores or options.top > 0,
            top=options.top,
        )

    def _method(
        self, inputs: GenerationInputs, options: GenerationOptions, stop: StoppingCriteria
    ) -> tuple[Rows | LookaheadRows, TokenChooser]:
        """The rows of the method, and how it chooses the next token."""
        rows = inputs.rows
        if options.penalty_alpha is not None:
            if isinstance(self.network, FixedProgram):
                self.network.refuse("asked for hidden states, which contrastive search compares")
            contrastive = ContrastiveSearch(rows, alpha=options.penalty_alpha, k=options.top_k or 1)
            return contrastive, contrastive.choose
        choose: TokenChooser = greedy
        if options.do_sample:
            choose = multinomial if options.seed is None else Multinomial(len(rows), options.seed)

        def speculative(propose: PromptLookup | DraftModel, num_tokens: int) -> SpeculativeRows:
            columns, pad_id = rows.ids.shape[1] + inputs.new_tokens, self.defaults.with_options(options).pad_id
            return SpeculativeRows(rows, propose, num_tokens=num_tokens, max_columns=columns, stop=stop, pad_id=pad_id)

        if options.prompt_lookup_num_tokens is not None:
            source = inputs.source
            if source is not None:
                source = source.repeat_interleave(options.num_return_sequences, dim=0)
            lookup = PromptLookup(options.max_matching_ngram_size or MATCHING_NGRAM, source)
            return speculative(lookup, options.prompt_lookup_num_tokens), choose
        if inputs.draft is None:
            return rows, choose
        num_tokens = options.num_assistant_tokens or ASSISTANT_TOKENS
        if not options.do_sample:
            return speculative(DraftModel(inputs.draft), num_tokens), choose
        uniforms = SeededUniforms(len(rows), _seed(options))
        lookahead = speculative(DraftModel(inputs.draft, uniforms, sampling_filters(options)), num_tokens)
        return lookahead, RejectionSampler(lookahead, uniforms)

    def search(
        self,
        inputs: GenerationInputs,
        options: GenerationOptions,
        *,
        on_step: Callable[[Generated], None] | None = None,
    ) -> Generated:
        """Beam search; it consumes the inputs."""
        defaults = self.defaults.with_options(options)
        generators = (
            torch.default_generator if options.seed is None else seeded_generators(len(inputs.rows), options.seed)
        )
        strings = as_texts(options.stop_strings)
        return beam_search(
            inputs.rows,
            num_beams=options.num_beams,
            num_beam_groups=options.num_beam_groups,
            diversity_penalty=options.diversity_penalty or 0.0,
            max_new_tokens=inputs.new_tokens,
            stop_ids=defaults.stop_ids,
            stop_strings=StopStringMatcher(strings, self.tokenizer()) if strings else None,
            seconds=options.max_time,
            criteria=options.stopping_criteria or (),
            pad_id=defaults.pad_id,
            length_penalty=1.0 if options.length_penalty is None else options.length_penalty,
            early_stopping=False if options.early_stopping is None else options.early_stopping,
            num_return_sequences=options.num_return_sequences,
            filters=inputs.filters,
            on_step=on_step,
            generator=generators if options.do_sample else None,
        )


def _seed(options: GenerationOptions) -> int:
    """The random seed, or one from torch's generator, which `torch.manual_seed` makes reproducible."""
    return int(torch.randint(2**62, ())) if options.seed is None else options.seed


# ── logit filters ────────────────────────────────────────────────────────────────────────────────────────────


def logit_filters(
    generator: Generator, prompts: Tensor, new_tokens: int, source: Tensor | None, options: GenerationOptions
) -> list[Filter]:
    """Logit filters in order of application: scorers, rules, forced tokens, custom, then sampling filters.

    Args:
        prompts: what rows begin with. [R, T]
        source: encoder input, -1 where it is padding. [R, S]
    """
    defaults, prompt_length = generator.defaults.with_options(options), prompts.shape[1]
    stop_ids = defaults.stop_ids
    if options.forced_bos_token_id is not None and not generator.is_encoder_decoder:
        raise ConfigError(
            "forced_bos_token_id begins the answer of an encoder-decoder, and this model continues its prompt; "
            "put the token at the end of the prompt"
        )
    result = [
        shallow_fusion(scorer, weight, prompt_length=prompt_length)
        for scorer, weight in options.scorers or ()
        if weight
    ]
    if options.sequence_bias:
        result.append(filters.bias_words(dict(as_biases(options.sequence_bias))))
    if options.encoder_repetition_penalty not in (None, 1):
        reward = 1 / float(options.encoder_repetition_penalty or 1)
        result.append(filters.repetition_penalty(reward, source=prompts if source is None else source))
    result += _rules(generator, len(prompts), source, options)
    _, minimum = options.new_tokens(prompt_length, defaults, new_tokens)
    if minimum and stop_ids:
        result.append(filters.suppress(stop_ids, before=prompt_length + minimum))
    grammar = grammar_of(options) if options.is_constrained else None
    if grammar is not None:
        size, text = defaults.vocabulary, generator.tokenizer()
        result.append(Constraint(grammar, text, vocabulary=size, prompt_length=prompt_length, stop_ids=stop_ids))
    result += defaults.filters(prompt_length, answers=generator.is_encoder_decoder)
    # A forced end would contradict a grammar, which allows the end only where the text matches.
    if (last := defaults.token_ids("forced_eos_token_id")) and grammar is None:
        result.append(filters.allow_only(last, at=prompt_length + new_tokens - 1))
    if (decay := options.exponential_decay_length_penalty) is not None and stop_ids:
        result.append(filters.favour_end(stop_ids, float(decay[1]), begin=prompt_length + int(decay[0])))
    result += [filters.of_caller(own, defaults.pad_id) for own in options.logits_processor or ()]
    if options.do_sample:
        # Beam sampling needs a candidate that is not a stop token.
        result += sampling_filters(options, 1 + len(stop_ids) if options.num_beams > 1 else 1)
    elif options.renormalize_logits:
        result.append(_log_probabilities)
    return result


def _rules(generator: Generator, prompts: int, source: Tensor | None, options: GenerationOptions) -> list[Filter]:
    words = [list(word) for word in options.bad_words_ids or ()]
    for text in as_texts(options.bad_words):
        encoded = [generator.tokenizer().encode(space + text, add_special_tokens=False) for space in ("", " ")]
        words += [word for word in encoded if word and word not in words]
    rules: list[Filter] = []
    if options.repetition_penalty not in (None, 1):
        rules.append(filters.repetition_penalty(float(options.repetition_penalty or 1)))
    if options.no_repeat_ngram_size:
        rules.append(filters.no_repeat_ngrams(options.no_repeat_ngram_size))
    if options.encoder_no_repeat_ngram_size and source is not None:
        if generator.network.vocabulary != generator.network.target_vocabulary:
            raise ConfigError(
                "encoder_no_repeat_ngram_size looks for tokens of the source in the answer, and this model has "
                "another vocabulary for each; leave it out"
            )
        rules.append(filters.no_repeat_ngrams(options.encoder_no_repeat_ngram_size, source=source))
    if words:
        rules.append(filters.ban_words(words))
    if options.prefix_allowed_tokens_fn is not None:
        by_prompt = filters.allow_by(options.prefix_allowed_tokens_fn, prompts)
        rules.append(filters.of_caller(by_prompt, generator.defaults.with_options(options).pad_id))
    return rules


def sampling_filters(options: GenerationOptions, min_keep: int = 1) -> list[Filter]:
    """The filters of the sampling distribution, which keep at least this many tokens; they come after all rules."""
    result: list[Filter] = []
    if options.temperature not in (None, 1):
        result.append(filters.temperature(float(options.temperature or 1)))
    if options.top_k:
        result.append(filters.top_k(options.top_k, min_keep=min_keep))
    if options.top_p is not None and options.top_p < 1:
        result.append(filters.top_p(options.top_p, min_keep=min_keep))
    if options.min_p:
        result.append(filters.min_p(options.min_p, min_keep=min_keep))
    if options.typical_p is not None and options.typical_p < 1:
        result.append(filters.typical_p(options.typical_p, min_keep=min_keep))
    if options.epsilon_cutoff:
        result.append(filters.epsilon_cutoff(options.epsilon_cutoff, min_keep=min_keep))
    if options.eta_cutoff:
        result.append(filters.eta_cutoff(options.eta_cutoff, min_keep=min_keep))
    if options.renormalize_logits:
        result.append(_log_probabilities)
    return result


def largest_read(options: GenerationOptions, chain: Sequence[Filter]) -> Callable[[int], int]:
    """How many of a row's largest logits a step looks at, by its position; 0 = all.

        greedy search 1, top-k sampling k, and one more for each token that rules may ban

    Args:
        chain: the filters of the options.
    """
    sampling = sampling_filters(options) if options.do_sample else []
    k = (options.top_k or 0) if options.do_sample else 1
    rules = chain[: len(chain) - len(sampling)]  # of the others only a temperature comes before top k: order stays
    bans = [rule for rule in rules if isinstance(rule, filters.Ban)]
    if options.return_scores or options.top or k == 0 or len(bans) < len(rules):
        return lambda position: 0

    def read(position: int) -> int:
        counts = [ban.at_most(position) for ban in bans]
        return 0 if None in counts else k + sum(filter(None, counts))

    return read


def reads_every_row(options: GenerationOptions) -> bool:
    """Whether a processor depends on finished rows or on row indices."""
    by_source = options.encoder_no_repeat_ngram_size, options.encoder_repetition_penalty not in (None, 1)
    own = options.logits_processor, options.prefix_allowed_tokens_fn
    return bool(options.top) or any(map(bool, (*by_source, *own)))


def _log_probabilities(ids: Tensor, logits: Tensor) -> Tensor:
    return logits.log_softmax(-1)
