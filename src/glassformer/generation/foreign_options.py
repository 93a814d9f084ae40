"""Options of Hugging Face transformers that `generate` does not take, and what to write instead of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr

INSTEAD = {  # options of other libraries, or of old versions → what to use here
    "stream": "model.stream(…) yields pieces of text",
    "streamer": "model.generate(…) takes it, and model.stream(…) yields pieces of text",
    "return_dict_in_generate": "model.generate(…) takes it",
    "output_scores": "model.generate(…) takes it",
    "output_logits": "model.generate(…) takes it",
    "generator": "seed makes sampling reproducible",
    "assistant_tokenizer": "the assistant_model must have the same vocabulary",
    "output_attentions": "model(ids, tape=Tape('attn.probs')) records what the generated ids attend to",
    "output_hidden_states": "model(ids, tape=Tape('blocks.*.out')) records the states of the generated ids",
    "past_key_values": "give all ids: the cache is generate's own",
    "cache_implementation": "there is one kind of cache",
    "inputs_embeds": "give input_ids",
    "encoder_outputs": "give input_ids: they are encoded once",
    "decoder_attention_mask": "give one row at a time, without padding",
    "position_ids": "positions are counted, without padding",
    "constraints": "regex, choices or json_schema say what the text must match",
    "force_words_ids": "regex, choices or json_schema say what the text must match",
    "sequence_bias": "scorers=[(scorer, weight)] adds to log-probabilities; bad_words_ids bans",
    "exponential_decay_length_penalty": "length_penalty of beams, or a logits_processor",
    "guidance_scale": "a logits_processor changes the logits",
    "watermarking_config": "a logits_processor changes the logits",
    "encoder_repetition_penalty": "encoder_no_repeat_ngram_size, or a logits_processor",
    "epsilon_cutoff": "min_p cuts by a share of the best token's probability",
    "eta_cutoff": "min_p cuts by a share of the best token's probability",
    "top_h": "top_p or typical_p",
    "dola_layers": "contrastive search: penalty_alpha=0.6, top_k=4",
    "prompt_ids": "model.transcribe(sound, initial_prompt=text) goes on from an earlier text",
    "return_timestamps": "model.transcribe(sound).segments have timestamps",
    "return_token_timestamps": "model.transcribe(sound, word_timestamps=True).words have timestamps",
}


def without_foreign(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The options that have a value; other libraries' options may be there, as long as they are off.

    Args: names: all options that there are.
    Raises: ConfigError: another option.
    """
    for name, value in given.items():
        off = value is None or value is False or (isinstance(value, (int, str)) and not value)
        if name not in names and not (name in INSTEAD and off):
            hint = f"; {INSTEAD[name]}" if name in INSTEAD else nearest(str(name), names)
            raise ConfigError(f"generate(…) takes no {safe_repr(name)}{hint}")
    return {name: value for name, value in given.items() if value is not None and name in names}
