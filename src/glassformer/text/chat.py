"""Chat templates: conversations to text, by the Jinja template that comes with a tokenizer.

    [{"role": "user", "content": "Hi"}]  ──chat_template──>  <|im_start|>user Hi<|im_end|> <|im_start|>assistant

A template is untrusted code: it runs in `sandbox`, on copies, and within a budget of work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from glassformer.errors import DataError, nearest

if TYPE_CHECKING:
    from jinja2 import Template

    from glassformer.text.sandbox import Sandbox
    from glassformer.text.tokenizer import Tokenizer

Chat = Sequence[Mapping[str, Any]]
"""Messages in order, each with a "role" ("system", "user", "assistant") and its "content"."""

MAX_TEMPLATE_LENGTH = 250_000
"""In characters; published templates have up to some ten thousand."""

CONTINUATION_MARK = "\ue000end of what is continued\ue000"
"""Appended, with a space, to a message that is to be continued; U+E000 is for private use, so no text has it."""


def is_chat(value: Any) -> bool:
    """Whether this is a conversation: a list of messages (mappings)."""
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Mapping)


def ends_with_assistant(chat: Chat) -> bool:
    """Whether the last message is the assistant's, which is then continued."""
    last = chat[-1]
    return isinstance(last, Mapping) and last.get("role") == "assistant"


def as_prompt(tokenizer: Tokenizer, chat: Chat) -> str:
    """The prompt of a conversation: text that the model continues with an answer, special tokens included."""
    continued = is_chat(chat) and ends_with_assistant(chat)
    text: str = tokenizer.apply_chat_template(
        chat, tokenize=False, add_generation_prompt=not continued, continue_final_message=continued
    )
    return text


def render(
    source: str,
    chat: Chat,
    *,
    special_tokens: Mapping[str, str],
    add_generation_prompt: bool = False,
    continue_final_message: bool = False,
    variables: Mapping[str, Any] | None = None,
) -> str:
    """Render a conversation with a chat template.

    Args:
        special_tokens: "bos_token" → "<s>", and so on.
        add_generation_prompt: end with the beginning of an assistant's message.
        continue_final_message: end within the last message instead, so that it is continued.
        variables: of the template, in JSON's types: "tools", "documents", and whatever else it reads.

    Raises: DataError: messages of the wrong shape; a template with a syntax error, one that rejects these messages,
        fails on them, violates the sandbox, or exceeds its budget of work.
    """
    from glassformer.text import sandbox

    messages = _checked_messages(chat)
    if continue_final_message:
        if add_generation_prompt:
            raise DataError(
                "add_generation_prompt begins a new message, continue_final_message continues the last; choose one"
            )
        messages[-1]["content"] = _mark_end(messages[-1].get("content"))
    try:
        arguments = {"tools": None, "documents": None, **(variables or {})}
        copies = {name: sandbox.json_copy(value, name) for name, value in arguments.items()}
        with sandbox.work_budget():
            text = _compiled_template(source).render(
                {
                    **special_tokens,
                    **copies,
                    "messages": messages,
                    "add_generation_prompt": add_generation_prompt,
                }
            )
    except Exception as error:  # untrusted code may fail in any way
        raise _template_error(error) from error
    return _cut_at_mark(text, messages[-1]) if continue_final_message else text


def render_all(source: str, conversation: Chat | Sequence[Chat], **options: Any) -> str | list[str]:
    """Render one conversation, or each of several; source, options, Raises: as `render`."""
    if isinstance(conversation, (list, tuple)) and isinstance(next(iter(conversation), None), (list, tuple)):
        return [render(source, chat, **options) for chat in cast("Sequence[Chat]", conversation)]
    return render(source, cast("Chat", conversation), **options)


def _template_error(error: Exception) -> DataError:
    """The error of a failed rendering, with its remedy."""
    from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError

    from glassformer.text.sandbox import TemplateRefusal

    remedy = "give another template: chat_template=…"
    if isinstance(error, TemplateSyntaxError):
        message = f"has a syntax error: line {error.lineno}: {error.message}; repair it, or {remedy}"
    elif isinstance(error, TemplateRefusal):
        message = f"rejects these messages: {error}"
    elif isinstance(error, SecurityError):
        message = f"was stopped, since it violates the sandbox: {error}"
    elif isinstance(error, TemplateError):
        message = f"fails on these messages: {error}; check both, or {remedy}"
    else:
        message = f"fails on these messages: {type(error).__name__}: {error!s:.200}"
    return DataError(f"the chat template {message}")


@lru_cache(maxsize=1)
def _sandbox() -> Sandbox:
    from glassformer.text.sandbox import Sandbox

    return Sandbox()


@lru_cache(maxsize=16)
def _compiled_template(source: str) -> Template:
    if len(source) > MAX_TEMPLATE_LENGTH:
        raise DataError(f"the chat template has {len(source)} characters; at most {MAX_TEMPLATE_LENGTH} are allowed")
    return _sandbox().template(source)


def _checked_messages(chat: Chat) -> list[dict[str, Any]]:
    """A copy of the messages, without keys that are None.

    Raises: DataError: messages of the wrong shape.
    """
    from glassformer.text.sandbox import json_copy

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
            copy = json_copy(message, f"message {number}")
        except (TypeError, RecursionError) as error:
            raise DataError(str(error)) from error
        messages.append({key: value for key, value in copy.items() if value is not None})
    return messages


def _mark_end(content: Any) -> Any:
    """The content with the continuation mark behind its last text."""
    if isinstance(content, str):
        return content + CONTINUATION_MARK + " "
    for part in reversed(content or []):
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            part["text"] += CONTINUATION_MARK + " "
            return content
    raise DataError("continue_final_message continues the last message, but it holds no text")


def _cut_at_mark(text: str, last: Mapping[str, Any]) -> str:
    """The text before the continuation mark, stripped where the template strips contents: the mark's space is gone."""
    end = text.rfind(CONTINUATION_MARK)
    if end < 0:
        raise DataError(
            "continue_final_message continues the last message, but the chat template does not write it unchanged; "
            f"its role is {last['role']!r}"
        )
    return text[:end] if text.startswith(" ", end + len(CONTINUATION_MARK)) else text[:end].rstrip()
