"""Arguments of `generate` by the names of Hugging Face transformers: inputs, generation_config, streamer, output.

generate(**tokenizer(text, return_tensors="pt"))      input_ids, attention_mask; token_type_ids are not read
generate(ids, generation_config=GenerationConfig(…))  options in an object; those of the call win
generate(ids, streamer=TextStreamer(tokenizer))       each token as it is chosen
generate(ids, return_dict_in_generate=True)           a `GenerateOutput`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.generation.decoding import DecodingStep, Generated
from glassformer.generation.defaults import GenerationDefaults
from glassformer.generation.filters import Filter
from glassformer.generation.options import BEAMS, SAMPLING, GenerationOptions

PROMPTS = ("inputs", "input_ids", "input_features", "input_values")
"""Names under which the prompt may be given."""
OUTPUT = ("return_dict_in_generate", "output_scores", "output_logits")
SAME_LENGTHS = (("max_new_tokens", "max_length"), ("min_new_tokens", "min_length"))
"""Two names of one length: of what is new, or of all."""


@dataclass(frozen=True)
class GenerateArguments:
    """The arguments of one call of `generate`.

    prompt: texts, conversations, sounds, token ids or features · decoder_input_ids: with which answers begin. [R, T]
    sample_rate_hz: of sounds that are arrays
    streamer: an object with put(ids) and end() · recorder: records what a `GenerateOutput` holds; None = not asked for
    """

    prompt: Any
    attention_mask: Tensor | None
    decoder_input_ids: Tensor | None
    sample_rate_hz: int | None
    options: Mapping[str, Any]
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
        _check_token_types(given.pop("token_type_ids", None))
        decoder_ids, rate = given.pop("decoder_input_ids", None), given.pop("sample_rate_hz", None)
        options = _with_config(given.pop("generation_config", None), given)
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
        recorder = ScoreRecorder(bool(asked["output_scores"]), bool(asked["output_logits"]))
        prompt = next(iter(named.values()), prompt)
        if prompt is None:
            prompt = _begin(defaults(), options.get("bos_token_id"))
        wanted = recorder if asked["return_dict_in_generate"] else None
        return cls(prompt, attention_mask, decoder_ids, rate, options, streamer, wanted)

    def check(self, options: GenerationOptions) -> None:
        """Check what is asked for beside the options against them.

        Raises: ConfigError, UnsupportedError: they do not go together.
        """
        rows = self.prompt.shape[0] if isinstance(self.prompt, Tensor) and self.prompt.dim() > 1 else 1
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


def _with_config(config: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The options of a generation_config, over which those of the call stand.

    Args: config: a dict, an object with to_dict, as `transformers.GenerationConfig`, or `GenerationOptions`
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


# ------------------------------------------------------------------------------------------------------------ output


class ScoreRecorder:
    """Records logits on their way through the filters, and changes nothing.

    scores: after the filters, raw: before them; one tensor [R, V] a step; None = not recorded
    """

    def __init__(self, scores: bool, raw: bool) -> None:
        self.scores: list[Tensor] | None = [] if scores else None
        self.raw: list[Tensor] | None = [] if raw else None

    def around(self, filters: list[Filter]) -> list[Filter]:
        """The filters, between those that record."""
        return [*_recording(self.raw), *filters, *_recording(self.scores)]

    def output(self, generated: Generated) -> GenerateOutput:
        """What the reference library returns."""
        beams = generated.scores if generated.beams is not None else None
        return GenerateOutput(generated.ids, beams, _steps(self.scores), _steps(self.raw))


def _steps(recorded: list[Tensor] | None) -> tuple[Tensor, ...] | None:
    return None if recorded is None else tuple(step.clone() for step in recorded)


def _recording(steps: list[Tensor] | None) -> Iterator[Filter]:
    def record(ids: Tensor, logits: Tensor) -> Tensor:
        assert steps is not None
        steps.append(logits)
        return logits

    if steps is not None:
        yield record


@dataclass(frozen=True, eq=False)
class GenerateOutput(Mapping[str, Any]):
    """What `generate` returns with return_dict_in_generate=True: a mapping, under the reference library's names.

    sequences: prompts, or an encoder-decoder's start tokens, and the new tokens. [R, T + new]
    sequences_scores: scores of beams. [R] · scores: logits of each step after the filters, of beams log-probabilities;
    logits: before them. [R, V] a step
    """

    sequences: Tensor
    sequences_scores: Tensor | None = None
    scores: tuple[Tensor, ...] | None = None
    logits: tuple[Tensor, ...] | None = None

    def _present(self) -> dict[str, Any]:
        return {x.name: value for x in fields(self) if (value := getattr(self, x.name)) is not None}

    def __getitem__(self, key: str | int) -> Any:
        present = self._present()
        return present[key] if isinstance(key, str) else tuple(present.values())[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._present())

    def __len__(self) -> int:
        return len(self._present())


def transition_scores(
    sequences: Tensor, scores: Sequence[Tensor], beam_indices: Any = None, normalize: bool = False
) -> Tensor:
    """The score of each new token: that of its step's scores at its own id. [R, new]

    Args: sequences: [R, T + new] · scores: [R, V] a step · normalize: logits to log-probabilities first
    Raises: UnsupportedError: beams, which change places between steps. DataError: rows that do not fit the scores.
    """
    if beam_indices is not None:
        raise UnsupportedError("scores of the tokens of beams: generate(…, return_scores=True).logprobs has them")
    steps = torch.stack(list(scores), dim=1)  # [R, new, V]
    if len(steps) != len(sequences) or sequences.shape[1] < steps.shape[1]:
        raise DataError(f"sequences are {list(sequences.shape)}, scores {list(steps.shape)}; give those of one call")
    steps = steps.log_softmax(-1) if normalize else steps
    return steps.gather(-1, sequences[:, -steps.shape[1] :, None])[..., 0]


def feed(streamer: Any, prompt: Tensor) -> Callable[[DecodingStep], None]:
    """Give a streamer the prompt [1, T]; returns what gives it the token of each step."""
    streamer.put(prompt.cpu())
    return lambda step: streamer.put(step.tokens.cpu())
