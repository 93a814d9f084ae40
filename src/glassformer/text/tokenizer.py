"""Tokenizer: encode text to token ids, decode ids to text, chat templates, saving."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, final

import tokenizers

from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import as_path, is_int
from glassformer.files.atomic import write_text
from glassformer.text.batches import (
    PairRow,
    WordRow,
    encode_batch_ids,
    encode_batch_pairs,
    encode_batch_words,
)
from glassformer.text.build import SAVED_TARGET_FILE, TOKENIZER_FILES, build_engine, build_target_engine
from glassformer.text.chat import (
    Chat,
    are_several,
    assistant_mask,
    ends_with_assistant,
    is_chat,
    render_all,
    render_spans,
)
from glassformer.text.encoding import (
    EncodeRequest,
    Encoding,
    Texts,
    encode_rows,
    pad_rows,
    refuse_special_ids,
    refuse_unknown,
    to_array,
    to_encoding,
)
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
from glassformer.text.settings import NO_LIMIT, ROLES, ChatTemplates, TokenizerSettings, read_settings
from glassformer.text.stages import Stages, stages_of
from glassformer.text.tool_schema import tool_schemas
from glassformer.text.vocabulary import RoleId, RoleToken, Vocabulary

NO_OPTIONS = ("self", "text", "text_pair", "text_target", "unknown")
"""Arguments of a call that are no options."""


@final
class Tokenizer:
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
        chat: ChatTemplates | None = None,
        target: Tokenizer | None = None,
    ) -> None:
        """Wrap an engine without padding and truncation, which must not be changed afterwards.

        `Tokenizer.from_folder` is the usual way in. Without settings, special tokens are guessed from the vocabulary.
        Args:
            chat: the templates of conversations
            target: the tokenizer of what a model writes, where that has a vocabulary of its own
        """
        self.settings = settings or TokenizerSettings()
        self.vocabulary = Vocabulary.of(engine, self.settings)
        self.chat = chat or ChatTemplates()
        self._target = target

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
        folder = as_path(folder, "folder")
        settings = read_settings(folder, model_type)
        templates = ChatTemplates.read(folder, settings.config)
        target = build_target_engine(folder, settings) if settings.separate_target else None
        engine = build_engine(folder, settings)
        return cls(engine, settings, templates, None if target is None else cls(target, settings))

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
        if self._target is None and self.settings.separate_target:
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
        **unknown: Any,
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
            unknown: refused, with the option that is nearest
        Returns: An `Encoding`; lists are flat for a single string.
        Raises: DataError: no text, or invalid Unicode. ConfigError: options unknown or at odds.
        """
        options = {x: value for x, value in locals().items() if x not in NO_OPTIONS}
        if unknown:
            refuse_unknown(unknown, options)
        if text is None and text_target is not None:
            return self.target(text_target, **options)
        encoding = self._encode(text, text_pair, EncodeRequest.of_call(options, self.settings))
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
        engine, special = self.engine, request.add_special_tokens
        request = request.resolve(
            self.settings.model_max_length,
            pairs=second is not None,
            special_count=engine.num_special_tokens_to_add(second is not None) if special else 0,
        )
        rows, samples = encode_rows(engine, first, second, request)
        if request.special_tokens_as_text:
            refuse_special_ids(engine, rows, self.special_ids - {self.unk_token_id})
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
            self.engine, self.prefix_and_suffix, as_texts(texts), max_tokens, self.settings.truncation_side
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
        return encode_batch_pairs(self.engine, first, second or [], max_tokens, self.truncation_side)

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
        return encode_batch_words(
            lambda joined: self(joined, add_special_tokens=False).rows,
            self.prefix_and_suffix,
            texts,
            max_tokens,
            self.truncation_side,
        )

    def in_language(self, code: str) -> Tokenizer:
        """The same tokenizer with another source language, whose code is one of the special tokens around a text.

            mBART-50     en_XX A </s>    ──in_language("de_DE")──>    de_DE A </s>

        Raises: ConfigError: the tokenizer has no language codes, or not this one.
        """
        number = self.engine.token_to_id(code)
        roles = {self.vocabulary.id_of(role) for role in self.vocabulary.roles}
        languages = {i for ids in self.prefix_and_suffix for i in ids} - roles
        if not languages or number is None:
            reason = f"has no token {code!r}" if languages else "has no language code for source texts"
            raise ConfigError(f"this tokenizer {reason}; leave the source language out")
        replaced = [[number if i in languages else i for i in ids] for ids in self.prefix_and_suffix]
        before, after = [self.convert_ids_to_tokens(ids) for ids in replaced]
        return Tokenizer(framed_copy(self.engine, before, after), self.settings, self.chat, self._target)

    def explain(self, text: str) -> Stages:
        """The result of each tokenization step on a text: normalised, words, tokens, with special tokens."""
        text = as_text(text)
        stages: Stages = call_engine([text], "the text cannot be tokenised", stages_of, self.engine, text)
        return stages

    # ── tokens and ids ───────────────────────────────────────────────────────────────────────────────────

    bos_token, bos_token_id = RoleToken("bos"), RoleId("bos")
    eos_token, eos_token_id = RoleToken("eos"), RoleId("eos")
    unk_token, unk_token_id = RoleToken("unk"), RoleId("unk")
    sep_token, sep_token_id = RoleToken("sep"), RoleId("sep")
    pad_token, pad_token_id = RoleToken("pad"), RoleId("pad")
    cls_token, cls_token_id = RoleToken("cls"), RoleId("cls")
    mask_token, mask_token_id = RoleToken("mask"), RoleId("mask")

    @property
    def engine(self) -> tokenizers.Tokenizer:
        """The engine inside, read-only: changing it would change every later call."""
        return self.vocabulary.engine

    def __len__(self) -> int:
        """The number of tokens, added ones included."""
        return len(self.vocabulary)

    @property
    def vocab_size(self) -> int:
        """The number of tokens without those added after training."""
        return self.engine.get_vocab_size(False)

    @property
    def largest_id(self) -> int:
        """The largest token id; a model's embedding table must have a row for it."""
        return max(self.get_vocab().values())

    def get_vocab(self) -> dict[str, int]:
        """Token → id, added ones included."""
        return self.engine.get_vocab(True)

    @property
    def special_tokens(self) -> Mapping[str, str]:
        """Role to token: {"cls": "[CLS]", ...}."""
        return dict(self.vocabulary.roles)

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of all special tokens."""
        return self.vocabulary.special_ids

    @property
    def prefix_and_suffix(self) -> tuple[list[int], list[int]]:
        """The ids of the special tokens before and after a single text."""
        return self.vocabulary.prefix_and_suffix

    @property
    def padding_id(self) -> int:
        """The padding id: that of the pad token, or without one, of the end-of-sequence token.

        Raises: ConfigError: the tokenizer has neither.
        """
        return self.vocabulary.padding_id

    def tokenize(self, text: str, pair: str | None = None, add_special_tokens: bool = False) -> list[str]:
        """The tokens of a text, as written in the vocabulary."""
        return self(text, pair, add_special_tokens=add_special_tokens).tokens()

    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> Any:
        """The vocabulary entry of one id, or of each of many.

        Raises: DataError: an id that the vocabulary does not have.
        """
        if isinstance(ids, int):
            return self.vocabulary.tokens([ids])[0]
        numbers = as_ids(ids)
        return self.vocabulary.tokens(
            [number for number in numbers if number not in self.special_ids] if skip_special_tokens else numbers
        )

    def convert_tokens_to_ids(self, tokens: Any) -> Any:
        """The id of one vocabulary entry, or of each of many; unknown ones give the unknown token's id.

        Raises: DataError: an unknown entry, and the tokenizer has no unknown token.
        """
        return self.vocabulary.id(tokens) if isinstance(tokens, str) else [self.vocabulary.id(each) for each in tokens]

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """The text of tokens, as `decode` gives that of ids."""
        decoder, tokens = self.engine.decoder, list(tokens)
        if decoder is None:
            return " ".join(tokens)
        text: str = guarded("the tokens cannot be decoded", decoder.decode, tokens)
        return text

    def add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        """Add tokens to the vocabulary, which are found in texts before they are split; then resize the model's tables:

            tokenizer.add_tokens(["<user>"])
            model.resize_token_embeddings(len(tokenizer))

        Args:
            new_tokens: a text, an `AddedToken`, or several
            special_tokens: they are left out where those are.
        Returns: how many were added.
        Raises: ConfigError: something else, or an empty text.
        """
        self.vocabulary, added = self.vocabulary.with_tokens(new_tokens, special=special_tokens)
        return added

    def add_special_tokens(self, special_tokens: Mapping[str, Any]) -> int:
        """Add special tokens by role, {"pad_token": "[PAD]"}, and others, {"additional_special_tokens": ["<user>"]}.

        Those of before stay.
        Returns: how many were new.
        Raises: ConfigError: an unknown key.
        """
        roles = {f"{role}_token": role for role in ROLES}
        vocabulary, added = self.vocabulary, 0  # the tokenizer's own once all keys are right
        for key, value in special_tokens.items():
            if key not in (*roles, "additional_special_tokens", "extra_special_tokens"):
                raise ConfigError(
                    f"{key!r} names no special token{nearest(str(key), roles)}; known: {', '.join(roles)}"
                )
            vocabulary, new = vocabulary.with_tokens(value, special=True)
            added += new
            if key in roles:
                vocabulary = vocabulary.with_role(roles[key], value)
        self.vocabulary = vocabulary
        return added

    # ── settings ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def model_max_length(self) -> int | None:
        """The longest input in tokens, special ones included, where the folder names one. It can be set."""
        return self.settings.model_max_length

    @model_max_length.setter
    def model_max_length(self, length: int | None) -> None:
        if length is not None and not is_int(length, 1):
            raise ConfigError(f"model_max_length is {length!r:.60}; it must be a number of tokens from 1, or None")
        self.settings = replace(self.settings, model_max_length=None if (length or 0) >= NO_LIMIT else length)

    @property
    def padding_side(self) -> str:
        """ "right" or "left". It can be set."""
        return self.settings.padding_side

    @padding_side.setter
    def padding_side(self, side: str) -> None:
        self.settings = replace(self.settings, padding_side=_side("padding_side", side))

    @property
    def truncation_side(self) -> str:
        """ "right" or "left": where texts that are too long are cut. It can be set."""
        return self.settings.truncation_side

    @truncation_side.setter
    def truncation_side(self, side: str) -> None:
        self.settings = replace(self.settings, truncation_side=_side("truncation_side", side))

    @property
    def model_input_names(self) -> list[str]:
        """The keys that a call returns."""
        return ["input_ids", *(["token_type_ids"] if self.settings.token_types else []), "attention_mask"]

    @property
    def is_bpe(self) -> bool:
        """Whether its model is byte-pair encoding."""
        return type(self.engine.model).__name__ == "BPE"

    @property
    def cleans_up(self) -> bool:
        """Whether `decode` leaves out spaces before punctuation, as the folder says; never of BPE."""
        return self.settings.config.get("clean_up_tokenization_spaces") is True and not self.is_bpe

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
            return [self.decode(row, skip_special_tokens, clean_up_tokenization_spaces) for row in rows]
        numbers = as_ids(rows)
        if numbers and max(numbers) > self.vocabulary.last_plausible_id:
            raise DataError(
                f"id {max(numbers)} is far beyond the vocabulary of {len(self)} tokens; the ids are another tokenizer's"
            )
        text = guarded("ids cannot be decoded", self.engine.decode, numbers, skip_special_tokens)
        clean = clean_up_tokenization_spaces
        return clean_up(text) if (self.cleans_up if clean is None else clean and not self.is_bpe) else text

    def decode_continuation(self, prompt: Sequence[int], new: Sequence[int]) -> str:
        """The text of new tokens after a prompt, without special tokens: with the space before a first word.

        A decoder alone leaves that space out (SentencePiece), or puts none where words are joined by them (WordPiece).
        """
        before: str = self.decode(prompt, skip_special_tokens=True)
        whole: str = self.decode([*prompt, *new], skip_special_tokens=True)
        if whole.startswith(before):
            return whole[len(before) :]
        alone: str = self.decode(new, skip_special_tokens=True)  # the prompt ends within a character
        return alone

    # ── conversations ────────────────────────────────────────────────────────────────────────────────────

    def apply_chat_template(
        self,
        conversation: Chat | Sequence[Chat],
        tools: Sequence[Mapping[str, Any] | Callable[..., Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool = False,
        tokenize: bool = True,
        *,
        padding: bool | str = False,
        padding_side: str | None = None,
        truncation: bool | str = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
        return_dict: bool = True,
        return_assistant_tokens_mask: bool = False,
        **variables: Any,
    ) -> Any:
        """Render a conversation, or several, with the chat template, and encode the text.

            tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], add_generation_prompt=True)

        The template writes all special tokens itself, so none are added. As in the reference library, a special
        token in a message counts as one, so a message can imitate the end of another (prompt injection).
        Args:
            conversation: messages, each with "role" and "content"; or a list of conversations.
            chat_template: a template, or the name of one of the tokenizer's; None = its default.
            add_generation_prompt, continue_final_message: end with the beginning of an assistant's message, or
                within the last message, so that it is continued.
            tokenize: False gives the text
            return_dict: False gives the ids alone
            others: as in a call
            return_assistant_tokens_mask: `assistant_masks` too: 1 where a {% generation %} block wrote the token.
            tools, documents, variables: of the template, in JSON's types, such as `enable_thinking=False`; tools may be
                Python functions.
        Returns: an `Encoding`; for one conversation without tensors, of flat lists.
        Raises: DataError: messages of the wrong shape, no template, or one that fails.
        """
        if return_assistant_tokens_mask and (continue_final_message or not (tokenize and return_dict)):
            raise ConfigError(
                "return_assistant_tokens_mask is for whole conversations as an Encoding: leave out "
                "continue_final_message, tokenize=False and return_dict=False"
            )
        source = self.chat.choose(chat_template, tools=tools is not None)
        options: dict[str, Any] = {
            "special_tokens": {f"{role}_token": token for role, token in self.special_tokens.items()},
            "add_generation_prompt": add_generation_prompt,
            "variables": {"tools": tool_schemas(tools), "documents": documents, **variables},
        }
        lengths: dict[str, Any] = {"padding": padding, "truncation": truncation, "max_length": max_length}
        lengths |= {"padding_side": padding_side}
        if return_assistant_tokens_mask:
            return self._with_assistant_masks(source, conversation, return_tensors, options, lengths)
        text = render_all(source, conversation, continue_final_message=continue_final_message, **options)
        if not tokenize:
            return text
        encoding = self(text, add_special_tokens=False, return_tensors=return_tensors, **lengths)
        return encoding if return_dict else encoding["input_ids"]

    def _with_assistant_masks(
        self,
        source: str,
        conversation: Any,
        tensors: str | None,
        options: Mapping[str, Any],
        lengths: Mapping[str, Any],
    ) -> Encoding:
        """The encoding of conversations with `assistant_masks`."""
        single = not are_several(conversation)
        rendered = [render_spans(source, chat, **options) for chat in ([conversation] if single else conversation)]
        texts = [text for text, _ in rendered]
        encoding = self(texts[0] if single else texts, add_special_tokens=False, return_tensors=tensors, **lengths)
        masks = [
            assistant_mask(spans, encoding.offsets(row), encoding.sequence_ids(row))
            for row, (_, spans) in enumerate(rendered)
        ]
        flat = single and tensors is None
        encoding["assistant_masks"] = masks[0] if flat else to_array(masks, tensors) if tensors else masks
        return encoding

    def chat_prompt(self, chat: Chat, *, continued: bool | None = None, **variables: Any) -> str:
        """The prompt of a conversation: text that the model continues with an answer, special tokens included.

        Args:
            continued: whether the answer continues the last message; None = where that is the assistant's
            variables: of the template, such as `tools`, `documents` and `enable_thinking=False`
        """
        continues = is_chat(chat) and ends_with_assistant(chat) if continued is None else continued
        text: str = self.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=not continues, continue_final_message=continues, **variables
        )
        return text

    @property
    def chat_template(self) -> str | dict[str, str] | None:
        """The chat template; several by name; None where the folder has none. It can be set."""
        sources = dict(self.chat.sources)
        return (sources["default"] if list(sources) == ["default"] else sources) if sources else None

    @chat_template.setter
    def chat_template(self, source: str | Mapping[str, str] | None) -> None:
        sources = source if isinstance(source, Mapping) else {} if source is None else {"default": source}
        if not all(isinstance(text, str) for pair in sources.items() for text in pair):
            raise ConfigError(f"chat_template is {source!r:.60}; it must be text, or texts by name")
        self.chat = ChatTemplates(dict(sources), in_files=True)

    # ── saving ───────────────────────────────────────────────────────────────────────────────────────────

    def save(self, folder: Path | str, *, template_files: bool | None = None) -> None:
        """Write tokenizer.json, its config and chat templates, as the reference does; delete an earlier model's.

        Args:
            template_files: chat templates in files of their own (True) or in the config (False); None: as they were.
        Raises: DataError: the folder cannot be written.
        """
        folder = as_path(folder, "folder")
        templates = self.chat
        if template_files is not None:
            templates = replace(templates, in_files=template_files)
        roles = {f"{role}_token": token for role, token in self.vocabulary.roles.items()}
        config = {
            **self.settings.config,
            **roles,
            "tokenizer_class": self.settings.config.get("tokenizer_class") or "PreTrainedTokenizerFast",
            "model_input_names": self.model_input_names,
            "padding_side": self.padding_side,
            "truncation_side": self.settings.truncation_side,
        }
        if self.model_max_length is not None:
            config["model_max_length"] = self.model_max_length
        config.pop("chat_template", None)
        if templates.sources and not templates.in_files:
            config["chat_template"] = templates.in_config()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            engines = {"tokenizer.json": self.engine}
            if self._target is not None:
                engines[SAVED_TARGET_FILE] = self._target.engine
            for name, engine in engines.items():
                write_text(folder / name, engine.to_str(pretty=True))
            write_text(folder / "tokenizer_config.json", json.dumps(config, indent=2, ensure_ascii=False) + "\n")
            (folder / "special_tokens_map.json").unlink(missing_ok=True)  # of a release before 5; the config has it all
            templates.save(folder)
        except OSError as error:
            raise DataError(f"the tokenizer cannot be written to {folder}: {error.strerror or error}") from error

    def __repr__(self) -> str:
        kind = type(self.engine.model).__name__
        roles = " ".join(dict.fromkeys(self.vocabulary.roles.values()))
        return f"Tokenizer({kind}, {len(self)} tokens, special: {roles})"

    if not TYPE_CHECKING:  # so that the type checker knows which names there are

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                f"a Tokenizer has no {name!r}{nearest(name, dir(type(self)))}; the names of transformers are those of "
                "glassformer.hf.AutoTokenizer"
            )


def _side(name: str, side: str) -> str:
    if side not in ("left", "right"):
        raise ConfigError(f"{name} is {side!r:.60}; it must be 'left' or 'right'")
    return side
