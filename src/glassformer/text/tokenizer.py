"""Tokenizer: encode text to token ids, decode ids to text, chat templates, saving."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers

from glassformer.errors import ConfigError, DataError
from glassformer.files.atomic import write_text
from glassformer.text.batches import (
    PairRow,
    WordRow,
    encode_batch_ids,
    encode_batch_pairs,
    encode_batch_words,
)
from glassformer.text.build import TOKENIZER_FILES, build_engine, build_target_engine
from glassformer.text.encode import EncodeRequest, Texts, add_old_options, encode_rows, pad_rows, refuse_special_ids
from glassformer.text.encoding import Encoding, to_encoding
from glassformer.text.engine import (
    as_ids,
    as_pairs,
    as_text,
    as_texts,
    call_engine,
    clean_up,
    framed_copy,
    guarded,
    word_pairs,
)
from glassformer.text.settings import ChatTemplates, TokenizerSettings, read_settings
from glassformer.text.stages import Stages, stages_of
from glassformer.text.surface import TokenizerSurface

NO_OPTIONS = ("self", "text", "text_pair", "text_target", "reference")
"""Arguments of a call that are no options."""


class Tokenizer(TokenizerSurface):
    """Encodes text as the token ids a model was trained with, and decodes them.

        text ─ normalise ─ split into words ─ subword tokens ─ special tokens ─> ids
        "Fruit flies!"                       fruit flies !    [CLS] fruit flies ! [SEP]

    No call changes a tokenizer, so threads may share one. Special tokens, sides, the length limit and the chat template
    can be set, and tokens added: that counts for later calls.

    Special tokens in text: by default "[SEP]" in a text becomes the special token, as in the reference
    library. For untrusted text give `special_tokens_as_text=True`: then it is encoded as ordinary characters.

    Padding: GPT-2 and Llama have no pad token; they are padded with the end-of-sequence token, and the
    attention mask is 0 there.

    Differs from the reference library: padding and truncation stored in a `tokenizer.json` are ignored;
    truncation without any length, and windows without truncation are errors where it warns or does nothing; text that
    is no valid Unicode is an error.
    """

    def __init__(
        self,
        engine: tokenizers.Tokenizer,
        settings: TokenizerSettings | None = None,
        chat_templates: ChatTemplates | None = None,
    ) -> None:
        """Wrap an engine without padding and truncation, which must not be changed afterwards.

        `Tokenizer.from_folder` is the usual way in. Without settings, special tokens are guessed from the vocabulary.
        """
        super().__init__(engine, settings or TokenizerSettings())
        self._chat_templates = chat_templates or ChatTemplates()

    @classmethod
    def from_folder(cls, folder: Path | str, *, model_type: str | None = None) -> Tokenizer:
        """Read the tokenizer of a model folder.

        `tokenizer.json` is preferred; else it is built from the vocabulary files of the model's family, with the
        same ids: `vocab.txt`, `vocab.json` with `merges.txt`, a character vocabulary, or a SentencePiece file.

        Args:
            model_type: of the model it belongs to ("bert"); None reads it from `config.json` where there is one.

        Raises:
            DataError: no tokenizer there, or a damaged file; the message names the file.
            UnsupportedError: a kind of tokenizer that these files alone do not suffice for.
        """
        folder = Path(folder)
        settings = read_settings(folder, model_type)
        templates = ChatTemplates.read(folder, settings.config)
        return cls(build_engine(folder, settings), settings, templates).with_target(folder)

    @classmethod
    def find(cls, folder: Path, *, model_type: str | None = None) -> Tokenizer | None:
        """The tokenizer of a model folder as `from_folder` reads it; None where the folder has none."""
        if any((folder / name).is_file() for name in TOKENIZER_FILES):
            return cls.from_folder(folder, model_type=model_type)
        return None

    @classmethod
    def find_target(cls, folder: Path, *, model_type: str | None = None) -> Tokenizer | None:
        """The tokenizer of the target language, where it has a vocabulary file of its own (Marian's `target.spm`)."""
        settings = read_settings(folder, model_type)
        engine = build_target_engine(folder, settings)
        return None if engine is None else cls(engine, settings)

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of what a model writes: another one where source and target have a vocabulary each (Marian).

        Raises: DataError: its files are missing.
        """
        if self._target is None and self._needs_target:
            raise DataError(
                "this model writes with another vocabulary than it reads, and its folder has no tokenizer for that: "
                "neither target.spm with target_vocab.json nor target_tokenizer.json"
            )
        return self._target or self

    # ── text to ids ──────────────────────────────────────────────────────────────────────────────────────

    def __call__(
        self,
        text: Any = None,
        text_pair: Any = None,
        text_target: Any = None,
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        padding_side: str | None = None,
        pad_to_multiple_of: int | None = None,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        stride: int = 0,
        is_split_into_words: bool = False,
        special_tokens_as_text: bool = False,
        return_tensors: str | None = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool | None = None,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_overflowing_tokens: bool = False,
        return_length: bool = False,
        **reference: Any,
    ) -> Encoding:
        """Encode a text, a batch of texts, or pairs of texts.

        Args:
            text, text_pair: one string or any number of them; and the second text of each.
            text_target: what is to be written: its ids become "labels", or, without `text`, the result.
            add_special_tokens: as in the model's training ([CLS] text [SEP]).
            padding: True or "longest" to the longest of the batch, "max_length" to `max_length`.
            padding_side: "right" or "left"; None is the tokenizer's own
            pad_to_multiple_of: of the padded length.
            truncation: True or "longest_first": of the longer text of a pair; "only_first", "only_second": of one.
            max_length: in tokens, special ones too; None is `model_max_length`. Alone it truncates, with a warning.
            is_split_into_words: each text is a list of words, to which `word_ids` and offsets refer.
            special_tokens_as_text: special tokens written in the text are ordinary characters.
            return_tensors: "np" or "pt" for int64 tensors [B, T], else lists.
            return_overflowing_tokens: what truncation cuts off as further rows (windows), which share `stride` tokens.
            return_…: more keys, or fewer: "token_type_ids" (None: where the model has them), "special_tokens_mask", …
            reference: old keywords of the reference library, such as `pad_to_max_length`; others are refused
        Returns: An `Encoding`; lists are flat for a single string.
        Raises: DataError: no text, or invalid Unicode. ConfigError: options unknown or at odds.
        """
        options = add_old_options(reference, {x: value for x, value in locals().items() if x not in NO_OPTIONS})
        if text is None and text_target is not None:
            return self.target(text_target, **options)
        encoding = self._encode(text, text_pair, EncodeRequest.of_call(options, self._settings))
        if text_target is not None:
            encoding["labels"] = self.target(text_target, **options)["input_ids"]
        return encoding

    def _encode(self, text: Any, text_pair: Any, request: EncodeRequest) -> Encoding:
        single = isinstance(text, str)
        first: Texts
        second: Texts | None
        if request.words:
            single = isinstance(text, (list, tuple)) and bool(text) and isinstance(text[0], str)
            texts = ([text], None if text_pair is None else [text_pair]) if single else (text, text_pair)
            first, second = word_pairs(*texts)
        else:
            first, second = as_pairs(text, text_pair)
        engine, special = self._engine, request.add_special_tokens
        request = request.resolve(
            self._settings.model_max_length,
            pairs=second is not None,
            special_count=engine.num_special_tokens_to_add(second is not None) if special else 0,
        )
        rows, samples = encode_rows(engine, first, second, request)
        if request.special_tokens_as_text:
            refuse_special_ids(engine, rows, self._special_ids - {self.unk_token_id})
        if request.padding is not None and rows:
            pad_rows(rows, request, self.padding_id, engine.id_to_token(self.padding_id))
        return to_encoding(
            rows,
            samples,
            columns=request.columns,
            overflow=request.overflow,
            tensors=request.tensors,
            flat=single and not request.overflow,
        )

    def encode(self, text: str, text_pair: str | None = None, add_special_tokens: bool = True, **options: Any) -> Any:
        """The token ids of one text, or pair, as a list; options: as in a call, such as `return_tensors="pt"`."""
        words = options.get("is_split_into_words", False)
        return self(text if words else as_text(text), text_pair, add_special_tokens=add_special_tokens, **options)[
            "input_ids"
        ]

    def batch_ids(self, texts: Sequence[str], max_tokens: int | None) -> tuple[list[list[int]], int]:
        """The token ids of many texts, with special tokens; the fast path for `encode`.

        Args:
            max_tokens: longer rows are truncated to it, special tokens included; None: no truncation.

        Returns: one list of ids a text, and how many texts were truncated.
        """
        return encode_batch_ids(
            self._engine, self._prefix_and_suffix, as_texts(texts), max_tokens, self._settings.truncation_side
        )

    def batch_pairs(
        self, firsts: Sequence[str], seconds: Sequence[str], max_tokens: int | None
    ) -> tuple[list[PairRow], int]:
        """The token ids and token types of many pairs of texts, with special tokens; the fast path.

        Args:
            max_tokens: of longer pairs the longer text is truncated first; None: no truncation.

        Returns: ids and token types of each pair, and how many were truncated.
        """
        first, second = as_pairs(firsts, seconds)
        return encode_batch_pairs(self._engine, first, second or [], max_tokens, self.truncation_side)

    def batch_words(self, texts: Sequence[Sequence[str]], max_tokens: int | None) -> list[WordRow]:
        """The token ids of many texts of pre-split words, and the word index of each token.

            time flies    ->    [CLS] time fl ##ies [SEP]        words  -1 0 1 1 -1

        The words are joined by spaces and encoded as a text, so that they become the tokens of the model's training,
        with any tokenizer.
        Differs: where tokens mark the beginning of a word, the reference library needs add_prefix_space=True for words,
        and then marks the first as well; here the first is as at the beginning of any text.

        Args:
            max_tokens: longer rows are truncated to it, special tokens included; None: no truncation.
        """
        return encode_batch_words(self, texts, max_tokens)

    def in_language(self, code: str) -> Tokenizer:
        """The same tokenizer with another source language, whose code is one of the special tokens around a text.

            mBART-50     en_XX A </s>    ──in_language("de_DE")──>    de_DE A </s>

        Raises: ConfigError: the tokenizer has no language codes, or not this one.
        """
        number = self._engine.token_to_id(code)
        roles = {self.id_of(role) for role in self._roles}
        languages = {i for ids in self._prefix_and_suffix for i in ids} - roles
        if not languages or number is None:
            reason = f"has no token {code!r}" if languages else "has no language code for source texts"
            raise ConfigError(f"this tokenizer {reason}; leave the source language out")
        replaced = [[number if i in languages else i for i in ids] for ids in self._prefix_and_suffix]
        before, after = [self.convert_ids_to_tokens(ids) for ids in replaced]
        return Tokenizer(framed_copy(self._engine, before, after), self._settings, self._chat_templates)

    def explain(self, text: str) -> Stages:
        """The result of each tokenization step on a text: normalised, words, tokens, with special tokens."""
        text = as_text(text)
        stages: Stages = call_engine([text], "the text cannot be tokenised", stages_of, self._engine, text)
        return stages

    # ── ids to text ──────────────────────────────────────────────────────────────────────────────────────

    def decode(
        self, ids: Any, skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool | None = None
    ) -> Any:
        """The text of a row of ids: a list, an array or a tensor; of several rows, their texts.

        Args:
            clean_up_tokenization_spaces: no space before punctuation and n't; None: as tokenizer_config.json says.
                Byte-level BPE has the text's own spaces, and is never changed.
        Raises: DataError: something that is not a token id, or an id far beyond the vocabulary.
        """
        rows = ids.tolist() if hasattr(ids, "tolist") else ids
        if isinstance(rows, (list, tuple)) and rows and all(hasattr(row, "__len__") for row in rows):
            return self.batch_decode(rows, skip_special_tokens, clean_up_tokenization_spaces)
        numbers = as_ids(rows)
        if numbers and max(numbers) > self.last_plausible_id:
            raise DataError(
                f"id {max(numbers)} is far beyond the vocabulary of {len(self)} tokens; the ids are another tokenizer's"
            )
        text = guarded("ids cannot be decoded", self._engine.decode, numbers, skip_special_tokens)
        clean = clean_up_tokenization_spaces
        return clean_up(text) if (self.cleans_up if clean is None else clean and not self.is_bpe) else text

    # ── saving ───────────────────────────────────────────────────────────────────────────────────────────

    def save(self, folder: Path | str, *, template_files: bool | None = None) -> None:
        """Write tokenizer.json, its config and chat templates, as the reference does; delete an earlier model's.

        Args:
            template_files: chat templates in files of their own (True) or in the config (False); None: as they were.
        Raises: DataError: the folder cannot be written.
        """
        folder = Path(folder)
        templates = self._chat_templates
        if template_files is not None:
            templates = replace(templates, in_files=template_files)
        roles = {f"{role}_token": token for role, token in self._roles.items()}
        config = {
            **self._settings.config,
            **roles,
            "tokenizer_class": self._settings.config.get("tokenizer_class") or "PreTrainedTokenizerFast",
            "model_input_names": self.model_input_names,
            "padding_side": self.padding_side,
            "truncation_side": self._settings.truncation_side,
        }
        if self.model_max_length is not None:
            config["model_max_length"] = self.model_max_length
        config.pop("chat_template", None)
        if templates.sources and not templates.in_files:
            config["chat_template"] = templates.in_config()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.save_engine(folder)
            write_text(folder / "tokenizer_config.json", json.dumps(config, indent=2, ensure_ascii=False) + "\n")
            (folder / "special_tokens_map.json").unlink(missing_ok=True)  # of a release before 5; the config has it all
            templates.save(folder)
        except OSError as error:
            raise DataError(f"the tokenizer cannot be written to {folder}: {error.strerror or error}") from error
