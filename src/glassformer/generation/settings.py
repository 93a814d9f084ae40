"""How a model's makers let it generate: where an answer begins and ends, what is forced, what is never said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer.errors import ConfigError
from glassformer.files import shown
from glassformer.generation.filters import Filter, only, suppress


class Settings:
    """What `generation_config.json` says, or `config.json`, which held the same keys before.

    Args:
        generation, config: the two files; either may be empty.
        vocabulary: how many ids the model knows; an id without a row (-1 is usual) means none.
    Raises: ConfigError: when a value that is asked for is no token id.
    """

    def __init__(self, generation: Mapping[str, Any], config: Mapping[str, Any], vocabulary: int) -> None:
        self._generation = generation
        self._config = config
        self.vocabulary = vocabulary

    @property
    def start_id(self) -> int:
        """The token with which an answer begins.

        Raises: ConfigError: none is named.
        """
        start = self.ids("decoder_start_token_id") or self.ids("bos_token_id")
        if not start:
            raise ConfigError("config.json names no decoder_start_token_id, with which an answer begins")
        return start[0]

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return self.ids("eos_token_id")

    @property
    def context(self) -> int | None:
        """How many tokens it was made for, where config.json says so; some can read more."""
        named = self._config.get("max_position_embeddings")
        return named if isinstance(named, int) and named > 0 else None

    @property
    def pad_id(self) -> int:
        """What a row is filled with once it has ended."""
        return next(iter(self.ids("pad_token_id") + self.stop_ids), 0)

    @property
    def forced(self) -> dict[int, tuple[int, ...]]:
        """Place in the answer, from 1 → the tokens of which one stands there.

        A forced token that is null is a language, which the model finds out; without telling times, the token that
        says so follows. A model of several languages and tasks transcribes, unless its files say otherwise.
        """
        listed, tasks = self.get("forced_decoder_ids"), self.get("task_to_id")
        if listed is None and isinstance(tasks, dict) and self.get("lang_to_id"):
            listed = [[1, None], [2, tasks.get("transcribe")]]
        elif listed is None:
            listed = [[1, number] for number in self.ids("forced_bos_token_id")[:1]]
        wrong = ConfigError(
            f"forced_decoder_ids is {shown(listed)}; it must be a list of [place, token id], places from 1 up; "
            "a token id may be null: a language, which the model finds out"
        )
        try:
            named = {int(place): number for place, number in listed}
        except (TypeError, ValueError):
            raise wrong from None
        if sorted(named) != list(range(1, len(named) + 1)):
            raise wrong
        languages = self.get("lang_to_id")
        any_language = tuple(languages.values()) if isinstance(languages, dict) else ()
        forced = {place: any_language if named[place] is None else (named[place],) for place in sorted(named)}
        silent = self.ids("no_timestamps_token_id")[:1]
        if silent and silent not in forced.values():
            forced[len(forced) + 1] = silent
        if not all(isinstance(n, int) and 0 <= n < self.vocabulary for ids in forced.values() for n in ids):
            raise wrong
        return {place: ids for place, ids in forced.items() if ids}

    def beginning_with(self, token: int) -> Settings:
        """The same, with another first token of every answer."""
        return Settings(
            {**self._generation, "forced_decoder_ids": [[1, token]]}, self._config, self.vocabulary
        )

    def filters(self) -> list[Filter]:
        """What is never said, what not as the first token of one's own, and what is forced."""
        forced = self.forced
        never, first = self.ids("suppress_tokens"), self.ids("begin_suppress_tokens")
        filters = [suppress(never)] if never else []
        filters += [suppress(first, at=1 + max(forced, default=0))] if first else []
        return filters + [only(ids, at=place) for place, ids in forced.items()]

    def get(self, key: str) -> Any:
        """A value as the newer file has it, else the older."""
        found = self._generation.get(key)
        return self._config.get(key) if found is None else found

    def ids(self, key: str) -> tuple[int, ...]:
        """The token ids that are named, one or several."""
        named = self.get(key)
        ids = [] if named is None else named if isinstance(named, list) else [named]
        if not all(isinstance(number, int) and not isinstance(number, bool) for number in ids):
            raise ConfigError(
                f"config.json: {key} is {shown(named)}; it must be a token id, a list of them, or null"
            )
        return tuple(number for number in ids if 0 <= number < self.vocabulary)
