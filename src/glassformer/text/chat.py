"""Chat templates: conversations to text, by the Jinja template that comes with a tokenizer.

    [{"role": "user", "content": "Hi"}]  ──chat_template──>  <|im_start|>user Hi<|im_end|> <|im_start|>assistant

A template is untrusted code: it runs in a child process (`sandbox.py`), with limits on time, memory and output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from secrets import token_hex
from typing import TYPE_CHECKING, Any, cast

from glassformer.errors import DataError, nearest

if TYPE_CHECKING:
    from glassformer.files.child import Worker

Chat = Sequence[Mapping[str, Any]]
"""Messages in order, each with a "role" ("system", "user", "assistant") and its "content"."""

MAX_TEMPLATE_LENGTH = 250_000
"""In characters; published templates have up to some ten thousand."""

MAX_DEPTH = 100
"""How deep a message may be nested."""

CONTINUATION_MARK = "\ue000end of what is continued\ue000"
"""Appended, with a space, to a message that is to be continued; U+E000 is for private use, so no text has it."""


def is_chat(value: Any) -> bool:
    """Whether this is a conversation: a list of messages (mappings)."""
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Mapping)


def are_several(conversation: Any) -> bool:
    """Whether these are conversations, a list of lists, and not a single one."""
    return isinstance(conversation, (list, tuple)) and isinstance(next(iter(conversation), None), (list, tuple))


def ends_with_assistant(chat: Chat) -> bool:
    """Whether the last message is the assistant's, which is then continued."""
    last = chat[-1]
    return isinstance(last, Mapping) and last.get("role") == "assistant"


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
        fails on them, violates the sandbox, or takes too much time or memory.
    """
    values = _values(source, chat, {**special_tokens, **(variables or {})}, add_generation_prompt)
    messages = values["messages"]
    if continue_final_message:
        if add_generation_prompt:
            raise DataError(
                "add_generation_prompt begins a new message, continue_final_message continues the last; choose one"
            )
        messages[-1]["content"] = _mark_end(messages[-1].get("content"))
    text = _rendered({"source": source, "variables": values})
    return _cut_at_mark(text, messages[-1]) if continue_final_message else text


def render_spans(
    source: str,
    chat: Chat,
    *,
    special_tokens: Mapping[str, str],
    add_generation_prompt: bool = False,
    variables: Mapping[str, Any] | None = None,
) -> tuple[str, list[tuple[int, int]]]:
    """The text of a conversation, and what its {% generation %} blocks wrote: (start, end) in characters, in order.

    Raises: DataError: as `render`; blocks in what the template measures or trims, so that their places are not known.
    """
    values = _values(source, chat, {**special_tokens, **(variables or {})}, add_generation_prompt)
    request = {"source": source, "variables": values}
    key = token_hex(16)  # no message can have guessed it
    marks = [f"<{key}>", f"</{key}>"]
    text, spans = _without_marks(_rendered({**request, "marks": marks}), marks)
    if text != _rendered(request):
        raise DataError(
            "the chat template writes another text with marks around its {% generation %} blocks, so the assistant's "
            "part is not known; write what the blocks hold without filters around them"
        )
    return text, spans


def assistant_mask(
    spans: Sequence[tuple[int, int]], offsets: Sequence[tuple[int, int]], sequence_ids: Sequence[int | None]
) -> list[int]:
    """1 for each token of a text that {% generation %} blocks wrote, else 0; a token that holds both sides counts.

    Args:
        spans: as `render_spans` gives them
        offsets, sequence_ids: of the text's `Encoding`
    """
    return [
        int(text is not None and any(start < right and left < max(end, start + 1) for left, right in spans))
        for (start, end), text in zip(offsets, sequence_ids, strict=True)
    ]


def render_all(source: str, conversation: Chat | Sequence[Chat], **options: Any) -> str | list[str]:
    """Render one conversation, or each of several; source, options, Raises: as `render`."""
    if are_several(conversation):
        return [render(source, chat, **options) for chat in cast("Sequence[Chat]", conversation)]
    return render(source, cast("Chat", conversation), **options)


@lru_cache(maxsize=1)
def _worker() -> Worker:
    from glassformer.text.sandbox import worker

    return worker()


def _values(source: str, chat: Chat, variables: Mapping[str, Any], add_generation_prompt: bool) -> dict[str, Any]:
    """What a template reads; `source`, `chat`, Raises: as `render`."""
    if not isinstance(source, str):
        raise DataError(f"a chat template is a text, got {type(source).__name__}: {source!r:.60}")
    if len(source) > MAX_TEMPLATE_LENGTH:
        raise DataError(f"the chat template has {len(source)} characters; at most {MAX_TEMPLATE_LENGTH} are allowed")
    values = {"tools": None, "documents": None, **variables}
    values = {name: _json_copy(value, name) for name, value in values.items()}
    return values | {"messages": _checked_messages(chat), "add_generation_prompt": add_generation_prompt}


def _rendered(request: dict[str, Any]) -> str:
    """The template's result, from the child process that is kept for templates."""
    from glassformer.files.child import ChildFailure

    try:
        answer: dict[str, str] = _worker().ask(request)
    except ChildFailure as failure:
        raise DataError(f"the chat template was stopped: {failure}") from failure
    except (ValueError, RecursionError) as problem:  # a number of too many digits
        raise DataError(f"the conversation cannot be given to the chat template: {problem}") from problem
    if "error" in answer:
        raise DataError(f"the chat template {answer['error']}")
    return answer["text"]


def _without_marks(text: str, marks: list[str]) -> tuple[str, list[tuple[int, int]]]:
    """The text without the marks, and the characters that were between them; of nested blocks the outermost."""
    opening, closing = marks
    parts, spans, length, depth, start = [], [], 0, 0, 0
    for part in re.split(f"({re.escape(opening)}|{re.escape(closing)})", text):
        if part == opening:
            start = length if depth == 0 else start
            depth += 1
        elif part == closing:
            depth -= 1
            spans += [(start, length)] if depth == 0 else []
        else:
            parts.append(part)
            length += len(part)
    if depth:
        raise DataError("the chat template leaves a {% generation %} block before its end, by break or continue")
    return "".join(parts), spans


def _checked_messages(chat: Chat) -> list[dict[str, Any]]:
    """A copy of the messages, without keys that are None.

    Raises: DataError: messages of the wrong shape.
    """
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
        copy = _json_copy(message, f"message {number}")
        messages.append({key: value for key, value in copy.items() if value is not None})
    return messages


def _json_copy(value: Any, path: str, depth: int = 0) -> Any:
    """A copy of JSON types alone, so that templates never see other objects.

    Raises: DataError: a value of another type, with its path; values in values in values, without an end.
    """
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    if depth > MAX_DEPTH:
        raise DataError(f"{path:.60}… is nested more than {MAX_DEPTH} deep; a conversation is not")
    if isinstance(value, Mapping):
        return {str(key): _json_copy(item, f"{path}[{key!r}]", depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_copy(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
    raise DataError(f"{path} is a {type(value).__name__}; it must be text, a number, a list or a mapping")


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
