"""Conversations to text, by the template that comes with a tokenizer.

    [{"role": "user", "content": "Hi"}]  ──chat_template──>  <|im_start|>user Hi<|im_end|> <|im_start|>assistant

A template is a program of strangers: it runs in `sandbox`, on copies, and within a budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import DataError, nearest
from glassformer.text.files import read_text

if TYPE_CHECKING:
    from jinja2 import Template

    from glassformer.text.sandbox import Sandbox
    from glassformer.text.tokenizer import Tokenizer

Chat = Sequence[Mapping[str, Any]]
"""Messages in order, each with a "role" ("system", "user", "assistant") and its "content"."""

FILE, FOLDER = "chat_template.jinja", "additional_chat_templates"

LONGEST_TEMPLATE = 250_000
"""Published templates have up to some ten thousand characters."""

END = "\ue000end of what is continued\ue000"
"""Stands, with a space, behind a message that is to be continued; the characters at its ends are in no alphabet."""


def is_chat(value: Any) -> bool:
    """Is this one conversation: a list of mappings?"""
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Mapping)


def is_begun(chat: Chat) -> bool:
    """Does it end with the assistant's words, which then are to be continued?"""
    last = chat[-1]
    return isinstance(last, Mapping) and last.get("role") == "assistant"


def as_prompt(tokenizer: Tokenizer, chat: Chat) -> str:
    """The text that a model continues with an answer, or with the rest of one; all special tokens are in it."""
    begun = is_chat(chat) and is_begun(chat)
    text: str = tokenizer.apply_chat_template(
        chat, tokenize=False, add_generation_prompt=not begun, continue_final_message=begun
    )
    return text


@dataclass(frozen=True, slots=True)
class ChatTemplates:
    """The templates of a folder: name → source; most folders have one, "default".

    in_files: they stand in files of their own, not in tokenizer_config.json, which is kept as it is anyway.
    """

    sources: Mapping[str, str] = field(default_factory=dict)
    in_files: bool = False

    @classmethod
    def read(cls, folder: Path, config: Mapping[str, Any]) -> ChatTemplates:
        """From files of their own, or else from the key "chat_template" of tokenizer_config.json.

        Raises: DataError: they are no text.
        """
        paths = {"default": folder / FILE} if (folder / FILE).exists() else {}
        paths |= {path.stem: path for path in sorted((folder / FOLDER).glob("*.jinja"))}
        if paths:
            return cls({name: read_text(path) for name, path in paths.items()}, in_files=True)
        found = config.get("chat_template")
        if isinstance(found, str):
            return cls({"default": found})
        named = found if isinstance(found, list) else [] if found is None else [found]
        try:
            sources = {each["name"]: each["template"] for each in named}
        except (TypeError, KeyError):
            sources = {"": None}
        if not all(isinstance(text, str) for pair in sources.items() for text in pair):
            raise DataError(
                f"{folder / 'tokenizer_config.json'}: chat_template must be text, or a list of "
                f'{{"name": text, "template": text}}, got {found!r:.60}'
            )
        return cls(sources)

    def choose(self, asked: str | None, *, tools: bool) -> str:
        """The source of the template that is asked for, by name or itself; else the one for tools, or the default.

        Raises: DataError: there is none.
        """
        if asked is not None:
            return self.sources.get(asked, asked)
        if tools and "tool_use" in self.sources:
            return self.sources["tool_use"]
        if "default" in self.sources:
            return self.sources["default"]
        if self.sources:
            raise DataError(
                f"the tokenizer has the chat templates {', '.join(self.sources)}, and none of them is the default; "
                "name one: chat_template=…"
            )
        raise DataError(
            "this tokenizer has no chat template, so its model was hardly trained on conversations; write the "
            "prompt as one text, or give a template: chat_template=…"
        )

    def save(self, folder: Path) -> None:
        """Write the files that there were; those of an earlier model do not stay."""
        sources = dict(self.sources) if self.in_files else {}
        texts = {folder / FILE: sources.pop("default")} if "default" in sources else {}
        texts |= {folder / FOLDER / f"{name}.jinja": text for name, text in sources.items()}
        for path in (folder / FILE, *(folder / FOLDER).glob("*.jinja")):
            if path not in texts:
                path.unlink(missing_ok=True)
        for path, text in texts.items():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode("utf-8"))  # the line ends that there were


