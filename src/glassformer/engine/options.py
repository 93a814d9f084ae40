"""Options of sentence embeddings: prompt, batch size, truncation, and the file that they are saved in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from glassformer.files.schema import Count, Doc, Schema, given


@dataclass(frozen=True, kw_only=True)
class PromptOptions(Schema):
    """What is put before each text, by a model that was trained with prompts."""

    prompt: Annotated[str | None, Doc("Prompt: put before each text, such as 'search_query: '.")] = None
    prompt_name: Annotated[
        str | None, Doc("Prompt by its name in the model's config_sentence_transformers.json, such as query.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class EncodingOptions(PromptOptions):
    """How texts become vectors."""

    batch_tokens: Annotated[Count | None, Doc("Batch size, in tokens. Default: 1024.")] = None
    truncate: Annotated[bool, Doc("Truncate texts that are too long, or raise an error.")] = True

    def keywords(self) -> dict[str, Any]:
        """The options as keywords of `encode`."""
        return {name: value for name, value in given(self).items() if name in EncodingOptions.__dataclass_fields__}


@dataclass(frozen=True, kw_only=True)
class VectorFileOptions(EncodingOptions):
    """How texts become vectors, and the file that holds them."""

    output: Annotated[Path, Doc("Output file: a NumPy array (.npy), one float32 row per line.")]
