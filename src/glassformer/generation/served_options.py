"""Generation options outside of Python: which ones a command line, a page and a request to a server have.

GenerationOptions ──options_schema()──> JSON Schema ──make web──> web/src/core/generation-schema.json, in the page
                  └─check_served(options)   what a request may ask for: the same options, within the same limits
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr
from glassformer.files.schema import Doc, field_types, given, json_schema, metadata_of

if TYPE_CHECKING:
    from glassformer.generation.options import GenerationOptions, Served

# The class of the options is imported late: every command reads the two tables below, and few generate.

IN_PYTHON_ONLY = frozenset(
    # functions, token ids, and what the result holds; `language` and `task` are those of `transcribe`
    """stopping_criteria logits_processor prefix_allowed_tokens_fn scorers eos_token_id pad_token_id bos_token_id
    decoder_start_token_id forced_bos_token_id forced_eos_token_id bad_words_ids sequence_bias suppress_tokens
    begin_suppress_tokens exponential_decay_length_penalty language task return_scores top use_cache
    renormalize_logits max_length min_length max_matching_ngram_size""".split()
)
"""Options that neither a command line nor a page has."""

SPELLINGS: dict[str, tuple[str, ...]] = {
    "max_new_tokens": ("--max-new-tokens", "-n"),
    "num_beams": ("--beams",),
    "num_return_sequences": ("--answers",),
    "do_sample": ("--sample",),
    "stop_strings": ("--stop",),
    "bad_words": ("--bad-word",),
    "choices": ("--choice",),
    "truncation": ("--truncate",),
    "prompt_lookup_num_tokens": ("--lookup",),
    "assistant_model": ("--draft",),
    "num_assistant_tokens": ("--draft-tokens",),
}
"""Options that a command line calls by another name than theirs."""


@cache
def served() -> dict[str, Doc]:
    """The options that a page, a link to it and its command line may set, with their documentation.

    Not among them: a page shows the whole prompt, so it truncates none; methods that give the same text faster show
    nothing else; of contrastive search, top_k means something else than in the page's sampling.
    """
    from glassformer.generation.options import CONTRASTIVE, SPECULATIVE, GenerationOptions

    left_out = {*IN_PYTHON_ONLY, "truncation"}
    docs = {name: metadata_of(hint, Doc) for name, hint in field_types(GenerationOptions).items()}
    return {
        name: doc
        for name, doc in docs.items()
        if doc is not None and name not in left_out and doc.group not in (SPECULATIVE, CONTRASTIVE)
    }


@cache
def limits() -> dict[str, Served]:
    """The bounds and defaults of requests, where they are not those of the library."""
    from glassformer.generation.options import GenerationOptions, Served

    hints = field_types(GenerationOptions)
    bounds = {name: metadata_of(hints[name], Served) for name in served()}
    return {name: limit for name, limit in bounds.items() if limit is not None}


def check_served(options: Mapping[str, Any]) -> None:
    """Validate the names and the limits of options of a request; `GenerationOptions.resolve` checks the rest.

    Raises: ConfigError: an option that a page does not have, or one above its limit.
    """
    for name, value in options.items():
        if name not in served():
            raise ConfigError(f"the generation view takes no {safe_repr(name)}{nearest(str(name), served())}")
        limit = limits().get(name)
        if limit is not None and isinstance(value, int) and value > limit.most:
            raise ConfigError(f"{name} is {value}; the generation view takes at most {limit.most}")


def options_schema() -> dict[str, Any]:
    """The JSON schema of the options of a page, with its limits and defaults.

    An option that is not given is left out: none is null. `x-group` is the heading of an option.
    """
    from glassformer.generation.options import GenerationOptions

    schema = json_schema(GenerationOptions)
    properties = {}
    for name, doc in served().items():
        about = dict(schema["properties"][name])
        alternatives = [each for each in about.pop("anyOf", []) if each != {"type": "null"}]
        about |= alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives} if alternatives else {}
        if about["default"] is None:
            del about["default"]
        if (limit := limits().get(name)) is not None:
            about |= {"maximum": limit.most} | ({} if limit.default is None else {"default": limit.default})
        properties[name] = {**about, "x-group": doc.group}
    return {**schema, "properties": properties}


def command_line_options(options: GenerationOptions) -> list[str]:
    """Options of a page as those of `glassformer look`: `--view generate -n 40 --beams 4`."""
    arguments = ["--view", "generate"]
    for name, value in given(options).items():
        if name not in served() or (name == "seed" and not options.do_sample):
            continue
        flag = SPELLINGS.get(name, (f"--{name.replace('_', '-')}",))[-1]
        for each in value if isinstance(value, (list, tuple)) else [value]:
            text = json.dumps(each) if isinstance(each, Mapping) else str(each)
            arguments.append(flag if each is True else f"{flag} {shlex.quote(text)}")
    return arguments


if __name__ == "__main__":  # `make web`
    print(json.dumps(options_schema(), indent=1))