def render(
    source: str,
    chat: Chat,
    *,
    special_tokens: Mapping[str, str],
    add_generation_prompt: bool = False,
    continue_final_message: bool = False,
    tools: Sequence[Mapping[str, Any]] | None = None,
    documents: Sequence[Mapping[str, Any]] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> str:
    """What a template makes of a conversation.

    Args:
        special_tokens: "bos_token" → "<s>", and so on.
        add_generation_prompt: end with what an answer of the assistant begins with.
        continue_final_message: end within the last message instead, so that it is continued.
        tools, documents: as the template expects them, in JSON's types · variables: what else it is told.

    Raises: DataError: messages of the wrong shape; a template that is damaged, refuses these messages, fails on them,
        reaches for what it must not, or would not end.
    """
    from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError

    from glassformer.text import sandbox

    messages = _messages(chat)
    if continue_final_message:
        if add_generation_prompt:
            raise DataError(
                "add_generation_prompt begins a new message, and continue_final_message goes on with the last; "
                "choose one"
            )
        messages[-1]["content"] = _marked(messages[-1].get("content"))
    try:
        given = {"tools": tools, "documents": documents, **(variables or {})}
        told = {name: sandbox.plain(value, name) for name, value in given.items()}
        with sandbox.budget():
            text = _compiled(source).render(
                {
                    **special_tokens,
                    **told,
                    "messages": messages,
                    "add_generation_prompt": add_generation_prompt,
                }
            )
    except TemplateSyntaxError as error:
        raise DataError(
            f"the chat template is damaged: line {error.lineno}: {error.message}; repair it, or give another: "
            "chat_template=…"
        ) from error
    except sandbox.Refused as error:
        raise DataError(f"the chat template does not take these messages: {error}") from error
    except SecurityError as error:
        raise DataError(
            f"the chat template reaches for what no template may have, and was stopped: {error}"
        ) from error
    except TemplateError as error:
        raise DataError(
            f"the chat template does not work with these messages: {error}; look at both, or give another template: "
            "chat_template=…"
        ) from error
    except Exception as error:  # a stranger's program may fail in any way
        raise DataError(
            f"the chat template does not work with these messages: {type(error).__name__}: {error!s:.200}"
        ) from error
    return _cut(text, messages[-1]) if continue_final_message else text


@lru_cache(maxsize=1)
def _sandbox() -> Sandbox:
    from glassformer.text.sandbox import Sandbox

    return Sandbox()


@lru_cache(maxsize=16)
def _compiled(source: str) -> Template:
    if len(source) > LONGEST_TEMPLATE:
        raise DataError(
            f"the chat template has {len(source)} characters; at most {LONGEST_TEMPLATE} are taken"
        )
    return _sandbox().template(source)


def _messages(chat: Chat) -> list[dict[str, Any]]:
    """A copy of the messages, without what is None.

    Raises: DataError: they are not what messages are.
    """
    from glassformer.text.sandbox import plain

    if not isinstance(chat, (list, tuple)) or not chat:
        raise DataError(
            f"a conversation is a list of messages, at least one, such as "
            f'[{{"role": "user", "content": "Hello"}}]; got {chat!r:.60}'
        )
    messages = []
    for number, message in enumerate(chat):
        if not isinstance(message, Mapping):
            raise DataError(
                f"message {number} is {message!r:.60}; it must be a mapping such as "
                '{"role": "user", "content": "Hello"}'
            )
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str):
            hint = nearest("role", [str(key) for key in message]) if "role" not in message else ""
            raise DataError(
                f'message {number} has the role {role!r:.60}; it must be a text such as "user", '
                f'"assistant" or "system"{hint}'
            )
        if not isinstance(content, (str, list, tuple, type(None))):
            raise DataError(
                f"message {number} has a {type(content).__name__} as content; it must be a text, or a list of parts "
                'such as {"type": "text", "text": "Hello"}'
            )
        try:
            copy = plain(message, f"message {number}")
        except (TypeError, RecursionError) as error:
            raise DataError(str(error)) from error
        messages.append({key: value for key, value in copy.items() if value is not None})
    return messages


def _marked(content: Any) -> Any:
    """The content with the mark behind its last text."""
    if isinstance(content, str):
        return content + END + " "
    for part in reversed(content or []):
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            part["text"] += END + " "
            return content
    raise DataError("continue_final_message goes on with the last message, and it holds no text")


def _cut(text: str, last: Mapping[str, Any]) -> str:
    """What stands before the mark; where the template strips texts, the space is gone, and none stands before it."""
    found = text.rfind(END)
    if found < 0:
        raise DataError(
            "continue_final_message goes on with the last message, and the chat template does not write it as it is; "
            f"its role is {last['role']!r}"
        )
    return text[:found] if text.startswith(" ", found + len(END)) else text[:found].rstrip()
