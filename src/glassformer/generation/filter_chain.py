"""The logit filters that options ask for, in their order: scorers, rules, forced tokens, custom, sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.generation import filters
from glassformer.generation.constrain import Constraint, grammar_of
from glassformer.generation.filters import Filter
from glassformer.generation.options import GenerationOptions, as_biases, as_texts
from glassformer.generation.scorer import shallow_fusion

if TYPE_CHECKING:
    from glassformer.generation.generator import Generator


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
