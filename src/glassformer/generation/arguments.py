"""Arguments of `generate` by the names of Hugging Face transformers: inputs, generation_config, streamer, output.

generate(**tokenizer(text, return_tensors="pt"))      input_ids, attention_mask; token_type_ids are not read
generate(ids, generation_config=GenerationConfig(…))  options in an object; those of the call win
generate(ids, streamer=TextStreamer(tokenizer))       each token as it is chosen
generate(ids, return_dict_in_generate=True)           a `GenerateOutput`
generate(inputs_embeds=vectors)                       vectors of tokens in the place of ids; the answer is what is new
generate(encoder_outputs=model.get_encoder()(ids))    an encoder-decoder's source, encoded before
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.call import encoder_of
from glassformer.core.cache import KeyValueCache
from glassformer.edge import check_ids, check_vectors, encoder_states
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.generation.decoding import DecodingStep
from glassformer.generation.defaults import GenerationDefaults
from glassformer.generation.options import BEAMS, SAMPLING, GenerationOptions
from glassformer.generation.output import ScoreRecorder

PROMPTS = ("inputs", "input_ids", "input_features", "input_values")
"""Names under which the prompt may be given."""
LAYERS = ("output_hidden_states", "output_attentions")
OUTPUT = ("return_dict_in_generate", "output_scores", "output_logits", *LAYERS)
SAME_LENGTHS = (("max_new_tokens", "max_length"), ("min_new_tokens", "min_length"))
"""Two names of one length: of what is new, or of all."""


@dataclass(frozen=True)
class GenerateArguments:
    """The arguments of one call of `generate`.

    prompt: texts, conversations, sounds, token ids or features
    decoder_input_ids: with which answers begin. [R, T]
    sample_rate_hz: of sounds that are arrays
    vectors, encoded: in the place of the prompt, vectors of its tokens, or an encoder's output
    streamer: an object with put(ids) and end()
    recorder: records what a `GenerateOutput` holds; None = not asked for
    """

    prompt: Any
    attention_mask: Tensor | None
    decoder_input_ids: Tensor | None
    sample_rate_hz: int | None
    options: Mapping[str, Any]
    vectors: Tensor | None = None
    encoded: Any = None
    streamer: Any = None
    recorder: ScoreRecorder | None = None

    @classmethod
    def read(
        cls,
        prompt: Any,
        attention_mask: Tensor | None,
        given: Mapping[str, Any],
        defaults: Callable[[], GenerationDefaults],
    ) -> GenerateArguments:
        """Take the arguments apart from the options.

        Raises: ConfigError: two prompts, an argument of another kind. DataError: no prompt, and no bos_token_id.
        """
        given = dict(given)
        named = {name: value for name in PROMPTS if (value := given.pop(name, None)) is not None}
        if len(named) + (prompt is not None) > 1:
            raise ConfigError(f"the prompt is given more than once: as {' and '.join(named)}; give one of them")
        given.pop("tokenizer", None)  # stop strings are looked for with the model's own
        _check_cache(given.pop("past_key_values", None))
        _check_token_types(given.pop("token_type_ids", None))
        decoder_ids, rate = given.pop("decoder_input_ids", None), given.pop("sample_rate_hz", None)
        options = with_config(given.pop("generation_config", None), given)
        options.pop("cache_implementation", None)  # there is one kind, which gives what each of them would
        streamer = options.pop("streamer", None)
        if streamer is not None and not all(callable(getattr(streamer, name, None)) for name in ("put", "end")):
            raise ConfigError(
                f"streamer is {safe_repr(streamer)}; it must have the methods put(ids) and end(), as "
                "glassformer.generation.streamers.TextStreamer(tokenizer)"
            )
        asked = {name: options.pop(name, None) for name in OUTPUT}
        for name, value in asked.items():
            if value is not None and not isinstance(value, bool):
                raise ConfigError(f"{name} is {safe_repr(value)}; it must be True or False")
        flags = {name.removeprefix("output_"): bool(value) for name, value in asked.items() if name in LAYERS}
        prompt = next(iter(named.values()), prompt)
        vectors, encoded = options.pop("inputs_embeds", None), options.pop("encoder_outputs", None)
        if prompt is None and vectors is None and encoded is None:
            prompt = _begin(defaults(), options.get("bos_token_id"))
        recorded = bool(asked["output_scores"]), bool(asked["output_logits"])
        wanted = ScoreRecorder(*recorded, **flags) if asked["return_dict_in_generate"] else None
        return cls(prompt, attention_mask, decoder_ids, rate, options, vectors, encoded, streamer, wanted)

    def check_stream(self, options: GenerationOptions) -> None:
        """Raises: ConfigError: tokens that are asked for one by one do not go with what else is asked for."""
        if options.num_beams > 1 or options.return_scores or options.top or self.recorder or self.streamer:
            raise ConfigError(
                "stream(…) gives tokens as they are chosen, without scores and without beams; use generate(…)"
            )
        if self.vectors is not None or self.encoded is not None:
            raise ConfigError("stream(…) reads a text or ids; inputs_embeds and encoder_outputs go to generate(…)")

    def check(self, options: GenerationOptions) -> None:
        """Check what is asked for in addition to the options against them.

        Raises: ConfigError, UnsupportedError: they do not go together.
        """
        inputs = [x for x in (self.prompt, self.vectors) if isinstance(x, Tensor) and x.dim() > 1]
        rows = max((x.shape[0] for x in inputs), default=1)
        if self.streamer is not None and (options.num_beams > 1 or options.num_return_sequences * rows > 1):
            raise ConfigError(
                "a streamer takes the tokens of one row as they are chosen: one prompt, num_beams=1 and "
                "num_return_sequences=1"
            )
        if self.recorder is not None and (options.return_scores or options.top):
            raise ConfigError(
                "return_scores and top give a Generated, return_dict_in_generate a GenerateOutput; leave one out"
            )
        if self.recorder is not None and self.recorder.raw is not None and options.num_beams > 1:
            raise UnsupportedError(
                "output_logits does not go with num_beams: beams compare log-probabilities; say output_scores=True"
            )
        names = ("assistant_model", "prompt_lookup_num_tokens", "penalty_alpha")
        methods = [name for name in names if getattr(options, name) is not None]
        if methods and self.recorder is not None and any(self.recorder.flags.values()):
            raise UnsupportedError(
                f"output_hidden_states and output_attentions do not go with {methods[0]}, whose steps read other "
                "tokens than are chosen; call the model with the sequences: model(ids, output_hidden_states=True)"
            )
        if self.vectors is not None and methods:
            raise UnsupportedError(f"inputs_embeds does not go with {methods[0]}, which reads the ids of the prompt")


def _check_token_types(types: Any) -> None:
    """Raises: UnsupportedError: token types that are not all 0, which generation does not read."""
    if types is not None and not (isinstance(types, Tensor) and not bool(types.any())):
        raise UnsupportedError("generate reads no token_type_ids other than 0; leave them out")


def _begin(defaults: GenerationDefaults, bos: int | None) -> Tensor:
    """The prompt where none is given: the token that begins a text. [1, 1]"""
    start = [bos] if bos is not None else list(defaults.token_ids("bos_token_id")[:1])
    if not start:
        raise DataError("there is no prompt, and the model's files name no bos_token_id; give a text, or input_ids")
    return torch.tensor([start])


# ----------------------------------------------------------------------------------------------------------- options


def _check_cache(cache: Any) -> None:
    """A cache is not needed, since all ids are given, and stays as it is.

    Raises: ConfigError: something else.
    """
    if cache is not None and not isinstance(cache, KeyValueCache):
        raise ConfigError(
            f"past_key_values is {safe_repr(cache)}; leave it out, and give all ids: the cache is generate's own"
        )


def with_config(config: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The options of a generation_config, over which those of the call stand.

    Args:
        config: a dict, an object with to_dict, as `transformers.GenerationConfig`, or `GenerationOptions`
    """
    if config is None:
        return given
    if isinstance(config, Mapping):
        values = dict(config)
    elif is_dataclass(config) and not isinstance(config, type):
        values = {x.name: getattr(config, x.name) for x in fields(config) if getattr(config, x.name) != x.default}
    elif callable(to_dict := getattr(config, "to_dict", None)):
        values = dict(to_dict())
    else:
        raise ConfigError(
            f"generation_config is {safe_repr(config)}; it must be a dict of options, an object with to_dict(), or "
            "GenerationOptions"
        )
    values.pop("transformers_version", None)
    values = {name: x for name, x in values.items() if x is not None and not str(name).startswith("_")}
    return without_unused(given, values)


