"""Compatible names: what code for the reference library calls on a tokenizer besides `tokenizer(…)` and `decode`.

    tokenizer.pad(rows, return_tensors="pt")      tokenizer.batch_decode(ids)      tokenizer.tokenize("time flies")

Each is a line or two over the tokenizer's own methods; a name that has no counterpart says what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NoReturn, Self

from glassformer.errors import ConfigError, DataError, UnknownOptionError, UnsupportedError
from glassformer.text.chat import Chat, are_several, render_all, render_spans
from glassformer.text.encode import check_choice, check_int, padded_length
from glassformer.text.encoding import Encoding, to_array
from glassformer.text.engine import guarded
from glassformer.text.settings import TEMPLATE_FILE, ChatTemplates
from glassformer.text.tool_schema import function_schema
from glassformer.text.vocabulary import TokenizerVocabulary

if TYPE_CHECKING:
    from glassformer.text.tokenizer import Tokenizer

INSTEAD = {
    "push_to_hub": "tokenizer.save_pretrained(folder), then: hf upload NAME folder",
    "build_inputs_with_special_tokens": "tokenizer(text, text_pair) puts the special tokens around its texts",
    "create_token_type_ids_from_sequences": "tokenizer(text, text_pair)['token_type_ids']",
    "prepare_for_model": "tokenizer(text, …) from the text itself",
    "truncate_sequences": "tokenizer(text, truncation=True, max_length=…)",
    "as_target_tokenizer": "tokenizer(text_target=…)",
    "save_vocabulary": "tokenizer.save_pretrained(folder)",
    "set_truncation_and_padding": "tokenizer(text, truncation=…, padding=…)",
    "clean_up_tokenization": "tokenizer.decode(ids, clean_up_tokenization_spaces=True)",
    "vocab_file": "tokenizer.save_pretrained(folder)",
    "parse_response": "the answer's text as it is: templates of answers are not read",
}
"""Names of the reference library without a counterpart → what to write."""

NO_TEMPLATE_VARIABLES = {
    "sanitize_control_tokens": "encode the messages' texts yourself, with special_tokens_as_text=True",
    "tokenizer_kwargs": "give padding, truncation, max_length and return_tensors themselves",
}
"""Options of the reference's `apply_chat_template` that must not be taken for variables of the template."""


