"""Tokenizer: the face of this package. Text to ids in batches, ids to text, and everything in between."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import tokenizers
from tokenizers import processors

from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.text.batches import (
    PairRow,
    WordRow,
    cut_to,
    framed_pair,
    framed_words,
    room_for_text,
    shares_of,
    word_of_each_token,
)
from glassformer.text.build import TOKENIZER_FILES, build_engine, build_target_engine
from glassformer.text.chat import Chat, ChatTemplates, render
from glassformer.text.encoding import Encoding, Row, to_encoding
from glassformer.text.engine import around_one_text, around_pair, guarded, sharing_copy
from glassformer.text.long_text import LONG_TEXT, CountedOn, Joined, encode_in_pieces, ids_in_pieces
from glassformer.text.request import Request, check_request
from glassformer.text.special import Settings, complete_roles, read_settings
from glassformer.text.stages import Stages, stages_of

TEXTS_PER_CALL = 4096
"""`batch_ids` hands the engine this many texts at once, which bounds the memory of what it keeps."""


class _Token:
    """The attribute `cls_token` and its like: the special token of one role, or None (so also on the class)."""

    def __init__(self, role: str) -> None:
        self.role = role

    def __get__(self, tokenizer: Tokenizer | None, owner: type[Tokenizer]) -> str | None:
        return None if tokenizer is None else tokenizer.token_of(self.role)


class _TokenId:
    """The attribute `cls_token_id` and its like: the id of the special token of one role, or None."""

    def __init__(self, role: str) -> None:
        self.role = role

    def __get__(self, tokenizer: Tokenizer | None, owner: type[Tokenizer]) -> int | None:
        return None if tokenizer is None else tokenizer.id_of(self.role)


class Tokenizer:
    """Turns text into the ids a model was trained with, and back.

        text ─ normalise ─ split into words ─ pieces of the vocabulary ─ special tokens ─> ids
        "Fruit flies!"                        fruit flies !    [CLS] fruit flies ! [SEP]

    A tokenizer never changes after loading, so threads may share one.

    Special tokens in text: by default "[SEP]" in a text becomes the special token, as in the reference
    library. For text from people you do not trust give `special_tokens_as_text=True`: then it is encoded as
    ordinary characters.

    Padding: GPT-2 and Llama have no pad token; they are padded with the end-of-sequence token, and the
    attention mask is 0 there.

    Differs from the reference library: padding and truncation stored in a `tokenizer.json` are ignored;
    `max_length` without truncation or padding, truncation without any length, and windows without truncation
    are errors where it warns or does nothing; text that is no valid Unicode is an error.
    """

    def __init__(
        self,
        engine: tokenizers.Tokenizer,
        settings: Settings | None = None,
        chat_templates: ChatTemplates | None = None,
    ) -> None:
        """Wrap an engine; `Tokenizer.from_folder` is the usual way in.

        Args:
            engine: without padding and truncation; it must not be changed afterwards.
            settings: roles, sides, segments; the default guesses the roles from the vocabulary.
            chat_templates: how conversations are written.
        """
        self._engine = engine
        self._settings = settings or Settings()
        self._chat_templates = chat_templates or ChatTemplates()
        self._roles = complete_roles(self._settings, engine.get_vocab(True))
        self._special_ids = frozenset(
            number for number, token in engine.get_added_tokens_decoder().items() if token.special
        )
        self._around = guarded("the tokenizer's post-processor does not work", around_one_text, engine)

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
        return cls(build_engine(folder, settings), settings, templates)

    @classmethod
    def find(cls, folder: Path, *, model_type: str | None = None) -> Tokenizer | None:
        """The tokenizer of a model folder as `from_folder` reads it; None where the folder has none."""
        if any((folder / name).is_file() for name in TOKENIZER_FILES):
            return cls.from_folder(folder, model_type=model_type)
        return None

    @classmethod
    def find_target(cls, folder: Path, *, model_type: str | None = None) -> Tokenizer | None:
        """The tokenizer of what a model writes, where that has pieces of its own (Marian's `target.spm`), else None."""
        settings = read_settings(folder, model_type)
        engine = build_target_engine(folder, settings)
        return None if engine is None else cls(engine, settings)

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
        """Encode a text, or a batch of texts, or pairs of them.

        Args:
            texts: one string, or any number of them.
            pairs: the second text of each, in the same number.
            add_special_tokens: frame the text as the model was trained ([CLS] text [SEP]).
            padding: True or "longest" to the longest of the batch, "max_length" to `max_length`.
            padding_side: "right" or "left"; None is the tokenizer's own.
            truncation: True or "longest_first" shortens the longer text of a pair first, "only_first" and
                "only_second" one of them alone.
            max_length: in tokens, special ones included; None is the tokenizer's `model_max_length`.
            stride: how many tokens neighbouring windows share.
            return_overflowing_tokens: give what truncation cuts off as further rows (windows).
            return_tensors: "np" or "pt" for int64 tensors [B, T], else lists.
            special_tokens_as_text: special tokens written in the text are ordinary characters.

        Returns: An `Encoding`; lists are flat for a single string, tensors always have two dimensions.
            `token_type_ids` are there if the model has segments (see `read_settings`).

        Raises:
            DataError: something that is not text, or not valid Unicode.
            ConfigError: options that are unknown or do not fit each other.
        """
        flat = isinstance(texts, str)
        first = _as_texts(texts)
        second = None if pairs is None else _as_texts(pairs)
        if second is not None and (isinstance(pairs, str) != flat or len(second) != len(first)):
            raise DataError(
                f"each text needs one pair: got {'one string' if flat else f'{len(first)} texts'} and "
                f"{'one string' if isinstance(pairs, str) else f'{len(second)} pairs'}"
            )
        request = check_request(
            add_special_tokens=add_special_tokens,
            special_tokens_as_text=special_tokens_as_text,
            padding=padding,
            padding_side=self.padding_side if padding_side is None else padding_side,
            truncation=truncation,
            truncation_side=self._settings.truncation_side,
            max_length=max_length,
            model_max_length=self.model_max_length,
            stride=stride,
            overflow=return_overflowing_tokens,
            tensors=return_tensors,
            pairs=second is not None,
            special_count=self._engine.num_special_tokens_to_add(second is not None)
            if add_special_tokens
            else 0,
        )
        try:
            rows, samples = self._rows(first, second, request)
        except DataError as error:
            if request.truncation in ("only_first", "only_second") and second is not None and _no_room(error):
                raise DataError(
                    f"truncation={request.truncation!r} cannot bring every pair to max_length={request.max_length}: "
                    "the other text leaves no room (for the stride); give more, or use truncation=True"
                ) from error
            raise
        if special_tokens_as_text:
            self._refuse_special(rows)
        self._pad(rows, request)
        return to_encoding(
            rows,
            samples,
            segments=self._settings.segments,
            tensors=return_tensors,
            flat=flat and not return_overflowing_tokens,
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
        return_dict: bool = True,
        padding: bool | str = False,
        padding_side: str | None = None,
        truncation: bool | str = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
        **variables: Any,
    ) -> Any:
        """Write a conversation, or each of several, as the model was trained to read it.

            tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], add_generation_prompt=True)

        The template writes all special tokens itself, so none are put around its text. As in the reference library,
        a special token in a message counts as one, so a message can imitate the end of another.

        Args:
            conversation: messages, each with "role" and "content"; or a list of conversations.
            tools, documents: what the template is told of them, in JSON's types.
            chat_template: a template, or the name of one of the tokenizer's; None = its default.
            add_generation_prompt: end with what an answer of the assistant begins with.
            continue_final_message: end within the last message, so that it is continued.
            tokenize: False gives the text · return_dict: False gives the ids alone.
            padding, …, return_tensors: as in a call.
            variables: what else the template is told, such as `enable_thinking=False`.

        Returns: an `Encoding`; for one conversation without tensors, of flat lists.

        Raises: DataError: messages of the wrong shape, no template, or one that does not work.
        """
        several = (
            isinstance(conversation, (list, tuple))
            and bool(conversation)
            and isinstance(conversation[0], (list, tuple))
        )
        texts = [
            render(
                self._chat_templates.choose(chat_template, tools=tools is not None),
                chat,
                special_tokens={f"{role}_token": token for role, token in self._roles.items()},
                add_generation_prompt=add_generation_prompt,
                continue_final_message=continue_final_message,
                tools=tools,
                documents=documents,
                variables=variables,
            )
            for chat in cast("Sequence[Chat]", conversation if several else [conversation])
        ]
        if not tokenize:
            return texts if several else texts[0]
        encoding = self(
            texts if several else texts[0],
            add_special_tokens=False,
            padding=padding,
            padding_side=padding_side,
            truncation=truncation,
            max_length=max_length,
            return_tensors=return_tensors,
        )
        return encoding if return_dict else encoding["input_ids"]

    @property
    def chat_template(self) -> str | dict[str, str] | None:
        """The template for conversations; several by name; None where the folder has none."""
        sources = dict(self._chat_templates.sources)
        return (sources["default"] if list(sources) == ["default"] else sources) if sources else None

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The ids of one text."""
        ids: list[int] = self(_one_text(text), add_special_tokens=add_special_tokens)["input_ids"]
        return ids

    def batch_ids(self, texts: Sequence[str], max_tokens: int | None) -> tuple[list[list[int]], int]:
        """The ids of many texts with special tokens, as fast as the engine goes, for the encoder.

        Args:
            max_tokens: longer rows are cut to it, their special tokens kept; None cuts nothing.

        Returns: one list of ids a text, and how many texts were cut.
        """
        before, after = self._around
        room = room_for_text(max_tokens, len(before) + len(after))
        side = self.truncation_side
        texts = _as_texts(texts)
        rows, cut = [], 0
        for start in range(0, len(texts), TEXTS_PER_CALL):
            for ids in self._plain_ids(texts[start : start + TEXTS_PER_CALL]):
                kept = cut_to(ids, room, side)
                cut += len(kept) < len(ids)
                rows.append([*before, *kept, *after])
        return rows, cut

    def batch_pairs(
        self, firsts: Sequence[str], seconds: Sequence[str], max_tokens: int | None
    ) -> tuple[list[PairRow], int]:
        """The ids and segments of many pairs of texts with special tokens, as fast as the engine goes.

        Args:
            max_tokens: of longer pairs the longer text is cut first; None cuts nothing.

        Returns: ids and segment ids of each pair, and how many were cut.
        """
        frame, segments = guarded(
            "the tokenizer's post-processor does not take pairs", around_pair, self._engine
        )
        room = room_for_text(max_tokens, sum(map(len, frame)))
        side = self.truncation_side
        firsts, seconds = _as_texts(firsts), _as_texts(seconds)
        if len(firsts) != len(seconds):
            raise DataError(f"each text needs one pair: got {len(firsts)} texts and {len(seconds)} pairs")
        rows, cut = [], 0
        for start in range(0, len(firsts), TEXTS_PER_CALL):
            window = slice(start, start + TEXTS_PER_CALL)
            for pair in zip(self._plain_ids(firsts[window]), self._plain_ids(seconds[window]), strict=True):
                kept = [
                    cut_to(ids, limit, side)
                    for ids, limit in zip(pair, shares_of(room, *map(len, pair)), strict=True)
                ]
                cut += sum(map(len, kept)) < sum(map(len, pair))
                rows.append(framed_pair(kept, frame, segments))
        return rows, cut

    def batch_words(self, texts: Sequence[Sequence[str]], max_tokens: int | None) -> list[WordRow]:
        """The ids of many texts that come as words, and of each token the word that it is of.

            time flies    ->    [CLS] time fl ##ies [SEP]        words  -1 0 1 1 -1

        The words are read with a space between them, as text is; so they become the tokens that the model knows from
        its training, with any tokenizer.
        Differs: where tokens mark the beginning of a word, the reference library wants add_prefix_space=True for words,
        and then marks the first as well; here the first is as at the beginning of any text.

        Args:
            max_tokens: longer rows are cut to it, their special tokens kept; None cuts nothing.
        """
        room = room_for_text(max_tokens, sum(map(len, self._around)))
        rows = []
        for start in range(0, len(texts), TEXTS_PER_CALL):
            chunk = texts[start : start + TEXTS_PER_CALL]
            found = self([" ".join(_as_texts(words)) for words in chunk], add_special_tokens=False).rows
            for words, row in zip(chunk, found, strict=True):
                owners = word_of_each_token(words, row.offsets)
                rows.append(framed_words(row.ids, owners, self._around, room, self.truncation_side))
        return rows

    def in_language(self, code: str) -> Tokenizer:
        """The same tokenizer for texts of another language, whose code stands among the special tokens around each.

            mBART-50     en_XX A </s>    ──in_language("de_DE")──>    de_DE A </s>

        Raises: ConfigError: it marks no language, or does not know this one.
        """
        number = self._engine.token_to_id(code)
        roles = {self.id_of(role) for role in self._roles}
        languages = {i for ids in self._around for i in ids} - roles
        if not languages or number is None:
            what = f"has no token {code!r}" if languages else "marks no language of what it reads"
            raise ConfigError(f"this tokenizer {what}; leave the language of the source out")
        around = [[number if i in languages else i for i in ids] for ids in self._around]
        before, after = [self.convert_ids_to_tokens(ids) for ids in around]
        engine = sharing_copy(self._engine)
        engine.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after],
            pair=[*before, "$A", "$B", *after],
            special_tokens=[(token, engine.token_to_id(token)) for token in dict.fromkeys((*before, *after))],
        )
        return Tokenizer(engine, self._settings, self._chat_templates)

    def explain(self, text: str) -> Stages:
        """What each step of the tokenizer makes of a text: normalised, words, pieces, with special tokens."""
        text = _one_text(text)
        stages: Stages = _located([text], "the text cannot be tokenised", stages_of, self._engine, text)
        return stages

    # ── ids to text ──────────────────────────────────────────────────────────────────────────────────────

    def decode(self, ids: Any, skip_special_tokens: bool = False) -> str:
        """The text of a row of ids: a list, an array or a tensor. Ids without a token are left out.

        Raises: DataError: something that is no id.
        """
        return guarded("ids cannot be decoded", self._engine.decode, _as_ids(ids), skip_special_tokens)

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        """The vocabulary entry of one id, or of each of many.

        Raises: DataError: an id that the vocabulary does not have.
        """
        single = isinstance(ids, int)
        tokens = []
        for number in _as_ids([ids] if single else ids):
            token = self._engine.id_to_token(number)
            if token is None:
                raise DataError(f"id {number} is not in the vocabulary of {len(self)} tokens")
            tokens.append(token)
        return tokens[0] if single else tokens

    def convert_tokens_to_ids(self, tokens: Any) -> Any:
        """The id of one vocabulary entry, or of each of many; unknown ones give the unknown token's id.

        Raises: DataError: an unknown entry, and the tokenizer has no unknown token.
        """
        if isinstance(tokens, str):
            number = guarded("the token cannot be looked up", self._engine.token_to_id, tokens)
            number = self.unk_token_id if number is None else number
            if number is None:
                raise DataError(f"{tokens!r} is not in the vocabulary, and there is no unknown token")
            return number
        return [self.convert_tokens_to_ids(_one_text(token)) for token in tokens]

    # ── what it is ───────────────────────────────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        """The number of tokens, added ones included: the rows an embedding table needs."""
        return self._engine.get_vocab_size(True)

    @property
    def vocab_size(self) -> int:
        """The number of tokens without those added after training."""
        return self._engine.get_vocab_size(False)

    @property
    def largest_id(self) -> int:
        """The largest id any text can get; a model's embedding table must have a row for it."""
        return max(self._engine.get_vocab(True).values())

    @property
    def model_max_length(self) -> int | None:
        """The longest input in tokens, special ones included, where the folder names one."""
        return self._settings.model_max_length

    @property
    def padding_side(self) -> str:
        """ "right" or "left"."""
        return self._settings.padding_side

    @property
    def truncation_side(self) -> str:
        """ "right" or "left": where texts that are too long are cut."""
        return self._settings.truncation_side

    @property
    def model_input_names(self) -> list[str]:
        """The keys that a call answers with."""
        return ["input_ids", *(["token_type_ids"] if self._settings.segments else []), "attention_mask"]

    @property
    def around(self) -> tuple[list[int], list[int]]:
        """The ids that stand before and after a single text."""
        return self._around

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of all special tokens."""
        return self._special_ids

    @property
    def special_tokens(self) -> Mapping[str, str]:
        """Role to token: {"cls": "[CLS]", ...}."""
        return dict(self._roles)

    @property
    def engine(self) -> tokenizers.Tokenizer:
        """The engine inside, to look at; changing it would change every later call."""
        return self._engine

    @property
    def padding_id(self) -> int:
        """What rows are filled up with: the pad token, or for want of one the end-of-sequence token.

        Raises: ConfigError: the tokenizer has neither.
        """
        number = self.pad_token_id if self.pad_token_id is not None else self.eos_token_id
        if number is None:
            raise ConfigError(
                "this tokenizer has neither a pad nor an eos token, so it cannot pad; encode one by one"
            )
        return number

    def token_of(self, role: str) -> str | None:
        """The special token that plays a role ("cls"), or None."""
        return self._roles.get(role)

    def id_of(self, role: str) -> int | None:
        """The id of the special token that plays a role, or None."""
        token = self._roles.get(role)
        return None if token is None else self._engine.token_to_id(token)

    bos_token, bos_token_id = _Token("bos"), _TokenId("bos")
    eos_token, eos_token_id = _Token("eos"), _TokenId("eos")
    unk_token, unk_token_id = _Token("unk"), _TokenId("unk")
    sep_token, sep_token_id = _Token("sep"), _TokenId("sep")
    pad_token, pad_token_id = _Token("pad"), _TokenId("pad")
    cls_token, cls_token_id = _Token("cls"), _TokenId("cls")
    mask_token, mask_token_id = _Token("mask"), _TokenId("mask")

    def __repr__(self) -> str:
        kind = type(self._engine.model).__name__
        return (
            f"Tokenizer({kind}, {len(self)} tokens, special: {' '.join(dict.fromkeys(self._roles.values()))})"
        )

    # ── keeping it ───────────────────────────────────────────────────────────────────────────────────────

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
            (folder / "tokenizer.json").write_text(self._engine.to_str(pretty=True), encoding="utf-8")
            for name, content in (("tokenizer_config.json", config), ("special_tokens_map.json", roles)):
                text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
                (folder / name).write_text(text, encoding="utf-8")
            self._chat_templates.save(folder)
        except OSError as error:
            raise DataError(
                f"the tokenizer cannot be written to {folder}: {error.strerror or error}"
            ) from error

    # ── the work ─────────────────────────────────────────────────────────────────────────────────────────

    def _rows(
        self, first: list[str], second: list[str] | None, request: Request
    ) -> tuple[list[Row], list[int]]:
        """Encode all inputs; with overflow asked for, an input may give several rows."""
        engine = request.engine_for(self._engine)
        if max(map(len, (*first, *(second or ()))), default=0) > LONG_TEXT:
            bare = request.engine_for(self._engine, bare=True)
            inputs = [(text,) for text in first] if second is None else list(zip(first, second, strict=True))
            found = [
                _located(list(texts), "text cannot be tokenised", _encode_long, engine, bare, texts, request)
                for texts in inputs
            ]
        else:
            batch = first if second is None else list(zip(first, second, strict=True))
            everything = [*first, *(second or ())]
            doing = "text cannot be tokenised"
            found = _located(
                everything, doing, engine.encode_batch, batch, add_special_tokens=request.add_special_tokens
            )
            if request.overflow:
                found = [[encoding, *encoding.overflowing] for encoding in found]
            else:
                return list(found), list(range(len(found)))
        samples = [index for index, rows in enumerate(found) for _ in rows]
        return [row for rows in found for row in rows], samples

    def _plain_ids(self, texts: list[str]) -> list[list[int]]:
        """Ids without special tokens; long texts in pieces, all others in one parallel call."""
        doing = "text cannot be tokenised"
        if max(map(len, texts)) <= LONG_TEXT:
            encodings = _located(
                texts, doing, self._engine.encode_batch_fast, texts, add_special_tokens=False
            )
            return [encoding.ids for encoding in encodings]
        bare = sharing_copy(self._engine)
        bare.post_processor = None
        return [_located([text], doing, ids_in_pieces, bare, text) for text in texts]

    def _pad(self, rows: list[Row], request: Request) -> None:
        if request.padding is None or not rows:
            return
        length = max(map(len, rows))
        if request.padding == "max_length" and request.max_length is not None:
            length = request.max_length
        number = self.padding_id
        token = self._engine.id_to_token(number)
        for row in rows:
            row.pad(length, direction=request.padding_side, pad_id=number, pad_token=token)

    def _refuse_special(self, rows: list[Row]) -> None:
        """Where a vocabulary holds a special token as an ordinary piece too, text could still form it."""
        forbidden = self._special_ids - {self.unk_token_id}
        for row in rows:
            for number, sequence in zip(row.ids, row.sequence_ids, strict=True):
                if sequence is not None and number in forbidden:
                    token = self._engine.id_to_token(number)
                    raise UnsupportedError(
                        f"this tokenizer cannot write {token!r} as ordinary text, because its vocabulary holds "
                        "it as an ordinary piece; remove it from the text"
                    )


def _encode_long(
    engine: tokenizers.Tokenizer, bare: tokenizers.Tokenizer, texts: tuple[str, ...], request: Request
) -> list[Row]:
    joined: tuple[Joined, ...] = tuple(encode_in_pieces(bare, text) for text in texts)
    pair = joined[1].encoding if len(joined) == 2 else None
    encoding = engine.post_process(joined[0].encoding, pair, request.add_special_tokens)
    rows = [encoding, *encoding.overflowing] if request.overflow else [encoding]
    return [CountedOn(row, joined, window=index > 0) for index, row in enumerate(rows)]


def _no_room(error: DataError) -> bool:
    """Whether the engine found that the one text it may shorten cannot give enough."""
    return "too short to respect" in str(error) or "`stride` must be" in str(error)


def _located(texts: list[str], doing: str, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the engine; if it refuses because of a text, say which text and where.

    Looking only after a failure keeps the check off the usual path.
    """
    try:
        return guarded(doing, function, *args, **kwargs)
    except DataError:
        for index, text in enumerate(texts):
            try:
                text.encode("utf-8")
            except UnicodeEncodeError as error:
                where = f"text {index}" if len(texts) > 1 else "the text"
                raise DataError(
                    f"{where} holds {text[error.start]!r} at character {error.start}, half of a surrogate pair, "
                    "which is no valid Unicode; repair it with text.encode('utf-16', 'surrogatepass')"
                    ".decode('utf-16', 'replace')"
                ) from None
        raise


def _as_texts(texts: str | Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, (bytes, bytearray, Mapping)):
        raise DataError(f"texts must be a string or strings, got {type(texts).__name__}")
    try:
        found = list(texts)
    except TypeError as error:
        raise DataError(f"texts must be a string or strings, got {type(texts).__name__}") from error
    for index, text in enumerate(found):
        if not isinstance(text, str):
            raise DataError(f"text {index} must be a string, got {type(text).__name__}: {text!r:.60}")
    return found


def _one_text(text: str) -> str:
    if not isinstance(text, str):
        raise DataError(f"the text must be a string, got {type(text).__name__}: {text!r:.60}")
    return text


def _as_ids(ids: Any) -> list[int]:
    values = ids.tolist() if hasattr(ids, "tolist") else ids
    values = [values] if isinstance(values, int) else values
    try:
        found = list(values)
    except TypeError as error:
        raise DataError(f"ids must be integers, got {type(ids).__name__}") from error
    for number in found:
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**32:
            hint = "; decode one row at a time" if isinstance(number, list) else ""
            raise DataError(f"ids must be integers from 0, got {number!r:.60}{hint}")
    return found