def without_unused(given: Mapping[str, Any], recommended: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a caller, and of the recommended ones those that go with them."""
    both = override(given, recommended)
    unused: set[str] = set()
    if not both.get("do_sample"):
        # Contrastive search compares the top_k.
        unused |= {*SAMPLING} - ({"top_k"} if both.get("penalty_alpha") is not None else set())
    if (both.get("num_beams") or 1) == 1:
        unused |= {*BEAMS, "num_beam_groups"}
    return {name: value for name, value in both.items() if name in given or name not in unused}


def override(options: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Options that win over others: a length under one name also over the same under the other."""
    pairs = [pair for both in SAME_LENGTHS for pair in (both, both[::-1])]
    gone = {other for one, other in pairs if options.get(one) is not None and other not in options}
    return {**{name: value for name, value in others.items() if name not in gone}, **options}


def stand_in(model: Any, call: GenerateArguments) -> Tensor | None:
    """What stands for the prompt's ids: vectors of tokens, or an encoder's states; None = nothing does. [R, T, width]

    Raises: ConfigError: both, or states for a model without encoder. DataError: another shape.
    """
    network, family = model.network, model.family.model_type
    if (vectors := call.vectors) is None:
        return encoder_states(network, call.encoded, family)
    if call.encoded is not None:
        raise ConfigError("inputs_embeds and encoder_outputs are two forms of one input; give one of them")
    check_vectors(network, vectors)
    if not model.is_encoder_decoder:
        return vectors
    with torch.no_grad():
        states: Tensor = encoder_of(network, family)(inputs_embeds=vectors, attention_mask=call.attention_mask)[0]
    return states


def placeholders(given: Tensor, ids: Any) -> Tensor:
    """The ids of a prompt given as embeddings; -1 where they are unknown. [R, T]

    Raises: DataError: ids of another shape.
    """
    if ids is None:
        return torch.full(given.shape[:2], -1, device=given.device)
    check_ids("input_ids", ids, None, like=given)
    checked: Tensor = ids
    return checked


def feed(streamer: Any, prompt: Tensor) -> Callable[[DecodingStep], None]:
    """Give a streamer the prompt [1, T]; returns what gives it the token of each step."""
    streamer.put(prompt.cpu())
    return lambda step: streamer.put(step.tokens.cpu())