class TokenizerSurface(TokenizerVocabulary):
    """The compatible names of a tokenizer; `Tokenizer` has what they build on."""

    _chat_templates: ChatTemplates
    name_or_path = ""
    pad_token_type_id = 0
    backend = "tokenizers"

    @property
    def _tokenizer(self) -> Any:
        """`engine`, as code for the reference library reaches it."""
        return self.engine

    @property
    def extra_special_tokens(self) -> list[str]:
        """`additional_special_tokens`"""
        return self.additional_special_tokens

    @property
    def max_len_single_sentence(self) -> int | None:
        """How many tokens of one text fit between its special tokens; None = any number."""
        return self._room(pair=False)

    @property
    def max_len_sentences_pair(self) -> int | None:
        """How many tokens of a pair of texts fit between their special tokens; None = any number."""
        return self._room(pair=True)

    def _room(self, *, pair: bool) -> int | None:
        limit = self.model_max_length
        return None if limit is None else limit - self.num_special_tokens_to_add(pair)

    @property
    def added_tokens_encoder(self) -> dict[str, int]:
        """`get_added_vocab()`"""
        return self.get_added_vocab()

    def get_special_tokens_mask(
        self, token_ids_0: Sequence[int], token_ids_1: Any = None, already_has_special_tokens: bool = False
    ) -> list[int]:
        """1 for each id of a special token, else 0. Raises: UnsupportedError: ids without special tokens."""
        if not already_has_special_tokens or token_ids_1 is not None:
            raise UnsupportedError(
                "get_special_tokens_mask(…) takes already_has_special_tokens=True, and one list of ids; of texts write "
                "tokenizer(text, return_special_tokens_mask=True)"
            )
        special = {*self.all_special_ids}
        return [int(number in special) for number in token_ids_0]

    if TYPE_CHECKING:

        def __call__(self, *args: Any, **kwargs: Any) -> Encoding: ...
        def decode(self, *args: Any, **kwargs: Any) -> Any: ...
        def save(self, folder: Path | str, *, template_files: bool | None = None) -> None: ...
        @classmethod
        def from_folder(cls, folder: Path | str) -> Self: ...

    def __getattr__(self, name: str) -> NoReturn:
        hint = f"; write {INSTEAD[name]}" if name in INSTEAD else ""
        raise AttributeError(f"a Tokenizer has no {name!r}{hint}")

    def train_new_from_iterator(
        self,
        text_iterator: Iterable[Any],
        vocab_size: int,
        length: int | None = None,
        new_special_tokens: Sequence[str] | None = None,
        **options: Any,
    ) -> Tokenizer:
        """A tokenizer of the same kind, pipeline and special tokens, with a vocabulary trained on other texts.

        It has fewer tokens than `vocab_size` where the texts make no more.
        Args:
            text_iterator: texts, or lists of texts
            length: not needed
            new_special_tokens: more of them
            options: `min_frequency`, of pairs that are merged: 1 unless given, as in the reference library
        Raises: ConfigError: an option that training does not take; a vocabulary smaller than the alphabet.
        """
        from glassformer.text.train import train_tokenizer

        # A byte-level vocabulary holds every byte from the start.
        if unknown := set(options) - {"initial_alphabet", "show_progress", "min_frequency"}:
            raise UnknownOptionError(f"train_new_from_iterator(…) takes no {', '.join(map(repr, sorted(unknown)))}")
        texts = [text for item in text_iterator for text in ([item] if isinstance(item, str) else item)]
        counted = type(self.engine.model).__name__ in ("BPE", "WordPiece")
        least = (options.get("min_frequency") or 1) if counted else options.get("min_frequency")
        with TemporaryDirectory() as folder:
            self.save(folder)
            return train_tokenizer(
                texts,
                like=folder,
                size=vocab_size,
                special=tuple(new_special_tokens or ()),
                at_most=True,
                min_frequency=least,
            )

    @classmethod
    def from_pretrained(cls, folder: Path | str, **options: Any) -> Self:
        """Read the tokenizer of a model folder; the names of the Hub are `glassformer.load`'s.

        Raises: DataError: no such folder. ConfigError: an option, none of which a folder needs.
        """
        if not Path(folder).is_dir():
            raise DataError(
                f"{str(folder)!r} is no folder; a model of the Hub is read with glassformer.load(name).tokenizer"
            )
        ignored = {"local_files_only", "use_fast", "revision", "cache_dir", "token", "trust_remote_code"}
        if unknown := [name for name in options if name not in ignored]:
            raise ConfigError(
                f"from_pretrained of a folder takes no {unknown[0]!r}; set it afterwards, such as "
                "tokenizer.padding_side = 'left', or give it in a call"
            )
        return cls.from_folder(folder)

    def save_pretrained(self, folder: Path | str, **options: Any) -> tuple[str, ...]:
        """Write the tokenizer's files, as `save` does; `save_jinja_files` is its `template_files`.

        Returns: their paths.
        Raises: UnsupportedError: `filename_prefix`, `push_to_hub`. UnknownOptionError: another.
        """
        for name, value in options.items():
            if name not in ("legacy_format", "save_jinja_files", "filename_prefix", "push_to_hub"):
                raise UnknownOptionError(f"save_pretrained(…) of a tokenizer takes no {name!r}")
            if value and name in ("filename_prefix", "push_to_hub"):
                instead = "rename the files" if name == "filename_prefix" else INSTEAD["push_to_hub"]
                raise UnsupportedError(f"save_pretrained(…) of a tokenizer takes no {name}: {instead}")
        self.save(folder, template_files=options.get("save_jinja_files"))
        names = ("tokenizer_config.json", TEMPLATE_FILE, "tokenizer.json")
        return tuple(str(path) for name in names if (path := Path(folder, name)).is_file())

    @property
    def init_kwargs(self) -> dict[str, Any]:
        """The settings in its files: special tokens, the length, the sides."""
        own = ("model_max_length", "padding_side", "truncation_side", "chat_template", "name_or_path")
        return {**self.special_tokens_map, **{name: getattr(self, name) for name in own}}

    def encode_plus(self, text: Any, text_pair: Any = None, **options: Any) -> Encoding:
        """The same as calling the tokenizer."""
        return self(text, text_pair, **options)

    def batch_encode_plus(self, texts: Any, **options: Any) -> Encoding:
        """The same as calling the tokenizer; (text, second text) makes a pair."""
        return self(texts, **options)

    def tokenize(self, text: str, pair: str | None = None, add_special_tokens: bool = False) -> list[str]:
        """The tokens of a text, as written in the vocabulary."""
        return self(text, pair, add_special_tokens=add_special_tokens).tokens()

    def batch_decode(
        self, sequences: Any, skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool | None = None
    ) -> list[str]:
        """The text of each of many rows of ids."""
        options = {"clean_up_tokenization_spaces": clean_up_tokenization_spaces}
        if not hasattr(sequences, "__iter__"):
            raise DataError(f"batch_decode takes rows of ids, got {type(sequences).__name__}")
        return [self.decode(ids, skip_special_tokens, **options) for ids in sequences]

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        decoder, tokens = self.engine.decoder, list(tokens)
        if decoder is None:
            return " ".join(tokens)
        text: str = guarded("the tokens cannot be decoded", decoder.decode, tokens)
        return text

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """How many special tokens a call puts around a text, or a pair."""
        return self.engine.num_special_tokens_to_add(pair)

    def pad(
        self,
        encoded_inputs: Any,
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_attention_mask: bool | None = None,
        return_tensors: str | None = None,
    ) -> Encoding:
        """Pad rows that were encoded before: of `input_ids`, `attention_mask`, `token_type_ids`, `special_tokens_mask`.

        Args:
            encoded_inputs: an `Encoding`, a mapping of lists, or a list of mappings, as a data loader has them; other
                keys are left as they are.
            padding, max_length, padding_side, return_tensors: as in a call; of tensors or arrays come such again.
            pad_to_multiple_of: the length becomes a multiple of it.
            return_attention_mask: False leaves it out.

        Raises: DataError: rows without `input_ids`. ConfigError: an unknown option.
        """
        for option, value, known in (
            ("padding", padding, (True, False, "longest", "max_length", "do_not_pad")),
            ("padding_side", padding_side, (None, "left", "right")),
            ("return_tensors", return_tensors, (None, "np", "pt")),
        ):
            check_choice(option, value, known)
        for option, number in (("max_length", max_length), ("pad_to_multiple_of", pad_to_multiple_of)):
            if number is not None:
                check_int(option, number, 1)
        columns, single = _columns_of(encoded_inputs)
        return_tensors = return_tensors or _kind_of(encoded_inputs)
        rows = columns["input_ids"]
        if return_attention_mask is not False:
            columns.setdefault("attention_mask", [[1] * len(row) for row in rows])
        length = max(map(len, rows), default=0)
        if padding == "max_length":
            length = max_length or self.model_max_length or length
        length = padded_length(length, pad_to_multiple_of)
        if padding not in (False, "do_not_pad"):
            fill = {"attention_mask": 0, "token_type_ids": 0, "special_tokens_mask": 1}
            if any(len(row) < length for row in rows):
                fill["input_ids"] = self.padding_id
            left = (padding_side or self.padding_side) == "left"
            for name in fill.keys() & columns.keys():
                columns[name] = [_padded(row, length, fill[name], left) for row in columns[name]]
        if return_tensors is not None:
            columns = {name: to_array(values, return_tensors, name) for name, values in columns.items()}
        elif single:
            columns = {name: values[0] for name, values in columns.items()}
        return Encoding(columns, (), [])

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
        _refuse_options(variables)
        if return_assistant_tokens_mask and (continue_final_message or not (tokenize and return_dict)):
            raise ConfigError(
                "return_assistant_tokens_mask is for whole conversations as an Encoding: leave out "
                "continue_final_message, tokenize=False and return_dict=False"
            )
        source = self._chat_templates.choose(chat_template, tools=tools is not None)
        options: dict[str, Any] = {
            "special_tokens": {f"{role}_token": token for role, token in self.special_tokens.items()},
            "add_generation_prompt": add_generation_prompt,
            "variables": {"tools": _schemas(tools), "documents": documents, **variables},
        }
        lengths = {"padding": padding, "padding_side": padding_side, "truncation": truncation, "max_length": max_length}
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
        """The encoding of conversations with `assistant_masks`; a token that holds both sides of an edge counts."""
        single = not are_several(conversation)
        rendered = [render_spans(source, chat, **options) for chat in ([conversation] if single else conversation)]
        texts = [text for text, _ in rendered]
        encoding = self(texts[0] if single else texts, add_special_tokens=False, return_tensors=tensors, **lengths)
        masks = [
            [
                int(text is not None and any(start < right and left < max(end, start + 1) for left, right in spans))
                for (start, end), text in zip(encoding.offsets(row), encoding.sequence_ids(row), strict=True)
            ]
            for row, (_, spans) in enumerate(rendered)
        ]
        flat = single and tensors is None
        encoding["assistant_masks"] = masks[0] if flat else to_array(masks, tensors) if tensors else masks
        return encoding

    @property
    def chat_template(self) -> str | dict[str, str] | None:
        """The chat template; several by name; None where the folder has none. It can be set."""
        sources = dict(self._chat_templates.sources)
        return (sources["default"] if list(sources) == ["default"] else sources) if sources else None

    @chat_template.setter
    def chat_template(self, source: str | Mapping[str, str] | None) -> None:
        sources = source if isinstance(source, Mapping) else {} if source is None else {"default": source}
        if not all(isinstance(text, str) for pair in sources.items() for text in pair):
            raise ConfigError(f"chat_template is {source!r:.60}; it must be text, or texts by name")
        self._chat_templates = ChatTemplates(dict(sources), in_files=True)


