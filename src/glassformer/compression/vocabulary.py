"""Vocabulary trimming: a model without the tokens that texts of one language never use, in tokenizer and tables.

    trim_vocabulary(model, texts)        the same vectors for these texts, from a smaller model

The table of a small multilingual model is most of it: of 118 million parameters of a MiniLM for 100 languages, 96
million. Ids change, so those that config.json and generation_config.json name change with them.
Source: Abdaoui et al. 2020, "Load What You Need: Smaller Versions of Multilingual BERT".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from glassformer.compression.structure import Parts
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import is_int, safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.models.resize import rebuilt, vocabulary_key
from glassformer.reports.report import Report
from glassformer.reports.table import Table, amount
from glassformer.text.trim import trim_tokenizer, used_ids

ID_LISTS = ("suppress_tokens", "begin_suppress_tokens")
"""Keys of configs whose values are ids of tokens that are not to be written."""
UNREAD_IDS = ("bad_words_ids", "force_words_ids", "forced_decoder_ids", "sequence_bias", "lang_to_id", "task_to_id")
"""Keys of configs with ids in other forms, which are not renumbered."""


@dataclass(frozen=True, repr=False)
class TrimmedVocabulary(Report, kind="trimmed-vocabulary"):
    """What a trimmed vocabulary has lost.

    tokens, tokens_before: rows of the table of embeddings
    parameters, parameters_before: of the model
    """

    tokens: int
    tokens_before: int
    parameters: int
    parameters_before: int

    def tables(self) -> list[Table]:
        """Before and after."""
        rows = [
            ["tokens", f"{self.tokens_before:,}", f"{self.tokens:,}"],
            ["parameters", amount(self.parameters_before), amount(self.parameters)],
        ]
        return [Table(["", "before", "after"], rows)]


def trim_vocabulary(model: LoadedModel, texts: Iterable[str], *, least: int = 1) -> TrimmedVocabulary:
    """Trim the vocabulary of a model, in place, to the tokens of texts.

    Args:
        least: how often a token must occur in the texts
    Raises: DataError: there are no texts, or no tokenizer. UnsupportedError: a family with several vocabularies, or a
        config that names tokens in a form that is not renumbered.
    """
    for key in UNREAD_IDS:
        if model.config.get(key) or model.generation_config.get(key):
            raise UnsupportedError(
                f"the config names ids of tokens in {key!r}, which trimming the vocabulary would not renumber; leave "
                "it out of config.json and generation_config.json, if the model is used without"
            )
    parts, tokenizer = Parts.of(model), model.tokenizer
    before = sum(parameter.numel() for parameter in model.network.parameters())
    rows = model.network.vocabulary
    named = {*named_ids(parts.config), *named_ids(model.generation_config)}
    ids = used_ids(tokenizer, texts, least=least, always=named | set(range(_fixed_ids(parts))))
    trimmed = trim_tokenizer(tokenizer, ids)
    generation = renumbered(model.generation_config, ids)
    trim_tables(parts, ids).put_into(model)
    model.tokenizer = trimmed
    model.generation_config.clear()
    model.generation_config.update(generation)
    after = sum(parameter.numel() for parameter in model.network.parameters())
    return TrimmedVocabulary(len(ids), rows, after, before)


def trim_tables(parts: Parts, ids: Sequence[int]) -> Parts:
    """The parts with these rows of the tables of the vocabulary alone: row ids[i] becomes row i.

    Raises: ConfigError: no ids, not ascending, or beyond the table. UnsupportedError: several vocabularies.
    """
    rows = parts.network.vocabulary
    if not ids or list(ids) != sorted(set(ids)) or not 0 <= ids[0] <= ids[-1] < rows:
        raise ConfigError(f"the ids that stay must be ascending, each once, from 0 to {rows - 1}; got {safe_repr(ids)}")
    index = torch.tensor(ids)

    def fit(name: str, parameter: nn.Parameter, shape: torch.Size) -> nn.Parameter:
        if parameter.shape == shape:
            return parameter
        with torch.no_grad():
            stay = parameter.index_select(0, index.to(parameter.device))
            return nn.Parameter(stay, requires_grad=parameter.requires_grad)

    config = {**parts.config, **renumbered(parts.config, ids), vocabulary_key(parts.family, parts.config): len(ids)}
    network, spec = rebuilt(parts.network, parts.family, config, parts.task, fit)
    new = {old: number for number, old in enumerate(ids)}
    for path, module in network.named_modules():
        old = parts.network.get_submodule(path)
        if isinstance(module, nn.Embedding) and isinstance(old, nn.Embedding) and old.num_embeddings == rows:
            module.padding_idx = None if old.padding_idx is None else new.get(old.padding_idx)
    return replace(parts, network=network, spec=spec, config=config)


def _fixed_ids(parts: Parts) -> int:
    """How many of the first ids must stay what they are: up to that of padding, where positions are counted from it."""
    positions = getattr(getattr(parts.spec, "embed", None), "positions", None)
    padding = getattr(positions, "padding", None)
    return 0 if padding is None else int(padding) + 1


def named_ids(config: Mapping[str, Any]) -> set[int]:
    """The ids of tokens that a config names, such as `pad_token_id`."""
    values = [value for key, value in config.items() if key.endswith("_token_id")]
    return {x for value in values for x in (value if isinstance(value, list) else [value]) if is_int(x, 0)}


def renumbered(config: Mapping[str, Any], ids: Sequence[int]) -> dict[str, Any]:
    """A config with the new numbers of the tokens that it names; a list of suppressed ones loses what is gone."""
    new = {old: number for number, old in enumerate(ids)}
    values = dict(config)
    for key, value in config.items():
        if key.endswith("_token_id"):
            values[key] = [new.get(x, x) for x in value] if isinstance(value, list) else new.get(value, value)
        elif key in ID_LISTS and isinstance(value, list):
            values[key] = [new[x] for x in value if x in new]
    return values
