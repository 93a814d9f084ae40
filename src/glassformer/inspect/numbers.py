"""Numbers of layers, heads and neurons as they are typed: `3,6`, `0-6`, `4.9`, `4.9,5.*`; counted from 0; and names."""

from __future__ import annotations

import re

from glassformer.errors import ConfigError
from glassformer.files import safe_repr


def level_names(count: int) -> list[str]:
    """The levels of vectors by name: `embedding`, which enters the first layer, then `layer 0`, which leaves it, …"""
    return ["embedding", *(f"layer {layer}" for layer in range(count - 1))][:count]


def map_level_names(count: int) -> list[str]:
    """The same on a map of vectors, where the last is the model's output."""
    *names, last = level_names(count)
    return [*names, f"{last} (output)"]


def parse_layers(text: str) -> list[int]:
    """`0,3-5` as 0, 3, 4, 5. Raises: ConfigError: something else."""
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})\s*(?:-\s*(\d{1,4})\s*)?", part, re.ASCII)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise ConfigError(f"layers= is {safe_repr(text)}; give layers counted from 0, such as 3,6 or 0-6")
        numbers.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(numbers)


def parse_heads(text: str) -> list[tuple[int, int | None]]:
    """`4.9,5.*` as (4, 9) and (5, None), which is every head of the layer. Raises: ConfigError: something else."""
    heads: list[tuple[int, int | None]] = []
    for part in text.split(","):
        layer = re.fullmatch(r"\s*(\d{1,4})\.\*\s*", part, re.ASCII)
        heads.append(parse_pair(part) if layer is None else (int(layer[1]), None))
    return heads


def parse_pair(text: str) -> tuple[int, int]:
    """`4.9` as the layer and the number of a head or of a neuron. Raises: ConfigError: something else."""
    match = re.fullmatch(r"\s*(\d{1,4})\.(\d{1,6})\s*", text, re.ASCII)
    if match is None:
        raise ConfigError(f"{safe_repr(text)} is no layer.number, such as 4.9")
    return int(match[1]), int(match[2])


def parse_level(text: str) -> int | str:
    """The number of a level of states, negative ones from the last, or the name of a combination, such as `sum`."""
    return int(text) if re.fullmatch(r"-?\d{1,4}", text, re.ASCII) else text


def parse_token(text: str) -> int | str:
    """The position of a token (from the end where it is negative) or the number of an output; or a word.

    A word of digits is a number.
    """
    return int(text) if re.fullmatch(r"-?\d{1,9}", text, re.ASCII) else text
