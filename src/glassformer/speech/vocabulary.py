"""Whisper's special tokens, and the decoder prompt that they make.

    <|startofprev|> … previous text … <|startoftranscript|><|de|><|transcribe|><|notimestamps|>
    └──────────── optional ─────────┘                     └ multilingual ─────┘└ without times ┘

Timestamp tokens follow <|notimestamps|>, 0.02 s apart, to 30 s: <|0.00|> <|0.02|> … <|30.00|>
Source: Radford et al. 2022, section 2.3 and figure 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.audio.languages import CODES
from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.text import Tokenizer
from glassformer.text.engine import guarded

SECONDS_PER_TIMESTAMP = 0.02  # <|0.00|>, <|0.02|>, …: Radford et al. 2022, section 2.3
TASKS = ("transcribe", "translate")
NO_SPEECH_NAMES = ("nospeech", "nocaptions")
"""The same token, in newer and older vocabularies."""


@dataclass(frozen=True)
class SpeechVocabulary:
    """Ids of the special tokens of a speech model with a decoder.

    start, end: of a transcript
    previous: before the previous text
    no_speech: predicted without speech
    no_timestamps: of transcripts without times; timestamps follow it
    languages, tasks: token ids by code ("en") and by task; empty where the model knows English alone
    context: the decoder's length in tokens
    """

    start: int
    end: int
    previous: int
    no_speech: int
    no_timestamps: int
    languages: Mapping[str, int]
    tasks: Mapping[str, int]
    context: int

    @classmethod
    def of(cls, model: LoadedModel) -> SpeechVocabulary:
        """Read from the tokenizer and generation_config.json. Raises: UnsupportedError: it has no such tokens."""
        engine = model.tokenizer.engine  # asked for single tokens: to list all of them takes longer than a few steps

        def token(name: str) -> int | None:
            number: int | None = engine.token_to_id(f"<|{name}|>")
            return number

        ids = {name: token(name) for name in ("startoftranscript", "endoftext", "startofprev")}
        ids["no_speech"] = next((number for name in NO_SPEECH_NAMES if (number := token(name)) is not None), None)
        written = token("notimestamps")
        ids["notimestamps"] = model.generation_config.get("no_timestamps_token_id") if written is None else written
        if missing := [name for name, number in ids.items() if number is None]:
            raise UnsupportedError(
                f"the tokenizer of this {model.family.model_type!r} model has no token for {', '.join(missing)}; "
                "transcripts of long recordings need a Whisper vocabulary"
            )
        start, end, previous, no_speech, no_timestamps = (int(number or 0) for number in ids.values())
        tasks = {task: number for task in TASKS if (number := token(task)) is not None}
        several = "transcribe" in tasks and model.generation_config.get(
            "is_multilingual", model.network.target_vocabulary >= MULTILINGUAL_SIZE
        )
        between = range(start + 1, min(tasks.values(), default=0))
        languages = {word[2:-2]: number for number in between if (word := engine.id_to_token(number)) is not None}
        return cls(
            start=start,
            end=end,
            previous=previous,
            no_speech=no_speech,
            no_timestamps=no_timestamps,
            languages=languages if several else {},
            tasks=tasks if several else {},
            context=model.network.max_tokens or MAX_CONTEXT,
        )

    @property
    def first_timestamp(self) -> int:
        """The token <|0.00|>."""
        return self.no_timestamps + 1

    def seconds(self, token: int) -> float:
        """The time that a timestamp token means, from the beginning of its window."""
        return (token - self.first_timestamp) * SECONDS_PER_TIMESTAMP

    def timestamp(self, seconds: float) -> int:
        """The timestamp token that is nearest to a time from the beginning of a window."""
        return self.first_timestamp + round(seconds / SECONDS_PER_TIMESTAMP)

    def code(self, language: str) -> str:
        """The code of a language, given as a code or by its English name. Raises: ConfigError: not known."""
        name = language.lower().strip("<|>")
        code = name if name in self.languages else CODES.get(name, name)
        known = self.languages or {"en": 0}
        if code not in known:
            raise ConfigError(
                f"language is {safe_repr(language)}; this model knows {', '.join(sorted(known))}"
                + nearest(name, [*known, *CODES])
            )
        return code

    def sequence(self, language: str, task: str = "transcribe", *, timestamps: bool = True) -> list[int]:
        """The tokens with which every transcript begins: start, language, task, and whether times follow.

        Raises: ConfigError: a language or a task that the model does not know.
        """
        code = self.code(language)
        if task not in TASKS:
            raise ConfigError(f"task is {safe_repr(task)}; it must be {' or '.join(TASKS)}")
        if task != "transcribe" and not self.tasks:
            raise ConfigError(f"task is {task!r}, and this model knows English alone; take a multilingual model")
        tokens = [self.start]
        if self.languages:
            tokens += [self.languages[code], self.tasks[task]]
        return tokens if timestamps else [*tokens, self.no_timestamps]

    def prompt(
        self, language: str, task: str = "transcribe", *, timestamps: bool = True, previous: Sequence[int] = ()
    ) -> list[int]:
        """The decoder prompt: as much of the previous text as fits half of the context, and how transcripts begin.

        Args:
            previous: token ids of the text before, such as the last window's. [T]
        """
        sequence = self.sequence(language, task, timestamps=timestamps)
        room = self.context // 2 - 1
        return [self.previous, *previous[-room:], *sequence] if len(previous) and room > 0 else sequence


def text_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Token ids of what a user, a data set or a model wrote: "<|endoftext|>" or "<|0.00|>" in it is text.

    The tokenizer's own call would read them as control tokens, and timestamps even with `special_tokens_as_text`, for
    published folders do not count them among the special tokens. Splitting by the model alone knows neither.
    """
    engine: Any = tokenizer.engine

    def split() -> list[int]:
        plain = text if engine.normalizer is None else engine.normalizer.normalize_str(text)
        return [
            token.id
            for piece, _ in engine.pre_tokenizer.pre_tokenize_str(plain)
            for token in engine.model.tokenize(piece)
        ]

    return guarded("text cannot be tokenised", split)


MULTILINGUAL_SIZE = 51_865
"""Vocabularies from this size on have several languages; some folders do not say so."""
MAX_CONTEXT = 448
"""Tokens of a Whisper decoder, where a network states no limit."""