def _schemas(tools: Any) -> Any:
    """Tools as JSON schemas: Python functions by their hints and docstrings, others as they are."""
    return [function_schema(x) if callable(x) else x for x in tools] if isinstance(tools, (list, tuple)) else tools


def _refuse_options(variables: Mapping[str, Any]) -> None:
    for name in variables:
        if name in NO_TEMPLATE_VARIABLES:
            raise UnsupportedError(f"apply_chat_template does not take {name!r}; {NO_TEMPLATE_VARIABLES[name]}")


def _columns_of(encoded: Any) -> tuple[dict[str, list[Any]], bool]:
    """The rows of each input by name, as lists; and whether it was a single row. Raises: DataError: no input_ids."""
    if isinstance(encoded, (list, tuple)) and encoded and all(isinstance(row, Mapping) for row in encoded):
        encoded = {name: [row[name] for row in encoded] for name in encoded[0]}
    if not isinstance(encoded, Mapping) or "input_ids" not in encoded:
        given = list(encoded)[:9] if isinstance(encoded, Mapping) else type(encoded).__name__
        raise DataError(f"rows to pad have 'input_ids', a list for each; got {given!r:.80}")
    columns = {name: _listed(values) for name, values in encoded.items()}
    single = bool(columns["input_ids"]) and not isinstance(columns["input_ids"][0], list)
    return ({name: [values] for name, values in columns.items()} if single else columns), single


def _kind_of(encoded: Any) -> str | None:
    """Whether rows are tensors (pt) or arrays (np); None: lists."""
    value = encoded["input_ids"] if isinstance(encoded, Mapping) else encoded[0]["input_ids"]
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    # By name, since this package works without torch.
    return {"Tensor": "pt", "ndarray": "np"}.get(type(value).__name__)


def _listed(values: Any) -> Any:
    """Lists of lists, of arrays, tensors and lists of them."""
    if hasattr(values, "tolist"):
        return values.tolist()
    return [_listed(value) for value in values] if isinstance(values, (list, tuple)) else values


def _padded(row: list[int], length: int, fill: int, left: bool) -> list[int]:
    more = [fill] * (length - len(row))
    return [*more, *row] if left else [*row, *more]
