"""Tokenizer: encode text to token ids, decode ids to text, chat templates, saving."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from glassformer.errors import ConfigError, DataError
from glassformer.text.batches import (
    PairRow,
    WordRow,
    encode_batch_ids,
    encode_batch_pairs,
    encode_batch_words,
)
from glassformer.text.build import TOKENIZER_FILES, build_engine, build_target_engine
from glassformer.text.chat import Chat, render_all
from glassformer.text.encode import (
    EncodeRequest,
    Encoding,
    encode_rows,
    pad_rows,
    refuse_special_ids,
    to_encoding,
)
from glassformer.text.engine import as_ids, as_pairs, as_text, as_texts, call_engine, framed_copy, guarded
from glassformer.text.settings import ChatTemplates, TokenizerSettings, read_settings
from glassformer.text.stages import Stages, stages_of
from glassformer.text.vocabulary import TokenizerVocabulary


class Tokenizer(TokenizerVocabulary):
    """Encodes text as the token ids a model was trained with, and decodes them.

        text ─ normalise ─ split into words ─ subword tokens ─ special tokens ─> ids
        "Fruit flies!"                       fruit flies !    [CLS] fruit flies ! [SEP]

    A tokenizer never changes after loading, so threads may share one.

    Special tokens in text: by default "[SEP]" in a text becomes the special token, as in the reference
    library. For untrusted text give `special_tokens_as_text=True`: then it is encoded as ordinary characters.

    Padding: GPT-2 and Llama have no pad token; they are padded with the end-of-sequence token, and the
    attention mask is 0 there.

    Differs from the reference library: padding and truncation stored in a `tokenizer.json` are ignored;
    `max_length` without truncation or padding, truncation without any length, and windows without truncation
    are errors where it warns or does nothing; text that is no valid Unicode is an error.
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
        texts: str | Iterable[str],
        pairs: str | Iterable[str] | None = None,
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        padding_side: str | None = None,
        truncation: bool | str = False,
        max_length: int | None = None,
        stride: int = 0,
        return_overflowing_tokens: bool = False,
        return_tensors: str | None = None,
        special_tokens_as_text: bool = False,
    ) -> Encoding:
        """Encode a text, a batch of texts, or pairs of texts.

        Args:
            texts, pairs: one string or any number of them; and the second text of each.
            add_special_tokens: add special tokens as in the model's training ([CLS] text [SEP]).
            padding: True or "longest" to the longest of the batch, "max_length" to `max_length`.
            padding_side: "right" or "left"; None is the tokenizer's own.
            truncation: True or "longest_first" shortens the longer text of a pair first, "only_first" and
                "only_second" one of them alone.
            max_length: in tokens, special ones included; None is the tokenizer's `model_max_length`.
            stride: how many tokens neighbouring windows share.
            return_overflowing_tokens: return what truncation cuts off as further rows (windows).
            return_tensors: "np" or "pt" for int64 tensors [B, T], else lists.
            special_tokens_as_text: special tokens written in the text are ordinary characters.

        Returns: An `Encoding`; lists are flat for a single string. `token_type_ids`: where the model has them.
        Raises: DataError: no text, or invalid Unicode. ConfigError: options unknown or at odds.
        """
        request = EncodeRequest(
            add_special_tokens=add_special_tokens,
            special_tokens_as_text=special_tokens_as_text,
            padding=padding,
            padding_side=self._settings.padding_side if padding_side is None else padding_side,
            truncation=truncation,
            truncation_side=self._settings.truncation_side,
            max_length=max_length,
            stride=stride,
            overflow=return_overflowing_tokens,
            tensors=return_tensors,
        )
        return self._encode(texts, pairs, request)

    def _encode(
        self, texts: str | Iterable[str], pairs: str | Iterable[str] | None, request: EncodeRequest
    ) -> Encoding:
        first, second = as_pairs(texts, pairs)
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
            token_types=self._settings.token_types,
            tensors=request.tensors,
            flat=isinstance(texts, str) and not request.overflow,
        )

    def apply_chat_template(
        self,
        conversation: Chat | Sequence[Chat],
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        *,
        add_generation_prompt: bool = False,
        continue_final_message: bool = False,
        tokenize: bool = True,
        padding: bool | str = False,
        padding_side: str | None = None,
        truncation: bool | str = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
        return_dict: bool = True,
        **variables: Any,
    ) -> Any:
        """Render a conversation, or several, with the chat template, and encode the text.

            tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], add_generation_prompt=True)

        The template writes all special tokens itself, so none are added. As in the reference library, a special
        token in a message counts as one, so a message can imitate the end of another (prompt injection).
        Args:
            conversation: messages, each with "role" and "content"; or a list of conversations.
            tools, documents: passed to the template, in JSON's types.
            chat_template: a template, or the name of one of the tokenizer's; None = its default.
            add_generation_prompt, continue_final_message: end with the beginning of an assistant's message, or
                within the last message, so that it is continued.
            tokenize: False gives the text · return_dict: False gives the ids alone.
            padding, padding_side, truncation, max_length, return_tensors: as in a call.
            variables: of the template, such as `enable_thinking=False`.
        Returns: an `Encoding`; for one conversation without tensors, of flat lists.
        Raises: DataError: messages of the wrong shape, no template, or one that fails.
        """
        text = render_all(
            self._chat_templates.choose(chat_template, tools=tools is not None),
            conversation,
            special_tokens={f"{role}_token": token for role, token in self._roles.items()},
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            variables={"tools": tools, "documents": documents, **variables},
        )
        if not tokenize:
            return text
        lengths = {"padding": padding, "truncation": truncation, "max_length": max_length}
        how = {"padding_side": padding_side, "return_tensors": return_tensors}
        encoding = self(text, add_special_tokens=False, **lengths, **how)  # type: ignore[arg-type]
        return encoding if return_dict else encoding["input_ids"]

    @property
    def chat_template(self) -> str | dict[str, str] | None:
        """The chat template; several by name; None where the folder has none."""
        sources = dict(self._chat_templates.sources)
        return (sources["default"] if list(sources) == ["default"] else sources) if sources else None

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The token ids of one text."""
        ids: list[int] = self(as_text(text), add_special_tokens=add_special_tokens)["input_ids"]
        return ids

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

    def decode(self, ids: Any, skip_special_tokens: bool = False) -> str:
        """The text of a row of ids: a list, an array or a tensor. Ids without a token are left out.

        Raises: DataError: something that is not a token id.
        """
        return guarded("ids cannot be decoded", self._engine.decode, as_ids(ids), skip_special_tokens)

    # ── saving ───────────────────────────────────────────────────────────────────────────────────────────

    def save(self, folder: Path | str) -> None:
        """Write tokenizer.json, its config, special_tokens_map.json and chat templates, as the reference reads them.

        Raises: DataError: the folder cannot be written.
        """
        folder = Path(folder)
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
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.save_engine(folder)
            for name, content in (("tokenizer_config.json", config), ("special_tokens_map.json", roles)):
                text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
                (folder / name).write_text(text, encoding="utf-8")
            self._chat_templates.save(folder)
        except OSError as error:
            raise DataError(f"the tokenizer cannot be written to {folder}: {error.strerror or error}") from error
